"""`python -m intset.check FILE`: check the certificates of proofs and bounds in FILE, one per line; `-` is standard
input.

Each claim is printed with its verdict. Exit status: 0 all accepted, 1 one rejected, 2 FILE or a line is unreadable.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from intset.check.certificate import KEY, BoundsCertificate, Certificate, is_a
from intset.check.evidence import CHECK_STEPS, CheckBudget
from intset.errors import ParseError
from intset.expr import Expr, Infinity, Node, Range, Var, dag
from intset.expr.printer import name_text, to_text, visible
from intset.facts import Fact

CHECK_CHARACTERS: Final = 2_000  # characters of one expression that the command prints

_MAX_DIGITS = 1_000


def claim(cert: Certificate) -> str:
    """The claim of a certificate in one line, with all premises and no terminal control characters."""
    shown = _Shown((cert.goal, *cert.point), cert.facts, cert.ranges)
    premises = shown.premises()
    if cert.vacuous:
        return f"nothing satisfies what is given:{premises or ' nothing'} ({cert.kind})"
    if cert.kind == "point":
        where = ", ".join(f"{shown(e)} = {integer(value)}" for e, value in cert.point.items())
        return f"not always: {shown(cert.goal)}{premises}; it fails at {where or 'the only point'}"
    return f"always: {shown(cert.goal)}{premises} ({cert.kind})"


def claim_of_bounds(cert: BoundsCertificate) -> str:
    """The claim of a certificate of bounds in one line."""
    points = [at for at in (cert.at_lower, cert.at_upper) if at is not None]
    mentioned = [e for at in points for e in (*at, *at.values()) if isinstance(e, Expr)]
    ends = [end for end in (cert.low, cert.high) if isinstance(end, Expr)]
    shown = _Shown((cert.expr, *ends, *cert.keep, *mentioned), cert.facts, cert.ranges)
    if cert.empty is not None:
        return f"nowhere a value: {shown(cert.expr)}{shown.premises()}"
    said = f"always: {shown.end(cert.low)} <= {shown(cert.expr)} <= {shown.end(cert.high)}{shown.premises()}"
    for side, at in (("lower", cert.at_lower), ("upper", cert.at_upper)):
        if at is not None:
            values = ((shown(e), shown(v) if isinstance(v, Expr) else integer(v)) for e, v in at.items())
            said += f"; the {side} end at {', '.join(f'{e} = {v}' for e, v in values) or 'the only point'}"
    return said


class _Shown:
    """Text of a certificate's nodes: equal names get numbers, escape sequences become visible."""

    def __init__(self, roots: Sequence[Node], facts: Sequence[Fact], ranges: Sequence[tuple[Var, Range]]) -> None:
        self._facts, self._ranges = facts, ranges
        ends = (end for _, r in ranges for end in (r.min, r.extent) if isinstance(end, Expr))
        self.variables = dag.free_vars(*roots, *(fact.condition for fact in facts), *ends, *(var for var, _ in ranges))
        self._labels: dict[Expr, str] = {}
        met: dict[str, int] = {}
        for var in self.variables:
            met[var.name] = met.get(var.name, 0) + 1
            number = f"#{met[var.name]}" if met[var.name] > 1 else ""
            self._labels[var] = _name(var.name) + number

    def __call__(self, node: Node) -> str:
        """Text of a node, cut to `CHECK_CHARACTERS` characters."""
        try:
            return visible(to_text(node, limit=CHECK_CHARACTERS, names=self._labels))
        except ValueError:
            return "(an expression with a number of too many digits to show)"

    def premises(self) -> str:
        stated_premises = [
            f"{self(var)} in [{self.end(limits.min)}, {self.end(limits.max)}]" for var, limits in self._ranges
        ]
        stated_premises += [self(fact.condition) for fact in self._facts]
        stated_premises += [said for var in self.variables if (said := self.declared(var))]
        return f" given {'; '.join(stated_premises)}" if stated_premises else ""

    def end(self, end: Expr | Infinity) -> str:
        return self(end) if isinstance(end, Expr) else "-inf" if end.sign < 0 else "inf"

    def declared(self, var: Var) -> str:
        low, high, step = var.declared()
        parts = [] if low is None else [f"at least {integer(low)}"]
        parts += [] if high is None else [f"at most {integer(high)}"]
        parts += [] if step == 1 else [f"a multiple of {integer(step)}"]
        return f"{self(var)} {', '.join(parts)}" if parts else ""


def _name(name: str) -> str:
    """A name, quoted unless it is an ASCII identifier; other alphabets have lookalike letters."""
    return name_text(name) if name.isascii() else ascii(name)


def integer(value: int) -> str:
    """A number; hexadecimal beyond `_MAX_DIGITS` decimal digits."""
    return str(value) if value.bit_length() <= 3 * _MAX_DIGITS else hex(value)


# -- command -----------------------------------------------------------------------------------------------------------


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
        verdict = f"REJECTED, because it takes more than {CHECK_STEPS} steps to check"
    print(f"{verdict}: {said}", flush=True)
    return ACCEPTED if accepted else REJECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
