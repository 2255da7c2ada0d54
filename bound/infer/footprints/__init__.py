"""Footprints: the elements that accesses reach, as boxes where arithmetic on their ends is exact, else as shapes."""
