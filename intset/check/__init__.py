"""The certificate checker: the trusted base of all proofs.

Invariant: it imports no module that searches, and shares no code with the search. A certificate is a statement (goal,
ranges, facts) with evidence. The checker verifies evidence by its own arithmetic, or writes the isl or z3 query itself.

`python -m intset.check FILE` checks certificates in text, one a line.
"""

from intset.check.certificate import BoundsCertificate, Certificate, check_certificate

__all__ = ["BoundsCertificate", "Certificate", "check_certificate"]
