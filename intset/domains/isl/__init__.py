"""Exact Presburger sets, through islpy."""
