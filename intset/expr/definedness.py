"""Definedness: the conditions that exclude division by 0, negative shifts and failed assertions."""

from __future__ import annotations

from collections.abc import Sequence

from intset.expr import ops
from intset.expr.build import logical_and, select
from intset.expr.dag import conjuncts, postorder
from intset.expr.node import Cond, Expr, Node, truth


def definedness(roots: Sequence[Node]) -> tuple[Cond, ...]:
    """The conditions whose conjunction is equivalent to definedness of all roots, in evaluation order.

    Guarantee: lazy evaluation of the list from left to right is defined at every point, since the conditions of an
    operand precede those of its users. Each partial operation contributes one condition, guarded by the branch
    conditions on its lazy evaluation path.
    """
    steps = postorder(roots)
    if _LAZY.isdisjoint([node.op for node in steps]):
        return tuple(dict.fromkeys([need for node in steps if (need := own_need(node)) is not None]))
    needs: dict[Cond, None] = {}
    joined: set[Node] = set()
    guards = dict(_guarded(roots, steps[::-1], joined))
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
        if op in _PARTIAL:
            by_number = op is not ops.ASSERTING and args[1].op is ops.CONST and args[1].data > 0
            if not by_number and own_need(node) is not None:
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


def guarded_steps(roots: Sequence[Node]) -> list[tuple[Node, Cond]]:
    """Each node with its path condition, a disjunction over evaluation paths."""
    return _guarded(roots, postorder(roots)[::-1])


_PARTIAL = frozenset((*ops.DIVISIONS, ops.SHL, ops.SHR, ops.ASSERTING))
_LAZY = frozenset((ops.SELECT, ops.AND, ops.OR, ops.ASSERTING))


def _guarded(roots: Sequence[Node], steps: Sequence[Node], joined: set[Node] | None = None) -> list[tuple[Node, Cond]]:
    """The guards of `steps`, users before operands.

    `joined` receives the nodes whose guard contains a partial disjunction of two paths. At the first visit of such a
    node the condition of the second path may still be undefined.
    """
    always = truth(True)
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
    waiting, parts = [needs[root] for root in reversed(roots) if root in needs], {}
    seen: set[Cond] = set()
    while waiting:
        part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        if part.op is ops.AND:
            waiting += reversed(part.args)
        else:
            parts[part] = None
    return tuple(parts)


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
