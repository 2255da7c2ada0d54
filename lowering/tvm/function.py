"""`tir.PrimFunc`: a loop nest as scripts ask for it, by its name in a module, with TVM's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bound.operation import buffer_tensor
from bound.tensor import Tensor
from bound.tir.build import Buffer
from bound.tir.value import Value
from intset.errors import InputError
from intset.expr.node import Var
from intset.expr.printer import shown
from lowering.build.function import shape_asserts, sizes_of
from lowering.nest.ir import Function, Stmt, Store, flat, seq, with_fields
from lowering.nest.walk import calls, statements
from lowering.passes import name_minima, rebase


@dataclass(frozen=True, eq=False, repr=False)
class ModuleFunction(Function):
    """A function that serves as its own module: `lower(...)["main"]` is the function itself.

    Attributes
    ----------
    attributes: what `with_attr` added.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: object) -> ModuleFunction:
        if str(name) not in (self.name, "main", "default_function"):
            raise InputError(f"the module has the function {self.name}, not {shown(name)}")
        return self

    @property
    def functions(self) -> dict[str, ModuleFunction]:
        """The functions of the module, by name."""
        return {self.name: self}

    @property
    def buffer_map(self) -> dict[Tensor, Tensor]:
        """Each tensor among the parameters."""
        return {tensor: tensor for tensor in self.params}

    @property
    def attrs(self) -> Mapping[str, Any] | None:
        """The attributes; `None` without any."""
        return self.attributes or None

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> ModuleFunction:
        """The function with more attributes."""
        more = {key: value} if isinstance(key, str) else dict(key)
        return with_fields(self, attributes={**self.attributes, **more})


class _ModuleType:
    """`IRModule({name: function})`: a function is its own module; `isinstance` knows every function."""

    def __call__(self, functions: Mapping[Any, Function]) -> ModuleFunction:
        if len(functions) != 1:
            raise InputError(f"a module has one function here, not {len(functions)}: build takes a list")
        return as_prim_func(*functions.values())

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, Function)

    def from_expr(self, function: Function) -> ModuleFunction:
        """The module of a function."""
        return as_prim_func(function)


IRModule = _ModuleType()


def as_prim_func(f: Function) -> ModuleFunction:
    """A function with TVM's fields."""
    if isinstance(f, ModuleFunction):
        return f
    made: ModuleFunction = object.__new__(ModuleFunction)
    stored = _stored(f.body)
    outputs = (*f.outputs, *(t for t in f.params if t in stored and t not in f.outputs))  # scripts overwrite inputs
    made.__dict__.update({**f.__dict__, "outputs": outputs, "attributes": {}})
    return made


def _stored(body: Stmt) -> set[Tensor]:
    stores = {s.tensor for s in statements(body) if isinstance(s, Store)}
    return stores | {t for call in calls(body) for t in call.writes}


def prim_func(params: Sequence[Any], body: Stmt, ret_type: object = None, *_: object, **more: object) -> ModuleFunction:
    """A function of its parameters and its body.

    Parameters
    ----------
    params: tensors, buffers and variables, in the order of calls.
    body: the nest; it starts at the shapes' checks that the answer has in front of it.
    """
    found = [buffer_tensor(p) if isinstance(p, Buffer) else p for p in params]
    for k, param in enumerate(found):
        if not isinstance(param, (Tensor, Var, Value)):
            raise InputError(f"parameter {k} of a function must be a tensor, buffer or variable, not {shown(param)}")
    tensors = tuple(p for p in found if isinstance(p, Tensor))
    stored = _stored(body)
    sizes, scalars = sizes_of(tensors, body)
    asked = tuple(p for p in found if isinstance(p, Var))
    values = tuple(p for p in found if isinstance(p, Value))
    f = Function(
        "main",
        tensors,
        tuple(t for t in tensors if t in stored),
        tuple(dict.fromkeys((*asked, *sizes))),
        tuple(dict.fromkeys((*values, *scalars))),
        body,
        labels={p.name: p for p in tensors},
    )
    checks = [check for check in shape_asserts(f, {}) if check.message not in _messages(body)]
    return as_prim_func(rebase(name_minima(f.with_body(seq(*checks, body)))))


def _messages(body: Stmt) -> set[str]:
    return {stmt.message for stmt in flat(body) if hasattr(stmt, "message")}
