"""Regions of a need while the pass works on them: boxes where arithmetic on ends is exact, else shapes."""
