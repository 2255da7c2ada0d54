"""What holds for every test of the suite."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from intset.domains.isl.session import IslError
from intset.prover.proof import PROOFS
from tests import sweeps
from tests.compilers import compilers

# A test fails over a wrong result, never over a slow machine. The daily run draws the same
# examples everywhere, so that a newcomer's first run passes; the night draws new ones.
settings.register_profile("nightly", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("daily", settings.get_profile("nightly"), derandomize=True, database=None)
settings.load_profile("daily")


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile of the night for `-m nightly`; a daily run has no parameters of the night. Where Python may not
    write byte code, the processes that tests start share a folder of it, else each of them would compile all that it
    imports."""
    sweeps.is_night = config.option.markexpr != "not nightly"
    if config.option.markexpr == "nightly":
        settings.load_profile("nightly")
    if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="intset-bytecode-")
        config.add_cleanup(folder.cleanup)
        del os.environ["PYTHONDONTWRITEBYTECODE"]
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite takes a process for each core; a selection runs in one, where a debugger and prints work."""
    return (os.cpu_count() or 1) if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was loaded and collected stays until the end, and need not be looked at again: garbage collection took a
    tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor what the tests of a file left: their subjects are freed at once; tables and caches keep the rest."""
    if nextitem is not None and nextitem.path != item.path:
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Libraries compiled by tests go into a folder of the run: a home may not be writable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test which calls `run(..., backend="c")` on a machine without a C compiler."""
    try:
        return (yield)
    except Exception as error:
        if type(error).__name__ == "CompilerError" and not compilers():
            pytest.skip("no C compiler")
        raise


@pytest.fixture
def asked_anew() -> None:
    """Forget the proofs that earlier tests found: a mutation tester runs every mutant in a process that has them."""
    PROOFS.clear()


_REFUSED: list[str] = []


def _refused(error: IslError, *given: str) -> None:
    super(IslError, error).__init__(*given)
    _REFUSED.extend(given)


IslError.__init__ = _refused  # type: ignore[method-assign,assignment]


@pytest.fixture(autouse=True)
def refused() -> Iterator[list[str]]:
    """What isl refused, other than for its budget: nothing. Answers would hide it, since another tier finds them
    without isl, so a test that makes isl refuse empties this list."""
    _REFUSED.clear()
    yield _REFUSED
    assert not _REFUSED
