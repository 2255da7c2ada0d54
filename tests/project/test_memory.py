"""What is kept of programs that were asked and dropped."""

from __future__ import annotations

import pytest

from benchmarks.memory import TARGET, measure


@pytest.mark.nightly
def test_what_python_allocates_does_not_grow_with_the_programs() -> None:
    first, *_, last = measure(6000)  # the caches of proofs are full at the first reading
    assert last[1] <= TARGET * first[1]
