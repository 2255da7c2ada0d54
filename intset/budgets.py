"""Every default budget: how far a question is pursued before it gets a sound answer and a note.

Guarantee: no budget counts seconds. An operation of a budget takes about a microsecond on the machine of CI; what takes
longer weighs several. `benchmarks/budgets.py` exhausts the budgets: a question still takes less than a second.
"""

from __future__ import annotations

from typing import Final

# -- what a query may spend: the defaults of `intset.config.Config` ------------------------------------------------

ISL_OPERATIONS: Final = 60_000  # isl's operations for one query
POINTS: Final = 40_000  # Points of a box that one query may try
FAST_POINTS: Final = 2_048  # the same with effort="fast": a block
Z3_RLIMIT: Final = 2_000_000  # z3's resource units for one question

# -- weights: how many operations one of isl's counts for ----------------------------------------------------------

EXTREMUM: Final = 16
"""Of a lexicographic extremum of a set with divisions: parametric integer programming."""
EXTREMUM_OF_LONG: Final = 32  # the same with long numbers
DIVISIONS: Final = 16
"""Of writing quantified variables as divisions: parametric integer programming."""
GIST_OPERATIONS: Final = 10_000
"""Operations of dropping the implied constraints of one set with divisions, whatever a question may spend."""
PIECEWISE_END: Final = 2
"""Of an end of a set as a function of parameters."""
INTEGER_PROGRAM: Final = 8
"""Of an end, a point or the emptiness of a set with divisions and long numbers: integer programming."""
PROGRAM_OPERATIONS: Final = 40_000
"""Operations of one integer program over a set with divisions, whatever a question may spend."""
DIFFERENCE: Final = 2
"""Of a difference of sets, which tests each part for emptiness."""

# -- of sets and bounds --------------------------------------------------------------------------------------------

ASCENT_EVALUATIONS: Final = 4_000
"""Points at which a chain of remainders is evaluated in search of one of its ends."""
ASCENT_VALUES: Final = 16
"""Values of one coordinate that such a search tries."""
BRANCHED_POINTS: Final = 6_000
"""Points that branch and bound visits for one end of a chain of remainders."""
CACHED_ANSWERS: Final = 4096  # `intset.frame`: answers that a scope keeps
REGION_PIECES: Final = 64  # `intset.domains.sets.region`: disjoint pieces of a region
SHAPE_POINTS: Final = 40_000
"""`intset.regions.shape`: points of a box, or instances, that one count enumerates."""
WRITTEN_POINTS: Final = 1000
"""`intset.regions.listed`: points in a condition, or converted to another domain."""
LISTED_SHAPE_POINTS: Final = 1000
"""`intset.domains.sets.answers`: Points that are listed as a shape of the domain, where it gives up on the formula."""
LINES: Final = 256
"""`intset.domains.certified.lines`: lines, and points on them, that are tried for one end."""
LINE_VARIABLES: Final = 8
"""`intset.domains.certified.lines`: variables of a question with lines."""
POLYNOMIAL_STEPS: Final = 512
"""`intset.linear.polynomial`: points around which a polynomial in one variable is written in search of an extremum."""
FEW_POINTS: Final = 400
"""`intset.domains.auto`: A box this small is enumerated in the time isl takes to set up."""
MEMBER_BRANCHES: Final = 512
"""`intset.domains.stride`: branches of the search for one member of a multi-stride set."""
MEMBER_SUMS: Final = 10_000
"""`intset.arithmetic.multistride`: partial sums of a membership search."""
MEMBER_BITS: Final = 1 << 20
"""`intset.arithmetic.multistride`: bits of a bitmap that counts or compares elements."""
FEW_OPERANDS: Final = 16
"""`intset.arithmetic.strided`: divisors of one sign that are taken one by one, for the best answer."""
STRUCTURE_NESTING: Final = 8
"""`intset.domains.certified.structure`: nesting of terms beyond which no end is certified."""
SET_SHARE: Final = 4
"""`intset.domains.sets.bounds`: budget of one operation on a set, in multiples of a question's; counting gets two."""
ENUMERATED_NODES: Final = 64
"""`intset.domains.certified.enumeration`: nodes of a question; of longer ones fewer points are tried."""
REPAIR_EVALUATIONS: Final = 3_000
"""`intset.domains.certified.repair`: Conditions evaluated in one search for a point."""
REPAIR_REACH: Final = 65
"""`intset.domains.certified.repair`: Steps from the value of a size to the last one that is tried."""
REPAIR_SIZES: Final = 64
"""`intset.domains.certified.repair`: Sizes of one search."""
WITNESS_AIMS: Final = 200
"""`intset.domains.certified.witness`: Subterms that one guess looks at."""

# -- of the dataflow of a nest -------------------------------------------------------------------------------------

REACHING: Final = 1_000_000
"""Operations for the writes that reach one read, and for what is made of them."""
DOUBTFUL_REACHING: Final = 600_000
"""The same where something is not certain, so that the answer is not either."""
DEPENDENCE: Final = 1_000_000
"""Operations for the meetings of two accesses."""
INSTANCES: Final = 200_000
"""Operations for the instances at which a condition holds."""
DATAFLOW: Final = 700_000
"""Operations of a pass for all it asks of the dataflow together, in a short nest."""
DATAFLOW_PER_STATEMENT: Final = 10_000
"""Operations more for each statement of a nest."""
DATAFLOW_LEAST: Final = 5_000
"""Operations of one question to the dataflow, however many a pass has used before."""
BOUNDS_OF_ELEMENT: Final = 4
"""`lowering.dataflow.flow`: assumed bounds that are considered for one element."""
VALUE_NODES: Final = 400
"""`lowering.dataflow.reaching`: nodes of a value that is written out."""
VALUE_CHAIN: Final = 8
"""`lowering.dataflow.reaching`: nested reads of a value that are replaced by their contents."""
GUARD_VISITS: Final = 4_000
"""`lowering.dataflow.accesses`: nodes of an operand, each once under each guard."""
ACCESS_GUARDS: Final = 8
"""`lowering.dataflow.accesses`: guards of one element that are told apart."""

# -- of the prover -------------------------------------------------------------------------------------------------

MISSING_NODES: Final = 200
"""Nodes of a goal for which a missing fact is searched."""
MISSING_FACTS: Final = 40
"""Facts that the search for a missing one proposes."""
MISSING_PAIRS: Final = 80
"""Pairs of them that it tries."""
MISSING_WORK: Final = 8_000
"""Facts and pairs that it tries, times the square of the goal's nodes: what a proof takes."""
MISSING_Z3: Final = 50_000
"""z3's resource units for each of its proofs."""
MISSING_ISL: Final = 4_000
"""isl's operations for each of its proofs."""
PIVOT_STEPS: Final = 400_000
"""`intset.prover.combination`: Of the pivots of one system."""
COMBINED_MONOMIALS: Final = 2_000
"""`intset.prover.combination`: monomials of all premises of one system."""
CERTIFY_SOON: Final = 100_000
"""`intset.prover.certify`: Steps in which most combinations are found."""
CERTIFY_SOON_LINEAR: Final = 1_000_000
"""`intset.prover.certify`: Where the linear form has decided, so that there is one."""
Z3_EFFORT: Final = 32
"""`intset.prover.tiers`: On more, z3 spends seconds that its units do not count."""
Z3_NESTING: Final = 16
"""`intset.prover.tiers`: Of divisions; where there are more, z3's units take longer, and it gets fewer."""
Z3_FACTS_EFFORT: Final = 96
"""`intset.prover.tiers`: Facts beyond are not told: what follows from fewer follows."""
CORE_Z3: Final = 20_000
"""`intset.prover.smt`: z3's units for leaving one fact out of a proof."""
EXPLAINED_DIVISIONS: Final = 8
"""`intset.prover.explain`: Of an expression are looked at."""
CASES: Final = 12
"""`intset.prover.cases`: So many are looked at for one goal."""

# -- of what isl is asked ------------------------------------------------------------------------------------------

COUNTED_POINTS: Final = 20_000
"""`intset.domains.isl.count`: points that isl visits in one count."""
OPERATIONS_PER_POINT: Final = 16
"""Operations of isl for one visited point; measured: 1 to 14."""
COUNT_OPERATIONS: Final = 100_000
"""`intset.domains.isl.count`: operations of the analysis before the visits."""
SCANNED_POINTS: Final = 500
"""`intset.domains.isl.count`: visiting so few points is faster than a closed form."""
OVERLAPPING_PARTS: Final = 3
"""`intset.domains.isl.count`: parts of a union that are counted by inclusion and exclusion."""
COUNTED_PARTS: Final = 16
"""`intset.domains.isl.count`: disjoint parts in a sum of counts."""
TOTAL_NODES: Final = 2_000
"""`bound.infer.answers.region`: nodes of a closed total; a longer one is a numeric function."""
FORM_OPERATIONS: Final = 200_000
"""`intset.domains.isl.count`: operations of isl for one closed count."""
COUNTED_CONES: Final = 3_000
"""`intset.domains.isl.cones`: cones of one closed count."""
NUMBER_CONES: Final = 200
"""`intset.domains.isl.count`: the same for a number; a scan follows beyond."""
COUNTED_VERTICES: Final = 20_000
"""`intset.domains.isl.cones`: choices of as many inequalities as there are dimensions."""
COUNTED_DIMENSIONS: Final = 8
"""`intset.domains.isl.cones`: dimensions of one polyhedron, divisions included, without equalities."""
COUNTED_NODES: Final = 20_000
"""`intset.domains.isl.count`: nodes of a closed count by cones."""
BERNSTEIN_CASES: Final = 64
"""`intset.domains.isl.bernstein`: cases of one count."""
BERNSTEIN_PIECES: Final = 64
"""`intset.domains.isl.bernstein`: sets of sizes with a bound of their own."""
BERNSTEIN_COEFFICIENTS: Final = 3_000
"""`intset.domains.isl.bernstein`: coefficients of one polynomial over one polytope."""
COMPARED_BOUNDS: Final = 8
"""`intset.sums`: bounds that are compared with one another."""
DIVISIBILITY_POINTS: Final = 4_096
"""`intset.domains.isl.bernstein`: points of one period at which a division is tried to be exact."""
CHECKED_VALUES: Final = 16
"""`intset.domains.isl.count`: values of the parameters at which a closed count is compared with a number."""
CHECKED_GRID: Final = 300
"""`intset.domains.isl.count`: drawn values of the parameters among which values in a chamber are looked for."""
CHECKED_POINTS: Final = 2_000
"""`intset.domains.isl.count`: points that one such number may visit."""
OVERLAPPING_PIECES: Final = 4
"""`intset.domains.isl.hulls`: examined sets for each piece of a partition."""
PIECE_VALUES: Final = 64
"""`intset.domains.isl.hulls`: values of a quotient or remainder by which a piece is split."""
FEW_INSTANCES: Final = 16
"""`intset.domains.isl.instances`: Sooner counted one by one than in closed form."""
POINTS_PER_INSTANCE: Final = 100
"""`intset.domains.isl.instances`: Counting one instance costs about as much as visiting so many points."""
INSTANCE_VECTORS: Final = 10_000
"""`intset.domains.isl.instances`: Different numbers of points that are compared."""
PLAINER_END: Final = 60_000
"""`intset.domains.isl.presburger`: operations for an end without the constraints that declared bounds imply."""
LISTING: Final = 2_000_000
"""`intset.domains.isl.presburger`: operations for the set of points in a list."""
FRESH_TERMS: Final = 16
"""`intset.domains.isl.translate`: With more, what is left of the question is not worth isl's time."""
ISL_NESTING: Final = 6
"""`intset.domains.isl.translate`: Divisions nested deeper than this are relaxed: isl's time explodes there."""
LATTICE_PIECES: Final = 6
"""`intset.domains.isl.to_expr`: A function of more pieces is not tried as a maximum of minima: n^3 emptiness tests."""
MERGED_PIECES: Final = 16
"""`intset.domains.isl.to_expr`: Of more pieces none is tried in the place of another: n^2 emptiness tests."""

# -- of maps of indices --------------------------------------------------------------------------------------------

LISTED_MAP_POINTS: Final = 4_096
"""`intset.itermap.general`: Points of a box that are looked at one by one."""
MAP_SIZES_TRIED: Final = 200
"""`intset.itermap.general`: Values of sizes for which a map is listed."""
INDEX_TERMS: Final = 32
"""`intset.itermap.structure`: terms of one index."""
INDEX_NODES: Final = 2_000
"""`intset.itermap.structure`: Of the index expressions together."""

# -- of bounds of schedules ----------------------------------------------------------------------------------------

EXTENTS: Final = 200_000
"""`bound.infer.footprints.extents`: Of the domain, for one dimension."""
SCHEDULE: Final = 1_000_000
"""Operations of the domain for all steps of InferBound together, in a short schedule."""
SCHEDULE_PER_STAGE: Final = 150_000
"""Operations more for each stage of a schedule."""
SCHEDULE_LEAST: Final = 10_000
"""`bound.infer.footprints.environment`: Granted to every step, even when the account is spent."""
FOOTPRINT: Final = 1_000_000
"""`bound.infer.footprints.footprint`: Of the domain, for one question."""
FOOTPRINT_ENDS: Final = 2_000_000
"""`bound.infer.footprints.footprint`: For the ends of one region."""
FOOTPRINT_SHAPE: Final = 300_000
"""`bound.infer.footprints.footprint`: For a box whose ends are not affine."""
CONDITION_SHARE: Final = 16
"""`bound.infer.footprints.footprint`: Share of a query's operations, for one membership condition."""
OUTSIDE: Final = 200_000
"""`bound.infer.answers.outside`: Of the domain, for one condition."""
REGION_POINTS: Final = 400_000
"""`bound.infer.answers.region`: Visited by one count; also instances of tiles at one value of their sizes."""
STAGE_PIECES: Final = 500_000
"""`bound.infer.answers.pieces`: Of the domain, for one stage."""
GUARDS: Final = 400_000
"""`bound.infer.phases.guards`: Of the domain, for one membership guard."""
IMPLIED_GUARDS: Final = 60_000
"""`bound.infer.phases.guards`: Of the domain, for one implication."""
CONTRADICTED_GUARDS: Final = 10_000
"""`bound.infer.phases.guards`: Of the domain, for a contradiction with products as variables."""
MIXED_INSTANCES: Final = 256
"""`bound.infer.phases.guards`: Iterations tried in search of ones that violate each of the guards of a nest alone."""
SLIDE: Final = 1_000_000
"""`bound.infer.phases.gather`: Of the domain, for one difference."""
SLIDE_ENDS: Final = 300_000
"""`bound.infer.phases.gather`: For the ends of a difference."""
UNION: Final = 1_000_000
"""`bound.infer.phases.gather`: Of the domain, for one union."""
COMPACT: Final = 1_000_000
"""`bound.infer.answers.compact`: Of the domain, for one lattice."""
SHEAR: Final = 100_000
"""`bound.infer.answers.compact`: operations of the domain for one shear."""
SHEARS: Final = 4
"""`bound.infer.answers.compact`: shears of a storage, one after another."""
CIRCULAR: Final = 1_000_000
"""`bound.infer.answers.storage`: Of the domain, for one storage."""

# -- of passes, paddings and divisions -----------------------------------------------------------------------------

TRACE_STEPS: Final = 400_000
"""`lowering.padding.concrete`: Nodes of operands that are evaluated."""
SEARCH_STATES: Final = 60_000
"""`lowering.padding.planner`: That are looked at."""
DIVISION_Z3: Final = 100_000
"""`lowering.division.scope`: Lowering asks many small questions: each gets a small share."""
DIVISION_ISL: Final = 6_000
"""`lowering.division.scope`: isl's operations for each of them."""
STRENGTH_Z3: Final = 200_000
"""`lowering.passes.loops.strength_reduction`: z3's units for one question."""
FUSED_PAIRS: Final = 400
"""`lowering.passes.loops.fusion`: Of accesses that two loops are compared by."""
NO_OP_ROUNDS: Final = 6
"""`lowering.passes.stores.dead_code`: Of removing what what was removed made dead."""
OVERCOMPUTE_ROUNDS: Final = 8
"""`lowering.passes.stores.overcompute`: Of trying fewer guards; `fixpoint`: of a pass, until it changes nothing."""
KNOWN_CASES: Final = 16
"""`lowering.passes.stores.reaching_values`: Of what the elements in a condition may hold."""

# -- of expressions ------------------------------------------------------------------------------------------------
LONGEST_VALUE: Final = 1 << 17
"""`intset.expr.evaluate`: Bits of an intermediate value beyond which searches for points give up."""

# -- of linear forms -----------------------------------------------------------------------------------------------
FORM_TREE_STEPS: Final = 128
"""`intset.linear.form`: Nodes of a tree that are compared before a shared walk takes over."""
QUOTIENT_TERMS: Final = 24
"""`intset.linear.division`: Terms of an exact quotient."""
EXPANDED_TERMS: Final = 16
"""`intset.linear.division`: Terms of a sum that is duplicated or searched for remainders."""
REGROUPED_REMAINDERS: Final = 8
"""`intset.linear.division`: Remainders regrouped in one form."""
MASK_RUNS: Final = 4
"""`intset.linear.operations`: Runs of ones in a mask that becomes remainders."""
LINEAR_SHIFT: Final = 4_096
"""`intset.linear.operations`: Bits of a shift that becomes a product or quotient."""
SIGN_SPLITS: Final = 3
"""`intset.linear.symbolic`: Nested case splits on coefficients of unknown sign."""
ELIMINATION_STEPS: Final = 40
"""`intset.linear.symbolic`: Variables replaced by an end of their range, one after another."""
CONSULTED_FACTS: Final = 3
"""`intset.linear.signs`: Nested uses of facts: a fact may contain the term whose sign it helps to derive."""
FACT_CHAIN: Final = 3
"""`intset.linear.signs`: Facts that are added up for one sign, as in `a < b`, `b < c`, `c < d`."""
RELAXED_DIVISORS: Final = 3
"""`intset.linear.signs`: Divisors whose quotients are replaced by the ends of their rational values."""
DERIVED_SIGNS: Final = 4
"""`intset.linear.signs`: Nested derivations of signs."""
DRAWN_MEMBERS: Final = 12
"""`intset.linear.members`: Points that are drawn for a scope of which no regular one is a point."""
MEMBERS: Final = 12
"""`intset.linear.members`: Points of a scope at which a sign is refuted before it is derived."""
SYMBOLIC_NESTING: Final = 6
"""`intset.linear.symbolic`: Nesting beyond which atoms give their numeric ends."""
NESTED_BUDGETS: Final = 3
"""`intset.linear.symbolic`: Nested blocks of `own_budget`."""
VISITED_MONOMIALS: Final = 400
"""`intset.linear.symbolic`: Monomials visited for one question, subquestions included."""
PRODUCT_TERMS: Final = 24
"""`intset.linear.canonical`: Terms of a product; with more it stays one atom."""
PRODUCT_DEGREE: Final = 32
"""`intset.linear.canonical`: Factors of a product; with more it stays one atom."""
REWRITTEN_TERMS: Final = 128
"""`intset.linear.canonical`: Terms of a sum inside an atom; a longer one keeps its original text."""
REFINED_ARM: Final = 48
"""`intset.linear.canonical`: Nodes of a select whose arms are read under its condition; nested, a quarter."""
ELIMINATION_CASES: Final = 128
"""`intset.linear.elimination.systems`: Cases of one elimination."""
CONDITION_CASES: Final = 100
"""`intset.linear.elimination.cases`: Cases of one condition."""
TIGHTENING_ROUNDS: Final = 4
"""`intset.linear.assumptions`: Rounds of tightening ranges by facts; the result of every round is sound."""
EQUATED_SIZES: Final = 32
"""`intset.ranges`: Sizes that equations between them eliminate."""
COALESCED_SUMS: Final = 8
"""`intset.coalescing`: Sums of one question that become variables."""
RESIDUE_CLASSES: Final = 16
"""`bound.infer.footprints.largest`: residue classes of loops over which one extent is largest."""
BREAKPOINT_PIECES: Final = 8
"""`intset.linear.breakpoints`: Affine pieces of the minimum of several forms."""
MULTIPLE_CHAIN: Final = 4
"""`intset.linear.multiples`: Links of a chain of divisibilities, `k | m`, `m | n`, ..., in one division."""
MULTIPLE_TERMS: Final = 8
"""`intset.linear.multiples`: Terms of an equation that may state a divisibility."""
STATED_ENDS: Final = 4
"""`intset.ranges`: Facts used for one end of one variable; further ones stay facts."""
VARIABLE_CHANGES: Final = 400
"""`intset.solving`: Changes of variables for one system of equations."""

# -- of simplification ---------------------------------------------------------------------------------------------
FACTORED_TERMS: Final = 24
"""`intset.simplify.sums`: Terms of a sum that is factored."""
TRIED_FACTORS: Final = 64
"""`intset.simplify.sums`: Common factors that are tried."""
SAMPLE_POINTS: Final = 8
"""`intset.simplify.order`: Points at which a candidate is evaluated before it is proved."""
SAMPLE_TRIES: Final = 16
"""`intset.simplify.order`: Candidate points per context with facts."""
SAMPLED_NODES: Final = 200
"""`intset.simplify.order`: Nodes of an evaluated atom."""
SIMPLIFIED_ARM: Final = 48
"""`intset.simplify.choices`: Nodes of a select whose arms are read under its condition, a quarter a level."""
COMPARED_ARMS: Final = 16
"""`intset.simplify.choices`: Nodes of arms that are compared under the condition."""
COMPARED_OPERANDS: Final = 12
"""`intset.simplify.choices`: Operands of a chain that are compared pairwise; of a longer chain only neighbours are."""
REWRITTEN_SUM: Final = 16
"""`intset.simplify.sum_rewrites`: Terms of a sum with candidates."""
PATTERN_VARIANTS: Final = 64
"""`intset.simplify.pattern`: Orders of operands that a pattern is tried on."""
FOLDED_SHIFT: Final = 4_096
"""`intset.simplify.pattern`: Bits of a shift that is folded."""
ORDER_FORMS: Final = 32
"""`intset.simplify.order`: Linear forms examined per comparison."""
ORDER_NESTING: Final = 6
"""`intset.simplify.order`: Successive replacements of atoms."""
ORDER_FACTS: Final = 8
"""`intset.simplify.order`: Facts taken from a form."""
ORDER_TERMS: Final = 8
"""`intset.simplify.order`: Terms of a form whose atoms are replaced."""
JUNCTION_PARTS: Final = 12
"""`intset.simplify.conditions`: Parts of a junction compared pairwise."""
NARROWED_NODES: Final = 60
"""`intset.simplify.conditions`: Nodes of a junction whose parts are simplified under one another."""
ENUMERATED_VALUES: Final = 16
"""`intset.simplify.conditions`: Values of a variable that are enumerated."""
NESTED_NARROWING: Final = 3
"""`intset.simplify.conditions`: Nested narrowings of a normalizer."""
SUMMED_INEQUALITIES: Final = 64
"""`intset.simplify.conditions`: Sums of inequalities that are tried."""
ADDED_INEQUALITIES: Final = 4
"""`intset.simplify.conditions`: Inequalities in one sum."""
COMPARED_STEPS: Final = 8
"""`intset.simplify.engine`: Old steps compared with a new step."""
SIMPLIFY_ROUNDS: Final = 8
"""`intset.simplify.engine`: Runs until a fixed point, so that simplify is idempotent."""
SIMPLIFY_STEPS: Final = 4_000
"""`intset.simplify.engine`: Pairs of a node and a normalizer that are simplified."""
SIMPLIFIED_NODES: Final = 300
"""`intset.simplify.engine`: Nodes of a graph; a larger one is replaced by its linear form or stays unchanged."""
TIE_OPERATIONS: Final = 40
"""`intset.simplify.engine`: Operations of candidates whose ties are broken by text."""
CANONICAL_OPERATIONS: Final = 64
"""`intset.simplify.engine`: Operations of nodes whose linear form is a candidate."""
NESTED_CANDIDATES: Final = 6
"""`intset.simplify.engine`: Nested simplifications of candidates."""
SHAPE_TERMS: Final = 12
"""`intset.simplify.shapes`: Terms of a sum, and parts of a junction, of which a shape is drawn."""
SHAPE_NESTING: Final = 6
"""`intset.simplify.shapes`: Divisions within one another of which a shape is drawn."""

# -- of the prover -------------------------------------------------------------------------------------------------
KNOWN_POINTS: Final = 12  # `intset.adapters.decisions`: points of a context, kept for later conditions
CACHED_PROOFS: Final = 4_096  # `intset.prover.proof`: Proofs shared by all contexts
SYSTEM_BITS: Final = 1 << 13  # `intset.prover.combination`: Total length of all coefficients of a system
SMALL_SYSTEM_BITS: Final = 1 << 18
"""`intset.prover.combination`: The same for systems of few columns."""
COMBINED_NODES: Final = 400
"""`intset.prover.combination`: Nodes of a goal for which premises are combined."""
ENTRY_STEPS: Final = 2
"""`intset.prover.combination`: Steps charged per entry of a system."""
COMBINED_CASES: Final = 24
"""`intset.prover.combination`: Cases of one goal."""
COMBINED_SPLITS: Final = 8
"""`intset.prover.combination`: Nested splits of one goal."""
Z3_NODES: Final = 20_000
"""`intset.prover.smt_encode`: Nodes of a question to z3."""
Z3_DEPTH: Final = 1_500
"""`intset.prover.smt_encode`: Nesting of a question to z3, which recurses."""
Z3_DEGREE: Final = 24
"""`intset.prover.smt_encode`: Degree of a product."""
Z3_DEGREE_DIVIDED: Final = 8
"""`intset.prover.smt_encode`: The same where anything is divided by a term: z3 multiplies it out, uncounted."""
Z3_CONSTANT_BITS: Final = 1 << 16
"""`intset.prover.smt_encode`: Bits of a constant."""
Z3_SHIFT: Final = 4_096
"""`intset.prover.smt_encode`: Largest exponent of a literal power of 2."""
Z3_TABLE: Final = 64
"""`intset.prover.smt_encode`: Table entries of a shift by a variable."""
Z3_MASK_RUNS: Final = 16
"""`intset.prover.smt_encode`: Runs of ones in an arithmetically encoded mask."""
Z3_WIDTH: Final = 64
"""`intset.prover.smt_encode`: Bits of the bit-vectors that define `&`."""
Z3_MODELS: Final = 10
"""`intset.prover.smt`: Models examined per query."""
Z3_CHEAP_MODELS: Final = 3
"""`intset.prover.smt`: Models examined before definitions of bit operations are asserted."""
CORE_TRIALS: Final = 16
"""`intset.prover.smt`: Deletion attempts per core."""
SOLVER_RLIMIT: Final = 1_000_000
"""`intset.prover.z3_solver`: z3's units where a caller names none: about 0.1 to 0.2 s."""
BITWISE_NODES: Final = 64
"""`intset.prover.tiers`: Nodes of an equation between bitwise expressions."""
CERTIFY_STEPS: Final = 4_000_000
"""`intset.prover.certify`: Steps of one search for a certificate."""
GENERALIZED_WITNESSES: Final = 24
"""`intset.prover.certify_bounds`: Generalized witnesses per end."""
BANNED_REPLACEMENTS: Final = 12
"""`intset.prover.simplify_steps`: Reruns that ban unproved replacements."""
CASE_NODES: Final = 96
"""`intset.prover.cases`: Nodes of a goal that is split into cases."""
CASE_NESTING: Final = 4
"""`intset.prover.cases`: Comparisons assumed together."""

# -- of the checker of certificates --------------------------------------------------------------------------------
CHECK_STEPS: Final = 1_500_000
"""`intset.check.premises`: Operations on short integers, each about half a microsecond, for one certificate."""
CHECK_STEPS_PER_ISL_OPERATION: Final = 3
"""`intset.check.premises`: Steps that one of isl's operations takes."""
CHECK_Z3_UNITS_PER_STEP: Final = 4  # `intset.check.premises`: z3's resource units that take one step
CHECK_CASES: Final = 64  # `intset.check.premises`: Cases of one premise
CHECK_BRANCH_NESTING: Final = 40  # `intset.check.evidence`: Branches within branches
CHECK_ISL_TEXT: Final = 60_000  # `intset.check.isl_text`: Characters of a text for isl
CHECK_ISL_BITS: Final = 8_192  # `intset.check.isl_text`: Bits of a constant for isl
CHECK_Z3_NODES: Final = 20_000  # `intset.check.smt_text`: Nodes of a formula for z3
CHECK_Z3_DEPTH: Final = 1_000  # `intset.check.smt_text`: Nesting of a formula; beyond, z3 may overflow its stack
CHECK_Z3_BITS: Final = 8_192  # `intset.check.smt_text`: Bits of a constant for z3
CHECK_Z3_EFFORT: Final = 48
"""`intset.check.smt_text`: Products and divisions of two terms; beyond, z3 may not heed its limit."""
CHECK_Z3_DEGREE: Final = 64  # `intset.check.smt_text`: Degree of products; z3 expands them outside its limit
CHECK_Z3_SHIFT: Final = 4_096  # `intset.check.smt_text`: Largest exponent of a literal power of 2
CHECK_Z3_WIDTH: Final = 64  # `intset.check.smt_text`: Bits of the window on which `&` is defined
CHECK_Z3_TABLE: Final = 64  # `intset.check.smt_text`: Powers of 2 in a table
CHECK_Z3_MASK_RUNS: Final = 16  # `intset.check.smt_text`: Runs of ones in an arithmetically encoded mask
CHECK_NAME: Final = 10_000  # `intset.check.text`: Characters of a name
CHECK_BRANCHES: Final = 200  # `intset.check.evidence`: Branches of one combination
CHECK_FACTORS: Final = 4  # `intset.check.evidence`: Premises per product
CHECK_SHIFT: Final = 4_096  # `intset.check.polynomials`: Bits of a shift that is multiplied out
CHECK_MONOMIALS: Final = 40_000  # `intset.check.polynomials`: Monomials of one product before like terms combine
CHECK_CONJUNCTIONS: Final = 64
"""`intset.check.polynomials`: Conjunctions of one bitwise expression before like terms combine."""
CHECK_POINTS: Final = 1_000_000  # `intset.check.premises`: Points of a box
CHECK_CHARACTERS: Final = 2_000  # `intset.check.__main__`: Characters of one expression that the command prints
SPACE_MEMORY: Final = 256 << 20
"""`intset.spaces`: bytes that the members of a space may take; beyond it they are made anew each time they are read."""
SPACE_VALUES: Final = 1 << 22  # of one name
SPACE_CANDIDATES: Final = 1 << 31  # that one question tries, some 10 ns each
SPACE_SOON: Final = 1 << 24  # candidates that are tried to list some members; beyond, the values of a name are divided
SPACE_BLOCK: Final = 1 << 17
"""`intset.spaces`: candidates that one step of a join looks at together."""
STORED_BYTES: Final = 256 << 20
"""`intset.cache`: bytes of a cache on disk; beyond it the older half of the answers goes."""

# -- of what notebooks and traces show: characters, rows, operations, not exactness ---------------------------------

LATEX_LENGTH: Final = 1_000  # `intset.expr.dialects`: characters of the operands of one operation; beyond: elided
LATEX_NAME: Final = 60  # `intset.expr.dialects`: characters of a name
LATEX_BITS: Final = 256  # `intset.expr.dialects`: bits of a constant with all its digits
SHOWN_TEXT: Final = 2_000  # `intset.notebook`: characters of a text
SHOWN_NAME: Final = 120  # `intset.notebook`: characters of a cell of a table
SHOWN_ROWS: Final = 40  # `intset.notebook`: rows of a table
SHOWN_NODES: Final = 1_000  # `intset.notebook`: nodes of an expression that is counted or proved again to be shown
SHOWN_LINES: Final = 400  # `lowering.notebook`: lines of a nest
DRAWN_BLOCKS: Final = 4_096  # `intset.notebook`: cells of a picture of a set
DRAWN_LENGTH: Final = 1_200  # `intset.domains.sets.elements`: of them along one axis
DRAWN_OPERATIONS: Final = 1_000_000  # `intset.notebook`: of the domain, for one picture
TRACED_RECORDS: Final = 10_000  # `intset.trace`: records that one trace keeps
TRACED_REFUSALS: Final = 8  # `intset.trace`: refusals of one tier

BIT_WIDTH: Final = 128
"""`intset.linear.bitforms`: bits of one term, and of a shift."""
TAIL_BITS: Final = 24
"""`intset.linear.bitforms`: bits of a variable without a constant end that are columns."""
