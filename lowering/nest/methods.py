"""The methods of statements that need modules above theirs: print. Set once, with the package."""

from lowering.nest.ir import ABOVE
from lowering.nest.printer import function_text, stmt_text

ABOVE.function_text = function_text
ABOVE.stmt_text = stmt_text
