"""Domains: ways to describe sets of integers, behind one interface (`Domain`), found by name (`registry`).

Guarantee: an answer contains every value of the expression; a question is never refused by an exception.
"""
