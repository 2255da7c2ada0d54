"""Each extra runs to its end, tests beyond `[test]` are skipped, and without an engine the rest works."""

import ast
import functools
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import ROOT
from tests.intset.adapters.documented import check_section
from tests.project.test_guide import blocks, failures

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]

# -- each extra, to its end -----------------------------------------------------------------------------------------


def explored(folder: Path, executor: Any = None) -> None:
    from lowering import explore
    from tests.lowering.explore.programs import SPACE, same

    result = explore(same, SPACE[:9], executor=executor, out=folder / "results")
    assert len(result.to_arrow()) == 9


def on_a_cluster(folder: Path) -> None:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        explored(folder, client.get_executor())


def plotted(folder: Path) -> None:
    from lowering.cli import main

    assert main(["plot", str(ROOT / "examples" / "matmul_cached.py"), "-o", str(folder / "picture.png")]) == 0
    assert (folder / "picture.png").read_bytes().startswith(b"\x89PNG")


def asked_of_halide(folder: Path) -> None:
    from benchmarks import halide_native

    assert halide_native.main([next(iter(halide_native.PROGRAMS)), "--repeat", "1"]) == 0


def through_sympy(folder: Path) -> None:
    page = "docs/from-sympy.md"
    assert failures(page, ["".join(blocks(page))]) == []


def as_documented(section: str) -> Callable[[Path], None]:
    """The examples of an adapter in docs/adapters.md, which end with what its library makes of our answer."""
    return lambda folder: check_section(section)


ENDS: dict[str, Callable[[Path], None]] = {
    "sweep": explored,
    "dask": on_a_cluster,
    "plot": plotted,
    "bench": asked_of_halide,
    "sympy": through_sympy,
    **{section.lower(): as_documented(section) for section in ("JAX", "loopy", "tinygrad", "tvm")},
}
IN_SCRIPTS = {"test": "README.md", "dev": ".ci/run", "docs": ".ci/run", "mutation": ".ci/nightly"}


def unmet(extra: str) -> Iterator[str]:
    """The requirements of an extra that this environment lacks, or has in an excluded version."""
    for requirement in map(Requirement, EXTRAS[extra]):
        try:
            if version(requirement.name) not in requirement.specifier:
                yield str(requirement)
        except PackageNotFoundError:
            yield str(requirement)


@pytest.mark.parametrize("extra", ENDS)
def test_an_extra_goes_through_to_its_end(extra: str, tmp_path: Path) -> None:
    lacking = [*unmet(extra)]
    if lacking:
        assert os.environ.get("EXTRA") != extra, lacking  # `.ci/extras` installed it
        pytest.skip(f"the extra {extra} is not installed: {', '.join(lacking)}")
    ENDS[extra](tmp_path)


def test_every_extra_is_tried_somewhere() -> None:
    assert {*ENDS, *IN_SCRIPTS} == set(EXTRAS)
    for extra, script in IN_SCRIPTS.items():
        assert re.search(rf"\.\[(\w+,)*{extra}(,\w+)*\]", (ROOT / script).read_text(encoding="utf-8")), extra
    assert ".ci/extras" in (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")


# -- tests and what they import -------------------------------------------------------------------------------------

OWN = {"intset", "bound", "lowering", "tests", "benchmarks", "docs", "examples"}
DISTRIBUTED_AS = {"z3-solver": "z3"}  # the module of a distribution named otherwise


@functools.cache
def installed_by_test() -> set[str]:
    """The modules of what README's second command installs: dependencies, and the extra `test`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=!\[]", text)[0] for text in (*project["dependencies"], *EXTRAS["test"])]
    return {DISTRIBUTED_AS.get(name, name) for name in names} | {"_pytest", "packaging"}  # of pytest


_ASKED = re.compile(r"""(?:importorskip|find_spec)\(['"](\w+)""")


def imports(body: list[ast.stmt], announced: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Imported modules with their lines, except those that `importorskip` or `find_spec` asks for before."""
    for statement in body:
        if isinstance(statement, (ast.Expr, ast.Assign)):
            announced |= {*_ASKED.findall(ast.unparse(statement))}
        names: list[str] = []
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            names = [statement.module or ""]
        for name in names:
            if name.partition(".")[0] not in announced:
                yield statement.lineno, name
        if not (isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)):
            for inner in ("body", "orelse", "finalbody"):
                yield from imports(getattr(statement, inner, []), announced)


def unannounced(tree: ast.Module) -> list[tuple[int, str]]:
    known = sys.stdlib_module_names | OWN | installed_by_test()
    return [(line, name) for line, name in imports(tree.body) if name.partition(".")[0] not in known]


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The modules of the tests, by name."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in zip(names, paths, strict=True)}


def test_a_test_that_needs_an_extra_is_skipped_without_it() -> None:
    helpers = {  # behind the skips of who asks
        "tests.lowering.adapters.tvm_functions",
        "tests.lowering.explore.programs",
        "tests.project.test_extras",
    }
    found = {name: unannounced(tree) for name, tree in trees().items() if name not in helpers}
    assert len(found) > 150 and {name: lines for name, lines in found.items() if lines} == {}


def test_what_tests_import_of_one_another_is_there() -> None:
    """A room's tests are run alone after a change: a moved helper fails here, by name."""
    defined = {
        name: {
            part.id if isinstance(part, ast.Name) else (getattr(part, "name", None) or "").partition(".")[0]
            for node in ast.walk(tree)
            for part in (node, *([ast.Name(node.asname)] if isinstance(node, ast.alias) and node.asname else []))
        }
        for name, tree in trees().items()
    }
    lost = [
        f"{name}: {node.module}.{alias.name}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in defined
        for alias in node.names
        if alias.name not in defined[node.module] and f"{node.module}.{alias.name}" not in defined
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import matplotlib.pyplot as plt", ["matplotlib.pyplot"]),
        ("def test():\n    from jax import export", ["jax"]),
        ("import pytest\npytest.importorskip('jax')\nfrom jax import export", []),
        ("def a():\n    pytest.importorskip('jax')\ndef test():\n    import jax", ["jax"]),
        ("import numpy, z3, pyarrow.parquet, os, intset", []),
        ("try:\n    import torch\nexcept ImportError:\n    pass", ["torch"]),
    ],
)
def test_what_counts_as_announced(text: str, names: list[str]) -> None:
    assert [name for _, name in unannounced(ast.parse(text))] == names


# -- without an engine ------------------------------------------------------------------------------------------------


SETS = """
from intset import *
i, j = Var("i"), Var("j")
points = [(x, y) for x in range(8) for y in range(4) if 3 * x + 5 * y < 20]
taken = {7 * x - 9 * y for x, y in points}
for name in domain_names():
    ctx = Context({i: Range(0, 8), j: Range(0, 4)}, assume=[i * 3 + j * 5 < 20], domain=name)
    s, r = ctx.value_set(i * 7 - j * 9), ctx.image((i + j, i - j))
    both = (s, s | s, s & s, s | IntervalSet(0, 3), s & IntervalSet(-100, 100))
    assert all(v in one for v in taken for one in both), name
    for one in (r, r | r, r & r, r - ctx.image((i + 90, j)), r.project((0, 1)), r.hull()):
        assert all((x + y, x - y) in one for x, y in points), (name, one)
    try:
        assert r.count() == len({(x + y, x - y) for x, y in points}), name
    except CountError:
        assert not r.is_exact, name
    assert not r.is_empty and not s.is_empty and not s <= IntervalSet(1, 2)
    for refused in (r.sample, r.lexmin, r.pieces):
        try:
            found = refused()
        except UndecidedError:
            continue
        assert r.is_exact or refused == r.pieces, name
    assert ctx.prove(i + j < 9) and ctx.prove(i + j < 2).status == "refuted"
    assert ctx.prove(i + j < 9).certificate().check() and ctx.bounds(i * 7 - j * 9).certificate().check()
    pairs = ctx.relation((i,), (j,))
    assert all(pairs.contains((x,), (y,)) and pairs.inverse().contains((y,), (x,)) for x, y in points)
region = Context({i: Range(0, 10**6), j: Range(0, 10**6)}, domain="isl").image((i + j, i - j))
assert any("islpy cannot be imported" in note for note in region.notes), region.notes
n, m = ShapeVar("n"), ShapeVar("m")
asked = Context({i: Range(0, n)}, assume=[i * 2 < m]).prove((i * 5 // 3 + i // 2) * 3 < 6 * m)
assert asked.status != "refuted"
with using(tiers=("linear", "isl")):
    asked = Context({i: Range(0, 40), j: Range(0, 40)}).prove((i * 7 + j * 3) % 64 - i % 5 < 60)
assert asked.status == "unknown" and "islpy cannot be imported" in asked.reason, asked
"""

SCHEDULES = """
import numpy as np
from bound import infer_bound, te
from lowering import lower, run, to_c
A = te.placeholder((16, 16), name="A", dtype="int64")
B = te.compute((16, 16), lambda i, j: A[i, j] + 1, name="B")
C = te.compute((14, 14), lambda i, j: B[i, j] + B[i + 2, j + 1] + B[(i * 5 + j) % 7, j], name="C")
s = te.create_schedule(C.op)
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
s[B].compute_at(s[C], yo)
b = infer_bound(s)
region = b.required(B)
assert region.is_exact or any("islpy cannot be imported" in note for note in region.notes), region.notes
f = lower(s, [A, C])
a = np.arange(256).reshape(16, 16)
c = np.zeros((14, 14), dtype=np.int64)
run(f, {"A": a, "C": c})
x, y = np.indices((14, 14))
assert (c == a[x, y] + a[x + 2, y + 1] + a[(x * 5 + y) % 7, y] + 3).all()
assert "C[" in to_c(f)
"""

PROOFS = """
import threading
threading.excepthook = lambda failure: sys.exit("a thread died")
from intset import *
i, j, k = Var("i"), Var("j"), Var("k")
ctx = Context({i: Range(0, 2**40), j: Range(0, 2**40), k: Range(0, 2**40)})
asked = ctx.prove((i * i * i + j * j * j).ne(k * k * k + 4))
assert asked.status == "unknown" and "z3 cannot be imported" in asked.reason, asked
assert ctx.prove(i + j >= 0) and ctx.bounds(i - j)[0] is const(1 - 2**40)
assert ctx.prove(i + j >= 0).certificate().check()
assert ctx.prove(i < j).certificate().check() and "No" in str(ctx.explain(i < j))
try:
    asked.certificate()
except InputError:
    pass
"""

COMMANDS = """
from lowering.cli import main
sys.exit(main(["bounds", "examples/resnet_conv3x3.py"]) or main(["lower", "examples/softmax_dynamic.py"]))
"""


@pytest.mark.parametrize(("library", "parts"), {"islpy": (SETS, SCHEDULES), "z3": (PROOFS,)}.items())
def test_the_rest_works_and_so_do_the_commands(library: str, parts: tuple[str, ...]) -> None:
    code = "".join((f"import sys\nsys.modules['{library}'] = None\n", *parts, COMMANDS))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:] or done.stdout[-1000:]
