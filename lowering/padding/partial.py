"""Operands evaluated as far as they do not depend on data.

What comes out is a number; an operand over elements of paddings; or `Data`, of which nothing is known but the padding
that went into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import dtype_of
from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import loaded_tensor, nodes, read_indices, rewrite, substitute
from intset.expr import ops
from intset.expr.node import Cond, Expr
from intset.expr.ops import Op
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import is_undef
from lowering.padding.arithmetic import Number, as_number, as_operand, function_of, result_of

MAX_NODES: Final = 256  # of an operand over elements of paddings; what is larger is data

Element: TypeAlias = "tuple[Tensor, tuple[int, ...]]"


class Data(NamedTuple):
    """A value of which nothing is known.

    Attributes
    ----------
    taint: an element of a padding that went into it.
    written: false where it may be what was there before anything was written.
    """

    taint: Element | None = None
    written: bool = True


Content: TypeAlias = "Number | Expr | Cond | Value | Data"
Known = TypeVar("Known", bound=Operand)
OnLoad: TypeAlias = "Callable[[Tensor, Sequence[Content]], Content]"

_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)
_ANDS: Final = (ops.AND, ValueOp.AND)
_ORS: Final = (ops.OR, ValueOp.OR)
_LAZY: Final = frozenset((*_SELECTS, *_ANDS, *_ORS, ops.ASSERTING, ValueOp.REDUCE))


def is_number(content: Content) -> bool:
    return isinstance(content, (bool, int, float))


def taint_of(*contents: Content) -> Element | None:
    """An element of a padding that one of them depends on."""
    for content in contents:
        if isinstance(content, Data):
            if content.taint is not None:
                return content.taint
        elif not isinstance(content, (int, float)):
            for node in nodes(content):
                tensor = loaded_tensor(node)
                if tensor is not None and all(at.is_const for at in read_indices(node)):
                    return tensor, tuple(int(at.data) for at in read_indices(node))
    return None


class Partial:
    """The evaluator.

    Parameters
    ----------
    load: what an element holds, whose indices are contents.
    named: whether environments have values of variables and parameters alone. Then an operand without choices is
        written out as steps once, and followed as often as it is evaluated.

    Attributes
    ----------
    steps: how many nodes were evaluated.
    """

    def __init__(self, load: OnLoad, named: bool = False) -> None:
        self._load, self._named = load, named
        self._functions: dict[Operand, Callable[..., Number]] = {}
        self._straight: dict[Operand, list[_Step]] = {}
        self._sizes: dict[Content, int] = {}
        self.steps = 0

    def __call__(self, root: Operand, env: Mapping[Known, Content]) -> Content:
        """The content of an operand; `env` has those of variables and parameters, others stay what they are."""
        if self._named:
            steps = self._straight.get(root)
            if steps is None:
                steps = self._straight[root] = _straight(root)
            if steps:
                return self._followed(steps, env)
        done: dict[Operand, Content] = {}
        given: dict[object, Content] = dict(env.items())
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            waiting, found = self._step(node, done, given)
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            assert found is not None
            done[node] = found
            self.steps += 1
        return done[root]

    def _followed(self, steps: list[_Step], env: Mapping[Known, Content]) -> Content:
        """The content of the last step."""
        given: Mapping[object, Content] = env  # type: ignore[assignment]  # of objects of any kind
        contents: list[Content] = []
        for node, places in steps:
            if places:
                contents.append(self._operation(node, [contents[k] for k in places]))
            else:
                found = given.get(node)
                contents.append(self._leaf(node, given) if found is None else found)
        self.steps += len(steps)
        return contents[-1]

    def _step(
        self, node: Operand, done: dict[Operand, Content], env: Mapping[object, Content]
    ) -> tuple[list[Operand], Content | None]:
        """The operands that are needed first, or the content."""
        op = node.op
        if not node.args or node in env:
            return [], self._leaf(node, env)
        if op in _SELECTS:
            return self._select(node, done)
        if op in _ANDS or op in _ORS:
            return self._junction(node, done, op in _ORS)
        if op is ops.ASSERTING:
            value = node.args[1]
            return ([], done[value]) if value in done else ([value], None)
        if op is ops.LOAD and isinstance(node.data, IntFunction):
            body = substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
            return ([], done[body]) if body in done else ([body], None)
        waiting = [arg for arg in node.args if arg not in done]
        if waiting:
            return waiting[::-1], None
        return [], self._operation(node, [done[arg] for arg in node.args])

    def _leaf(self, node: Operand, env: Mapping[object, Content]) -> Content:
        if node in env:
            return env[node]
        number = as_number(node)
        if number is not None:
            return number
        if is_undef(node) or (node.op is ops.LOAD and loaded_tensor(node) is None):
            return Data()
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self._load(tensor, ())
        found: Content = node
        return found

    def _select(self, node: Operand, done: dict[Operand, Content]) -> tuple[list[Operand], Content | None]:
        cond, then, orelse = node.args
        if cond not in done:
            return [cond], None
        decided = done[cond]
        if is_number(decided):
            taken = then if decided else orelse
            return ([], done[taken]) if taken in done else ([taken], None)
        waiting = [arg for arg in (then, orelse) if arg not in done]
        if waiting:
            return waiting[::-1], None
        if done[then] is done[orelse]:
            return [], done[then]
        return [], self._built(node, [decided, done[then], done[orelse]])

    def _junction(
        self, node: Operand, done: dict[Operand, Content], deciding: bool
    ) -> tuple[list[Operand], Content | None]:
        """`and` and `or`; one operand that decides is enough."""
        rest: list[Content] = []
        for arg in node.args:
            if arg not in done:
                return [arg], None
            content = done[arg]
            if is_number(content):
                if bool(content) is deciding:
                    return [], deciding
            else:
                rest.append(content)
        if not rest:
            return [], not deciding
        return [], rest[0] if len(rest) == 1 else self._built(node, [done[arg] for arg in node.args])

    def _operation(self, node: Operand, args: list[Content]) -> Content:
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self._load(tensor, args)
        if node.op is ops.LOAD:
            if isinstance(node.data, ShapeOf) and isinstance(args[0], int):
                extent = node.data.tensor.extents[args[0]]
                return int(extent.data) if extent.is_const else extent
            return Data(taint_of(*args))
        if all(map(is_number, args)):
            function = self._functions.get(node)
            if function is None:
                function = self._functions[node] = function_of(node)
            found = result_of(function, isinstance(node, Value), args)  # type: ignore[arg-type]  # numbers
            return Data() if found is None else found
        short = _shortened(node, args)
        return self._built(node, args) if short is None else short

    def _built(self, node: Operand, args: list[Content]) -> Content:
        """The operation on what is no number."""
        if any(isinstance(arg, Data) for arg in args):
            return Data(taint_of(*args))
        weight = 1 + sum(self._sizes.get(arg, 1) for arg in args if not is_number(arg))
        if weight > MAX_NODES:
            return Data(taint_of(*args))
        new = [
            as_operand(arg, _dtype(old)) if isinstance(arg, (int, float)) else arg
            for old, arg in zip(node.args, args, strict=True)
            if not isinstance(arg, Data)
        ]
        found: Content = rewrite(node, dict(zip(node.args, new, strict=True)))
        self._sizes[found] = weight
        return found


class _Step(NamedTuple):
    """A node, and which of the steps before it are its operands."""

    node: Operand
    operands: tuple[int, ...]


def _straight(root: Operand) -> list[_Step]:
    """The steps in which an operand is evaluated, operands first; none where what is evaluated depends on values."""
    at: dict[Operand, int] = {}
    steps: list[_Step] = []
    for node in nodes(root):
        if node.op in _LAZY or (node.op is ops.LOAD and isinstance(node.data, IntFunction)):
            return []
        at[node] = len(steps)
        steps.append(_Step(node, tuple(at[arg] for arg in node.args)))
    return steps


def _dtype(node: Operand) -> str:
    """The type a constant has in the place of an operand."""
    if isinstance(node, Value):
        return node.dtype
    return "bool" if isinstance(node, Cond) else dtypes.INDEX


def _shortened(node: Operand, args: list[Content]) -> Content | None:
    """What the operation is without computing: `0 * x`, `x + 0`, `max(x, -inf)`; `None` where it is not seen."""
    if len(args) != 2:
        return None
    op = node.op
    pairs = [(args[0], args[1])] + ([(args[1], args[0])] if op in _COMMUTATIVE else [])
    is_float = isinstance(node, Value)
    for x, y in pairs:
        if not is_number(y):
            continue
        if op in _NEUTRAL and y == _NEUTRAL[op]:
            return x
        if not is_float and op in _ZERO and y == _ZERO[op]:
            return 0
        if op in (ValueOp.MAX, ValueOp.MIN) and y == (-math.inf if op is ValueOp.MAX else math.inf):
            return x
        if op in (ops.MAX, ops.MIN) and isinstance(x, Expr):
            low, high = dtypes.int_range(dtype_of(x))
            if y <= low if op is ops.MAX else y >= high:  # type: ignore[operator]  # a number
                return x
    if op is ops.SUB and args[0] is args[1] and isinstance(args[0], Expr):
        return 0
    if op in (ops.MAX, ops.MIN, ValueOp.MAX, ValueOp.MIN) and args[0] is args[1]:
        return args[0]
    return None


_COMMUTATIVE: Final = frozenset(
    (ops.ADD, ops.MUL, ops.MIN, ops.MAX, ValueOp.ADD, ValueOp.MUL, ValueOp.MIN, ValueOp.MAX, ops.BITAND, ops.BITOR)
)
_NEUTRAL: Final[dict[Op | ValueOp, int]] = {
    ops.ADD: 0, ops.SUB: 0, ops.MUL: 1, ops.FLOORDIV: 1, ops.BITOR: 0,
    ValueOp.ADD: 0, ValueOp.SUB: 0, ValueOp.MUL: 1, ValueOp.DIV: 1,
}  # fmt: skip
_ZERO: Final[dict[Op | ValueOp, int]] = {ops.MUL: 0, ops.FLOORMOD: 1, ops.BITAND: 0}
