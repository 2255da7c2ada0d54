"""What nests have no counterpart for passes through them: statements, types, annotations; loops on threads compile."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

tvm = pytest.importorskip("tvm", exc_type=ImportError)

from tvm import te as tvm_te  # noqa: E402
from tvm import topi  # noqa: E402
from tvm.script import tirx as T  # noqa: E402, N812

from bound import te  # noqa: E402
from bound.schedule import Schedule  # noqa: E402
from intset import Context  # noqa: E402
from intset.errors import InputError  # noqa: E402
from lowering import lower, parse_nest, simplify  # noqa: E402
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402
from lowering.adapters.tvm.writing import with_launched_threads  # noqa: E402
from lowering.nest.ir import Evaluate, For, Function  # noqa: E402
from lowering.nest.walk import calls, statements  # noqa: E402
from lowering.passes import merge_adjacent_loops, unique_names  # noqa: E402
from tests.lowering.adapters.tvm_functions import called  # noqa: E402
from tests.lowering.lowered import check_run  # noqa: E402
from tests.sweeps import sampled  # noqa: E402


@T.prim_func
def synchronized(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(2, "blockIdx.x"):
        for tx in T.thread_binding(32, "threadIdx.x"):
            S = T.alloc_buffer((32,), "float32", scope="shared")
            S[tx] = A[bx * 32 + tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            if bx * 32 + tx < 64:
                B[bx * 32 + tx] = S[31 - tx]


@T.prim_func
def prefetched(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        if i >= 0:
            T.evaluate(T.call_extern("int32", "prefetch", A.data, i * 2))
            B[i] = A[i]


def declared() -> Any:
    """A name for an element of a foreign type, used by the next statement."""
    a, b = (tvm.tirx.decl_buffer((64,), dtype, name) for dtype, name in (("float8_e4m3fn", "A"), ("float16", "B")))
    i, x = tvm.tirx.Var("i", "int32"), tvm.tirx.Var("x", "float8_e4m3fn")
    store = tvm.tirx.BufferStore(b, tvm.tirx.Cast("float16", x), [63 - i])
    body = tvm.tirx.SeqStmt([tvm.tirx.Bind(x, tvm.tirx.BufferLoad(a, [i])), store])
    guarded = tvm.tirx.IfThenElse(i >= 0, body, None)
    return tvm.tirx.PrimFunc([a, b], tvm.tirx.For(i, 0, 64, tvm.tirx.ForKind.SERIAL, guarded))


@T.prim_func(s_tir=True)
def annotated(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    T.func_attr({"tirx.noalias": True, "my.attr": 3})
    for io in T.serial(8, annotations={"software_pipeline_stage": [0, 1]}):
        for ii, j in T.grid(8, 16):
            with T.sblock("compute"):
                vi = T.axis.spatial(64, io * 8 + ii)
                vj = T.axis.spatial(16, j)
                T.sblock_attr({"meta_schedule.auto_tensorize": 1})
                B[vi, vj] = T.if_then_else(vi >= 0, A[vi, vj], T.float32(0))


@T.prim_func(s_tir=True)
def tensorized(A: T.Buffer((64, 16), "float32"), B: T.Buffer((64, 16), "float32")):
    for io in range(8):
        with T.sblock("tile"):
            vo = T.axis.spatial(8, io)
            T.reads(A[vo * 8 : vo * 8 + 8, 0:16])
            T.writes(B[vo * 8 : vo * 8 + 8, 0:16])
            T.sblock_attr({"meta_schedule.auto_tensorize": "intrinsic"})
            for ii, j in T.grid(8, 16):
                with T.sblock("compute"):
                    vi, vj = T.axis.remap("SS", [ii, j])
                    B[vo * 8 + vi, vj] = A[vo * 8 + vi, vj]


def there_and_back(func: Any, blocks: bool = True) -> tuple[Function, str]:
    """The nest after passes, and the script of what it becomes."""
    f = unique_names(merge_adjacent_loops(simplify(from_tvm(func))))
    return f, to_tvm(f, like=func, blocks=blocks).script()


def only_call(f: Function) -> Evaluate:
    (call,) = calls(f.body)
    return call


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "uint64"])
def test_elements_of_any_type_are_copied(dtype: str, blocks: bool) -> None:
    a = tvm_te.placeholder((4, 16), dtype, name="A")
    func = tvm_te.create_prim_func([a, tvm_te.compute((4, 16), lambda i, j: a[3 - i, j], name="B")])
    f, script = there_and_back(func, blocks)
    assert f'"{dtype}"' in script
    assert [t.name for t in f.outputs] == ["B"]
    width = {"bfloat16": "uint16", "float8_e4m3fn": "uint8"}.get(dtype, dtype)
    given = np.arange(64, dtype=width).reshape(4, 16)
    out = np.zeros_like(given)
    views = [tvm.runtime.tensor(x)._create_view((4, 16), dtype) for x in (given, out)] if width != dtype else None
    held = views or [tvm.runtime.tensor(x) for x in (given, out)]
    library = tvm.compile(to_tvm(f, like=func, blocks=blocks), target="llvm")
    library(*held)
    result = held[1] if views is None else held[1]._create_view((4, 16), width)
    np.testing.assert_array_equal(result.numpy(), given[::-1])


def test_a_barrier_orders_what_the_function_writes() -> None:
    f, script = there_and_back(synchronized)
    sync = only_call(f)
    assert {t.name for t in sync.reads} == {t.name for t in sync.writes} == {"S", "B"}
    assert [t.name for t in f.outputs] == ["B"]
    assert script.index("tvm_storage_sync") > script.index("= A[")
    assert "if " not in script, "the condition was proved"


def test_an_external_call_touches_what_it_is_given() -> None:
    f, script = there_and_back(prefetched)
    call = only_call(f)
    assert [t.name for t in call.reads] == [t.name for t in call.writes] == ["A"]
    assert "call_extern" in script and '"prefetch", A.data' in script
    assert "if " not in script


def test_names_of_an_unknown_type_reach_to_the_end() -> None:
    f, script = there_and_back(declared(), blocks=False)
    call = only_call(f)
    assert ([t.name for t in call.reads], [t.name for t in call.writes]) == (["A"], ["B"])
    assert "if " not in script and "float8_e4m3fn" in script


def test_a_packed_function_of_the_host_runs() -> None:
    a = tvm_te.placeholder((4, 8), name="A")
    func = tvm_te.create_prim_func([a, topi.sort(a)])
    f, _ = there_and_back(func)
    given = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    np.testing.assert_array_equal(called(to_tvm(f, like=func), given, np.zeros_like(given))[1], np.sort(given))


def test_annotations_and_names_of_blocks_stay() -> None:
    f, script = there_and_back(annotated)
    assert "# software_pipeline_stage = (0, 1)" in str(f)
    assert parse_nest(str(f)) is not None
    for text in (
        '"software_pipeline_stage": [0, 1]',
        '"meta_schedule.auto_tensorize": 1',
        'T.sblock("compute")',
        "my.attr",
    ):
        assert text in script
    assert "if_then_else" not in script


def test_a_tensorized_block_stays_whole() -> None:
    f, script = there_and_back(tensorized)
    assert only_call(f).call.name == "sblockrealize"
    assert '"meta_schedule.auto_tensorize": "intrinsic"' in script and 'T.sblock("tile")' in script
    tvm.s_tir.Schedule(to_tvm(f, like=tensorized))


def test_pragmas_of_a_schedule_stay() -> None:
    a = tvm_te.placeholder((16, 16), name="A")
    sch = tvm.s_tir.Schedule(tvm_te.create_prim_func([a, tvm_te.compute((16, 16), lambda i, j: a[i, j], name="B")]))
    sch.annotate(sch.get_loops(sch.get_sblock("B"))[0], "pragma_auto_unroll_max_step", 64)
    for blocks in (True, False):
        assert "pragma_auto_unroll_max_step" in there_and_back(sch.mod["main"], blocks)[1]


@pytest.mark.parametrize("leave", ["break_loop", "continue_loop"])
def test_statements_that_leave_a_loop_are_refused(leave: str) -> None:
    a = tvm.tirx.decl_buffer((8,), "float32", "A")
    i = tvm.tirx.Var("i", "int32")
    out = tvm.tirx.Evaluate(tvm.ir.Call(f"tirx.{leave}", [], ret_ty="int32"))
    body = tvm.tirx.SeqStmt([tvm.tirx.IfThenElse(i > 3, out, None), tvm.tirx.BufferStore(a, 1.0, [i])])
    with pytest.raises(InputError, match=leave):
        from_tvm(tvm.tirx.PrimFunc([a], tvm.tirx.For(i, 0, 8, tvm.tirx.ForKind.SERIAL, body)))


def test_a_pass_of_tvm_asks_about_its_expressions() -> None:
    i, n = tvm.tirx.Var("i", "int32"), tvm.tirx.Var("n", "int64")
    variables: dict[Any, Any] = {}
    ranges = {from_tvm(i, variables): from_tvm(tvm.ir.Range(2, tvm.tirx.IntImm("int32", 34)), variables)}
    ctx = Context(ranges)
    e = from_tvm(tvm.tirx.FloorMod(i * 4 + 3, 4) + tvm.tirx.Div(i, 8), variables)
    assert tuple(map(int, ctx.bounds(e))) == (3, 7)
    assert ctx.prove(from_tvm(i < 34, variables))
    assert set(from_tvm(n + i, variables).free_vars()) == {variables[n], variables[i]}
    assert str(from_tvm(n * 2, variables)) == "n * 2"
    with pytest.raises(InputError, match="call_extern"):
        from_tvm(tvm.tirx.call_extern("int32", "f", i), variables)


# -- threads --------------------------------------------------------------------------------------------------------


def tiled(tile: int, depth: int, size: int = 64) -> Schedule:
    """A product whose blocks fetch both operands through shared storage, all threads together."""
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    *outer, ii, ji = s[c].tile(*c.op.axis, tile, tile)
    ko, ki = s[c].split(k, depth)
    s[c].reorder(*outer, ii, ji, ko, ki)
    for loop, tag in zip((*outer, ii, ji), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        s[c].bind(loop, te.thread_axis(tag))
    for operand in (a, b):
        shared = s.cache_read(operand, "shared", [c])
        s[shared].compute_at(s[c], ko)
        for loop, tag in zip(s[shared].op.axis, ("threadIdx.y", "threadIdx.x"), strict=True):
            s[shared].bind(loop, te.thread_axis(tag))
    return s


@pytest.mark.skipif(tvm.get_global_func("target.build.opencl", True) is None, reason="this TVM writes no OpenCL")
@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("depth", [16, 8, 32])
def test_cooperative_fetching_becomes_a_kernel(depth: int, blocks: bool) -> None:
    module = tvm.compile(to_tvm(lower(tiled(16, depth)), blocks=blocks), target=tvm.target.Target("opencl")).mod
    kernel = module.imports[0].inspect_source()
    assert f"__local float A_shared_ptr[{16 * depth}]" in kernel
    assert kernel.count("barrier(CLK_LOCAL_MEM_FENCE)") == 2


@sampled(3, 200, st.integers(1, 4), st.integers(1, 7), st.integers(1, 8), shows={True})
def test_launched_threads_compute_the_same(tile: int, depth: int, size: int) -> bool:
    s = tiled(tile, depth, size)
    f = lower(s)
    launched = with_launched_threads(f)
    check_run(launched, s)
    return launched.body is not f.body


@pytest.mark.parametrize("depth", [1, 6])
def test_tiles_of_other_extents_are_fetched_whole(depth: int) -> None:
    s = tiled(3, depth, 6)
    f = with_launched_threads(lower(s))
    check_run(f, s)
    loops = [stmt for stmt in statements(f.body) if isinstance(stmt, For) and stmt.thread.startswith("threadIdx")]
    assert len(loops) >= 4  # loops of one iteration are none
    assert {loop.range.ends for loop in loops} == {(0, 2)}
