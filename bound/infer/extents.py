"""Largest extents of footprints over all instances, and footprints by enumeration of instances and elements.

A difference of quotients is bounded as a pair: `(e + c) // m - e // m` lies between `c // m` and `ceildiv(c, m)` for
every `e`. Bounds of each quotient alone would range over all rows of a flattened tensor.

Enumeration is exact where ends are not affine, for constant sizes. Example: ends that contain a product of loop
variables, which no Presburger set expresses.

Tiles of unknown size: a quotient by a number is affine on each residue class of its loop: `(t*o + 1) // 2` is `t*j + 1
// 2` for `o = 2*j` and `t*j + (t + 1) // 2` for `o = 2*j + 1`. On a class, forms that fall are largest at its first
iteration, and forms that rise at its last; where some fall and some rise, the largest minimum stands where they cross
(`intset.linear.symbolic`).

Example: the rows of a tensor of 8 that tiles of `t` of 16 read, each row twice, are at most
`maximum(ceildiv(t, 2), t - t // 2)`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import product
from math import gcd, lcm, prod
from typing import Any, Final

from bound.infer import environment
from bound.infer.environment import LoopEnvironment
from bound.infer.footprint import Box, Footprint, SymbolicInterval, footprint_of_shape, is_empty, undominated
from bound.schedule import simple
from bound.schedule.simple import extent, low
from intset import config
from intset.context import Context
from intset.domains.query import Query
from intset.domains.ranked import values_of
from intset.domains.registry import CHEAPEST
from intset.errors import BudgetError
from intset.expr import Expr, Var, as_expr, dag, ops
from intset.expr.build import ceildiv, floordiv, logical_and, maximum, minimum, select
from intset.expr.evaluate import compiled, point_value
from intset.linear.canonical import Normalizer
from intset.linear.division import extremum
from intset.linear.form import ZERO, Linear, atom, constant
from intset.linear.symbolic import Affine, affine_in, greatest_of_pieces, minimum_pieces, value_at
from intset.regions.shape import has_select

RESIDUE_CLASSES: Final = 16  # residue classes of loops over which one extent is largest

_NUMBER = Var("number")  # of an iteration within its residue class
EXTENTS: Final = 200_000  # operations of the domain, for one dimension


def ends_of(env: LoopEnvironment, v: Var) -> tuple[Linear, Linear]:
    """The first iteration of a loop, and the end after the last iteration."""
    first, number = env.form(low(env.ranges[v])), env.form(extent(env.ranges[v]))
    return first, first.plus(number)


def least(known: Normalizer, forms: Sequence[Linear]) -> Linear:
    """The extent of a side: the least form, at least 0."""
    smallest = reduce(lambda a, b: extremum(known, ops.MIN, a, b), forms)
    return extremum(known, ops.MAX, smallest, ZERO)


def largest(env: LoopEnvironment, forms: Sequence[Linear], own: Sequence[Var]) -> Linear | None:
    """The largest extent of a side over its loops; `None` if no loop end is proved to attain it."""
    known, runs, left = env.normalizer, constant(1), []
    for v in own:
        first, end = ends_of(env, v)
        lines = [affine_in(known, form, v) for form in forms]
        kept = [line for line in lines if line is not None]
        if len(kept) < len(lines):
            return None
        signs = {line.sign for line in kept if not _is_flat(line)}
        if len(signs) > 1:
            left.append(v)
            continue
        place = end.shift(-1) if signs == {1} else first
        forms = [value_at(known, line, place) for line in kept]
        number = end.minus(first)
        if not known.is_positive(number):
            runs = known.product(runs, atom(select(number.expr() >= 1, 1, 0)))
    if len(left) > 1:
        return None
    if not left:
        return known.product(runs, least(known, forms))
    first, end = ends_of(env, left[0])
    pieces = minimum_pieces(known, forms, left[0], first, end)
    if pieces is None:
        return None
    values: list[Expr] = []
    for number, line, place in greatest_of_pieces(pieces):
        value = value_at(known, line, place).expr()
        values.append(value if known.is_positive(number) else select(number.expr() >= 1, value, 0))
    return known.product(runs, env.form(maximum(0, *values)))


def bound_by_classes(env: LoopEnvironment, forms: Sequence[Linear]) -> Expr | None:
    """An upper bound, over all loops, of the least of forms with quotients of loops; `None` for others, or if unknown.

    It is attained where on each residue class all forms fall, or all rise.
    """
    if not any(_is_quotient_of_loop(env, e) for form in forms for e in form.terms):
        return None
    cases: list[tuple[Linear, ...]] = [tuple(forms)]
    for v in reversed(env.ranges):
        following: dict[object, tuple[Linear, ...]] = {}
        for case in cases:
            parts = _over_classes(env, case, v)
            if parts is None:
                return None
            for part in parts:
                few = tuple(undominated(part, lambda a, b: env.is_nonneg(b.minus(a))))
                following[frozenset(form.key() for form in few)] = few
        cases = undominated(following.values(), lambda a, b: _is_at_most(env, b, a))
        if len(cases) > RESIDUE_CLASSES:
            return None
    return maximum(*(minimum(*(form.expr() for form in case)) for case in cases))


def _is_quotient_of_loop(env: LoopEnvironment, e: Expr) -> bool:
    """Whether a term with a quotient depends on both a loop (directly or through its range) and a size."""
    loops = environment.transitive_ranges(env, e.free_vars())
    around = (*e.free_vars(), *(v for r in loops.values() for v in r.free_vars()))
    return bool(loops) and ops.FLOORDIV in dag.operations(e) and any(v not in env.ranges for v in around)


def _is_at_most(env: LoopEnvironment, a: Sequence[Linear], b: Sequence[Linear]) -> bool:
    """Whether the minimum of `a` provably never exceeds the minimum of `b`."""
    return all(any(env.is_nonneg(y.minus(x)) for x in a) for y in b)


def _over_classes(env: LoopEnvironment, case: Sequence[Linear], v: Var) -> list[tuple[Linear, ...]] | None:
    """For each residue class of a loop, forms with a minimum of at least `case`'s; `None` if unknown."""
    depends = [any(v in e.free_vars() for e in form.terms) for form in case]
    if not any(depends):
        return [tuple(case)]
    divisors = _divisors(case, v)
    period = 0 if divisors is None else lcm(*divisors)
    if not 1 <= period <= RESIDUE_CLASSES:
        return None
    known, (first, end) = env.normalizer, ends_of(env, v)
    parts = []
    for q in range(period):
        place = first.shift(q).plus(atom(_NUMBER), period).expr()
        kept = []
        for form, changes in zip(case, depends, strict=True):
            line = affine_in(known, env.form(dag.substitute(form.expr(), {v: place})), _NUMBER) if changes else None
            if not changes:
                kept.append(form)
            elif line is not None and (_is_flat(line) or line.sign < 0):
                kept.append(line.rest)
            elif line is not None:
                last = env.form(end.shift(-1 - q).minus(first).expr() // period)
                kept.append(value_at(known, line, last))
        if not kept:
            return None
        parts.append(tuple(kept))
    return parts


def _divisors(case: Sequence[Linear], v: Var) -> list[int] | None:
    """The divisors of quotients of a loop; `None` where it stands in another operation, or under a symbolic divisor."""
    divisors = [1]
    for node in dag.postorder([e for form in case for e in form.terms]):
        if node is v or v not in node.free_vars() or node.op in (ops.ADD, ops.SUB, ops.MUL, ops.NEG):
            continue
        if node.op is not ops.FLOORDIV or not node.args[1].is_const or node.args[1].data < 1:
            return None
        divisors.append(node.args[1].data)
    return divisors


def _is_flat(line: Affine) -> bool:
    return line.slope.is_const and not line.slope.const


def enumerate_extents(env: LoopEnvironment, box: Box, fixed: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The extents of a box in each instance, zeros if empty; `None` for symbolic sizes or too many instances."""
    order = [*fixed, *(v for v in box.variables() if v not in fixed)]
    points = environment.enumerate_instances(env, order) if all(v in env.ranges for v in order) else None
    if points is None:
        return None
    runs = logical_and(*box.guard())
    ends = [(side.low(), side.high() + 1) for side in box.sides]
    if dag.opaque_terms(runs, *(e for pair in ends for e in pair)):
        return None
    return _extents(points, compiled(runs, order), [(compiled(low, order), compiled(end, order)) for low, end in ends])


def _extents(
    points: Iterable[tuple[int, ...]],
    where: Callable[..., Any],
    ends: Sequence[tuple[Callable[..., int], Callable[..., int]]],
) -> Iterator[tuple[int, ...]]:
    for point in points:
        try:
            extents = [max(end(*point) - low(*point), 0) if where(*point) else 0 for low, end in ends]
        except ArithmeticError:
            continue
        yield tuple(extents) if all(extents) else (0,) * len(ends)


_MAX_NODES: Final = 1000  # of the expressions evaluated at every point


def enumerate_image(
    env: LoopEnvironment, context: Context, exprs: Sequence[Expr], fixed: Sequence[Var]
) -> Footprint | None:
    """The image of `exprs` in each instance; `None` for symbolic sizes, data or too many points."""
    frame = context.frame
    if dag.opaque_terms(*exprs) or not dag.is_small(_MAX_NODES, (*exprs, *frame.conditions)):
        return None
    query = Query((*fixed, *exprs), frame.ranges, frame.conditions, (), frame.base, frame.known, config.current())
    values = values_of(query)
    if values is None or len(values) > environment.MAX_LISTED:
        return None
    try:
        shape = env.shapes.listing(sorted(values), fixed, len(exprs))
    except BudgetError:
        return None
    return footprint_of_shape(env, len(exprs), shape, True)


_MAX_CORNERS = 64


def max_extent(env: LoopEnvironment, footprint: Footprint, k: int, fixed: Sequence[Var], most: Expr) -> Expr:
    """The largest extent along dimension `k` over all instances, in terms of sizes.

    Guarantee: an upper bound of the extent in every instance. Four methods, in order: one linear form, corners of the
    instances, enumeration, the domain; then numeric and symbolic bounds.

    Parameters
    ----------
    fixed: the variables that distinguish instances.
    most: the extent of the tensor, a bound in any case.
    """
    box = footprint.box
    if box is not None:
        side = box.sides[k]
        extents = side.extents()
        if len(extents) == 1 and not any(v in env.ranges for e in extents[0].terms for v in e.free_vars()):
            value = extents[0]
            return as_expr(max(value.const, 0)) if value.is_const else value.expr()
        number = _at_corners(env, box, side)
        if number is not None:
            return as_expr(number)
    hull = footprint.hull(env)
    varying = [v for v in fixed if v in env.ranges and env.ranges[v].constant() is None]
    visited = enumerate_extents(env, hull, varying) if footprint.has_ends and not hull.is_affine() else None
    if visited is not None:
        return as_expr(max((extents[k] for extents in visited), default=0))
    if not footprint.has_ends:
        return _listed_bound(env, hull, k, varying, most)
    products = _has_products_of_loops(env, hull.sides[k])
    if products:
        bound = _bounded(env, hull.sides[k], most)
        if _is_attained(env, hull, k, bound):
            return bound
    extent = _ask_domain(env, footprint, k, fixed)
    if not products:
        return _bounded_with_outline(env, footprint, k, varying, most) if extent is None else extent
    bound = _bounded_with_outline(env, footprint, k, varying, most)
    if extent is None or not environment.has_instance(env, {}, [extent < bound], mixed=environment.FEW):
        return bound
    return env.simplified(_least(env, [bound, extent]))


def _has_products_of_loops(env: LoopEnvironment, side: SymbolicInterval) -> bool:
    """Whether an end has a product or a quotient of a loop and a size, which no Presburger set relates to the loop."""
    terms = [e for form in side.ends for e in form.terms]
    return any(not env.ranges.keys().isdisjoint(node.free_vars()) for node in dag.nonlinear_nodes(terms))


def _is_attained(env: LoopEnvironment, box: Box, k: int, most: Expr) -> bool:
    """Whether, at each sampled size, a sampled instance attains the upper bound `most` of the extent along `k`."""
    ranges = environment.transitive_ranges(env, box.variables())
    beyond = most - minimum(*(extent.expr() for extent in box.sides[k].extents()))
    attained: dict[tuple[int, ...], bool] = {}
    for point in environment.sample_instances(env, ranges, box.nonempty_conditions(), (beyond,)):
        sizes = tuple(value for v, value in point.items() if v not in ranges)
        excess = point_value(beyond, point)
        if excess is not None:
            attained[sizes] = attained.get(sizes, False) or excess <= 0
    return bool(attained) and all(attained.values())


def is_always_empty(env: LoopEnvironment, footprint: Footprint, fixed: Sequence[Var]) -> bool:
    """Whether a footprint is empty in every instance, as with contradictory conditions. `False` if undecided."""
    box = footprint.box
    is_plain = not (footprint.guard if box is None else box).is_conditional()
    if is_plain and all(env.ranges[v].constant() for v in fixed):
        return False  # emptiness would have been noticed earlier
    if box is not None:
        ranges = environment.transitive_ranges(env, (*fixed, *box.variables()))
        if not is_empty(env, box) and environment.has_instance(env, ranges, box.nonempty_conditions()):
            return False
    visited = None if box is None or box.is_affine() else enumerate_extents(env, box, fixed)
    if visited is not None:
        return not any(prod(extents) for extents in visited)
    try:
        around = environment.instances(env, (*footprint.variables(), *fixed))
        return footprint.shape(env).intersect_params(around).is_empty()
    except BudgetError:
        return False


def _at_corners(env: LoopEnvironment, box: Box, side: SymbolicInterval) -> int | None:
    """The largest extent if a corner of the instances attains its numeric bound, else `None`."""
    ends = [env.bounds(extent)[1] for extent in side.extents()]
    numbers = [n for n in ends if n is not None]
    if not numbers:
        return None
    most = max(min(numbers), 0)
    for values in _corners(env, box):
        if min(_value(f, values) for f in side.extents()) == most and _is_alive(box, values):
            return most
    return None


def _corners(env: LoopEnvironment, box: Box) -> Iterator[dict[Expr, int]]:
    """The corners of a box of instances; none for dependent or symbolic loops."""
    if not box.is_affine():
        return
    variables = box.variables()
    spans = []
    for v in variables:
        limits = env.ranges.get(v)
        ends = None if limits is None else limits.constant()
        if ends is None or ends[0] > ends[1]:
            return
        spans.append(tuple(dict.fromkeys(ends)))
    if prod(len(span) for span in spans) <= _MAX_CORNERS:
        for corner in product(*spans):
            yield dict(zip(variables, corner, strict=True))


def _value(form: Linear, values: Mapping[Expr, int]) -> int:
    return form.const + sum(k * values[e] for e, k in form.terms.items())


def _is_alive(box: Box, values: Mapping[Expr, int]) -> bool:
    return all(_value(form, values) >= 0 for form in box.nonempty_forms())


def _ask_domain(env: LoopEnvironment, footprint: Footprint, k: int, fixed: Sequence[Var]) -> Expr | None:
    try:
        shape = footprint.shape(env)
        around = environment.instances(env, (*footprint.variables(), *fixed))
        with env.budget(EXTENTS):
            inside = shape.intersect_params(around)
            loops = [e for e in inside.atoms() if any(v in env.ranges for v in e.free_vars())]
            extent = inside.widest(k, loops)  # their products are terms of their own
    except BudgetError:
        return None
    if extent is None or has_select(extent) or any(v in env.ranges for v in extent.free_vars()):
        return None
    return extent


def _bounded_with_outline(
    env: LoopEnvironment, footprint: Footprint, k: int, varying: Sequence[Var], most: Expr
) -> Expr:
    """The lower of two upper bounds of an extent: by the hull's ends and by the outline's box."""
    bound = _listed_bound(env, footprint.hull(env), k, varying, most)
    if footprint.box is not None or footprint.outline is None:
        return bound
    return _least(env, [bound, _bounded(env, footprint.outline.box.sides[k], most)])


def _listed_bound(env: LoopEnvironment, hull: Box, k: int, varying: Sequence[Var], most: Expr) -> Expr:
    """An upper bound of the extent: the largest listed extent of a box around a footprint, else as `_bounded`.

    Quotients and cases of both ends are correlated, which their intervals forget. With too many instances of the whole
    box, those of its side are listed.
    """
    for box, side in ((hull, k), (Box((hull.sides[k],)), 0)):
        visited = None if box.is_affine() else enumerate_extents(env, box, varying)
        if visited is not None:
            largest = as_expr(max((extents[side] for extents in visited), default=0))
            return as_expr(simple.minimum(largest, most)) if most.is_const else largest
    return _bounded(env, hull.sides[k], most)


def _bounded(env: LoopEnvironment, side: SymbolicInterval, most: Expr) -> Expr:
    """An upper bound of the extent: numeric, or symbolic from the ends of loops where sizes are unbounded."""
    ends = [env.bounds(extent)[1] for extent in side.extents()]
    numbers = [n for n in ends if n is not None]
    if numbers:
        number = max(min(numbers), 0)
        most = simple.minimum(number, most) if most.is_const else as_expr(number)
    choices = [most]
    by_classes = bound_by_classes(env, [*side.extents(), env.form(most)])
    if by_classes is not None:
        return by_classes
    for difference in side.extents():
        apart = bound_quotient_differences(env, difference)
        if numbers and apart is difference and all(v in env.ranges for e in apart.terms for v in e.free_vars()):
            continue  # the number is the answer: no size can make it smaller
        high = _without_loops(env, apart.expr())
        if high is None:
            continue
        choices.append(high)
    return _least(env, choices)


def _least(env: LoopEnvironment, choices: Sequence[Expr]) -> Expr:
    """The minimum of expressions; provably redundant operands are dropped."""
    return reduce(simple.minimum, undominated(choices, lambda a, b: env.is_nonneg(env.form(b).minus(env.form(a)))))


def _without_loops(env: LoopEnvironment, e: Expr) -> Expr | None:
    """The largest value of an expression over all loops, in terms of sizes; `None` if unknown."""
    if any(v in env.ranges for v in e.free_vars()):
        # The range of another stage's loop would exclude the iterations in which that loop is empty.
        ranges = environment.transitive_ranges(env, e.free_vars())
        high = env.context.extended(ranges).bounds(e, domain=CHEAPEST)[1]
        if not isinstance(high, Expr) or any(v in env.ranges for v in high.free_vars()):
            return None
        return high
    return e


def bound_quotient_differences(env: LoopEnvironment, form: Linear) -> Linear:
    """An upper bound of a form, without pairs of quotients with one divisor and a loop-free distance.

    Returns the form itself without such a pair.
    """
    quotients = [(e, k) for e, k in form.terms.items() if isinstance(e, Expr) and e.op is ops.FLOORDIV]
    for e, k in quotients:
        for other, j in quotients:
            if k > 0 > j and e.args[1] is other.args[1]:
                bound = _difference(env, e, other)
                if bound is not None:
                    number = min(k, -j)
                    rest = form.plus(atom(e), -number).plus(atom(other), number)
                    return bound_quotient_differences(env, rest.plus(env.form(bound), number))
    return form


def _difference(env: LoopEnvironment, e: Expr, other: Expr) -> Expr | None:
    """The largest difference of two quotients by one size; `None` if it depends on a loop."""
    divisor = e.args[1]
    assert isinstance(divisor, Expr) and isinstance(e.args[0], Expr) and isinstance(other.args[0], Expr)
    size, high, low = _reduced(env.form(divisor), env.form(e.args[0]), env.form(other.args[0]))
    apart = high.minus(low)
    loops = {v for form in (size, apart) for term in form.terms for v in term.free_vars()} & set(env.ranges)
    if loops or not env.is_nonneg(size):
        return None
    # A divisor is nonzero where its quotient has a value; the bound must have one for any size.
    by = size.expr() if env.is_nonneg(size.shift(-1)) else maximum(size.expr(), 1)
    if apart.is_const and apart.const == 0:
        return as_expr(0)
    if env.is_nonneg(apart.shift(-1)):  # rounded up
        return floordiv(apart.shift(-1).expr(), by) + 1
    return ceildiv(apart.expr(), by)


def _reduced(size: Linear, high: Linear, low: Linear) -> tuple[Linear, Linear, Linear]:
    """Divisor and dividends without their common factor `g`: `(g*x + r) // (g*m)` equals `(x + r // g) // m`."""
    g = gcd(size.const, *(k for form in (size, high, low) for k in form.terms.values()))
    return (size.divided(g), high.divided(g), low.divided(g)) if g > 1 else (size, high, low)
