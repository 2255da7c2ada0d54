"""What holds for every test of the suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from intset.prover.cache import PROOFS

# A test fails over what it finds, never over how long a busy machine took to find it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture
def asked_anew() -> None:
    """Forget the proofs that earlier tests found: a mutation tester runs every mutant in a process that has them."""
    PROOFS.clear()
