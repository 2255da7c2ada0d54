"""Right calls, made wrong: each argument in turn replaced by a value of a wrong type.

A line is a call as a user writes it. Of its outermost operation every operand is replaced, and so is every part of one
that is written as a tuple, list or mapping. The call then returns a printable answer or raises an error of the package:
`AttributeError`, `KeyError` and their like tell a user about our lines, not about theirs.
"""

import ast
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from intset.errors import IntSetError

HOLE = "wrong"  # the name that stands where something is replaced
_PYTHONS = ("unsupported operand", "not supported between instances of", "unhashable type")

Space = Mapping[str, Any]


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
    lines: Sequence[str], space: Callable[[], Space], wrong: Mapping[str, Any], many: int | None = None
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
