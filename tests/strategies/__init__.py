"""Hypothesis strategies shared by the tests; contexts with expressions are in `intset.testing.strategies`."""
