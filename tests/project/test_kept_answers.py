"""Objects that outlive their call give the same answer; memory of dropped programs is freed."""

import ast
import random
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import bound
import intset
import lowering
from benchmarks.memory import TARGET, measure
from bound import infer_bound, te
from intset import Cond, Context, Range, ShapeVar, Space, Var, using
from lowering import Graph, IndexMap, Source, contract, dataflow, lower_division, parse_nest, with_layouts
from tests.sweeps import daily

SMALL: dict[str, Any] = {"isl_operations": 1, "points": 0, "z3_rlimit": 1, "tiers": "linear"}
OTHER: dict[str, Any] = {"domain": "interval", "points": 1}


@dataclass
class Made:
    """An object with arguments for its methods.

    Attributes
    ----------
    blocks: its contexts, each with a fact for a block to add.
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


class _Asked:
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
    "Context": asking(SIZED, lambda ctx: _Asked(ctx.extended()), i < 1),
}  # fmt: skip
# Classes outside the table although they cache: their answers read neither facts nor budgets, or live for one call, or
# belong to an object of the table. A new class with a cache goes into the table, or into this list.
INSIDE: dict[str, str] = {
    "intset": """Assuming using weighed Block Frame Normalizer Linear Query Nonempty ShapeEnds DimensionBounds
        WhereNonempty ExprParser ScopedBlock Later ValueRows
        CertificateWriter CombinationSearch Oracle OrderDecider ProofQuestion RuleTable SearchBudget
        IslShape Budget CheckBudget Reader Translation Evaluation Expander Writer Origin WeakTable Lru
        ConeCutter CountByChamber Maximum Search Effort Question Encoder Workbench Account Simplifier Order Table
        RowBasis BitMap BitRows Columns Structure Held StoredQuestion Converter KernelTerms Decisions
        Members Member Factor ListedRows NameOrder Trials EarlyConditions SpaceParser
        Trace TracedQuestion AffineParser TermReader""",
    "bound": """DependencyGraph Footprint Outline InferenceState LatticeRegion LoopEnvironment
        SymbolicInterval Violations ScheduleSnapshot SharedNest
        Known Need Pass Propagation Folding ComputeOp Graph TensorDomain Loops Matching Scene
        Neighbours Schedule Stage Tensor CommReducer InstanceCount IterVarRelation""",
    "lowering": """Analyzer FallbackConfigEntity FreeVariables GenericFunction HybridModule HybridReader IRBuilder
        NDArray CNest CSyntax CStorage Identifiers PythonNest Graph AccessRelation InstanceSets
        Program StmtSite WrittenValues Scope DivisionLowering DivisionScope FormNest Part
        Naming OperandReader Grid Partial Search ContractDataflow Trace Metavariables
        Loops Counts Uses Spans WordSpans
        Change Breakpoint ReachingValues Known NamedCasts PassReport
        Worth FunctionFlow PartialEvaluator FunctionBuilder Lifetime CandidateNests
        Exploration OwnPool Pace Prepared ResultFolder PrimFuncReader PrimFuncWriter BlockWriter""",
}


def names_of(made: Made) -> list[str]:
    """The public names that can be called: without arguments, or with arguments from the table."""
    own = [name for name in dir(type(made.it)) if not name.startswith("_")]
    special = [name for name in ("__repr__", "__call__") if name in made.given or name == "__repr__"]
    return [name for name in (*own, *special) if made.given.get(name, ()) is not None]


def answered(made: Made, name: str) -> str:
    """Convert an answer or a refusal to text."""
    try:
        found = getattr(made.it, name)
        if callable(found):
            given = made.given.get(name) or ()
            found = found(*given)
        return shown(found)
    except intset.IntSetError as error:
        return f"{type(error).__name__}: {error}"


def shown(found: Any, depth: int = 0) -> str:
    if isinstance(found, Iterator):
        return shown(list(found), depth)
    text = re.sub(r" (object )?at 0x[0-9a-f]+", "", repr(found))
    if depth == 0 and isinstance(found, (intset.IntSet, intset.Region, intset.Proof)):
        inner = Made(found, [], {})
        more = ("is_exact", "is_tight", "notes", "count", "box", "ends", "used", "vacuous", "is_empty")
        text += "".join(f"; {name} {answered(inner, name)}" for name in more if hasattr(found, name))
    return text


@contextmanager
def disturbed(made: Made, rng: random.Random) -> Iterator[None]:
    """Blocks whose facts and configuration must not reach an object made outside."""
    with ExitStack() as blocks:
        for ctx, fact in (*made.blocks, *((made.it.ctx, i < 1) for _ in [0] if hasattr(made.it, "ctx"))):
            if rng.random() < 0.9:
                blocks.enter_context(ctx.assuming(fact))
        if rng.random() < 0.9 and not isinstance(made.it, _Asked):
            blocks.enter_context(using(**rng.choice([SMALL, SMALL, OTHER])))
        yield


def elsewhere(made: Made, name: str) -> str:
    """The answer in another thread."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(answered(made, name)))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(24), 24))
@pytest.mark.parametrize("kind", MAKERS)
def test_answers_do_not_depend_on_where_they_are_asked(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    at_once = MAKERS[kind]()
    names = names_of(at_once)
    assert len(names) > 1
    wanted = {name: answered(at_once, name) for name in names}
    made = MAKERS[kind]()
    rng.shuffle(names)
    for name in names:
        is_elsewhere = rng.random() < 0.2
        with disturbed(made, rng):
            found = elsewhere(made, name) if is_elsewhere else answered(made, name)
        assert found == wanted[name], (name, is_elsewhere)
    assert {name: answered(made, name) for name in names} == wanted, "what was asked inside a block stays there"


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind not in ("Context", "Graph", "Plan", "Contract")])
def test_what_is_made_in_a_block_answers_by_it_afterwards(kind: str) -> None:
    rng = random.Random(kind)
    budget = rng.choice([OTHER, {"points": 50}, {"isl_operations": 2_000}])
    with using(**budget):
        at_once = MAKERS[kind]()
        wanted = {name: answered(at_once, name) for name in names_of(at_once)}
    with using(**budget):
        made = MAKERS[kind]()
    names = names_of(made)
    rng.shuffle(names)
    found = {name: answered(made, name) for name in names}
    assert found == {name: wanted[name] for name in names}


def test_a_map_keeps_the_facts_of_the_block_it_was_made_in() -> None:
    ctx = Context({i: Range(0, 8)})
    outside = ctx.as_iter_map([i % 4 + n])
    with ctx.assuming(i < 4):
        inside = ctx.as_iter_map([i % 4 + n])
        assert outside.injective.status == "refuted"
    assert (outside.injective.status, inside.injective.status) == ("refuted", "proved")
    with inside.ctx.assuming(i < 0):
        assert inside.surjective.status == ctx.extended(facts=[i < 4]).as_iter_map([i % 4 + n]).surjective.status


QUESTIONS: list[Callable[[Context], Any]] = [
    lambda ctx: ctx.prove((i * j - j * i + (i * 6 + 3) % 4).ne(2)),
    lambda ctx: ctx.prove((i * j + i) % 2 < 2),
    lambda ctx: ctx.prove(i * i + j * j >= i * j),
    lambda ctx: ctx.bounds((i * 7 + j * 5) % 11),
    lambda ctx: ctx.as_iter_map([i + j * 41]).injective,
    lambda ctx: ctx.narrow(i * 2 + j < 9, [i]),
    lambda ctx: ctx.image((i + j, i - j)),
    lambda ctx: ctx.solve((i + j) % 3 < 1, i),
    lambda ctx: ctx.simplify((i * 4 + j % 4) // 4),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_unknown_under_small_budgets_is_not_kept(question: Callable[[Context], Any]) -> None:
    used, fresh = (Context({i: Range(0, 40), j: Range(0, 40)}) for _ in range(2))
    with using(**SMALL):
        question(used)
    assert shown(question(used)) == shown(question(fresh))


_MAKING = {"__init__", "__set_name__", "__new__", "__setstate__", "__post_init__", "_set", "_fill"}


def lazy_classes() -> dict[str, set[str]]:
    """For each package, the classes with a cached property or an attribute that a method sets."""
    found: dict[str, set[str]] = {}
    for package in (intset, bound, lowering):
        folder = Path(str(package.__file__)).parent
        for path in folder.rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and _is_lazy(node):
                    found.setdefault(package.__name__, set()).add(node.name)
    return found


def _is_lazy(node: ast.ClassDef) -> bool:
    for method in node.body:
        if not isinstance(method, ast.FunctionDef):
            continue
        decorators = [ast.unparse(one) for one in method.decorator_list]
        if "cached_property" in decorators:
            return True
        if method.name in _MAKING or any(one.endswith(".setter") for one in decorators):
            continue
        for inner in ast.walk(method):
            targets = inner.targets if isinstance(inner, ast.Assign) else []
            targets = [inner.target] if isinstance(inner, (ast.AugAssign, ast.AnnAssign)) else targets
            if any(map(_is_stored_in_self, targets)):
                return True
    return False


def _is_stored_in_self(target: ast.expr) -> bool:
    """Whether an assignment to `target` changes an attribute of `self`; an index may read one."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(map(_is_stored_in_self, target.elts))
    if isinstance(target, (ast.Attribute, ast.Subscript, ast.Starred)):
        inner = target.value
        is_self = isinstance(inner, ast.Name) and inner.id == "self"
        return isinstance(target, ast.Attribute) if is_self else _is_stored_in_self(inner)
    return False


def test_every_class_that_keeps_answers_is_in_the_table() -> None:
    tried = {kind.partition(",")[0] for kind in MAKERS}
    for package, found in lazy_classes().items():
        known = tried | set(INSIDE[package].split())
        assert found <= known, f"{package}: add a maker, or say why not: {sorted(found - known)}"


@pytest.mark.nightly
def test_neither_python_nor_the_process_grows_with_the_programs() -> None:
    first, *_, last = measure(12_000)  # the caches of proofs are full at the first reading
    assert last[1] <= TARGET * first[1]
    assert last[2] <= TARGET * first[2]
