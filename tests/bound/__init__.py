"""Tests of `bound`, and the oracles that tests of `lowering` share."""
