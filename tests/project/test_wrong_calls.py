"""A wrong argument of any public call raises an error of the package."""

import inspect
from typing import Any

import numpy as np
import pytest

import bound
import intset
import lowering
from bound import replay, te, tir
from intset import Var, check, const, testing
from tests.project.right_calls import BOUND, EXPLORING, HAS_PYARROW, INTSET, LOWERING, of_bound, of_intset, of_lowering
from tests.wrong_calls import called, raw_errors

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


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_argument_is_told_as_one(name: str) -> None:
    lines, space = TABLES[name]
    assert raw_errors([line for line in lines if not line.startswith(SLOW)], space, WRONG, 2) == []


@pytest.mark.nightly
@pytest.mark.parametrize("name", TABLES)
def test_whatever_the_wrong_argument_is(name: str) -> None:
    lines, space = TABLES[name]
    assert raw_errors([line for line in lines if not line.startswith(SLOW[:3])], space, STRANGE) == []


@pytest.mark.parametrize("name", TABLES)
def test_the_lines_are_right(name: str) -> None:
    lines, space = TABLES[name]
    for line in lines:
        if name == "bound" or not line.startswith(SLOW):
            str(eval(line, dict(space())))


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
