"""isl's C interface: islpy's signatures, no leaks, the same answers as islpy."""

import ctypes
import gc
import re
import subprocess
import sys
import threading
from typing import Any

import islpy
import pytest

from intset.domains.isl import session
from intset.domains.isl.bindings import signatures
from intset.domains.isl.session import budget, context, isl, number, val
from intset.errors import BudgetError
from tests.intset.domains.isl_sets import read

LINES = [line for line in signatures() if not line.of.endswith("List")]
NUMBERED = [
    x for x in LINES if x.of in ("Set", "Aff", "Constraint") and x.is_method and x.arguments[-1] == ("Val", True)
]
WITHOUT = {"get_basic_set_list", "get_constraint_list"}  # islpy visits these
PLAIN = {"int": "int", "long": "int", "text": "str"}
RESULTS = {"truth": "bool", "size": "int", "text": "str", "name": "str | None", "number": "Val", "void": "None"}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.function)
def test_the_table_says_what_islpy_says(line: Any) -> None:
    if line.method in WITHOUT:
        return
    shown = getattr(getattr(islpy, line.of), line.method).__doc__ or ""
    written = re.match(rf"{line.method}\((.*?)\) -> ([^\n]*)", shown)
    assert written, shown
    parameters = [part for part in re.split(r", (?=\w+: |\w+$)", written[1]) if part and part != "self"]
    arguments = line.arguments[1:] if line.is_method else line.arguments
    if arguments and arguments[-1].kind in ("points", "pieces", "multi_pieces"):
        return
    assert len(parameters) == len(arguments), shown
    for told, argument in zip(parameters, arguments, strict=True):
        kinds = told.partition(": ")[2].replace("islpy._isl.", "").split(" | ")
        assert PLAIN.get(argument.kind, argument.kind) in kinds or kinds == ["dim_type"] or kinds == ["on_error"], told
    result = RESULTS.get(line.result, PLAIN.get(line.result, line.result))
    assert written[2].replace("islpy._isl.", "") == result or line.result == "void", shown


def test_what_is_taken_over_is_copied() -> None:
    a, b = read("[n] -> { [x] : 0 <= x < n }"), read("{ [x] : x mod 3 = 1 }")
    before = str(a), str(b)
    both = a.union(b).intersect(a).coalesce()
    assert (str(a), str(b)) == before and both.is_equal(a)
    local = isl().LocalSpace.from_space(a.get_space())
    zero = isl().Aff.zero_on_domain(local)
    long = zero.set_coefficient_val(isl().dim_type.in_, 0, 1 << 40).set_constant_val(val(1 << 80))
    assert str(zero.scale_down_val(2).floor()) == str(zero) == "[n] -> { [x] -> [(0)] }"
    assert str(long) == f"[n] -> {{ [x] -> [({1 << 80} + {1 << 40}x)] }}"


def test_an_object_of_another_class_is_refused() -> None:
    relation = isl().Map.read_from_str(context(), "{ [x] -> [y] }")
    with pytest.raises(ctypes.ArgumentError, match="wrong type"):
        read("{ [x] : x > 0 }").union(relation)


def test_numbers_of_any_size_are_read() -> None:
    for n in (0, 1, -1, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 10**30, -(10**30)):
        told = read("{ [x] }").fix_val(isl().dim_type.set, 0, val(n)).dim_max_val(0)
        assert number(told) == n
    assert session.whole(read("{ [x] : x > 0 }").dim_max_val(0)) is None
    assert session.whole(read("{ [x] : x > 0 and x < 0 }").dim_max_val(0)) is None


@pytest.mark.parametrize("line", NUMBERED, ids=lambda line: line.function)
def test_a_number_is_the_same_in_either_way(line: Any) -> None:
    """An `int` is the isl value of that number."""
    points = read("{ [x] }")
    local = isl().LocalSpace.from_space(points.get_space())
    aff = isl().Aff.zero_on_domain(local)
    start = {"Set": points, "Aff": aff, "Constraint": isl().Constraint.alloc_inequality(local)}[line.of]
    is_divided = line.method in ("scale_down_val", "mod_val")
    if is_divided:
        start = start.set_coefficient_val(isl().dim_type.in_, 0, 1)
    kind = isl().dim_type.in_ if line.of == "Aff" else isl().dim_type.set
    place = (kind, 0) if len(line.arguments) == 4 else ()
    for n in (1, 2, 3, 2**30, 2**31, 2**32, 2**62, 2**63 - 1):
        for k in {n - 1, n, n + 1, -n - 1, -n, 1 - n} if not is_divided else {n}:
            if abs(k) < 2**63:
                whole = isl().Val.int_from_si(context(), k)
                one, other = (getattr(start, line.method)(*place, number) for number in (k, whole))
                if line.of == "Constraint":
                    one, other = (isl().BasicSet.universe(points.get_space()).add_constraint(c) for c in (one, other))
                    one, other = isl().Set.from_basic_set(one), isl().Set.from_basic_set(other)
                elif line.of == "Aff":
                    one, other = (isl().Map.from_aff(f).range() for f in (one, other))
                assert str(one) == str(other), k  # also a number that wrapped around is written so: it is compared
                assert one.is_equal(other) and one.complement().is_disjoint(other), k


def test_what_is_called_back_may_raise() -> None:
    def stop(point: Any) -> None:
        raise KeyboardInterrupt

    points = read("{ [x, y] : 0 <= x < 5 and 0 <= y < x }")
    with pytest.raises(KeyboardInterrupt):
        points.foreach_point(stop)
    seen: list[Any] = []
    points.foreach_point(seen.append)
    assert len({str(point) for point in seen}) == len(seen) == 10
    with pytest.raises(BudgetError), budget(30):
        points.foreach_point(seen.append)


def test_objects_outlive_their_thread_and_its_context_is_used_again() -> None:
    kept: list[Any] = []

    def work() -> None:
        kept.append(read("{ [x] : 0 <= x < 7 }"))
        with pytest.raises(BudgetError), budget(5):
            read("{ [x, y] : x > y }").complement().lexmin()
        kept.append(context().value)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()  # the caught error references objects of its thread
    assert [str(one) for one in kept[::2]] == ["{ [x] : 0 <= x <= 6 }"] * 2
    assert kept[1] == kept[3] != context().value


# -- in processes of their own ----------------------------------------------------------------------------------------

ASK = """
from intset import Context, Range, ShapeVar, Var, minimum, select, using
from intset.errors import IntSetError
def text(asked):
    try:
        return str(asked())
    except IntSetError as error:
        return type(error).__name__
def ask():
    i, j, n = Var("i"), Var("j"), ShapeVar("n", lower=1)
    with using(domain="isl"):
        ctx = Context({i: Range(0, n), j: Range(0, 7)}, assume=[i * 3 + j < 40])
        for e in (i * 7 + j, (i + 3 * j) % 5, minimum(i, j * 2) // 3, select(i < j, i, j + n), i + 2**40 * j):
            found, region = ctx.value_set(e), ctx.image((e, i))
            for one in (
                lambda: (str(found.min), str(found.max)), lambda: region.box, lambda: region.count(),
                lambda: region | region.project((1, 0)), lambda: region.at({n: 5}).count(),
                lambda: ctx.prove(e < 20).status, lambda: region.pieces(),
            ):
                yield text(one)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ASK + code], capture_output=True, text=True, check=False)


def test_nothing_is_left_in_a_context() -> None:
    """isl complains when a context is freed that something still belongs to."""
    done = run(
        "import ctypes, gc\n"
        "from intset.domains.isl import bindings, presburger, session\n"
        "library = bindings.shared_object()\n"
        "def told():\n"
        "    list(ask()); gc.collect()\n"
        "    ctx = session.context()\n"
        "    session._SESSION.names.clear(); presburger._prototype.cache_clear()\n"
        "    ctx.set_on_error(0); gc.collect()\n"
        "    library.isl_ctx_free(ctypes.c_void_p(ctx.value))\n"
        "    session._SESSION.context = None\n"
        "told(); bindings._IDLE.clear(); print('freed', flush=True)\n"
        "session.context().set_on_error(0)\n"
        "kept = session.isl().Set.read_from_str(session.context(), '{ [x] }')\n"
        "library.isl_ctx_free(ctypes.c_void_p(session.context().value)); import os; os._exit(0)"
    )
    assert done.stdout == "freed\n", done.stderr
    assert done.stderr.count("still reference it") == 1, done.stderr  # that of `kept`: the test can fail
