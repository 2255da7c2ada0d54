"""Run a function of integers on unknown integers, path by path, and prove what it returns: z3 over all integers.

The code under test runs unchanged on `Int` arguments. Each comparison forks the run into its feasible outcomes, so a
path ends with a result and a path condition. A claim about a path is proved by refuting its negation.

z3 is asked over the reals, where products are decidable: an integer `a < b` is stated as `a + 1 <= b` and a quotient by
`q*d <= x <= q*d + d - 1`, so whatever is refuted over the reals has no integer solution either.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from types import ModuleType
from typing import Any

import z3

RLIMIT = 3_000_000


class Path:
    """One run: its decisions and its path condition."""

    current: Path

    def __init__(self, facts: Sequence[z3.BoolRef], decisions: Sequence[bool]) -> None:
        self.facts, self.decisions, self.position = list(facts), list(decisions), 0
        self.others: list[list[bool]] = []
        self.quotients: dict[Any, Int] = {}
        self.multiples: list[tuple[z3.ArithRef, z3.ArithRef, z3.ArithRef]] = []  # (whole, divisor, quotient)
        self.divisors: list[Int] = []
        self.factors: list[Int] = []
        self.fresh = 0

    def new(self) -> Int:
        self.fresh += 1
        return Int(z3.Real(f"v{self.fresh}"))

    def decide(self, yes: z3.BoolRef, no: z3.BoolRef) -> bool:
        """Decide a comparison on this path; schedules the other feasible outcome for a later run."""
        if self.position < len(self.decisions):
            taken = self.decisions[self.position]
        elif refuted([*self.facts, yes]):
            taken = False
        else:
            taken = True
            if not refuted([*self.facts, no]):
                self.others.append([*self.decisions, False])
        if self.position == len(self.decisions):
            self.decisions.append(taken)
        self.position += 1
        self.facts.append(yes if taken else no)
        return taken


def refuted(facts: Sequence[z3.BoolRef]) -> bool:
    solver = z3.Tactic("qfnra-nlsat").solver() if any(map(_is_nonlinear, facts)) else z3.SolverFor("QF_LRA")
    solver.set("rlimit", RLIMIT)
    solver.add(*facts)
    return bool(solver.check() == z3.unsat)


def _is_nonlinear(e: Any) -> bool:
    todo, seen = [e], set()
    while todo:
        node = todo.pop()
        if node.get_id() in seen:
            continue
        seen.add(node.get_id())
        if z3.is_mul(node) and sum(not z3.is_rational_value(z3.simplify(arg)) for arg in node.children()) > 1:
            return True
        todo.extend(node.children())
    return False


class Truth:
    """A comparison of unknown integers; asking for its truth value chooses a path."""

    def __init__(self, yes: z3.BoolRef, no: z3.BoolRef) -> None:
        self.yes, self.no = yes, no

    def __bool__(self) -> bool:
        return Path.current.decide(self.yes, self.no)

    @staticmethod
    def choice() -> bool:
        """One way and the other."""
        return Path.current.decide(z3.BoolVal(True), z3.BoolVal(True))

    __hash__ = object.__hash__

    def __sub__(self, other: Truth) -> int:
        return int(bool(self)) - int(bool(other))

    def __eq__(self, other: object) -> bool:
        return bool(self) == bool(other)


class Int:
    """An unknown integer."""

    def __init__(self, term: z3.ArithRef) -> None:
        self.term = term

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return str(self.term)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __neg__(self) -> Int:
        return Int(-self.term)

    def __invert__(self) -> Int:
        return Int(-1 - self.term)

    def __abs__(self) -> Int:
        return self if self >= 0 else -self

    def __add__(self, other: Any) -> Int:
        return Int(self.term + term(other))

    def __sub__(self, other: Any) -> Int:
        return Int(self.term - term(other))

    def __rsub__(self, other: Any) -> Int:
        return Int(term(other) - self.term)

    def __mul__(self, other: Any) -> Int:
        return Int(self.term * term(other))

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Any) -> Int:
        return quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Int:
        return quotient(Int(term(other)), self)

    def __mod__(self, other: Any) -> Int:
        return self - quotient(self, other) * other

    def __rmod__(self, other: Any) -> Int:
        return Int(term(other)) % self

    def __divmod__(self, other: Any) -> tuple[Int, Int]:
        return self // other, self % other

    def __lt__(self, other: Any) -> Truth:
        return less(self, other)

    def __gt__(self, other: Any) -> Truth:
        return less(other, self)

    def __le__(self, other: Any) -> Truth:
        return negated(less(other, self))

    def __ge__(self, other: Any) -> Truth:
        return negated(less(self, other))

    def __eq__(self, other: Any) -> Any:
        if not isinstance(other, (Int, int)):
            return False
        a, b = self.term, term(other)
        return Truth(a == b, z3.Or(a + 1 <= b, b + 1 <= a))

    def __ne__(self, other: Any) -> Any:
        return True if not isinstance(other, (Int, int)) else negated(self == other)


def term(x: Any) -> z3.ArithRef:
    return x.term if isinstance(x, Int) else z3.RealVal(int(x))


def less(a: Any, b: Any) -> Truth:
    return Truth(term(a) + 1 <= term(b), term(b) <= term(a))


def negated(t: Truth) -> Truth:
    return Truth(t.no, t.yes)


def quotient(x: Int, d: Any) -> Int:
    """The floor of `x / d`, one value for one pair of operands. Sure multiples of `d` leave the division."""
    path = Path.current
    if d == 0:
        raise ZeroDivisionError
    if d < 0:
        return quotient(-x, -d)
    whole, rest = divided(path, x, d)
    if not rest:
        return whole
    left = Int(_sum(rest))
    key = (tuple(sorted(rest.items())), tuple(sorted(polynomial(term(d)).items())))
    if key not in path.quotients:
        q = path.quotients[key] = path.new()
        remainder = left - q * d
        path.facts += [remainder.term >= 0, remainder.term <= term(d) - 1]
    return whole + path.quotients[key]


# --- what modules import, for unknown integers ------------------------------------------------------------------------


def gcd(*parts: Any) -> Any:
    """A number that divides all parts, positive unless all are 0."""
    if all(isinstance(part, int) for part in parts):
        from math import gcd as known

        return known(*parts)
    path = Path.current
    g = path.new()
    path.divisors.append(g)
    path.facts += [g.term >= 0]
    some = z3.Or(*(term(part) != 0 for part in parts))
    path.facts.append(z3.If(some, g.term >= 1, g.term == 0))
    for part in parts:
        q = path.new()
        path.facts += [term(part) == g.term * q.term, z3.Or(q.term == 0, q.term >= 1, q.term <= -1)]
        path.multiples.append((term(part), g.term, q.term))
    return g


def smallest(*args: Any, **named: Any) -> Any:
    return _end(builtins.min, -1, args, named)


def largest(*args: Any, **named: Any) -> Any:
    return _end(builtins.max, 1, args, named)


def _end(plain: Callable[..., Any], side: int, args: Any, named: Any) -> Any:
    items = list(args[0]) if len(args) == 1 else list(args)
    if len(items) == 2 and not named:  # by cases: the ends stay the terms they are
        return items[0] if (items[0] - items[1] if side > 0 else items[1] - items[0]) >= 0 else items[1]
    if named or not any(isinstance(item, Int) for item in items):
        return plain(items, **named)
    end = Path.current.new()
    Path.current.facts.append(z3.Or(*(end.term == term(item) for item in items)))
    Path.current.facts += [(end.term - term(item)) * side >= 0 for item in items]
    return end


@contextmanager
def for_unknowns(*modules: ModuleType) -> Iterator[None]:
    """Let the modules use the functions above in place of `gcd`, `min` and `max`; unknowns are of no length."""
    names = {"gcd": gcd, "min": smallest, "max": largest, "_bits": lambda *ends: 0}
    before = [(module, name, vars(module).get(name)) for module in modules for name in names]
    try:
        for module in modules:
            for name, function in names.items():
                setattr(module, name, function)
        yield
    finally:
        for module, name, old in before:
            delattr(module, name) if old is None else setattr(module, name, old)


# --- multiples: exact division of polynomials -------------------------------------------------------------------------

Poly = dict[tuple[str, ...], int]


def polynomial(e: Any) -> Poly:
    """A term of sums and products, multiplied out."""
    if z3.is_rational_value(e):
        return {(): e.as_long()} if e.as_long() else {}
    parts = [polynomial(part) for part in e.children()]
    if not parts:
        return {(str(e),): 1}
    if z3.is_mul(e):
        result: Poly = {(): 1}
        for part in parts:
            result = _times(result, part)
        return result
    result = dict(parts[0])
    sign = -1 if z3.is_sub(e) else 1
    if z3.is_app_of(e, z3.Z3_OP_UMINUS):
        return {monomial: -k for monomial, k in result.items()}
    for part in parts[1:]:
        result = _plus(result, part, sign)
    return result


def _plus(a: Poly, b: Poly, factor: int = 1) -> Poly:
    total = {monomial: a.get(monomial, 0) + factor * b.get(monomial, 0) for monomial in {**a, **b}}
    return {monomial: k for monomial, k in total.items() if k}


def _times(a: Poly, b: Poly) -> Poly:
    result: Poly = {}
    for (m, k), (n, c) in product(a.items(), b.items()):
        result = _plus(result, {tuple(sorted(m + n)): k * c})
    return result


def _without(monomial: tuple[str, ...], part: tuple[str, ...]) -> tuple[str, ...] | None:
    rest = list(monomial)
    for name in part:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def _sum(p: Poly) -> z3.ArithRef:
    total = z3.RealVal(0)
    for monomial, k in p.items():
        part = z3.RealVal(k)
        for name in monomial:
            part = part * z3.Real(name)
        total = total + part
    return total


Multiple = tuple[tuple[str, ...], Poly, z3.ArithRef]  # (leading monomial, what is divisor * K, K)


def _reduced(p: Poly, by: Sequence[Multiple], most: int = 60) -> tuple[z3.ArithRef, Poly]:
    """(K, rest) with p == divisor * K + rest, by division by the known multiples."""
    left, found, rest = dict(p), z3.RealVal(0), {}
    while left and most:
        most -= 1
        monomial = max(left, key=_degree)
        for lead, whole, k in by:
            others = _without(monomial, lead)
            if others is not None and left[monomial] % whole[lead] == 0:
                factor = {others: left[monomial] // whole[lead]}
                left = _plus(left, _times(whole, factor), -1)
                found = found + _sum(factor) * k
                break
        else:
            rest[monomial] = left.pop(monomial)
    return found, _plus(rest, left)


def _degree(monomial: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    return (len(monomial), monomial)


def divided(path: Path, x: Any, d: Any) -> tuple[Int, Poly]:
    """(K, rest) with x == d*K + rest for integers K, as far as products and equations of the path show multiples."""
    nothing = z3.RealVal(0)
    known: list[Multiple] = []
    for e in path.facts:
        if z3.is_eq(e):  # a variable is replaced by what it equals
            _, p = _reduced(polynomial(e.arg(0) - e.arg(1)), known)
            lead = next((m for m, k in p.items() if len(m) == 1 and abs(k) == 1 and _alone(m, p)), None)
            if lead is not None:
                known.append((lead, p, nothing))
    _, divisor = _reduced(polynomial(term(d)), known)
    candidates = [(polynomial(term(d)), z3.RealVal(1))]
    candidates += [(polynomial(w), k) for w, by, k in path.multiples if _reduced(polynomial(by), known)[1] == divisor]
    for whole, k in candidates:
        less, p = _reduced(whole, known)
        if p:
            known.append((max(p, key=_degree), p, k - less))
    k, rest = _reduced(polynomial(term(x)), known)
    return Int(z3.simplify(k)), rest


def _alone(monomial: tuple[str, ...], p: Poly) -> bool:
    return not any(monomial[0] in other for other in p if other != monomial)


def multiplier(path: Path, difference: Any, modulus: Any) -> Int | None:
    """K with difference == modulus * K, if one is found (it is for z3 to check)."""
    k, rest = divided(path, difference, modulus)
    return None if rest else k


# --- proofs -----------------------------------------------------------------------------------------------------------


def paths(run: Callable[[], Any], limit: int = 4000) -> Iterator[tuple[Path, Any]]:
    """Each path through `run`, with what it returns there. `run` makes its unknowns by `Path.current.new()`."""
    pending: list[list[bool]] = [[]]
    for _ in range(limit):
        if not pending:
            return
        path = Path.current = Path([], pending.pop())
        result = run()
        pending += path.others
        yield path, result
    raise AssertionError(f"more than {limit} paths")


def proves(path: Path, goal: Truth) -> bool:
    """Prove `goal` under the path condition: over the reals, else by integrality, which makes each sum and difference
    of quotients and factors 0 or at least 1 in magnitude."""
    quotients = [q.term for q in path.quotients.values()]
    factors = [f.term for f in path.factors]
    pairs = [(f, q) for f in factors for q in quotients]
    for integers in ([], quotients + factors, [e for f, q in pairs for e in (f - q, f + q)]):
        cuts = [z3.Or(e == 0, e >= 1, e <= -1) for e in integers]
        if refuted([*path.facts, *cuts, goal.no]):
            return True
    return False
