"""Canonical forms to isl: the domain of a query as a set, its expressions as piecewise affine functions.

What is not affine (a product of variables, a division by a variable, an opaque term, a division nested too deep)
becomes a fresh dimension with the bounds that are known of it: a sound relaxation, reported in `relaxed_terms`.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from intset.domains.isl.session import context, isl, val
from intset.domains.query import Query
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.walk import opaque_terms
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

if TYPE_CHECKING:
    from islpy import Aff, Map, PwAff, Set, dim_type

MAX_FRESH_TERMS = 16  # with more, what is left of the question is not worth isl's time
MAX_NESTING = 6  # divisions nested deeper than this are relaxed: isl's time explodes there
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
    roots: conditions that will be translated by `cond`, so that their terms need dimensions.
    seeds: what else decides which variables and facts matter.

    Attributes
    ----------
    dims: the set dimensions: relaxed variables, then fresh terms.
    params: the parameters; a non-affine term of parameters alone, such as `n*m`, is a parameter of its own, with some
        value where the term has none: what is asked does not depend on it there, but is printed with it.
    domain: the isl set of the points `dims`, parametric in `params`.
    relaxed_terms: the terms that became fresh dimensions and are *not* free to take every value in their bounds.
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
        if len(terms) > MAX_FRESH_TERMS:
            raise BudgetError(f"{len(terms)} terms are not affine")
        relaxed = set(self.variables)
        self.fresh = [e for e in terms if e.op is ops.LOAD or any(v in relaxed for v in e.free_vars())]
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
        """The forms that are at least 0 because `var` lies in its symbolic range."""
        limits = self.query.ranges.get(var)
        if limits is None or limits.constant() is not None or not self._given.issuperset(limits.free_vars()):
            return []  # of a kept variable: what its range says of variables that are not asked for
        gaps = []
        if isinstance(limits.min, Expr):
            gaps.append(self.base.form(var - limits.min))
        if isinstance(limits.max, Expr):
            gaps.append(self.base.form(limits.max - var))
        return gaps

    def _non_affine(self, roots: Sequence[tuple[Normalizer, Linear | Cond]]) -> list[Expr]:
        """The maximal subterms that are not affine, met in the order in which `affine` and `cond` will meet them."""
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
                parts = _affine_parts(normalizer, node) if level < MAX_NESTING else None
                if parts is None:
                    found[node] = None
                else:
                    stack.extend((inner, part, level + 1) for inner, part in reversed(parts))
        return list(found)

    def _defined_everywhere(self, e: Expr) -> Expr:
        """The term where it has a value, elsewhere a number within its bounds."""
        held = {self.base.cond(fact) for fact in self.query.facts}
        open_needs = [
            need
            for need in reversed(definedness((e,)))  # those of what is inside come first
            if need not in self.query.facts and self.known.clauses(need) and self.base.cond(need) not in held
        ]
        if not open_needs:
            return e
        low, high = self.base.atom_bounds(e)
        number = low if low is not None and low > 0 else high if high is not None and high < 0 else 0
        return select(logical_and(*open_needs), e, number)

    def _is_free(self, e: Expr) -> bool:
        """Whether a fresh term really takes every value in its bounds: an opaque term whose symbol is read nowhere
        else, neither in an index nor in a fact, whether that shares a variable with the question or not."""
        if e.op is not ops.LOAD:
            return False
        loads = opaque_terms(*self.fresh, *(self.base.cond(fact) for fact in self.query.facts))
        return sum(1 for other in loads if other.data is e.data) == 1

    # -- spaces -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        m = isl()
        space = m.Space.set_alloc(context(), len(self.params), len(self.dims))
        for k, param in enumerate(self.params):
            space = space.set_dim_name(m.dim_type.param, k, param_name(param))
        self.space = space
        self._zero = m.Aff.zero_on_domain(m.LocalSpace.from_space(space))

    def _domain(self) -> Set:
        m = isl()
        result: Set = m.Set.universe(self.space)
        for k, e in enumerate(self.dims):
            result = _bounded(result, m.dim_type.set, k, self.known.atom_bounds(e))
        for k, param in enumerate(self._sizes):
            result = _bounded(result, m.dim_type.param, k, self.base.atom_bounds(param))
            step = param.declared()[2] if isinstance(param, Var) else 1
            if step > 1:
                value = self._affine(self.base, self.base.form(param))
                result = result.intersect(value.mod_val(val(step)).eq_set(self._zero))
        for gap in self._gaps:
            result = result.intersect(self._nonneg(self._affine(self.base, gap)))
        for fact in self.facts:
            result = result.intersect(self.cond(self.base, fact))
        for cond in self._extra:
            result = result.intersect(self.cond(self.known, self.known.cond(cond)))
        return result

    # -- functions ----------------------------------------------------------------------------------------------

    def affine(self, form: Linear) -> Aff | PwAff:
        """An isl `Aff` or `PwAff` equal to `form` on the domain."""
        return self._affine(self.known, form)

    def _affine(self, normalizer: Normalizer, form: Linear) -> Aff | PwAff:
        m = isl()
        aff: Any = self._zero
        if form.const:
            aff = aff.set_constant_val(val(form.const))
        rest = []
        for e, k in form.terms.items():
            place = self._position.get(e)
            if place is None:
                rest.append((e, k))
            else:
                kind = m.dim_type.param if place[0] else m.dim_type.in_
                aff = aff.set_coefficient_val(kind, place[1], val(k))
        for e, k in rest:
            aff = _add(aff, _scaled(self._atom(normalizer, e), k))
        found: Aff | PwAff = aff
        return found

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
            return self._affine(normalizer, forms[0]).scale_down_val(val(forms[1].const)).floor()
        if op is ops.FLOORMOD:
            return self._affine(normalizer, forms[0]).mod_val(val(forms[1].const))
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
                kind, form = normalizer.compared[node]
                value = self._affine(normalizer, form)
                done[node] = self._nonneg(value) if kind is ops.GE else _where(value, self._zero, kind)
            stack.pop()
        return done[root]

    def _nonneg(self, value: Aff | PwAff) -> Set:
        if isinstance(value, isl().Aff):
            found: Set = value.ge_set(self._zero)
            return found
        return _piecewise(value).nonneg_set()


def _affine_parts(normalizer: Normalizer, e: Any) -> list[tuple[Normalizer, Any]] | None:
    """What the atom `e` is made of, each part with the normalizer it is read under; `None` when it is not affine."""
    if e.op is ops.SELECT:
        arms = [(inner, inner.form(arm)) for inner, arm in normalizer.branches(e)]
        return [(normalizer, normalizer.cond(e.args[0])), *arms]
    if e.op not in (ops.FLOORDIV, ops.FLOORMOD) and e.op not in _PIECEWISE:
        return None
    forms = [normalizer.form(arg) for arg in e.args]
    if e.op in (ops.FLOORDIV, ops.FLOORMOD, ops.TRUNCDIV) and not (forms[1].is_const and forms[1].const > 0):
        return None
    return [(normalizer, form) for form in forms]


_TERM_NUMBERS: weakref.WeakKeyDictionary[Expr, int] = weakref.WeakKeyDictionary()
_NEXT_TERM = itertools.count()


def param_name(param: Expr) -> str:
    """A name that no other parameter of this process has."""
    if isinstance(param, Var):
        return f"p{param.serial}"
    number = _TERM_NUMBERS.get(param)
    if number is None:
        number = _TERM_NUMBERS.setdefault(param, next(_NEXT_TERM))
    return f"q{number}"


def _bounded(result: Set, kind: dim_type, position: int, interval: Any) -> Set:
    if interval is None:
        return result
    low, high = interval
    if low is not None:
        result = result.lower_bound_val(kind, position, val(low))
    if high is not None:
        result = result.upper_bound_val(kind, position, val(high))
    return result


def image_of(translation: Translation) -> Set:
    """The isl set of the values that the query's expressions take together."""
    m = isl()
    maps = []
    for form in translation.query.forms:
        function = translation.affine(form)
        one = m.Map.from_aff(function) if isinstance(function, m.Aff) else m.Map.from_pw_aff(function)
        maps.append(one)
    if not maps:
        return translation.domain.project_out(m.dim_type.set, 0, len(translation.dims))
    relation: Map = maps[0]
    for one in maps[1:]:
        relation = relation.flat_range_product(one)
    return relation.intersect_domain(translation.domain).range()


def _piecewise(value: Aff | PwAff) -> PwAff:
    whole: Any = value
    if isinstance(value, isl().Aff):
        whole = isl().PwAff.from_aff(value)
    found: PwAff = whole
    return found


def _add(a: Aff | PwAff, b: Aff | PwAff) -> Aff | PwAff:
    if isinstance(a, isl().Aff) and isinstance(b, isl().Aff):
        both: Aff = a.add(b)
        return both
    return _piecewise(a).add(_piecewise(b))


def _scaled(value: Aff | PwAff, factor: int) -> Aff | PwAff:
    return value if factor == 1 else value.scale_val(val(factor))


def _where(value: Aff | PwAff, zero: Aff, kind: ops.Op) -> Set:
    if isinstance(value, isl().Aff):
        equal: Set = value.eq_set(zero)
        return equal if kind is ops.EQ else equal.complement()
    function, piecewise = _piecewise(value), _piecewise(zero)
    return function.eq_set(piecewise) if kind is ops.EQ else function.ne_set(piecewise)
