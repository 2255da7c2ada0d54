"""Simplification: the cheapest of the expressions that are known to be equal, by a stated cost."""

from intset.simplify.cost import COST, Pricing, cost, weights
from intset.simplify.engine import MAX_ROUNDS, Rewrite, Simplifier, simplified

__all__ = ["COST", "MAX_ROUNDS", "Pricing", "Rewrite", "Simplifier", "cost", "simplified", "weights"]
