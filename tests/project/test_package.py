"""An installation has three packages with types, and the command; builds with and without the core in C."""

import configparser
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from intset.installation import DISTRIBUTION, namesakes
from tests import ROOT

pytest.importorskip("setuptools", minversion="77", reason="builds the package with the configured backend")

PACKAGES = ("intset", "bound", "lowering")

# A user's script with the types that mypy reveals; without the package's types it reveals `Any`.
SCRIPT = """\
from bound import te
from intset import Context, Range, Var
from lowering import lower

i = Var("i")
context = Context({i: Range(0, 8)})
first: int = context.bounds(i).ints()[0]
context.no_such_question()
te.no_such_operation()
lower(1)
"""
COMPLAINTS = {8: "attr-defined", 9: "attr-defined", 10: "arg-type"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project and add folders that no wheel may ship."""
    copy = tmp_path_factory.mktemp("copy") / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in (*PACKAGES, "examples"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests", "benchmarks"):
        (copy / name).mkdir()
        (copy / name / "__init__.py").touch()
    return copy


def _built(project: Path, hook: str, folder: Path) -> zipfile.ZipFile:
    call = f"from setuptools.build_meta import {hook} as build; build({str(folder)!r})"
    subprocess.run([sys.executable, "-c", call], cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_an_editable_install_is_a_path(project: Path, tmp_path: Path) -> None:
    with _built(project, "build_editable", tmp_path) as wheel:
        outside = [name for name in wheel.namelist() if ".dist-info/" not in name]
        (path,) = outside
        assert path.endswith(".pth") and Path(wheel.read(path).decode().strip()) == project


def test_a_wheel_holds_the_packages_their_types_and_the_command(project: Path, tmp_path: Path) -> None:
    with _built(project, "build_wheel", tmp_path) as wheel:
        names = set(wheel.namelist())
        info = next(name for name in names if name.endswith("/entry_points.txt"))
        commands = configparser.ConfigParser()
        commands.read_string(wheel.read(info).decode())
    shipped = {name for name in names if ".dist-info/" not in name}
    kinds = ("*.py", "*.txt")
    sources = [path for package in PACKAGES for kind in kinds for path in (project / package).rglob(kind)]
    assert len(sources) > 200 and all((project / package / "py.typed").exists() for package in PACKAGES)
    expected = {path.relative_to(project).as_posix() for path in sources} | {f"{name}/py.typed" for name in PACKAGES}
    assert shipped == expected
    assert commands["console_scripts"]["intset"] == "intset.__main__:main"


@pytest.mark.nightly
def test_a_type_checker_sees_the_packages_of_the_readmes_install(project: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / ".venv", with_pip=True)
    programs = tmp_path / ".venv" / ("Scripts" if sys.platform == "win32" else "bin")
    for what in (["-e", str(project)], ["mypy"]):
        _run([str(programs / "pip"), "install", "-q", *what], tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "script.py").write_text(SCRIPT, encoding="utf-8")
    said = _run([str(programs / "mypy"), "--strict", "script.py"], elsewhere, status=1)
    errors = [line.split(":") for line in said.splitlines() if ": error:" in line]
    assert {int(line[1]): line[-1].rsplit("[", 1)[1].rstrip("]") for line in errors} == COMPLAINTS
    assert "bounds" in _run([str(programs / "intset"), "--help"], elsewhere)


def _run(command: Sequence[str], folder: Path, status: int = 0) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_the_version_is_that_of_the_distribution_of_the_name_in_pyproject() -> None:
    import intset
    from intset.installation import library_version

    assert intset.__version__ == library_version()
    with pytest.raises(AttributeError):
        intset.no_such_name  # type: ignore[attr-defined]  # noqa: B018
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION


def _install(folder: Path, label: str, kind: str = "dist-info", **files: str) -> None:
    """Metadata of a distribution `name-version`, as pip leaves it in `folder`."""
    metadata = folder / f"{label}.{kind}"
    metadata.mkdir()
    for name, text in files.items():
        (metadata / name.replace("_txt", ".txt")).write_text(text)


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
