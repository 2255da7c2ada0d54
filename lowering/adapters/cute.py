"""CuTe's text of layouts: `(4,8):(8,1)`, static sizes also as `_4`, symbolic ones by name."""

import re
from collections.abc import Mapping
from typing import Any, Final

from intset.context import Context
from intset.expr import Expr, IntLike, arguments, as_expr, shown
from intset.expr.parser import parse
from lowering.errors import LayoutError
from lowering.layout.strided import Layout, check_nesting

_TOKEN: Final = re.compile(r"\s*(?:(_?\d+)|\{([^{}]*)\}|([^\W\d]\w*)|([(),:]))")


def from_cute(text: str, sizes: Mapping[str, IntLike] | None = None, ctx: Context | None = None) -> Layout:
    """The layout of a text of CuTe.

    Parameters
    ----------
    text: shape and stride, or a shape alone for the compact layout.
    sizes: the size of each name in the text.
    ctx: ranges and facts of the sizes.

    Raises
    ------
    LayoutError: text of another form, or a name without a size.

    >>> from_cute("((_2,2),8):((1,_2),4)")(5)
    5
    """
    written = arguments.of_kind(str, text, "a layout of CuTe", "a text")
    reader = _TreeReader(written, arguments.mapped({} if sizes is None else sizes, "sizes"))
    shape = reader.tree()
    stride = reader.tree() if reader.take(":") else None
    reader.end()
    return Layout(shape, stride, ctx)


def to_cute(layout: Layout) -> str:
    """The text of a layout; a sum or product as a size is written in braces.

    >>> to_cute(Layout((4, (2, 4))))
    '(4,(2,4)):(1,(4,8))'
    """
    return str(arguments.of_kind(Layout, layout, "what is written", "a Layout"))


class _TreeReader:
    """Reads trees of sizes."""

    def __init__(self, text: str, sizes: Mapping[str, Any]) -> None:
        self.text, self.sizes, self.at = text, sizes, 0

    def _next(self) -> re.Match[str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise LayoutError(f"no layout of CuTe: {shown(self.text)} at {shown(self.text[self.at : self.at + 10])}")
        return found

    def take(self, sign: str) -> bool:
        """Move beyond a sign if it comes next."""
        if not self.text[self.at :].strip():
            return False
        found = self._next()
        if found.group(4) != sign:
            return False
        self.at = found.end()
        return True

    def tree(self) -> Any:
        open_modes: list[list[Any]] = []
        while True:
            if self.take("("):
                open_modes.append([])
                check_nesting(len(open_modes))
                continue
            part: Any = self._size()
            while open_modes:
                open_modes[-1].append(part)
                is_more = self.take(",")
                if self.take(")"):
                    part = tuple(open_modes.pop())
                elif is_more:
                    break
                else:
                    raise LayoutError(f"no layout of CuTe: {shown(self.text)} lacks a bracket")
            else:
                return part

    def _size(self) -> int | Expr:
        found = self._next()
        number, formula, name, sign = found.groups()
        if sign is not None:
            raise LayoutError(f"no layout of CuTe: {shown(self.text)} has {shown(sign)} where a size belongs")
        self.at = found.end()
        if number is not None:
            return int(number.lstrip("_"))
        return self._sized(name if name is not None else formula)

    def _sized(self, formula: str) -> Expr:
        known = {key: as_expr(value, f"the size {key}") for key, value in self.sizes.items()}
        if formula in known:
            return known[formula]
        e = parse(formula, known)
        if not isinstance(e, Expr):
            raise LayoutError(f"a name without a size in {shown(formula)}: pass sizes={{...}}")
        return e

    def end(self) -> None:
        if self.text[self.at :].strip():
            raise LayoutError(f"no layout of CuTe: {shown(self.text)} goes on with {shown(self.text[self.at :])}")


__all__ = ["from_cute", "to_cute"]
