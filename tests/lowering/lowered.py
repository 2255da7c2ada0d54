"""Lowered schedules against the reference evaluator: in the interpreter, and as compiled C."""

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bound import te
from bound.schedule import Schedule
from bound.tensor import PlaceholderOp, Tensor
from intset.expr.evaluate import evaluate as value_of
from lowering import Function, lower, narrow, run, to_c
from tests.bound.corpus import CASES
from tests.bound.reference import evaluate
from tests.compilers import need_compiler

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-O1", "-fPIC", "-shared")
BACKENDS: tuple[Literal["python", "c"], ...] = ("python", "c")
SANITIZERS = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")


def inputs_of(schedule: Schedule) -> list[Tensor]:
    states = {t for stage in schedule.stages for t in getattr(stage.op, "state_placeholder", ())}
    ops = (stage.op for stage in schedule.stages if isinstance(stage.op, PlaceholderOp))
    return [t for op in ops for t in op.outputs if t not in states]


def shape_at(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(value_of(e, {v: sizes[v.name] for v in e.free_vars()})) for e in tensor.shape)


def random_array(tensor: Tensor, sizes: Mapping[str, int], seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *tensor.name.encode()])
    shape = shape_at(tensor, sizes)
    if tensor.dtype == "bool":
        return rng.random(shape) < 0.5
    if tensor.dtype.startswith(("int", "uint")):
        low, high = tensor.value_range or (0 if tensor.dtype.startswith("u") else -20, 20)
        return rng.integers(low, high, shape, tensor.dtype, endpoint=True)
    return rng.standard_normal(shape).astype(tensor.dtype)


def problem(
    schedule: Schedule, sizes: Mapping[str, int], functions: Any = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random inputs and the outputs they should give."""
    given = {t.name: random_array(t, sizes) for t in inputs_of(schedule)}
    outputs = [t for op in schedule.outputs for t in op.outputs]
    expected = evaluate(outputs, given, dict(sizes), functions)
    return given, {t.name: value for t, value in zip(outputs, expected, strict=True)}


def close(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert actual.keys() >= expected.keys()
    for name, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=1e-4, err_msg=name)
        else:
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


@cache
def of_corpus(name: str) -> tuple[Schedule, Function]:
    """A corpus schedule, lowered once for all tests of it."""
    schedule = CASES[name]["fn"]()
    return schedule, lower(schedule)


def check(
    schedule: Schedule, sizes: Mapping[str, int] | None = None, functions: Any = None, **options: Any
) -> Function:
    """Lower, run with every access checked, and compare with the reference; gives the function."""
    f = lower(schedule, **options)
    check_run(f, schedule, sizes, functions)
    return f


def check_run(f: Function, schedule: Schedule, sizes: Mapping[str, int] | None = None, functions: Any = None) -> None:
    """Run `f`, which was lowered from the schedule, with every access checked, and compare with the reference."""
    given, expected = problem(schedule, sizes or {}, functions)
    close(run(f, given, sizes or {}, functions), expected)


def elementwise(formula: Callable[..., Any], arrays: Mapping[str, Any]) -> tuple[Function, list[Tensor]]:
    """A nest of the shape of the first array, and its results: a formula of an index and a tensor an array."""
    given = [te.placeholder(array.shape, str(array.dtype), name) for name, array in arrays.items()]
    made = te.compute(given[0].shape, lambda *i: formula(*i, *given), name="out")
    outs = list(made) if isinstance(made, tuple) else [made]
    return lower(te.create_schedule(outs[0].op), [*given, *outs]), outs


def in_both(formula: Callable[..., Any], **arrays: Any) -> Iterator[list[Any]]:
    """The elements of a formula in the interpreter and in C."""
    f, outs = elementwise(formula, arrays)
    for backend in BACKENDS:
        found = run(f, arrays, backend=backend)
        yield [found[t.name] for t in outs]


text_of = lru_cache(8)(to_c)


def check_c(f: Function, schedule: Schedule, sizes: Mapping[str, int] | None = None, sanitize: bool = False) -> str:
    """Compile the C of `f`, run it, and compare with the reference; gives the C."""
    text = text_of(f)
    given, expected = problem(schedule, sizes or {})
    if sanitize:
        close(run_sanitized(f, text, given, expected, sizes or {}), expected)
    else:
        close(run_c(f, text, given, expected, sizes or {}), expected)
    return text


def compile_c(text: str, compiler: str = "gcc", flags: tuple[str, ...] = FLAGS) -> Path:
    folder = _folder()
    source = folder / f"f{len(list(folder.iterdir()))}.c"
    source.write_text(text)
    target = source.with_suffix(".so" if "-shared" in flags else ".exe")
    done = subprocess.run(
        [need_compiler(compiler), *flags, str(source), "-o", str(target), *(() if "-c" in flags else ("-lm",))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{text}"
    return target


compiled_once = cache(compile_c)
"""For what keeps no state of its own."""


def run_c(
    f: Function, text: str, given: Mapping[str, Any], expected: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """The outputs of the compiled function."""
    arrays = {t.name: np.ascontiguousarray(given[t.name], t.dtype) for t in f.inputs}
    arrays |= {t.name: np.full(expected[t.name].shape, 77, t.dtype) for t in f.outputs}
    assert status(f, text, ctypes.CDLL(str(compiled_once(text))), arrays, sizes) == 0
    return {t.name: arrays[t.name] for t in f.outputs}


def status(
    f: Function, text: str, library: ctypes.CDLL, arrays: Mapping[str, Any], sizes: Mapping[str, int] | None = None
) -> int:
    """What the function of a compiled text returns; it is given contiguous arrays of its types."""
    index = ctypes.c_int32 if narrow(f).bits == 32 else ctypes.c_int64
    args: list[Any] = [arrays[t.name].ctypes.data_as(ctypes.c_void_p) for t in f.params]
    args += [index((sizes or {})[v.name]) for v in f.sizes]
    return int(getattr(library, c_name(text))(*args))


def c_name(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("int ")).split("(")[0][4:]


_MAIN = """
#include <stdio.h>
#include <string.h>

static void *array(const char *name, size_t bytes, int must) {
    void *p = malloc(bytes ? bytes : 1);
    FILE *file = fopen(name, "rb");
    if (p == NULL || (file == NULL && must)) exit(90);
    if (file == NULL) { memset(p, 0x4d, bytes); return p; }
    if (fread(p, 1, bytes, file) != bytes) exit(91);
    fclose(file);
    return p;
}

static void written(const char *name, const void *p, size_t bytes) {
    FILE *file = fopen(name, "wb");
    if (file == NULL || fwrite(p, 1, bytes, file) != bytes) exit(92);
    fclose(file);
}

static size_t number(const char *text) { return (size_t)strtoull(text, NULL, 10); }

int main(int argc, char **argv) {
    if (argc < %d) return 94;
    %s
    return 0;
}
"""


def run_sanitized(
    f: Function,
    text: str,
    given: Mapping[str, Any],
    expected: Mapping[str, Any],
    sizes: Mapping[str, int],
    compiler: str = "gcc",
) -> Any:
    """The outputs of the function, run as a program of its own under the sanitizers, on arrays of their exact size.

    Files, their lengths and the sizes are arguments, so that one program serves all sizes.
    """
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    lines, ends, names, arguments = [], [], [], []
    for k, t in enumerate(f.params):
        is_output = t in f.outputs
        array = np.zeros(expected[t.name].shape, t.dtype) if is_output else np.ascontiguousarray(given[t.name], t.dtype)
        path = folder / f"a{k}.bin"
        if not is_output:
            array.tofile(path)
        file, length = f"argv[{2 * k + 1}]", f"number(argv[{2 * k + 2}])"
        arguments += [str(path), str(array.nbytes)]
        lines.append(f"void *a{k} = array({file}, {length}, {int(not is_output)});")
        ends += [f"written({file}, a{k}, {length});"] if is_output else []
        ends.append(f"free(a{k});")
        names.append(f"a{k}")
    names += [f"strtoll(argv[{len(arguments) + 1 + k}], NULL, 10)" for k in range(len(f.sizes))]
    arguments += [str(sizes[v.name]) for v in f.sizes]
    lines.append(f"if ({c_name(text)}({', '.join(names)}) != 0) return 93;")
    program = text + _MAIN % (len(arguments) + 1, "\n    ".join((*lines, *ends)))
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-g", *SANITIZERS)
    binary = compiled_once(program, compiler, flags)
    quiet = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [str(binary), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=quiet)
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr}\n{text}"
    results = {}
    for k, t in enumerate(f.params):
        if t in f.outputs:
            results[t.name] = np.fromfile(folder / f"a{k}.bin", t.dtype).reshape(expected[t.name].shape)
    return results


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="lowered-"))
