"""Simplification: the cheapest of the expressions that are known to be equal, by a stated cost."""

from intset.simplify.cost import COST, Pricing, cost, weights
from intset.simplify.engine import Rewrite, Simplifier, simplified

__all__ = ["COST", "Pricing", "Rewrite", "Simplifier", "cost", "simplified", "weights"]
