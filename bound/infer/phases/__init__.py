"""The phases of the InferBound document, under its names."""
