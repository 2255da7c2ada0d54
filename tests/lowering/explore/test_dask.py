"""Explorations on Dask: a local cluster of two workers, of which one is killed, and the driver, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lowering import Exploration, explore
from tests import ROOT
from tests.lowering.explore.programs import SPACE, Logged, logged, same
from tests.lowering.explore.test_explore import rows, wait_for

pytest.importorskip("pyarrow", reason="explorations are written by pyarrow")
distributed = pytest.importorskip("distributed", reason="a cluster of Dask's: pip install '.[dask]'")


@pytest.fixture
def cluster() -> Iterator[Any]:
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as local, distributed.Client(local) as client:
        client.wait_for_workers(2)
        yield local


def test_a_killed_worker_and_a_killed_driver_lose_nothing(cluster: Any, tmp_path: Path) -> None:
    explore(same, SPACE, measure=Logged(str(tmp_path / "calm"), 0.0), out=tmp_path / "undisturbed")
    words = [str(tmp_path / "out"), str(tmp_path / "log"), cluster.scheduler_address, "0.05"]
    command = [sys.executable, "-m", "tests.lowering.explore.programs", *words]

    def driver() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    first = driver()
    wait_for(tmp_path / "log", 60)
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
    wait_for(tmp_path / "log", 150)
    first.kill()
    first.wait()
    assert len(Exploration(tmp_path / "out")) < len(SPACE)
    assert driver().wait() == 0
    assert rows(tmp_path / "out") == rows(tmp_path / "undisturbed")
    times = Counter(logged(tmp_path / "log"))
    assert set(times) == {(c["a"], c["b"]) for c in SPACE}
    assert sum(count - 1 for count in times.values()) <= 3 * (0.1 / 0.002)  # a batch of a worker, one of each


def test_an_executor_of_dask_gives_the_same_rows(cluster: Any, tmp_path: Path) -> None:
    with distributed.Client(cluster) as client:
        measure = Logged(str(tmp_path / "log"), 0.0)
        result = explore(same, SPACE, measure=measure, executor=client.get_executor(), out=tmp_path / "out")
    assert len(result) == len(SPACE) and sorted(logged(tmp_path / "log")) == [(c["a"], c["b"]) for c in SPACE]
