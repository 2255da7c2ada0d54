"""Translation to isl and back: canonical forms as sets and piecewise affine functions, and those as expressions.

The domain of a query becomes a set, its expressions become piecewise affine functions. A non-affine term (a product of
variables, a division by a variable, an opaque term, a division nested too deep) becomes a fresh dimension with its
known bounds: a sound relaxation, reported in `relaxed_terms`.

On the way back, the expressions and conditions are equal to isl's functions and sets at every point. What else is read
off a set comes last: products of intervals, bounding boxes, lattices of equations, disjoint convex pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key, reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from intset.domains.isl import session
from intset.domains.isl.bindings import CST, DIV, IN, PARAM, SET
from intset.domains.query import Query
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, Node, Var, as_expr, dag, ops
from intset.expr.build import logical_and, logical_or, maximum, minimum, select
from intset.expr.definedness import definedness
from intset.expr.node import truth
from intset.linear.assumptions import junction_args
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom
from intset.linear.lattice import Lattice, everything
from intset.regions.shape import Product, parts_of
from intset.simplify.engine import cost

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, Map, PwAff, Set, Val

FRESH_TERMS: Final = 16  # of a question; with more, isl is not asked
ISL_NESTING: Final = 6  # divisions nested deeper than this are relaxed: isl's time explodes there

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
        self.fresh = [e for e in terms if dag.opaque_terms(e) or any(v in relaxed for v in e.free_vars())]
        self._sizes = [*sizes, *(e for e in terms if e not in self.fresh)]
        self.params: list[Expr] = [e if e.op is ops.VAR else self._defined_everywhere(e) for e in self._sizes]
        self.dims: list[Expr] = [*self.variables, *self.fresh]
        loads = [e.data for e in dag.opaque_terms(*self.fresh)]  # a symbol's only load takes every value
        self.relaxed_terms = [e for e in self.fresh if e.op is not ops.LOAD or loads.count(e.data) != 1]
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

    # -- spaces -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        m = session.isl()
        self.space = m.Space.set_alloc(session.context(), len(self.params), len(self.dims))
        for k, param in enumerate(self.params):
            self.space = self.space.set_dim_name(PARAM, k, param_name(param))
        self._zero = m.Aff.zero_on_domain(m.LocalSpace.from_space(self.space))

    def _domain(self) -> Set:
        result: Set = session.isl().Set.universe(self.space)
        for k, e in enumerate(self.dims):
            result = _limited(result, SET, k, self.known.atom_bounds(e))
        for k, param in enumerate(self._sizes):
            result = _limited(result, PARAM, k, self.base.atom_bounds(param))
        for param in self._sizes:
            step = param.declared()[2] if isinstance(param, Var) else 1
            if step > 1:
                value = self._affine(self.base, self.base.form(param))
                result = result.intersect(value.mod_val(session.val(step)).eq_set(self._zero))
        for gap in self._gaps:
            result = result.intersect(self._compared(self.base, ops.GE, gap))
        for fact in self.facts:
            result = result.intersect(self.cond(self.base, fact))
        for cond in self._extra:
            result = result.intersect(self.cond(self.known, self.known.cond(cond)))
        return result

    # -- functions ----------------------------------------------------------------------------------------------

    def mapped(self, form: Linear) -> Map:
        """The isl `Map` from points to values of `form`."""
        m = session.isl()
        function = self._affine(self.known, form)
        pairs: Map = (m.Map.from_aff if isinstance(function, m.Aff) else m.Map.from_pw_aff)(function)
        return pairs

    def _affine(self, normalizer: Normalizer, form: Linear) -> Any:
        """The isl `Aff` or `PwAff` that equals `form` on the domain."""
        total = self._zero
        parts: list[Any] = []
        for e, k in form.terms.items():
            place = self._position.get(e)
            if place is None:
                part = self._atom(normalizer, e)
                parts.append(part if k == 1 else part.scale_val(session.val(k)))
            else:
                total = total.set_coefficient_val(PARAM if place[0] else IN, place[1], session.val(k))
        if form.const:
            total = total.set_constant_val(session.val(form.const))
        if parts and total is self._zero:
            total = parts.pop(0)
        if not all(isinstance(part, session.isl().Aff) for part in (total, *parts)):
            total, *parts = map(_piecewise, (total, *parts))
        return reduce(lambda a, b: a.add(b), parts, total)

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
            quotient: Aff | PwAff = self._affine(normalizer, forms[0]).scale_down_val(session.val(forms[1].const))
            return quotient.floor()
        if op is ops.FLOORMOD:
            remainder: Aff | PwAff = self._affine(normalizer, forms[0]).mod_val(session.val(forms[1].const))
            return remainder
        args = [_piecewise(self._affine(normalizer, form)) for form in forms]
        found: PwAff = _PIECEWISE[op](*args)
        return found

    # -- conditions ---------------------------------------------------------------------------------------------

    def cond(self, normalizer: Normalizer, root: Cond) -> Set:
        """The isl set of the points where the canonical condition `root` holds."""
        m = session.isl()
        done: dict[Cond, Set] = {}
        for node in dag.postorder_by((root,), junction_args):
            if node.op is ops.AND or node.op is ops.OR:
                a, b = (done[arg] for arg in node.args)
                done[node] = a.intersect(b) if node.op is ops.AND else a.union(b)
            elif node.op is ops.BOOL:
                done[node] = m.Set.universe(self.space) if node.data else m.Set.empty(self.space)
            else:
                done[node] = self._compared(normalizer, *normalizer.compared[node])
        return done[root]

    def _compared(self, normalizer: Normalizer, kind: ops.Op, form: Linear) -> Set:
        """The isl set of the points with `form >= 0`, `== 0` or `!= 0`, by `kind`."""
        value, zero = self._affine(normalizer, form), self._zero
        inside: Set
        if not isinstance(value, session.isl().PwAff):
            inside = value.ge_set(zero) if kind is ops.GE else value.eq_set(zero)
            return inside.complement() if kind is ops.NE else inside
        zero = _piecewise(zero)
        inside = value.nonneg_set() if kind is ops.GE else value.eq_set(zero) if kind is ops.EQ else value.ne_set(zero)
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
        return session.named(f"p{param.serial}")
    with dag.LOCK:
        if not hasattr(param, "_number"):
            param.remember("_number", next(_NEXT_TERM))
        number = param._number
    return session.named(f"q{number}")


def _limited(points: Set, kind: Any, position: int, interval: Any) -> Set:
    """The points within an interval of a dimension."""
    low, high = interval or (None, None)
    if low is not None:
        points = points.lower_bound_val(kind, position, session.val(low))
    return points if high is None else points.upper_bound_val(kind, position, session.val(high))


def image_of(translation: Translation) -> Set:
    """The image of the query's expressions as an isl set."""
    if not translation.query.forms:
        return translation.domain.project_out(SET, 0, len(translation.dims))
    pairs = reduce(lambda a, b: a.flat_range_product(b), map(translation.mapped, translation.query.forms))
    return pairs.intersect_domain(translation.domain).range()


def _piecewise(value: Aff | PwAff) -> PwAff:
    whole: Any = value
    if isinstance(value, session.isl().Aff):
        whole = session.isl().PwAff.from_aff(value)
    found: PwAff = whole
    return found


DIVISIONS: Final = 16  # of writing quantified variables as divisions: parametric integer programming
LATTICE_PIECES: Final = 6  # a function of more pieces is not tried as a maximum of minima: n^3 emptiness tests
MERGED_PIECES: Final = 16  # with several pieces, one piece is never substituted for another: n^2 emptiness tests


# -- affine functions -------------------------------------------------------------------------------------------------


def aff_to_expr(aff: Aff, dims: Sequence[Expr], params: Sequence[Expr]) -> Expr:
    """The expression over `dims` and `params` that equals the isl `Aff`, or its floor.

    Divisions are by positive constants; `i - 5*floor(i/5)` becomes `i % 5`.
    """
    if aff.is_nan():
        raise InputError(f"a function without a value has no expression: {aff}")
    integral = _integral(aff)
    reader = Reader(integral, IN, dims, params)
    form = reader.form(integral, IN)
    assert form is not None  # every division of an Aff is explicit
    return form.expr()


class _Quotient(NamedTuple):
    """`floor(dividend / divisor)`, also as an expression."""

    dividend: Linear
    divisor: int
    expr: Expr


class Reader:
    """Reader of affine forms over the local space of an Aff or BasicSet: its dims, params and divisions.

    Attributes
    ----------
    remainders: the quotient behind each remainder in the forms read so far.
    """

    def __init__(self, owner: Aff | BasicSet, kind: Any, dims: Sequence[Expr], params: Sequence[Expr]) -> None:
        if owner.dim(kind) != len(dims) or owner.dim(PARAM) != len(params):
            raise InputError(f"{len(dims)} dims and {len(params)} params do not fit {owner}")
        self._dims = [as_expr(e) for e in dims]
        self._params = [as_expr(e) for e in params]
        self._quotients: dict[int, _Quotient] = {}
        self.remainders: dict[Expr, _Quotient] = {}
        waiting = {k: owner.get_div(k) for k in range(owner.dim(DIV))}
        for _ in range(len(waiting)):  # a division may use others; their order is not specified
            for k, aff in list(waiting.items()):
                dividend = None if aff.is_nan() else self.form(aff, IN)
                if dividend is not None:
                    divisor = session.number(aff.get_denominator_val())
                    self._quotients[k] = _Quotient(dividend, divisor, dividend.expr() // divisor)
                    del waiting[k]

    def form(self, affine: Any, kind: Any) -> Linear | None:
        """The numerator of an Aff (`kind` `in_`) or Constraint (`set`); `None` with an undefined division."""
        scale = session.number(affine.get_denominator_val()) if kind == IN else 1
        read = affine.get_coefficient_val
        terms: dict[Expr, int] = {}
        for of_kind, atoms in ((PARAM, self._params), (kind, self._dims)):
            for k, e in enumerate(atoms):
                if factor := _times(read(of_kind, k), scale):
                    terms[e] = terms.get(e, 0) + factor
        form = Linear(_times(affine.get_constant_val(), scale), {e: c for e, c in terms.items() if c})
        for k in range(affine.dim(DIV)):
            if not (factor := _times(read(DIV, k), scale)):
                continue
            if k not in self._quotients:
                return None
            form = self._plus_quotient(form, factor, self._quotients[k])
        return form

    def _plus_quotient(self, form: Linear, factor: int, quotient: _Quotient) -> Linear:
        """`form + factor * quotient`; by `c*floor(x/c) = x - x%c` if this cancels terms of `form`."""
        dividend, divisor, _ = quotient
        if divisor == 1:
            return form.plus(dividend, factor)
        if dividend.is_const:
            return form.shift(factor * (dividend.const // divisor))
        times, rest = divmod(factor, divisor)
        if not rest:
            cleared = form.plus(dividend, times)
            if len(cleared.terms) < len(form.terms):
                remainder = Linear(dividend.const % divisor, dividend.terms).expr() % divisor
                self.remainders[remainder] = quotient
                return cleared.plus(atom(remainder), -times)
        if dividend.const == divisor - 1:  # a quotient that is rounded up, as `Normalizer` writes it
            raised = dividend.shift(1 - divisor).scale(-1)
            return form.plus(atom(raised.expr() // divisor), -factor)
        return form.plus(atom(quotient.expr), factor)


def _times(value: Val | int, scale: int) -> int:
    """The product of a rational value with its common denominator."""
    return value * scale if isinstance(value, int) else session.number(value.mul(session.val(scale)))


Gisted = TypeVar("Gisted", "Set", "PwAff", "Aff")

# -- piecewise affine functions ---------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """A piece of a function: the isl Aff `function` on the isl Set `domain`, integral there."""

    domain: Set
    function: Aff


def pieces_of(pw: PwAff) -> list[Piece]:
    """The pieces of an isl PwAff; their domains are disjoint."""
    found: list[Piece] = []
    pw.foreach_piece(lambda domain, function: found.append(Piece(domain, function)))
    return found


def pw_aff_to_expr(
    pw: PwAff, dims: Sequence[Expr], params: Sequence[Expr], context: Set | None = None, selects: bool = True
) -> Expr | None:
    """The expression that equals the isl `PwAff` on its domain; `None` for an empty domain.

    Parameters
    ----------
    dims, params: the expressions for the input dimensions and the parameters of `pw`, in order.
    context: an isl Set, over parameters or the same space; the expression is valid inside it.
    selects: False for `None` instead of a `select`, whose conditions take longest to write.
    """
    pieces = pieces_of(pw.coalesce())
    if context is not None:
        if context.involves_locals() or any(d.involves_locals() or f.dim(DIV) > 0 for d, f in pieces):
            pieces = [Piece(simplified(domain, context), simplified(f, context)) for domain, f in pieces]
        else:
            pieces = pieces_of(simplified(pw, context).coalesce())
    return pieces_to_expr(pieces, dims, params, context, selects)


def pieces_to_expr(
    pieces: Iterable[Piece], dims: Sequence[Expr], params: Sequence[Expr], context: Set | None, selects: bool = True
) -> Expr | None:
    """`pw_aff_to_expr` for pieces with disjoint domains.

    An affine function, a minimum, a maximum or a maximum of minima if possible, else nested `select`.
    """
    within = [Piece(within_context(p.domain, context), _integral(p.function)) for p in pieces]
    found = [p for p in within if not p.domain.is_empty()]
    left = _merged(found if len(found) < 2 else sorted(found, key=_place))
    if not left:
        return None
    lattice = _lattice(left) if len(left) > 1 else None
    if lattice is not None:
        values = [aff_to_expr(p.function, dims, params) for p in left]
        return maximum(*(minimum(*(values[k] for k in term)) for term in lattice))
    if len(left) > 1 and not selects:
        return None
    values = [aff_to_expr(_integral(simplified(p.function, p.domain)), dims, params) for p in left]
    # The last piece needs no condition; the piece with the longest one comes last.
    order = sorted(range(len(left)), key=lambda k: _weight(left[k].domain))
    result, remaining = values[order[-1]], left[order[-1]].domain
    for k in reversed(order[:-1]):
        other, domain = remaining, left[k].domain
        remaining = session.coalesced(other.union(domain))
        condition = set_to_cond(domain, dims, params, remaining)
        if condition is None:
            raise BudgetError(f"the domain of {values[k]} has no condition without quantifiers")
        opposite = set_to_cond(other, dims, params, remaining) if condition.op in _JOINED else None
        if opposite is not None and cost(opposite) < cost(condition):
            result = select(opposite, result, values[k])
        else:
            result = select(condition, values[k], result)
    return result


_JOINED = (ops.AND, ops.OR)  # conditions whose negation may be shorter


def _place(piece: Piece) -> tuple[object, ...]:
    """The place of a piece by its function, first leaves first, independently of isl's order."""
    read = piece.function.get_coefficient_val
    factors = [-session.number(read(kind, k)) for kind in (PARAM, IN) for k in range(piece.function.dim(kind))]
    return factors, str(piece.function), str(piece.domain)


def within_context(isl_set: Set, context: Set | None) -> Set:
    """Intersect with `context`, a set over parameters or the same space; `None` is the universe."""
    if context is None:
        return isl_set
    if context.is_params() and not isl_set.is_params():
        return isl_set.intersect_params(context)
    return isl_set.intersect(context)


def simplified(isl_object: Gisted, context: Set) -> Gisted:
    """isl's `gist`: a simpler object, equal inside `context`; the object itself if isl fails (a defect of its gist)."""
    try:
        if isinstance(isl_object, session.isl().Set):
            return session.gist_of(isl_object, context)  # type: ignore[return-value]  # a set, as `isl_object` is
        return isl_object.gist_params(context) if context.is_params() else isl_object.gist(context)
    except session.isl().Error:
        return isl_object


def _integral(function: Aff) -> Aff:
    return function if session.number(function.get_denominator_val()) == 1 else function.floor()


def _weight(domain: Set) -> tuple[int, int]:
    parts = domain.get_basic_sets()
    return len(parts), sum(part.n_constraint() + part.dim(DIV) for part in parts)


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Merge pieces: a piece absorbs domains on which its function has the same values."""
    if len(pieces) > MERGED_PIECES:
        return pieces
    simplest_first = sorted(pieces, key=lambda p: (p.function.dim(DIV), not p.function.is_cst()))
    left = dict(enumerate(simplest_first))
    for k in range(len(pieces)):
        if k in left:
            domain, function = left[k]
            same = [j for j, p in left.items() if j != k and p.domain.is_subset(p.function.eq_set(function))]
            for j in same:
                domain = domain.union(left.pop(j).domain)
            left[k] = Piece(session.coalesced(domain) if same else domain, function)
    return list(left.values())


def _lattice(pieces: list[Piece]) -> list[list[int]] | None:
    """The function as a maximum of minima of its pieces' functions, by number; `None` if invalid or too long.

    The terms are `min {f_j : f_j >= f_k on D_k}` for each piece `k`, sufficient for every continuous function on convex
    pieces (Tarela and Martinez, Region configurations for realizability of lattice piecewise-linear models, 1999).
    Continuity is not assumed: term `k` equals the function on `D_k`, and is tested not to exceed it elsewhere.
    """
    if len(pieces) > LATTICE_PIECES:
        return None
    domains, functions = zip(*pieces, strict=True)
    span = range(len(pieces))
    at_most = [[[d.is_subset(f.le_set(g)) for d in domains] for g in functions] for f in functions]
    terms = [frozenset(j for j in span if at_most[k][j][k]) for k in span]
    for term in terms:
        for here in span:
            if any(at_most[j][here][here] for j in term):
                continue
            above = domains[here]
            for j in term:
                above = above.intersect(functions[j].gt_set(functions[here]))
            if not above.is_empty():
                return None
    shortest = sorted((t for t in dict.fromkeys(terms) if not any(other < t for other in terms)), key=len)
    lattice = [[j for j in sorted(t) if not any(i != j and all(at_most[i][j]) for i in t)] for t in shortest]
    return lattice if sum(map(len, lattice)) <= 2 * len(pieces) else None


# -- sets -------------------------------------------------------------------------------------------------------------


def set_to_cond(isl_set: Set, dims: Sequence[Expr], params: Sequence[Expr], context: Set | None = None) -> Cond | None:
    """The condition that the point `dims` lies in the isl `Set`: a quantifier-free disjunction of conjunctions.

    `None` if a division has no explicit form, which only happens beyond isl's budget.

    Parameters
    ----------
    dims, params: the expressions for the dimensions and the parameters of the set, in order.
    context: an isl Set, over parameters or the same space; the condition is valid inside it.
    """
    if context is not None:
        isl_set = simplified(isl_set, context)
    disjuncts: list[Cond] = []
    leaves = (*dims, *params)
    with session.weighed(DIVISIONS if isl_set.involves_locals() else 1):
        parts = session.coalesced(isl_set).compute_divs().get_basic_sets()
    for part in parts:
        conjuncts = _conjuncts(part, dims, params)
        if conjuncts is None:
            return None
        disjuncts.append(logical_and(*_in_order(conjuncts, leaves)))
    return logical_or(*_in_order(disjuncts, leaves))


def _in_order(parts: Iterable[Cond], leaves: Sequence[Expr]) -> list[Cond]:
    """Sort parts of a condition, independently of isl's order: by length, by variables, lower ends first."""
    places = {var: k for k, var in enumerate(dag.free_vars(*leaves))}

    def place(part: Cond) -> tuple[int, int, bool, tuple[int, ...]]:
        own = tuple([places[var] for var in part.free_vars()])
        return dag.size(part), min(own, default=0), part.op is not ops.GE, own

    found = {part: place(part) for part in parts}
    groups = itertools.groupby(sorted(found, key=found.__getitem__), key=found.__getitem__)
    return [part for _, tied in groups for part in sorted(tied, key=_by_text)]


@cmp_to_key
def _by_text(a: Cond, b: Cond) -> int:
    """Compare two conditions by their texts, conjunctions by the first conjuncts that differ."""
    if a.op is ops.AND and b.op is ops.AND:
        pairs = zip(dag.conjuncts(a), dag.conjuncts(b), strict=False)
        a, b = next((pair for pair in pairs if pair[0] is not pair[1]), (a, b))
    first, second = str(a) + ")", str(b) + ")"  # as in the text of a conjunction
    return (first > second) - (first < second)


def _conjuncts(part: BasicSet, dims: Sequence[Expr], params: Sequence[Expr]) -> list[Cond] | None:
    if part.plain_is_empty():
        return [truth(False)]
    reader = Reader(part, SET, () if part.is_params() else dims, params)
    found: dict[Cond, None] = {}
    for constraint in part.get_constraints():
        # `c*q <= x < c*q + c` only defines `q = floor(x/c)`.
        if constraint.is_div_constraint():
            continue
        form = reader.form(constraint, SET)
        if form is None:
            return None
        if form.is_const and (form.const == 0 if constraint.is_equality() else form.const >= 0):
            continue  # all divisions are constant
        found[_equation(form, reader.remainders) if constraint.is_equality() else _inequality(form)] = None
    return list(found)


def _inequality(form: Linear) -> Cond:
    """`form >= 0`."""
    plus, minus = _sides(form)
    if not minus.terms:
        return plus.expr() >= -form.const
    if not plus.terms or form.const != -1:
        return minus.expr() <= plus.shift(form.const).expr()
    return minus.expr() < plus.expr()


def _equation(form: Linear, remainders: Mapping[Expr, _Quotient]) -> Cond:
    """`form == 0`."""
    plus, minus = _sides(form)
    if len(form.terms) == 1:
        ((e, factor),) = form.terms.items()
        value, off = divmod(-form.const, factor)
        if off:
            return truth(False)
        if e in remainders and 0 <= value < remainders[e].divisor:
            return _congruence(remainders[e], value)
        return e.eq(value)
    return plus.expr().eq(minus.shift(-form.const).expr())


def _congruence(quotient: _Quotient, value: int) -> Cond:
    """`dividend % divisor == value`, with the constant and the leading sign of the dividend moved to the right."""
    terms, divisor, value = quotient.dividend.terms, quotient.divisor, value - quotient.dividend.const
    form = Linear(0, terms)
    if all(c < 0 for c in terms.values()):
        form, value = form.scale(-1), -value
    return (form.expr() % divisor).eq(value % divisor)


def _sides(form: Linear) -> tuple[Linear, Linear]:
    """The terms with a positive factor, and the others negated."""
    plus = {e: c for e, c in form.terms.items() if c > 0}
    minus = {e: -c for e, c in form.terms.items() if c < 0}
    return Linear(0, plus), Linear(0, minus)


OVERLAPPING_PIECES: Final = 4  # examined sets for each piece of a partition
PIECE_VALUES: Final = 64  # values of a quotient or remainder by which a piece is split


# -- boxes ------------------------------------------------------------------------------------------------------------


def product_of(current: Set, params: Sequence[Expr]) -> Product | None:
    """The set as an exact product of intervals; `None` if no such product is found."""
    found = _written_product(current, params)
    return _product_of_ends(current, params) if found is None else found


def _written_product(current: Set, params: Sequence[Expr]) -> Product | None:
    """The product read off the constraints of a single disjunct."""
    if current.n_basic_set() != 1:
        return None
    with session.optimizing(current):  # a quantified variable without a definition is an extremum
        explicit = current.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    part = explicit.get_basic_sets()[0].remove_redundancies()
    dims = [Var(f"x{k}") for k in range(part.dim(SET))]
    reader = Reader(part, SET, dims, params)
    result = Product([([], []) for _ in dims], [], [])
    place = {x: k for k, x in enumerate(dims)}
    for constraint in part.get_constraints():
        if constraint.is_div_constraint():
            continue
        form = reader.form(constraint, SET)
        if form is None or not _enter(result, form, constraint.is_equality(), place):
            return None
    return result if all(lows and highs for lows, highs in result.sides) else None


def _enter(result: Product, form: Linear, is_equality: bool, place: dict[Var, int]) -> bool:
    """Add `form >= 0` (or `== 0`) to a product; `False` if it relates several dimensions."""
    own = [e for e in form.terms if isinstance(e, Var) and e in place]
    if any(e.op is not ops.VAR and any(v in place for v in e.free_vars()) for e in form.terms) or len(own) > 1:
        return False
    if not own:
        result.where.append(form)
        if is_equality:
            result.where.append(form.scale(-1))
        return True
    k = form.terms[own[0]]
    rest = Linear(form.const, {e: c for e, c in form.terms.items() if e is not own[0]})
    if is_equality and abs(k) != 1:
        return False
    lows, highs = result.sides[place[own[0]]]
    if is_equality:
        value = rest.scale(-k)
        lows.append(value)
        highs.append(value)
    elif k > 0:  # x >= ceil(-rest / k) = -floor(rest / k)
        lows.append(_quotient(rest, k).scale(-1))
    else:
        highs.append(_quotient(rest, -k))
    return True


def _quotient(form: Linear, k: int) -> Linear:
    if k == 1:
        return form
    return Linear(form.const // k, {}) if form.is_const else atom(form.expr() // k)


def _product_of_ends(current: Set, params: Sequence[Expr]) -> Product | None:
    """The product of the extents along each dimension, if it equals the set."""
    try:
        ends = [_ends_along(current, k) for k in range(current.dim(SET))]
    except BudgetError:
        return None
    hull = _between(ends)
    if hull is None or not hull.is_subset(current):
        return None
    alive = current.params()
    result = Product([], [], [])
    for low, high in ends:
        first = pw_aff_to_expr(low, (), params, alive, selects=False)
        last = None if first is None else pw_aff_to_expr(high, (), params, alive, selects=False)
        if first is None or last is None:
            return None
        result.sides.append((parts_of(first, ops.MAX), parts_of(last, ops.MIN)))
    where = set_to_cond(alive, (), params)
    if where is None:
        return None
    if not (where.op is ops.BOOL and where.data):
        result.also.append(where)
    return result


def box_around(current: Set) -> Set | None:
    """The bounding box of each instance; `None` without dimensions.

    Raises
    ------
    BudgetError: a dimension is unbounded for some parameter values.
    """
    return _between([_ends_along(current, k) for k in range(current.dim(SET))])


def _ends_along(current: Set, k: int) -> tuple[PwAff, PwAff]:
    """The first and last value along a dimension, as functions of the parameters; raises as `box_around` does."""
    if current.dim_has_lower_bound(SET, k) and current.dim_has_upper_bound(SET, k):
        low = session.end_of_dim(current, k, -1)
        high = None if low is None else session.end_of_dim(current, k, 1)
        if low is not None and high is not None:
            return low, high
    raise BudgetError("a region without end")


def _between(ends: Sequence[tuple[PwAff, PwAff]]) -> Set | None:
    """The product of the intervals between functions of the parameters; `None` for none."""
    m = session.isl()
    above, below = (
        m.Map.read_from_str(session.context(), f"{{ [v] -> [x] : x {relation} v }}") for relation in (">=", "<=")
    )
    sides = [m.Set.from_pw_aff(a).apply(above).intersect(m.Set.from_pw_aff(b).apply(below)) for a, b in ends]
    return reduce(lambda box, side: box.flat_product(side), sides) if sides else None


# -- lattices ---------------------------------------------------------------------------------------------------------


def lattice_of_equations(part: BasicSet) -> Lattice | None:
    """The lattice of a disjunct without inequalities.

    Quantified variables are projected out, also undefined ones: isl keeps a variable whose definition the hull lost.
    """
    rows = part.equalities_matrix(PARAM, SET, DIV, CST)
    dims = sum(part.dim(kind) for kind in (PARAM, SET, DIV))
    found: Lattice | None = everything(dims)
    for k in range(rows.rows()):
        *row, constant = (session.number(rows.get_element_val(k, column)) for column in range(dims + 1))
        found = None if found is None else found.filter(row, constant)
    return None if found is None else found.projected(part.dim(PARAM) + part.dim(SET))


# -- pieces ---------------------------------------------------------------------------------------------------------


def disjoint_pieces(points: Set, most: int) -> list[Set] | None:
    """Partition a set into at most `most` convex sets on lattices, sorted by smallest coordinates; `None` beyond."""
    current = session.coalesced(points)
    filled = _filled(current)
    if filled is not None:
        parts = [filled]
    elif current.n_basic_set() > OVERLAPPING_PIECES * most:
        return None
    else:
        parts = [
            part.to_set() for part in session.coalesced(current.make_disjoint()).get_basic_sets() if not part.is_empty()
        ]
        parts = _joined_pairs(parts) if len(parts) <= OVERLAPPING_PIECES * most else parts
    waiting, parts = parts, []
    while waiting and len(waiting) + len(parts) <= most:
        part = waiting.pop(0)
        finer = _without_division(part, most)
        if finer is None:
            parts.append(part)
        else:
            waiting += finer
    if waiting or len(parts) > most:
        return None
    if not all(a.is_disjoint(b) for a, b in itertools.combinations(parts, 2)):
        return None

    def corner(part: Set) -> list[tuple[bool, int]]:
        """The smallest value of each coordinate over all parameters, unbounded ones first."""
        ends = [session.whole(part.dim_min_val(k)) for k in range(part.dim(SET))]
        return [(False, 0) if end is None else (True, end) for end in ends]

    return sorted(parts, key=corner)


def _without_division(part: Set, most: int) -> list[Set] | None:
    """Split a set by values or remainders of a division in its bounds; `None` without such a division.

    The smaller split wins: `i % 8 >= 6` holds on two lattices, `(i + 3) % 16 < 4` for `0 <= i < 16` on two intervals.
    """
    explicit = part.compute_divs()
    if explicit.n_basic_set() != 1:
        return None
    basic = explicit.get_basic_sets()[0]
    bounding = [c for c in basic.get_constraints() if not c.is_equality() and not c.is_div_constraint()]
    # All divisions first: a query may make isl drop a redundant division of shared data.
    places = [k for k in range(basic.dim(DIV)) if any(c.involves_dims(DIV, k, 1) for c in bounding)]
    for division in [basic.get_div(k) for k in places]:
        if division.is_nan():
            continue
        divisor = division.get_denominator_val()
        found = [
            _values(part, division.floor(), most),
            _values(part, division.scale_val(divisor).mod_val(divisor), most),
        ]
        finer = min((parts for parts in found if parts is not None), key=len, default=None)
        if finer is not None and len(finer) > 1:
            return finer
    return None


def _values(part: Set, function: Aff, most: int) -> list[Set] | None:
    """Split a set by the values of a function; `None` for more than `most` of them."""
    m = session.isl()
    span = m.Map.from_pw_aff(m.PwAff.from_aff(function).intersect_domain(part)).range()
    span = session.unparametric(span)
    low, high = session.whole(span.dim_min_val(0)), session.whole(span.dim_max_val(0))
    if low is None or high is None or high - low > PIECE_VALUES:
        return None
    found: list[Set] = []
    for value in range(low, high + 1):
        if len(found) > most:
            return None
        here = part.intersect(m.Set.from_basic_set(function.add_constant_val(session.val(-value)).zero_basic_set()))
        found += [] if here.is_empty() else [here]
    return found if len(found) <= most else None


def _filled(union: Set) -> Set | None:
    """The union as one convex set; `None` if no such set is found."""
    if union.n_basic_set() == 1:
        return union
    hull = session.simple_hull_of(union)
    return hull if hull.is_subset(union) else None


def _joined_pairs(parts: list[Set]) -> list[Set]:
    """Merge pairs of disjoint convex sets with a convex union; stronger than isl's `coalesce`."""
    left, done = list(parts), []
    while left:
        part = left.pop(0)
        both = next(((k, one) for k, other in enumerate(left) if (one := _filled(part.union(other))) is not None), None)
        if both is None:
            done.append(part)
        else:
            left[both[0]] = both[1]
    return done
