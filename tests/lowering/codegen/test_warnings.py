"""C compiles without warnings, parallel loops pass the thread sanitizer, and run times are measured."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from benchmarks import runtime
from bound import te
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import postorder
from lowering import Function, lower, parse_nest, run, to_c
from lowering.codegen.c import program_text
from lowering.nest.ir import For, with_fields
from lowering.nest.walk import operands, statements
from tests.bound.corpus import CASES
from tests.compilers import compilers, need_compiler, needs_compiler
from tests.lowering.lowered import close, compile_c, of_corpus, problem
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import sampled

LEVELS = (("-O2",), ("-O3", "-march=native", "-fopenmp"))
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"strength": True},
    {"compute": "box", "strength": True},
    {"compute": "exact"},
    {"nests": "partition"},
)


def check_silent(functions: list[Function], levels: tuple[tuple[str, ...], ...] = LEVELS) -> None:
    """Compile functions as one file under distinct names."""
    texts = [to_c(with_fields(f, name=f"f{k}")) for k, f in enumerate(functions)]
    for compiler in compilers():
        for level in levels:
            compile_c("\n".join(texts), compiler, ("-std=c99", "-Wall", "-Wextra", "-Werror", "-c", *level))


CARRIED = """
def f(A: float32[n, 3], B: float32[n, 3], n):
    for i in [0, n) with q = 0, then select(r == 2, q + 1, q); r = 0, then select(r == 2, 0, r + 1):
        B[i, q - q] = A[i, r] + A[i, (i * i + r) % 3] * B[i, (i * i + r) % 3]
"""


def test_a_block_ends_behind_what_its_loop_carries() -> None:
    f = parse_nest(CARRIED)
    check_silent([f])
    text = to_c(f)
    body = text[text.index("for (") :]
    names = re.findall(r"const \w+ (\w+) =", body)
    assert len(names) >= 4, "the body and the update define names"
    assert len(set(names)) == len(names)


def test_storage_of_any_size_saturates_below_what_compilers_warn_of() -> None:
    text = 'A = given(n)\nB[i:n, j:5] = A[n - 1 - i]\nCOPY = s.cache_read(A, "shared", [B])'
    s = Written(text, n=te.size_var("n")).s
    heap = parse_nest("""
def g(A: float32[n, m], n, m):
    for i in [0, n):
        allocate T: float32[i, m]
        for k in [0, i):
            for j in [0, m):
                T[k, j] = A[k, j] + 1.0
        for k in [0, i):
            for j in [0, m):
                A[k, j] = T[k, j]
""")
    check_silent([lower(s), heap])


@sampled(1, 60, st.lists(programs(symbolic=True, most=2, also="caches copies"), min_size=3, max_size=3), st.data())
def test_drawn_schedules(drawn: list[Program], data: st.DataObject) -> None:
    functions = []
    for program in drawn:
        options = data.draw(st.sampled_from(OPTIONS))
        if program.inferred() is None:
            continue
        try:
            functions.append(lower(program.schedule, **options))
        except InputError:
            continue
    check_silent(functions)


@pytest.mark.nightly
@pytest.mark.parametrize("options", OPTIONS, ids=repr)
def test_the_corpus(options: dict[str, Any]) -> None:
    functions = []
    for name in CASES:
        try:
            functions.append(lower(of_corpus(name)[0], **options))
            to_c(functions[-1])
        except InputError:  # missing in C, or forbidden by the schedule
            del functions[-1:]
    assert len(functions) > 100
    for begin in range(0, len(functions), 40):
        check_silent(functions[begin : begin + 40])


RUNTIME = """
#include <pthread.h>
#define THREADS 3
static __thread int number;
static void (*volatile body)(void *);
static pthread_barrier_t all;
struct call { void (*body)(void *); void *data; int number; };
int omp_get_thread_num(void) { return number; }
int omp_get_num_threads(void) { return THREADS; }
int omp_get_max_threads(void) { return THREADS; }
void GOMP_barrier(void) { pthread_barrier_wait(&all); }
static void *one(void *call) {
    struct call *c = call;
    number = c->number;
    c->body(c->data);
    return 0;
}
void GOMP_parallel(void (*f)(void *), void *data, unsigned count, unsigned flags) {
    pthread_t threads[THREADS];
    struct call calls[THREADS];
    (void)count, (void)flags;
    pthread_barrier_init(&all, 0, THREADS);
    for (int k = 0; k < THREADS; ++k) {
        calls[k] = (struct call){f, data, k};
        pthread_create(&threads[k], 0, one, &calls[k]);
    }
    for (int k = 0; k < THREADS; ++k) pthread_join(threads[k], 0);
    pthread_barrier_destroy(&all);
}
"""
FLAGS = ("-std=gnu99", "-O1", "-g", "-fopenmp", "-fsanitize=thread", "-pthread")


def sanitized(f: Function, folder: Path, sizes: dict[str, int] | None = None) -> subprocess.CompletedProcess[str]:
    text = program_text(f, sizes)
    assert "#pragma omp parallel" in text
    (folder / "f.c").write_text(text)
    (folder / "runtime.c").write_text(RUNTIME)
    built = subprocess.run(
        [need_compiler(), *FLAGS, str(folder / "f.c"), str(folder / "runtime.c"), "-o", str(folder / "f"), "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"no thread sanitizer: {built.stderr}")
    done = subprocess.run([str(folder / "f")], capture_output=True, text=True, check=False, timeout=120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run here")
    return done


TILES = """
    A = given(n, n); r = axis(0, 3)
    INSIDE = lambda y, x: tir.all(y >= 1, y <= n, x >= 1, x <= n)
    PAD[y:n + 2, x:n + 2] = where(INSIDE(y, x), A[y - 1, x - 1], 0.0)
    B[y:n, x:n + 2] = sum_(PAD[y + r, x], axis=r)
    C[y:n, x:n] = B[y, x] + B[y, x + 2]
    C split y 8; PAD compute_at C y.outer; B compute_at C y.outer; C parallel y.outer; C vectorize x
    """  # private storage of each iteration, too large for the stack; a border; a sum
DIVIDED = """
    A = given(64, dtype="int32", value_range=(0, 3))
    B[i:64] = 12 // A[i]
    B parallel i
    """  # concurrent divisions by 0 set one flag without a race


@pytest.mark.skipif("gcc" not in compilers(), reason="the runtime of another compiler has other functions")
def test_parallel_loops_have_no_race(tmp_path: Path) -> None:
    for text, sizes in ((TILES, {"n": 61}), (DIVIDED, {})):
        done = sanitized(lower(Written(text, n=te.size_var("n")).s), tmp_path, sizes)
        assert "returned" in done.stdout and "WARNING" not in done.stderr, done.stderr
    racing = "def f(A: float32[4]):\n    for i in [0, 400) parallel:\n        A[i % 4] = A[i % 4] + 1.0\n"
    assert "data race" in sanitized(parse_nest(racing), tmp_path).stderr


def test_what_parallel_iterations_do_is_a_function_whose_arrays_are_apart() -> None:
    s = Written("""
        A = given(64, 40); W = given(40, 48); k = axis(0, 40)
        C[i:64, j:48] = sum_(A[i, k] * W[k, j], axis=k)
        D[i:64, j:48] = C[i, j] + 1
        C parallel i; D split i 16; D parallel i.outer""").s
    f = lower(s)
    text = to_c(f)
    regions = text.split("#pragma omp parallel for")[1:]
    assert len(regions) == 2
    for region in regions:  # a loop of one call
        assert re.match(r"\s*for \(.*\) \{\s*\w+\(.*\);\s*\}", region), region
    assert "static void D_C_" in text and "static void D_D_" in text
    given, expected = problem(s, {})
    close(run(f, given, backend="c"), expected)


@needs_compiler
def test_every_program_is_right_under_every_compiler(capsys: Any) -> None:
    assert runtime.main(["--repeat", "1", "--scale", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {(row["program"], row["compiler"]) for row in rows} == {
        (name, compiler) for name in runtime.PROGRAMS for compiler in runtime.compilers()
    }
    for row in rows:
        assert set(row["seconds"]) == set(runtime.VARIANTS)
        assert row["ratios"].keys() == {"plain / facts", "plain / strength"} and min(row["ratios"].values()) > 0


@needs_compiler
def test_the_table_names_what_it_shows(capsys: Any) -> None:
    assert runtime.main(["flatten", "--repeat", "1", "--scale", "1"]) == 0
    assert "plain/facts" in capsys.readouterr().out


@pytest.mark.parametrize("name", runtime.PROGRAMS)
def test_facts_save_operations(name: str) -> None:
    made = runtime.variants(runtime.PROGRAMS[name])
    plain, facts, strength = (str(made[label]) for label in runtime.VARIANTS)
    corrections = (" >> ", "select")
    assert any(text in plain for text in corrections) and not any(text in facts for text in corrections)
    innermost = [s for s in statements(made["strength"].body) if isinstance(s, For)][-1]
    parts = [c.following for c in innermost.carried]
    parts += [e for stmt in statements(innermost.body) for e in operands(stmt)]
    below: Any = postorder(parts)
    assert not any(node.op in ops.DIVISIONS for node in below), strength


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    assert runtime.main(["--repeat", "1"]) == 2
    assert "no C compiler was found on PATH" in capsys.readouterr().err
    assert runtime.main(["nothing"]) == 2
    assert "no program is named 'nothing'" in capsys.readouterr().err
