"""Tests of `intset`."""
