"""Memory of dropped programs is freed."""

from __future__ import annotations

import pytest

from benchmarks.memory import TARGET, measure


@pytest.mark.nightly
def test_neither_python_nor_the_process_grows_with_the_programs() -> None:
    first, *_, last = measure(12_000)  # the caches of proofs are full at the first reading
    assert last[1] <= TARGET * first[1]
    assert last[2] <= TARGET * first[2]
