"""Simplification: extraction of the cheapest equal expression by the weights of `COST`."""

from intset.simplify.engine import COST, Pricing, Rewrite, Simplifier, cost, simplified, weights

__all__ = ["COST", "Pricing", "Rewrite", "Simplifier", "cost", "simplified", "weights"]
