"""Objects that keep answers and samples of every public class, with their questions, asked here or in another process.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import bound
import intset
import lowering
from bound import infer_bound, replay, te, tir
from bound.replay import Reason, Repair, ReplayError
from intset import Cond, Context, Converter, Range, ShapeVar, Space, Var, check, testing, upper_bound
from intset.domains.interval import IntervalDomain
from intset.expr import ops
from lowering import Graph, IndexMap, Source, contract, dataflow, lower_division, parse_nest, with_layouts
from tests.project.right_calls import BOUND, INTSET, LOWERING, of_bound, of_intset, of_lowering, square
from tests.strategies.schedules import Program

PACKAGES = (intset, check, testing, bound, te, tir, replay, lowering)
TABLES = ((INTSET, of_intset), (BOUND, of_bound), (LOWERING, of_lowering))
MOST = 2  # samples of one class, beside those with arguments for their methods
SLOW = tuple("testing.s testing.claims hoist_ lowering.simplify( run( register( plan.run( h.run( to_c( G.".split())
UNPICKLED = ("using",)  # a block, which ends where it began
# methods that change their object
CHANGING = ("singleton", "double_buffer", "normalize", "popitem", "fuse", "reorder", "at_hand")
NUMBERS = ("serial", "uid", "glance")  # of variables: process-local numbers for order and caches
NUMBERED = r"\bp\d+\b"  # texts of isl number parameters by what was asked before
DUNDERS = ("__repr__", "__str__", "__len__", "__bool__", "__iter__", "__int__", "__float__")

# -- objects that keep answers ----------------------------------------------------------------------------------------


@dataclass
class Made:
    """An object with arguments for its methods.

    Attributes
    ----------
    blocks: its contexts, each with a fact that a block adds.
    given: arguments by the name of the method; `None` for a method to skip.
    """

    it: Any
    blocks: list[tuple[Context, Cond]]
    given: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)


i, j, n, m = Var("i"), Var("j"), ShapeVar("n", lower=1), ShapeVar("m", lower=1)
y, z = Var("y"), Var("z")
SIZE: dict[str, tuple[Any, ...] | None] = {"at": ({n: 5},), "substituted": ({n: intset.const(5)},)}
AT = SIZE | {"condition": (y,), "conditions": ((y,),), "contains": (7,)}
AT2 = (
    SIZE
    | dict.fromkeys(("condition", "conditions"), ((y, z),))
    | {"project": ((0,),), "point_of": None, "decided": None}
)
NEST = """
def f(A: int32[n], B: int32[16], n):
    for i in [0, n):
        A[i] = i
    for i in [0, 4):
        for j in [0, 4):
            B[i * 4 + j] = A[i * 4 + j]
"""
PADDED = """
def total(A: int32[4, 4], B: int32[1]):
    B[0] = 0
    for k in [0, 4):
        for l in [0, 4):
            assume k * 4 + l < 14 or A[k, l] == 0
    for k in [0, 4):
        for l in [0, 4):
            B[0] = B[0] + A[k, l]
"""


Ranges = Mapping[Var, Range]
SIZED: Ranges = {i: Range(0, n), j: Range(0, 6)}


def asking(
    ranges: Ranges,
    ask: Callable[[Context], Any],
    *facts: Cond,
    assume: Sequence[Cond] = (),
    given: Mapping[str, tuple[Any, ...] | None] | None = None,
) -> Callable[[], Made]:
    """What a context answers; `facts` are what blocks add to it."""

    def made() -> Made:
        ctx = Context(ranges, assume=assume)
        return Made(ask(ctx), [(ctx, fact) for fact in facts], given or {})

    return made


def box(first: int, second: int) -> Ranges:
    return {i: Range(0, first), j: Range(0, second)}


def relation() -> Made:
    ctx = Context(box(9, 6))
    pairs = ctx.relation((i, j), (i * 6 + j - 1,))
    given = {
        "at": ({n: 5},),
        "condition": ((y, z), (y,)),
        "contains": ((1, 1), (6,)),
        "then": (pairs.inverse(),),
        "apply": (ctx.image((i, j)),),
    }
    return Made(pairs, [(ctx, i < 1)], given)


def iter_map(*exprs: Any, ranges: Ranges = SIZED) -> Callable[[], Made]:
    place = tuple(Var(f"p{k}") for k in range(len(exprs)))
    given = dict.fromkeys(("padding_at", "arriving_at", "inverse"), (place,))
    return asking(ranges, lambda ctx: ctx.as_iter_map(exprs), i < 1, n.eq(3), given=given)


def index_map(inverse: bool) -> Callable[[], Made]:
    def made() -> Made:
        ctx = Context({}, assume=[n >= 2])
        it = IndexMap(lambda a: [(a + 2) // 8, (a + 2) % 8], (n,), ctx)
        names = ("then", "packed_by", "onto", "renamed", "pack", "unpack")
        given: dict[str, Any] = dict.fromkeys(names)
        given |= {"__call__": (5,), "padding": (y, z)}
        return Made(it.inverse() if inverse else it, [(ctx, n.eq(14))], given | ({"padding": (y,)} if inverse else {}))

    return made


def bounds_map() -> Made:
    a = te.placeholder((n, 16), name="A")
    x = te.placeholder((9,), name="X")
    b = te.compute((n, 16), lambda p, q: a[p, q] + x[p] + x[(p * 3 + q) % 11], name="B")
    c = te.compute((n, 16), lambda p, q: b[p, 15 - q] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    ctx = Context({}, assume=[n >= 3])
    skipped = "at with_compact attached loop_name inside shared_loop is_slid stored stage attach_path"
    given: dict[str, Any] = dict.fromkeys(skipped.split())
    given |= {"space": ({n: [8, 16]}, ["n > 8"]), "traffic": (b,)}
    tensors = ("required", "computed", "allocated", "storage", "explain", "nest", "guard", "is_computed", "slid")
    given |= dict.fromkeys((*tensors, "shared_path", "computes_whole"), (b,)) | {"pieces": (b, 4)}
    return Made(infer_bound(s, ctx), [(ctx, n.eq(8))], given)


def space() -> Made:
    q, r = Var("q"), Var("r")
    it = Space({q: range(1, 40), r: [2, 4, 8], "pad": [False, True]}, where=[q * r <= 64, "pad or q % 4 == 0"])
    given: dict[str, Any] = dict.fromkeys(("to_arrow", "to_pandas"))
    given |= {"minimize": (q - r * 3, 4), "nearest": ((7, 4, True),), "neighbours": ((8, 4, True), 2), "sample": (5, 1)}
    given |= {"project": (("q", "pad"),), "restrict": (q % 3 > 0,), "table": ({"area": q * r},)}
    return Made(it, [(Context({q: Range(0, 9)}), q < 4)], given)


def stage_region() -> Made:
    found = bounds_map()
    b = next(stage.op.output(0) for stage in found.it.schedule.stages if stage.op.name == "B")
    return Made(found.it.required(b), found.blocks, AT2)


def flow() -> Made:
    f = parse_nest(NEST)
    given: dict[str, Any] = dict.fromkeys(("sources", "by_element", "held", "assumed", "dead", "not_told"), (8,))
    given |= {"touched": ("A",), "stored": (Source(i >= 0, "store", 4, (i,), path=(0, 0)),)}
    return Made(dataflow(f), [(f.ctx, f.sizes[0].eq(16))], given)


def padded() -> Any:
    return with_layouts(parse_nest(PADDED), {"A": IndexMap(lambda a: [a // 4, a % 4], (14,))})


def promised() -> Made:
    f = padded()
    return Made(contract(f), [(f.ctx, intset.const(0).eq(1))], {"promises": ({},)})


def graph() -> Made:
    f, it = padded(), Graph()
    it.output(it.call([f], it.input("x", (14,), "int32")))
    given: dict[str, Any] = dict.fromkeys(("input", "call", "output", "replace"))
    return Made(it, [(f.ctx, intset.const(0).eq(1))], given)


def plan() -> Made:
    found = graph()
    return Made(found.it.plan(), found.blocks, {"run": None})


class ContextAnswers:
    """Questions to a context; the budgets are the caller's."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @property
    def facts(self) -> Any:
        return self._ctx.facts

    @property
    def high(self) -> Any:
        return self._ctx.bounds(i)[1]


MAKERS: dict[str, Callable[[], Made]] = {
    "Proof": asking(
        {i: Range(0, 40), j: Range(0, n)}, lambda ctx: ctx.prove(i * 3 + j >= -2), n < 4, assume=[i * j < 50, n >= 2]
    ),
    "Proof, vacuous": asking(
        box(40, 9), lambda ctx: ctx.prove((i + j) % 5 < 3), i < 1, assume=[(i * 3 + j * 6).eq(7)]
    ),
    "Bounds": asking(
        SIZED, lambda ctx: ctx.bounds(i * 2 + j % 4), i < 1, given={"answering": None, "index": None, "count": None}
    ),
    "IntSet": asking(SIZED, lambda ctx: ctx.value_set(i * 3 + j % 4, domain="auto"), i < 1, given=AT),
    "IntSet, interval": asking(SIZED, lambda ctx: ctx.value_set(i * 3 + j % 4, domain="interval"), i < 1, given=AT),
    "IntSet, isl": asking(SIZED, lambda ctx: ctx.value_set(i * 3 + j % 4, domain="isl"), i < 1, given=AT),
    "ShapeSet": asking(box(60, 9), lambda ctx: ctx.value_set(i // 7 + j % 5 * 2, domain="isl"), i < 7, given=AT),
    "ShapeSet, joined": asking(box(60, 9), lambda ctx: ctx.value_set(i * 4) | ctx.value_set(j % 5), i < 7, given=AT),
    "Region": asking(SIZED, lambda ctx: ctx.image((i + j, i - j // 2)), i < 1, given=AT2),
    "ShapeRegion": asking(box(9, 8), lambda ctx: ctx.image((i // 3 + j % 5, i % 4 - j // 2)), i < 1, given=AT2),
    "ProductRegion": asking(SIZED, lambda ctx: ctx.image((i * 2, j), domain="interval"), i < 1, given=AT2),
    "Relation": relation,
    "IterMap, read": iter_map(i * 6 + j),
    "IterMap, not injective": iter_map(i % 4 + n, j),
    "IterMap, relations": iter_map(i + j, i - j),
    "IterMap, listed": iter_map(i * 7 % 11, ranges={i: Range(0, 11)}),
    "IterMap, one": iter_map(i % 4 + n, ranges={i: Range(0, 8)}),
    "Simplified": asking(
        box(40, 4), lambda ctx: ctx.simplify((i * 4 + j) // 4 + i % 64, steps=True), i < 1, assume=[n >= 7],
        given={"index": None, "count": None},
    ),
    "IndexMap": index_map(False),
    "IndexMap, inverse": index_map(True),
    "Space": space,
    "BoundsMap": bounds_map,
    "StageRegion": stage_region,
    "Dataflow": flow,
    "Lowered": asking({j: Range(0, 4)}, lambda ctx: lower_division(i // n + j // 3, ctx), i >= 0, assume=[n >= 2]),
    "Contract": promised,
    "Graph": graph,
    "Plan": plan,
    # an extended context shares the scope of its parent; later blocks stay apart
    "Context": asking(SIZED, lambda ctx: ContextAnswers(ctx.extended()), i < 1),
}  # fmt: skip


# -- samples of every public class -----------------------------------------------------------------------------------


Samples = Mapping[str, Made]
Answers = dict[str, dict[str, str]]


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
    """The questions to a sample: public names without arguments, or with arguments from the sample."""
    own = [name for name in dir(made.it) if not name.startswith("_")]
    own += [name for name in DUNDERS if hasattr(type(made.it), name)] + ["__call__"] * ("__call__" in made.given)
    return [name for name in own if made.given.get(name, ()) is not None and name not in (*CHANGING, *NUMBERS)]


def shown(found: Any, depth: int = 0) -> str:
    """An answer as a text. Sets, regions and proofs show their claims and notes, too."""
    if isinstance(found, Iterator):
        return shown(list(found), depth)
    text = re.sub(r" (object )?at 0x[0-9a-f]+", "", repr(found))
    if depth == 0 and isinstance(found, (intset.IntSet, intset.Region, intset.Proof)):
        more = ("is_exact", "is_tight", "notes", "count", "box", "ends", "used", "vacuous", "is_empty")
        text += "".join(f"; {name} {answered(Made(found, []), name)}" for name in more if hasattr(found, name))
    return text


def answered(made: Made, name: str) -> str:
    """An answer or a refusal as a text."""
    try:
        found = getattr(made.it, name)
        return shown(found(*(made.given.get(name) or ())) if callable(found) else found)
    except intset.IntSetError as error:
        return f"{type(error).__name__}: {error}"


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
        """Names of pickle, and calls without other arguments."""
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


def answered_again(samples_or_lines: Any) -> Answers | dict[str, str]:
    """The answers to samples as `pickled` writes them, or to `(table, names, lines)`."""
    if isinstance(samples_or_lines, tuple):
        number, names, lines = samples_or_lines
        return Calls(number, names).answers(lines)
    loaded = pickle.loads(samples_or_lines)
    return {label: answers(Made(it, [], given)) for label, (it, given) in loaded.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps([answered_again(part) for part in pickle.load(sys.stdin.buffer)]))
