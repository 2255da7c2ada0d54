"""Integer polynomials over atoms: the checker's own arithmetic, independent of the canonical form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from functools import reduce
from operator import and_
from typing import Any, Final, TypeVar

from intset.budgets import LONGEST_VALUE
from intset.check.premises import CheckBudget
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Cond, Expr, Node, constant_value, make

CHECK_SHIFT: Final = 4_096  # bits of a shift that is multiplied out
CHECK_MONOMIALS: Final = 40_000  # monomials of one product before like terms combine
CHECK_CONJUNCTIONS: Final = 64  # conjunctions of one bitwise expression before like terms combine

Monomial = frozenset[tuple[Any, int]]  # atoms with their powers
Poly = dict[Monomial, int]
UNIT: Monomial = frozenset()

K = TypeVar("K")
Bits = dict[frozenset[Any], int]  # {conjunction of operands: coefficient}; the empty conjunction is -1 (all bits set)


class Expander:
    """Expands expressions into integer polynomials; nonpolynomial operations become atoms keyed by their operands.

    Quotients by constants or by `nonzero` expressions cancel common factors: `(x*h) // (x*d)` becomes `h // d`.

    Invariant: `nodes` maps every atom to an expression with its value.
    """

    def __init__(self, nonzero: Collection[Expr] = (), budget: CheckBudget | None = None) -> None:
        self._budget = budget
        self._keys: dict[Any, Any] = {}  # interned atoms, for comparison by identity
        self.nonzero = nonzero
        self._polys: dict[Node, Poly] = {}
        self._bits: dict[Node, Bits] = {}
        self._operands: dict[Any, Expr] = {}  # operand of a conjunction: an expression
        self.nodes: dict[Any, Expr] = {}

    def poly(self, root: Expr) -> Poly:
        for node in postorder((root,)):
            if isinstance(node, Expr) and node not in self._polys:
                if self._budget is not None:
                    self._budget.spend(4 + 2 * sum(len(self._polys.get(arg, ())) for arg in node.args))
                self._polys[node] = self._expand(node, [self._polys.get(arg, {}) for arg in node.args])
        return self._polys[root]

    def _expand(self, node: Expr, args: list[Poly]) -> Poly:
        op = node.op
        if op is ops.CONST:
            return {UNIT: node.data} if node.data else {}
        if op in (ops.ADD, ops.SUB):
            return add(args[0], args[1], 1 if op is ops.ADD else -1)
        if op is ops.MUL:
            return multiply(args[0], args[1], self._budget)
        if op is ops.NEG:
            return add({}, args[0], -1)
        if op is ops.ASSERTING:
            return args[1]
        if op in BITWISE:
            bits = self._bitwise(node)
            if bits is not None:
                self._bits[node] = bits
        same = in_other_words(node)
        if same is not None:
            return self.poly(same)
        if op is ops.FLOORMOD:  # a % b = a - b * (a // b)
            quotient = self.poly(make(ops.FLOORDIV, node.args))
            return add(args[0], multiply(args[1], quotient, self._budget), -1)
        if op is ops.CEILDIV:  # ceil(a / b) = -floor(-a / b)
            return add({}, self.poly(make(ops.FLOORDIV, (-node.args[0], node.args[1]))), -1)
        if node in self._bits:
            return self._sum_of_conjunctions(self._bits[node])
        if op in (ops.FLOORDIV, ops.TRUNCDIV) and (constant_value(node.args[1]) or node.args[1] in self.nonzero):
            args = list(without_common_factors(*args))
            if args[1] == {UNIT: 1}:
                return args[0]
        return {frozenset({(self._atom(node, args), 1)}): 1}

    def _bitwise(self, node: Expr) -> Bits | None:
        """A bitwise operation as an integer combination of conjunctions; None beyond the limit."""
        forms = [self._bits_of(arg) for arg in node.args]
        if node.op is ops.BITNOT:
            return add({frozenset(): 1}, forms[0], -1)
        a, b = forms
        if len(a) * len(b) > CHECK_CONJUNCTIONS:
            return None
        both: Bits = {}
        for (s, k), (t, m) in itertools.product(a.items(), b.items()):
            both = add(both, {s | t: 1}, k * m)
        weight = BITWISE[node.op]
        return both if weight is None else add(add(a, b, 1), both, weight)

    def _bits_of(self, e: Expr) -> Bits:
        if e in self._bits:
            return self._bits[e]
        value = constant_value(e)
        if value == 0 or value == -1:
            return {frozenset(): 1} if value else {}
        key = frozenset(self._polys[e].items())
        self._operands.setdefault(key, e)
        return {frozenset({key}): 1}

    def _sum_of_conjunctions(self, bits: Bits) -> Poly:
        total: Poly = {}
        for operands, k in bits.items():
            if not operands:
                total = add(total, {UNIT: -1}, k)
            elif len(operands) == 1:
                total = add(total, dict(*operands), k)
            else:
                key = (ops.BITAND, operands)
                if key not in self.nodes:
                    self.nodes[key] = reduce(and_, (e for one, e in self._operands.items() if one in operands))
                total = add(total, {frozenset({(key, 1)}): 1}, k)
        return total

    def _atom(self, node: Expr, args: list[Poly]) -> Any:
        if node.op is ops.VAR:
            key: Any = node
        else:
            parts = zip(node.args, args, strict=True)
            key = (node.op, node.data, *(frozenset(p.items()) if isinstance(a, Expr) else a for a, p in parts))
        key = self._keys.setdefault(key, key)
        self.nodes.setdefault(key, node)
        return key

    def sides(self, cond: Cond) -> tuple[Poly, bool]:
        """(p, is_equation) with the comparison equivalent to `p == 0` or `p >= 0`, tightened."""
        a, b = (self.poly(arg) for arg in cond.args)
        if cond.op in (ops.LE, ops.LT):
            a, b = b, a
        difference = add(a, b, -1)
        if cond.op in (ops.LT, ops.GT):
            difference = add(difference, {UNIT: 1}, -1)
        return tightened(difference, cond.op is ops.EQ)


# a | b = a + b - (a & b), a ^ b = a + b - 2*(a & b): coefficient of the conjunction; None for other operations
BITWISE: dict[ops.Op, int | None] = {ops.BITAND: None, ops.BITOR: -1, ops.BITXOR: -2, ops.BITNOT: None}


def without_common_factors(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """`a` and `b` divided by their greatest common monomial."""
    terms = [dict(monomial) for monomial in (*a, *b)]
    if not b:
        return a, b
    shared = {atom: min(term.get(atom, 0) for term in terms) for atom in terms[0]}
    shared = {atom: power for atom, power in shared.items() if power}
    factor = math.gcd(*a.values(), *b.values())
    if factor == 1 and not shared:
        return a, b
    return _divided(a, factor, shared), _divided(b, factor, shared)


def _divided(poly: Poly, factor: int, shared: Mapping[Any, int]) -> Poly:
    quotient: Poly = {}
    for monomial, k in poly.items():
        left = ((atom, power - shared.get(atom, 0)) for atom, power in monomial)
        quotient[frozenset((atom, power) for atom, power in left if power)] = k // factor
    return quotient


def in_other_words(node: Expr) -> Expr | None:
    """An operation expressed by floor division and arithmetic; None without a total equivalent."""
    op, args = node.op, node.args
    if not args:
        return None
    first: Expr = args[0]
    k = constant_value(args[1]) if len(args) == 2 and isinstance(args[1], Expr) else None
    if op is ops.TRUNCMOD:
        divisor: Expr = args[1]
        quotient: Expr = make(ops.TRUNCDIV, args)
        return first - divisor * quotient
    if op is ops.BITNOT:
        return -first - 1
    if op in (ops.SHL, ops.SHR) and k is not None and 0 <= k <= CHECK_SHIFT:
        return first * (1 << k) if op is ops.SHL else first // (1 << k)
    if op is ops.BITAND and k is not None and k >= 0 and k & (k + 1) == 0:
        return first % (k + 1)
    if op is ops.CAST and node.data[0] <= CHECK_SHIFT:
        bits, signed = node.data
        half = 1 << (bits - 1) if signed else 0
        modulus: int = 1 << bits
        return first - (first + half) // modulus * modulus
    return None


def tightened(poly: Poly, is_zero: bool) -> tuple[Poly, bool]:
    """Tighten over the integers: divide by the gcd of the coefficients and round the constant down."""
    factor = math.gcd(*(k for monomial, k in poly.items() if monomial))
    if factor <= 1:
        return poly, is_zero
    constant = poly.get(UNIT, 0)
    if is_zero and constant % factor:
        return {UNIT: -1}, False  # no integer solution
    reduced = {monomial: k // factor for monomial, k in poly.items()}
    return {monomial: k for monomial, k in reduced.items() if k}, is_zero


def add(a: Mapping[K, int], b: Mapping[K, int], factor: int) -> dict[K, int]:
    """`a + factor * b`, of terms with their coefficients."""
    result = dict(a)
    for term, k in b.items():
        total = result.get(term, 0) + factor * k
        if total:
            result[term] = total
        else:
            result.pop(term, None)
    return result


def multiply(a: Poly, b: Poly, budget: CheckBudget | None = None) -> Poly:
    """The product; BudgetError beyond `CHECK_MONOMIALS` monomials or `LONGEST_VALUE` bits."""
    if len(a) * len(b) > CHECK_MONOMIALS:
        raise BudgetError(f"a product of {len(a) * len(b)} monomials", "CHECK_MONOMIALS")
    first, second = (max((k.bit_length() for k in poly.values()), default=0) for poly in (a, b))
    if first + second > LONGEST_VALUE:
        raise BudgetError(f"a product with coefficients of {first + second} bits", "LONGEST_VALUE")
    if budget is not None:
        budget.spend(len(a) * len(b) * (4 + first * second // (1 << 18)))
    result: Poly = {}
    for (m1, k1), (m2, k2) in itertools.product(a.items(), b.items()):
        powers = dict(m1)
        for atom, power in m2:
            powers[atom] = powers.get(atom, 0) + power
        monomial = frozenset(powers.items())
        total = result.get(monomial, 0) + k1 * k2
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result
