"""Canonical forms to isl: the domain of a query as a set, its expressions as piecewise affine functions.

A non-affine term (a product of variables, a division by a variable, an opaque term, a division nested too deep) becomes
a fresh dimension with its known bounds: a sound relaxation, reported in `relaxed_terms`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from intset.domains.isl.session import context, isl, named, origin, val, zero_on
from intset.domains.query import Query
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_and, select
from intset.expr.dag import LOCK, opaque_terms
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Node, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

if TYPE_CHECKING:
    from islpy import Aff, PwAff, Set, dim_type

FRESH_TERMS: Final = 16  # of a question; with more, isl is not asked
ISL_NESTING: Final = 6  # divisions nested deeper than this are relaxed: isl's time explodes there

_Row: TypeAlias = tuple[str, Any, int, Any]
_Steps: TypeAlias = tuple[tuple[Any, ...], ...]
_PIECEWISE: dict[ops.Op, Callable[..., Any]] = {
    ops.MIN: lambda a, b: a.min(b),
    ops.MAX: lambda a, b: a.max(b),
    ops.ABS: lambda a: a.max(a.neg()),
    ops.TRUNCDIV: lambda a, b: a.tdiv_q(b),
}


class Translation:
    """A query in isl's terms.

    Parameters
    ----------
    query: the question.
    conditions: further conditions that restrict the domain.
    roots: conditions for later calls of `cond`, whose terms need dimensions.
    seeds: further nodes whose variables and facts are relevant.

    Attributes
    ----------
    dims: the set dimensions: quantified variables, then fresh terms.
    params: the parameters, including non-affine terms of parameters, such as `n*m`. An undefined term has an arbitrary
        value, on which no answer depends.
    domain: the isl set of the points `dims`, parametric in `params`.
    relaxed_terms: fresh dimensions that possibly skip values within their bounds.
    """

    def __init__(
        self, query: Query, conditions: Sequence[Cond] = (), roots: Sequence[Cond] = (), seeds: Sequence[Node] = ()
    ) -> None:
        self.query = query
        self.known = query.known
        self.base = query.base
        self._extra = tuple(conditions)
        facts = [self.base.cond(fact) for fact in query.facts]
        conds = [self.known.cond(cond) for cond in (*roots, *self._extra)]
        asked: list[Node] = [*(form.expr() for form in query.forms), *conds, *seeds, *query.also]
        canonical = Query(query.exprs, query.ranges, facts, tuple(query.keep), query.base, query.known, query.config)
        self.variables, sizes, self.facts, self.leftover = canonical.split_relevant(asked)
        self._given = {*self.variables, *sizes}
        self._gaps = [gap for var in (*self.variables, *sizes) for gap in self._symbolic_gaps(var)]
        read: list[tuple[Normalizer, Linear | Cond]] = [(self.known, form) for form in query.forms]
        read += [(self.known, cond) for cond in conds]
        read += [(self.base, fact) for fact in self.facts]
        read += [(self.base, gap) for gap in self._gaps]
        terms = self._non_affine(read)
        if len(terms) > FRESH_TERMS:
            raise BudgetError(f"{len(terms)} terms are not affine")
        relaxed = set(self.variables)
        self.fresh = [e for e in terms if opaque_terms(e) or any(v in relaxed for v in e.free_vars())]
        self._sizes = [*sizes, *(e for e in terms if e not in self.fresh)]
        self.params: list[Expr] = [e if e.op is ops.VAR else self._defined_everywhere(e) for e in self._sizes]
        self.dims: list[Expr] = [*self.variables, *self.fresh]
        self.relaxed_terms = [e for e in self.fresh if not self._is_free(e)]
        self._position = {e: (False, k) for k, e in enumerate(self.dims)}
        self._position |= {p: (True, k) for k, p in enumerate(self._sizes)}
        self._memo: dict[tuple[int, Expr], Any] = {}
        self._open()
        self.domain = self._domain()

    # -- dimensions ---------------------------------------------------------------------------------------------

    def _symbolic_gaps(self, var: Var) -> list[Linear]:
        """The forms that are nonnegative inside the symbolic range of `var`."""
        limits = self.query.ranges.get(var)
        if limits is None or limits.constant() is not None or not self._given.issuperset(limits.free_vars()):
            return []  # a kept variable with a range over irrelevant variables
        gaps = []
        if isinstance(limits.min, Expr):
            gaps.append(self.base.form(var - limits.min))
        if isinstance(limits.max, Expr):
            gaps.append(self.base.form(limits.max - var))
        return gaps

    def _non_affine(self, roots: Sequence[tuple[Normalizer, Linear | Cond]]) -> list[Expr]:
        """The maximal non-affine subterms, in the order of the later translation."""
        found: dict[Expr, None] = {}
        depth: dict[tuple[int, Any], int] = {}
        stack: list[tuple[Normalizer, Any, int]] = [(normalizer, root, 0) for normalizer, root in reversed(roots)]
        while stack:
            normalizer, node, level = stack.pop()
            if isinstance(node, Linear):
                stack.extend((normalizer, e, level) for e in reversed(node.terms))
                continue
            key = (id(normalizer), node)
            if depth.get(key, -1) >= level:
                continue
            depth[key] = level
            if isinstance(node, Cond):
                if node.op is ops.AND or node.op is ops.OR:
                    stack.extend((normalizer, arg, level) for arg in reversed(node.args))
                elif node.op is not ops.BOOL:
                    stack.append((normalizer, normalizer.compared[node][1], level))
            elif node.op is not ops.VAR:
                parts = _affine_parts(normalizer, node) if level < ISL_NESTING else None
                if parts is None:
                    found[node] = None
                else:
                    stack.extend((inner, part, level + 1) for inner, part in reversed(parts))
        return list(found)

    def _defined_everywhere(self, e: Expr) -> Expr:
        """The term, extended by a number within its bounds where it is undefined."""
        held = {self.base.cond(fact) for fact in self.query.facts}
        open_needs = [
            need
            for need in definedness((e,))
            if need not in self.query.facts and self.known.clauses(need) and self.base.cond(need) not in held
        ]
        if not open_needs:
            return e
        low, high = self.base.atom_bounds(e)
        number = low if low is not None and low > 0 else high if high is not None and high < 0 else 0
        return select(logical_and(*open_needs), e, number)

    def _is_free(self, e: Expr) -> bool:
        """Whether a fresh term takes every value in its bounds: the only load of its symbol."""
        return e.op is ops.LOAD and sum(1 for other in opaque_terms(*self.fresh) if other.data is e.data) == 1

    # -- spaces -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        m = isl()
        self.space, self._all, self._zero = origin(len(self.dims))
        if self.params:
            named = [("set_dim_name", m.dim_type.param, k, param_name(param)) for k, param in enumerate(self.params)]
            self.space = m.applied(m.Space.set_alloc(context(), len(named), len(self.dims)), named)
            self._all, self._zero = m.Set.universe(self.space), zero_on(self.space)

    def _domain(self) -> Set:
        m = isl()
        limits: list[_Row] = []
        for k, e in enumerate(self.dims):
            limits += _limits(m.dim_type.set, k, self.known.atom_bounds(e))
        for k, param in enumerate(self._sizes):
            limits += _limits(m.dim_type.param, k, self.base.atom_bounds(param))
        result: Set = m.numbered(self._all, limits)
        for param in self._sizes:
            step = param.declared()[2] if isinstance(param, Var) else 1
            if step > 1:
                steps = ("mod_val", val(step)), ("eq_set", self._zero)
                result = result.intersect(self._affine(self.base, self.base.form(param), steps))
        for gap in self._gaps:
            result = result.intersect(self._compared(self.base, ops.GE, gap))
        for fact in self.facts:
            result = result.intersect(self.cond(self.base, fact))
        for cond in self._extra:
            result = result.intersect(self.cond(self.known, self.known.cond(cond)))
        return result

    # -- functions ----------------------------------------------------------------------------------------------

    def mapped(self, form: Linear, *steps: tuple[Any, ...]) -> Any:
        """The isl `Map` from points to values of `form`, after further method calls `steps`."""
        return self._affine(self.known, form, (("Map.from_aff",), *steps), (("Map.from_pw_aff",), *steps))

    def _affine(
        self, normalizer: Normalizer, form: Linear, steps: _Steps = (), piecewise_steps: _Steps | None = None
    ) -> Any:
        """The isl `Aff` or `PwAff` that equals `form` on the domain, after further method calls `steps`."""
        m = isl()
        rows: list[_Row] = []
        rest = []
        for e, k in form.terms.items():
            place = self._position.get(e)
            if place is None:
                rest.append((e, k))
            else:
                kind = m.dim_type.param if place[0] else m.dim_type.in_
                rows.append(("set_coefficient_val", kind, place[1], val(k)))
        parts = [_scaled(self._atom(normalizer, e), k) for e, k in rest]
        plain = rows or form.const or not parts
        start = m.numbered(self._zero, rows, val(form.const)) if plain else parts.pop(0)
        if parts or not isinstance(start, m.Aff):
            if not all(isinstance(part, m.Aff) for part in (start, *parts)):
                parts, start = [*map(_piecewise, parts)], _piecewise(start)
                steps = steps if piecewise_steps is None else piecewise_steps
            steps = *(("add", part) for part in parts), *steps
        return m.applied(start, steps) if steps else start

    def _atom(self, normalizer: Normalizer, e: Any) -> Aff | PwAff:
        key = (id(normalizer), e)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._atom_uncached(normalizer, e)
        return found

    def _atom_uncached(self, normalizer: Normalizer, e: Any) -> Aff | PwAff:
        op = e.op
        if op is ops.SELECT:
            inside = self.cond(normalizer, normalizer.cond(e.args[0]))
            (yes, if_true), (no, if_false) = normalizer.branches(e)
            first = _piecewise(self._affine(yes, yes.form(if_true))).intersect_domain(inside)
            second = _piecewise(self._affine(no, no.form(if_false))).intersect_domain(inside.complement())
            chosen: PwAff = first.union_add(second)
            return chosen
        forms = [normalizer.form(arg) for arg in e.args]
        if op is ops.FLOORDIV:
            steps: _Steps = ("scale_down_val", val(forms[1].const)), ("floor",)
            quotient: Aff | PwAff = self._affine(normalizer, forms[0], steps)
            return quotient
        if op is ops.FLOORMOD:
            remainder: Aff | PwAff = self._affine(normalizer, forms[0], (("mod_val", val(forms[1].const)),))
            return remainder
        args = [_piecewise(self._affine(normalizer, form)) for form in forms]
        found: PwAff = _PIECEWISE[op](*args)
        return found

    # -- conditions ---------------------------------------------------------------------------------------------

    def cond(self, normalizer: Normalizer, root: Cond) -> Set:
        """The isl set of the points where the canonical condition `root` holds."""
        m = isl()
        done: dict[Node, Set] = {}
        stack: list[Cond] = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if node.op is ops.AND or node.op is ops.OR:
                waiting = [arg for arg in node.args if arg not in done]
                if waiting:
                    stack.extend(waiting)
                    continue
                a, b = (done[arg] for arg in node.args)
                done[node] = a.intersect(b) if node.op is ops.AND else a.union(b)
            elif node.op is ops.BOOL:
                done[node] = m.Set.universe(self.space) if node.data else m.Set.empty(self.space)
            else:
                done[node] = self._compared(normalizer, *normalizer.compared[node])
            stack.pop()
        return done[root]

    def _compared(self, normalizer: Normalizer, kind: ops.Op, form: Linear) -> Set:
        """The isl set of the points with `form >= 0`, `== 0` or `!= 0`, by `kind`."""
        steps: _Steps = (("ge_set" if kind is ops.GE else "eq_set", self._zero),)
        if kind is ops.NE:
            steps = *steps, ("complement",)
        found: Any = self._affine(normalizer, form, steps, ())
        if isinstance(found, isl().PwAff):
            zero = _piecewise(self._zero)
            found = (
                found.nonneg_set() if kind is ops.GE else found.eq_set(zero) if kind is ops.EQ else found.ne_set(zero)
            )
        inside: Set = found
        return inside


def _affine_parts(normalizer: Normalizer, e: Any) -> list[tuple[Normalizer, Any]] | None:
    """The operands of an affine atom, each with its normalizer; `None` for a non-affine atom."""
    if e.op is ops.SELECT:
        arms = [(inner, inner.form(arm)) for inner, arm in normalizer.branches(e)]
        return [(normalizer, normalizer.cond(e.args[0])), *arms]
    if e.op not in (ops.FLOORDIV, ops.FLOORMOD) and e.op not in _PIECEWISE:
        return None
    forms = [normalizer.form(arg) for arg in e.args]
    if e.op in (ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV) and not (forms[1].is_const and forms[1].const > 0):
        return None
    return [(normalizer, form) for form in forms]


_NEXT_TERM = itertools.count()


def param_name(param: Expr) -> str:
    """The name of a parameter, unique in this process."""
    if isinstance(param, Var):
        return named(f"p{param.serial}")
    with LOCK:
        if not hasattr(param, "_number"):
            param.remember("_number", next(_NEXT_TERM))
        number = param._number
    return named(f"q{number}")


def _limits(kind: dim_type, position: int, interval: Any) -> list[_Row]:
    """The method calls that bound a dimension by an interval."""
    low, high = interval or (None, None)
    found = [("lower_bound_val", kind, position, val(low))] if low is not None else []
    return found if high is None else [*found, ("upper_bound_val", kind, position, val(high))]


def image_of(translation: Translation) -> Set:
    """The image of the query's expressions as an isl set."""
    if not translation.query.forms:
        return translation.domain.project_out(isl().dim_type.set, 0, len(translation.dims))
    first, *others = translation.query.forms
    products = [("flat_range_product", translation.mapped(form)) for form in others]
    image: Set = translation.mapped(first, *products, ("intersect_domain", translation.domain), ("range",))
    return image


def _piecewise(value: Aff | PwAff) -> PwAff:
    whole: Any = value
    if isinstance(value, isl().Aff):
        whole = isl().PwAff.from_aff(value)
    found: PwAff = whole
    return found


def _scaled(value: Aff | PwAff, factor: int) -> Aff | PwAff:
    return value if factor == 1 else value.scale_val(val(factor))
