"""PyTorch's symbolic shapes: the facts of a `ShapeEnv`, and the function names of its terms.

Terms are sympy's: `intset.adapters.sympy` converts them and asks the questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import sympy

from intset.errors import InputError
from intset.expr import ShapeVar, Var, arguments, shown

Basic: TypeAlias = "sympy.Basic"
SympyFunctions: TypeAlias = "Mapping[str, Callable[..., Basic]]"


class ShapeEnvLike(Protocol):
    """The parts of PyTorch's `ShapeEnv` that are read; divisibilities, assertions and hints are read where present.

    Attributes
    ----------
    var_to_range: the range of each symbol, with `lower` and `upper`.
    replacements: terms that stand for symbols.
    guards: each with its condition `expr`.
    """

    @property
    def var_to_range(self) -> Mapping[Any, Any]: ...
    @property
    def replacements(self) -> Mapping[Any, Any]: ...
    @property
    def guards(self) -> Sequence[Any]: ...


class KnownShapes(NamedTuple):
    """What a shape environment knows of its integer symbols.

    ranges: (least, greatest) value of each symbol, both included.
    stated: divisibilities, guards and runtime assertions, each once.
    replacements: terms that stand for symbols.
    hints: values of symbols in the run that made the environment.
    functions, infinity: what answers are written with.
    """

    ranges: dict[Basic, tuple[object, object]]
    stated: list[Basic]
    replacements: dict[Basic, Basic]
    hints: dict[Basic, int]
    functions: SympyFunctions | None
    infinity: Basic


def known_shapes(shape_env: ShapeEnvLike) -> KnownShapes:
    """What `shape_env` knows, without symbols of floating point."""
    if not all(hasattr(shape_env, name) for name in ("var_to_range", "replacements", "guards")):
        raise arguments.refusal("a shape environment", "a ShapeEnv of PyTorch", shape_env)
    stated: list[Any] = [sympy.Eq(term, 0) for term in getattr(shape_env, "divisible", ())]
    stated += [guard.expr for guard in shape_env.guards]
    deferred = getattr(shape_env, "deferred_runtime_asserts", {})
    stated += [check.expr for checks in deferred.values() for check in checks]
    is_torch = type(shape_env).__module__.partition(".")[0] == "torch"
    return KnownShapes(
        {
            symbol: (known.lower, known.upper)
            for symbol, known in shape_env.var_to_range.items()
            if symbol.is_integer is not False and getattr(known, "is_int", True)
        },
        list(dict.fromkeys(stated)),
        dict(shape_env.replacements),
        {
            symbol: int(hint)
            for symbol, hint in getattr(shape_env, "backed_var_to_val", {}).items()
            if getattr(hint, "is_Integer", False)
        },
        torch_names() if is_torch else None,
        import_module("torch.utils._sympy.numbers").int_oo if is_torch else sympy.oo,
    )


def ranged_symbol(symbol: Basic, ends: tuple[object, object]) -> Var:
    """The variable of a symbol, declared within inclusive ends; `None` and infinities leave a side unbounded."""
    arguments.of_kind(sympy.Symbol, symbol, "a key of the ranges", "a symbol")
    what = f"the range of {symbol}"
    both = arguments.listed(ends, what, "a least and a greatest value")
    if len(both) != 2:
        raise InputError(f"{what} is a least and a greatest value, not {shown(ends)}")
    return ShapeVar(symbol.name, _limit(both[0], _LOWEST, what), _limit(both[1], _HIGHEST, what))


def _limit(end: Any, unbounded: tuple[str, ...], what: str) -> int | None:
    if end is None or str(end) in unbounded:
        return None
    return arguments.as_int(int(end) if getattr(end, "is_Integer", False) else end, what)


_LOWEST: Final = ("-oo", "-int_oo", "-inf")  # of sympy, PyTorch, floating point
_HIGHEST: Final = ("oo", "int_oo", "inf")


def torch_names() -> SympyFunctions:
    """PyTorch's shape functions by name; a remainder is `Mod` for nonnegative operands, else `PythonMod`."""
    own = import_module("torch.utils._sympy.functions")

    def remainder(a: Any, b: Any) -> Any:
        return (own.Mod if a.is_nonnegative and b.is_nonnegative else own.PythonMod)(a, b)

    names = ("FloorDiv", "CeilDiv", "Where", "Min", "Max", "PowByNatural")
    return {"Mod": remainder, **{name: getattr(own, name) for name in names}}


__all__ = ["Basic", "KnownShapes", "ShapeEnvLike", "SympyFunctions", "known_shapes", "ranged_symbol", "torch_names"]
