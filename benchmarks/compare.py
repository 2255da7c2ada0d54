"""The comparison of domains on the index corpus: `python -m benchmarks.compare [--json]`.

`intset compare benchmarks/data/index_expressions.json` does the same: `score_corpus` is an entry point.
"""

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
    """Score domains, with `with_peers` also the installed analyzers; the scores are JSON."""
    return compare_rows(rows, domains, track, list(peers.installed_peers()) if with_peers else []).as_json()


if __name__ == "__main__":
    sys.exit(main(["compare", str(CORPUS), *sys.argv[1:]]))
