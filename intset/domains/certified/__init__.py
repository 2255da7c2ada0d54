"""Bounds and small images certified without a domain of regions: by structure, by a witness, by enumeration.

Guarantee: an end called attained is attained; an enumerated image is the image.
"""
