"""The comparison of domains on the index corpus: `python -m benchmarks.compare [--json]`.

The same as `intset compare benchmarks/data/index_expressions.json`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lowering.cli import main

CORPUS = Path(__file__).parent / "data" / "index_expressions.json"

if __name__ == "__main__":
    sys.exit(main(["compare", str(CORPUS), *sys.argv[1:]]))
