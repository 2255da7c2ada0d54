"""Definedness: conditions that exclude division by 0, negative shifts, failed assertions; facts as assertions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import asserting, bounded, logical_and, nonneg, select
from intset.expr.dag import chain, conjuncts, free_vars, postorder, rewrite
from intset.expr.node import Cond, Expr, Kind, Node, PlainVar, Var, make, truth
from intset.expr.printer import shown
from intset.expr.range import Range, conditions_between


def definedness(roots: Sequence[Node]) -> tuple[Cond, ...]:
    """The conditions whose conjunction is equivalent to definedness of all roots, in evaluation order.

    Guarantee: lazy evaluation of the list from left to right is defined at every point, since the conditions of an
    operand precede those of its users. Each partial operation contributes one condition, guarded by the branch
    conditions on its lazy evaluation path.
    """
    steps = postorder(roots)
    if _LAZY.isdisjoint([node.op for node in steps]):
        parts = [node for node in steps if node.op in PARTIAL]
        return tuple(dict.fromkeys([need for node in parts if (need := own_need(node)) is not None]))
    needs: dict[Cond, None] = {}
    joined: set[Node] = set()
    guards = dict(guarded_steps(roots, joined))
    for node in steps:
        need = own_need(node)
        if need is not None:
            if node in joined:
                return _nested_needs(roots, steps)
            guard = guards[node]
            if need not in conjuncts(guard):
                needs[need if guard.op is ops.BOOL else ~guard | need] = None
    return tuple(needs)


def where_it_holds(cond: Cond) -> Cond:
    """The condition that `cond` has a value and is true.

    Guarantee: the answer has a value everywhere, and is false where `cond` has none. Negate this form: `~cond` is
    undefined where `cond` is.
    """
    return logical_and(*definedness((cond,)), cond) if is_partial(cond) else cond


def total(e: Expr) -> Expr:
    """An expression with a value everywhere: `e` where `e` has a value, and 0 elsewhere."""
    needs = definedness((e,)) if is_partial(e) else ()
    return select(logical_and(*needs), e, 0) if needs else e


def is_partial(root: Node) -> bool:
    """Whether `root` contains a partial operation, ignoring facts about its arguments."""
    try:
        return root._partial
    except AttributeError:
        partial = _finds_need(root)
        root.remember("_partial", partial)
        if not partial:
            for arg in root.args:  # later roots often share these
                if arg.args:
                    arg.remember("_partial", False)
        return partial


def _finds_need(root: Node) -> bool:
    waiting, seen = [root], {root}
    for node in waiting:  # appended to during the walk
        op, args = node.op, node.args
        if op in PARTIAL:
            is_by_number = op is not ops.ASSERTING and args[1].op is ops.CONST
            if not is_by_number or own_need(node) is not None:
                return True
        for arg in args:
            if arg.args and arg not in seen:
                seen.add(arg)
                known = getattr(arg, "_partial", None)
                if known:
                    return True
                if known is None:
                    waiting.append(arg)
    return False


def own_need(node: Node) -> Cond | None:
    """The definedness condition of the operation of `node` alone; `None` for a total one."""
    if node.op in ops.DIVISIONS:
        divisor = node.args[1]
        return None if divisor.op is ops.CONST and divisor.data else divisor.ne(0)
    if node.op is ops.SHL or node.op is ops.SHR:
        amount = node.args[1]
        return None if amount.op is ops.CONST and amount.data >= 0 else amount >= 0
    return node.args[0] if node.op is ops.ASSERTING else None


PARTIAL = frozenset((*ops.DIVISIONS, ops.SHL, ops.SHR, ops.ASSERTING))
_LAZY = frozenset((*ops.LAZY, ops.ASSERTING))


def guarded_steps(roots: Sequence[Node], joined: set[Node] | None = None) -> list[tuple[Node, Cond]]:
    """Each node with its path condition, a disjunction over evaluation paths; users before operands.

    `joined` receives the nodes whose guard contains a partial disjunction of two paths. At the first visit of such a
    node the condition of the second path may still be undefined.
    """
    always, steps = truth(True), postorder(roots)[::-1]
    guards: dict[Node, Cond] = dict.fromkeys(roots, always)
    for node in steps:
        guard = guards[node]
        for child, extra in _children(node):
            own = guard if extra is None else extra if guard is always else guard & extra
            known = guards.get(child)
            both = guards[child] = own if known is None else _either(known, own)
            if joined is None:
                continue
            if both.op is ops.BOOL:
                joined.discard(child)
            elif node in joined or (known is not None and known is not own and is_partial(both)):
                joined.add(child)
    return [(node, guards[node]) for node in steps]


def _nested_needs(roots: Sequence[Node], steps: Sequence[Node]) -> tuple[Cond, ...]:
    """`definedness` with one condition a node, that the node has a value, used wherever the node is reached.

    Conditions of shared nodes are shared, so their size is linear in that of the roots.
    """
    needs: dict[Node, Cond] = {}
    for node in steps:
        parts: dict[Cond, None] = {}
        for child, extra in _children(node):
            inner = needs.get(child)
            if inner is not None:
                parts[inner if extra is None else ~extra | inner] = None
        need = own_need(node)
        if need is not None:
            parts[need] = None
        if parts:
            needs[node] = logical_and(*parts)
    return tuple(dict.fromkeys(part for root in roots if root in needs for part in chain(ops.AND, needs[root])))


def _children(node: Node) -> list[tuple[Node, Cond | None]]:
    args = node.args
    if node.op is ops.SELECT:
        return [(args[0], None), (args[1], args[0]), (args[2], ~args[0])]
    if node.op is ops.AND or node.op is ops.ASSERTING:
        return [(args[0], None), (args[1], args[0])]
    if node.op is ops.OR:
        return [(args[0], None), (args[1], ~args[0])]
    return [(arg, None) for arg in args]


def _either(a: Cond, b: Cond) -> Cond:
    if a.op is ops.BOOL or a is b:
        return a
    return b if b.op is ops.BOOL else a | b


def asserted_parts(roots: Sequence[Node]) -> tuple[Cond, ...]:
    """The conjuncts of `embedded_claims`."""
    return tuple(dict.fromkeys(part for claim in embedded_claims(roots) for part in conjuncts(claim)))


def embedded_claims(roots: Sequence[Node]) -> tuple[Cond, ...]:
    """The conditions of `asserting` nodes outside lazy branches; they hold wherever the roots are defined."""
    claims: dict[Cond, None] = {}
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is ops.ASSERTING:
            claims[node.args[0]] = None
        if node.op in (ops.SELECT, ops.AND, ops.OR):
            stack.append(node.args[0])
        else:
            stack.extend(node.args)
    return tuple(claims)


@overload
def annotate_shapes(e: Kind, shapes: object) -> Kind: ...
@overload
def annotate_shapes(e: tuple[Expr | Cond, ...], shapes: object) -> tuple[Expr | Cond, ...]: ...
@overload
def annotate_shapes(e: list[Kind], shapes: object) -> list[Kind]: ...
def annotate_shapes(e: object, shapes: object) -> object:
    """Wrap the sizes in `e` in assertions of their bounds, so that every analysis sees them without a context.

    Parameters
    ----------
    e: an expression or condition, or a tuple or list of expressions and conditions.
    shapes: either extents and shapes (expressions, tuples of expressions, objects with a `.shape`), whose plain
        variables become nonnegative; or a mapping from variables to their bounds: a `Range`, a pair (lower, upper) with
        `None` for infinite ends, a `ShapeVar` (its bounds and divisor), or a condition.

    Each occurrence `n` becomes `nonneg(n)` or `asserting(claim, n)`. The variable stays the same object, so `evaluate`
    and `substitute` work as before, and `simplify` looks through assertions. Existing annotations are kept.

    Raises
    ------
    InputError: `shapes` has an item of another kind.

    Example
    -------
    >>> i, n = Var("i"), Var("n")
    >>> str(annotate_shapes(i % n, n))
    'i % nonneg(n)'
    """
    if isinstance(e, (tuple, list)):
        return type(e)(annotate_shapes(part, shapes) for part in e)
    if not isinstance(e, Node):
        raise InputError(f"annotate_shapes takes an expression or a condition, not {shown(e)}")
    return annotated(e, size_claims(shapes))


def carrying_sizes(e: Expr) -> Expr:
    """Wrap each plain variable `n` of `e` as `nonneg(n)`, marked as a size so that it prints as `n`."""
    plain = [var for var in free_vars(e) if type(var) is PlainVar]
    return rewrite(e, {var: make(ops.ASSERTING, (var >= 0, var), ops.SIZE) for var in plain}) if plain else e


def without_sizes(e: Expr) -> tuple[Expr, tuple[Var, ...]]:
    """`e` with `nonneg(n)` replaced by `n` for variables `n`, and these variables. Redundant in an extent."""
    sizes: dict[Node, Any] = {}
    for node in postorder((e,)):
        if node.op is ops.ASSERTING and isinstance(node.args[1], Var) and node.args[0] is (node.args[1] >= 0):
            sizes[node] = node.args[1]
    return (rewrite(e, dict(sizes)), tuple(dict.fromkeys(sizes.values()))) if sizes else (e, ())


def annotated(e: Any, claims: Mapping[Var, Expr]) -> Any:
    """`e` with each variable replaced by its annotated form, except inside such forms."""
    new: dict[Node, Any] = {form: form for form in claims.values()}
    for node in postorder((e,)):  # merge with existing annotations
        if isinstance(node, Expr) and node.op is ops.ASSERTING:
            var = node.args[1]
            if var in claims and free_vars(node) == (var,):
                new[node] = _with_claim(node, claims[var])
    return rewrite(e, new | dict(claims))


def _with_claim(known: Expr, form: Expr) -> Expr:
    return known if form.args[0] is known.args[0] else asserting(logical_and(known.args[0], form.args[0]), form.args[1])


def size_claims(shapes: Any) -> dict[Var, Expr]:
    """The annotated expression of every size."""
    if isinstance(shapes, Mapping):
        return {_size(var): _claim(_size(var), known) for var, known in shapes.items()}
    variables = dict.fromkeys(var for extent in extents_of(shapes) for var in free_vars(extent))
    return {var: nonneg(var) for var in variables if type(var) is PlainVar}


def extents_of(shapes: Any) -> Iterable[Expr]:
    """The expressions in a possibly nested shape."""
    if isinstance(shapes, Expr):
        return [shapes]
    if hasattr(shapes, "shape"):
        return extents_of(shapes.shape)
    if isinstance(shapes, int) and not isinstance(shapes, bool):
        return []
    if isinstance(shapes, (str, bytes)) or not isinstance(shapes, Iterable):
        raise InputError(f"a shape is made of expressions, not of {shown(shapes)}")
    return [extent for part in shapes for extent in extents_of(part)]


def _size(var: object) -> Var:
    if not isinstance(var, Var):
        raise InputError(f"a size is a variable, not {shown(var)}")
    return var


def _claim(var: Var, known: Any) -> Expr:
    if isinstance(known, Cond):
        return asserting(known, var)
    if isinstance(known, Range):
        ends = (end if isinstance(end, Expr) else None for end in (known.min, known.max))
        return bounded(var, *ends)
    if isinstance(known, Var):
        claims = tuple(conditions_between(var, *known.declared()))
        return asserting(logical_and(*claims), var) if claims else var
    if isinstance(known, tuple) and len(known) == 2:
        return bounded(var, *known)
    raise InputError(f"what is known of {var.name} is a Range, a pair (lower, upper), a ShapeVar or a condition")
