"""The statement of a certificate in words: everything it speaks of, and nothing that a terminal would obey."""

from __future__ import annotations

from intset.check.certificate import Certificate
from intset.expr.node import Expr, Node, Var
from intset.expr.printer import to_text
from intset.expr.walk import free_vars
from intset.infinity import Infinity

MAX_WORDS = 2_000  # characters of one expression
_MAX_DIGITS = 1_000


def claim(cert: Certificate) -> str:
    """What the certificate claims, in one line."""
    shown = _Shown(cert)
    given = [f"{shown(var)} in [{shown.end(limits.min)}, {shown.end(limits.max)}]" for var, limits in cert.ranges]
    given += [shown(fact.condition) for fact in cert.facts]
    given += [said for var in shown.variables if (said := shown.declared(var))]
    premises = f" given {'; '.join(given)}" if given else ""
    if cert.vacuous:
        return f"nothing satisfies what is given:{premises or ' nothing'} ({cert.kind})"
    if cert.kind == "point":
        where = ", ".join(f"{shown(e)} = {integer(value)}" for e, value in cert.point.items())
        return f"not always: {shown(cert.goal)}{premises}; it fails at {where or 'the only point'}"
    return f"always: {shown(cert.goal)}{premises} ({cert.kind})"


class _Shown:
    """How the nodes of a certificate are shown: variables of one name are told apart, escape sequences are visible."""

    def __init__(self, cert: Certificate) -> None:
        ends = (end for _, r in cert.ranges for end in (r.min, r.extent) if isinstance(end, Expr))
        stated = (cert.goal, *(fact.condition for fact in cert.facts), *ends, *(var for var, _ in cert.ranges))
        self.variables = free_vars(*stated, *cert.point)
        self._labels: dict[Expr, Var] = {}
        met: dict[str, int] = {}
        for var in self.variables:
            met[var.name] = met.get(var.name, 0) + 1
            if met[var.name] > 1:
                self._labels[var] = Var(f"{var.name}#{met[var.name]}")

    def __call__(self, node: Node) -> str:
        """An expression or condition in words; what is very long is cut."""
        try:
            return visible(to_text(node.substitute(self._labels) if self._labels else node, limit=MAX_WORDS))
        except ValueError:
            return "(an expression with a number of too many digits to show)"

    def end(self, end: Expr | Infinity) -> str:
        return self(end) if isinstance(end, Expr) else "-inf" if end.sign < 0 else "inf"

    def declared(self, var: Var) -> str:
        low, high, step = var.declared()
        parts = [] if low is None else [f"at least {integer(low)}"]
        parts += [] if high is None else [f"at most {integer(high)}"]
        parts += [] if step == 1 else [f"a multiple of {integer(step)}"]
        return f"{self(var)} {', '.join(parts)}" if parts else ""


def integer(value: int) -> str:
    """A number, in hexadecimal where it is longer than anybody reads."""
    return str(value) if value.bit_length() <= 3 * _MAX_DIGITS else visible(hex(value))


def visible(words: str) -> str:
    """The text with everything that is not to be seen (escape sequences, line ends) written as Python would."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in words)
