"""Measurements of the package; each module is a command: `python -m benchmarks.compare`, `.cost`, `.sweep`."""
