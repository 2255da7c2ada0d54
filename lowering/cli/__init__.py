"""The command line: `intset bounds|compare|lower|explain|plot|space|explore FILE ...`, `intset domains`."""

from collections.abc import Sequence

from intset.expr.printer import show_by


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: the process's own); the exit status is returned."""
    from lowering.cli.app import run

    return run(arguments)


@show_by
def _notebook() -> object:
    from lowering.cli import plot

    return plot


__all__ = ["main"]
