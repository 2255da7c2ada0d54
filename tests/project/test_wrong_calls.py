"""Right calls, made wrong: any argument of a wrong type raises an error of the package.

A line is a call as a user writes it. Of its outermost operation every operand is replaced, and so is every part of one
that is written as a tuple, list or mapping. The call then returns a printable answer or raises an error of the package:
`AttributeError`, `KeyError` and their like tell a user about our lines, not about theirs.
"""

import ast
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np
import pytest

import bound
import intset
import lowering
from bound import replay, te, tir
from intset import IntSetError, Var, check, const, testing
from tests.project.right_calls import BOUND, EXPLORING, HAS_PYARROW, INTSET, LOWERING, of_bound, of_intset, of_lowering

HOLE = "wrong"  # the name that stands where something is replaced
_PYTHONS = ("unsupported operand", "not supported between instances of", "unhashable type")
STRANGER = Var("stranger")
WRONG: dict[str, Any] = {
    "None": None, "3": 3, "'x'": "x", "[]": [], "cond": STRANGER < 3, "1.5": 1.5, "stranger": STRANGER,
    "object()": object(), "(None,)": (None,), "-1": -1, "[3]": [3], "{3: None}": {3: None}, "{}": {},
    "{stranger: 'x'}": {STRANGER: "x"}, "lambda": lambda *given: None, "array": np.array([1.5, 2.0]),
}  # fmt: skip
LONG = 10**5000  # more digits than Python writes
STRANGE: dict[str, Any] = {
    **WRONG, "LONG": LONG, "[LONG]": [LONG], "{LONG: 3}": {LONG: 3}, "True": True, "''": "", "nan": float("nan"),
    "['x']": ["x"], "[cond]": [STRANGER < 3], "[[]]": [[]], "{'x': 1}": {"x": 1}, "{3}": {3}, "b'x'": b"x",
    "[stranger]": [STRANGER], "const(7)": const(7), "'\\n'": "\n", "{stranger: 1.5}": {STRANGER: 1.5},
}  # fmt: skip
TABLES = {
    "intset": (INTSET, of_intset),
    "bound": (BOUND, of_bound),
    "lowering": (LOWERING + EXPLORING * HAS_PYARROW, of_lowering),
}
SLOW = ("testing.sweep", "testing.soundness", "testing.claims", "lower(", "hoist_expression(")


def called(line: str) -> str:
    """What a line calls: `f` of `f(x)`, `m` of `o.m(x)`; nothing where its outermost operation is an operator."""
    node = ast.parse(line, mode="eval").body
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def with_holes(line: str) -> Iterator[str]:
    """The line with each operand in turn replaced by `HOLE`."""
    root = ast.parse(line, mode="eval")
    for owner, key in _places(root.body):
        before = _put(owner, key, ast.Name(HOLE, ast.Load()))
        yield ast.unparse(root)
        _put(owner, key, before)


def _put(owner: Any, key: str | int, new: ast.expr) -> Any:
    if isinstance(key, str):
        before = getattr(owner, key)
        setattr(owner, key, new)
    else:
        before, owner[key] = owner[key], new
    return before


def _places(node: ast.expr) -> Iterator[tuple[Any, str | int]]:
    if isinstance(node, ast.Call):
        tops: list[tuple[Any, str | int]] = [(node.args, k) for k in range(len(node.args))]
        tops += [(keyword, "value") for keyword in node.keywords]
    elif isinstance(node, ast.Compare):
        tops = [(node, "left")] if isinstance(node.ops[0], ast.In) else [(node.comparators, 0)]
    else:
        tops = [(node, "slice" if isinstance(node, ast.Subscript) else "right")]
    for owner, key in tops:
        yield owner, key
        value = getattr(owner, key) if isinstance(key, str) else owner[key]
        lists = [value.elts] if isinstance(value, (ast.Tuple, ast.List)) else []
        for parts in lists or ([value.keys, value.values] if isinstance(value, ast.Dict) else []):
            yield from ((parts, k) for k in range(len(parts)))


def raw_errors(
    lines: Sequence[str], space: Callable[[], Mapping[str, Any]], wrong: Mapping[str, Any], many: int | None = None
) -> list[str]:
    """The calls that end in an error of Python's, each with that error.

    Parameters
    ----------
    space: the names of the lines, made anew for each hole.
    wrong: the replacement values, by spelling.
    many: the number of replacements per hole, in rotation; all, when `None`.
    """
    found, turn, names = [], 0, list(wrong)
    for line in lines:
        for text in with_holes(line):
            code, here = compile(text, line, "eval"), space()
            for written in (names * 2)[turn : turn + (many or len(names))]:
                error = raw_error(code, {**here, HOLE: wrong[written]})
                if error is not None:
                    found.append(f"{text.replace(HOLE, written)} -> {type(error).__name__}: {error}")
            turn = (turn + (many or 0)) % len(names)
    return found


def raw_error(code: CodeType, space: dict[str, Any]) -> Exception | None:
    """The exception raised, unless it belongs to the package or is Python's own TypeError for operators."""
    answer = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = eval(code, space)
            str(answer), repr(answer)
    except IntSetError:
        return None
    except Exception as error:
        if "integer string conversion" in str(error) and answer is not None:
            return None  # data with a number that Python does not print
        return None if isinstance(error, TypeError) and any(text in str(error) for text in _PYTHONS) else error
    return None


@pytest.mark.parametrize("name", TABLES)
def test_the_lines_are_right_and_a_wrong_argument_is_told_as_one(name: str) -> None:
    lines, space = TABLES[name]
    assert raw_errors([line for line in lines if not line.startswith(SLOW)], space, WRONG, 2) == []
    lines, space = TABLES[name]
    for line in lines:
        if name == "bound" or not line.startswith(SLOW):
            str(eval(line, dict(space())))


@pytest.mark.nightly
@pytest.mark.parametrize("name", TABLES)
def test_whatever_the_wrong_argument_is(name: str) -> None:
    lines, space = TABLES[name]
    assert raw_errors([line for line in lines if not line.startswith(SLOW[:3])], space, STRANGE) == []


# Public names without calls that a user makes: kinds, constants, methods of operators, answers.
KINDS = """Bounds Certificate CheckedAccess
    BoundsCertificate Cond Domain Expr IntSet Region Case Finding Question Report Setting
    BoundsMap Schedule Stage Tensor TensorSlice Operation ComputeOp ExternOp PlaceholderOp ScanOp TensorComputeOp
    TensorIntrin Buffer CommReducer ExternCall IterType Reduction Value Operand Edge Outcome Reason Repair
    Exploration Measure Replayed TensorDomain Function GraphTensor Hoisted Plan Step Graph domain_names""".split()
INSIDE = """alone answering checked_column conditions config created decided env fields is_one_loop kind_of learn_sizes
    began ended fused outermost made new not_output numbers
    owners part parts place_of point_of position_of range_of remember relocate replace_inputs restored rewritten same
    substituted tag_of thread_of under values whole_own with_args""".split()  # called by the package alone


def test_every_public_name_has_a_line() -> None:
    lined = {called(line) for line in (*INTSET, *BOUND, *LOWERING, *EXPLORING)}
    modules = (intset, check, testing, bound, te, tir, replay, lowering)
    public = {name: getattr(module, name) for module in modules for name in module.__all__}
    found = {name for name, value in public.items() if callable(value) and not _is_error(value)} - {*KINDS}
    for kind in (value for value in public.values() if inspect.isclass(value) and not _is_error(value)):
        methods = ((name, getattr(kind, name)) for name in vars(kind) if not name.startswith("_"))
        found |= {name for name, it in methods if callable(it) and len(inspect.signature(it).parameters) > 1}
    assert sorted(found - lined - {*INSIDE}) == []


def _is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)
