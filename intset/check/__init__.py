"""The checker of certificates: the small part of the program that has to be trusted when nothing else is.

It imports nothing that searches. A certificate is a statement (a goal, ranges, facts) with evidence; the checker reads
the statement, verifies the evidence by arithmetic of its own, or writes the question itself and asks isl or z3 again.

`python -m intset.check FILE` checks certificates in text, one a line.
"""

from intset.check.certificate import Certificate
from intset.check.checker import check_certificate
from intset.check.ends import BoundsCertificate

__all__ = ["BoundsCertificate", "Certificate", "check_certificate"]
