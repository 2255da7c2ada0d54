"""Transfer functions proved over all integers, or listed with the reason why they are not.

Each function is run on unknown integers (see `symbolic`); on every path, z3 refutes that an element of the operands has
its result outside of what the function returned. A function of the modules below that is neither stated nor listed
fails the last test.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from types import ModuleType
from typing import Any

import pytest
import z3

from intset.arithmetic import multistride, strided
from intset.domains import stride
from intset.expr import ops
from intset.linear import bounds as iv
from tests.intset.domains.symbolic import Int, Path, Truth, for_unknowns, multiplier, paths, proves
from tests.sweeps import daily

MODULES: tuple[ModuleType, ...] = (iv, strided, stride, multistride)

# --- unknown values of each kind, with an element of them -------------------------------------------------------------

ENDS = ("both", "low", "high", "none")


def new() -> Int:
    return Path.current.new()


def fact(*facts: z3.BoolRef) -> None:
    Path.current.facts += facts


def interval(shape: str) -> tuple[Any, Int]:
    if shape == "point":
        x = new()
        return (x, x), x
    x, low, high = new(), new(), new()
    fact(low.term <= x.term, x.term <= high.term)
    return (low if shape in ("both", "low") else None, high if shape in ("both", "high") else None), x


def class_of(shape: str) -> tuple[Any, Int]:
    """A strided value without ends, or a point."""
    if shape == "point":
        r = new()
        return (r, r, 0, r), r
    m, r, i = new(), new(), new()
    fact(m.term >= 1, r.term >= 0, r.term <= m.term - 1)
    Path.current.divisors.append(m)
    Path.current.factors.append(i)
    return (None, None, m, r), r + m * i


def run_of(shape: str) -> tuple[Any, Int]:
    """A strided value: a point, or an interval with ends that are elements."""
    if shape == "point":
        return class_of("point")
    (*_, m, r), u, v, i = class_of("class")[0], new(), new(), new()
    fact(u.term <= i.term, i.term <= v.term, u.term + 1 <= v.term)
    low, high, x = r + m * u, r + m * v, r + m * i
    fact(low.term <= x.term, x.term <= high.term)  # follows; said for the solver
    return (low if shape in ("both", "low") else None, high if shape in ("both", "high") else None, m, r), x


SHAPES: dict[Callable[[str], tuple[Any, Int]], tuple[str, ...]] = {
    interval: ENDS,
    class_of: ("point", "class"),
    run_of: ("point", *ENDS),
}

# --- what is to be shown of an answer ---------------------------------------------------------------------------------


NEVER = Int(z3.RealVal(-1))


def inside(answer: Any, x: Int) -> list[Any]:
    """Goals equivalent to `x in answer`: nonnegative terms, and pairs (term, divisor)."""
    if answer is None:
        return [NEVER]
    ends, residue = (answer, ()) if len(answer) == 2 else (answer[:2], answer[2:])
    goals: list[Any] = []
    if ends[0] is not None:
        goals.append(x - ends[0])
    if ends[1] is not None:
        goals.append(-x + ends[1])
    return goals + (congruent(residue, x) if residue else [])


def congruent(answer: Any, x: Int) -> list[Any]:
    if answer is None:
        return [NEVER]
    m, r = answer
    if m == 0:
        return [x - r, r - x]
    return [] if isinstance(m, int) and m == 1 else [(x - r, m)]


def is_shown(path: Path, goal: Any) -> bool:
    if isinstance(goal, tuple):
        difference, modulus = goal
        k = multiplier(path, difference, modulus)
        return k is not None and proves(path, difference == modulus * k)
    if proves(path, goal >= 0):
        return True
    for modulus in path.divisors:  # a multiple m*k of a positive m is not negative unless k <= -1
        k = multiplier(path, goal, modulus)
        if k is not None and proves(path, modulus >= 1) and proves(path, goal == modulus * k):
            return proves(path, k >= 0)
    return False


# --- the meaning of the operations on unknown integers ----------------------------------------------------------------


def truncated(x: Int, y: Int) -> Int:
    if y == 0:
        raise ZeroDivisionError
    same = (x >= 0) if y > 0 else (x <= 0)
    return x // y if same else -(-x // y)


MEANING: dict[ops.Op, Callable[..., Any]] = {
    ops.ADD: lambda x, y: x + y, ops.SUB: lambda x, y: x - y, ops.MUL: lambda x, y: x * y, ops.NEG: lambda x: -x,
    ops.BITNOT: lambda x: ~x, ops.ABS: abs, ops.MIN: lambda x, y: min(x, y), ops.MAX: lambda x, y: max(x, y),
    ops.FLOORDIV: lambda x, y: x // y, ops.FLOORMOD: lambda x, y: x % y, ops.CEILDIV: lambda x, y: -(-x // y),
    ops.TRUNCDIV: truncated, ops.TRUNCMOD: lambda x, y: x - truncated(x, y) * y,
}  # fmt: skip


# --- the statements ---------------------------------------------------------------------------------------------------

Shapes = tuple[tuple[str, ...], ...]
POINT, SOME = ("point",), ("point", "low", "high", "none")


@dataclass(frozen=True)
class Statement:
    """What `function` makes of values of a kind contains what `meaning` makes of their elements."""

    kind: Callable[[str], tuple[Any, Int]]
    meaning: Callable[..., Any]
    operands: int = 2
    shapes: Shapes = ()  # of each operand; all of the kind's where not said
    slow: bool = False  # all shapes are tried nightly, and one of them daily
    call: Callable[..., Any] | None = None  # custom call of the function

    def cases(self) -> list[tuple[str, ...]]:
        return list(product(*(self.shapes or (SHAPES[self.kind],) * self.operands)))


def of(op: ops.Op, kind: Callable[[str], tuple[Any, Int]], **named: Any) -> Statement:
    return Statement(kind, MEANING[op], 1 if op in (ops.NEG, ops.BITNOT, ops.ABS) else 2, **named)


def either(x: Int, y: Int) -> Int:
    return x if Truth.choice() else y


def common(x: Int, y: Int) -> Int:
    return x if x == y else 1 // 0  # not a point of both


def by_point(f: Callable[..., Any], a: Any, b: Any) -> Any:
    return f(a, b[-1])


WINDOW = "the ends are moved to elements: checked on every value of a window, and on large ones (test_strided)"
BITS = "acts on the bits of integers of any size: checked on every value of a window, and on large ones"
POWERS = "a power of two by an unknown exponent is no polynomial: checked on every value of a window"
LOOP = "its steps depend on the numbers: checked against enumeration on windows, and on large ones"
TERMS = "takes any number of terms: checked against enumeration of thousands of sets (test_strided)"
LATTICE = "answers about two sets, not about a result: checked against sets of points (test_lattice)"
DIVISORS = "lists up to 16 divisors: checked on every value of a window (test_many_divisors)"
PART = "a part of a function that is stated or listed here"
FORMS = "reads the arguments' canonical forms: its arithmetic is that of the functions stated here"

STATED: dict[str, Statement] = {
    "bounds.hull": Statement(interval, either),
    "bounds.meet": Statement(interval, common),
    "bounds.scaled": Statement(interval, lambda x, y: x * y, shapes=(ENDS, POINT), call=lambda f, a, b: f(a, b[0])),
    **{f"stride.{op!r}": of(op, class_of, slow=op in ops.DIVISIONS) for op in MEANING},
    "strided.add": of(ops.ADD, run_of, slow=True),
    "strided.sub": of(ops.SUB, run_of, slow=True),
    "strided.mul": of(ops.MUL, run_of, slow=True),
    "strided.neg": of(ops.NEG, run_of),
    "strided.bitnot": of(ops.BITNOT, run_of),
    "strided.scale": Statement(run_of, lambda x, y: x * y, shapes=(SHAPES[run_of], POINT), call=by_point),
    "strided.join": Statement(run_of, either, slow=True),
    "strided.floordiv_by": Statement(run_of, MEANING[ops.FLOORDIV], shapes=(SOME, POINT), call=by_point),
}
"""Proved for all integers. A run with both ends is divided under `floordiv_by`'s count of the longer steps, which is
checked by enumeration (test_constant_divisor)."""


def because(reason: str, module: str, names: str) -> dict[str, str]:
    return dict.fromkeys((f"{module}.{name}" for name in names.split()), reason)


LISTED: dict[str, str] = {
    "bounds.first_of": "an end, or 0 between the ends: nothing is computed",
    "bounds.stepped": "the ends are moved to a residue class: checked on every value of a window (test_bounds)",
    "bounds.of_operation": "applies the table of `strided` to intervals: checked on small intervals (test_bounds)",
    "strided.chinese": "inverts one modulus in the other: checked on all moduli up to 9, and on large primes",
    "stride.SELECT": "the join of two congruences, stated as `strided.join`",
    "stride.on_congruences": "derives the table whose functions are stated here",
    "stride.structural_image": FORMS,
    "stride._member": "states membership as a condition: checked against sets of points (test_order)",
    **because(PART, "bounds", "_sign _bits _scaled_by_size _beside"),
    **because(PART, "strided", "_common_residue const _unbounded_mul _sign without_ends nearest"),
    **because(FORMS, "bounds", "atom_bounds reads_variables _constant_division_bounds _select_bounds _product_bounds"),
    **because(FORMS, "bounds", "scaled_by_sizes by_dividends"),
    **because(WINDOW, "strided", "make at_least at_most meet minimum maximum absolute"),
    **because(LATTICE, "strided", "count"),
    **because(LOOP, "strided", "floormod_by smallest_mod largest_mod"),
    **because(DIVISORS, "strided", "floordiv _floordiv_positive quotients ceildiv truncdiv _truncdiv_nonneg"),
    **because(DIVISORS, "strided", "floormod _floormod_positive _remainders truncmod _truncmod_nonneg"),
    **because(BITS, "strided", "bitand bitor bitxor _residue_bits _from_bits _and_bits _xor_bits _known_bits"),
    **because(BITS, "strided", "_disjoint _by_sign _and_ends _xor_ends _beyond _min_and _max_and _min_xor"),
    **because(BITS, "stride", "BITAND BITOR BITXOR"),
    **because(POWERS, "strided", "shl shr"),
    **because(POWERS, "stride", "SHL SHR"),
    **because(TERMS, "multistride", "make reach lowest highest enclosing contains"),
    **because(TERMS, "multistride", "count _groups _count_group _bitmap scale floordiv"),
    **because(TERMS, "multistride", "_progression _split _widest_gap _window floormod"),
}
"""Not stated to z3, and why; "proved" is not claimed of these: enumeration is what stands behind them."""


def functions() -> dict[str, Callable[..., Any]]:
    """Every function that the modules define, and those of the derived table, by name."""
    found = {}
    for module in MODULES:
        short = module.__name__.rpartition(".")[2]
        for name, value in vars(module).items():
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                found[f"{short}.{name}"] = value
    for op, transfer in stride.TRANSFER.items():
        found[f"stride.{op!r}"] = transfer
    return found


FUNCTIONS = functions()


def show(name: str, cases: Sequence[tuple[str, ...]], function: Callable[..., Any] | None = None) -> int:
    """Prove a statement for these shapes; the number of paths."""
    statement, f = STATED[name], function or FUNCTIONS[name]
    total = 0
    for shapes in cases:

        def run(shapes: tuple[str, ...] = shapes) -> list[Any]:
            values, elements = zip(*(statement.kind(shape) for shape in shapes), strict=True)
            try:
                answer = f(*values) if statement.call is None else statement.call(f, *values)
                return inside(answer, statement.meaning(*elements))
            except ZeroDivisionError:
                return []  # not a point

        for path, goals in paths(run):
            total += 1
            for goal in goals:
                assert is_shown(path, goal), (name, shapes, path.decisions, goal)
    return total


@pytest.fixture
def unknowns() -> Iterator[None]:
    with for_unknowns(*MODULES):
        yield


HARD = ("stride.TRUNCMOD",)  # ten seconds and more of z3


@pytest.mark.parametrize("is_night", daily([False, True], 2))
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly) if n in HARD else n for n in STATED])
def test_proved_over_all_integers(name: str, is_night: bool, unknowns: None) -> None:
    cases = STATED[name].cases()
    assert show(name, cases[-1:] if STATED[name].slow and not is_night else cases) >= 1


WRONG: dict[str, Callable[..., Any]] = {
    "bounds.hull": lambda a, b: a,
    "bounds.meet": lambda a, b: (a[0], None if b[1] is None else b[1] - 1),
    "strided.join": lambda a, b: a,
    "strided.neg": lambda a: a,
    "strided.sub": lambda a, b: strided.add(a, b),
    "strided.floordiv_by": lambda a, c: strided.scale(a, c),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proved(name: str, unknowns: None) -> None:
    with pytest.raises(AssertionError, match=name):
        show(name, STATED[name].cases(), WRONG[name])


def test_every_function_is_stated_or_listed_with_a_reason() -> None:
    assert STATED.keys() | LISTED.keys() == FUNCTIONS.keys()
    assert not STATED.keys() & LISTED.keys()
    assert all(len(reason.split()) >= 5 for reason in LISTED.values())
    assert len(STATED) >= 24
