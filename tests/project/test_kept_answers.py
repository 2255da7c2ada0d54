"""Objects that outlive their call, are pickled or are copied answer alike; memory of dropped programs is freed."""

import ast
import copy
import pickle
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import pytest

from benchmarks.memory import TARGET, measure
from intset import Context, IntSetError, Range, using
from tests.imports import FILES, tree
from tests.project.asked import (
    MAKERS,
    TABLES,
    UNPICKLED,
    Answers,
    Calls,
    ContextAnswers,
    Made,
    answered,
    answers,
    drawn,
    elsewhere,
    i,
    j,
    n,
    pickled,
    public_classes,
    samples,
    scheduled,
    shown,
)
from tests.sweeps import daily

SMALL: dict[str, Any] = {"isl_operations": 1, "points": 0, "z3_rlimit": 1, "tiers": "linear"}
OTHER: dict[str, Any] = {"domain": "interval", "points": 1}


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
        Program StmtSite Written WrittenValues Scope DivisionLowering DivisionScope FormNest Part
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


@contextmanager
def disturbed(made: Made, rng: random.Random) -> Iterator[None]:
    """Blocks whose facts and configuration must not reach an object made outside."""
    with ExitStack() as blocks:
        for ctx, fact in (*made.blocks, *((made.it.ctx, i < 1) for _ in [0] if hasattr(made.it, "ctx"))):
            if rng.random() < 0.9:
                blocks.enter_context(ctx.assuming(fact))
        if rng.random() < 0.9 and not isinstance(made.it, ContextAnswers):
            blocks.enter_context(using(**rng.choice([SMALL, SMALL, OTHER])))
        yield


def in_a_thread(made: Made, name: str) -> str:
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
            found = in_a_thread(made, name) if is_elsewhere else answered(made, name)
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
    for name in FILES:
        for node in tree(name).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and _is_lazy(node):
                found.setdefault(name.partition(".")[0], set()).add(node.name)
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


# -- pickles and copies -------------------------------------------------------------------------------------------


unwarned = pytest.mark.filterwarnings("ignore")


class Asked(NamedTuple):
    """Samples, their pickle before the first question, and their answers."""

    samples: dict[str, Made]
    before: bytes
    answers: Answers


@pytest.fixture(scope="module")
def asked() -> Asked:
    found = samples()
    before = pickled(found)
    return Asked(found, before, {label: answers(made) for label, made in found.items()})


@unwarned
def test_every_public_class_has_a_sample_with_the_same_answers_in_another_process(asked: Asked) -> None:
    its = [made.it for made in asked.samples.values()]
    missing = [kind.__name__ for kind in public_classes() if not any(isinstance(it, kind) for it in its)]
    assert sorted(missing) == sorted(UNPICKLED)
    before, after = elsewhere([asked.before, pickled(asked.samples)])
    assert different(asked.answers, before) + different(asked.answers, after) == []


@unwarned
@pytest.mark.parametrize("number", daily(range(len(TABLES)), len(TABLES)))
def test_calls_with_pickled_names_give_the_same_answers(number: int) -> None:
    names, lines = Calls(number).pickled()
    (found,) = elsewhere([(number, names, lines)])
    assert different({number: Calls(number).answers(lines)}, {number: found}) == []
    assert len(lines) > 50


def _pickled(it: Any) -> Any:
    return pickle.loads(pickle.dumps(it))


def _cloudpickled(it: Any) -> Any:
    return pickle.loads(pytest.importorskip("cloudpickle").dumps(it))


@unwarned
@pytest.mark.parametrize("again", daily([copy.deepcopy, copy.copy, _pickled, _cloudpickled], 4))
def test_copies_give_the_same_answers(again: Callable[[Any], Any], asked: Asked) -> None:
    found = {}
    for label, made in asked.samples.items():
        if again is copy.copy:
            it, given = copy.copy(made.it), made.given
        else:
            it, given = again((made.it, dict(made.given)))  # the arguments name the same variables
        found[label] = answers(Made(it, [], given))
    assert different(asked.answers, found) == []


@pytest.mark.nightly
@unwarned
@pytest.mark.parametrize(("draw", "seeds"), [(drawn, 1_200), (scheduled, 9_000)])
def test_ten_thousand_questions_of_each_class(draw: Callable[[int], dict[str, Made]], seeds: int) -> None:
    number: Counter[str] = Counter()
    for first in range(0, seeds, 50):
        some: dict[str, Made] = {}
        for seed in range(first, first + 50):
            with suppress(IntSetError):  # a schedule that is refused
                some |= {f"{label} {seed}": made for label, made in draw(seed).items()}
        before = pickled(some)
        wanted = {label: answers(made) for label, made in some.items()}
        for label, texts in wanted.items():
            number[label.rpartition(" ")[0]] += len(texts)
        for found in elsewhere([before, pickled(some)]):
            assert different(wanted, found) == []
        if min(number.values()) >= 10_000:
            break
    assert min(number.values()) >= 10_000


def different(wanted: Mapping[Any, Mapping[str, str]], found: Mapping[Any, Mapping[str, str]]) -> list[Any]:
    """The questions with other answers, with both."""
    return [
        (label, name, text, found[label].get(name))
        for label in wanted
        for name, text in wanted[label].items()
        if found[label].get(name) != text
    ]
