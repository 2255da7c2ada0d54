"""Hash-consed expression DAGs: the base of nodes, which `storage` makes one object each, and iterative walks.

Invariant: a walk visits each node once and does not recurse over depth.
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Never, NoReturn, Protocol, Self, TypeVar, overload

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import refusal
from intset.expr.ops import Op
from intset.expr.storage import LOCK as LOCK
from intset.expr.storage import StoredNode
from intset.expr.storage import WeakTable as WeakTable
from intset.expr.storage import intern as intern

if TYPE_CHECKING:
    from intset.expr.build import Opaque
    from intset.expr.node import Cond, Expr, IntLike, Kind, Node, Var


class Origin:
    """Source of unique identifiers across processes: a random token for each process, and a counter."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.token = int.from_bytes(os.urandom(8), "big")
        self.count = itertools.count()

    def next_uid(self) -> tuple[int, int]:
        return (self.token, next(self.count))


ORIGIN = Origin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ORIGIN.renew)


class Guest:
    """Base class of objects of other layers whose reflected operators accept expressions."""

    __slots__ = ()


def no_quotient(left: object, right: Never) -> object:
    """Refuse `/`, which is no operation of integers, unless a guest stands on the right; so do type checkers."""
    if not isinstance(right, Guest):
        raise InputError("'/' is not an integer operation: use // (floor), truncdiv (C) or ceildiv")
    return NotImplemented


class FieldAbove:
    """A field of nodes whose meaning a layer above knows; a node without it lacks the attribute."""

    known: ClassVar[dict[str, Callable[[Any], object]]] = {}  # by name; `None` for a node that lacks it

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: object, owner: type | None = None) -> Any:
        if node is None:
            return self
        found = self.known[self.name](node) if self.name in self.known else None
        if found is None:
            raise AttributeError(f"{node!r} has no {self.name}")
        return found


class NamedOperand:
    """An operand by its position, of nodes with a listed number of operands; other nodes lack the attribute."""

    def __init__(self, position: int, counts: tuple[int, ...]) -> None:
        self.position, self.counts = position, counts

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        if node is not None and len(node.args) not in self.counts:
            raise AttributeError(f"{node!r} has no {self.name}")
        return self if node is None else node.args[self.position]


class OperandNames:
    """TVM's names for the arguments of a node: `a` and `b` of a binary operation, the parts of a selection.

    A node without the part lacks the attribute.
    """

    __slots__ = ()
    args: tuple[OperandNames, ...]
    axis, buffer, combiner, index, indices, init, producer, source = (FieldAbove() for _ in range(8))
    type_annotation, value_index = FieldAbove(), FieldAbove()
    a, b = NamedOperand(0, (1, 2)), NamedOperand(1, (2,))
    condition, true_value, false_value = (NamedOperand(position, (3,)) for position in range(3))

    def same_as(self, other: object) -> bool:
        """Whether both are one node."""
        return self is other


class Interned(OperandNames, StoredNode):
    """Base of all nodes: an operation, argument nodes and a payload.

    Invariant: two nodes of equal operation, arguments and payload are one object, and a node never changes. The other
    slots remember what follows from the structure alone.
    """

    __slots__ = ()
    op: Op
    args: tuple[Any, ...]
    data: Any
    _below: tuple[Any, ...]  # remembered by `postorder`: the nodes below, without this one
    _free: tuple[Var, ...]  # remembered by `free_vars`
    _loads: tuple[Any, ...]  # remembered by `walk.opaque_terms`
    _number: int  # remembered by `domains.isl.translate`
    _operations: frozenset[Any]  # remembered by `operations`
    _order: tuple[int, ...]  # remembered by `linear.form`
    _partial: bool  # remembered by `definedness.is_partial`
    glance: object  # remembered by `simplify.shapes`

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("expressions are immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("expressions are immutable")

    def __format__(self, spec: str) -> str:
        """The text under a format of texts; a constant under a format of integers."""
        return format(self.data if spec and self.op is ops.CONST else str(self), spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def with_args(self, args: tuple[Node, ...]) -> Self:
        """The node of this operation and payload with other argument nodes; itself, if they are its own."""
        same = all(map(operator.is_, args, self.args))
        return self if same else intern(type(self), self.op, args, self.data)

    def free_vars(self) -> tuple[Var, ...]:
        """The variables that occur, in the order of their first occurrence."""
        try:
            return self._free
        except AttributeError:
            variables = leaf_vars((self,))
            self.remember("_free", variables)
            return variables

    remember = object.__setattr__  # node.remember(slot, value) stores a value that follows from the structure alone


def leaf_vars(roots: Iterable[Any]) -> tuple[Var, ...]:
    """The variables below `roots`, in the order of their first occurrence from left to right, by one walk."""
    variables: dict[Var, None] = {}
    seen: set[Any] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        op = node.op
        if op is ops.CONST or node in seen:
            continue
        if op is ops.VAR:
            variables[node] = None
            continue
        seen.add(node)
        known = getattr(node, "_free", None)
        if known is None:
            stack.extend(node.args[::-1])
        else:
            variables.update(dict.fromkeys(known))
    return tuple(variables)


REMEMBERED_NODES = 64  # of larger expressions, one inside another remembers: all orders of a chain would be quadratic
MOST_REMEMBERED = 1024  # larger expressions are walked again
FEW_ROOTS = 8  # up to this number, use the cache of each root; beyond, one walk


class Walked(Protocol):
    """The attributes that walks use; value expressions of tensor programs have them too."""

    op: Any
    args: tuple[Any, ...]


W = TypeVar("W", bound=Walked)
K = TypeVar("K")
E = TypeVar("E", bound="Expr")


@overload
def postorder(roots: Iterable[Node]) -> list[Node]: ...
@overload
def postorder(roots: Iterable[W]) -> list[W]: ...
def postorder(roots: Iterable[W]) -> list[W]:
    """Every node below `roots`, arguments before the nodes that use them, each node once.

    A small root remembers the order below it; a larger root does so unless a remembered root lies inside.

    Raises
    ------
    InputError: an argument is no node.
    """
    known = tuple(roots)
    if len(known) != 1:
        return _postorder(known, ())
    root: Any = known[0]
    try:
        return [*root._below, root]
    except AttributeError:
        order, is_large = _order_of(root)
        if len(order) <= (REMEMBERED_NODES if is_large else MOST_REMEMBERED):
            root.remember("_below", tuple(order[:-1]))
        return order


def remember_order(root: Walked, order: Iterable[Walked]) -> None:
    """Attach the order below a root to the root.

    Parameters
    ----------
    order: the nodes below and the root; a node may occur again.
    """
    node: Any = root
    if node.args and getattr(node, "_below", None) is None:
        below = dict.fromkeys(order)
        if len(below) <= MOST_REMEMBERED:
            del below[node]
            node.remember("_below", tuple(below))


def operations(root: Walked) -> frozenset[Any]:
    """The operations that occur in `root`, found once: most walks look for few of them."""
    node: Any = root
    try:
        present: frozenset[Any] = node._operations
    except AttributeError:
        present = frozenset([below.op for below in postorder((node,))])
        present = _SETS.setdefault(present, present)
        node.remember("_operations", present)
    return present


_SETS: dict[frozenset[Any], frozenset[Any]] = {}  # one object for each of the few sets that occur


def postorder_until(root: W, known: Container[W]) -> list[W]:
    """Postorder that does not enter the nodes in `known`."""
    return _postorder((root,), known)


def postorder_beside(root: W, known: Container[W]) -> list[W]:
    """Postorder that skips the nodes in `known`, a set closed under operands."""
    root_known: Any = root
    try:
        below = root_known._below
    except AttributeError:
        return _postorder((root,), known) if known else postorder((root,))
    return [node for node in (*below, root) if node not in known]


def postorder_by(roots: Iterable[K], children: Callable[[K], Sequence[K]]) -> list[K]:
    """Every node below `roots`, those that `children` names before the nodes that have them, each node once."""
    order: list[K] = _postorder(roots, (), children)  # type: ignore[type-var]  # children stand for `args`
    return order


def reachable(starts: Iterable[K], step: Callable[[K], Iterable[K]]) -> dict[K, None]:
    """Everything that `step` leads to from `starts`, those included, depth first; a way may lead back."""
    found: dict[K, None] = {}
    stack = list(starts)[::-1]
    while stack:
        one = stack.pop()
        if one not in found:
            found[one] = None
            stack += list(step(one))[::-1]
    return found


def connected(links: Iterable[Iterable[K]]) -> list[set[K]]:
    """The classes of elements that links connect; the class of the last link is last."""
    classes: list[set[K]] = []
    for link in links:
        joined = set(link)
        joined.update(*[one for one in classes if not joined.isdisjoint(one)])
        classes = [one for one in classes if joined.isdisjoint(one)]
        if joined:
            classes.append(joined)
    return classes


def _postorder(roots: Iterable[W], known: Container[W], children: Callable[[W], Sequence[W]] | None = None) -> list[W]:
    order: dict[W, None] = {}
    stack: list[W] = []
    for root in roots:
        stack.append(root)
        while stack:
            node = stack[-1]
            try:
                if node in order or node in known:
                    del stack[-1]
                    continue
                below = node.args if children is None else children(node)
                waiting = [arg for arg in below if arg not in order and arg not in known] if below else ()
            except (AttributeError, TypeError):
                raise no_node(node) from None
            if waiting:
                stack += waiting[::-1]
            else:
                order[node] = None
                del stack[-1]
    return list(order)


def _order_of(root: Any) -> tuple[list[Any], bool]:
    """The nodes below a root and the root, by the orders that nodes remember; whether one of these is large."""
    order: dict[Any, None] = {}
    stack: list[Any] = [root]
    is_large = False
    while stack:
        node = stack[-1]
        try:
            below = getattr(node, "_below", None) if node.args else ()
            waiting = [arg for arg in node.args if arg not in order] if below is None and node not in order else ()
        except (AttributeError, TypeError):
            raise no_node(node) from None
        if waiting:
            stack += waiting[::-1]
            continue
        del stack[-1]
        if below and node not in order:
            is_large = is_large or len(below) >= REMEMBERED_NODES
            order.update(dict.fromkeys(below))
        order[node] = None
    return list(order), is_large


def no_node(value: object) -> InputError:
    """The error for an argument or root of another type."""
    return refusal("a node", "an expression, a condition or a value", value)


def free_vars(*roots: Node) -> tuple[Var, ...]:
    """The variables below `roots`, in the order of their first occurrence from left to right."""
    if len(roots) == 1:
        return roots[0].free_vars()
    if len(roots) > FEW_ROOTS:
        return leaf_vars(roots)
    return tuple(dict.fromkeys(var for root in roots for var in root.free_vars()))


def opaque_terms(*roots: Node) -> tuple[Expr, ...]:
    """The opaque terms below `roots`, in the order of their first occurrence."""
    per_root = [terms for root in roots if (terms := _loads_below(root))]
    return per_root[0] if len(per_root) == 1 else tuple(dict.fromkeys(term for terms in per_root for term in terms))


def _loads_below(root: Node) -> tuple[Expr, ...]:
    try:
        return root._loads
    except AttributeError:
        loads: tuple[Any, ...] = ()
        if _reads(root):
            loads = tuple(node for node in postorder((root,)) if node.op is ops.LOAD)
        root.remember("_loads", loads)
        return loads


def _reads(root: Node) -> bool:
    """Whether an opaque term occurs; cheaper than postorder, and usually False."""
    waiting, seen = [root], {root}
    for node in waiting:  # grows meanwhile
        if node.op is ops.LOAD:
            return True
        for arg in node.args:
            if (arg.args or arg.op is ops.LOAD) and arg not in seen:
                seen.add(arg)
                waiting.append(arg)
    return False


def size(*roots: Node) -> int:
    """The number of distinct nodes below `roots`."""
    return len(postorder(roots))


def is_small(limit: int, roots: Iterable[Node]) -> bool:
    """Whether `roots` have at most `limit` distinct nodes; visits no more."""
    stack: list[Any] = list(roots)
    if len(stack) == 1 and (below := getattr(stack[0], "_below", None)) is not None:
        return len(below) < limit
    seen = set(stack)
    while stack and len(seen) <= limit:
        for arg in stack.pop().args:
            if arg not in seen:
                seen.add(arg)
                stack.append(arg)
    return len(seen) <= limit


def substitute(root: Kind, replacements: Mapping[E, IntLike]) -> Kind:
    """`root` with every occurrence of a key of `replacements` replaced by its value, simultaneously."""
    return root.substitute(replacements)


def rewrite(root: Kind, new: dict[Node, Node]) -> Kind:
    """`root` with the nodes in `new` replaced; adds an entry to `new` for every visited node."""
    for node in postorder_until(root, new):
        args = tuple([new[arg] for arg in node.args])
        new[node] = node.with_args(args)
    answer: Any = new[root]
    rewritten: Kind = answer
    return rewritten


Flat = tuple[tuple[Any, ...], ...]


def flatten(root: Node) -> Flat:
    """A table of rows `(op, argument row numbers, data)` that pickles without recursion; see `node.rebuild`."""
    number: dict[Node, int] = {}
    rows: list[tuple[Any, ...]] = []
    for node in postorder((root,)):
        number[node] = len(rows)
        if node.op is ops.VAR:
            var: Any = node
            rows.append((type(var), var.name, var.uid, var.fields()))
        else:
            rows.append((node.op, tuple(number[arg] for arg in node.args), node.data))
    return tuple(rows)


def without_assertions(root: Kind) -> Kind:
    """`root` with every assertion replaced by its value; equal wherever `root` is defined."""
    new: dict[Node, Any] = {}
    for node in postorder((root,)):
        args = tuple(new[arg] for arg in node.args)
        if node.op is ops.ASSERTING:
            new[node] = args[1]
        else:
            new[node] = node.with_args(args)
    rewritten: Kind = new[root]
    return rewritten


def nonlinear_nodes(roots: Iterable[Node]) -> Iterator[Node]:
    """The products of nonconstant factors, and the quotients and remainders by divisors that are no constant."""
    for node in postorder(tuple(roots)):
        if node.op is ops.MUL:
            constants = sum(arg.op is ops.CONST for arg in node.args)
            if len(node.args) - constants > 1:
                yield node
        elif node.op in ops.DIVISIONS and node.args[1].op is not ops.CONST:
            yield node


def is_nonlinear(roots: Iterable[Node]) -> bool:
    """Whether there are products of variables, or variables in divisors."""
    return any(True for _ in nonlinear_nodes(roots))


def chain(op: Op, root: W) -> list[W]:
    """The distinct operands of a chain of `op`, from left to right; `[root]` for another operation."""
    operands: dict[W, None] = {}
    seen: set[W] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op is not op:
            operands[node] = None
        elif node not in seen:
            seen.add(node)
            stack.extend((node.args[1], node.args[0]))
    return list(operands)


def conjuncts(cond: Cond) -> Iterator[Cond]:
    """The distinct conjuncts of `cond`, from left to right."""
    return iter(chain(ops.AND, cond))


def symbols(*roots: Node) -> tuple[Opaque, ...]:
    """The opaque symbols below `roots`, each once."""
    return tuple(dict.fromkeys(term.data for term in opaque_terms(*roots)))
