"""`Opaque`: symbols for integers without structure, and the terms that read them."""

from __future__ import annotations

from typing import NoReturn

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import a_name, as_count, as_int
from intset.expr.intern import LOCK, ORIGIN, intern
from intset.expr.node import SERIAL, VARIABLES, Expr, IntLike, Term, as_expr
from intset.expr.text import shown


class Opaque:
    """A symbol for unknown integers, such as the elements of an index tensor.

    `table[i, j]` (or `table()` for a single unknown) is an opaque term: two terms are equal when symbol and indices
    are.

    Parameters
    ----------
    name: the label used in print.
    lower, upper: bounds of every element, both ends included; `None` where unknown.
    rank: number of indices.
    """

    __slots__ = ("__weakref__", "lower", "name", "rank", "serial", "uid", "upper")

    def __init__(self, name: str, rank: int = 0, lower: int | None = None, upper: int | None = None) -> None:
        self._fill(
            a_name(name, "the name of an opaque symbol"),
            as_count(rank, f"rank of Opaque({name!r})"),
            None if lower is None else as_int(lower, f"lower of Opaque({name!r})"),
            None if upper is None else as_int(upper, f"upper of Opaque({name!r})"),
            ORIGIN.next_uid(),
        )
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise InputError(f"Opaque({name!r}) has no value: lower={shown(self.lower)}, upper={shown(self.upper)}")

    def _fill(self, name: str, rank: int, lower: int | None, upper: int | None, uid: tuple[int, int]) -> None:
        self.name, self.rank, self.lower, self.upper, self.uid = name, rank, lower, upper, uid
        self.serial = next(SERIAL)
        VARIABLES.put(uid, self)

    @staticmethod
    def restored(name: str, rank: int, lower: int | None, upper: int | None, uid: tuple[int, int]) -> Opaque:
        with LOCK:
            known = VARIABLES.get(uid)
            if known is None:
                known = object.__new__(Opaque)
                known._fill(name, rank, lower, upper, uid)
            return known

    def __reduce__(self) -> tuple[object, ...]:
        return (Opaque.restored, (self.name, self.rank, self.lower, self.upper, self.uid))

    def __copy__(self) -> Opaque:
        return self

    def __deepcopy__(self, memo: object) -> Opaque:
        return self

    def __call__(self, *indices: IntLike) -> Expr:
        if len(indices) != self.rank:
            raise InputError(f"{self.name} takes {self.rank} indices, not {len(indices)}")
        return intern(Term, ops.LOAD, tuple(as_expr(index) for index in indices), self)

    def __getitem__(self, indices: IntLike | tuple[IntLike, ...]) -> Expr:
        return self(*(indices if isinstance(indices, tuple) else (indices,)))

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the opaque symbol {self.name} is not iterable")

    def __repr__(self) -> str:
        return self.name
