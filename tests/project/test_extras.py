"""Each extra runs to its end, and a test beyond the packages of `[test]` says so by a skip."""

from __future__ import annotations

import ast
import functools
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import ROOT

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
    import sympy

    from intset import Range, Var
    from intset.adapters import sympy as adapter

    k, i = sympy.Symbol("k", integer=True), Var("i")
    e = adapter.from_sympy(sympy.floor(k / 4) * 4 + sympy.Mod(k, 4), {k: i})
    assert adapter.to_sympy(e // 2, {i: k}).subs(k, 7) == 3
    assert adapter.Environment({k: (0, 63)}, []).value_range(k) is not None and Range(0, 1).extent == 1


def exported_from_jax(folder: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax import export

    from intset.adapters.jax import from_jax

    (a,) = export.symbolic_shape("a")
    traced = export.export(jax.jit(lambda x: jnp.reshape(x, (-1, 2))))(jax.ShapeDtypeStruct((4 * a,), jnp.float32))
    assert str(from_jax(traced.out_avals[0].shape[0])) == "a * 2"


def kernel_of_tinygrad(folder: Path) -> None:
    from tinygrad.uop.ops import UOp

    from intset.adapters import tinygrad as adapter

    i, t = UOp.range(10, 0), UOp.special(6, "lidx0")
    e = adapter.from_tinygrad(i * 6 + t)
    assert adapter.to_tinygrad(e // 6, dict(zip(e.free_vars(), (i, t), strict=True))) is (i * 6 + t) // 6


def code_of_loopy(folder: Path) -> None:
    import loopy as lp
    import numpy as np

    from lowering.adapters.loopy import remove_checks

    arguments = [lp.GlobalArg("a,out", dtype=np.float32, shape=("n", 16)), ...]
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j < 16}",
        "out[i, j] = a[i, j] if j < 16 else 0",
        arguments,
        assumptions="n >= 1",
        lang_version=(2018, 2),
        target=lp.CTarget(),
    )
    checked = remove_checks(lp.split_iname(kernel, "i", 8))
    code = lp.generate_code_v2(checked.program).device_code()
    assert len(checked.removed) == 1 and "for (" in code and "= a[" in code


def code_of_tvm(folder: Path) -> None:
    import numpy as np
    import tvm
    from tvm import te

    from lowering.adapters.tvm import from_tvm, to_tvm

    A = te.placeholder((8,), name="A")
    func = te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1.0, name="B")])
    a, b = np.arange(8, dtype="float32"), tvm.runtime.tensor(np.zeros(8, "float32"))
    tvm.compile(to_tvm(from_tvm(func), like=func), target="llvm")(tvm.runtime.tensor(a), b)
    assert (b.numpy() == a + 1).all()


ENDS: dict[str, Callable[[Path], None]] = {
    "sweep": explored,
    "dask": on_a_cluster,
    "plot": plotted,
    "bench": asked_of_halide,
    "sympy": through_sympy,
    "jax": exported_from_jax,
    "loopy": code_of_loopy,
    "tinygrad": kernel_of_tinygrad,
    "tvm": code_of_tvm,
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
    assert len(found) > 250 and {name: lines for name, lines in found.items() if lines} == {}


def test_what_tests_import_of_one_another_is_there() -> None:
    """A room's tests are run alone after a change: a helper that moved is missed here, not in another room."""
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
