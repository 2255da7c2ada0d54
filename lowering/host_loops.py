"""Loops without a known number of iterations: one round is a nest, which a function of the host repeats.

Guarantee: an access of a round that leaves its tensor is refused or asserted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias
from weakref import finalize

from bound.tensor import PlaceholderOp
from bound.tir.build import ExternCall
from bound.tir.value import Value
from intset.errors import InputError
from intset.expr import Cond, Var, const, dag
from lowering.interpreter import run
from lowering.nest import ir
from lowering.nest.walk import calls, free_variables, statements, touched
from lowering.passes.stores.reaching_values import with_bounds_checks

Functions: TypeAlias = "dict[str, Callable[..., Any]]"


class While:
    """Runs `body` as often as `cond` holds before it.

    Attributes
    ----------
    function: one round; it stores in `flag` whether there was one.
    functions: gives the host functions that the round may call.
    """

    def __init__(self, cond: Cond | Value, body: ir.Stmt, functions: Callable[[], Functions]) -> None:
        self.functions = functions
        self.flag = PlaceholderOp("repeats", (const(1),), "int32").output(0)
        own = {s.tensor for s in statements(body) if isinstance(s, ir.Allocate)}
        round_ = ir.If(cond, ir.seq(ir.Store(self.flag, (const(0),), const(1)), body))
        self.tensors = tuple(t for t in touched(round_) if t not in own and t is not self.flag)
        free = free_variables(round_)
        sizes = tuple(v for v in free if isinstance(v, Var))
        scalars = tuple(v for v in free if not isinstance(v, Var))
        self.variables = (*sizes, *scalars)
        stores = [s.tensor for s in statements(body) if isinstance(s, ir.Store)]
        written = dict.fromkeys((*stores, *(t for call in calls(body) for t in call.writes)))
        self.writes = tuple(t for t in written if t in self.tensors)
        outputs = (*(t for t in self.tensors if t in self.writes), self.flag)
        whole = ir.Function("round", (*self.tensors, self.flag), outputs, sizes, scalars, round_)
        self.function = with_bounds_checks(whole)

    def __call__(self, *args: Any) -> None:
        import numpy as np

        count = len(self.tensors)
        arrays = {
            t: a if isinstance(a, np.ndarray) else a.data for t, a in zip(self.tensors, args[:count], strict=True)
        }
        numbers: dict[Any, Any] = dict(zip(self.variables, args[count:], strict=True))
        functions = self.functions()
        flag = np.ones(1, "int32")
        while flag[0]:
            flag[0] = 0
            run(self.function, {**arrays, self.flag: flag}, numbers, functions)


class LoopName(str):
    """The name of a loop; the loop is forgotten with the last nest that calls it. It is not saved with a nest."""

    def __reduce__(self) -> NoReturn:
        raise InputError("a nest with a while loop is not saved: build it again where it runs")


def repeated(cond: Cond | Value, body: ir.Stmt, functions: Functions, called: Callable[[], Functions]) -> ir.Evaluate:
    """The statement that repeats `body` while `cond` holds.

    Parameters
    ----------
    functions: host functions; the loop becomes one.
    called: gives them as the body calls them.
    """
    loop = While(cond, body, called)
    name = LoopName("while.{:x}.{}".format(*dag.ORIGIN.next_uid()))  # of this process alone
    functions[str(name)] = loop
    finalize(name, functions.pop, str(name), None)
    call = ExternCall("packed", name, (*loop.tensors, *loop.variables))
    return ir.Evaluate(call, loop.tensors, loop.writes)
