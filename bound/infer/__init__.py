"""InferBound: which elements of each tensor are needed, computed and stored, and the range of every loop."""
