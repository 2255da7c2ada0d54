"""The command line in a folder of files, as a fixture."""

import json
from pathlib import Path
from typing import Any

import pytest

from lowering.cli import main

ROW: dict[str, Any] = {
    "op": "conv",
    "kind": "load",
    "vars": [["i", "0", "8"], ["j", "0", "3"]],
    "params": [],
    "conds": ["i + j < 9"],
    "exprs": ["i * 2 + j"],
    "truth": [[0, 15, None]],
}
"""A row of a corpus."""


class CommandLine:
    """Runs command lines in a folder and looks at what they print."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def write(self, name: str, text: str | bytes) -> str:
        """A file of the folder, and its name."""
        (self.folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    def __call__(self, *words: object, status: int = 0) -> str:
        """What is printed on stdout; nothing is on stderr."""
        found = main([str(word) for word in words])
        captured = self.capsys.readouterr()
        assert (found, captured.err) == (status, "")
        return captured.out

    def json(self, *words: object, status: int = 0) -> Any:
        """The JSON that is printed."""
        return json.loads(self(*words, "--json", status=status))

    def report(self, *words: object) -> dict[str, Any]:
        """The report of the only file."""
        data = self.json(*words)
        assert data["version"] == 1
        (report,) = data["files"]
        return dict(report)

    def refusal(self, *words: object) -> str:
        """The one line on stderr; nothing is on stdout, and the status is 2."""
        assert main([str(word) for word in words]) == 2
        captured = self.capsys.readouterr()
        assert captured.out == "" and "Traceback" not in captured.err
        assert captured.err.startswith("intset: error: ") and captured.err.count("\n") == 1
        return captured.err


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)
