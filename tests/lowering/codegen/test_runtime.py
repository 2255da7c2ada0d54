"""The benchmark of run times: it compiles, the results are numpy's, and carried quotients leave no division."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import runtime
from intset.expr import ops
from intset.expr.dag import postorder
from lowering.nest.ir import For
from lowering.nest.walk import operands, statements
from tests.compilers import needs_compiler


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
