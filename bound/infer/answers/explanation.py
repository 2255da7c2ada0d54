"""Explanations of bounds as text: place, requests, regions, storage, and advice for lost precision.

Guarantee: a text changes no bound, and an end or a count that cannot be written in the budget is left out or said to be
unknown. Advice is found by a part of a footprint's note: a reworded note needs its row of `_ADVICE` reworded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bound.infer.answers.region import StageRegion
from bound.infer.answers.storage import Storage
from bound.infer.footprint import Footprint
from bound.infer.normalized import Sharing
from bound.infer.phases.infer_root_bound import InferenceState, Request
from bound.infer.phases.pass_down import StageBounds
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.schedule.simple import extent, low
from bound.tensor import Tensor
from intset.errors import IntSetError
from intset.expr import Cond, Expr, Range, Var, dag

_MAX_TEXT: Final = 240  # characters of one end or condition
_ADVICE: Final = (  # part of a note, advice
    ("not affine", "fix the sizes in that term with infer_bound(..., at=...), or bound them with ctx="),
    ("isl gave up", "allow more with intset.using(isl_operations=...), or fix the sizes with at="),
    ("could not be written", "fix the sizes with infer_bound(..., at=...)"),
    ("parts: its box", "attach the stage further in, where it is asked for less at a time"),
    ("several needs", "ask a domain with unions, as the default is (leave out domain=)"),
    ("bounded alone", "ask a domain that relates the coordinates, as the default does (leave out domain=)"),
    ("was not used", "allow more with intset.using(isl_operations=...)"),
)


class _LoopNames:
    """Names of loops, qualified by their stage; `Sharing.name` names shared ones."""

    def __init__(self, stages: Iterable[Stage], sharing: Sharing) -> None:
        self.sharing = sharing
        self.owner: dict[Var, Stage] = {iv: stage for stage in stages for iv in stage.all_iter_vars}
        self._full: dict[Var, Var] = {}

    def loop(self, iv: IterVar) -> str:
        stage = self.owner.get(iv)
        return iv.name if stage is None else self.sharing.name(stage, iv)

    def loops(self, loops: Sequence[IterVar]) -> str:
        return ", ".join(self.loop(iv) for iv in loops) or "none"

    def text(self, e: Expr | Cond) -> str:
        names: Mapping[Any, Any] = {v: self._named(v) for v in e.free_vars() if isinstance(v, IterVar)}
        written = str(dag.substitute(e, names))
        return written if len(written) <= _MAX_TEXT else f"{written[:_MAX_TEXT]}... ({len(written)} characters)"

    def all(self, conditions: Iterable[Expr | Cond]) -> str:
        return " and ".join(self.text(cond) for cond in conditions)

    def _named(self, v: IterVar) -> Var:
        if v not in self._full:
            self._full[v] = Var(self.loop(v))
        return self._full[v]


def explain(
    state: InferenceState,
    bounds: StageBounds,
    tensor: Tensor,
    storage: Storage,
    region: Callable[[Footprint], StageRegion],
) -> str:
    """A paragraph about one tensor: place, requests, regions, storage, lost precision and advice."""
    words = _LoopNames([b.stage for b in state.bounds.values()], state.sharing)
    lines = [f"{tensor.name}: {_attach_point(bounds, words)}"]
    requests = state.requests.get(tensor, ())
    for request in requests:
        lines += _request_lines(state, words, request, tensor)
    if bounds.stage.is_output:
        lines.append("  it is an output: all of it is needed")
    elif state.is_root(bounds, tensor):
        lines.append("  the caller receives it: all of it is needed")
    elif not requests:
        lines.append("  nobody reads it")
    required, computed = bounds.required[tensor], None if bounds.computed is None else bounds.computed_of(tensor)
    needed = _region(state, words, required) + _counts(region(required))
    lines.append(f"  required: {needed}")
    if computed is not None:
        computed_text = needed if computed is required else _region(state, words, computed) + _counts(region(computed))
        lines.append(f"  computed: {'what is required' if computed_text == needed else computed_text}")
    if bounds.guards:
        lines.append(f"  its body runs where {words.all(bounds.guards)}")
    folds = storage.folds or (None,) * len(storage.ranges)
    axes = zip(storage.allocated, folds, strict=True)
    extents = " x ".join(
        f"{words.text(extent(r))}{' in turn' if fold is not None else ''} from {words.text(low(r))}" for r, fold in axes
    )
    flat = "" if storage.flat is None else f", axes {_and(storage.flat.dims)} of the tensor as one"
    lines.append(f"  stored in {extents or 'one element'}{flat}{_instances(bounds, words)}")
    return "\n".join([*lines, *_lost_precision(bounds, tensor), *_undeclared(requests)])


def _and(parts: Sequence[object]) -> str:
    return f"{', '.join(map(str, parts[:-1]))} and {parts[-1]}"


def _attach_point(bounds: StageBounds, words: _LoopNames) -> str:
    if not bounds.path:
        return "computed at the root" if bounds.computed is not None else "given"
    path = [iv for _, iv in reversed(bounds.path)]
    relaxed = [iv for iv in path if iv not in bounds.fixed]
    shared = f"; the threads of {words.loops(relaxed)} share its storage" if relaxed else ""
    return f"computed inside {words.loops(path)}{shared}{_sharing_stages(path, words)}"


def _sharing_stages(path: Sequence[IterVar], words: _LoopNames) -> str:
    """The stages that share loops of the path, for each loop that several stages run."""
    shared = [(words.loop(iv), [s.name for s in words.sharing.stages.get(iv, ())]) for iv in path]
    return "".join(f"; {_and(names)} share {loop}" for loop, names in shared if len(names) > 1)


def _instances(bounds: StageBounds, words: _LoopNames) -> str:
    fixed = [v for v in bounds.fixed if isinstance(v, IterVar) and v not in bounds.slid]
    kept = f", kept while {words.loops(bounds.slid)} runs" if bounds.slid else ""
    return kept + (f", anew in every iteration of {words.loops(fixed)}" if fixed else "")


def _request_lines(state: InferenceState, words: _LoopNames, request: Request, tensor: Tensor) -> list[str]:
    """The access, its fixed and relaxed loops, and its footprint."""
    access, consumer = request.access, request.consumer
    extra = dict(access.extra)
    indices = ", ".join(_index(index, extra) for index in access.indices)
    when = f" where {' and '.join(map(str, access.conditions))}" if access.conditions else ""
    around = [iv for _, iv in reversed(consumer.path)]
    where = f", inside {words.loops(around)}," if around else ""
    fixed = [state.iv for state in reversed(request.loops) if state.is_fixed]
    relaxed = [state.iv for state in reversed(request.loops) if not state.is_fixed]
    lines = [f"  {consumer.stage.name}{where} reads {tensor.name}[{indices}]{when}"]
    if fixed or relaxed:
        lines.append(f"    loops fixed: {words.loops(fixed)}; relaxed: {words.loops(relaxed)}")
    return [*lines, f"    asks for {_region(state, words, request.footprint)}"]


def _index(index: Expr, extra: Mapping[Var, Range]) -> str:
    """An index as written in the formula; a region read at once as a slice."""
    inner = next((v for v in index.free_vars() if v in extra), None)
    if inner is None:
        return str(index)
    limits = extra[inner]
    start = dag.substitute(index, {inner: low(limits)})
    first = index.args[0] if index.op.name == "add" else start
    return f"{first} : + {limits.extent}"


def _region(state: InferenceState, words: _LoopNames, footprint: Footprint) -> str:
    try:
        box = footprint.hull(state.env)
        sides = " x ".join(f"[{words.text(side.low())}, {words.text(side.high())}]" for side in box.sides)
    except IntSetError as error:
        return f"a region whose ends are not known ({error})"
    where = words.all(box.guard())
    kind = "" if footprint.box is not None else "some of "
    return f"{kind}{sides or 'its only element'}{' where ' + where if where else ''}"


def _counts(region: StageRegion) -> str:
    """The number of elements, if countable within budget; "" if only numeric functions of sizes give it."""
    try:
        most, total = region.count_max(), region.count_total()
    except IntSetError:
        return ""
    if any(isinstance(number, Expr) and dag.opaque_terms(number) for number in (most, total)):
        return ""
    return f": {most} elements" if most == total else f": at most {most} elements at a time, {total} in all"


def _lost_precision(bounds: StageBounds, tensor: Tensor) -> list[str]:
    footprints = [bounds.required[tensor], *([] if bounds.computed is None else [bounds.computed])]
    notes = dict.fromkeys(note for footprint in footprints for note in footprint.notes)
    lines = []
    for note in notes:
        lines.append(f"  precision was given up: {note}")
        lines += [f"    {advice}" for part, advice in _ADVICE if part in note][:1]
    if not notes and not all(footprint.exact for footprint in footprints):
        lines.append("  precision was given up: the domain does not promise to be exact here")
        lines.append("    ask the default domain (leave out domain=), or fix the sizes with infer_bound(..., at=...)")
    return lines


def _undeclared(requests: Sequence[Request]) -> list[str]:
    """Tensors in an index without a declared range of values."""
    terms = [term for request in requests for term in dag.opaque_terms(*request.access.indices)]
    loaded = {
        getattr(term.data, "tensor", None) for term in terms if term.data.lower is None or term.data.upper is None
    }
    names = sorted(t.name for t in loaded if t is not None and t.value_range is None)
    return [
        f"  the index depends on {name}, any of whose values may occur: declare value_range= of {name} if it is less"
        for name in names
    ]
