"""The command line: `python -m intset`, and the command `intset`."""

import sys
from importlib import import_module


def main() -> int:
    """Run the command line; an interrupt during the import also prints one line."""
    try:
        command_line = import_module("lowering.cli.app")  # by name: the command line is in a layer above
    except KeyboardInterrupt:
        print("intset: error: interrupted", file=sys.stderr)
        return 130
    status: int = command_line.run()
    return status


if __name__ == "__main__":
    sys.exit(main())
