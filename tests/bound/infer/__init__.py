"""Tests of InferBound."""
