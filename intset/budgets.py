"""The default budgets that several files share; one that a single file reads stands in that file.

Guarantee: no budget counts seconds. An operation of a budget takes about a microsecond on the machine of CI; what takes
longer weighs several. `benchmarks/budgets.py` exhausts the budgets: a question still takes less than a second.
"""

from typing import Final

CACHED_ANSWERS: Final = 4096  # answers that a scope keeps
FEW_POINTS: Final = 400  # a box this small is enumerated in the time isl takes to set up
FEW_OPERANDS: Final = 16  # divisors of one sign that are enumerated, for the best answer
SET_SHARE: Final = 4  # budget of one operation on a set, in multiples of a question's; counting gets two
REACHING: Final = 1_000_000  # operations for the writes that reach one read, and for their conditions
COUNTED_POINTS: Final = 20_000  # points that isl visits in one count
OPERATIONS_PER_POINT: Final = 16  # operations of isl for one visited point; measured: 1 to 14
COUNT_OPERATIONS: Final = 100_000  # operations of the analysis before the visits
SCANNED_POINTS: Final = 500  # visiting so few points is faster than a closed form
COUNTED_PARTS: Final = 16  # disjoint parts in a sum of counts
COUNTED_CONES: Final = 6_000  # cones of one closed count
REGION_POINTS: Final = 400_000  # visited by one count; also instances of tiles at one value of their sizes
STRENGTH_Z3: Final = 200_000  # z3's units for one question
FUSED_PAIRS: Final = 400  # pairs of accesses that two loops are compared by
OVERCOMPUTE_ROUNDS: Final = 8  # rounds of trying fewer guards; of a pass, until it changes nothing
LONGEST_VALUE: Final = 1 << 17  # bits of an intermediate value beyond which searches for points give up
EXPANDED_TERMS: Final = 16  # terms of a sum that is duplicated or searched for remainders
REGROUPED_REMAINDERS: Final = 8  # remainders regrouped in one form
RELAXED_DIVISORS: Final = 3  # divisors whose quotients are replaced by the ends of their rational values
VISITED_MONOMIALS: Final = 400  # monomials visited for one question, subquestions included
PRODUCT_DEGREE: Final = 32  # factors of a product; with more it stays one atom
COMPARED_OPERANDS: Final = 12  # operands of a chain that are compared pairwise; of a longer chain only neighbours are
SIMPLIFY_ROUNDS: Final = 8  # runs until a fixed point, so that simplify is idempotent
Z3_SHIFT: Final = 4_096  # largest exponent of a literal power of 2
SOLVER_RLIMIT: Final = 1_000_000  # z3's units where a caller names none: about 0.1 to 0.2 s
BITWISE_NODES: Final = 64  # nodes of an equation between bitwise expressions
CERTIFY_STEPS: Final = 4_000_000  # steps of one search for a certificate
CHECK_STEPS: Final = 1_500_000  # operations on short integers, each about half a microsecond, for one certificate
CHECK_BRANCH_NESTING: Final = 40  # branches within branches
SPACE_BLOCK: Final = 1 << 17  # candidates that one step of a join looks at together
SHOWN_NAME: Final = 120  # characters of a cell of a table
SHOWN_ROWS: Final = 40  # rows of a table
BIT_WIDTH: Final = 128  # bits of one term, and of a shift
TAIL_BITS: Final = 24  # bits of a variable without a constant end that are columns
