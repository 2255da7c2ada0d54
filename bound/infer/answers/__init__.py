"""Answers of `BoundsMap` computed on demand: regions, pieces, accesses outside tensors, explanations."""
