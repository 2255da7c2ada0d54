"""Loop nests: what a schedule becomes.

ir.py        the statements, `Function`, and `undef()`, an unknown value
printer.py   the text of a nest and of what its statements compute with; parser.py, operands.py read it back. Reports of
             passes, by the lines of the text
names.py     names in the text, and alpha-renaming
walk.py      walks without recursion: statements, operands, variables
driver.py    the driver of passes: rules by kind of statement
scope.py     what is known at a place of a nest, as a `Context`; the tensors in sight
"""

import lowering.nest.printer  # noqa: F401  # statements print themselves by means of modules above theirs
