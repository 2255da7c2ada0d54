"""`ScopedBlock`: a `with` statement whose effect is local to the thread or task that entered it.

Blocks may end in any order, also from another thread or task. Invariant: the end of a block undoes its own effect.
So blocks save no previous state; entered blocks are listed in a context variable, and readers ignore those that ended
or that an interrupt separated from their `with` statement.
"""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from intset.errors import InputError

Owner: TypeAlias = tuple[int, object]  # thread and task
Entered: TypeAlias = tuple[weakref.ref[Any], ...]  # blocks, outermost first
T_co = TypeVar("T_co", covariant=True)


def entered_blocks(name: str) -> ContextVar[Entered]:
    """The list of entered blocks of one kind, one list for each thread, task and `contextvars.Context`."""
    return ContextVar(name, default=())


class ScopedBlock(ContextDecorator, Generic[T_co]):
    """One `with` block or decorator, reusable after it ended.

    Attributes
    ----------
    entered: the list of entered blocks of this kind.
    inherited: whether tasks started inside a block are inside it too, until it ends.
    """

    entered: ClassVar[ContextVar[Entered]]
    inherited: ClassVar[bool]
    _owner: Owner | None = None

    @property
    def is_entered(self) -> bool:
        """Whether the block is entered and not ended."""
        return self._owner is not None

    def enter(self) -> T_co:
        """Validate the block and return the value of `as`; called before the block takes effect."""
        raise NotImplementedError

    def __enter__(self) -> T_co:
        if self._owner is not None:
            raise InputError("this block has been entered and has not ended: make another one for inside of it")
        target = self.enter()
        self.entered.set((*_listed(self.entered.get()), weakref.ref(self)))
        self._owner = _here()  # active from here on
        return target

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self.entered.set(_listed(self.entered.get()))

    def _recreate_cm(self) -> Self:
        """A fresh block for each call of a decorated function."""
        block = copy.copy(self)
        block._owner = None
        return block

    @classmethod
    def in_force(cls) -> tuple[Self, ...]:
        """The active blocks of this thread or task, outermost first."""
        entered = cls.entered.get()
        if cls.inherited and len(entered) == 1:  # hot: runs for every query
            block = entered[0]()
            return () if block is None or block._owner is None else (block,)
        blocks = [block for ref in entered if (block := ref()) is not None]
        here = None if cls.inherited else _here()
        return tuple(block for block in blocks if (owner := block._owner) is not None and here in (None, owner))


def _listed(entered: Entered) -> Entered:
    """The blocks that have not ended."""
    return tuple(ref for ref in entered if (block := ref()) is not None and block._owner is not None)


def _here() -> Owner:
    current_task = getattr(sys.modules.get("asyncio"), "current_task", None)  # not imported: then there are no tasks
    try:
        return threading.get_ident(), current_task and current_task()
    except RuntimeError:  # no event loop runs in this thread
        return threading.get_ident(), None
