"""`IterVar`: a loop axis, an integer variable with a range and a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Final

from bound import dtypes
from intset.errors import InputError
from intset.expr import Expr, Node, Range, Var, arguments, as_expr, dag, ops, shown
from intset.expr.definedness import without_sizes


class IterType(IntEnum):
    """Kind of a loop; the numbers are TVM's."""

    DATA_PAR = 0
    THREAD_INDEX = 1
    COMM_REDUCE = 2
    ORDERED = 3
    OPAQUE = 4
    UNROLLED = 5
    VECTORIZED = 6
    PARALLELIZED = 7
    TENSORIZED = 8


_FIELDS: Final = ("dom", "iter_type", "thread_tag", "sizes", "ends_with_data")


class IterVar(Var):
    """A loop axis. It is a `Var`, so it occurs in expressions (`i * 2 + 1`, `A[i, j]`) directly.

    Parameters
    ----------
    dom: the declared range; `None` for an axis derived by a schedule.
    name: the label in print.
    iter_type: the kind of loop.
    thread_tag: `threadIdx.x` and the like for a thread axis, else empty.
    sizes: plain variables known to be sizes (at least 0) where the axis occurs, from shapes of indexed tensors.
    ends_with_data: whether data decides its last iteration and no number bounds it: a loop over it is as long as the
        largest integer of its type, unless a guard that reads the data becomes its end.
    """

    __slots__ = ("dom", "ends_with_data", "iter_type", "sizes", "thread_tag")
    # TVM's names for the kinds: `stage.iter_var_attrs[iv].iter_type == te.schedule.IterVar.Vectorized`
    DataPar: ClassVar = IterType.DATA_PAR
    ThreadIndex: ClassVar = IterType.THREAD_INDEX
    CommReduce: ClassVar = IterType.COMM_REDUCE
    Ordered: ClassVar = IterType.ORDERED
    Opaque: ClassVar = IterType.OPAQUE
    Unrolled: ClassVar = IterType.UNROLLED
    Vectorized: ClassVar = IterType.VECTORIZED
    Parallelized: ClassVar = IterType.PARALLELIZED
    Tensorized: ClassVar = IterType.TENSORIZED
    dom: Range | None
    iter_type: IterType
    thread_tag: str
    sizes: tuple[Var, ...]
    ends_with_data: bool

    def __new__(
        cls,
        dom: Range | None,
        name: str,
        iter_type: IterType = IterType.DATA_PAR,
        thread_tag: str = "",
        sizes: tuple[Var, ...] = (),
        ends_with_data: bool = False,
    ) -> IterVar:
        if not (dom is None or isinstance(dom, Range)) or not isinstance(iter_type, IterType):
            raise InputError(f"an IterVar has a Range and an IterType, not {shown(dom)} and {shown(iter_type)}")
        self = Var.__new__(cls, name)
        assert isinstance(self, IterVar)
        for name_of_field, value in zip(_FIELDS, (dom, iter_type, thread_tag, sizes, ends_with_data), strict=True):
            self.remember(name_of_field, value)
        return self

    def learn_sizes(self, sizes: Iterable[Var]) -> None:
        """Add variables known to be sizes where the axis occurs."""
        known = tuple(dict.fromkeys((*self.sizes, *sizes)))
        if len(known) > len(self.sizes):
            self.remember("sizes", known)

    def fields(self) -> Mapping[str, object]:
        return {name: getattr(self, name) for name in _FIELDS}

    def part(self, name: str, is_counted: bool = False) -> IterVar:
        """Return a new axis of the same kind and sizes, for a schedule to derive; data ends it unless it is counted."""
        return IterVar(None, name, self.iter_type, "", self.sizes, self.ends_with_data and not is_counted)

    def parts(self, factor: object) -> tuple[IterVar, IterVar]:
        """Return the outer and the inner axis of a split by a factor, or, without one, into a number of parts."""
        is_tile = factor is not None
        return self.part(f"{self.name}.outer", not is_tile), self.part(f"{self.name}.inner", is_tile)

    def fused(self, inner: IterVar) -> IterVar:
        """Return the axis of the fused iterations of this axis and an inner axis."""
        kind, sizes = max(self.iter_type, inner.iter_type), tuple(dict.fromkeys((*self.sizes, *inner.sizes)))
        ends_with_data = self.ends_with_data or inner.ends_with_data
        return IterVar(None, f"{self.name}.{inner.name}.fused", kind, "", sizes, ends_with_data)

    @property
    def var(self) -> IterVar:
        """The axis itself; TVM scripts write `axis.var` for the variable."""
        return self

    @property
    def is_reduce(self) -> bool:
        return self.iter_type is IterType.COMM_REDUCE


def whole_number(x: object) -> object:
    """Return a float that is a whole number, as scripts write `N / 32`, and a typed constant as integers."""
    if isinstance(x, Expr) and x.op is ops.CAST and x.args[0].is_const:
        return x.value
    return int(x) if isinstance(x, float) and x.is_integer() else x


def plain_index(index: Expr) -> Expr:
    """The index without casts of constants, and without casts to signed types at least as wide as `int32`."""
    if ops.CAST not in dag.operations(index):
        return index
    casts = [node for node in dag.postorder((index,)) if node.op is ops.CAST and _keeps_indices(node)]
    return index.substitute({as_expr(node): node.args[0] for node in casts})


def _keeps_indices(node: Node) -> bool:
    inner: Any = node.args[0]
    width, is_signed = node.data
    if inner.is_const:
        return dtypes.holds(dtypes.int_named(width, is_signed), inner.data)
    is_wide = is_signed and width >= dtypes.bits(dtypes.INDEX)
    return is_wide and dag.operations(inner).isdisjoint((ops.LOAD, ops.CAST))


def as_domain(dom: object, what: str) -> Range:
    """Convert a `Range`, a pair `(begin, end)`, or an extent to a `Range`."""
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise InputError(f"{what} must be a Range or a pair (begin, end), not {shown(dom)}")
        begin, end = (_end(x, f"{e} of {what}") for x, e in zip(dom, ("begin", "end"), strict=True))
        if begin.is_const and begin.data == 0:
            return Range(begin, end)
        if begin.is_const and end.is_const:
            return Range(begin, end.data - begin.data)
        return Range(begin, end - begin)
    return Range(0, _end(dom, what))


def _end(number: object, what: str) -> Expr:
    return plain_index(as_expr(whole_number(number), what))


def thread_axis(dom: object = None, tag: str = "", name: str = "") -> IterVar:
    """Declare a thread axis: `thread_axis("threadIdx.x")`, or with its extent `thread_axis((0, 32), "threadIdx.x")`."""
    if isinstance(dom, str):
        return thread_axis(None, dom, name)
    if not isinstance(tag, str) or not tag:
        raise InputError("thread_axis needs a tag such as 'threadIdx.x'")
    domain = None if dom is None else as_domain(dom, f"the domain of thread_axis({tag!r})")
    label = arguments.a_name(name, "the name of a thread axis") if not isinstance(name, str) or name else tag
    return IterVar(domain, label, IterType.THREAD_INDEX, tag)


def reduce_axis(dom: object, name: str = "rv", thread_tag: str = "") -> IterVar:
    """Declare a reduction axis: `reduce_axis((begin, end))`, or a `Range`."""
    domain = as_domain(dom, f"the domain of reduce_axis {shown(name)}")
    ends = (domain.min, domain.extent)
    (low, first), (extent, second) = (without_sizes(e) if isinstance(e, Expr) else (e, ()) for e in ends)
    return IterVar(Range(low, extent), name, IterType.COMM_REDUCE, thread_tag, (*first, *second))
