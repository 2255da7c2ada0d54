"""Checks at the border to domains that were registered from outside.

Guarantee: an answer that passes has the form that the protocols ask for; any other raises a `DomainError` that
names the domain and the method.
"""
