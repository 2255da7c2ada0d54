"""The command line: `intset bounds|compare|lower|explain|plot|space|explore FILE ...`, `intset domains`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: the process's own); the exit status is returned."""
    from lowering.cli.app import run

    return run(arguments)


__all__ = ["main"]
