"""loopy's kernels: domains beside isl's equality, expressions beside pymbolic's evaluation, checks beside execution."""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

from intset import Cond, Context, InputError, Range, Var, evaluate, logical_or
from tests.intset.adapters.documented import check_examples

loopy = pytest.importorskip("loopy")
islpy = pytest.importorskip("islpy")
pytest.importorskip("pymbolic")
import pymbolic  # noqa: E402
from loopy.diagnostic import LoopyIndexError  # noqa: E402
from loopy.symbolic import WalkMapper  # noqa: E402

from intset.adapters.pymbolic import exporter, importer  # noqa: E402
from lowering.adapters import loopy as adapter  # noqa: E402
from lowering.adapters.loopy import KernelNames, domain, remove_checks  # noqa: E402

D, I = np.float64, np.int32
SIZES = {"n": 6, "m": 4, "p": 5}


class Case(NamedTuple):
    """A kernel with its declared facts."""

    domains: str
    code: str
    arrays: dict[str, tuple[Any, str]]
    removed: set[str] = set()  # noqa: RUF012
    refuted: set[tuple[str, int]] = set()  # noqa: RUF012
    undecided: int = 0
    assumptions: str = "n >= 1"

    def program(self) -> Any:
        arguments = [loopy.GlobalArg(name, kind, shape=shape) for name, (kind, shape) in self.arrays.items()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return loopy.make_kernel(
                self.domains,
                self.code,
                [*arguments, *(loopy.ValueArg(name, I) for name in SIZES)],
                assumptions=self.assumptions,
                target=loopy.ExecutableCTarget(),
                lang_version=(2018, 2),
            )


KERNELS: dict[str, Case] = {
    "scale": Case("{[i]: 0 <= i < n}", "out[i] = 2 * a[i]", {"a": (D, "n"), "out": (D, "n")}),
    "a guard that repeats the domain": Case(
        "{[i]: 0 <= i < n}", "out[i] = a[i] if i >= 0 and i < n else 0", {"a": (D, "n"), "out": (D, "n")},
        {"i >= 0", "i < n"},
    ),
    "a predicate that repeats the domain": Case(
        "{[i]: 0 <= i < n}", "if i < n\n out[i] = a[i]\nend", {"a": (D, "n"), "out": (D, "n")}, {"i < n"}
    ),
    "a stencil with guarded ends": Case(
        "{[i]: 0 <= i < n}",
        "out[i] = (a[i - 1] if i > 0 else 0) + a[i] + (a[i + 1] if i + 1 < n and i >= 0 else 0)",
        {"a": (D, "n"), "out": (D, "n")}, {"i >= 0"},
    ),
    "a stencil without a guard": Case(
        "{[i]: 0 <= i < n}", "out[i] = a[i - 1] + a[i] + a[i + 1]", {"a": (D, "n"), "out": (D, "n")}, set(),
        {("a[i + -1]", 0), ("a[i + 1]", 0)},
    ),
    "a split loop with a guard": Case(
        "{[io, ii]: 0 <= io < n and 0 <= ii < 4}", "if 4*io + ii < 4*n\n out[4*io + ii] = a[io*4 + ii]\nend",
        {"a": (D, "4*n"), "out": (D, "4*n")}, {"4*io + ii < 4*n"},
    ),
    "a split loop whose guard is needed": Case(
        "{[io, ii]: 0 <= 4*io < n and 0 <= ii < 4}", "if 4*io + ii < n\n out[4*io + ii] = a[io*4 + ii]\nend",
        {"a": (D, "n"), "out": (D, "n")},
    ),
    "a product of matrices": Case(
        "{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < p}",
        "c[i, j] = sum(k, a[i, k] * b[k, j] if k < p else 0)",
        {"a": (D, "n, p"), "b": (D, "p, m"), "c": (D, "n, m")}, {"k < p"},
    ),
    "a product with wrong indices": Case(
        "{[i, j, k]: 0 <= i < n and 0 <= j < m and 0 <= k < p}", "c[i, j] = sum(k, a[k, i] * b[k, j])",
        {"a": (D, "n, p"), "b": (D, "p, m"), "c": (D, "n, m")}, set(), {("a[k, i]", 0), ("a[k, i]", 1)},
    ),
    "a convolution with padding": Case(
        "{[x, r]: 0 <= x < n and 0 <= r < 3}",
        "out[x] = sum(r, (a[x + r - 1] if x + r - 1 >= 0 and x + r - 1 < n else 0) * w[r])",
        {"a": (D, "n"), "w": (D, "3"), "out": (D, "n")},
    ),
    "a convolution of padded input": Case(
        "{[x, r]: 0 <= x < n and 0 <= r < 3}",
        "out[x] = sum(r, (a[x + r] if x + r >= 0 and x + r < n + 2 else 0) * w[r])",
        {"a": (D, "n + 2"), "w": (D, "3"), "out": (D, "n")}, {"x + r >= 0", "x + r < n + 2"},
    ),
    "a gather": Case(
        "{[i]: 0 <= i < n}", "out[i] = b[index[i]]", {"index": (I, "n"), "b": (D, "16"), "out": (D, "n")}, undecided=1
    ),
    "a guarded gather": Case(
        "{[i]: 0 <= i < n}", "out[i] = b[index[i]] if index[i] >= 0 and index[i] < 16 else 0",
        {"index": (I, "n"), "b": (D, "16"), "out": (D, "n")},
    ),
    "a gather from a ring": Case(
        "{[i]: 0 <= i < n}", "out[i] = b[index[i] % 16] if index[i] % 16 < 16 else 0",
        {"index": (I, "n"), "b": (D, "16"), "out": (D, "n")}, {"index[i] % 16 < 16"},
    ),
    "a float condition": Case(
        "{[i]: 0 <= i < n}", "out[i] = a[i + 1] if a[i] > 0 else (1 if i < n else 2)",
        {"a": (D, "n"), "out": (D, "n")}, {"i < n"}, undecided=1,
    ),
    "a condition that never holds": Case(
        "{[i]: 0 <= i < n}", "out[i] = a[i - n] if i >= n else a[i]", {"a": (D, "n"), "out": (D, "n")}, {"i >= n"}
    ),
    "nested conditions": Case(
        "{[i, j]: 0 <= i < n and 0 <= j < m}",
        "out[i, j] = (a[i] if i < n else 1) if i > j else (2 if i <= j else 3)",
        {"a": (D, "n"), "out": (D, "n, m")}, {"i < n", "i <= j"},
    ),
    "a temporary": Case(
        "{[i, j]: 0 <= i < n and 0 <= j < 2}",
        "for i\n <> t[j] = a[i] + j {id=t, dup=j}\n out[i] = t[0] + t[1] if i >= 0 else t[2] {dep=t}\nend",
        {"a": (D, "n"), "out": (D, "n")}, {"i >= 0"},
    ),
    "two domains": Case(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 3}"], "out[i, j] = a[i*3 + j] if i*3 + j < 3*n else 0",  # type: ignore[arg-type]
        {"a": (D, "3*n"), "out": (D, "n, 3")}, {"i*3 + j < 3*n"},
    ),
    "strides and remainders": Case(
        "{[i]: 0 <= i < 2*n}", "out[i] = a[i // 2, i % 2] if i // 2 < n and i % 2 >= 0 else 0",
        {"a": (D, "n, 2"), "out": (D, "2*n")}, {"i // 2 < n", "i % 2 >= 0"},
    ),
    "every other point": Case(
        "{[i]: 0 <= i < 2*n and i mod 2 = 0}", "out[i] = a[i + 1] if i % 2 == 0 else 0",
        {"a": (D, "2*n"), "out": (D, "2*n")}, {"i % 2 == 0"},
    ),
    "a last element too far": Case(
        "{[i]: 0 <= i <= n}", "out[i] = a[n - i]", {"a": (D, "n"), "out": (D, "n + 1")}, set(), {("a[n + (-1)*i]", 0)}
    ),
    "two extents": Case(
        "{[i]: 0 <= i < n}", "out[i] = b[i] if i < m else 0", {"b": (D, "m"), "out": (D, "n")}
    ),
    "two extents that are related": Case(
        "{[i]: 0 <= i < n and n <= m}", "out[i] = b[i] if i < m else 0", {"b": (D, "m"), "out": (D, "n")}, {"i < m"},
    ),
}  # fmt: skip


def outputs(program: Any, seed: int) -> Any:
    """The arrays that a program writes, run on drawn data."""
    rng = np.random.default_rng(seed)
    kernel = program.default_entrypoint
    sizes = SIZES
    read = {name for insn in kernel.instructions for name in insn.dependency_names()}
    values: dict[str, Any] = {name: size for name, size in sizes.items() if name in program.default_entrypoint.arg_dict}
    for name, arg in kernel.arg_dict.items():
        if name in read and name not in sizes:
            shape = [pymbolic.evaluate(extent, sizes) for extent in arg.shape]
            values[name] = (
                rng.integers(0, 16, shape).astype(I) if arg.dtype.numpy_dtype == I else rng.standard_normal(shape)
            )
    before = {name: array.copy() for name, array in values.items() if isinstance(array, np.ndarray)}
    _, found = program(**{name: before.get(name, value) for name, value in values.items()})
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_checks_and_accesses(name: str) -> None:
    case = KERNELS[name]
    program = case.program()
    checked = remove_checks(program)
    assert {loopy_text(found.condition) for found in checked.removed} == {loopy_text(text) for text in case.removed}
    assert {(loopy_text(found.access), found.axis) for found in checked.refuted} == {
        (loopy_text(access), axis) for access, axis in case.refuted
    }
    assert len(checked.undecided) == case.undecided
    kernel = program.default_entrypoint
    for found in checked.refuted:
        access = loopy.symbolic.parse(found.access)
        extent = kernel.arg_dict[access.aggregate.name].shape[found.axis]
        index = pymbolic.evaluate(access.index_tuple[found.axis], found.point)
        assert not 0 <= index < pymbolic.evaluate(extent, {**SIZES, **found.point})
        insn = kernel.id_to_insn[found.instruction]
        points = kernel.get_inames_domain(frozenset(insn.within_inames | insn.reduction_inames()))
        for iname, value in found.point.items():
            kind, place = points.get_var_dict().get(iname, (None, 0))
            points = points if kind is None else points.fix_val(kind, place, value)
        assert not points.is_empty()
    if case.refuted:
        with pytest.raises(LoopyIndexError):
            loopy.generate_code_v2(program)
    elif not case.undecided:
        after = str(loopy.generate_code_v2(checked.program).device_code())
        assert len(after) <= len(str(loopy.generate_code_v2(program).device_code()))
        for seed in range(3):
            for a, b in zip(outputs(program, seed), outputs(checked.program, seed), strict=True):
                assert np.array_equal(a, b)
    again = remove_checks(checked.program)
    assert again.removed == () and again.program == checked.program


def loopy_text(text: str) -> str:
    return str(loopy.symbolic.parse(text))


@pytest.mark.parametrize("name", KERNELS)
def test_domains(name: str) -> None:
    names = KernelNames(KERNELS[name].program())
    inames = sorted(names.kernel.all_inames())
    theirs = names.kernel.get_inames_domain(frozenset(inames))
    ours = domain(names.region(inames), inames)
    assert [ours.get_dim_name(islpy.dim_type.set, k) for k in range(len(inames))] == inames
    assert islpy.align_spaces(ours, theirs).is_equal(theirs)
    for iname in inames:
        one = domain(names.region([iname]), [iname])
        projected = names.kernel.get_inames_domain(frozenset([iname])).project_out_except([iname], [islpy.dim_type.set])
        assert islpy.align_spaces(one, projected).is_equal(projected)


class Integers(WalkMapper):  # type: ignore[misc]
    """The integer subscripts and the conditions of a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def map_subscript(self, expr: Any) -> None:
        self.found += expr.index_tuple
        super().map_subscript(expr)

    def map_if(self, expr: Any) -> None:
        self.found.append(expr.condition)
        super().map_if(expr)


@pytest.mark.parametrize("name", KERNELS)
def test_expressions(name: str) -> None:
    kernel = KERNELS[name].program().default_entrypoint
    walk = Integers()
    for insn in kernel.instructions:
        insn.with_transformed_expressions(lambda e: (walk(e), e)[1])
        walk.found += insn.predicates
    rng = random.Random(len(name))
    assert walk.found
    for term in walk.found:
        there = importer(KernelNames(kernel).variables)
        e = there(term)
        again = exporter()(e)
        for _ in range(10):
            array = {k: rng.randint(-3, 20) for k in range(-40, 40)}
            at: dict[str, Any] = {v: rng.randint(0, 9) for v in (*kernel.all_inames(), *SIZES)}
            at |= {"index": array, "a": array}
            point: dict[Any, Any] = {v: at[v.name] for v in e.free_vars()}
            point |= {node.data: array.__getitem__ for node in loads(e)}
            assert pymbolic.evaluate(term, at) == evaluate(e, point) == pymbolic.evaluate(again, at)


def loads(e: Any) -> list[Any]:
    from intset import ops
    from intset.expr.dag import postorder

    return [node for node in postorder((e,)) if node.op is ops.LOAD]


def test_domains_of_regions_make_kernels() -> None:
    i, j, n = Var("i"), Var("j"), Var("n")
    triangle = Context({i: Range(0, n), j: Range(0, i + 1)}).image((i, j))
    names = KernelNames(loopy.make_kernel([domain(triangle, ["i", "j"])], "a[i, j] = 1", lang_version=(2018, 2)))
    counted = names.region(["i", "j"]).at({names["n"]: 5})
    assert counted.count() == 15 and str(names.expression("i*2 + j % n")) == "i * 2 + j % n"
    square = names.context(["i", "j"])
    assert square.prove(names["j"] <= names["i"])
    for a, b in itertools.product(range(6), repeat=2):
        assert ((a, b) in counted) is (b <= a < 5)


def test_a_scalar_that_bounds_a_loop_is_read_as_its_bound() -> None:
    code = """
        for i
          <int32> length = rows[i] {id=length}
          for j
            out[i, j] = 1 if j < length else 2 {dep=length}
          end
        end
        """
    domains: Any = ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < length}"]
    checked = remove_checks(Case(domains, code, {"rows": (I, "n"), "out": (D, "n, 16")}).program())
    assert [found.condition for found in checked.removed] == ["j < length"]
    assert checked.refuted == () and checked.undecided == (("insn", "out[i, j]"),)


def test_unsigned_data_is_not_read_as_integers() -> None:
    arrays = {"u": (np.uint32, "n"), "out": (D, "n")}
    case = Case("{[i]: 0 <= i < n}", "out[i] = 1 if u[i] - 1 < u[i] else 2", arrays)
    assert remove_checks(case.program()).removed == ()


def test_substitution_rules_are_checked_where_they_are_used() -> None:
    code = "shifted(k) := a[k + 1]\nout[i] = shifted(i) + (shifted(i - 1) if i >= 0 else 0)"
    checked = remove_checks(Case("{[i]: 0 <= i < n}", code, {"a": (D, "n"), "out": (D, "n")}).program())
    assert len(checked.removed) == 1
    assert [(found.access, found.point) for found in checked.refuted] == [("a[i + 1]", {"i": 0, "n": 1})]


@pytest.mark.parametrize("name", ["a", "z"])  # predicates are a set, in any order
def test_predicates_do_not_guard_one_another(name: str) -> None:
    def kernel(code: str) -> Any:
        return Case("{[i]: 0 <= i < n + 2}", code, {name: (D, "n"), "out": (D, "n + 2")}).program()

    checked = remove_checks(kernel(f"if i < n\n if {name}[i] > 0 and i >= 0\n out[i] = 1\n end\nend"))
    assert checked.undecided == (("insn", f"{name}[i]"),) and checked.refuted == ()
    assert [found.condition for found in checked.removed] == ["i >= 0"]
    joined = f"if i < n and i >= 0 and {name}[i] > 0\n out[i] = 1\nend"
    checked = remove_checks(kernel(joined))
    assert checked.undecided == () and [found.condition for found in checked.removed] == ["i >= 0"]
    assert [str(test) for test in checked.program.default_entrypoint.instructions[0].predicates] == [
        f"i < n and {name}[i] > 0"
    ]
    assert remove_checks(remove_checks(kernel(joined.replace("i >= 0", "i < n + 1"))).program).removed == ()
    once = remove_checks(kernel(joined.replace("i >= 0", "i > 0")))
    assert once.removed == () and remove_checks(once.program).program == once.program


def test_arguments_that_nothing_reads_any_more_are_removed() -> None:
    program = loopy.make_kernel(
        "{[i]: 0 <= i < n}",
        "other(k) := c[k]\nout[i] = (a[i] if i >= 0 else u[i]) + (other(i) if i < 0 else 0)",
        [*(loopy.GlobalArg(name, D, shape="n") for name in ("a", "u", "c", "out")), loopy.ValueArg("n", I)],
        assumptions="n >= 1",
        target=loopy.ExecutableCTarget(),
        lang_version=(2018, 2),
    )
    a, rest = np.arange(6.0), np.ones(6)
    _, (before,) = program(a=a, u=rest, c=rest, n=I(6))
    checked = remove_checks(program)
    assert [found.holds for found in checked.removed] == [True, False]
    assert set(checked.program.default_entrypoint.arg_dict) == {"a", "out", "n"}
    _, (after,) = checked.program(a=a, n=I(6))
    assert np.array_equal(before, a) and np.array_equal(after, a)


def test_what_has_no_counterpart_is_refused() -> None:
    i, j, n = Var("i"), Var("j"), Var("n")
    parts = Context({i: Range(0, n)}, assume=[logical_or(i < 2, i > 5)]).image((i,))
    names = KernelNames(KERNELS["scale"].program())
    for wrong in (
        lambda: domain(parts, ["i"]),
        lambda: domain(parts, ["i", "j"]),
        lambda: names["q"],
        lambda: names.expression("i / 2"),
        lambda: remove_checks("a kernel"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError) as error:
            wrong()
        assert "\n" not in str(error.value)
    assert isinstance(names.expression("i < n"), Cond) and j is not n


def test_the_examples_of_the_documentation() -> None:
    check_examples(adapter)
