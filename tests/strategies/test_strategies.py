"""The strategies draw what the tests are about."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import find, settings

from intset import ShapeVar, evaluate
from intset.expr import Infinity, ops
from intset.expr.dag import postorder
from intset.expr.definedness import is_partial
from tests.strategies.contexts import EVERY, TABLE, Drawn, contexts
from tests.strategies.nests import AFFINE, EVERYTHING, INTEGERS, Nest

KINDS: dict[str, Callable[[Drawn], object]] = {
    "a plain size": lambda d: any(not isinstance(v, ShapeVar) for v in d.sizes),
    "a size with an upper end": lambda d: any(v.declared()[1] is not None for v in d.sizes),
    "constant ranges": lambda d: all(r.constant() for r in d.ranges.values()),
    "an empty range": lambda d: any(r.constant() and r.extent.data == 0 for r in d.ranges.values()),
    "a range below 0": lambda d: any((r.constant() or (0, 0))[0] < 0 for r in d.ranges.values()),
    "a dependent range": lambda d: any(d.ranges.keys() & r.free_vars() for r in d.ranges.values()),
    "a range of sizes": lambda d: any(set(d.sizes) & set(r.free_vars()) for r in d.ranges.values()),
    "an open range": lambda d: any(isinstance(e, Infinity) for r in d.ranges.values() for e in (r.min, r.extent)),
    "an end that divides": lambda d: any(is_partial(r.min) or is_partial(r.extent) for r in d.ranges.values()
                                         if not isinstance(r.min, Infinity) and not isinstance(r.extent, Infinity)),
    "two facts": lambda d: len(d.facts) > 1,
    "a fact of sizes alone": lambda d: any(f.free_vars() and set(f.free_vars()) <= set(d.sizes) for f in d.facts),
    "a kept variable": lambda d: d.keep,
    "a partial expression": lambda d: is_partial(d.exprs[0]),
    "a partial fact": lambda d: any(map(is_partial, d.facts)),
    "a product": lambda d: any(e.op is ops.MUL and not any(a.is_const for a in e.args) for e in nodes(d)),
    "a coefficient that is a size": lambda d: any(e.op is ops.MUL and e.args[1] in d.sizes for e in nodes(d)),
    "a divisor that is no number": lambda d: any(e.op in ops.DIVISIONS and not e.args[1].is_const for e in nodes(d)),
    "a negative divisor": lambda d: any(e.op in ops.DIVISIONS and e.args[1].data in (-2, -3) for e in nodes(d)),
    "a part that is used twice": lambda d: sum(len(e.args) for e in nodes(d)) > 2 * len(nodes(d)) // 2 + 4,
    "a constant expression": lambda d: not d.exprs[0].free_vars(),
    **{f"{op}": lambda d, op=op: any(e.op is op for e in nodes(d)) for op in {*ops.OPS.values()} - {ops.BOOL}},
}  # fmt: skip
ALL = {
    "kinds": f"{EVERY} claims loads", "ranges": "box empty dependent sized divided shifted open", "sizes": 2,
    "variables": 3, "facts": 40, "kept": 20, "shared": 15, "depth": 3,
}  # fmt: skip


@cache
def nodes(drawn: Drawn) -> list:
    return list(postorder((*drawn.exprs, *drawn.facts, *drawn.goals)))


def test_every_kind_is_drawn_and_points_satisfy_facts() -> None:
    counted: Counter[str] = Counter()
    for seed in range(1_000):
        drawn = Drawn(seed, **ALL)
        counted.update(kind for kind, holds in KINDS.items() if holds(drawn))
    few = {kind: counted[kind] for kind in KINDS if counted[kind] < 15}
    assert not few, few
    for seed in range(60):
        drawn = Drawn(seed, **{**ALL, "ranges": "box dependent sized", "variables": 2})
        for at in list(drawn.points())[:20]:
            assert all(evaluate(r.min, at) <= at[v] <= evaluate(r.max, at) for v, r in drawn.ranges.items())


def test_a_seed_is_a_context_that_shrinks() -> None:
    assert repr(Drawn(5, **ALL)) == repr(Drawn(5, **ALL)) != repr(Drawn(6, **ALL))
    # To one variable with a range of one value or few, no fact, and the smallest expression that fails.
    least = find(contexts(kinds=f"{EVERY} loads"), lambda d: any(e.op is ops.FLOORMOD for e in nodes(d)),
                 settings=settings(max_examples=200, derandomize=True))  # fmt: skip
    assert len(least.ranges) == 1 and len(nodes(least)) < 25 and TABLE not in least.facts
    assert next(least.points(), None) is not None


DRAWS = 1000
STATEMENTS = {  # by kind: text that shows it, inside a line or over two lines
    "guard": r"if ",
    "other branch": r"else:",
    "opposite guards": r"if not \(",
    "lazy and": r"if .*\w\].* and ",
    "lazy or": r"if .*\w\].* or ",
    "lazy select": r"= select\(.*\w\] ",
    "choice in a condition": r"select\(.*\) == ",
    "guarded division": r"select\(.* != \d, \d // ",
    "guarded division by data": r" != 0.* [%/]+ [ABCM]\[",
    "guarded access": r"select\(\w+ - \d - 1 >= 0",
    "division": r"\w // \d",
    "remainder": r"\w % \d",
    "local storage": r"allocate T",
    "partly written storage": r"in \[0, 6\):\n *T",
    "undef": r"undef\(\)",
    "symbolic end": r"in \[0, n",
    "negative start": r"in \[-\d",
    "empty loop": r"in \[2, 2\)",
    "triangle": r"in \[0, [ijk]\d+ \+ 1\)",
    "end read from data": r"in \[.*[ABC]\[",
    "unrolled loop": r"unrolled",
    "vectorized loop": r"vectorized",
    "parallel loop": r"parallel",
    "carried variable": r" with w\d+ = 1",
    "name": r"x\d+ = ",
    "name of an element": r"x\d+ = [ABC]\[",
    "index from data": r"\(([ABC])\[[^]]*\]\) % ",
    "reduction": r"(r\d+\]) = [ABC]\[\1 [-+] ",
    "identity store": r"([ABC]\[\w+\]) = \1\n",
    "two elements of one array": r" ([ABC])\[[^=\n]*\] = .*\1\[",
    "copy": r"([ABC])\[(i\d+)\] = (?!\1)[ABC]\[\2\]\n",
    "assumption": r"assume ",
    "guarded assumption": r"assume .* or ",
    "claim of a proof": r'"proved"',
    "assumption about padding": r"assume p \* 4",
    "two dimensions": r"M\[[^]]*, ",
    "host call": r"(bump|move)\(",
    "array of a size": r"Q\[\w+\] = ",
    "tiles": r"\* [234] \+ s\d",
    "window": r" >= 0\) & \(",
    "shared index": r"a\d+ (\*|\+|<).*% 12\] = ",
    "wrapping type": r"(u?int8|int16)\[",
    "float": r"float(16|32)\[",
}
ONLY_EVERYTHING = {"parallel loop", "host call", "array of a size", "float"}


@pytest.mark.parametrize("kinds", [EVERYTHING, INTEGERS])
def test_every_kind_occurs(kinds: frozenset[str]) -> None:
    texts = "\n".join(Nest(seed, kinds).text for seed in range(DRAWS))
    found = {kind for kind, pattern in STATEMENTS.items() if re.search(pattern, texts)}
    assert found == set(STATEMENTS) - (ONLY_EVERYTHING if kinds is INTEGERS else set())


def test_affine_nests_read_no_data_in_conditions_and_indices() -> None:
    for seed in range(DRAWS // 4):
        for line in Nest(seed, AFFINE).text.splitlines()[1:]:
            assert not re.search(r"(if|for|\[|select\().*[ABCM]\[[^]]*\] *(<|>|==|!=)", line) or "assume" in line
            assert not re.search(r"\[[^]]*[ABCM]\[", line)
