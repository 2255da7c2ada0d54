"""Other installed distributions that own `intset`, `bound` or `lowering` are named; this one and strangers are not."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from intset.installation import DISTRIBUTION, namesakes
from tests import ROOT


def _install(folder: Path, label: str, kind: str = "dist-info", **files: str) -> None:
    """Metadata of a distribution `name-version`, as pip leaves it in `folder`."""
    metadata = folder / f"{label}.{kind}"
    metadata.mkdir()
    for name, text in files.items():
        (metadata / name.replace("_txt", ".txt")).write_text(text)


def test_the_distribution_is_named_as_in_pyproject() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION


@pytest.mark.parametrize(
    ("label", "files", "expected"),
    [
        ("intset-1.1.0", {"top_level_txt": "intset\n"}, ("intset 1.1.0",)),
        ("bound-1.0.1", {"top_level_txt": "bound\ntests\n"}, ("bound 1.0.1",)),
        ("other_tools-2", {"RECORD": "intset/__init__.py,sha256=x,1\n"}, ("other_tools 2",)),
        ("single-3", {"RECORD": "single.py,,\nbound.py,sha256=x,1\n"}, ("single 3",)),
        ("bounds-1", {"RECORD": "bounds/__init__.py,,\nsrc/bound/x.py,,\nbound_tools.py,,\n"}, ()),
        ("bound_free-1", {"top_level_txt": "bounded\nintsets\n"}, ()),
        ("empty-1", {}, ()),
        (f"{DISTRIBUTION}-0.1.0", {"top_level_txt": "bound\nintset\nlowering\n"}, ()),
        (f"{DISTRIBUTION.title()}-0.1.0", {"top_level_txt": "bound\nintset\nlowering\n"}, ()),
    ],
)
def test_who_owns_an_import_name(tmp_path: Path, label: str, files: dict[str, str], expected: tuple[str, ...]) -> None:
    _install(tmp_path, label, **files)
    assert namesakes([str(tmp_path), str(tmp_path / "absent")]) == expected


def test_an_old_style_egg_is_read_too(tmp_path: Path) -> None:
    _install(tmp_path, "bound", "egg-info", top_level_txt="bound\n")
    assert namesakes([str(tmp_path)]) == ("bound",)


def test_import_names_the_other_distribution_in_one_line(tmp_path: Path) -> None:
    _install(tmp_path, "intset-1.1.0", top_level_txt="intset\n")
    script = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]; import intset"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    (line,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert "intset 1.1.0 owns modules" in line
    assert DISTRIBUTION in line
