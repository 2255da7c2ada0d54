"""Texts in C: few parentheses, names that inject nothing, no warnings; parallel loops pass the thread sanitizer."""

import json
import pickle
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import runtime
from bound import te, tir
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import postorder
from lowering import Function, lower, parse_nest, run, to_c
from lowering.codegen.c import program_text
from lowering.codegen.c_words import BUILT_IN, FILE_SCOPE, KEYWORDS, MACROS, SIZE_HELPERS
from lowering.codegen.emitter import Identifiers, comment, infix
from lowering.nest.ir import For, with_fields
from lowering.nest.walk import operands, statements
from tests.bound.corpus import CASES
from tests.compilers import compilers, need_compiler, needs_compiler
from tests.lowering.lowered import close, compile_c, of_corpus, problem
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, sampled


@pytest.mark.parametrize(
    ("left", "op", "right", "text"),
    [
        ("(a * b)", "+", "c", "(a * b + c)"),
        ("(a + b)", "*", "c", "((a + b) * c)"),
        ("(a + b)", "-", "(c - d)", "(a + b - (c - d))"),
        ("(a - b)", "+", "(c * d)", "(a - b + c * d)"),
        ("a", "*", "(b * c)", "(a * (b * c))"),
        ("(a / b)", "*", "c", "((a / b) * c)"),
        ("(a * b)", "/", "c", "((a * b) / c)"),
        ("(a % b)", "+", "c", "(a % b + c)"),
        ("(a & b)", "==", "c", "((a & b) == c)"),
        ("(a + b)", "&", "c", "((a + b) & c)"),
        ("(a + 1)", "<", "(b * 2)", "(a + 1 < b * 2)"),
        ("(a < b)", "<", "c", "((a < b) < c)"),
        ("((a < b) && (c < d))", "&&", "(e == f)", "((a < b) && (c < d) && e == f)"),
        ("(a || b)", "&&", "c", "((a || b) && c)"),
        ("(a ? b : c)", "+", "d", "((a ? b : c) + d)"),
        ("(-a)", "-", "(-b)", "((-a) - (-b))"),
        ("(a + b)", ">>", "c", "((a + b) >> c)"),
        ("f(a, b + c)", "*", "x[(a + b)]", "(f(a, b + c) * x[(a + b)])"),
        ("(int64_t)(a + b)", "*", "((int64_t)a + b)", "((int64_t)(a + b) * ((int64_t)a + b))"),
    ],
)
def test_operands_keep_the_parentheses_that_they_need(left: str, op: str, right: str, text: str) -> None:
    assert infix(left, op, right) == text


def test_constants_sums_and_indices_are_written_as_a_reader_writes_them() -> None:
    w = Written("""
        n = var(); A = given(7, n + 3); k = axis(0, 3)
        B[i:A.extents[0] + 2 - 2, j:A.extents[1] - 3] = A[i, j] + A[i, j + 3]
        C[i:7, j:n] = sum_(A[i, j + k], axis=k)
        C unroll k""")
    assert [str(e) for e in w.B.extents] == ["7", "n"]
    text = re.sub(r"/\*.*?\*/", "", to_c(lower(w.s)), flags=re.DOTALL)
    assert "+ 0]" not in text and "* 1" not in text and "- 2" not in text
    assert re.search(r"\+ j\w*\]", text) and re.search(r"\+ \(j\w* \+ 2\)\]", text)
    text = to_c(lower(Written(REDUCTIONS).s))
    assert re.search(r"float (\w+) = 0\.0f;\n *for [^\n]*\n *\1 \+= A\[i \* 1000 \+ k\];\n *}\n *S\[i\] = \1;", text)
    assert "[0]" not in text and "[1]" not in text
    s = Written(REDUCTIONS).s
    plain, told = lower(s), lower(s, reassociate=True)
    assert "reduction(" not in to_c(plain)
    text = to_c(told)
    found = re.findall(r"simd reduction\((\S+):\w+\)", text)
    assert found == ["+", "max", "+", "+"]  # the last sum is divided: whole rows of seven, the rest
    rng = np.random.default_rng(0)
    given = rng.standard_normal((6, 1000), "float32")
    ours, exact = run(plain, {"A": given}, backend="c"), run(plain, {"A": given})
    np.testing.assert_array_equal(ours["S"], np.add.accumulate(given, axis=1)[:, -1])  # one after another, in float32
    for name in "SMNP":
        np.testing.assert_allclose(run(told, {"A": given}, backend="c")[name], exact[name], rtol=1e-3, atol=1e-3)
    assert pickle.loads(pickle.dumps(told)).reassociate


REDUCTIONS = """
    A = given(6, 1000); k = axis(0, 1000); m = axis(0, 1000); p = axis(0, 1000); q = axis(0, 1000)
    S[i:6] = sum_(A[i, k], axis=k)
    M[i:6] = max_(A[i, m], axis=m)
    N[i:6] = sum_(tir.const(3, "int32"), axis=p)
    P[i:6] = sum_(A[i, q] * A[5 - i, q], axis=q)
    P split q 7"""


def test_names_are_given_again_where_they_are_not_in_sight() -> None:
    text = to_c(
        lower(
            Written("""
            n = var(); A = given(n, 5, 7)
            B[i:n, j:5, k:7] = A[i, j + 2 - 2, k] + 1
            C[i:n, j:5] = B[i, j, 3] * B[i, j, 4]
            C unroll j""").s
        )
    )
    loops = re.findall(r"for \(\w+ (\w+) = 0", text)
    assert set(loops) == {"i", "j", "k"} and loops.count("i") > 1
    assert not re.search(r"\w [*+-] \d+ [*+-] \d+\]|[+-] 0\b", text) and "const int32_t t = " in text
    names = Identifiers()
    assert [names.fresh("x"), names.fresh("x"), names.local("x")] == ["x", "x_1", "x_2"]
    begun = names.begin()
    key = object()
    assert names.local("x", key) == names.of(key, "y") == "x_3" and names.local("t") == "t"
    kept = names.fresh("t")
    names.end(begun)
    assert (names.local("x"), names.local("t"), kept) == ("x_3", "t", "t_1") and names.fresh("t") == "t_2"
    assert names.of(key, "y") == "y"


@pytest.mark.parametrize(
    ("body", "is_apart"),
    [
        ("B[x * 2] = A[x]\n        B[x * 2 + 1] = A[x + 1]", True),
        ("B[x * 2] = A[x]\n        B[x * 2 + 2] = A[x + 1]", False),
        ("B[x * 3 + 2] = A[x]\n        B[x * 3] = A[x] + B[x * 3 + 1]", True),
        ("B[x * 3 + 2] = A[x]\n        B[x * 3] = A[x] + B[x * 3 + 5]", False),
        ("B[x] = B[x + 1] + A[x]", False),
        ("B[x] = B[n] + A[x]", False),
        ("B[3] = A[x]", False),
        ("B[x // 2] = A[x]", False),
        ("B[9 - x] = B[9 - x] + A[x]", True),
    ],
)
def test_vectors_where_no_two_iterations_meet(body: str, is_apart: bool) -> None:
    f = parse_nest(f"def f(A: float32[40], B: float32[40], n):\n    for x in [0, 9) vectorized:\n        {body}\n")
    assert ("#pragma omp simd" in to_c(f)) is is_apart


def test_ragged_tiles_of_symbolic_products_read_as_written_by_hand() -> None:
    s = Written("""
        m = var(); n = var(); k = var(); A = given(m, k); B = given(k, n); r = axis(0, k)
        C[i:m, j:n] = sum_(A[i, r] * B[r, j], axis=r)
        D[i:m, j:n] = C[i, j] + 1
        D tile i j 24 64; D vectorize j.inner; C compute_at D j.outer; C reorder r i j; C vectorize j""").s
    f = lower(s)
    assert "minimum(n, 64))" not in str(f).replace("minimum(n, 64)] at", "")  # of two ends one is the other's
    text = to_c(f)
    assert "float C[1536];" in text and "malloc" not in text
    assert "j_outer < (n >> 6); ++j_outer" in text and "j_outer = n >> 6; j_outer < (((n - 1) >> 6) + 1)" in text
    given = {"A": np.ones((25, 3), "float32"), "B": np.ones((3, 130), "float32")}
    assert (run(f, given, backend="c")["D"] == 4).all() if compilers() else True


HOSTILE = [
    "*\\\n/ int injected(void) { return 1; } /*",
    "*??/\n/ int injected(void) { return 1; } /*",
    "*/ int injected(void) { return 1; } /*",
    "*\\\r\n/ int injected(void) { return 1; } /*",
    *"x\\ x??/ // /* * / \" '".split(),
    "\n#include </etc/passwd>",
    "\n#pragma GCC poison malloc",
    "\x00",
    "\x1b[2J",
    "\u2028",
    "\ud800",
    " ",
    "9 lives",
    *"%s%n 1 __LINE__ _Bool asm linux unix NULL INT32_MAX INT8_C min min_i32 main next sum i code printf".split(),
    *"time_t INTSET_THREAD omp_get_thread_num größe \u0430".split(),
]
names = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from((*KEYWORDS, *MACROS, *FILE_SCOPE, *BUILT_IN)),
    st.text(min_size=1, max_size=12),
    st.text("*/\\?\n\r\"' ab", min_size=1, max_size=8),
)


def compiles(text: str, *options: str) -> None:
    compile_c(text, need_compiler(), ("-Wall", "-Wextra", "-Werror", "-c", *options))


def program(labels: list[str]):
    """A nest with a size, a local buffer and loops, all named by `labels`."""
    size, source, middle, result, function = labels
    n = te.size_var(size)
    A = te.placeholder((n, 4), name=source)
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name=middle)
    C = te.compute((n,), lambda i: B[i, 0] + B[i, 3], name=result)
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    s[C].parallel(outer)
    return A, C, lower(s, [A, C], name=function)


def without_comments(text: str) -> str:
    """Preprocess a text, trigraphs included."""
    return subprocess.run(
        [need_compiler(), "-E", "-P", "-std=c99", "-x", "c", "-"],
        input=text.encode("ascii"),
        capture_output=True,
        check=True,
    ).stdout.decode("ascii")


@pytest.mark.parametrize("options", daily(["-std=c99 -fopenmp", "", "-trigraphs"], 3))
def test_every_hostile_name_compiles(options):
    """Compile nests with hostile names, under each option."""
    for k in range(0, len(HOSTILE) - 4, 9):
        _, _, f = program([*HOSTILE[k : k + 4], HOSTILE[(k + 4) % len(HOSTILE)]])
        text = to_c(f)
        compiles(text, *options.split())
        assert "injected(" not in without_comments(text)


@pytest.mark.parametrize("name", ["memcpy", "strlen", "toupper", "cabs", "index", "imaxabs", "exp10"])
def test_a_function_named_like_one_that_the_compiler_knows_compiles(name):
    f = parse_nest(f"def {name}(A: int32[8], B: int32[8]):\n    for i in [0, 8):\n        B[i] = A[i] + i\n")
    compiles(to_c(f), "-std=c99")


@pytest.mark.parametrize("name", SIZE_HELPERS)
def test_a_tensor_does_not_hide_the_helpers_of_the_arena(name):
    A = te.placeholder((te.size_var("n"), 4), name=name)
    text = to_c(lower(Written("B = pointwise(A)\nC[i:n] = B[i, 0] + B[n - 1 - i, 3]", A=A, n=A.shape[0]).s))
    assert "aligned_start(" in text
    compiles(text, "-std=c99")


@sampled(4, 600, st.lists(names, min_size=5, max_size=5), st.sampled_from(["-std=c99", "-trigraphs", "-fopenmp"]))
def test_any_names_compile_run_and_are_read_back(labels: list[str], option: str) -> None:
    A, C, f = program(labels)
    compiles(program_text(f), option)
    compiles(to_c(f))
    assert str(parse_nest(str(f))) == str(f)
    a, out = np.arange(20, dtype="float32").reshape(5, 4), np.zeros(5, "float32")
    run(f, {A: a, C: out})
    assert (out == a[:, 0] * 2 + a[:, 3] * 2).all()


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_a_comment_ends_where_its_text_does(lines):
    assert comment("f(n * 4 // 3)", "returns 1: i < n") == "/* f(n * 4 // 3)\n   returns 1: i < n */"
    text = comment(*lines)
    assert all(char == "\n" or " " <= char <= "~" for char in text)
    assert text.index("*/") == len(text) - 2 and text.rindex("/*") == 0
    assert "\\" not in text and "??" not in text and text.count("\n") == len(lines) - 1


@pytest.mark.parametrize("name", ["int", "NULL", "größe", "__asm__", "a b", "main"])
def test_functions_that_c_cannot_declare_are_refused(name):
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", name, A[i]), name="B")
    with pytest.raises(InputError):
        to_c(lower(te.create_schedule(B.op), [A, B]))


def test_names_and_blocks_stay_beside_others_of_their_name() -> None:
    A = te.placeholder((4,), name="twice")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", "twice", A[i]), name="B")
    compiles(to_c(lower(te.create_schedule(B.op), [A, B], name="twice")))
    f = parse_nest(CARRIED)
    check_silent([f])
    text = to_c(f)
    body = text[text.index("for (") :]
    names = re.findall(r"const \w+ (\w+) =", body)
    assert len(names) >= 4, "the body and the update define names"
    assert len(set(names)) == len(names)


# -- compilers: no warnings, no races, run times ----------------------------------------------------------------------


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
