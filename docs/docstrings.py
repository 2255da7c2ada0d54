"""Markdown of the project's docstrings, for the site: griffe calls `Docstrings` for every object it reads.

A section is a title underlined with hyphens; below it, `name: text` begins an item, and indented lines continue it. A
doctest becomes a fenced block.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

TITLE = re.compile(r"-{3,}\s*")
ITEM = re.compile(r"(`?[*\w][\w.*]*`?(?:, `?[*\w]+`?)*): (.*)")


def markdown(text: str) -> str:
    """The Markdown of a docstring."""
    lines, written, listing = text.splitlines(), list[str](), False
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line.lstrip().startswith(">>>") and (number == 0 or not lines[number - 1].strip() or not _code(written)):
            written += ["", "```python"]
        if _code(written):
            written += ["```", ""] if not line.strip() else [line.strip()]
        elif TITLE.fullmatch(below) and line.strip():
            listing = True
            written += ["", f"**{line.strip()}**", ""]
        elif TITLE.fullmatch(line):
            continue
        elif listing and (item := ITEM.fullmatch(line)):
            written.append(f"- `{item[1].strip('`')}`: {item[2]}")
        else:
            listing = listing and (not line.strip() or line.startswith("    "))
            written.append(line)
    return "\n".join([*written, "```"] if _code(written) else written)


def _code(written: list[str]) -> bool:
    """Whether the last fence is open."""
    return sum(line.startswith("```") for line in written) % 2 == 1


class Docstrings(griffe.Extension):
    """Rewrites docstrings when the module or class around them is complete, and tells the signatures of classes.

    Callers make a class whose docstring has parameters: it has the signature of `__init__` or `__new__`. A dataclass
    has its own; other classes are answers without constructors.
    """

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        is_made = cls.docstring is not None and "\nParameters\n---" in cls.docstring.value
        new = cls.members.get("__new__")
        if is_made and isinstance(new, griffe.Function) and "__init__" not in cls.members:
            cls.set_member("__init__", griffe.Function("__init__", parameters=new.parameters))
        elif not is_made and not any("dataclass" in str(one.value) for one in cls.decorators):
            cls.members.pop("__init__", None)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
