"""Conversions between this library and others, one module for each; none is imported before it is asked for.

A module needs the library that it is named after, where it takes or gives that library's objects; `mlir` converts text
and needs nothing. Each is a table for `intset.Converter` or `intset.fold` and the meaning of that library's operations
where it differs from Python's.
"""
