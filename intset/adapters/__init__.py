"""Conversions between this library and others, one module per library; none is imported before it is asked for.

A module needs the library of its name wherever it reads or returns that library's objects; `mlir` converts text
and needs nothing. Each is a table for `intset.Converter` or `intset.fold` and the meaning of that library's operations
where it differs from Python's. `decisions` decides many conditions in one context, for all of them.
"""
