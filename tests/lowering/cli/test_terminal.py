"""What the command line writes to a terminal: text of a file never commands it, numbers are of any length."""

from __future__ import annotations

import json

import pytest

from lowering.cli.app import run
from lowering.cli.reports import visible

ESCAPE = "\x1b[31mred\x1b]0;title\x07\x9b2J\r\x08"


def commands_in(text):
    return [c for c in text if not c.isprintable() and c not in "\n\t"]


def script(name):
    return (
        "from bound import te\n"
        f"A = te.placeholder((20,), name={name!r})\n"
        f"B = te.compute((18,), lambda i: A[i] + A[i + 2], name='B' + {name!r})\n"
        f"s = te.create_schedule(B.op)\n"
    )


@pytest.mark.parametrize("command", ["bounds", "lower", "explain", "compare"])
@pytest.mark.parametrize("kind", ["names", "text", "broken", "file name", "script"])
def test_no_character_of_a_file_reaches_the_terminal_raw(command, kind, tmp_path, capsys):
    row = {"op": f"op{ESCAPE}", "vars": {"i": [0, 8]}, "exprs": ["i * 2"], "facts": []}
    name = "corpus.json"
    if kind == "text":
        row["exprs"] = [f"i * {ESCAPE}"]
    elif kind == "broken":
        row = {f"key{ESCAPE}": ESCAPE}
    elif kind == "file name":
        name = "cor\x1b[31mpus.json"
    path = tmp_path / name
    path.write_text(json.dumps([row]))
    if kind == "script":
        path = tmp_path / "schedule.py"
        path.write_text(script(ESCAPE))
    status = run([command, str(path)])
    written = capsys.readouterr()
    assert status in (0, 1, 2) and written.out + written.err
    assert commands_in(written.out + written.err) == []


def test_text_is_made_visible_and_lines_stay():
    assert visible("plain é ∑") == "plain é ∑"
    assert visible("a\nb\tc") == "a\nb\tc" and visible("a\nb", keep="") == "a\\nb"
    assert visible("\x1b[31m\x9b\u202e\x7f") == "\\x1b[31m\\x9b\\u202e\\x7f"
