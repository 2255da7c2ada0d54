"""TVM's scripts run after `install()` unchanged, and with another import line; hybrid scripts, operators."""

# ruff: noqa: F821  # names such as `output_tensor` belong to the language of hybrid scripts

import gc
import importlib
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from examples.operators import FAMILIES, OPERATORS
from intset import InputError
from lowering import run, to_c
from lowering.nest.ir import Function
from lowering.tvm import te, tir
from lowering.tvm.outside import INSTEAD, NOT_HERE, TvmFinder, install
from lowering.tvm.runtime import PACKED
from tests.compilers import need_compiler
from tests.lowering.lowered import run_sanitized
from tests.lowering.tvm_scripts.calls import equal_in_both
from tests.strategies.refusals import refused_by

TEXT = Path(__file__).with_name("scripts.txt").read_text(encoding="utf-8")
NAMES = [line[4:].partition("(")[0] for line in TEXT.splitlines() if line.startswith("def ") and line.endswith("():")]
CHANGED = (
    TEXT.replace("import tvm.testing\n", "")
    .replace("import tvm\n", "import lowering.tvm as tvm\n")
    .replace("from tvm import", "from lowering.tvm import")
)


@pytest.fixture
def installed() -> Iterator[None]:
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "tvm"}
    for name in before:
        del sys.modules[name]
    install()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "tvm"]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, TvmFinder)]
    sys.modules.update(before)


def named(text: str, name: str, folder: Path) -> Callable[[], None]:
    path = folder / "script.py"  # hybrid scripts are read from their file
    path.write_text(text, encoding="utf-8")
    module = types.ModuleType("script")
    exec(compile(text, str(path), "exec"), module.__dict__)
    found: Callable[[], None] = getattr(module, name)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_with_another_import_line(name: str, tmp_path: Path) -> None:
    named(CHANGED, name, tmp_path)()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_unchanged(name: str, tmp_path: Path) -> None:
    named(TEXT, name, tmp_path)()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", [name if name != "contrib" else "contrib.mkl" for name in NOT_HERE])
def test_what_is_not_here_says_what_serves_instead(name: str) -> None:
    with pytest.raises(ImportError, match=f"tvm.{name} is not here: "):
        importlib.import_module(f"tvm.{name}")
    with pytest.raises(ImportError, match=f"tvm.{name} is not here: "):
        exec(f"import lowering.tvm as tvm\ntvm.{name}")


def test_another_tvm_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tvm", types.ModuleType("tvm"))
    with pytest.raises(InputError, match="apache-tvm is imported already"):
        install()


@pytest.mark.parametrize("name", [name for name in INSTEAD if not name.endswith("*")])
def test_a_missing_name_says_what_serves_instead(name: str) -> None:
    *modules, last = name.split(".")
    place: object = importlib.import_module(".".join(("lowering.tvm", *modules)))
    with pytest.raises(AttributeError, match=f"tvm.{name} is not here: {re.escape(INSTEAD[name])}$"):
        getattr(place, last)
    with pytest.raises(AttributeError, match="no_such_name is not here: "):
        getattr(place, "no_such_name")  # noqa: B009


def test_a_loop_of_a_builder_is_forgotten_with_its_nest() -> None:
    gc.collect()  # the nests of other tests
    before = len(PACKED)
    ib = tir.ir_builder.create()
    A = ib.buffer_ptr(tir.decl_buffer((4,), "int32"))
    with ib.while_loop(A[0] < 3):
        A[0] = A[0] + 1
    nest = ib.get()
    assert len(PACKED) == before + 1 and nest is not None
    del A, nest, ib
    gc.collect()
    assert len(PACKED) == before


CASES = [(name, schedule) for name, operator in OPERATORS.items() for schedule in operator.schedules]
SLOW = {(name, "cuda") for name in OPERATORS if "conv2d" in name}  # several seconds each
COMPILED = [(next(iter(family)), schedule) for family in FAMILIES.values() for schedule in ("x86", "cuda")]


def problem(name: str, schedule: str) -> tuple[Function, dict[str, Any], dict[str, Any]]:
    """The nest, arrays for its inputs, and numpy's outputs, by name."""
    operator = OPERATORS[name]
    s, args = operator.scheduled(schedule)
    f = tvm.lower(s, args, name=name)
    generator = np.random.default_rng(sum(map(ord, name)))
    arrays = [
        generator.standard_normal(shape).astype(dtype)
        if dtype.startswith("float")
        else generator.integers(0, operator.below, shape).astype(dtype)
        for shape, dtype in operator.inputs
    ]
    outputs = operator.reference(*arrays)
    expected = dict(zip((t.name for t in f.outputs), [outputs] if len(f.outputs) == 1 else outputs, strict=True))
    return f, {t.name: a for t, a in zip(args, arrays, strict=False)}, expected


def close(results: Any, expected: dict[str, Any]) -> None:
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("name", "schedule"), [pytest.param(*case, marks=[pytest.mark.nightly] * (case in SLOW)) for case in CASES]
)
def test_an_operator_equals_numpy(name: str, schedule: str) -> None:
    f, given, expected = problem(name, schedule)
    close(run(f, given), expected)


@pytest.mark.parametrize(("name", "schedule"), COMPILED)
def test_an_operator_in_c_equals_numpy(name: str, schedule: str) -> None:
    need_compiler()
    f, given, expected = problem(name, schedule)
    close(run(f, given, backend="c"), expected)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_an_operator_under_the_sanitizers_equals_numpy(name: str, schedule: str) -> None:
    need_compiler()
    f, given, expected = problem(name, schedule)
    close(run_sanitized(f, to_c(f), given, expected, {}), expected)


# -- hybrid scripts ------------------------------------------------------------------------------------------------


@te.hybrid.script
def both(x):
    p = output_tensor((8,), "float32")
    q = output_tensor((8,), "float32")
    for i in range(8):
        p[i] = x[i] + 1.0
        q[i] = x[i] * 3.0
    return p, q


def two_results(a):
    b = output_tensor((8,), "float32")
    u, v = both(a)
    for i in range(8):
        b[i] = u[i] * v[i]
    return b


def test_a_script_of_two_results_equals_its_function() -> None:
    A, x = te.placeholder((8,), name="A"), np.array([3, -1, 4, 1, -5, 9, 2, -6], "float32")
    script = te.hybrid.script(two_results)
    B = script(A)
    equal_in_both(tvm.build(te.create_schedule(B.op), [A, B]), [x], script(x))


def whole_sum(a):
    b = output_tensor((1,), "float32")
    total = 0
    for i in range(8):
        total += a[i]
    b[0] = total
    return b


def inner_name(a):
    b = output_tensor((1,), "float32")
    for i in range(8):
        last = a[i]
    b[0] = last
    return b


def one_index(a):
    b = output_tensor((2, 4), "float32")
    for i in range(2):
        b[i] = a[i]
    return b


test_another_meaning_is_refused = refused_by(
    lambda func: te.hybrid.script(func)(te.placeholder((8,), name="A")),
    {
        whole_sum: "total begins as int32, which holds no float: write total = 0.0",
        inner_name: "the name last is not known outside of its block: assign it before the block",
        one_index: r"b\[i\] has 1 indices, b has 2 dimensions",
    },
)
