"""Samples of every public class with their questions, asked in this process or read from a pickle in another.

`python -m tests.project.asked` reads pickled samples from its input and writes their answers as JSON.
"""

import ast
import inspect
import itertools
import json
import math
import pickle
import re
import subprocess
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import bound
import intset
import lowering
from bound import infer_bound, replay, te, tir
from bound.replay import Reason, Repair, ReplayError
from intset import Context, Converter, Range, Space, Var, check, testing, upper_bound
from intset.domains.interval import IntervalDomain
from intset.expr import ops
from tests.project.right_calls import BOUND, INTSET, LOWERING, of_bound, of_intset, of_lowering, square
from tests.project.test_kept_answers import MAKERS, Made, shown
from tests.strategies.schedules import Program

Samples = Mapping[str, Made]
Answers = dict[str, dict[str, str]]

PACKAGES = (intset, check, testing, bound, te, tir, replay, lowering)
TABLES = ((INTSET, of_intset), (BOUND, of_bound), (LOWERING, of_lowering))
MOST = 2  # samples of one class, beside those with arguments for their methods
SLOW = (
    "testing.s",
    "testing.claims",
    "hoist_",
    "lowering.simplify(",
    "run(",
    "register(",
    "plan.run(",
    "h.run(",
    "to_c(",
)
SLOW += ("G.",)
UNPICKLED = ("using",)  # a block, which ends where it began
# methods that change what they are asked of
CHANGING = ("singleton", "double_buffer", "normalize", "popitem", "fuse", "reorder", "at_hand")
NUMBERS = ("serial", "uid", "glance")  # of variables: process-local numbers for order and caches
NUMBERED = r"\bp\d+\b"  # texts of isl number parameters by what was asked before
DUNDERS = ("__repr__", "__str__", "__len__", "__bool__", "__iter__", "__int__", "__float__")


def public_classes() -> set[type]:
    """The classes among the public names of the packages."""
    values = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    return {value for value in values if inspect.isclass(value)}


def body(ins: Any, outs: Any) -> Any:
    """The body of a tensor intrinsic."""
    return tir.call_packed("f", *ins, *outs)


def stated() -> Iterator[Any]:
    """Samples of what no table answers."""
    i, known = Var("i"), of_bound()
    yield IntervalDomain()
    yield Converter({ops.CONST: str}, str, str, kind=str, operands=list, variables={i: "i"})
    yield te.decl_tensor_intrin(known["Q4"].op, body)
    yield te.extern((4,), [known["A"]], body, name="e", dtype="float32")
    yield te.compute((4,), lambda j: te.decl_tensor_intrin(known["Q4"].op, body)(known["P4"]), name="U")
    yield from (known["scanned"], known["M"][i], tir.IterType.DATA_PAR, *testing.cases(1, 3))
    yield from (known["B"].op.body[0].data, known["B"].op.body[0].data.combiner)
    yield ReplayError("refused", (reason := Reason("order", known["B"], None, None, 1, 0),), ())
    yield from (reason, Repair("position", "a text", square))
    yield from (testing.Finding(1, "isl", "a case", "a text"), testing.Report("isl"), testing.setting(3))
    with Context({i: Range(0, 5)}).trace() as trace:
        Context({i: Range(0, 5)}).prove(i < 5)
    yield trace
    yield Space({"layout": ["NCHW", "NHWC"]})
    yield Space({"x": [1, 2, 4], "flag": [False, True], "layout": ["NCHW", "NHWC"]}, ["x <= 2"])
    yield from (kind("a text") for kind in sorted(_errors(), key=lambda kind: kind.__name__))


def _errors() -> list[type[BaseException]]:
    return [kind for kind in public_classes() if issubclass(kind, BaseException) and kind is not ReplayError]


def results(lines: Iterable[str], namespace: Callable[[], Mapping[str, Any]]) -> Iterator[Any]:
    """What lines answer, and the items of tuples, lists and mappings among these."""
    for line in lines:
        if not line.startswith(SLOW):
            found = eval(line, dict(namespace()))
            yield found
            if isinstance(found, (tuple, list)):
                yield from found
            elif isinstance(found, dict):
                yield from (*found, *found.values())


def parts(it: Any) -> Iterator[Any]:
    """The objects that are public attributes of a sample, and the items of lists of these."""
    for name in dir(it):
        if not name.startswith("_") and not callable(getattr(type(it), name, None)):
            try:
                value = getattr(it, name)
            except (AttributeError, intset.IntSetError):
                continue
            yield value
            if isinstance(value, (tuple, list)):
                yield from value


def samples() -> dict[str, Made]:
    """Samples by label: all objects with arguments, and at most `MOST` further ones per class."""
    found = {kind: maker() for kind, maker in MAKERS.items() if kind != "Context"}
    waiting = [*stated()]
    for lines, namespace in TABLES:
        waiting += [*namespace().values(), *results(lines, namespace)]
    waiting += [part for it in [*waiting, *(one.it for one in found.values())] if _is_own(it) for part in parts(it)]
    public, number = public_classes(), dict[type, int]()
    for it in {id(it): it for it in waiting if _is_own(it)}.values():
        kind = type(it)
        if not any(isinstance(it, one) for one in public) or not _pickles(it):
            continue
        number[kind] = number.get(kind, 0) + 1
        if number[kind] <= MOST:
            found[f"{kind.__module__}.{kind.__qualname__} {number[kind]}"] = Made(it, [])
    return found


def drawn(seed: int) -> dict[str, Made]:
    """Answers about a random context, and its space, by the class."""
    asked = testing.question(seed)
    i, j = asked.variables[:2]
    y, z = Var("y"), Var("z")
    ctx = Context(asked.ranges, asked.conds)
    e, goal = asked.expr, asked.goal
    pairs = ctx.relation((i,), (e, j))
    values = {var: list(range(*map(int, (r.min, r.min + r.extent)))) for var, r in asked.ranges.items()}
    point = tuple(column[0] for column in values.values())
    given: dict[str, dict[str, Any]] = {
        "Context": {"bounds": (e,), "prove": (goal,), "value_set": (e,), "image": ((e, j),), "simplify": (e,)}
        | {"fits": (e, 8), "explain": (goal,), "canonical": (e,), "relation": ((i,), (e,)), "as_iter_map": ((e,),)},
        "Space": {"minimize": (i - j * 3, 4), "nearest": (point,), "neighbours": (point, 2), "sample": None}
        | {"project": (i.name,), "restrict": (goal,), "table": ({"e": i * j},), "to_arrow": None, "to_pandas": None},
        "Expr": {"substitute": ({i: j},)},
        "Cond": {"substitute": ({i: j},)},
        "IntSet": {"condition": (y,), "contains": (y,), "at": ({},)},
        "Region": {"condition": ((y, z),), "conditions": ((y, z),), "project": ((0,),), "pieces": (), "at": ({},)},
        "Relation": {"condition": ((y,), (z, y)), "apply": (ctx.image((i,)),), "contains": ((0,), (0, 0)), "at": ({},)},
        "IterMap": dict.fromkeys(("padding_at", "arriving_at", "inverse"), ((y,),)),
    }
    its = {
        "Context": ctx,
        "Space": Space(values, asked.conds),
        "Expr": e,
        "Cond": goal,
        "Range": asked.ranges[i],
        "Bounds": ctx.bounds(e),
        "Region": ctx.image((e, j)),
        "Relation": pairs,
        "Proof": ctx.prove(goal),
        "UpperBound": upper_bound(i * i - j, ctx),
        "IterMap": ctx.as_iter_map((e,)),
        **{f"IntSet of {name}": ctx.value_set(e, domain=name) for name in intset.domain_names()},
    }
    return {label: Made(it, [], given.get(label.partition(" ")[0], {})) for label, it in its.items()}


def scheduled(seed: int) -> dict[str, Made]:
    """What is inferred and lowered of a random schedule, by the class."""
    program, lane = Program(seed, symbolic=bool(seed % 2)), Var("lane")
    tensor = program.outputs[0]
    bounds = infer_bound(program.schedule)
    f = lowering.lower(program.schedule, program.tensors, bounds=bounds)
    given = dict.fromkeys(
        ("required", "computed", "allocated", "storage", "explain", "guard", "is_computed"), (tensor,)
    )
    its = {
        "BoundsMap": bounds,
        "Function": f,
        "Dataflow": lowering.dataflow(f),
        "Layout": lowering.Layout((4, (2, seed % 3 + 1))),
        "AddressAnswer": lowering.alignment(lane * 4, Context({lane: Range(0, 8)})),
        "Schedule": program.schedule,
        "Stage": program.schedule[tensor],
        "Tensor": tensor,
        "Region of a stage": bounds.required(tensor),
    }
    return {label: Made(it, [], given if label == "BoundsMap" else {}) for label, it in its.items()}


def _pickles(it: Any) -> bool:
    """Whether an object is free of user functions local to another function."""
    try:
        pickle.dumps(it)
    except (AttributeError, pickle.PicklingError) as error:
        if "<locals>" in str(error) or "function mine" in str(error):
            return False
        raise
    return True


def _is_own(it: Any) -> bool:
    functions = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
    package = type(it).__module__.partition(".")[0]
    return (
        package in ("intset", "bound", "lowering")
        and type(it).__name__ not in UNPICKLED
        and not isinstance(it, functions)
    )


def names_of(made: Made) -> list[str]:
    """The questions to a sample: public names that take no arguments, or whose arguments it has."""
    own = [name for name in dir(made.it) if not name.startswith("_")]
    own += [name for name in DUNDERS if hasattr(type(made.it), name)] + ["__call__"] * ("__call__" in made.given)
    return [name for name in own if made.given.get(name, ()) is not None and name not in (*CHANGING, *NUMBERS)]


def told(value: Any) -> str:
    """An answer as a text; of a set its points, for isl writes one set in several ways."""
    if not isinstance(value, (intset.IntSet, intset.Region)) or value.params:
        return shown(value)
    try:
        box = [range(int(r.min), int(r.min) + int(r.extent)) for r in getattr(value, "box", ())]
        spans = box or [range(int(value.min), int(value.max) + 1)]
        if math.prod(map(len, spans)) <= 400:
            points = [p for p in itertools.product(*spans) if (p if box else p[0]) in value]
            return f"{type(value).__name__} {points} {value.is_exact} {value.notes}"
    except (intset.IntSetError, OverflowError, TypeError):
        pass
    return shown(value)


def answers(made: Made) -> dict[str, str]:
    """The answers to all questions, or the errors, as texts; a method that needs arguments is not asked."""
    found = {}
    for name in names_of(made):
        try:
            value = getattr(made.it, name)
            if callable(value):
                if not _takes(value, given := made.given.get(name) or ()):
                    continue
                value = value(*given)
            found[name] = told(value)
        except Exception as error:
            found[name] = re.sub("isl gave up.*", "isl gave up", f"{type(error).__name__}: {error}")
    return found


def _takes(method: Callable[..., Any], given: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(method).bind(*given)
    except (TypeError, ValueError):  # arguments are missing, or it is a method of a built-in class
        return False
    return True


class Calls:
    """The calls of a table with its names.

    Parameters
    ----------
    number: the table.
    names: a serialized copy per call in place of the table's objects, because a call may change them.
    """

    def __init__(self, number: int, names: bytes | None = None) -> None:
        self.lines, self.namespace = TABLES[number]
        self.names = names

    def pickled(self) -> tuple[bytes, list[str]]:
        """The names that pickle, and the calls that need no others."""
        names = {name: it for name, it in self.namespace().items() if _is_own(it)}
        kept = {name: it for name, it in names.items() if _pickles(it)}
        local = {name for name, it in self.namespace().items() if "<locals>" in getattr(it, "__qualname__", "")}
        lost = (names.keys() - kept.keys()) | local
        used = {
            line: {node.id for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)} for line in self.lines
        }
        return pickle.dumps(kept), [
            line for line in self.lines if lost.isdisjoint(used[line]) and not line.startswith(SLOW)
        ]

    def answers(self, lines: Iterable[str]) -> dict[str, str]:
        found = {}
        for line in lines:
            names = dict(self.namespace()) | (pickle.loads(self.names) if self.names else {})
            try:
                found[line] = re.sub(NUMBERED, "", shown(eval(line, names)))
            except Exception as error:
                found[line] = f"{type(error).__name__}: {error}"
        return found


def elsewhere(data: object) -> Any:
    """The answers to pickled questions in a new process."""
    command = [sys.executable, "-m", "tests.project.asked"]
    done = subprocess.run(command, input=pickle.dumps(data), capture_output=True)
    assert not done.returncode, done.stderr.decode()
    return json.loads(done.stdout)


def pickled(asked: Samples) -> bytes:
    """Samples with the arguments of their questions as one pickle."""
    return pickle.dumps({label: (made.it, dict(made.given)) for label, made in asked.items()})


def answered(samples_or_lines: Any) -> Answers | dict[str, str]:
    """The answers to samples as `pickled` writes them, or to `(table, names, lines)`."""
    if isinstance(samples_or_lines, tuple):
        number, names, lines = samples_or_lines
        return Calls(number, names).answers(lines)
    loaded = pickle.loads(samples_or_lines)
    return {label: answers(Made(it, [], given)) for label, (it, given) in loaded.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps([answered(part) for part in pickle.load(sys.stdin.buffer)]))
