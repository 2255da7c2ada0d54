"""The `stride` domain: multi-stride sets `{b + s1*[0, e1) + s2*[0, e2) + ...}`, exact on every affine image of a box.

Where an operation leaves that class the answer is the best single stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from intset.domains import multistride, strided
from intset.domains.base import End, IntSet, empty_set
from intset.domains.product import StridedSet
from intset.domains.query import Query
from intset.domains.value import ValueDomain
from intset.errors import CountError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.digits import number_text
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.walk import free_vars, substitute
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear


class StrideSet(IntSet):
    """`offset` plus a multi-stride set of constants; the offset may depend on parameters."""

    def __init__(self, offset: Linear, steps: multistride.MultiStride, by: str = "stride", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", True), flags.pop("is_exact", False), **flags)
        self.offset, self.steps = offset, steps

    def ends(self) -> tuple[End, End]:
        low, high = multistride.lowest(self.steps), multistride.highest(self.steps)
        assert low is not None and high is not None
        return self.offset.shift(low).expr(), self.offset.shift(high).expr()

    def substituted(self, values: Mapping[Var, Expr]) -> StrideSet:
        offset = Normalizer({}).form(substitute(self.offset.expr(), values))
        flags = {"is_tight": self.is_tight, "is_exact": self.is_exact, "notes": self.notes}
        return StrideSet(offset, self.steps, self.by, **flags)

    def condition(self, e: IntLike) -> Cond:
        """A condition for nested strides; else membership is spelled out by the values of the largest steps."""
        base, terms = self.steps
        return _member(as_expr(e) - self.offset.shift(base).expr(), sorted(terms, reverse=True))

    def __contains__(self, value: object) -> bool:
        if not self.params and isinstance(value, int) and not isinstance(value, bool):
            found = multistride.contains(self.steps, value - self.offset.const)
            if found is not None:
                return found
        return super().__contains__(value)

    def count(self) -> int:
        number = multistride.count(self.steps)
        if number is None:
            raise CountError(f"counting {self.describe()} is out of budget")
        return number

    def describe(self) -> str:
        base, terms = self.steps
        start = self.offset.shift(base)
        parts = [] if start.is_const and start.const == 0 and terms else [str(start.expr())]
        parts += [f"[0, {number_text(e)})" if s == 1 else f"{number_text(s)}*[0, {number_text(e)})" for s, e in terms]
        return "{" + " + ".join(parts) + "}"


MAX_MEMBER_BRANCHES = 512


def _member(x: Expr, terms: list[multistride.Term]) -> Cond:
    """Whether `x` is a sum of multiples of the strides, largest stride first.

    Where what the smaller strides reach stays below the largest one, its multiple is `x // s`; else each is tried.
    """
    from intset.expr.build import logical_or

    pending: list[tuple[Expr, int, list[Cond]]] = [(x, 0, [])]
    done: list[Cond] = []
    while pending:
        rest, k, conds = pending.pop()
        if len(terms) - k <= 1:
            s, e = terms[k] if k < len(terms) else (1, 1)
            inside = [rest >= 0, rest <= s * (e - 1)] if e > 1 else [rest.eq(0)]
            done.append(logical_and(*conds, *inside, *([(rest % s).eq(0)] if s > 1 and e > 1 else [])))
            continue
        s, e = terms[k]
        if multistride.reach(terms[k + 1 :]) < s:
            pending.append((rest % s, k + 1, [*conds, rest >= 0, rest < s * e]))
        elif e * max(len(pending), 1) <= MAX_MEMBER_BRANCHES:
            pending.extend((rest - s * t, k + 1, conds) for t in range(e))
        else:
            raise CountError("membership of this multi-stride set is out of budget")
    return logical_or(*done)


class StrideDomain(ValueDomain[strided.Strided]):
    """Multi-stride sets, falling to the best single stride.

    Guarantee: `is_exact` where the set is built from independent variables by operations that keep it multi-stride.
    """

    name: ClassVar[str] = "stride"
    transfer: Mapping[ops.Op, Callable[..., strided.Strided]] = strided.TRANSFER

    def constant(self, x: int) -> strided.Strided:
        return strided.const(x)

    def between(self, low: int | None, high: int | None) -> strided.Strided:
        return strided.make(low, high)

    def congruent(self, m: int, r: int) -> strided.Strided:
        return strided.make(None, None, m, r)

    def join(self, a: strided.Strided, b: strided.Strided) -> strided.Strided:
        return strided.join(a, b)

    def meet(self, a: strided.Strided, b: strided.Strided) -> strided.Strided:
        return strided.meet(a, b)

    def image(self, query: Query) -> IntSet:
        return structural_image(query) or super().image(query)

    def represent(self, value: strided.Strided) -> IntSet:
        return empty_set(self.name) if value is None else StridedSet(value, self.name)


def structural_image(query: Query) -> StrideSet | None:
    """The image, where structure shows it: a sum of terms over disjoint sets of freely running variables, each of which
    is a multi-stride set. `None` for all else."""
    known = query.known
    if query.is_empty:
        return None
    form = query.forms[0]
    if query.is_touched(form.terms):
        return None
    found = _steps_of(query, form)
    if found is None and len(form.terms) > 1:
        regrouped = known.regroup(form)
        found = None if regrouped is form else _steps_of(query, regrouped)
    if found is None:
        return None
    return StrideSet(*found, by="stride", is_exact=True)


def _steps_of(query: Query, form: Linear) -> tuple[Linear, multistride.MultiStride] | None:
    """(what does not depend on relaxed variables, the steps of what does)."""
    fixed: dict[Expr, int] = {}
    base = form.const
    terms: list[multistride.Term] = []
    seen: set[Var] = set()
    for e, k in form.terms.items():
        own = [v for v in free_vars(e) if query.is_relaxed(v)]
        if not own and not _has_load(e):
            fixed[e] = k
            continue
        if any(v in seen for v in own):
            return None
        seen.update(own)
        steps = steps_of_atom(query, e)
        if steps is None:
            return None
        base += k * steps[0]
        terms.extend((k * s, extent) for s, extent in steps[1])
    return Linear(0, fixed), multistride.make(base, terms)


def _has_load(e: Expr) -> bool:
    from intset.expr.walk import opaque_terms

    return e.op is not ops.VAR and bool(opaque_terms(e))


def steps_of_atom(query: Query, e: Any) -> multistride.MultiStride | None:
    """The values of an atom, where structure shows that they are a multi-stride set."""
    if e.op is ops.VAR:
        limits = query.ranges[e].constant()
        if limits is None or e.declared()[2] != 1:
            return None
        low, high = query.known.atom_bounds(e)
        if low is None or high is None:
            return None
        return multistride.make(low, _run(1, high - low + 1))
    if e.op in (ops.FLOORDIV, ops.FLOORMOD) and e.args[1].op is ops.CONST and e.args[1].data > 0:
        inner = _steps_of(query, query.known.form(e.args[0]))
        if inner is None or not inner[0].is_const:
            return None
        steps = multistride.translate(inner[1], inner[0].const)
        by = multistride.floordiv if e.op is ops.FLOORDIV else multistride.floormod
        return by(steps, e.args[1].data)
    return None


def _run(step: int, extent: int) -> Iterable[multistride.Term]:
    return ((step, extent),)
