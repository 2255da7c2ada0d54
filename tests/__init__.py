"""The tests, in rooms named as the packages they are about."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
