"""Abstract values as tuples of integers, with their lattices and transfer functions.

Guarantee: pure functions; every result contains the true image, and equals it where the function is declared optimal.
"""
