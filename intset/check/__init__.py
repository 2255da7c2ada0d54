"""The checker of certificates: the small part of the program that has to be trusted when nothing else is.

It imports nothing that searches. A certificate is a statement (a goal, ranges, facts) with evidence; the checker reads
the statement, verifies the evidence by arithmetic of its own, or writes the question itself and asks isl or z3 again.

`python -m intset.check FILE` checks certificates in text, one a line.
"""

from intset.check.bounds_certificate import BoundsCertificate
from intset.check.certificate import Certificate, check_certificate

__all__ = ["BoundsCertificate", "Certificate", "check_certificate"]
