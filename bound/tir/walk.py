"""Iterative walks over the mixed DAG of `Value`, `Expr` and `Cond` nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bound.tir.opaque import IntFunction, TensorElement, integer
from bound.tir.value import Operand, Truth, Value, ValueOp, make
from intset.expr import ops
from intset.expr.arguments import listed, mapped
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.node import make as make_node
from intset.expr.walk import no_node, postorder, postorder_until

if TYPE_CHECKING:
    from bound.tensor import Tensor

Part = TypeVar("Part", Expr, Cond, Truth, Operand)  # an integer stays an integer, a truth value one
Old = TypeVar("Old", bound="Node | Value")
OnLoad: TypeAlias = "Callable[[Tensor, tuple[Expr, ...]], Operand | None]"


def nodes(*roots: Operand) -> Iterator[Operand]:
    """Every node below `roots`, arguments before the nodes that use them, each once.

    The bodies of integer functions of data, and reducers that refer to the program, are entered, in terms of their own
    parameters.
    """
    done: set[Operand] = set()
    stack: list[Operand] = list(reversed(roots))
    while stack:
        node = stack[-1]
        try:
            if node in done:
                stack.pop()
                continue
            waiting: list[Operand] = [arg for arg in node.args if arg not in done]
        except (AttributeError, TypeError):
            raise no_node(node) from None
        if node.op is ops.LOAD or node.op is ValueOp.REDUCE:
            waiting += [part for part in _entered(node) if part not in done]
        if waiting:
            stack.extend(reversed(waiting))
            continue
        done.add(node)
        stack.pop()
        yield node


def _entered(node: Operand) -> tuple[Operand, ...]:
    """What is below a node beside its arguments."""
    if node.op is ops.LOAD:
        return (node.data.body,) if isinstance(node.data, IntFunction) else ()
    combiner = node.data.combiner
    return () if combiner.is_closed else (*combiner.identity, *combiner.results)


def loaded_tensor(node: Node | Value) -> Tensor | None:
    """The tensor that a node reads an element of, or `None`; the node's `args` are the indices."""
    if not isinstance(node, (Node, Value)):
        raise no_node(node)
    if node.op is ValueOp.LOAD:
        answer: Tensor | None = node.data
        return answer
    if node.op is ops.LOAD and isinstance(node.data, TensorElement):
        return node.data.tensor
    return None


def read_indices(node: Node | Value) -> tuple[Expr, ...]:
    """The indices of a node that reads an element of a tensor."""
    indices: tuple[Any, ...] = node.args
    return indices


def input_tensors(roots: Iterable[Operand]) -> tuple[Tensor, ...]:
    """The tensors read below `roots`, each once, those in an index before the tensor it indexes."""
    read = (loaded_tensor(node) for node in nodes(*listed(roots, "roots", "a list of operands")))
    return tuple(dict.fromkeys(tensor for tensor in read if tensor is not None))


def variables(*roots: Operand) -> tuple[Var, ...]:
    """The integer variables below `roots`, in the order of their first occurrence."""
    return tuple(node for node in postorder(roots) if isinstance(node, Var))


def substitute(root: Part, replacements: Mapping[Old, Operand]) -> Part:
    """`root` with every occurrence of a key (a variable or parameter) replaced by its value, all at once."""
    return rewrite(root, replacements)


def rewrite(root: Part, replacements: Mapping[Old, Operand] | None = None, on_load: OnLoad | None = None) -> Part:
    """`root` with nodes replaced.

    Parameters
    ----------
    replacements: what stands in the place of a node. An integer must replace an integer, a value a value.
    on_load: called for each element that is read, with the tensor and the new indices; what it returns replaces the
        element, `None` keeps it.
    """
    new: dict[Node | Value, Operand] = {}
    if replacements is not None:
        new.update(mapped(replacements, "replacements").items())
    for operand in new.values():
        if not isinstance(operand, (Node, Value)):
            raise no_node(operand)
    for node in postorder_until(root, new):
        args = tuple(new[arg] for arg in node.args)
        new[node] = _rebuilt(node, args, on_load)
        if isinstance(node, Value) and node.op is ValueOp.REDUCE and not node.data.combiner.is_closed:
            data = node.data.rewritten(lambda part: rewrite(part, replacements, on_load))
            new[node] = make(node.op, args, node.dtype, data)
    found: Any = new[root]
    answer: Part = found
    return answer


def _as_finished_as(old: Node | Value, new: Operand) -> Operand:
    """An element in the place of another: what is known of it is known of finished ones, or of others, too."""
    for symbol in (old.data, new.data):
        if not isinstance(symbol, TensorElement):
            return new
    own: TensorElement = new.data
    made: Operand = new if old.data.is_finished else own.tensor.unfinished(*new.args)
    return made


def _rebuilt(node: Node | Value, args: tuple[Any, ...], on_load: OnLoad | None) -> Operand:
    if on_load is not None:
        tensor = loaded_tensor(node)
        replaced = None if tensor is None else on_load(tensor, args)
        if replaced is not None:
            return _as_finished_as(node, replaced)
        if node.op is ops.LOAD and isinstance(node.data, IntFunction):
            function = node.data
            body = rewrite(function.body, on_load=on_load)
            assert isinstance(body, Value)
            if body is not function.body:
                return rewrite(integer(body), dict(zip(function.params, args, strict=True)))
    same = all(a is b for a, b in zip(args, node.args, strict=True))
    if isinstance(node, Value):
        return node if same else make(node.op, args, node.dtype, node.data)
    if same and isinstance(node, (Expr, Cond)):
        return node
    made: Operand = make_node(node.op, args, node.data)
    return made
