"""Conversions between loop nests or kernels and those of other compilers, one module for each.

None is imported before it is asked for, and each needs the library that it is named after.
"""
