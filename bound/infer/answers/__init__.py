"""Answers of `BoundsMap` computed on demand: storage, regions, pieces, accesses outside tensors, explanations."""
