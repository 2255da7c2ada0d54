"""Domains: transfer functions, sets, the border to what is foreign."""
