"""`intset compare --report`: a typed row for each question and domain, plug-ins and peers included, and a page."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import intset
from intset import Context, InputError, Range, Var
from lowering.cli import main
from lowering.cli.inputs import Problem, read_rows
from lowering.cli.reports import COLUMNS, default_domains
from tests import ROOT

pq = pytest.importorskip("pyarrow.parquet", reason="reports are written by pyarrow")
CORPUS = ROOT / "benchmarks" / "data" / "index_expressions.json"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = json.loads(CORPUS.read_text())
    kept = [row for row in rows if row["kind"] != "pred"][::40]
    kept.append({"op": "<b>&\"x\"", "kind": "load", "vars": [["i", "0", "8"]], "params": [], "conds": ["i * 3 < 17"],
                 "exprs": ["i * i - 6 * i"], "truth": [[-9, 0]]})  # fmt: skip
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps(kept))
    return path


def reported(*words: object, folder: Path) -> list[dict[str, Any]]:
    assert main(["compare", *map(str, words), "--report", str(folder)]) == 0
    table = pq.read_table(folder / "tightness.parquet")
    names = {"large_string": "string"}
    assert {f.name: names.get(str(f.type), str(f.type)) for f in table.schema} == COLUMNS
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_each_question_has_a_row_a_domain(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = reported(corpus, "--json", folder=tmp_path / "out")
    report = json.loads(capsys.readouterr().out)["files"][0]
    assert [d["domain"] for d in report["domains"]] == default_domains()
    problems = {row.number: Problem(row) for row in read_rows(corpus)}
    asked = sum(len(problem.exprs) for problem in problems.values())
    for domain in default_domains():
        own = [row for row in rows if row["domain"] == domain]
        assert len(own) == asked and not any(row["is_peer"] or row["wrong"] for row in own)
        for row in own:
            problem = problems[row["question"]]
            (expr,) = [e for e, text in zip(problem.exprs, problem.row.exprs, strict=True) if text == row["asked"]][:1]
            ends = Context(problem.ranges, assume=problem.conditions, domain=domain).bounds(expr)
            assert (row["low"], row["high"]) == tuple(map(str, ends)) and row["is_claimed"] == ends.is_tight
            if row["ratio"] is not None:
                low, high = ends.ints()
                assert row["ratio"] == (high - low + 1) / (row["true_high"] - row["true_low"] + 1) >= 1
                assert row["is_tight"] == ((low, high) == (row["true_low"], row["true_high"]))
    page = (tmp_path / "out" / "tightness.html").read_text()
    assert (
        "&lt;b&gt;&amp;" in page
        and "<b>" not in page
        and page.count("<tr") == len(rows) + len({(row["kind"], row["domain"]) for row in rows}) + 2
    )


def test_the_regions_of_a_schedule(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from bound import te\n"
        "A = te.placeholder((64, 48), name='A')\n"
        "B = te.compute((64, 48), lambda i, j: A[i, j] * 2.0, name='B')\n"
        "C = te.compute((60, 40), lambda i, j: B[i, j] + B[i + 1, j + 2], name='C')\n"
        "s = te.create_schedule(C.op)\n"
        "o, i = s[C].split(C.op.axis[0], factor=8)\n"
        "s[B].compute_at(s[C], o)\n"
    )
    rows = {row["domain"]: row for row in reported(script, folder=tmp_path / "out") if row["asked"] == "B"}
    true = len({(i + d, j + 2 * d) for i in range(8) for j in range(40) for d in (0, 1)})
    assert set(rows) == set(default_domains())
    assert (rows["isl"]["elements"], rows["isl"]["ratio"], rows["isl"]["is_tight"]) == (true, 1.0, True)
    assert (rows["interval"]["elements"], rows["interval"]["is_tight"]) == (9 * 42, False)
    assert rows["interval"]["ratio"] == 9 * 42 / true


class Fixed:
    """A peer that answers one thing."""

    name = "fixed <peer>"

    def asking(self, problem: Problem, k: int) -> Any:
        if "i" not in problem.env:
            raise InputError("no i")
        return lambda: (-9, 3)


def test_peers_are_rows(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer's wrong answer is told as such, and does not fail the comparison; what it refuses has no ratio."""
    monkeypatch.setattr("benchmarks.peers.installed_peers", lambda: [Fixed()])
    rows = [row for row in reported(corpus, folder=tmp_path / "out") if row["is_peer"]]
    (own,) = [row for row in rows if row["asked"] == "i * i - 6 * i"]
    assert (own["low"], own["high"], own["ratio"], own["is_tight"]) == ("-9", "3", 13 / 10, False)
    refused = [row for row in rows if row["refused"] == "no i"]
    assert refused and all(row["ratio"] is None and row["is_tight"] is None for row in refused)
    assert all(row["wrong"] for row in rows if row["true_high"] is not None and row["true_high"] > 3 and row["low"])
    assert "fixed &lt;peer&gt;" in (tmp_path / "out" / "tightness.html").read_text()


@pytest.mark.parametrize("module", ["tvm", "halide"])
def test_installed_peers_contain_the_truth(module: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"needs {module}")
    from benchmarks.peers import ends_of, installed_peers

    (peer,) = [peer for peer in installed_peers() if peer.name.startswith(module)]
    i, j = Var("i"), Var("j")
    problem = Problem(read_rows(CORPUS)[0])
    problem.ranges, problem.conditions = {i: Range(0, 8), j: Range(0, 4)}, (i * 3 + j < 17,)
    problem.exprs = (i * 4 - j * 5, (i * 4 + j) // 7 % 3, intset.minimum(i, j) + intset.select(i < 2, 1, 9))
    points = [(a, b) for a in range(8) for b in range(4) if a * 3 + b < 17]
    for k, e in enumerate(problem.exprs):
        low, high = ends_of(peer, problem, k)()
        values = [intset.evaluate(e, {i: a, j: b}) for a, b in points]
        assert low is not None and high is not None and low <= min(values) <= max(values) <= high


def test_a_folder_that_cannot_be_written(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["compare", str(corpus), "-d", "interval", "--report", str(tmp_path / "file")]) == 2
    assert "--report: " in (error := capsys.readouterr().err) and "cannot be written" in error
