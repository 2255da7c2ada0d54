"""Which fact would suffice: a small search, every answer of which is verified by proving the goal with it.

Tried are, alone and then in pairs: signs of variables, divisors that are not 0, bounds of one variable by a size or by
a product of two, and divisions without remainder. A fact is proposed only where it leaves points to speak of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.config import using
from intset.expr import ops
from intset.expr.node import Cond, Expr, ShapeVar, Var, constant_value
from intset.expr.printer import to_text
from intset.expr.walk import free_vars, is_small, postorder, without_assertions

if TYPE_CHECKING:
    from intset.context import Context

MAX_NODES: Final = 200  # of larger goals nothing is searched
MAX_FACTS: Final = 40
MAX_PAIRS: Final = 80
RLIMIT: Final = 100_000


class Missing(NamedTuple):
    """Facts with which a goal is proved, none of which can be left out, and the ways to state each."""

    facts: tuple[Cond, ...]

    def words(self) -> tuple[str, ...]:
        together = " and ".join(to_text(fact, limit=200) for fact in self.facts)
        lines = [f"It would be proved if {together} were known."]
        for fact in self.facts:
            ways = ways_to_state(fact)
            lines.append(f"To state {to_text(fact, limit=200)}:")
            lines += [f"  {name}: {way}" for name, way in ways.items()]
        return tuple(lines)


def missing_for(ctx: Context, goal: Cond) -> Missing | None:
    """Facts with which `goal` would be proved in `ctx`; `None` when the search finds none, or nothing is missing."""
    if not is_small(MAX_NODES, (goal,)):
        return None
    goal = without_assertions(goal)
    facts = [fact for fact in itertools.islice(_candidates(goal, ctx), MAX_FACTS) if fact is not goal or _is_sign(fact)]
    with using(z3_rlimit=RLIMIT):
        if ctx.prove(goal):
            return None
        useful = [fact for fact in facts if not ctx.prove(fact) and not ctx.prove(~fact)]
        pairs = itertools.islice(itertools.combinations(useful, 2), MAX_PAIRS)
        for some in (*((fact,) for fact in useful), *pairs):
            proof = ctx.extended(facts=some).prove(goal)
            if proof and not proof.vacuous:
                return Missing(some)
    return None


def _candidates(goal: Cond, ctx: Context) -> Iterator[Cond]:
    """Facts of the kinds that users can state, the most common first."""
    variables = list(dict.fromkeys((*free_vars(goal), *_sizes(goal, ctx))))
    divided = [node for node in postorder((goal,)) if node.op in ops.DIVISIONS]
    sizes = [var for var in variables if isinstance(var, ShapeVar) or any(var is node.args[1] for node in divided)]
    found: dict[Cond, None] = dict.fromkeys(var >= 0 for var in variables)
    found.update(dict.fromkeys(var >= 1 for var in variables))
    found.update(dict.fromkeys(node.args[1].ne(0) for node in divided if constant_value(node.args[1]) is None))
    found.update(dict.fromkeys((a % b).eq(0) for node in divided for a, b in [node.args]))
    limits = [*(a * b for a, b in itertools.combinations_with_replacement(sizes, 2)), *sizes]  # the weaker first
    free = [var for var in variables if var not in sizes]
    found.update(dict.fromkeys(var < limit for var in free for limit in limits))
    found.update(dict.fromkeys(a <= b for a, b in itertools.permutations(sizes, 2)))
    yield from found


def _is_sign(fact: Cond) -> bool:
    return fact.op is ops.GE and isinstance(fact.args[0], Var)


def _sizes(goal: Cond, ctx: Context) -> Iterable[Var]:
    """The variables that the ranges of those in the goal speak of."""
    for var in free_vars(goal):
        if var in ctx.ranges:
            yield from ctx.ranges[var].free_vars()


def ways_to_state(fact: Cond) -> dict[str, str]:
    """How to make a fact known, in each of the ways there are: asserted, embedded, declared, annotated.

    >>> ways_to_state(Var("n") >= 0)["declared"]
    "ShapeVar('n')"
    """
    text = to_text(fact, limit=200)
    var, embedded, declared, claim = _forms(fact)
    where = f"assert {text} above the loop"
    if declared is not None and fact.op is ops.GE:
        where += f"; binding an array whose shape has {var} does" if declared == f"ShapeVar({var!r})" else ""
    ways = {"asserted": f"{where} (in a context, Fact({text}, 'asserted'))", "embedded": embedded}
    if declared is not None:
        ways["declared"] = declared
    ways["annotated"] = f"annotate_shapes(e, {claim})"
    return ways | {"assumed": f"Context(..., assume=[{text}]), which then shows in requires"}


def _forms(fact: Cond) -> tuple[str, str, str | None, str]:
    """The name of the variable that the fact is about, and how to embed, declare and annotate it."""
    text = to_text(fact, limit=200)
    left, right = fact.args if fact.op in ops.COMPARISONS else (fact, fact)
    if isinstance(left, Var):
        name, k = left.name, constant_value(right) if isinstance(right, Expr) else None
        if fact.op is ops.GE and k == 0:
            return name, f"nonneg({name})", f"ShapeVar({name!r})", name
        if fact.op is ops.GE and k is not None:
            return name, f"bounded({name}, {k})", f"ShapeVar({name!r}, lower={k})", f"{{{name}: ({k}, None)}}"
        if fact.op is ops.LE and k is not None:
            return name, f"bounded({name}, None, {k})", f"ShapeVar({name!r}, upper={k})", f"{{{name}: (None, {k})}}"
        asserting = f"asserting({text}, {name})"
        if fact.op is ops.NE:
            return name, asserting, f"ShapeVar({name!r}, lower=1), if it is a size", f"{{{name}: {text}}}"
        range_of = f"Range(0, {to_text(right, limit=200)}) as the range of {name}, if it is not negative"
        return name, asserting, range_of if fact.op is ops.LT else None, f"{{{name}: {text}}}"
    if fact.op is ops.EQ and left.op is ops.FLOORMOD and isinstance(left.args[0], Var):
        name, step = left.args[0].name, constant_value(left.args[1])
        declared = None if step is None or step < 1 else f"ShapeVar({name!r}, multiple_of={step})"
        return name, f"asserting({text}, {name})", declared, f"{{{name}: {text}}}"
    if fact.op is ops.GE and isinstance(right, Expr) and constant_value(right) == 0:
        e = to_text(left, limit=200)
        return e, f"nonneg({e})", None, f"{{n: {text}}} for a variable n in it"
    return text, f"asserting({text}, e)", None, f"{{n: {text}}} for a variable n in it"
