"""The JSON schemas describe what the commands write and read."""

import contextlib
import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lowering.cli import main
from lowering.cli.app import app
from tests import ROOT
from tests.lowering.cli import conftest as cli

jsonschema = pytest.importorskip("jsonschema", reason="validates by the schemas")

SCHEMAS = ROOT / "docs" / "schemas"
CORPUS = ROOT / "benchmarks" / "data" / "index_expressions.json"
ROW = cli.ROW | {"vars": [["i", "0", "8"], ["j", 0, 4]], "params": ["n"], "conds": ["i < n"]}
CONDITION: dict[str, Any] = {**ROW, "kind": "pred", "exprs": ["i < 4"], "truth": ["both"]}


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def closed(part: Any, within: bool = False) -> Any:
    """A schema that refuses fields which it does not describe; those `within` an `allOf` are closed around it."""
    if isinstance(part, list):
        return [closed(each, within) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {key: closed(value, within=key == "allOf") for key, value in part.items()}
    if not within and ("allOf" in part or isinstance(part.get("properties"), dict)):
        inner["unevaluatedProperties"] = False
    return inner


def validator(command: str) -> Any:
    """The validator of the output of a command: each field is described."""
    commands = schema("commands.json")
    open_ones = {"range"}  # stand within an `allOf`
    commands["$defs"] = {key: part if key in open_ones else closed(part) for key, part in commands["$defs"].items()}
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{command}", "$defs": commands["$defs"]})


def written(*arguments: str) -> Any:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(arguments) == 0
    return json.loads(said.getvalue())


@pytest.mark.parametrize("name", sorted(path.name for path in SCHEMAS.glob("*.json")))
def test_a_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("command", ["bounds", "compare", "lower", "explain"])
def test_what_a_command_writes_is_described(command: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.json"
    corpus.write_text(json.dumps([ROW, CONDITION]), encoding="utf-8")
    scripts = [str(ROOT / "examples" / name) for name in ("flatten_symbolic.py", "matmul_cached.py")]
    answer = written(command, "--json", *scripts, str(corpus))
    validator(command).validate(answer)
    assert [file["kind"] for file in answer["files"]] == ["script", "script", "corpus"]
    for field in ("version", "files"):
        assert not validator(command).is_valid({key: value for key, value in answer.items() if key != field})
    assert not validator(command).is_valid({**answer, "files": [{"file": "x", "kind": "corpus"}]})


def test_spaces_explorations_peers_and_options_are_described(tmp_path: Path) -> None:
    corpus, scripts = tmp_path / "corpus.json", [str(ROOT / "examples" / "matmul_cached.py")]
    corpus.write_text(json.dumps([ROW, CONDITION, {**ROW, "vars": [["i", "0", "n"], ["j", 0, 4]]}]), encoding="utf-8")
    for words in (["--emit", "c"], ["--emit", "c", "--main"], ["--strength", "--compact", "--unsafe"]):
        validator("lower").validate(written("lower", "--json", *words, *scripts))
    validator("bounds").validate(written("bounds", "--json", "--compact", *scripts))
    validator("domains").validate(written("domains", "--json"))
    if find_spec("pyarrow") is not None:
        answer = written("compare", "--json", "--report", str(tmp_path / "report"), str(corpus))
        peers = [{**answer["files"][0]["domains"][0], "domain": "another 1.0"}]
        for found in (answer, {**answer, "files": [{**answer["files"][0], "peers": peers}]}):
            validator("compare").validate(found)
        assert not validator("compare").is_valid({**answer, "files": [{**answer["files"][0], "peers": [{}]}]})
    script = tmp_path / "squares.py"
    script.write_text(
        "from intset import Space\n"
        "space = Space({'a': [1, 2, 3]}, where=['a < 3'])\n"
        "def make(config):\n    return {'s': config['a'] ** 2}\n",
        encoding="utf-8",
    )
    validator("space").validate(written("space", "--json", "--by", "a * 2", "--best", "1", str(script)))
    if find_spec("pyarrow") is not None:
        validator("explore").validate(written("explore", "--json", "--out", str(tmp_path / "out"), str(script)))


def test_every_command_and_the_corpus_are_described() -> None:
    commands = schema("commands.json")
    for name, command in app.commands.items():
        if any("--json" in option.opts for option in command.params):
            assert {"$ref": f"#/$defs/{name}"} in commands["anyOf"] and name in commands["$defs"]
    rows = jsonschema.Draft202012Validator(schema("corpus.json"))
    rows.validate(json.loads(CORPUS.read_text(encoding="utf-8")))
    rows.validate([ROW, CONDITION])


@pytest.mark.parametrize(
    "change",
    [
        *({field: None} for field in ROW),
        {"kind": "other"},
        {"vars": [["i", "0"]]},
        {"vars": [["i", "0", "8", "9"]]},
        {"vars": [[3, "0", "8"]]},
        {"params": [3]},
        {"truth": ["both"]},
        {"truth": [[3]]},
        {"kind": "pred", "exprs": ["i < 3"], "truth": [[0, 1]]},
    ],
    ids=str,
)
def test_a_row_that_the_schema_refuses_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    row = {key: value for key, value in {**ROW, **change}.items() if value is not None}
    assert not jsonschema.Draft202012Validator(schema("corpus.json")).is_valid([row])
    file = tmp_path / "corpus.json"
    file.write_text(json.dumps([row]), encoding="utf-8")
    assert main(["bounds", str(file)]) == 2
