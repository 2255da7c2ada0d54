"""Every default budget: how far a question is pursued before it gets a sound answer and a note.

Guarantee: no budget counts seconds, so an answer never depends on the machine. An operation of a budget takes about a
microsecond on the machine of CI; what takes longer weighs several operations. `benchmarks/budgets.py` exhausts the
budgets and shows that a question still takes less than a second of processor time.
"""

from __future__ import annotations

from typing import Final

# -- what a query may spend: the defaults of `intset.config.Config` ------------------------------------------------

ISL_OPERATIONS: Final = 60_000
"""isl's operations for one query."""
POINTS: Final = 40_000
"""Points of a box that one query may try."""
Z3_RLIMIT: Final = 2_000_000
"""z3's resource units for one question."""

# -- weights: how many operations one of isl's counts for ----------------------------------------------------------

EXTREMUM: Final = 16
"""Of a lexicographic extremum of a set with divisions: parametric integer programming."""
EXTREMUM_OF_LONG: Final = 32
"""The same with long numbers."""
DIVISIONS: Final = 16
"""Of writing quantified variables as divisions: parametric integer programming."""
GIST: Final = 8
"""Of a set with divisions simplified in a context."""
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
CACHED_ANSWERS: Final = 4096
"""`intset.frame`: answers that a scope keeps."""
REGION_PIECES: Final = 64
"""`intset.domains.sets.region`: disjoint pieces of a region."""
LISTED_SHAPE_POINTS: Final = 1000
"""`intset.domains.sets.answers`: Points that are listed as a shape of the domain, where it gives up on the formula."""
FEW_POINTS: Final = 400
"""`intset.domains.auto`: A box this small is enumerated in the time isl takes to set up."""
MEMBER_BRANCHES: Final = 512
"""`intset.domains.stride`: branches of the search for one member of a multi-stride set."""
ENUMERATED_NODES: Final = 64
"""`intset.domains.certified.enumeration`: nodes of a question; of longer ones fewer points are tried."""
WITNESS_AIMS: Final = 200
"""`intset.domains.certified.witness`: Subterms that one guess looks at."""

# -- of the dataflow of a nest -------------------------------------------------------------------------------------

REACHING: Final = 1_000_000
"""Operations for the writes that reach one read, and for what is made of them."""
DOUBTFUL_REACHING: Final = 600_000
"""The same where something is not certain, so that the answer is not either."""
INSTANCES: Final = 200_000
"""Operations for the instances at which a condition holds."""
DATAFLOW: Final = 700_000
"""Operations of a pass for all it asks of the dataflow together, in a short nest."""
DATAFLOW_PER_STATEMENT: Final = 10_000
"""Operations more for each statement of a nest."""
DATAFLOW_LEAST: Final = 5_000
"""Operations of one question to the dataflow, however many a pass has used before."""
BOUNDS_OF_ELEMENT: Final = 4
"""`lowering.dataflow.flow`: That are looked at for one element."""
VALUE_NODES: Final = 400
"""`lowering.dataflow.values`: Of a value that is written out."""
WAY_VISITS: Final = 4_000
"""`lowering.dataflow.accesses`: Of nodes of an operand, each once on each way to it."""

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

FEW_INSTANCES: Final = 16
"""`intset.domains.isl.instances`: Sooner counted one by one than in closed form."""
POINTS_PER_INSTANCE: Final = 100
"""`intset.domains.isl.instances`: Counting one instance costs about as much as visiting so many points."""
INSTANCE_VECTORS: Final = 10_000
"""`intset.domains.isl.instances`: Different numbers of points that are compared."""
LISTING: Final = 2_000_000
"""`intset.domains.isl.presburger`: operations for the set of points in a list."""
FRESH_TERMS: Final = 16
"""`intset.domains.isl.translate`: With more, what is left of the question is not worth isl's time."""
ISL_NESTING: Final = 6
"""`intset.domains.isl.translate`: Divisions nested deeper than this are relaxed: isl's time explodes there."""
SUMMED_PARTS: Final = 32
"""`intset.domains.isl.summation`: Parts that a set may fall into while it is summed."""
LATTICE_PIECES: Final = 6
"""`intset.domains.isl.to_expr`: A function of more pieces is not tried as a maximum of minima: n^3 emptiness tests."""
MERGED_PIECES: Final = 16
"""`intset.domains.isl.to_expr`: Of more pieces none is tried in the place of another: n^2 emptiness tests."""


# -- of maps of indices --------------------------------------------------------------------------------------------

LISTED_MAP_POINTS: Final = 4_096
"""`intset.itermap.listed`: Points of a box that are looked at one by one."""
MAP_SIZES_TRIED: Final = 200
"""`intset.itermap.general`: Values of sizes for which a map is listed."""
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
"""`bound.infer.answers.region`: Visited by one count."""
STAGE_PIECES: Final = 500_000
"""`bound.infer.answers.pieces`: Of the domain, for one stage."""
GUARDS: Final = 400_000
"""`bound.infer.phases.guards`: Of the domain, for one membership guard."""
IMPLIED_GUARDS: Final = 60_000
"""`bound.infer.phases.guards`: Of the domain, for one implication."""
SLIDE: Final = 1_000_000
"""`bound.infer.phases.slide`: Of the domain, for one difference."""
SLIDE_ENDS: Final = 300_000
"""`bound.infer.phases.slide`: For the ends of a difference."""
UNION: Final = 1_000_000
"""`bound.infer.phases.gather`: Of the domain, for one union."""
COMPACT: Final = 1_000_000
"""`bound.infer.storage.compact`: Of the domain, for one lattice."""
SHEAR: Final = 100_000
"""`bound.infer.storage.compact`: operations of the domain for one shear."""
SHEARS: Final = 4
"""`bound.infer.storage.compact`: shears of a storage, one after another."""
CIRCULAR: Final = 1_000_000
"""`bound.infer.storage.circular`: Of the domain, for one storage."""

# -- of passes, paddings and divisions -----------------------------------------------------------------------------

TRACE_STEPS: Final = 400_000
"""`lowering.padding.trace`: Nodes of operands that are evaluated."""
WORLDS: Final = 60_000
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
"""`lowering.passes.stores.overcompute`: Of trying fewer guards."""
KNOWN_CASES: Final = 16
"""`lowering.passes.stores.reaching_values`: Of what the elements in a condition may hold."""
