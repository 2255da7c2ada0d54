"""`Linear`: `const + sum(coefficient * monomial)` with exact integer arithmetic.

A monomial is an expression: an *atom* (a variable, an opaque term, a division, a minimum, ...) or a product of atoms,
kept as a `MUL` chain in canonical order. So a `Linear` is a polynomial over atoms; most have degree 1.

`Poly` is the same polynomial as a dictionary from tuples of atoms to coefficients: its arithmetic interns no
expressions for intermediate monomials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from operator import is_
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

from intset.expr import Expr, Node, Var, const, ops
from intset.expr.build import Opaque
from intset.expr.node import folded_chain, make

VISITED_MONOMIALS: Final = 400  # monomials visited for one question, subquestions included
K = TypeVar("K")
FORM_TREE_STEPS: Final = 128  # nodes of a tree that are compared before a shared walk takes over

_OP_NUMBER = {op: number for number, op in enumerate(ops.OPS.values())}
_NO_LEAF = 1 << 62

Key = tuple[int, ...]  # three numbers, then the serials of the leaves


def order_key(node: Node) -> Key:
    """(serial of the oldest leaf below, two digests, the serials of all leaves).

    Guarantee: the key depends on structure and on the creation order of leaves (variables, symbols of loads) alone,
    never on addresses or on objects created in between. The first digest uses only the oldest leaf of each argument.
    """
    try:
        return node._order
    except AttributeError:
        pass
    stack = [node]
    while stack:
        top = stack[-1]
        depth = len(stack)
        for arg in top.args:
            if not hasattr(arg, "_order"):
                stack.append(arg)  # noqa: PERF401  # hot
        if len(stack) == depth:
            stack.pop()
            top.remember("_order", _key_from(top))
    return node._order


def _key_from(node: Node) -> Key:
    """The key of a node whose arguments have theirs."""
    if isinstance(node, Var):
        return (node.serial, 0, 0, node.serial)
    keys, number = [arg._order for arg in node.args], _OP_NUMBER[node.op]
    data = -1 if node.data is None else node.data  # hash(None) is an address
    own = data.serial if isinstance(data, Opaque) else None
    if own is None and len(keys) == 2 and len(keys[0]) > 3 == len(keys[1]):  # fast path for `x // 4`
        (first, one, every, *leaves), (_, digest, _) = keys
        by_oldest = hash((number, data, (0, one), (-1, digest))) | 1
        return (first, by_oldest, hash((number, data, (every, *range(len(leaves))), (digest,))) | 1, *leaves)
    if len(keys) == 1 and own is None:
        leaves = list(keys[0][3:])
    else:
        below = set() if own is None else {own}
        for key in keys:
            below.update(key[3:])
        leaves = sorted(below)
    if not leaves:
        digest = hash((number, data, *((-1, key[1]) for key in keys))) | 1
        return (_NO_LEAF, digest, digest)
    rank = dict(zip(leaves, range(len(leaves)), strict=True))
    if own is not None:
        data = rank[own]
    oldest: list[tuple[int, int]] = []
    every_leaf: list[tuple[int, ...]] = []
    for key in keys:
        oldest.append((rank[key[3]] if len(key) > 3 else -1, key[1]))
        every_leaf.append((key[2], *map(rank.__getitem__, key[3:])))
    return (leaves[0], hash((number, data, *oldest)) | 1, hash((number, data, *every_leaf)) | 1, *leaves)


def form_key(form: Linear) -> tuple[object, ...]:
    """A sort key of forms."""
    return (*order_key(form.expr()), form.const)


Spine = tuple[int, dict[Expr, int]]
ADDITIVE = frozenset((ops.ADD, ops.SUB, ops.NEG, ops.MUL))  # MUL only by a constant: `is_sum` tells


def is_sum(node: Node) -> TypeGuard[Expr]:
    """Whether the node is a sum, a difference, a negation or a multiple."""
    op = node.op
    if op is ops.MUL:
        return node.args[1].op is ops.CONST or node.args[0].op is ops.CONST
    return op in ADDITIVE


def spine(root: Expr) -> Spine:
    """`root` as `constant + sum(coefficient * leaf)` over the nodes that are no sums."""
    return short_spine(root) or long_spine(root, {})


def short_spine(root: Expr) -> Spine | None:
    """The spine of a sum of at most `FORM_TREE_STEPS` nodes counted as a tree; else `None`."""
    total = 0
    leaves: dict[Expr, int] = {}
    stack: list[tuple[Expr, int]] = [(root, 1)]
    for _ in range(FORM_TREE_STEPS):
        node, factor = stack.pop()
        op = node.op
        if op is ops.CONST:
            total += factor * node.data
        elif op is ops.VAR:
            leaves[node] = leaves.get(node, 0) + factor
        elif op is ops.ADD:
            a, b = node.args
            stack.append((b, factor))
            stack.append((a, factor))
        elif op is ops.MUL and node.args[1].op is ops.CONST:
            stack.append((node.args[0], factor * node.args[1].data))
        else:
            children = _children(node)
            if children:
                stack.extend([(child, factor * k) for child, k in reversed(children)])
            else:
                leaves[node] = leaves.get(node, 0) + factor
        if not stack:
            return total, leaves
    return None


def long_spine(root: Expr, known: Mapping[Node, object]) -> Spine:
    """The spine of any sum; nodes in `known` count as leaves too. Visits shared nodes once."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, left = stack.pop()
        if left:
            order.append(node)
            continue
        if node in seen:
            continue
        seen.add(node)
        stack.append((node, True))
        if node is root or node not in known:
            stack.extend((child, False) for child, _ in _children(node))
    total = 0
    weight: dict[Expr, int] = {root: 1}
    leaves: dict[Expr, int] = {}
    for node in reversed(order):
        factor = weight[node]
        if node.op is ops.CONST:
            total += factor * node.data
            continue
        children = _children(node) if node is root or node not in known else ()
        if not children:
            leaves[node] = factor
        for child, coefficient in children:
            weight[child] = weight.get(child, 0) + factor * coefficient
    return total, leaves


def _children(node: Expr) -> tuple[tuple[Expr, int], ...]:
    op = node.op
    if op is ops.MUL:
        a, b = node.args
        if b.op is ops.CONST:
            return ((a, b.data),)
        return ((b, a.data),) if a.op is ops.CONST else ()
    if op is ops.ADD:
        return ((node.args[0], 1), (node.args[1], 1))
    if op is ops.SUB:
        return ((node.args[0], 1), (node.args[1], -1))
    return ((node.args[0], -1),) if op is ops.NEG else ()


class RemainderOrigin(NamedTuple):
    """The origin of a remainder, a hint for regrouping: dividend minus `modulus` times a quotient with the term
    `division`."""

    division: Expr
    modulus: int


class Linear:
    """An integer polynomial over atoms.

    Invariant: `terms` never changes after construction.

    No coefficient is 0, so two forms of one polynomial over the same atoms have equal `const` and `terms`.
    """

    __slots__ = ("_expr", "const", "interval", "origin", "regrouped", "source", "terms")

    def __init__(self, const: int, terms: dict[Expr, int]) -> None:
        self.const = const
        self.terms = terms
        self._expr: Expr | None = None
        self.source: Expr | None = None  # of a long sum: its original expression
        self.origin: RemainderOrigin | None = None  # of a remainder
        # Caches of one normalizer, each a pair of its mark and the value:
        self.regrouped: tuple[object, Linear | None] | None = None  # None: regrouping changes nothing
        self.interval: tuple[object, tuple[int | None, int | None]] | None = None

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def is_variable(self) -> bool:
        """Whether the form is one variable."""
        if self.const or len(self.terms) != 1:
            return False
        ((e, k),) = self.terms.items()
        return k == 1 and e.op is ops.VAR

    def same(self, other: Linear) -> bool:
        return self.const == other.const and self.terms == other.terms

    def key(self) -> tuple[int, frozenset[tuple[Expr, int]]]:
        """A hashable key, equal for equal polynomials."""
        return (self.const, frozenset(self.terms.items()))

    def shift(self, offset: int) -> Linear:
        return Linear(self.const + offset, self.terms) if offset else self

    def scale(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Linear(self.const * factor, {t: c * factor for t, c in self.terms.items()})

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """`self + factor * other`."""
        terms = dict(self.terms)
        add(terms, other.terms, factor)
        return Linear(self.const + factor * other.const, terms)

    def minus(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def solved_for(self, var: Expr) -> Linear | None:
        """The value of a variable where the form is 0; `None` unless a single term has it, with factor 1 or -1."""
        k = self.terms.get(var, 0)
        if abs(k) != 1 or any(var in e.free_vars() for e in self.terms if e is not var):
            return None
        return Linear(-k * self.const, {e: -k * c for e, c in self.terms.items() if e is not var})

    def times(self, other: Linear) -> Linear:
        """The product, expanded."""
        if not self.terms:
            return other.scale(self.const)
        if not other.terms:
            return self.scale(other.const)
        if len(self.terms) == len(other.terms) == 1 and self.const == other.const == 0:
            ((e, k),), ((e2, k2),) = self.terms.items(), other.terms.items()
            return Linear(0, {product(e, e2): k * k2})
        terms: dict[Expr, int] = {}
        for e, k in self.terms.items():
            add(terms, {product(e, e2): k2 for e2, k2 in other.terms.items()}, k)
            if other.const:
                add(terms, {e: other.const}, k)
        if self.const:
            add(terms, other.terms, self.const)
        return Linear(self.const * other.const, terms)

    def content(self) -> int:
        """The greatest common divisor of all coefficients except the constant; 0 for a constant."""
        g = 0
        for c in self.terms.values():
            g = gcd(g, c)
            if g == 1:
                break
        return g

    def divided(self, divisor: int) -> Linear:
        """The quotient by a divisor of every coefficient; the constant is rounded down."""
        return Linear(self.const // divisor, {t: c // divisor for t, c in self.terms.items()})

    def ordered(self) -> list[tuple[Expr, int]]:
        """The terms in canonical order."""
        if len(self.terms) < 2:
            return list(self.terms.items())
        terms = self.terms
        return [(e, terms[e]) for e in sorted(terms, key=order_key)]

    def expr(self) -> Expr:
        """The expression in canonical order, equal for equal polynomials."""
        e = self._expr
        if e is None:
            e = self._expr = _to_expr(self)
        return e

    def as_written(self) -> Linear:
        """The form with its terms in the order of `expr()`."""
        if len(self.terms) < 2:
            return self
        terms, listed = self.terms, _in_text(self)
        if all(map(is_, terms, listed)):
            return self
        form = Linear(self.const, {e: terms[e] for e in listed})
        form.origin = self.origin
        return form

    def __repr__(self) -> str:
        return f"Linear({self.expr()!r})"


def _in_text(form: Linear) -> list[Expr]:
    """The monomials in the order of `expr()`: canonical, but positive ones first where a negative one would lead."""
    terms = form.terms
    if len(terms) == 1:
        return [*terms]
    positive: list[Expr] = []
    negative: list[Expr] = []
    for e, k in terms.items():
        (positive if k > 0 or e.args and reads_positive(e, k) else negative).append(e)
    if not positive or not negative:
        return sorted(terms, key=order_key)
    for monomials in (positive, negative):
        if len(monomials) > 1:
            monomials.sort(key=order_key)
    return positive + negative


def _to_expr(form: Linear) -> Expr:
    if not form.terms:
        return const(form.const)
    if form.const and len(form.terms) == 1 and (beside := _beside_constant(form)) is not None:
        return beside
    return _as_sum(form)


def _as_sum(form: Linear) -> Expr:
    """The terms as written, then the constant."""
    terms, offset = form.terms, form.const
    ordered = [(e, k) if (k := terms[e]) > 0 or not e.args else _signed(e, k) for e in _in_text(form)]
    first, coefficient = ordered[0]
    if coefficient > 0:
        total = first if coefficient == 1 else first * coefficient
    elif offset > 0:
        total, offset = const(offset) - (first if coefficient == -1 else first * -coefficient), 0
    else:
        total = -first if coefficient == -1 else first * coefficient
    for monomial, coefficient in ordered[1:]:
        size = abs(coefficient)
        magnitude = monomial if size == 1 else monomial * size
        total = total + magnitude if coefficient > 0 else total - magnitude
    if offset:
        total = total + offset if offset > 0 else total - -offset
    return total


def _leads_negative(e: Expr) -> bool:
    """Whether the first term of a written sum is negative. Positive terms are written first, so then every term is."""
    above = e
    while e.op is ops.ADD or e.op is ops.SUB:
        above, e = e, e.args[0]
    if e.op is ops.CONST:
        return above.op is ops.SUB or above is e and e.data < 0
    return e.op is ops.NEG or e.op is ops.MUL and e.args[1].op is ops.CONST and e.args[1].data < 0


def reads_positive(monomial: Expr, k: int) -> bool:
    """Whether the term `k * monomial` is written without a minus."""
    return k > 0 or monomial.args != () and _negated(monomial) is not None


def _signed(monomial: Expr, k: int) -> tuple[Expr, int]:
    """The term `k * monomial` as it is written: `-n // 4 * -4` as `ceildiv(n, 4) * 4`."""
    if k < 0 and monomial.args and (negated := _negated(monomial)) is not None:
        return negated, -k
    return monomial, k


def _negated(monomial: Expr) -> Expr | None:
    """`-monomial` with one quotient of a negative sum as a ceiling, `-(-x // d) = ceildiv(x, d)`; else `None`."""
    if monomial.op is not ops.MUL:
        return _ceiling(monomial)
    seen: set[Expr] = set()
    waiting: list[tuple[Expr, Any]] = [(monomial, None)]
    while waiting:  # an atomic product may be shared
        e, above = waiting.pop()
        if e.op is ops.MUL:
            waiting += [(arg, (e, k, above)) for k, arg in enumerate(e.args) if arg not in seen]
            seen.update(e.args)
        elif (found := _ceiling(e)) is not None:
            while above is not None:
                product_, k, above = above
                found = make(ops.MUL, (product_.args[0], found) if k else (found, product_.args[1]))
            return found
    return None


def _ceiling(monomial: Expr) -> Expr | None:
    if monomial.op is not ops.FLOORDIV:
        return None
    dividend, divisor = monomial.args
    inner = short_spine(dividend) if _leads_negative(dividend) else None
    if inner is None or any([k > 0 for k in inner[1].values()]):  # noqa: C419  # hot
        return None
    offset, leaves = inner[0], {e: -k for e, k in inner[1].items()}
    is_floor = divisor.op is ops.CONST and offset == divisor.data - 1  # -((c - 1 - x) // c) = x // c
    dividend = Linear(0 if is_floor else -offset, leaves).expr()
    quotient: Expr = make(ops.FLOORDIV if is_floor else ops.CEILDIV, (dividend, divisor))
    return quotient


def _beside_constant(form: Linear) -> Expr | None:
    """`minimum(f, g) + k` as `minimum(f + k, g + k)`, and likewise a maximum, where no more constants are written then;
    `None` for other forms."""
    outermost = _choice_in((0, form.terms), form.const)
    if outermost is None:
        return None
    written: dict[tuple[Expr, int], Expr] = {}  # inner choices with the constants beside them
    spines: dict[tuple[Expr, int], list[Spine | None]] = {}
    stack = [outermost]
    while True:
        node, k = key = stack[-1]
        if key not in spines:
            spines[key] = [None if arg.op is ops.CONST else short_spine(arg) for arg in node.args]
        inner = [_choice_in(part, k) for part in spines[key]]
        waiting = [choice for choice in inner if choice is not None and choice not in written]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        moved_in = _moved_in(node, k, spines[key], written)
        if not stack:
            return moved_in
        written[key] = _as_sum(Linear(k, {node: 1})) if moved_in is None else moved_in


def _choice_in(part: Spine | None, k: int) -> tuple[Expr, int] | None:
    """The minimum or maximum that the operand `part + k` of another is but for a constant, and this constant."""
    if part is None or len(part[1]) != 1 or not part[0] + k:
        return None
    ((e, coefficient),) = part[1].items()
    return (e, part[0] + k) if coefficient == 1 and (e.op is ops.MIN or e.op is ops.MAX) else None


def _moved_in(e: Expr, k: int, parts: Sequence[Spine | None], written: Mapping[tuple[Expr, int], Expr]) -> Expr | None:
    shifted: list[Expr] = []
    saved = 1
    for arg, part in zip(e.args, parts, strict=True):
        if arg.op is ops.CONST:
            shifted.append(const(arg.data + k))
            continue
        if part is None:
            return None
        moved = part[0] + k
        saved += (part[0] != 0) - (moved != 0)
        inner = _choice_in(part, k)
        shifted.append(Linear(moved, part[1]).expr() if inner is None else written[inner])
    if saved < 0 or not saved and e.args[1].op is not ops.CONST:
        return None
    moved_in: Expr = make(e.op, tuple(shifted))
    return moved_in


def is_affine(form: Linear) -> bool:
    """Whether all terms are variables."""
    for e in form.terms:  # noqa: SIM110  # a generator is slower here
        if e.op is not ops.VAR:
            return False
    return True


def factors(monomial: Expr) -> list[Expr]:
    """The atoms whose product the monomial is."""
    atoms: list[Expr] = []
    while monomial.op is ops.MUL:
        atoms.append(monomial.args[1])
        monomial = monomial.args[0]
    atoms.append(monomial)
    return atoms


REMAINDER_OF: Final = {ops.FLOORDIV: ops.FLOORMOD, ops.TRUNCDIV: ops.TRUNCMOD}


def has_quotient(monomial: Expr) -> bool:
    """Whether some factor of a monomial is a quotient that has a remainder operation (`REMAINDER_OF`)."""
    while monomial.op is ops.MUL and monomial.args[1].op not in REMAINDER_OF:
        monomial = monomial.args[0]
    return monomial.op is ops.MUL or monomial.op in REMAINDER_OF


def degree(form: Linear, limit: int) -> int:
    """The degree of the polynomial, counted up to `limit`."""
    largest = 1 if form.terms else 0
    for monomial in form.terms:
        number = 1
        while monomial.op is ops.MUL and number < limit:
            number, monomial = number + 1, monomial.args[0]
        largest = max(largest, number)
    return largest


def take_out(parts: list[Expr], e: Expr) -> bool:
    """Remove one occurrence of `e` from a list of factors; whether there was one. (`list.remove` would build `==`.)"""
    for position, part in enumerate(parts):
        if part is e:
            del parts[position]
            return True
    return False


def product(a: Expr, b: Expr) -> Expr:
    """The monomial that is the product of two monomials."""
    if a.op is not ops.MUL and b.op is not ops.MUL:
        answer: Expr = make(ops.MUL, (b, a) if order_key(b) < order_key(a) else (a, b))
        return answer
    return monomial_of(factors(a) + factors(b))


def monomial_of(atoms: Iterable[Expr]) -> Expr:
    """The product monomial of one or more atoms."""
    ordered = sorted(atoms, key=order_key)
    if ordered[0].op is ops.MUL:  # an atomic product must not lead: `factors` would split it
        ordered.append(ordered.pop(0))
    return folded_chain(ops.MUL, ordered)


def atom(e: Expr) -> Linear:
    """The form `1 * e` of an atom or monomial."""
    return Linear(0, {e: 1})


def constant(value: int) -> Linear:
    return Linear(value, {})


ZERO = constant(0)


POLYNOMIAL_STEPS: Final = 512  # points around which a polynomial in one variable is written in search of an extremum

Monomial = tuple[Expr, ...]  # atoms in canonical order; the empty one is the constant
Poly = dict[Monomial, int]  # without zeros


def poly_of(form: Linear) -> Poly:
    p: Poly = {}
    for e, k in form.terms.items():
        p[(e,) if e.op is not ops.MUL else tuple(factors(e)[::-1])] = k
    if form.const:
        p[()] = form.const
    return p


def linear_of(p: Poly) -> Linear:
    constant = 0
    terms: dict[Expr, int] = {}
    for parts, k in p.items():
        if parts:
            terms[folded_chain(ops.MUL, parts)] = k
        else:
            constant = k
    return Linear(constant, terms)


def scaled(p: Poly, factor: int) -> Poly:
    return {parts: k * factor for parts, k in p.items()}


def add(total: dict[K, int], terms: Mapping[K, int], factor: int = 1) -> None:
    """Add `factor` times the terms to `total`, which is changed; what cancels is dropped."""
    get = total.get
    for term, k in terms.items():
        new = get(term, 0) + factor * k
        if new:
            total[term] = new
        else:
            total.pop(term, None)


def add_product(total: Poly, a: Poly, b: Poly) -> None:
    """Add `a * b` to `total`, which is changed."""
    for parts, k in a.items():
        for others, factor in b.items():
            both = parts + others if not parts or not others else tuple(sorted(parts + others, key=order_key))
            new = total.get(both, 0) + k * factor
            if new:
                total[both] = new
            else:
                total.pop(both, None)


def split(p: Poly, e: Expr) -> tuple[Poly, Poly] | None:
    """(c, r) with `p = c*e + r` and no `e` in c or r; `None` for higher powers of `e`."""
    coefficient: Poly = {}
    rest: Poly = {}
    for parts, k in p.items():
        others = tuple([f for f in parts if f is not e])
        if len(others) == len(parts):
            rest[parts] = k
        elif len(others) == len(parts) - 1:
            coefficient[others] = k
        else:
            return None
    return coefficient, rest


def shifted(p: Poly, e: Expr, sign: int, offset: int) -> Poly:
    """`p` with `sign*e + offset` substituted for `e`."""
    return substituted(p, e, {(e,): sign, (): offset})


def substituted(p: Poly, e: Expr, replacement: Poly) -> Poly:
    """`p` with `replacement` substituted for `e`."""
    result: Poly = {}
    for parts, k in p.items():
        others = tuple([f for f in parts if f is not e])
        term: Poly = {others: k}
        for _ in range(len(parts) - len(others)):
            product: Poly = {}
            add_product(product, term, replacement)
            term = product
        add(result, term)
    return result


def atoms_in(p: Poly) -> dict[Expr, None]:
    """The distinct atoms in the order of their first occurrence."""
    return dict.fromkeys([e for parts in p for e in parts])


def highest_value(powers: Sequence[int], low: int | None, high: int | None) -> int | None:
    """The maximum of a polynomial in one integer variable between its ends; `None` if unbounded or beyond the budget.

    The polynomial is written around successive points from one end on: as soon as its coefficients there share one
    sign, it is monotone in the rest of the range.

    Parameters
    ----------
    powers: coefficients in ascending order of powers.
    """
    if low is None:
        mirrored = [-k if degree % 2 else k for degree, k in enumerate(powers)]
        if high is not None:
            return highest_value(mirrored, -high, None)
        halves = highest_value(powers, 0, None), highest_value(mirrored, 1, None)
        return None if halves[0] is None or halves[1] is None else max(halves[0], halves[1])
    around = moved(powers, low)
    best = around[0]
    for at in range(low, low + POLYNOMIAL_STEPS):
        best = max(best, around[0])
        if at == high or all(k <= 0 for k in around[1:]):
            return best
        if all(k >= 0 for k in around[1:]):
            return None if high is None else max(best, moved(around, high - at)[0])
        around = moved(around, 1)
    return None


def moved(powers: Sequence[int], by: int) -> list[int]:
    """The coefficients of `p(x + by)` for those of `p(x)`, by synthetic division."""
    result = list(powers)
    for first in range(len(result) - 1):
        for k in range(len(result) - 2, first - 1, -1):
            result[k] += by * result[k + 1]
    return result
