"""What holds for every test of the suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A test fails over what it finds, never over how long a busy machine took to find it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
