"""Simplification: extraction of the cheapest equal expression by the weights of `COST`."""

from intset.simplify.cost import COST, Pricing, cost, weights
from intset.simplify.engine import Rewrite, Simplifier, simplified

__all__ = ["COST", "Pricing", "Rewrite", "Simplifier", "cost", "simplified", "weights"]
