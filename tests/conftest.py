"""What holds for every test of the suite."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from intset.prover.cache import PROOFS
from tests.sweeps import without_nightly

# A test fails over what it finds, never over how long a busy machine took to find it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A daily run does not make the tests of the night, five for each of its own, only to deselect them."""
    if metafunc.config.option.markexpr == "not nightly":
        marks = metafunc.definition.own_markers
        marks[:] = [without_nightly(mark) if mark.name == "parametrize" else mark for mark in marks]


@pytest.fixture
def asked_anew() -> None:
    """Forget the proofs that earlier tests found: a mutation tester runs every mutant in a process that has them."""
    PROOFS.clear()
