"""Loop nests: what a schedule becomes.

ir.py        the statements, and `Function`
printer.py   the text of a nest
text.py      the text of what statements compute with
walk.py      passes over nests: a driver without recursion, operands, variables
scope.py     what is known at a place of a nest, as a `Context`
"""

import lowering.nest.methods  # noqa: F401  # statements print themselves by means of modules above theirs
