"""The methods of nodes that need a walk over nodes: print, pickle, substitute, value. Set once, with the package."""

from intset.expr.evaluate import settled
from intset.expr.intern import ABOVE
from intset.expr.printer import to_text
from intset.expr.walk import flatten, leaf_vars, rebuild, substitute

ABOVE.flatten = flatten
ABOVE.free_vars = leaf_vars
ABOVE.rebuild = rebuild
ABOVE.settled = settled
ABOVE.substitute = substitute
ABOVE.text = to_text
