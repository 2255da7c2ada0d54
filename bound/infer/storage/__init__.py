"""At which place of an array each element of a tensor is kept."""
