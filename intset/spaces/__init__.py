"""Spaces of configurations: finitely many choices under constraints, computed with numpy."""
