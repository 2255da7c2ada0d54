"""Tensor programs and schedules as text, so that a table of cases has a few lines a case.

A line is a definition in Python or a call of the schedule language; several calls stand in one line, apart by `;`.

    A = given(12, 20)                   # a placeholder; `n = var()` and `k = axis(0, 4)` are named in the same way
    B[i:12, j:20] = A[i, j] + 1         # te.compute of that shape, with these indices
    C split i 5 tail=shrink; B compute_at C i.outer

Of a call the words are the stage, the method, and loops of the stage by name, tensors, thread tags, numbers, options
and strings. A loop written after a tensor belongs to that tensor: `compute_at C i`. The schedule `s` is made before the
first call, of all that nothing reads, unless a line `schedule B C` names the outputs.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from bound import replay, te, tir
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import maximum, minimum

CALLED = re.compile(r"(\w+) ([a-z]\w*)((?: [^=()]\S*)*)")


def given(name: str, *shape: Any, dtype: str = "float32", **options: Any) -> Tensor:
    return te.placeholder(shape, dtype, name=name, **options)


def pointwise(name: str, *read: Tensor) -> Any:
    """Element by element, of the shape of the first."""
    return te.compute(read[0].shape, lambda *i: sum((t(*i) for t in read[1:]), read[0](*i)) + 1, name=name)


def reduced(name: str, read: Tensor, axis: int = -1, by: Any = te.sum) -> Any:
    """A reduction over one axis."""
    k = axis % read.ndim
    r = te.reduce_axis((0, read.shape[k]), f"r{k}")
    shape = [e for d, e in enumerate(read.shape) if d != k]
    return te.compute(shape, lambda *i: by(read(*i[:k], r, *i[k:]), axis=r), name=name)


def broadcast(name: str, read: Tensor, *places: int) -> Any:
    """Add axes of extent 1 at these positions of the result."""
    shape = list(read.shape)
    for k in sorted(places):
        shape.insert(k, 1)
    return te.compute(shape, lambda *i: read(*(v for k, v in enumerate(i) if k not in places)) * 1, name=name)


def over(name: str, first: Tensor, *others: Tensor) -> Any:
    """Element by element, with axes of one element of the others repeated."""

    def at(t: Tensor, i: Sequence[Any]) -> Any:
        ones = [getattr(e, "data", None) == 1 and t.shape is not first.shape for e in t.shape]
        return t(*(0 if one else v for v, one in zip(i, ones, strict=True)))

    return te.compute(tuple(first.shape), lambda *i: sum((at(t, i) for t in others), first(*i)), name=name)


NAMED = {
    **{f.__name__: f for f in (given, pointwise, reduced, broadcast, over)},
    "var": te.var,
    "axis": lambda name, first, end: te.reduce_axis((first, end), name),
}


class Written:
    """What a text defines: tensors, sizes and loops as attributes, and the schedule as `s`."""

    def __init__(self, text: str, **names: Any) -> None:
        self.names: dict[str, Any] = {
            **NAMED, "te": te, "tir": tir, "replay": replay, "maximum": maximum, "minimum": minimum,
            "where": tir.if_then_else, "sum_": te.sum, "max_": te.max, **names,
        }  # fmt: skip
        self.tensors: list[Tensor] = []
        self.threads: dict[str, Any] = {}
        for line in textwrap.dedent(text).strip().split("\n"):
            self._line(line)
        if self.tensors:
            self._scheduled()

    def __getattr__(self, name: str) -> Any:
        if name == "names" or name not in self.names:
            raise AttributeError(name)
        return self.names[name]

    def __call__(self, text: str) -> list[Any]:
        """The objects that are named."""
        return [self.names[name] for name in text.split()]

    def then(self, text: str) -> Written:
        """More lines of the same text."""
        for line in textwrap.dedent(text).strip().split("\n"):
            self._line(line)
        return self

    def shows(self, expected: Mapping[str, object], **more: Any) -> None:
        """Compare the values of expressions over the names of the text, and over `more` names."""
        for asked, value in expected.items():
            assert eval(asked, {**self.names, **more}) == value, asked

    def _scheduled(self) -> Schedule:
        if "s" not in self.names:
            read = {t.op for made in self.tensors for t in made.op.input_tensors}
            self.names["s"] = te.create_schedule(list(dict.fromkeys(t.op for t in self.tensors if t.op not in read)))
        schedule: Schedule = self.names["s"]
        return schedule

    def _line(self, line: str) -> None:
        for part in line.split("; "):
            if not part.strip():
                continue
            found = CALLED.fullmatch(part.strip())
            if part.strip().startswith("schedule "):
                self.names["s"] = te.create_schedule([self.names[t].op for t in part.split()[1:]])
            elif found is None:
                self._defined(part.strip())
            else:
                self._called(self._scheduled()[self.names[found[1]]], found[2], found[3].split())

    def _called(self, stage: Any, call: str, words: list[str]) -> None:
        loops, given, options = stage.leaf_iter_vars, [], {}
        for word in words:
            key, _, value = word.rpartition("=")
            named = {iv.name: iv for iv in loops}.get(value)
            if named is not None:
                operand = named
            elif isinstance(self.names.get(value), Tensor):
                operand = self._scheduled()[self.names[value]]
                loops = operand.leaf_iter_vars
            elif value in self.names:
                operand = self.names[value]
            elif call == "bind":
                operand = self.threads.setdefault(value, te.thread_axis(value))
            else:
                operand = int(value) if value.lstrip("-").isdigit() else value
            options.update({key: operand}) if key else given.append(operand)
        getattr(stage, call)(*given, **options)

    def _defined(self, text: str) -> None:
        if re.search(r"\bs[.\[,)]", text):
            self._scheduled()
        node: Any = ast.parse(text).body[0]
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Subscript):
            sides: list[Any] = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
            left = text.partition("=")[0].strip()
            name, indices = left.partition("[")[0], ", ".join(side.lower.id for side in sides)
            shape = "".join(f"{ast.unparse(side.upper)}, " for side in sides)
            text = f"{name} = te.compute(({shape}), lambda {indices}: {text.partition('=')[2].strip()}, name='{name}')"
        elif (
            isinstance(target, ast.Name) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in NAMED
        ):
            node.value.args.insert(0, ast.Constant(target.id))
            text = ast.unparse(node)
        before = dict(self.names)
        exec(text, self.names)
        for name, made in self.names.items():
            if before.get(name) is not made and "s" not in self.names:
                several = made if isinstance(made, (tuple, list)) else [made]
                self.tensors += [t for t in several if isinstance(t, Tensor) and t not in self.tensors]
