"""The names of `intset.check`, where certificates are checked; kept for those who import them from here."""

from intset.check.checker import check_certificate
from intset.check.polynomials import in_other_words
from intset.check.premises import meaning

__all__ = ["check_certificate", "in_other_words", "meaning"]
