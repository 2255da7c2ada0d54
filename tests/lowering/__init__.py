"""Tests of `lowering`."""
