"""Work in several threads at once, in a forked process, and in a fresh one."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests import ROOT

T = TypeVar("T")


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """What `work(0)` to `work(count - 1)` return, each in a thread of its own, started together; their first error."""
    start = threading.Barrier(count)

    def run(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def forked(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked process, as JSON has it; the text of its error or signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            found = work()
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(data) if data else f"it ended with status {status}"


def ran(*command: object, **environment: str) -> str:
    """What a fresh Python prints, with these arguments and variables; it ends well."""
    given = [sys.executable, *map(str, command)]
    within = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(given, cwd=ROOT, env=within, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] or done.stderr[-2000:]
    return done.stdout
