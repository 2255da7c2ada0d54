"""InferBound."""
