"""Conversions between loop nests or kernels and those of other compilers, one module for each.

Each is imported on first use and needs the library of its name.
"""
