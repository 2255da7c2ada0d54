"""The names of `intset.check.certificate`, where certificates are; kept for those who import them from here."""

from intset.check.certificate import Certificate, Combination, Premise, Term

__all__ = ["Certificate", "Combination", "Premise", "Term"]
