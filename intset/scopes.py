"""Blocks: what a `with` statement puts in force for the thread or task that entered it, until that block ends.

Blocks may end in any order, also from another thread or task: the end of a block takes back what it brought and nothing
else. That is why no block remembers what was in force before it. The blocks that were entered are listed, and whoever
asks what is in force reads the list; a block that has ended, or that an interrupt tore from its `with` statement, is no
longer on it.
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

Owner: TypeAlias = tuple[int, object]  # a thread, and the task that runs in it
Entered: TypeAlias = tuple[weakref.ref[Any], ...]  # blocks, the one entered last at the end
T_co = TypeVar("T_co", covariant=True)


def entered_blocks(name: str) -> ContextVar[Entered]:
    """Where one kind of blocks is listed; each thread, task and `contextvars.Context` has a list of its own."""
    return ContextVar(name, default=())


class Block(ContextDecorator, Generic[T_co]):
    """One `with` block, or a function decorated with it. It may be used again once it has ended.

    Attributes
    ----------
    entered: the list of the blocks of this kind.
    inherited: whether a task that is started inside of a block has the block as well, until the block ends.
    """

    entered: ClassVar[ContextVar[Entered]]
    inherited: ClassVar[bool]
    _owner: Owner | None = None

    @property
    def is_entered(self) -> bool:
        """Whether the block was entered and has not ended."""
        return self._owner is not None

    def enter(self) -> T_co:
        """Check what the block brings, and say what `as` gives; called before anything is in force."""
        raise NotImplementedError

    def __enter__(self) -> T_co:
        if self._owner is not None:
            raise InputError("this block has been entered and has not ended: make another one for inside of it")
        given = self.enter()
        self.entered.set((*_listed(self.entered.get()), weakref.ref(self)))
        self._owner = _here()  # in force from here on
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner = None
        self.entered.set(_listed(self.entered.get()))

    def _recreate_cm(self) -> Self:
        """Each call of a decorated function has a block of its own."""
        block = copy.copy(self)
        block._owner = None
        return block

    @classmethod
    def in_force(cls) -> tuple[Self, ...]:
        """The blocks that are in force here, the one entered last at the end."""
        entered = cls.entered.get()
        if cls.inherited and len(entered) == 1:  # asked for the configuration of every question
            block = entered[0]()
            return () if block is None or block._owner is None else (block,)
        blocks = [block for ref in entered if (block := ref()) is not None]
        here = None if cls.inherited else _here()
        return tuple(block for block in blocks if (owner := block._owner) is not None and here in (None, owner))


def _listed(entered: Entered) -> Entered:
    """Those of the blocks that have not ended."""
    return tuple(ref for ref in entered if (block := ref()) is not None and block._owner is not None)


def _here() -> Owner:
    current_task = getattr(sys.modules.get("asyncio"), "current_task", None)  # not imported: then there are no tasks
    try:
        return threading.get_ident(), current_task and current_task()
    except RuntimeError:  # no event loop runs in this thread
        return threading.get_ident(), None
