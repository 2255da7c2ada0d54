"""Operands of tensor programs: integers, values, and operations on both."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from bound import dtypes, te, tir
from bound.itervar import IterType, IterVar
from bound.tir.value import CONVERT, NUMBER, READ, REDUCE, IntFunction, TensorElement, Value
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range

A = te.placeholder((8, 9), name="A")
H = te.placeholder((8,), "float16", name="H")
IDX = te.placeholder((8,), "int32", name="IDX", value_range=(-3, 24))
I8 = te.placeholder((8,), "int8", name="I8")
i, j = te.var("i"), te.var("j")


def test_an_iter_var_is_an_integer_variable() -> None:
    k = te.reduce_axis((2, 9), "k")
    assert isinstance(k, Var) and k.iter_type is IterType.COMM_REDUCE and k.var is k
    assert k.dom == Range(2, 7)
    assert isinstance(k * 2 + 1, Expr) and (k * 2 + 1).free_vars() == (k,)
    t = te.thread_axis((0, 32), "threadIdx.x")
    assert (t.name, t.thread_tag, t.dom) == ("threadIdx.x", "threadIdx.x", Range(0, 32))
    assert te.thread_axis("vthread", name="vx").name == "vx"


def test_formulas_get_one_axis_an_index_named_like_the_parameters() -> None:
    seen: list[IterVar] = []
    c = te.compute((4, 5), lambda row, col: seen.extend((row, col)) or A[row, col], name="C")
    assert [iv.name for iv in c.op.axis] == ["row", "col"] and tuple(seen) == c.op.axis
    d = te.compute((4, 5), lambda *i: A[i], name="D")
    assert [iv.name for iv in d.op.axis] == ["i0", "i1"]
    e = te.compute((4, 5), lambda y, *rest: A[(y, *rest)], name="E")
    assert [iv.name for iv in e.op.axis] == ["y", "i1"]
    scale = 3
    f = te.compute((4,), lambda y, k=scale: A[y, k], name="F")
    assert len(f.op.axis) == 1


def test_integers_are_expressions_and_conditions_are_conditions() -> None:
    assert isinstance(tir.indexdiv(i, 4) * 4 + tir.indexmod(i, 4), Expr)
    assert tir.floordiv(i, 4) is i // 4 and tir.indexmod(i, 4) is i % 4
    assert tir.truncmod(i, 4).op is ops.TRUNCMOD
    assert te.max(te.min(i, 7), 4).op is ops.MAX and tir.min(i, j, 3).op is ops.MIN
    cond = tir.all(i >= 1, i < 9, tir.any(j > 2, j < 0))
    assert isinstance(cond, Cond)
    assert tir.Select(cond, i, 0).op is ops.SELECT and tir.if_then_else(i < 3, i, j).op is ops.SELECT
    assert tir.const(5, "int32") is tir.const(5) and tir.const(5).data == 5
    assert tir.likely(cond) is cond and tir.abs(i).op is ops.ABS


def test_floats_are_values_and_integers_among_them_are_cast() -> None:
    value = A[i, j] * 2
    assert isinstance(value, Value) and value.op is ops.MUL and value.dtype == "float32"
    assert value.args[1].op is NUMBER and value.args[1].data == 2.0
    for mixed in (A[i, j] + i, i + A[i, j], (i + 1) * A[i, j], i / A[i, j], i - A[i, j], 2 * A[i, j], i % A[i, j]):
        assert isinstance(mixed, Value) and mixed.dtype == "float32"
    assert (i + A[i, j]).args[0].op is CONVERT and (i + A[i, j]).args[0].args == (i,)
    assert (A[i, j] + H[i]).dtype == "float32" and (H[i] + 1.5).dtype == "float32"
    assert (H[i] + 1).dtype == (H[i] + tir.const(1.5, "float16")).dtype == "float16"
    assert isinstance(A[i, j] > i, Value) and isinstance(i < A[i, j], Value)
    assert (i < A[i, j]).dtype == "bool"
    assert tir.Cast("float32", i).op is CONVERT and i.astype("float32") is tir.Cast("float32", i)
    assert te.exp(A[i, j]).data == "exp" and te.exp(i).dtype == "float32"


def test_structure_is_identity() -> None:
    assert A[i, j] + 1 is A[i, j] + 1.0
    assert A[i, j] is not A[j, i] and bool(A[i, j] == A[i, j]) and not bool(A[i, j] == A[j, i])
    assert {A[i, j]: 1}[A[i, j]] == 1
    assert tir.const(0.0, "float32") is not tir.const(-0.0, "float32")
    assert tir.const(0.0, "float32") is not tir.const(0.0, "float64")
    assert tir.const(float("nan"), "float32") is tir.const(float("nan"), "float32")


def test_truth_values_of_data_mix_with_conditions_on_integers() -> None:
    mixed = tir.all(i < 3, A[i, j] > 0)
    assert isinstance(mixed, Value) and mixed.dtype == "bool" and isinstance(mixed.args[0], Cond)
    assert ((i < 3) & (A[i, j] > 0)) is mixed and ((A[i, j] > 0) | (i < 3)).op is ops.OR
    assert (~(A[i, j] > 0)).op is ops.NOT
    chosen = tir.Select(mixed, A[i, j], 0.0)
    assert chosen.op is ops.SELECT and chosen.args[0] is mixed
    with pytest.raises(InputError, match="truth value"):
        bool(A[i, j] > 0)


def test_an_element_of_an_integer_tensor_is_an_opaque_term() -> None:
    term = IDX[i + 1]
    assert isinstance(term, Expr) and term.op is ops.LOAD and isinstance(term.data, TensorElement)
    assert term.data.tensor is IDX and (term.data.lower, term.data.upper) == (-3, 24)
    assert IDX[i + 1] is term and IDX[i] is not term
    assert isinstance(i + tir.indexmod(IDX[i], 4), Expr)
    assert (I8[i].data.lower, I8[i].data.upper) == (-128, 127)
    assert I8[i].dtype == "int8" and I8[i].astype("int32").dtype == "int32"
    assert IDX[i].astype("int32") is IDX[i] and i.astype("int32") is i
    wide = i.astype("int64")
    assert wide.dtype == "int64" and (wide * IDX[i]).dtype == "int64" and IDX[wide + 1] is IDX[i + 1]


def test_an_integer_computed_from_floats_is_a_function_of_its_indices() -> None:
    term = (A[i, j] * 2.5).astype("int32")
    assert isinstance(term, Expr) and isinstance(term.data, IntFunction) and term.args == (i, j)
    moved = tir.substitute(A[term, 0], {i: i + 1})
    assert moved.args[0].args == (i + 1, j) and moved.args[0].data is term.data
    assert tir.input_tensors((IDX[term],)) == (A, IDX)
    picked = tir.Select(A[i, 0] > 0, i, j)
    assert isinstance(picked, Expr) and picked.free_vars() == (i, j)


def test_rewriting_reaches_indices_and_integer_functions() -> None:
    b = te.placeholder((8, 9), name="B")
    value = A[IDX[(A[i, j]).astype("int32")], 0] + A[i, j]
    from bound.operation import redirected

    moved = redirected(value, {A: b})
    assert tir.input_tensors((value,)) == (A, IDX) and tir.input_tensors((moved,)) == (b, IDX)
    assert redirected(value, {}) is value


def test_a_sum_of_many_terms_needs_no_recursion() -> None:
    total: Any = A[0, 0]
    for k in range(3000):
        total = total + A[i, k]
    assert len(tir.input_tensors((total,))) == 1
    assert tir.substitute(total, {i: j}).dtype == "float32"
    assert "…" in repr(total)


def test_reducers() -> None:
    k = te.reduce_axis((0, 4), "k")
    total = te.sum(A[i, k], axis=k, where=k <= i)
    assert total.op is REDUCE and total.data.axis == (k,) and total.args == (A[i, k], k <= i)
    assert total.data.combiner.name == "sum" and total.data.combiner.identity[0].data == 0.0
    assert te.max(A[i, k], axis=k).data.combiner.identity[0].data == float("-inf")
    assert te.max(I8[k], axis=k).data.combiner.identity[0] is tir.const(-128)
    assert te.max(A[i, 0], 0.0).op is ops.MAX and te.sum(i, j) is i + j

    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)),
        name="argmax",
    )
    first, second = te.compute((8,), lambda y: argmax((k, A[y, k]), axis=k), name="M")
    assert (first.dtype, second.dtype) == ("int32", "float32") and first.op.reduce_axis == (k,)


def test_partial_indices_are_slices() -> None:
    assert A[i][j] is A[i, j] and A(i, j) is A[i, j]
    region = A[i : i + 3, 0:9]
    assert isinstance(region, te.TensorSlice)
    scalar = te.placeholder((), name="S")
    assert scalar().op is READ and scalar[()] is scalar()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A[1.5, j], "index 0 of A must be an integer"),
        (lambda: A[i, j, 0], "A has 2 dimensions, not 3"),
        (lambda: A[i < 3, j], "index 0 of A must be an integer expression"),
        (lambda: tir.all(True, i < 3), "must be a truth value"),
        (lambda: tir.Select(i, 1, 2), "the condition of select must be a truth value"),
        (lambda: tir.Select(i < 3, "x", 2.0), "must be a value of a tensor program"),
        (lambda: (i < 3) + A[i, j], "a condition is not a number|not a number|unsupported operand"),
        (lambda: te.placeholder((4, -1)), "must not be negative"),
        (lambda: te.placeholder((4, 2.5)), "extent 1 of placeholder must be an integer"),
        (lambda: te.placeholder((4,), "float31"), "must be a type"),
        (lambda: te.placeholder((4,), name="P", value_range=(0, 3)), "value_range of P is for integers"),
        (lambda: te.placeholder((4,), "int32", name="P", value_range=(4, 3)), "value_range of P has no value"),
        (lambda: te.compute((4, 4), lambda y: A[y, 0], name="C"), "takes 1 indices, but its shape has 2"),
        (lambda: te.compute((4,), lambda y, x: A[y, x], name="C"), "takes 2 indices, but its shape has 1"),
        (lambda: te.compute((4,), 5, name="C"), "must be a function of the indices"),
        (lambda: te.compute((4,), lambda y: None, name="C"), "the formula of C must be a value"),
        (lambda: te.sum(A[i, j], axis=i), "axis of a reduction must be made by reduce_axis"),
        (lambda: te.thread_axis(""), "needs a tag"),
        (lambda: te.reduce_axis((0, 1, 2)), "must be a Range or a pair"),
        (lambda: tir.Cast("floaty", i), "must be a type"),
        (lambda: i / 2, "not an integer operation"),
        (lambda: te.create_schedule(5), "takes operations"),
    ],
)
def test_bad_operands_get_a_clear_refusal(make: Any, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        make()


def test_bad_formulas_get_a_clear_refusal() -> None:
    k = te.reduce_axis((0, 4), "k")
    with pytest.raises(InputError, match="uses k without reducing over it"):
        te.compute((4,), lambda y: A[y, k], name="C")
    with pytest.raises(InputError, match="a reduction stands inside a larger formula"):
        te.compute((4,), lambda y: te.sum(A[y, k], axis=k) / 4.0, name="C")
    with pytest.raises(InputError, match="some outputs of C are reductions"):
        te.compute((4,), lambda y: (te.sum(A[y, k], axis=k), A[y, 0]), name="C")
    outer = te.compute((4,), lambda y: A[y, 0], name="O")
    with pytest.raises(InputError, match="uses y, an axis of another operation"):
        te.create_schedule(te.compute((4,), lambda x: A[x, outer.op.axis[0]], name="C").op)
    with pytest.raises(InputError, match="a reduction of a reduction"):
        te.sum(te.sum(A[i, k], axis=k), axis=te.reduce_axis((0, 2)))


@pytest.mark.parametrize(
    ("dtype", "with_1", "with_2_to_31", "with_half"),
    [
        ("int8", "int32", "int64", "float32"),
        ("uint8", "int32", "int64", "float32"),
        ("int16", "int32", "int64", "float32"),
        ("int32", "int32", "int64", "float32"),
        ("uint32", "uint32", "int64", "float32"),
        ("int64", "int64", "int64", "float32"),
        ("uint64", "uint64", "uint64", "float32"),
        ("float16", "float16", "float16", "float32"),
        ("bfloat16", "bfloat16", "bfloat16", "float32"),
        ("float64", "float64", "float64", "float64"),
    ],
)
def test_a_python_number_has_the_type_it_has_in_tvm(dtype: str, with_1: str, with_2_to_31: str, with_half: str) -> None:
    """The types are those that TVM gives to the same formulas."""
    x = te.placeholder((4,), dtype, name="X")[i]
    for make in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, tir.max, tir.min):
        assert make(x, 1).dtype == make(1, x).dtype == with_1
        assert make(x, 2**31).dtype == make(2**31, x).dtype == with_2_to_31
        if make not in (operator.floordiv, operator.mod) or dtypes.is_float(dtype):
            assert make(x, 0.5).dtype == make(0.5, x).dtype == with_half
    assert tir.Select(x > 0, x, 0).dtype == tir.if_then_else(x > 0, 1, x).dtype == with_1
    if dtypes.is_int(dtype):  # a number takes the type of the other operand of a bit operation, if that holds it
        for make in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
            assert make(x, 1).dtype == make(1, x).dtype == dtype
        assert (x & 300).dtype == ("int32" if dtype in ("int8", "uint8") else dtype)
    assert (-x).dtype == abs(x).dtype == (x + tir.const(1, dtype)).dtype == dtype
