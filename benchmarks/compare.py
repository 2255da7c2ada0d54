"""The comparison of domains on the index corpus: `python -m benchmarks.compare [--json]`.

The same as `intset compare benchmarks/data/index_expressions.json`, which finds `score_corpus` by its entry point.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.scoring import Track, compare_rows
from lowering.cli import main
from lowering.cli.inputs import CorpusRow, Problem

CORPUS = Path(__file__).parent / "data" / "index_expressions.json"


def score_corpus(
    rows: Sequence[CorpusRow], domains: Sequence[str], track: Track[Problem], with_peers: bool
) -> dict[str, Any]:
    """The scores of domains, and of the other analyzers that are installed if `with_peers`, as JSON."""
    return compare_rows(rows, domains, track, list(peers.installed_peers()) if with_peers else []).as_json()


if __name__ == "__main__":
    sys.exit(main(["compare", str(CORPUS), *sys.argv[1:]]))
