"""Integer-set analysis for tensor compilers.

Expressions denote mathematical integers. `//` and `%` are floor division and its remainder; `truncdiv` and `truncmod`
are C's. A fixed width is a question asked of an expression (`Context.fits`), never an assumption. A division by 0 has
no value: a simplified expression is equal wherever the original is defined, "proved" means true wherever defined, and
a counterexample is a defined point. `select`, `&` and `|` are lazy.

A set that is returned contains the true set, always. `is_exact`: proved equal to it; `is_tight`: both ends are
attained. Both speak of the parameter values for which the set is not empty.

>>> from intset import Context, Range, Var
>>> i, j = Var("i"), Var("j")
>>> ctx = Context({i: Range(0, 8), j: Range(0, 4)})
>>> ctx.bounds((i * 4 + j) // 7 % 3)
(0, 2)
"""

import sys

from intset.errors import is_command, show_in_one_line

if is_command():
    sys.excepthook = show_in_one_line

from importlib import import_module
from typing import TYPE_CHECKING, Any

from intset.config import Config, using
from intset.errors import (
    BudgetError,
    ContradictionWarning,
    CountError,
    DomainError,
    EvaluationError,
    InputError,
    IntSetError,
    MachineOverflowError,
    ParseError,
    PluginWarning,
    ShapeWarning,
    UndecidedError,
    UndefinedError,
)
from intset.expr import ops
from intset.expr.build import (
    FALSE,
    TRUE,
    Opaque,
    asserting,
    bounded,
    cast,
    ceildiv,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    nonneg,
    opaque,
    select,
    sum_of,
    truncdiv,
    truncmod,
)
from intset.expr.definedness import annotate_shapes
from intset.expr.evaluate import evaluate
from intset.expr.node import NEG_INF, POS_INF, Cond, Expr, ShapeVar, Var, const
from intset.expr.printer import show_by
from intset.expr.range import Range
from intset.expr.storage import core as core
from intset.facts import Fact
from intset.installation import warn_of_namesakes

if TYPE_CHECKING:
    __version__: str
    from intset.context import Context
    from intset.domains.registry import domain_names, register
    from intset.domains.sets.answers import Domain
    from intset.domains.sets.base import Bounds, IntervalSet, IntSet
    from intset.domains.sets.region import Region, Relation
    from intset.expr.convert import Converter, fold, from_json, to_json
    from intset.expr.parser import parse
    from intset.prover.proof import Proof
    from intset.simplify.engine import COST, cost
    from intset.spaces.axes import divisors
    from intset.spaces.space import Space
    from intset.sums import UpperBound, sum_over, upper_bound
    from intset.trace import Trace

_WHAT_ANSWERS = {
    "Context": "intset.context",
    **dict.fromkeys(("Bounds", "IntervalSet", "IntSet"), "intset.domains.sets.base"),
    "Domain": "intset.domains.sets.answers",
    "Space": "intset.spaces.space",
    "Trace": "intset.trace",
    **dict.fromkeys(("UpperBound", "sum_over", "upper_bound"), "intset.sums"),
    "divisors": "intset.spaces.axes",
    "Region": "intset.domains.sets.region",
    "Relation": "intset.domains.sets.region",
    **dict.fromkeys(("domain_names", "register"), "intset.domains.registry"),
    **dict.fromkeys(("Converter", "fold", "from_json", "to_json"), "intset.expr.convert"),
    "parse": "intset.expr.parser",
    "Proof": "intset.prover.proof",
    **dict.fromkeys(("COST", "cost"), "intset.simplify.engine"),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load names that answer questions on first use; `intset.check` never needs them."""
        if name == "__version__":
            return import_module("intset.installation").library_version()
        if name not in _WHAT_ANSWERS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_WHAT_ANSWERS[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_WHAT_ANSWERS})


__all__ = [
    "COST",
    "FALSE",
    "NEG_INF",
    "POS_INF",
    "TRUE",
    "Bounds",
    "BudgetError",
    "Cond",
    "Config",
    "Context",
    "ContradictionWarning",
    "Converter",
    "CountError",
    "Domain",
    "DomainError",
    "EvaluationError",
    "Expr",
    "Fact",
    "InputError",
    "IntSet",
    "IntSetError",
    "IntervalSet",
    "MachineOverflowError",
    "Opaque",
    "ParseError",
    "PluginWarning",
    "Proof",
    "Range",
    "Region",
    "Relation",
    "ShapeVar",
    "ShapeWarning",
    "Space",
    "Trace",
    "UndecidedError",
    "UndefinedError",
    "UpperBound",
    "Var",
    "annotate_shapes",
    "asserting",
    "bounded",
    "cast",
    "ceildiv",
    "const",
    "cost",
    "divisors",
    "domain_names",
    "evaluate",
    "floordiv",
    "floormod",
    "fold",
    "from_json",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "nonneg",
    "opaque",
    "ops",
    "parse",
    "register",
    "select",
    "sum_of",
    "sum_over",
    "to_json",
    "truncdiv",
    "truncmod",
    "upper_bound",
    "using",
]

show_by(lambda: import_module("intset.notebook"))
warn_of_namesakes()
