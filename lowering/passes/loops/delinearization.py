"""Delinearization: a variable that is only divided becomes loops over its mixed-radix digits.

    for q in [0, 144):                                     for q.2 in [0, 16):
        col[q] = A[q / 9, q / 3 % 3, q % 3]     becomes        for q.1 in [0, 3):
                                                                   for q.0 in [0, 3):
                                                                       col[q.2 * 9 + q.1 * 3 + q.0] = A[q.2, q.1, q.0]

An innermost loop qualifies if it divides its variable by numbers each of which divides the next, the last of them the
extent. C compilers would divide in every iteration and miss that neighbours in memory are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from bound.tir import walk
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.node import Expr, Node, Var, as_expr, constant_value
from intset.expr.range import Range
from lowering.nest.ir import For, Function, LoopKind, Stmt
from lowering.nest.walk import operands, range_ends, rebuilt, statements, transform

SHORT: Final = 8  # iterations of an innermost loop that are written out
_DIVISIONS: Final = (ops.TRUNCDIV, ops.FLOORDIV)
_REMAINDERS: Final = (ops.TRUNCMOD, ops.FLOORMOD)
_KINDS: Final = (LoopKind.SERIAL, LoopKind.VECTORIZED)


class _Digits(NamedTuple):
    """A range of digits: `var / low`, modulo `high / low` if `high` is set."""

    low: int
    high: int | None


def run_over_digits(f: Function) -> Function:
    """The same function with loops over the digits of variables that innermost loops take apart."""
    return f.with_body(rebuilt(f.body, lambda stmt: _taken_apart(stmt) if isinstance(stmt, For) else stmt))


def _taken_apart(loop: For) -> Stmt:
    low, count = (constant_value(e) for e in range_ends(loop.range))
    if low != 0 or count is None or loop.carried or loop.kind not in _KINDS:
        return loop
    inside = list(statements(loop.body))
    if any(isinstance(stmt, For) for stmt in inside):
        return loop
    parts = _digits_in([e for stmt in inside for e in operands(stmt)], loop.var)
    cuts = sorted({1, *(d.low for d in parts.values()), *(d.high for d in parts.values() if d.high is not None)})
    if len(cuts) < 2 or cuts[-1] >= count or any(b % a for a, b in pairwise((*cuts, count))):
        return loop
    digits = [Var(f"{loop.var.name}.{k}") for k in range(len(cuts))]
    new: dict[Node, Expr] = {e: _sum(digits, cuts, d) for e, d in parts.items()}
    new[loop.var] = _sum(digits, cuts, _Digits(1, None))
    body = transform(loop.body, lambda e: walk.rewrite(e, dict(new)))
    is_short = cuts[1] <= SHORT
    for k, (digit, (cut, following)) in enumerate(zip(digits, pairwise((*cuts, count)), strict=True)):
        is_vector = k == (1 if is_short else 0)
        kind = LoopKind.UNROLLED if is_short and k == 0 else loop.kind if is_vector else LoopKind.SERIAL
        body = replace(loop, var=digit, range=Range(0, following // cut), body=body, kind=kind)
    return body


def _digits_in(roots: Sequence[Operand], var: Var) -> Mapping[Expr, _Digits]:
    """The quotients and remainders of a variable by numbers, those inside of others included."""
    parts: dict[Expr, _Digits] = {}
    for root in roots:
        for node in walk.nodes(root):
            if isinstance(node, Expr) and node not in parts and len(node.args) == 2:
                part = _digit(node, var, parts)
                if part is not None:
                    parts[node] = part
    return parts


def _digit(node: Expr, var: Var, known: Mapping[Expr, _Digits]) -> _Digits | None:
    of, by = (as_expr(arg) for arg in node.args)
    number = constant_value(by)
    whole = _Digits(1, None) if of is var else known.get(of)
    if whole is None or number is None or number < 1:
        return None
    if node.op is ops.SHR and number < 31:
        digit = _Digits(whole.low << number, whole.high)
    elif node.op in _DIVISIONS:
        digit = _Digits(whole.low * number, whole.high)
    elif node.op in _REMAINDERS:
        digit = _Digits(whole.low, whole.low * number)
    elif node.op is ops.BITAND and number & (number + 1) == 0:
        digit = _Digits(whole.low, whole.low * (number + 1))
    else:
        return None
    last = digit.low if digit.high is None else digit.high
    return digit if whole.high is None or (whole.high % last == 0 and digit.low < whole.high) else None


def _sum(digits: Sequence[Var], cuts: Sequence[int], part: _Digits) -> Expr:
    """The value of a range of digits; its lowest digit counts 1."""
    total: Expr | None = None
    for digit, cut in reversed(list(zip(digits, cuts, strict=True))):
        if part.low <= cut and (part.high is None or cut < part.high):
            term = digit if cut == part.low else digit * (cut // part.low)
            total = term if total is None else total + term
    return as_expr(0) if total is None else total
