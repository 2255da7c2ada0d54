"""Storage: the place of each tensor element in an array."""
