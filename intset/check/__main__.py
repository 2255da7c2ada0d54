"""`python -m intset.check FILE`: check the certificates in FILE, one a line; `-` reads standard input.

They may be those of proofs and those of bounds.

Each claim is printed with the verdict. Ends with 0 when all are accepted, 1 when one is rejected, 2 when FILE or a line
in it cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from intset.check.bounds_text import KEY
from intset.check.budget import STEPS, CheckBudget
from intset.check.certificate import Certificate
from intset.check.claim import claim, claim_of_bounds, visible
from intset.check.ends import BoundsCertificate
from intset.check.text import is_a
from intset.errors import ParseError

ACCEPTED, REJECTED, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m intset.check FILE (one certificate a line; - for standard input)", file=sys.stderr)
        return UNREADABLE
    (name,) = arguments
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        lines = data.decode("utf-8").split("\n")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text in UTF-8"
        print(f"{visible(name)}: cannot be read: {reason}", file=sys.stderr)
        return UNREADABLE
    verdicts = [_verdict(name, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not verdicts:
        print(f"{visible(name)}: there is no certificate in it", file=sys.stderr)
    return max(verdicts, default=UNREADABLE)


def _verdict(name: str, number: int, line: str) -> int:
    try:
        cert = BoundsCertificate.from_text(line) if is_a(KEY, line) else Certificate.from_text(line)
    except ParseError as error:
        print(f"{visible(name)}:{number}: {visible(str(error))}", file=sys.stderr)
        return UNREADABLE
    budget = CheckBudget()
    accepted = cert.check(budget=budget)
    said = claim(cert) if isinstance(cert, Certificate) else claim_of_bounds(cert)
    verdict = "accepted" if accepted else "REJECTED"
    if budget.is_spent:
        verdict = f"REJECTED, because it takes more than {STEPS} steps to check"
    print(f"{verdict}: {said}", flush=True)
    return ACCEPTED if accepted else REJECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
