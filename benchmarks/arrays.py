"""Evaluation of operands over numpy arrays of points: the reference semantics of formulas.

A result records where it is undefined (an element outside of its tensor, a division by 0). So both branches of a
selection are evaluated, and only the selected one decides whether the result is defined.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import dtype_of
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, REDUCE, IntFunction, Operand, Value
from bound.tir.walk import loaded_tensor
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Var
from intset.expr.ops import Op
from lowering.codegen.python_runtime import Functions, call_table


@dataclass(frozen=True)
class Cells:
    """An array of values, and a mask of undefined positions (`None`: everywhere defined)."""

    value: Any
    bad: Any = None


class ArrayEvaluator:
    """Evaluates operands at arrays of points.

    Guarantee: values have the arithmetic of their machine types; every node of a DAG is evaluated once.

    Parameters
    ----------
    env: an array for each variable and parameter; all broadcast together.
    tensors: the contents of tensors.
    functions: numpy functions by name, for calls without a known meaning.
    """

    def __init__(self, env: Mapping[Any, Any], tensors: Mapping[Tensor, Cells], functions: Functions) -> None:
        self.known: dict[Any, Cells] = {var: Cells(array) for var, array in env.items()}
        self.tensors = tensors
        self.functions = functions

    def __call__(self, operand: Operand) -> Cells:
        import numpy as np

        with np.errstate(all="ignore"):
            for node in postorder((operand,)):
                if node not in self.known:
                    self.known[node] = self._step(node, [self.known[arg] for arg in node.args])
        return self.known[operand]

    def _step(self, node: Any, args: list[Cells]) -> Cells:
        import numpy as np

        tensor = loaded_tensor(node)
        if tensor is not None:
            return self._load(tensor, args)
        op = node.op
        if op is ops.LOAD:
            return self._function(node, args)
        if op is ops.VAR or op is PARAM:
            name = node.name if isinstance(node, Var) else node.data[0]
            raise InputError(f"{name} has no value")
        values = [arg.value for arg in args]
        if op is ops.SELECT:
            cond = values[0]
            taken = _either(cond, args[1].bad, args[2].bad)
            return Cells(np.where(cond, values[1], values[2]), _union(args[0].bad, taken))
        if op in (ops.AND, ops.OR):
            is_and = op is ops.AND
            reached = values[0] if is_and else np.logical_not(values[0])
            joined = np.logical_and(*values) if is_and else np.logical_or(*values)
            return Cells(joined, _union(args[0].bad, _both(args[1].bad, reached)))
        if op is ops.ASSERTING:
            return Cells(values[1], _union(np.logical_not(values[0]), _union(args[0].bad, args[1].bad)))
        bad = None
        for arg in args:
            bad = _union(bad, arg.bad)
        if op is CALL and node.data in TRAPPING:
            function, (a, b) = Trapping(node.data), values
            outside = _has_no_value(function, node.dtype, a, b)
            result = _elementwise()[function.op](a, np.where(outside, 1, b))
            return Cells(wrap(result, *dtypes.register(node.dtype)), _union(bad, _some(outside)))
        if op is CONVERT and dtypes.is_int(node.dtype):
            whole, outside = _whole(np.asarray(np.trunc(values[0])), node.dtype)
            return Cells(whole, _union(bad, _some(outside)))
        if isinstance(node, Value):
            return Cells(_value_step(node, values, self.functions), bad)
        if op in ops.DIVISIONS:
            zero = values[1] == 0
            return Cells(_integer_step(node, [values[0], np.where(zero, 1, values[1])]), _union(bad, _some(zero)))
        return Cells(_integer_step(node, values), bad)

    def _load(self, tensor: Tensor, indices: list[Cells]) -> Cells:
        import numpy as np

        if tensor not in self.tensors:
            raise InputError(f"the tensor {tensor.name} has no value")
        content = self.tensors[tensor]
        bad, clipped = None, []
        for index, extent in zip(indices, content.value.shape, strict=True):
            outside = (index.value < 0) | (index.value >= extent)
            bad = _union(_union(bad, index.bad), _some(outside))
            clipped.append(np.clip(index.value, 0, max(extent - 1, 0)))
        if content.value.size == 0:
            shape = np.broadcast_shapes(*(np.shape(index) for index in clipped))
            return Cells(np.zeros(shape, content.value.dtype), np.ones(shape, bool))
        position = tuple(clipped)
        value = content.value[position]
        value = _exact(value) if dtypes.is_int(tensor.dtype) else value
        return Cells(value, bad if content.bad is None else _union(bad, _some(content.bad[position])))

    def _function(self, node: Any, args: list[Cells]) -> Cells:
        symbol = node.data
        if not isinstance(symbol, IntFunction):
            raise InputError(f"the opaque symbol {symbol.name} has no value")
        env = dict(zip(symbol.params, (arg.value for arg in args), strict=True))
        outer = {var: cells.value for var, cells in self.known.items() if getattr(var, "op", None) is PARAM}
        inner = ArrayEvaluator({**outer, **env}, self.tensors, self.functions)(symbol.body)
        bad = inner.bad
        for arg in args:
            bad = _union(bad, arg.bad)
        return Cells(inner.value, bad)


def _some(mask: Any) -> Any:
    return mask if mask.any() else None


def _union(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a | b


def _both(a: Any, b: Any) -> Any:
    return None if a is None else a & b


def _either(cond: Any, a: Any, b: Any) -> Any:
    if a is None and b is None:
        return None
    return _union(_both(a, cond), _both(b, ~cond))


def _integer_step(node: Any, a: list[Any]) -> Any:
    import numpy as np

    op = node.op
    if op is ops.CONST or op is ops.BOOL:  # beyond `int64` a number of Python's own type, as elements are
        return np.asarray(node.data, None if op is ops.BOOL or dtypes.holds("int64", node.data) else object)
    if op is ops.CAST:
        return wrap(a[0], *node.data)
    return _elementwise()[op](*a)


@cache
def _elementwise() -> dict[Op, Any]:
    """The numpy function of each operation of integers and of values."""
    import numpy as np

    def truncdiv(a: Any, b: Any) -> Any:
        return a // b + ((a % b != 0) & ((a < 0) != (b < 0)))

    return {
        ops.ADD: np.add,
        ops.SUB: np.subtract,
        ops.MUL: np.multiply,
        ops.NEG: np.negative,
        ops.ABS: np.abs,
        ops.FLOORDIV: np.floor_divide,
        ops.FLOORMOD: np.mod,
        ops.CEILDIV: lambda a, b: -(-a // b),
        ops.TRUNCDIV: truncdiv,
        ops.TRUNCMOD: lambda a, b: a - b * truncdiv(a, b),
        ops.MIN: np.minimum,
        ops.MAX: np.maximum,
        ops.BITAND: np.bitwise_and,
        ops.BITOR: np.bitwise_or,
        ops.BITXOR: np.bitwise_xor,
        ops.BITNOT: np.invert,
        ops.SHL: np.left_shift,
        ops.SHR: np.right_shift,
        ops.LT: np.less,
        ops.LE: np.less_equal,
        ops.GT: np.greater,
        ops.GE: np.greater_equal,
        ops.EQ: np.equal,
        ops.NE: np.not_equal,
        ops.NOT: np.logical_not,
        DIV: np.divide,
    }


@cache
def _of_floats() -> dict[Op, Any]:
    """The same of floats, where it is another one."""
    import numpy as np

    return {**_elementwise(), ops.TRUNCDIV: lambda a, b: np.trunc(a / b), ops.TRUNCMOD: np.fmod}


def wrap(value: Any, bits: int, signed: bool) -> Any:
    """Wrap integers to a register of `bits` bits."""
    import numpy as np

    if bits >= 64 and not signed:
        return np.asarray(np.asarray(value).astype(object) & ((1 << bits) - 1), object)
    low = np.asarray(value)
    if low.dtype == object:
        low = np.asarray(low & ((1 << bits) - 1)).astype(np.uint64).view(np.int64)
    low = low.astype(np.int64)
    if bits >= 64:
        return low
    low = low & ((1 << bits) - 1)
    return np.where(low >= 1 << (bits - 1), low - (1 << bits), low) if signed else low


def _exact(value: Any) -> Any:
    """Elements of an integer tensor as numbers: of `int64`, but of Python's own type where `int64` lacks some."""
    import numpy as np

    return value.astype(object if value.dtype == np.uint64 else np.int64)


def _has_no_value(function: Trapping, dtype: str, a: Any, b: Any) -> Any:
    """The mask of elements at which a trapping function is undefined."""
    if function in (Trapping.SHIFT_LEFT, Trapping.SHIFT_RIGHT):
        return (b < 0) | (b >= dtypes.bits(dtype))
    return (b == 0) | ((b == -1) & (a == dtypes.int_range(dtype)[0]))


def _value_step(node: Value, a: list[Any], functions: Functions) -> Any:
    import numpy as np

    op, dtype = node.op, node.dtype
    if op is NUMBER:
        return np.asarray(node.data, dtype)
    if op is CONVERT:
        number = np.asarray(a[0])
        is_large = number.dtype == object
        return (number.astype(np.uint64 if np.all(number >= 0) else np.int64) if is_large else number).astype(dtype)
    if op is CALL and node.data == "popcount":
        return _ones(a[0], dtypes.bits(dtype))
    if op is CALL and node.data == "reinterpret":
        source: Any = dtype_of(node.args[0])
        number = np.asarray(wrap(a[0], *dtypes.register(source)) if dtypes.is_int(source) else a[0]).astype(source)
        bits = number.view(dtype)
        return wrap(bits.astype(object), *dtypes.register(dtype)) if dtypes.is_int(dtype) else bits
    if op is CALL:
        table = call_table()
        function = functions.get(node.data) or table.get(node.data)
        if function is None:
            raise InputError(f"the function {node.data} is not known: pass it in functions")
        result = np.asarray(function(*a))
        if not dtypes.is_int(dtype):
            return result.astype(dtype)
        return wrap(result.astype(object if dtype == "uint64" else np.int64), *dtypes.register(dtype))
    if op is REDUCE:
        raise InputError("a reduction stands inside a larger formula")
    return _of_floats()[op](*a)


def _whole(value: Any, dtype: str) -> tuple[Any, Any]:
    """Convert floats without fraction to integers of the type; also returns where it does not hold them."""
    import numpy as np

    low, high = dtypes.int_range(dtype)
    outside = ~((value >= low) & (value < float(high + 1)))
    return _exact(np.where(outside, 0, value).astype(dtype)), outside


def _ones(value: Any, bits: int) -> Any:
    """Count the 1 bits of registers of this width."""
    import numpy as np

    rest = np.asarray(wrap(value, bits, False)).astype(np.uint64)
    count = np.zeros(rest.shape, np.int64)
    for _ in range(bits):
        count += (rest & np.uint64(1)).astype(np.int64)
        rest = rest >> np.uint64(1)
    return count
