"""Explorations: written rows, resumption after a kill, refusals; built-in measures equal what the packages answer."""

import errno
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bound import infer_bound, te
from intset import InputError, using
from lowering import Exploration, ExplorationError, Footprints, Lowering, ModelledCost, Timing, explore, lower
from lowering.explore.measures import source_of
from lowering.forms.model import modelled
from lowering.nest.walk import statements
from tests import ROOT
from tests.lowering.explore.programs import SPACE, Logged, deadly, logged, same
from tests.strategies.written import Written
from tests.sweeps import daily

pq = pytest.importorskip("pyarrow.parquet", reason="explorations are written by pyarrow")


def square(config: dict[str, Any]) -> dict[str, Any]:
    return {"square": config["a"] ** 2}


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows without their times, sorted."""
    table = Exploration(folder).to_arrow().drop_columns(["seconds"])
    return sorted(table.to_pylist(), key=lambda row: (row["a"], row["b"]))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    explore(same, SPACE, measure=Logged(str(folder / "log"), 0.0), out=folder / "out")
    found = rows(folder / "out")
    assert [(row["a"], row["b"], row["wide"]) for row in found] == [(c["a"], c["b"], c["wide"]) for c in SPACE]
    for row in found:
        if row["a"] == 3:
            assert row["error"] == f"ValueError: no {row['b']}" and row["product"] is None
        else:
            assert row["error"] is None and row["product"] == row["a"] * row["b"] and row["half"] == row["a"] / 2
    return found


def gives_the_same_rows(executor: Any, folder: Path, undisturbed: list[dict[str, Any]]) -> None:
    result = explore(same, SPACE, Logged(str(folder / "log"), 0.0), executor, out=folder / "out")
    assert rows(folder / "out") == undisturbed
    assert sorted(logged(folder / "log")) == [(c["a"], c["b"]) for c in SPACE]
    assert result.summary.added == len(SPACE) and result.summary.failed == 10 and "300 configurations" in repr(result)


@pytest.mark.parametrize("executor", [1, 2, "threads"])
def test_every_executor_gives_the_same_rows(executor: Any, tmp_path: Path, undisturbed: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(3) as pool:
        gives_the_same_rows(pool if executor == "threads" else executor, tmp_path, undisturbed)


def test_the_best_rows_are_the_first_of_a_sort(tmp_path: Path, undisturbed: list[dict[str, Any]]) -> None:
    result = explore(same, SPACE, measure=Logged(str(tmp_path / "log"), 0.0), out=tmp_path / "out")
    good = [row for row in undisturbed if row["error"] is None]
    for by, largest in (("product", False), ("product", True), ("half", False), ("b", True), (None, False)):
        sign = -1 if largest else 1
        wanted = sorted(good, key=lambda row, by=by, sign=sign: (sign * row[by or "product"], row["a"], row["b"]))
        found = result.best(25, by=by, largest=largest)
        assert [(row["a"], row["b"]) for row in found] == [(row["a"], row["b"]) for row in wanted[:25]]
    with pytest.raises(InputError, match="unknown column 'nothing'; known: product, half, a"):
        result.best(by="nothing")


@pytest.mark.parametrize("executor", [None, 2])
def test_an_unknown_value_is_refused_before_the_space_is_measured(executor: Any, tmp_path: Path) -> None:
    out, log = tmp_path / "out", str(tmp_path / "log")
    with pytest.raises(InputError, match="unknown column 'nothing'; known: product, half, a"):
        explore(same, SPACE, Logged(log, 0.002), executor, out=out, by="nothing", batch=0.01)
    measured = len(logged(Path(log)))
    assert 0 < measured < len(SPACE) // 2
    with pytest.raises(InputError, match="unknown column 'nothing'"):  # and at once where the folder tells
        explore(same, SPACE, Logged(log, 0.002), executor, out=out, by="nothing", batch=0.01)
    assert len(logged(Path(log))) == measured
    explore(same, SPACE, Logged(log, 0.0), executor, out=out, by="half")
    assert len(rows(out)) == len(SPACE)


def driver(tmp_path: Path, workers: int | str, batch: float = 0.05) -> subprocess.Popen[bytes]:
    """An exploration in a separate process, with this number of workers or the scheduler at an address."""
    words = [str(tmp_path / "out"), str(tmp_path / "log"), str(workers), str(batch)]
    command = [sys.executable, "-m", "tests.lowering.explore.programs", *words]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def go_on(tmp_path: Path, executor: Any) -> None:
    """The exploration of `driver` once more, in this process."""
    explore(same, SPACE, Logged(str(tmp_path / "log")), executor, out=tmp_path / "out")


def wait_for(log: Path, lines: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if log.exists() and len(log.read_bytes().splitlines()) >= lines:
            return
        time.sleep(0.005)
    raise AssertionError(f"{log} has no {lines} lines")


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


@pytest.mark.parametrize(("workers", "after"), daily([(2, 90), (0, 130), (2, 5)], 3))
def test_a_killed_driver_goes_on(workers: int, after: int, tmp_path: Path, undisturbed: list[dict[str, Any]]) -> None:
    """SIGKILL of the driver: nothing lost, nothing twice, and at most one batch of each worker repeated."""
    process = driver(tmp_path, workers)
    wait_for(tmp_path / "log", after)
    process.kill()
    process.wait()
    end = time.monotonic() + 10
    known = -1
    while time.monotonic() < end and known != (known := len(logged(tmp_path / "log"))):
        time.sleep(0.5)  # workers of a killed driver end by themselves
    assert known < len(SPACE)
    written = Exploration(tmp_path / "out").to_arrow().num_rows
    go_on(tmp_path, workers or None)
    assert rows(tmp_path / "out") == undisturbed
    times = Counter(logged(tmp_path / "log"))
    assert set(times) == {(c["a"], c["b"]) for c in SPACE} and max(times.values()) <= 2
    repeated = sum(count - 1 for count in times.values())
    assert repeated == known - written and repeated <= max(workers, 1) * (0.1 / 0.002)


@LINUX
def test_a_killed_worker_loses_no_row(tmp_path: Path, undisturbed: list[dict[str, Any]]) -> None:
    process = driver(tmp_path, 2)
    for after in (40, 120):
        wait_for(tmp_path / "log", after)
        pids = {int(line.split()[2]) for line in (tmp_path / "log").read_text().splitlines()}
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        living = [pid for pid in map(int, children) if pid in pids]
        if living:
            os.kill(living[0], signal.SIGKILL)
    assert process.wait() == 0
    assert rows(tmp_path / "out") == undisturbed
    assert set(logged(tmp_path / "log")) == {(c["a"], c["b"]) for c in SPACE}


def test_a_configuration_that_kills_its_process_is_a_row(tmp_path: Path) -> None:
    result = explore(deadly, SPACE, executor=2, out=tmp_path / "out")
    found = result.to_arrow().to_pylist()
    assert len(found) == len(SPACE) == len({(row["a"], row["b"]) for row in found})
    assert [(row["a"], row["b"], row["error"].partition(":")[0]) for row in found if row["error"]] == [
        (5, 5, "WorkerDied")
    ]
    assert all(row["product"] == row["a"] * row["b"] for row in found if not row["error"])


@pytest.mark.parametrize("workers", daily([2, 0], 2))
def test_an_interrupt_leaves_what_is_done(workers: int, tmp_path: Path, undisturbed: list[dict[str, Any]]) -> None:
    process = driver(tmp_path, workers, 10.0)
    wait_for(tmp_path / "log", 60)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) != 0
    begun = len(logged(tmp_path / "log"))
    written = Exploration(tmp_path / "out").to_arrow().num_rows
    assert begun - 1 <= written <= begun < len(SPACE)  # in this process, the configuration under way is cut short
    go_on(tmp_path, workers or None)
    assert rows(tmp_path / "out") == undisturbed


def test_a_space_measures_what_is_new_and_results_of_another_key_are_refused(tmp_path: Path) -> None:
    first = explore(square, [{"a": k} for k in range(10)], out=tmp_path / "out")
    more = explore(square, [{"a": k} for k in range(5, 20)], out=tmp_path / "out")
    assert (first.summary.added, more.summary.added, len(more), len(Exploration(tmp_path / "out"))) == (10, 10, 15, 20)
    assert sorted(more.to_arrow().column("a").to_pylist()) == list(range(5, 20))
    some = explore(square, [{"a": k} for k in (9, 5, 20, 5, 9)], out=tmp_path / "out")  # two of them twice
    assert [row["a"] for row in some.best()] == [5, 9, 20] and len(Exploration(tmp_path / "out")) == 21
    assert (some.summary.rows, some.summary.added, len(some)) == (3, 1, 3)
    space, out = [{"a": k} for k in range(4)], tmp_path / "keyed"
    factor = 3

    def scaled(config: dict[str, Any]) -> dict[str, Any]:
        return {"value": config["a"] * factor}

    explore(scaled, space, out=out)
    factor = 4  # the text is the same
    with pytest.raises(InputError, match=r"results of another make: .*fresh=True"):
        explore(scaled, space, out=out)
    factor = 3
    for changed, what in (
        (lambda: explore(scaled, space, measure=dict, out=out), "measure"),
        (lambda: explore(square, space, out=out), "make"),
        (lambda: explore(scaled, [{"a": True}], out=out), "names"),
    ):
        with pytest.raises(InputError, match=f"results of another {what}"):
            changed()
    with using(points=17), pytest.raises(InputError, match="results of another configuration"):
        explore(scaled, space, out=out)
    assert explore(scaled, space, out=out).summary.added == 0
    assert explore(square, space, out=out, fresh=True).values == ("square",)


def test_types_widen_in_files_that_are_there(tmp_path: Path) -> None:
    def growing(config: dict[str, Any]) -> dict[str, Any]:
        k = config["a"]
        values: dict[str, Any] = {"number": k if k < 5 else k + 0.5, "big": 2**70 if k == 9 else k}
        values["flag"] = k > 3 if k < 7 else k
        if k > 6:
            values["late"] = None if k == 8 else k
        return values

    result = explore(growing, [{"a": k} for k in range(12)], out=tmp_path / "out", batch=1e-6)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 12
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert len({str(pq.read_schema(file)) for file in files}) == 1
    table = result.to_arrow()
    assert [str(table.schema.field(name).type) for name in ("a", "number", "big", "flag", "late")] == [
        "int64", "double", "double", "int64", "int64"
    ]  # fmt: skip
    assert table.column("number").to_pylist() == [k if k < 5 else k + 0.5 for k in range(12)]
    assert table.column("late").to_pylist() == [k if k > 6 and k != 8 else None for k in range(12)]


def test_folders_that_are_taken_or_cannot_be_used_are_told(tmp_path: Path) -> None:
    process = driver(tmp_path, 0)
    wait_for(tmp_path / "log", 3)
    with pytest.raises(InputError, match="another process explores into this folder"):
        explore(same, SPACE, measure=Logged(str(tmp_path / "log")), out=tmp_path / "out")
    assert process.wait() == 0
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below", "a\0b", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match="cannot be used"):
            explore(square, [{"a": 1}], out=out)

    def vanishing(config: dict[str, Any]) -> dict[str, Any]:
        if config["a"] == 2:
            (tmp_path / "moved").rename(tmp_path / "elsewhere")
        return {"x": 1}

    with pytest.raises(InputError, match=r"part-00000002\.parquet cannot be written: No such file"):
        explore(vanishing, [{"a": k} for k in range(5)], out=tmp_path / "moved", batch=1e-6)
    assert len(Exploration(tmp_path / "elsewhere")) == 2


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ([{"a": 1}, {"a": "x"}], "other types than the first one, a: int64"),
        ([{"a": 1}, {"a": True}], "other types than the first one, a: int64"),
        ([{"a": 1}, {"b": 1}], "lacks the name 'a'"),
        ([{"a": 1}, {"a": 1, "b": 1}], "must map a, not"),
        ([{"a": 1}, {"a": 2**63}], "does not fit into 64 bits"),
        ([{"a": -(2**63) - 1}], "does not fit into 64 bits"),
        ([{"a": 1}, {"a": "\ud800"}], "no text of UTF-8"),
        ([{"\ud800": 1}], "a text other than error, seconds, version"),
        ([{"a": 1.5}], r"integers, booleans and strings, not 1\.5"),
        ([{"error": 1}], "a text other than error, seconds, version"),
        ([{}], "must have a name"),
        ([], "the space is empty"),
        ({"a": [1]}, "a Space or a list of dicts"),
    ],
)
def test_configurations_of_other_shapes_are_refused(space: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        explore(same, space, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": "text"}, "must be a number, not 'text'"),
        ({"a": 1}, "'a' cannot name a value"),
        ({"error": 1}, "'error' cannot name a value"),
        ({"\ud800": 1}, "cannot name a value"),
        (None, "must return a dict of numbers, not None"),
        ({"x": {"y": 1}}, "must be a number, not {'y': 1}"),
        ([1], "must return a dict of numbers"),
    ],
)
def test_what_is_no_dict_of_numbers_is_an_error_of_its_row(values: Any, message: str, tmp_path: Path) -> None:
    result = explore(lambda config: values, [{"a": 1}, {"a": 2}], out=tmp_path / "out")
    assert result.summary.failed == 2 and message in result.failures()[0]["error"] and result.best() == []
    with pytest.raises(ExplorationError, match="2 configurations failed"):
        explore(lambda config: values, [{"a": 1}, {"a": 2}], out=tmp_path / "strict", strict=True)


class Panic(BaseException):
    """Such as the panics of libraries in Rust."""

    def __str__(self) -> str:
        raise ValueError("no message")


def failing(config: dict[str, Any]) -> dict[str, Any]:
    k = config["a"]
    if k == 0:
        raise Panic
    if k == 1:
        raise SystemExit(3)
    if k == 2:
        raise ValueError("a \ud800 and \0")
    if k == 3:
        return failing({"a": 3})
    if k == 4:
        raise GeneratorExit
    return {"x": k}


@pytest.mark.parametrize("executor", [None, 2])
def test_whatever_a_configuration_raises_is_a_row(executor: Any, tmp_path: Path) -> None:
    result = explore(failing, [{"a": k} for k in range(7)], executor=executor, out=tmp_path / "out")
    table = {row["a"]: (row["x"], row["error"]) for row in result.to_arrow().to_pylist()}
    assert table == {
        0: (None, "Panic: its message raised ValueError"),
        1: (None, "SystemExit: 3"),
        2: (None, "ValueError: a \\ud800 and \0"),
        3: (None, "RecursionError: maximum recursion depth exceeded"),
        4: (None, "GeneratorExit"),
        5: (5, None),
        6: (6, None),
    }


@pytest.mark.parametrize("batch", [0, -1, True, "1", float("nan"), float("inf"), 10**400])
def test_a_batch_takes_a_finite_time(batch: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="batch must be a positive number of seconds"):
        explore(square, [{"a": 1}], out=tmp_path / "out", batch=batch)


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    """Damage is named; `fresh` deletes it together with the results, and deletes no other file."""
    import pyarrow as pa

    space, out = [{"a": k} for k in range(4)], tmp_path / "out"
    explore(square, space, out=out, batch=1e-6)
    files = sorted(out.iterdir())
    (out / "part-00000000 (copy).parquet").write_bytes(files[0].read_bytes())
    (out / "part-notes.parquet").write_text("mine")
    assert len(Exploration(out)) == 4 and explore(square, space, out=out).summary.added == 0
    files[1].write_bytes(files[1].read_bytes()[:100])
    with pytest.raises(InputError, match=r"part-00000001\.parquet cannot be read: .*; delete it"):
        explore(square, space, out=out)
    assert explore(square, space, out=out, fresh=True).summary.added == 4
    assert (out / "part-notes.parquet").read_text() == "mine"
    (file,) = [file for file in out.iterdir() if file.name == "part-00000000.parquet"]
    table = pq.read_table(file)
    for text in ("{}", "nothing", "[]", '{"format": 1}', '{"format": 1, "key": 1, "names": {}, "values": {}}', None):
        meta = {} if text is None else {"inferbound.explore": text}
        pq.write_table(table.replace_schema_metadata(meta), file)
        for fresh in (False, True):
            with pytest.raises(InputError, match="is no file of an exploration"):
                explore(square, space, out=out, fresh=fresh)
        with pytest.raises(InputError, match="is no file of an exploration"):
            Exploration(out)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "part-00000000.parquet")
    with pytest.raises(InputError, match="is no file of an exploration"):
        explore(square, space, out=tmp_path, fresh=True)
    assert (tmp_path / "part-00000000.parquet").exists()


def test_what_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder or a file without rights is named with the reason: it is neither empty nor damaged."""
    explore(square, [{"a": 1}], out=tmp_path)
    found = Exploration(tmp_path)

    def refused(*_: object, **__: object) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "listdir", refused)
        with pytest.raises(InputError, match=f"{tmp_path} cannot be read: Permission denied$"):
            Exploration(tmp_path)
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(InputError, match=r"part-00000000\.parquet cannot be read: Permission denied$"):
        found.to_arrow()


HELPERS = """
from dataclasses import dataclass
from functools import cache
SCALE = 3
@cache
def scaled(x): return SCALE * x
class Base:
    def offset(self): return 1
class Rule(Base):
    def apply(self, x): return scaled(x) + self.offset()
@dataclass
class Table:
    rows: int = 4
TABLE = Table()
def unused(): return 5
"""
PROGRAM = """
import helpers
from helpers import Rule
def inner(config): return Rule().apply(config["a"]) + helpers.TABLE.rows
def make(config): return {"value": (lambda: inner(config))()}
OTHER = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "is_other"),
    [
        ("SCALE = 3", "SCALE = 4", True),
        ("return SCALE * x", "return SCALE + x", True),
        ("return 1", "return 2", True),
        ("rows: int = 4", "rows: int = 5", True),
        ("+ helpers.TABLE.rows", "- helpers.TABLE.rows", True),
        ("return 5", "return 6", False),
        ("OTHER = 1", "OTHER = 2", False),
    ],
)
def test_the_key_has_what_make_names(
    old: str, new: str, is_other: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions, classes and constants that `make` reaches by name are in the key, and nothing beside them."""
    keys = []
    for number, (helpers, program) in enumerate(
        [(HELPERS, PROGRAM), (HELPERS.replace(old, new), PROGRAM.replace(old, new))]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "helpers.py").write_text(helpers)
        (folder / "program.py").write_text(program)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            for name in ("helpers", "program"):
                patch.delitem(sys.modules, name, raising=False)
            module = importlib.import_module("program")
            assert module.make({"a": 2})["value"]
            keys.append(source_of(module.make))
            for name in ("helpers", "program"):
                sys.modules.pop(name)
    assert (keys[0] != keys[1]) == is_other


class Unloadable:
    """Pickles, and cannot be loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))

    def __call__(self, config: object) -> dict[str, Any]:
        return {}


def test_executors_that_cannot_run_are_told_and_no_process_is_left_behind(tmp_path: Path) -> None:
    for executor in (2, ThreadPoolExecutor(2)):
        with pytest.raises(ExplorationError, match="a worker cannot load make and measure: ValueError"):
            explore(Unloadable(), SPACE, executor=executor, out=tmp_path / "out")
    with pytest.raises(InputError, match="cannot be sent to workers"):
        explore(threading.Lock().acquire, SPACE, executor=2, out=tmp_path / "other")
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises((ExplorationError, RuntimeError)):
        explore(square, SPACE, executor=closed, out=tmp_path / "out")
    before = set(multiprocessing.active_children())  # of tests that ended in a fault: they end in their own time
    explore(square, SPACE, executor=2, out=tmp_path / "out")
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("executor", [None, 2])
def test_slow_tasks_after_quick_ones_end_their_batch(executor: Any, tmp_path: Path) -> None:
    """A batch stops after twice its time, and the rest goes to the next one."""

    def slow(config: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.0 if config["a"] < 50 else 0.1)
        return {"value": config["a"]}

    space = [{"a": k} for k in range(70)]
    result = explore(slow, space, executor=executor, out=tmp_path / "out", batch=0.1)
    assert sorted(result.to_arrow().column("a").to_pylist()) == list(range(70))
    sums = [sum(pq.read_table(file).column("seconds").to_pylist()) for file in (tmp_path / "out").glob("*.parquet")]
    assert max(sums) < 1.5  # twenty tasks of one batch would take 2


def test_other_libraries_read_typed_columns(tmp_path: Path) -> None:
    explore(same, SPACE, measure=Logged(str(tmp_path / "log"), 0.0), out=tmp_path / "out")
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(tmp_path / "out")
    assert dict(frame.dtypes.astype(str)) | {"error": "", "version": ""} == {
        "a": "int64", "b": "int64", "wide": "bool", "product": "float64", "half": "float64", "error": "",
        "seconds": "float64", "version": "",
    }  # fmt: skip
    assert len(frame) == len(SPACE)
    polars = pytest.importorskip("polars")
    for source in (tmp_path / "out", tmp_path / "out" / "*.parquet"):
        table = polars.read_parquet(source)
        assert table.shape == (300, 8) and table.schema["product"] == polars.Int64
    duckdb = pytest.importorskip("duckdb")
    query = f"select typeof(wide), typeof(product), count(*) from '{tmp_path}/out/*.parquet' group by all"
    assert duckdb.sql(query).fetchall() == [("BOOLEAN", "BIGINT", 300)]


def test_no_file_with_a_flipped_bit_is_read(tmp_path: Path) -> None:
    explore(square, [{"a": n} for n in range(200)], out=tmp_path, progress=False)
    part = max(tmp_path.glob("part-*"), key=lambda file: file.stat().st_size)
    data = part.read_bytes()
    footer = range(len(data) - 300, len(data))  # its schema describes the columns
    for k in (*footer, *range(0, footer.start, 37)):
        damaged = bytearray(data)
        damaged[k] ^= 1 << k % 8
        part.write_bytes(bytes(damaged))
        with pytest.raises(InputError):
            Exploration(tmp_path).to_arrow()


def tiled(config: dict[str, Any]) -> Any:
    """Two stages; the first is computed in tiles of the second."""
    text = """
        A = given(24, 24); B = pointwise(A)
        C[i:23, j:22] = B[i, j] + B[i + 1, j + 2]
        C split i {}; B compute_at C i.outer"""
    w = Written(text.format(config["rows"]))
    return w.s, [w.A, w.C]


@pytest.mark.parametrize("rows", daily([1, 2, 5, 8, 23], 2))
def test_measures_are_the_answers_of_the_packages(rows: int) -> None:
    s, args = tiled({"rows": rows})
    b, f = infer_bound(s), lower(s, args)
    stored = (min(rows, 23) + 1) * 24
    instances = -(-23 // rows)
    found = (Footprints() + ModelledCost() + Lowering())((s, args))
    B = next(stage.op.output(0) for stage in s.stages if stage.op.name == "B")
    assert found["bytes"] == found["bytes_B"] == 4 * stored
    assert found["elements_B"] == b.computed(B).count_total() and found["elements_B"] >= 24 * 24 - 4 + instances - 1
    assert found["cost"] == sum(modelled(f).values()) > 0
    assert found["statements"] == sum(1 for _ in statements(f.body)) and found["lower_seconds"] > 0
    alone = {**Footprints()(s), **ModelledCost()(f), **Lowering()((s, args))}
    assert alone.keys() == found.keys()
    assert {k: v for k, v in alone.items() if k != "lower_seconds"} == {
        k: v for k, v in found.items() if k != "lower_seconds"
    }


def test_measures_pickle_have_a_key_and_are_refused_without_an_answer() -> None:
    both = Footprints() + Timing(3, {"n": 8})
    assert source_of(pickle.loads(pickle.dumps(both))) == source_of(both)
    assert source_of(both) != source_of(Footprints() + Timing(4, {"n": 8}))
    assert source_of(Timing(3)) != source_of(Timing(3, {"n": 8})) and "Timing" in repr(both)
    with pytest.raises(InputError, match="make must give a schedule"):
        Footprints()(3)
    with pytest.raises(InputError, match="bounds of a nest are not known"):
        Footprints()(lower(*tiled({"rows": 3})))
    s = Written("A = given(n); B = pointwise(A); C = pointwise(B)", n=te.size_var("n")).then("schedule C").s
    with pytest.raises(InputError, match="B depends on sizes"):
        Footprints()(s)
    assert Footprints({"n": 10})(s)["bytes"] == 40
    assert (Footprints({"n": 10}) + ModelledCost({"n": 10}))(s)["bytes"] == 40
    with pytest.raises(InputError, match="differ in the size n: 10 and 5"):
        Footprints({"n": 10}) + ModelledCost({"n": 5})
    text = 'A = given(n); I = given(n, dtype="int32", value_range=(0, 7))\nC[i:n] = A[I[i]] + 1'
    s, A, I, C = Written(text, n=te.size_var("n"))("s A I C")
    found = (Timing(5) + Lowering({"n": 64}))((s, [A, I, C]))
    assert 0 < found["time"] < 1 and found["spread"] >= 0
    with pytest.raises(InputError, match="the size n is not given"):
        Timing(5)((s, [A, I, C]))


# -- a cluster ----------------------------------------------------------------------------------------------------


@pytest.fixture
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="a cluster of Dask's: pip install '.[dask]'")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as local, distributed.Client(local) as client:
        client.wait_for_workers(2)
        yield client


def test_a_cluster_gives_the_same_rows_and_a_killed_worker_and_a_killed_driver_of_it_lose_nothing(
    client: Any, tmp_path: Path, undisturbed: list[dict[str, Any]]
) -> None:
    (tmp_path / "whole").mkdir()
    gives_the_same_rows(client.get_executor(), tmp_path / "whole", undisturbed)
    first = driver(tmp_path, client.cluster.scheduler_address)
    wait_for(tmp_path / "log", 60)
    os.kill(next(iter(client.cluster.workers.values())).pid, signal.SIGKILL)
    wait_for(tmp_path / "log", 150)
    first.kill()
    first.wait()
    assert len(Exploration(tmp_path / "out")) < len(SPACE)
    go_on(tmp_path, client.get_executor())
    assert rows(tmp_path / "out") == undisturbed
    times = Counter(logged(tmp_path / "log"))
    assert set(times) == {(c["a"], c["b"]) for c in SPACE}
    assert sum(count - 1 for count in times.values()) <= 3 * (0.1 / 0.002)  # a batch of a worker, one of each
