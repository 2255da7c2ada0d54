"""The tests, in rooms named after packages."""

import atexit
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Dozens of tests start a process. Where Python is told to write no bytecode, each of them would compile every module
# anew, which takes seconds. A run keeps the bytecode aside.
if sys.dont_write_bytecode and sys.pycache_prefix is None:
    _kept = tempfile.TemporaryDirectory(prefix="intset-bytecode-")
    atexit.register(_kept.cleanup)
    sys.dont_write_bytecode, sys.pycache_prefix = False, _kept.name
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = _kept.name
