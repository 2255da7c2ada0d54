"""Random graphs of `int3` tensors with an exhaustive cost oracle over options, versions and padding values.

Three bits keep the enumeration at eight values per padding. Contracts are declared by the generator, independent of
`contract`.
"""

import operator
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lowering import Function, Graph, IndexMap, parse_nest, with_layouts
from tests.lowering.equivalence import wrapped

TILES = IndexMap(lambda i: [i // 4, i % 4], (14,))
WIDE = IndexMap(lambda i: [i // 8, i % 8], (14,))


def _shape(layout: IndexMap | None) -> str:
    return "14" if layout is None else ", ".join(map(str, layout.new_shape))


def _loops(layout: IndexMap | None, k: int) -> tuple[str, str, str]:
    """Source text of loops over a layout, element indices and validity condition."""
    if layout is None:
        return f"    for i{k} in [0, 14):\n        ", f"i{k}", "True"
    rows, width = layout.new_shape
    loops = f"    for i{k} in [0, {rows}):\n        for j{k} in [0, {width}):\n            "
    return loops, f"i{k}, j{k}", f"i{k} * {width} + j{k} < 14"


def elementwise(
    name: str,
    value: str,
    layout: IndexMap | None = TILES,
    dtype: str = "int32",
    guarded: bool = False,
    undef: bool = False,
) -> Function:
    """Build an elementwise function from an expression over `A` and optionally `C`.

    Parameters
    ----------
    guarded: skip padding elements.
    undef: overwrite output padding with `undef()`.
    """
    shape = _shape(layout)
    inputs = ["A", "C"] if "C" in value else ["A"]
    loops, at, valid = _loops(layout, 0)
    said = value.replace("A", f"A[{at}]").replace("C", f"C[{at}]")
    step = f"B[{at}] = {said}"
    body = loops + (f"if {valid}:\n                {step}" if guarded else step)
    if undef:
        again, at, valid = _loops(layout, 1)
        body += f"\n{again}if not ({valid}):\n                B[{at}] = undef()"
    head = ", ".join(f"{t}: {dtype}[{shape}]" for t in (*inputs, "B"))
    f = parse_nest(f"def {name}({head}):\n{body}\n")
    return f if layout is None else with_layouts(f, dict.fromkeys((*inputs, "B"), layout))


def reduction(
    name: str, start: str, step: str, pad: str | None = None, layout: IndexMap | None = TILES, dtype: str = "int32"
) -> Function:
    """Build a reduction `B = step(B, A)`; assumes padding equal to `pad`, or skips it if `None`."""
    loops, at, valid = _loops(layout, 0)
    said = step.replace("B", "B[0]").replace("A", f"A[{at}]")
    body = f"    B[0] = {start}\n{loops}"
    if layout is not None and pad is not None:
        before, there, inside = _loops(layout, 1)
        body = f"{before}assume {inside} or A[{there}] == {pad}\n{body}B[0] = {said}"
    else:
        body += f"B[0] = {said}" if layout is None else f"if {valid}:\n                B[0] = {said}"
    f = parse_nest(f"def {name}(A: {dtype}[{_shape(layout)}], B: {dtype}[1]):\n{body}\n")
    return f if layout is None else with_layouts(f, {"A": layout})


ADDONE = elementwise("addone", "A + 1")
ODD = elementwise("odd", "A * 2 + 1")
TOTAL = reduction("total", "0", "B + A", "0")


DTYPE = "int3"
THIRDS = IndexMap(lambda i: [i // 3, i % 3], (14,))
MAPS = {"tiles": TILES, "thirds": THIRDS}
ELEMENTS = {"tiles": 16, "thirds": 15}
PADDING = {"tiles": 2, "thirds": 1}
VALUES = range(-4, 4)
MAX_WORLDS = 3_000
UNARY: dict[str, Callable[[int], int]] = {
    "A + 1": lambda a: a + 1, "A - 3": lambda a: a - 3, "A * 2": lambda a: a * 2, "A * 2 + 1": lambda a: a * 2 + 1,
    "A * 3": lambda a: a * 3, "3 - A": lambda a: 3 - a, "max(A, 1)": lambda a: max(a, 1), "A * 0 + 2": lambda a: 2,
    "A // 2": lambda a: a // 2,
}  # fmt: skip
BINARY: dict[str, Callable[[int, int], int]] = {
    "A + C": operator.add, "A - C": operator.sub, "A * 2 + C": lambda a, c: a * 2 + c,
}  # fmt: skip
FOLDED: dict[str, Callable[[int, int], int]] = {**BINARY, "A * C": operator.mul, "min(A, C)": min}


@dataclass(frozen=True, eq=False)
class Choice:
    """An option with its declared contract.

    Attributes
    ----------
    needs: per input "nothing", "readable" or a number.
    gives: "untouched", "undef" or a function of input paddings.
    """

    function: Function
    takes: tuple[str | None, ...]
    needs: tuple[Any, ...]
    makes: str | None
    gives: Any


@cache
def choice(value: str, kind: str, layout: str | None, dtype: str = DTYPE) -> Choice:
    """Build an elementwise function, of kind "all", "guarded" or "undef" (padding overwritten by `undef()`)."""
    arity = 2 if "C" in value else 1
    function: Callable[..., int] = (FOLDED if arity == 2 else UNARY)[value]
    name = "".join(c if c.isalnum() else "_" for c in f"{kind}_{layout}_{value}")
    if layout is None:
        return Choice(elementwise(name, value, None, dtype), (None,) * arity, ("nothing",) * arity, None, None)
    f = elementwise(name, value, MAPS[layout], dtype, guarded=kind == "guarded", undef=kind == "undef")
    need = "nothing" if kind == "guarded" else "readable"
    gives = {"guarded": "untouched", "undef": "undef"}.get(kind, function)
    return Choice(f, (layout,) * arity, (need,) * arity, layout, gives)


@cache
def folding(neutral: int, is_guarded: bool, layout: str | None, dtype: str = DTYPE) -> Choice:
    """Build a sum of `A - neutral`, either guarded or requiring padding equal to `neutral`."""
    name = f"total_{layout}_{'guarded' if is_guarded else 'all'}_{neutral + 4}"
    step = f"B + (A - ({neutral}))"
    if layout is None:
        return Choice(reduction(name, "0", step, None, None, dtype), (None,), ("nothing",), None, None)
    f = reduction(name, "0", step, None if is_guarded else str(neutral), MAPS[layout], dtype)
    return Choice(f, (layout,), ("nothing" if is_guarded else neutral,), None, None)


@dataclass
class Case:
    """A graph with the same structure as plain data.

    Attributes
    ----------
    calls: per call its choices and input tensor numbers; tensor 0 is the graph input.
    formulas: per call an expression text over `A` and `C`, or a total's neutral number.
    """

    graph: Graph
    calls: list[tuple[list[Choice], tuple[int, ...]]]
    outputs: list[int]
    formulas: list[str | int]

    def reference(self, x: Any) -> list[Any]:
        """Compute expected outputs from the formulas with numpy."""
        tensors = [x]
        for formula, (_, reads) in zip(self.formulas, self.calls, strict=True):
            given = dict(zip("AC", (tensors[k] for k in reads), strict=False))
            names = {**given, "max": np.maximum, "min": np.minimum}
            if isinstance(formula, int):
                tensors.append((given["A"] - x.dtype.type(formula)).sum(keepdims=True, dtype=x.dtype))
            else:
                tensors.append(eval(formula, names).astype(x.dtype))
        return [tensors[k] for k in self.outputs]


def random_case(seed: int, operators: int, dtype: str = DTYPE) -> Case:
    """Draw a chain, tree or diamond of calls."""
    rng = random.Random(seed)
    graph = Graph()
    tensors = [graph.input("x", (14,), dtype)]
    calls: list[tuple[list[Choice], tuple[int, ...]]] = []
    formulas: list[str | int] = []
    shape = rng.choice(("chain", "any", "any"))
    whole = [0]  # tensors of full shape
    while len(calls) < operators:
        latest = whole[-1] if shape == "chain" or len(calls) == operators - 1 else rng.choice(whole[-3:])
        reads: tuple[int, ...] = (latest,)
        layouts = [None, *MAPS]
        ways = [rng.choice(layouts) for _ in range(rng.choice((1, 2, 3)))]
        if len(calls) == operators - 1 or rng.random() < 0.15:
            neutral = rng.choice((0, 0, 1, -4, 3))
            choices = [folding(neutral, rng.random() < 0.3, layout, dtype) for layout in dict.fromkeys(ways)]
            formulas.append(neutral)
        else:
            value = rng.choice(list(UNARY))
            if shape != "chain" and len(whole) > 1 and rng.random() < 0.5:
                value = rng.choice(list(FOLDED if rng.random() < 0.2 else BINARY))
                first, second = rng.sample(whole[-4:], 2)
                reads = (first, second)
            kinds = [(rng.choice(("all", "all", "guarded", "undef")), layout) for layout in ways]
            choices = [choice(value, kind, layout, dtype) for kind, layout in dict.fromkeys(kinds)]
            whole.append(len(tensors))
            formulas.append(value)
        calls.append((choices, reads))
        tensors.append(graph.call([c.function for c in choices], *(tensors[k] for k in reads)))
    unread = [k for k in range(1, len(tensors)) if not any(k in reads for _, reads in calls)]
    outputs = [k for k in unread if rng.random() < 0.8] or unread[-1:]
    if rng.random() < 0.2:
        outputs.append(rng.randrange(len(tensors)))
    for k in outputs:
        graph.output(tensors[k])
    return Case(graph, calls, outputs, formulas)


# State of a live tensor: (logical version produced by a call, logical version exists, packed versions).
Versions = frozenset[tuple[str, Any]]
Held = tuple[bool, bool, Versions]
SearchState = tuple[tuple[int, Held], ...]


def least_cost(case: Case, bound: float, prices: Mapping[str, int] | None = None) -> float | None:
    """Compute the minimal plan cost exhaustively; infinity above `bound`, `None` beyond `MAX_WORLDS` states.

    Parameters
    ----------
    prices: cost per element of "pad", "copy", "crop" and "fill".
    """
    prices = prices or dict.fromkeys(("pad", "copy", "crop", "fill"), 1)
    needed: set[int] = set(case.outputs)
    for k in range(len(case.calls), 0, -1):
        if k in needed:
            needed.update(case.calls[k - 1][1])
    order = [k for k in range(1, len(case.calls) + 1) if k in needed]
    readers = {t: [k for k in order if t in case.calls[k - 1][1]] for t in needed}
    start: dict[int, Held] = {0: (True, True, frozenset())}
    search_states = dict(_close(start, 0, case, [t for t in [0] if not readers.get(t)], bound, prices))
    for k in order:
        choices, reads = case.calls[k - 1]
        done = [t for t in dict.fromkeys((*reads, k)) if max(readers[t], default=0) <= k]
        found: dict[SearchState, float] = {}
        for search_state, cost in search_states.items():
            for after, spent in _called(dict(search_state), cost, k, choices, reads, bound, prices):
                for key, total in _close(after, spent, case, done, bound, prices):
                    if total < found.get(key, bound + 1):
                        found[key] = total
        search_states = found
        if len(search_states) > MAX_WORLDS:
            return None
    return min(search_states.values(), default=float("inf"))


def _close(
    search_state: dict[int, Held], cost: float, case: Case, done: list[int], bound: float, prices: Mapping[str, int]
) -> Iterator[tuple[SearchState, float]]:
    rest = dict(search_state)
    for t in done:
        if t in case.outputs and not rest[t][1]:
            cost += (1 if t in _scalars(case) else 14) * prices["crop"]
        rest.pop(t)
    if cost <= bound:
        yield tuple(sorted(rest.items(), key=lambda item: item[0])), cost


def _scalars(case: Case) -> set[int]:
    return {k for k, (choices, _) in enumerate(case.calls, 1) if choices[0].function.name.startswith("total")}


def _called(
    search_state: dict[int, Held],
    cost: float,
    k: int,
    choices: list[Choice],
    reads: tuple[int, ...],
    bound: float,
    prices: Mapping[str, int],
) -> Iterator[tuple[dict[int, Held], float]]:
    for one in choices:
        partial: list[tuple[dict[int, Held], float, tuple[Any, ...]]] = [(search_state, cost, ())]
        for t, layout, need in zip(reads, one.takes, one.needs, strict=True):
            partial = [
                (after, spent, (*states, state))
                for before, paid, states in partial
                for after, spent, state in _served(before, paid, t, layout, need, prices)
                if spent <= bound
            ]
        for before, paid, states in partial:
            if one.makes is None:
                yield {**before, k: (True, True, frozenset())}, paid
                continue
            state = one.gives
            if callable(state):
                state = "undef" if "undef" in states else wrapped(state(*states), DTYPE)
            for filled, price in [(state, 0), *((v, PADDING[one.makes] * prices["fill"]) for v in (*VALUES, "undef"))]:
                if paid + price <= bound:
                    yield {**before, k: (False, False, frozenset([(one.makes, filled)]))}, paid + price


def _served(
    search_state: dict[int, Held], cost: float, t: int, layout: str | None, need: Any, prices: Mapping[str, int]
) -> Iterator[tuple[dict[int, Held], float, Any]]:
    made, logical, versions = search_state[t]
    cropped = {**search_state, t: (made, True, versions)}, cost if logical else cost + 14 * prices["crop"]
    if layout is None:
        yield *cropped, None
        return
    for where, state in versions:
        if where == layout and (need == "nothing" or (need == "readable" and state != "untouched") or need == state):
            yield search_state, cost, state
    new = [need] if isinstance(need, int) else [*VALUES, "undef"] + ["untouched"] * (need == "nothing")
    for state in new:
        if (layout, state) in versions:
            continue
        if versions:
            more = versions | {(layout, state)}
            yield {**search_state, t: (made, logical, more)}, cost + ELEMENTS[layout] * prices["copy"], state
        if not versions or prices["pad"] < prices["copy"]:
            more = versions | {(layout, state)}
            yield {**search_state, t: (made, True, more)}, cropped[1] + ELEMENTS[layout] * prices["pad"], state
        if not versions and prices["copy"] < prices["pad"]:
            for other in MAPS.keys() - {layout}:
                for held in (*VALUES, "undef"):
                    both = frozenset([(layout, state), (other, held)])
                    spent = cropped[1] + ELEMENTS[other] * prices["pad"] + ELEMENTS[layout] * prices["copy"]
                    yield {**search_state, t: (made, True, both)}, spent, state
