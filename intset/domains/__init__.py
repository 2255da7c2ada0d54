"""The domains: each is one way to describe sets of integers."""
