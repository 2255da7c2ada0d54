"""Iterative walks over DAGs of `Value`, `Expr` and `Cond` nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from bound.tir.value import READ, REDUCE, IntFunction, Operand, TensorElement, Truth, Value, integer, make
from intset.expr import Cond, Expr, Node, Var, arguments, dag, ops
from intset.expr.node import make as make_node

if TYPE_CHECKING:
    from bound.tensor import Tensor

Part = TypeVar("Part", Expr, Cond, Truth, Operand)  # an integer stays an integer, a truth value one
Old = TypeVar("Old", bound="Node | Value")
LoadRewrite: TypeAlias = "Callable[[Tensor, tuple[Expr, ...]], Operand | None]"


def nodes(*roots: Operand) -> Iterator[Operand]:
    """Iterate over every node below `roots` once, arguments first.

    Enters bodies of integer functions of data, and reducers that refer to the program; these use their own parameters.
    """
    order: list[Operand] = dag.postorder(roots)
    if _ENTERED.isdisjoint(_NONE.union(*map(dag.operations, roots))) or not any(map(_is_entered, order)):
        return iter(order)
    return iter(dag.postorder_by(roots, _entered))


def operations(*roots: Operand) -> frozenset[Any]:
    """The operations of the nodes that `nodes` visits."""
    present = _NONE.union(*map(dag.operations, roots))
    if _ENTERED.isdisjoint(present):
        return present
    return frozenset([node.op for node in nodes(*roots)])


_NONE: Final = frozenset[Any]()
_ENTERED: Final = frozenset((ops.LOAD, REDUCE))
_READING: Final = frozenset((ops.LOAD, READ, REDUCE))
_LOADS: Final = frozenset((ops.LOAD, READ))


def _is_entered(node: Operand) -> bool:
    """Whether a node has children beside its arguments."""
    if node.op is ops.LOAD:
        return isinstance(node.data, IntFunction)
    return _is_open(node)


def _entered(node: Operand) -> tuple[Operand, ...]:
    """Return the children of a node, also those beside its arguments."""
    if not _is_entered(node):
        return node.args
    if node.op is ops.LOAD:
        return (*node.args, node.data.body)
    return (*node.args, *node.data.combiner.identity, *node.data.combiner.results)


def loaded_tensor(node: Node | Value) -> Tensor | None:
    """Return the tensor that a node reads an element of, or `None`; its `args` are the indices."""
    if not isinstance(node, (Node, Value)):
        raise dag.no_node(node)
    if node.op is READ:
        answer: Tensor | None = node.data
        return answer
    if node.op is ops.LOAD and isinstance(node.data, TensorElement):
        return node.data.tensor
    return None


def read_indices(node: Node | Value) -> tuple[Expr, ...]:
    """Return the indices of a node that reads an element."""
    indices: tuple[Any, ...] = node.args
    return indices


def input_tensors(roots: Iterable[Operand]) -> tuple[Tensor, ...]:
    """Return the tensors read below `roots`, each once; tensors read in an index precede the indexed one."""
    return tensors_below(*arguments.listed(roots, "roots", "a list of operands"))


def tensors_below(*roots: Operand) -> tuple[Tensor, ...]:
    """Return what `input_tensors` gives, of operands that need no check."""
    found = reading(roots)
    if not found:
        return ()
    if len(found) == 1:
        return _tensors_below(found[0])
    if len(found) > dag.FEW_ROOTS:
        return _tensors_of(nodes(*found))
    return tuple(dict.fromkeys([tensor for root in found for tensor in _tensors_below(root)]))


def reading(roots: Iterable[Operand]) -> list[Operand]:
    """Return the operands that may read elements."""
    return [root for root in roots if not _READING.isdisjoint(dag.operations(root))]


def _tensors_below(root: Operand) -> tuple[Tensor, ...]:
    """The tensors read below an operand; a value remembers them."""
    if not isinstance(root, Value):
        return _tensors_of(nodes(root))
    try:
        return root._tensors
    except AttributeError:
        tensors = _tensors_of(nodes(root))
        root.remember("_tensors", tensors)
        return tensors


def _tensors_of(order: Iterable[Operand]) -> tuple[Tensor, ...]:
    read = [loaded_tensor(node) for node in order if node.op in _LOADS]
    return tuple(dict.fromkeys([tensor for tensor in read if tensor is not None]))


def variables(*roots: Operand) -> tuple[Var, ...]:
    """Return the integer variables below `roots`, ordered by first occurrence."""
    return tuple(node for node in dag.postorder(roots) if isinstance(node, Var))


def substitute(root: Part, replacements: Mapping[Old, Operand]) -> Part:
    """Replace variables or parameters in `root`, simultaneously."""
    return rewrite(root, replacements)


def rewrite(root: Part, replacements: Mapping[Old, Operand] | None = None, on_load: LoadRewrite | None = None) -> Part:
    """Replace nodes of `root`.

    Parameters
    ----------
    replacements: maps nodes to operands of the same kind: integers to integers, values to values.
    on_load: called with the tensor and the new indices of each read; its result replaces the read, `None` keeps it.
    """
    given: Mapping[Any, Operand] = {} if replacements is None else arguments.mapped(replacements, "replacements")
    for operand in given.values():
        if not isinstance(operand, (Node, Value)):
            raise dag.no_node(operand)
    return rewritten(root, given, on_load)


def rewritten(root: Part, replacements: Mapping[Old, Operand], on_load: LoadRewrite | None = None) -> Part:
    """Return what `rewrite` gives, of replacements that need no check."""
    present = dag.operations(root)
    is_called = on_load is not None and not _LOADS.isdisjoint(present)
    may_stay = not is_called and REDUCE not in present
    if may_stay and not replacements:
        return root
    roots: tuple[Operand, ...] = (root,)
    order = dag.postorder(roots)
    if may_stay and replacements.keys().isdisjoint(order):
        return root
    new: dict[Node | Value, Operand] = dict(replacements.items())
    is_moving = any([old.args or part.args for old, part in new.items()])  # noqa: C419  # hot
    for node in order:
        if node in new:
            continue
        for arg in node.args:
            if arg in new:
                args: Any = tuple(map(new.get, node.args, node.args))
                new[node] = node.with_args(args) if on_load is None else _rebuilt(node, args, on_load)
                break
        else:
            args = node.args
            if on_load is not None and (node.op is READ or node.op is ops.LOAD):
                new[node] = _rebuilt(node, args, on_load)
        if node.op is REDUCE and isinstance(node, Value) and _is_open(node):
            data = node.data.rewritten(lambda part: rewritten(part, replacements, on_load))
            new[node] = make(node.op, args, node.dtype, data)
    found: Any = new.get(root, root)
    answer: Part = found
    if may_stay and not is_moving:  # the order stays
        dag.remember_order(found, [new.get(node, node) for node in order])
    return answer


def _is_open(node: Any) -> bool:
    """Whether a node reduces by a combiner that refers to the program."""
    return node.op is REDUCE and not node.data.combiner.is_closed


def _as_finished_as(old: Operand, new: Operand) -> Operand:
    """Return the replacement of an element as a finished or unfinished element, like the replaced one."""
    for symbol in (old.data, new.data):
        if not isinstance(symbol, TensorElement):
            return new
    own: TensorElement = new.data
    if old.data.is_finished:
        return new
    unfinished: Operand = make_node(ops.LOAD, new.args, own.tensor.unfinished)  # also by one flat index
    return unfinished


def _rebuilt(node: Operand, args: tuple[Any, ...], on_load: LoadRewrite) -> Operand:
    tensor = loaded_tensor(node)
    replaced = None if tensor is None else on_load(tensor, args)
    if replaced is not None:
        return _as_finished_as(node, replaced)
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        function = node.data
        body = rewritten(function.body, {}, on_load)
        assert isinstance(body, Value)
        if body is not function.body:
            return rewritten(integer(body), dict(zip(function.params, args, strict=True)))
    made: Operand = node.with_args(args)
    return made
