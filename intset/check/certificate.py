"""`Certificate`: a proof as data for the independent checker, and as sentences for readers; `check_certificate`.

linear  a Farkas combination for each way in which the goal could fail: multiples of premises whose sum is a negative
        constant although each premise is nonnegative (Schrijver, *Theory of Linear and Integer Programming*, section
        7.3; with products of premises, the Positivstellensatz of Krivine and Stengle), split by branch and bound if
        needed
bits    sums of rows over F2, the bits of equations among the facts, for each bit of what the goal compares
isl     the violating points as a set in isl's language, claimed to be empty
points  a box, all of whose points were evaluated
z3      the negated goal and the premises as SMT-LIB 2 text, claimed to be unsatisfiable
point   a point that refutes the goal

A `BoundsCertificate` has such evidence for both ends of a set, part by part.

The text of either is one JSON line with a node table, in which rows refer to earlier rows. Variables carry label,
declarations and uid: equal names stay distinct, and reading in the writing process yields the same variables.
Guarantee: reading builds nodes through the public constructors, and raises ParseError for text that no program could
have written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from intset.check import evidence
from intset.check.bit_rows import check_bits
from intset.check.evidence import CheckBudget, Combination, Premise, WeightedProduct, are_facts, are_ranges
from intset.check.solvers import check_isl, check_z3
from intset.errors import BudgetError, InputError, ParseError
from intset.expr import Cond, Expr, Node, Range, ShapeVar, Var, arguments, as_expr, const, dag, ops
from intset.expr.build import Opaque, logical_and
from intset.expr.definedness import asserted_parts, definedness
from intset.expr.evaluate import as_width
from intset.expr.node import NEG_INF, POS_INF, Infinity, PlainVar, make, truth
from intset.expr.printer import Displayed, number_text, short_number, to_text
from intset.expr.range import declared_conditions, range_conditions
from intset.facts import ASSERTED, PROVENANCES, Fact


class StatedAssumptions(Protocol):
    """Ranges and facts that a certificate may use: a `Context`, or the part of one that a larger certificate states."""

    @property
    def ranges(self) -> Mapping[Var, Range]: ...

    @property
    def facts(self) -> tuple[Fact, ...]: ...


@dataclass(frozen=True, eq=False)
class Certificate(Displayed):
    """Evidence that `goal` is always true; for kind "point", that it fails; for vacuous claims, that no point exists.

    Guarantee: if `check()` accepts, the claim is true, whatever produced the certificate.

    Attributes
    ----------
    kind: "linear", "bits", "isl", "points", "z3", or "point" for a refuted goal.
    goal: the condition in question.
    vacuous: claim that facts and ranges exclude every point; the goal is ignored.
    facts, ranges: available premises.
    combinations: for kind "linear", one per failing case of the goal.
    text: for kinds "bits", "isl" and "z3".
    count: for kind "points", the number of points evaluated.
    point: for kind "point".
    """

    kind: str
    goal: Cond
    vacuous: bool = False
    facts: tuple[Fact, ...] = ()
    ranges: tuple[tuple[Var, Range], ...] = ()
    combinations: tuple[Combination, ...] = ()
    text: str = ""
    count: int = 0
    point: Mapping[Expr, int] = field(default_factory=dict)

    @property
    def terms(self) -> tuple[tuple[int, tuple[Premise, ...]], ...]:
        """For kind "linear": (multiplier, premises) of all cases in order."""
        leaves = (leaf for one in self.combinations for leaf in one.leaves())
        return tuple((term.factor, term.premises) for leaf in leaves for term in leaf.terms)

    def check(self, ctx: StatedAssumptions | None = None, budget: CheckBudget | None = None) -> bool:
        """Whether the checker accepts; with `ctx`, also whether the context states the ranges and facts.

        `budget` limits the steps; `budget.is_spent` tells exhaustion from rejection.
        """
        return check_certificate(self, ctx, budget)

    def to_text(self) -> str:
        """The certificate as one line of text, which `from_text` reads."""
        writer = CertificateWriter()
        body = writer.certificate(self)
        return dump({"certificate": VERSION, "nodes": writer.rows, **body})

    @classmethod
    def from_text(cls, text: str) -> Certificate:
        """Parse a certificate.

        Raises
        ------
        ParseError: malformed text, or a variable whose uid belongs to a different variable here.
        """
        table = load(text, "certificate")
        cert = cls(**CertificateReader(table.pop("nodes", None)).certificate(table))
        if not evidence.is_well_formed(cert):
            raise ParseError("the fields of the certificate do not fit its kind")
        return cert

    def __repr__(self) -> str:
        what = "nothing satisfies what is given" if self.vacuous else to_text(self.goal, limit=200)
        return f"<Certificate {'not always: ' if self.kind == 'point' else ''}{what} by {self.kind}>"

    def words(self) -> tuple[str, ...]:
        """The certificate in sentences."""
        if self.kind == "linear":
            if not self.combinations:
                return ("Nothing has to be shown: the condition is true as it stands.",)
            return tuple(line for one in self.combinations for line in evidence.combination_words(one))
        if self.kind == "bits":
            return ("Rows over F2, one for each bit, sum to what the goal compares:", f"  {evidence.clip(self.text)}")
        if self.kind == "isl":
            return (
                "isl finds that this set, the points where it would fail, is empty:",
                f"  {evidence.clip(self.text)}",
            )
        if self.kind == "points":
            return (f"All {number_text(self.count)} points of the box were tried.",)
        if self.kind == "z3":
            size = self.text.count("(assert")
            return (f"z3 finds the negated condition and its facts unsatisfiable ({size} assertions in SMT-LIB 2).",)
        where = ", ".join(f"{e} = {number_text(k)}" for e, k in self.point.items())
        return (f"It fails at {where or 'the only point'}.",)

    def __str__(self) -> str:
        return "\n".join(self.words())


# -- checking ----------------------------------------------------------------------------------------------------------


_CHECKS: Mapping[str, Callable[[Certificate, CheckBudget], bool]] = {
    "linear": evidence.check_linear,
    "bits": check_bits,
    "isl": check_isl,
    "points": evidence.check_points,
    "z3": check_z3,
    "point": evidence.check_point,
}


def check_certificate(
    cert: Certificate, ctx: StatedAssumptions | None = None, budget: CheckBudget | None = None
) -> bool:
    """Check form, evidence and, with `ctx`, provenance of a certificate.

    A proof may use a subset of the context's facts and ranges. A refutation must state all of them: a point outside an
    omitted range refutes nothing. Checks that exceed the budget reject, with `budget.is_spent` set.
    """
    if not hasattr(cert, "combinations"):
        raise arguments.refusal("what is checked", "a Certificate", cert)
    checked_context(ctx)
    if not evidence.is_well_formed(cert):
        return False
    budget = CheckBudget() if budget is None else budget
    try:
        return (ctx is None or belongs(cert, ctx)) and _CHECKS[cert.kind](cert, budget)
    except BudgetError:
        budget.is_spent = True
        return False


def checked_context(ctx: object) -> None:
    """Raise InputError unless `ctx` is None or has ranges and facts."""
    if ctx is not None and not (hasattr(ctx, "ranges") and hasattr(ctx, "facts")):
        raise arguments.refusal("ctx", "a Context", ctx)


def belongs(cert: Certificate, ctx: StatedAssumptions) -> bool:
    """Whether the context states the certificate's ranges and facts, or the goal asserts the facts."""
    ranges, facts = ctx.ranges, set(ctx.facts)
    stated = tuple(fact.condition for fact in facts)
    evaluated = stated if cert.vacuous else (cert.goal, *stated)
    asserted = asserted_parts(evaluated)
    if not all(fact in facts or (fact.provenance == ASSERTED and fact.condition in asserted) for fact in cert.facts):
        return False
    if not all(ranges.get(var) == limits for var, limits in cert.ranges):
        return False
    return cert.kind != "point" or (facts <= set(cert.facts) and len(cert.ranges) == len(ranges))


At: TypeAlias = Mapping[Expr, "int | Expr"]


class Stated(NamedTuple):
    """Ranges and facts available to the parts of a certificate, in place of a context."""

    ranges: Mapping[Var, Range]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, eq=False)
class BoundsCertificate(Displayed):
    """Evidence for `low <= e <= high`, and witnesses that attain the ends.

    Attributes
    ----------
    expr, keep, low, high: the question and its answer.
    ranges, facts: all assumptions of the question.
    lower, upper: certificates of `e >= low` and `e <= high`; None for infinite ends.
    at_lower, at_upper: witness points of attained ends, as integers or as expressions of the sizes, valid for all sizes
        with a nonempty set; None without a witness.
    attained: the certificates of `at_lower` and `at_upper`. Without sizes: `e != end` fails at the point. With sizes:
    the
        point lies in the set and `e` equals the end there, whenever the set is nonempty.
    empty: for an empty set, the certificate that no point exists.
    """

    expr: Expr
    low: Expr | Infinity
    high: Expr | Infinity
    keep: tuple[Var, ...] = ()
    ranges: tuple[tuple[Var, Range], ...] = ()
    facts: tuple[Fact, ...] = ()
    lower: Certificate | None = None
    upper: Certificate | None = None
    at_lower: At | None = None
    at_upper: At | None = None
    attained: tuple[Certificate | None, Certificate | None] = (None, None)
    empty: Certificate | None = None

    def __repr__(self) -> str:
        if self.empty is not None:
            return f"<BoundsCertificate {_short(self.expr)} has no value, by {self.empty.kind}>"
        shown = [f"{name} end by {part.kind}" for name, part in self._parts().items() if part is not None]
        ends = f"{_short(self.low)} <= {_short(self.expr)} <= {_short(self.high)}"
        return f"<BoundsCertificate {ends}; {', '.join(shown) or 'no end is shown'}>"

    def _parts(self) -> dict[str, Certificate | None]:
        return dict(zip(_PARTS, (self.lower, self.upper, *self.attained, self.empty), strict=True))

    def check(self, ctx: StatedAssumptions | None = None, budget: CheckBudget | None = None) -> bool:
        """Check every part and its claim; with `ctx`, also the origin of the assumptions.

        All parts share one budget; `budget.is_spent` tells exhaustion from rejection.
        """
        checked_context(ctx)
        steps = CheckBudget() if budget is None else budget
        if not self._is_well_formed():
            return False
        stated = Stated(dict(self.ranges), self.facts)
        if len(stated.ranges) != len(self.ranges) or (ctx is not None and not self._belongs(ctx)):
            return False
        parts = self._parts().values()
        if not all(part is None or (isinstance(part, Certificate) and part.check(stated, steps)) for part in parts):
            return False
        if self.low is POS_INF or self.high is NEG_INF:
            return self._shows_empty()
        sides = ((-1, self.low, self.lower, self.at_lower), (1, self.high, self.upper, self.at_upper))
        return self.empty is None and all(
            self._shows_end(side, end, shown, at, attained)
            for (side, end, shown, at), attained in zip(sides, self.attained, strict=True)
        )

    def _is_well_formed(self) -> bool:
        """Whether every field has its declared type."""
        ends = all(isinstance(end, (Expr, Infinity)) for end in (self.low, self.high))
        kept = isinstance(self.keep, tuple) and all(isinstance(var, Var) for var in self.keep)
        points = all(at is None or _is_at(at) for at in (self.at_lower, self.at_upper))
        pair = isinstance(self.attained, tuple) and len(self.attained) == 2
        stated = are_ranges(self.ranges) and are_facts(self.facts)
        return isinstance(self.expr, Expr) and ends and kept and points and pair and stated

    def _belongs(self, ctx: StatedAssumptions) -> bool:
        asserted = asserted_parts((self.expr,))
        known = set(ctx.facts)
        return (
            dict(self.ranges) == dict(ctx.ranges)
            and known <= set(self.facts)
            and all(f in known or (f.provenance == ASSERTED and f.condition in asserted) for f in self.facts)
        )

    def _shows_empty(self) -> bool:
        points = (self.lower, self.upper, self.at_lower, self.at_upper, *self.attained)
        if self.low is not POS_INF or self.high is not NEG_INF or any(part is not None for part in points):
            return False
        shown = self.empty
        return shown is not None and shown.kind != "point" and (shown.vacuous or shown.goal is nowhere(self.expr))

    def _shows_end(
        self, side: int, end: Expr | Infinity, shown: Certificate | None, at: At | None, attained: Certificate | None
    ) -> bool:
        if isinstance(end, Infinity):
            return shown is None and at is None and attained is None
        ranged = dict(self.ranges).keys() - set(self.keep)
        goal = end_goal(side, self.expr, end, self.ranges, self.facts)
        if shown is None or shown.kind == "point" or shown.goal is not goal or not ranged.isdisjoint(end.free_vars()):
            return False
        if at is None or attained is None:
            return at is None and attained is None
        if not all(e in ranged or e.op is ops.LOAD for e in at):
            return False  # witnesses must not choose sizes
        if attained.kind == "point":
            return attained.goal is self.expr.ne(end) and dict(at) == dict(attained.point) and not self._has_sizes(end)
        goal_there = attained_goal(self.expr, end, at, self.ranges, self.facts)
        return not attained.vacuous and attained.goal is goal_there

    def _has_sizes(self, end: Expr) -> bool:
        """Whether the question has parameters: kept variables, or variables without a range."""
        limits = (part for _, r in self.ranges for part in (r.min, r.extent) if isinstance(part, Expr))
        stated = dag.free_vars(self.expr, end, *limits, *(fact.condition for fact in self.facts))
        return bool(self.keep) or any(var not in dict(self.ranges) for var in stated)

    def to_text(self) -> str:
        """The certificate as one line of text, which `from_text` reads."""
        writer = CertificateWriter()
        body: dict[str, Any] = {
            "expr": writer.node(self.expr),
            "ends": [writer.end(self.low), writer.end(self.high)],
            "keep": [writer.node(var) for var in self.keep],
            **writer.stated(self.facts, self.ranges),
            "at lower": _point(writer, self.at_lower),
            "at upper": _point(writer, self.at_upper),
            **{name: writer.certificate(part) for name, part in self._parts().items() if part is not None},
        }
        return dump({KEY: VERSION, "nodes": writer.rows, **body})

    @classmethod
    def from_text(cls, text: str) -> BoundsCertificate:
        """Parse a certificate.

        Raises
        ------
        ParseError: malformed text, or a variable whose uid belongs to a different variable here.
        """
        table = load(text, KEY)
        reader = CertificateReader(table.pop("nodes", None))
        low, high = (reader.end(end) for end in read_list(table.pop("ends", None), 2, 2))
        keep = tuple(reader.node(index, Var) for index in read_list(table.pop("keep", None)))
        expr, stated = reader.node(table.pop("expr", None), Expr), reader.stated(table)
        at_lower, at_upper = (_read_point(reader, table.pop(name, None)) for name in ("at lower", "at upper"))
        lower, upper, first, last, empty = (_part(reader, table.pop(name, None)) for name in _PARTS)
        if table:
            raise refuse("a field that has no meaning")
        points = at_lower, at_upper, (first, last)
        return cls(expr, low, high, keep, stated["ranges"], stated["facts"], lower, upper, *points, empty)

    def words(self) -> tuple[str, ...]:
        """The certificate in sentences."""
        if self.empty is not None:
            return self.empty.words()
        lines: list[str] = []
        sides = (("at least", self.low, self.lower, self.at_lower), ("at most", self.high, self.upper, self.at_upper))
        for word, end, shown, at in sides:
            if shown is None:
                continue
            lines += [f"It is {word} {end}:", *(f"  {line}" for line in shown.words())]
            if at is not None:
                values = ((e, short_number(v) if isinstance(v, int) else v) for e, v in at.items())
                where = ", ".join(f"{e} = {value}" for e, value in values)
                lines.append(f"  It is {end} at {where or 'the only point'}.")
        return tuple(lines)

    def __str__(self) -> str:
        return "\n".join(self.words())


def nowhere(expr: Expr) -> Cond:
    """A condition that is false wherever `expr` is defined; its proof shows `expr` undefined everywhere."""
    return expr.ne(expr)


def end_goal(
    side: int, expr: Expr, end: Expr, ranges: Sequence[tuple[Var, Range]], facts: Sequence[Fact]
) -> Cond | None:
    """The condition that `end` is defined and bounds `expr`, from below for negative `side`, else from above.

    Guarantee: its proof shows the end defined wherever `expr`, range ends and facts are. An undefined condition counts
    as true, so definedness of the end is an explicit conjunct unless the question implies it. None if a definedness
    condition is itself partial.
    """
    goal = expr >= end if side < 0 else expr <= end
    range_conds = (cond for var, limits in ranges for cond in range_conditions(var, limits))
    implied = definedness((expr, *range_conds, *(fact.condition for fact in facts)))
    needs = [need for need in definedness((end,)) if need not in implied]
    if not needs:
        return goal
    if definedness((*implied, *needs)):
        return None
    bounded = logical_and(*needs, goal)
    return ~logical_and(*implied) | bounded if implied else bounded


def attained_goal(
    expr: Expr, end: Expr, at: At, ranges: Sequence[tuple[Var, Range]], facts: Sequence[Fact]
) -> Cond | None:
    """The condition that the point `at` satisfies ranges and facts, and `expr` equals `end` there.

    It mentions sizes alone, so a proof under the same assumptions covers all sizes with a nonempty set. It is defined
    wherever `expr` and the facts are. None without evident definedness, or for a malformed point.
    """
    if not all(isinstance(e, Var) for e in at):
        return None
    new = {e: as_expr(value) for e, value in at.items()}
    if any(var in new for value in (end, *new.values()) for var in value.free_vars()):
        return None
    if dag.opaque_terms(expr, end, *new.values(), *(fact.condition for fact in facts)):
        return None
    inside = [cond for var, limits in ranges for cond in range_conditions(var, limits)]
    inside += [cond for var in at if isinstance(var, Var) for cond in declared_conditions(var)]
    inside += [fact.condition for fact in facts]
    member: Cond = logical_and(*(dag.substitute(cond, new) for cond in inside), dag.substitute(expr, new).eq(end))
    needs = definedness((member,))
    if not needs:
        return member
    implied = definedness((expr, *(fact.condition for fact in facts)))
    if definedness((*implied, *needs)):
        return None
    return ~logical_and(*implied) | logical_and(*needs, member) if implied else logical_and(*needs, member)


def _is_at(at: object) -> bool:
    return isinstance(at, Mapping) and all(
        isinstance(e, Expr) and (type(value) is int or isinstance(value, Expr)) for e, value in at.items()
    )


def _short(value: Expr | Infinity) -> str:
    return to_text(value, limit=120) if isinstance(value, Expr) else str(value)


# -- text --------------------------------------------------------------------------------------------------------------


CHECK_NAME: Final = 10_000  # characters of a name

VERSION = 1
_PLAIN_BITS = 62  # longer numbers are hexadecimal: Python limits decimal digits
_LEAVES = (ops.CONST, ops.VAR, ops.LOAD, ops.BOOL)
KEY = "bounds"
_PARTS = ("lower", "upper", "attained lower", "attained upper", "empty")


def dump(table: Mapping[str, Any]) -> str:
    return json.dumps(table, separators=(",", ":"), ensure_ascii=True)


def load(text: str, what: str) -> dict[str, Any]:
    """Parse a line into its JSON object and check the version."""
    if not isinstance(text, str):
        raise ParseError(f"a {what} is read from text, not from {type(text).__name__}")
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise ParseError(f"this is not the text of a {what}") from None
    if not isinstance(table, dict) or type(table.get(what)) is not int or table.pop(what) != VERSION:
        raise ParseError(f"this is not the text of a {what} of version {VERSION}")
    return table


def is_a(what: str, text: str) -> bool:
    """Whether a line looks like a certificate of the kind `what`."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(table, dict) and what in table


# -- writing ------------------------------------------------------------------------------------------------------


class CertificateWriter:
    """Writes certificate parts, and collects the node table.

    Invariant: a row refers to earlier rows only.
    """

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._numbers: dict[Node, int] = {}

    def node(self, root: Node) -> int:
        for node in dag.postorder((root,)):
            if node not in self._numbers:
                row = self._row(node)
                self._numbers[node] = len(self.rows)
                self.rows.append(row)
        return self._numbers[root]

    def _row(self, node: Node) -> list[Any]:
        args = [self._numbers[arg] for arg in node.args]
        if isinstance(node, Var):
            declared = [None if end is None else number(end) for end in node.declared()]
            return ["var", node.name, list(node.uid), *([] if isinstance(node, PlainVar) else declared)]
        if node.op is ops.CONST:
            return ["const", number(node.data)]
        if node.op is ops.LOAD:
            symbol: Opaque = node.data
            ends = [None if end is None else number(end) for end in (symbol.lower, symbol.upper)]
            return ["load", args, symbol.name, list(symbol.uid), *ends]
        return [node.op.name, args] if node.data is None else [node.op.name, args, node.data]

    def end(self, end: Expr | Infinity) -> int | str:
        return self.node(end) if isinstance(end, Expr) else "+inf" if end is POS_INF else "-inf"

    def stated(self, facts: Sequence[Fact], ranges: Sequence[tuple[Var, Range]]) -> dict[str, Any]:
        return {
            "facts": [[self.node(fact.condition), fact.provenance] for fact in facts],
            "ranges": [[self.node(var), self.end(r.min), self.end(r.extent)] for var, r in ranges],
        }

    def certificate(self, cert: Certificate) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": cert.kind,
            "goal": self.node(cert.goal),
            "vacuous": cert.vacuous,
            **self.stated(cert.facts, cert.ranges),
        }
        by_kind: dict[str, Callable[[], Any]] = {
            "linear": lambda: {"combinations": [self.combination(one) for one in cert.combinations]},
            "points": lambda: {"count": number(cert.count)},
            "point": lambda: {"point": [[self.node(e), number(value)] for e, value in cert.point.items()]},
        }
        return {**body, **by_kind.get(cert.kind, lambda: {"text": cert.text})()}

    def combination(self, one: Combination) -> dict[str, Any]:
        table: dict[str, Any] = {"case": [self.node(cond) for cond in one.case]}
        if one.terms:
            table["terms"] = [
                [number(term.factor), *([evidence.REASONS.index(p.why), self.node(p.cond)] for p in term.premises)]
                for term in one.terms
            ]
        if one.divisors:
            table["divisors"] = [[self.node(divisor), self.combination(shown)] for divisor, shown in one.divisors]
        if one.on is not None:
            table["on"] = self.node(one.on)
            table["branches"] = [self.combination(branch) for branch in one.branches]
        return table


def number(value: int) -> int | str:
    return int(value) if value.bit_length() <= _PLAIN_BITS else hex(value)


# -- reading ------------------------------------------------------------------------------------------------------


def refuse(what: str) -> ParseError:
    return ParseError(f"the text of a certificate has {what}")


def read_number(value: object) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        try:
            return int(value, 16)
        except ValueError:
            pass
    raise refuse("something else in the place of a number")


def optional(value: object) -> int | None:
    return None if value is None else read_number(value)


def read_list(value: object, least: int = 0, most: int | None = None) -> list[Any]:
    if not isinstance(value, list) or len(value) < least or (most is not None and len(value) > most):
        raise refuse("a list that is missing, too short or too long")
    return value


def read_name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= CHECK_NAME:
        raise refuse("a name that is none")
    return value


class CertificateReader:
    """Rebuilds nodes from a node table, and certificate parts from JSON values."""

    def __init__(self, rows: object) -> None:
        self.nodes: list[Node] = []
        for row in read_list(rows):
            self.nodes.append(self._made(read_list(row, 1)))

    def node(self, place: object, kind: type[Node]) -> Any:
        if type(place) is not int or not 0 <= place < len(self.nodes):
            raise refuse("a reference to no node before it")
        node = self.nodes[place]
        if not isinstance(node, kind):
            raise refuse("a condition and an integer exchanged, or something else in the place of a variable")
        return node

    def _made(self, row: list[Any]) -> Node:
        name = row[0]
        if name == "var":
            return _variable(row)
        if name == "const":
            return const(read_number(read_list(row, 2, 2)[1]))
        if name == "load":
            return self._load(read_list(row, 6, 6))
        if name == "bool":
            read_list(row, 3, 3)
            if row[1] != [] or not isinstance(row[2], bool):
                raise refuse("something else in the place of a truth value")
            return truth(row[2])
        op = ops.OPS.get(name) if isinstance(name, str) else None
        if op is None or op in _LEAVES:
            raise refuse("an operation that is not known")
        kinds = [Cond if letter == "c" else Expr for letter in op.operands or ""]
        indices = read_list(read_list(row, 2, 3)[1], len(kinds), len(kinds))
        args = tuple(self.node(arg, kind) for arg, kind in zip(indices, kinds, strict=True))
        if op in ops.DIVISIONS and args[1].op is ops.CONST and args[1].data == 0:
            raise refuse("a division by the constant 0")
        node: Node = make(op, args, _payload(op, row[2] if len(row) == 3 else None))
        return node

    def _load(self, row: list[Any]) -> Expr:
        _, indices, name, uid, low, high = row
        args = tuple(self.node(arg, Expr) for arg in read_list(indices))
        sample = _legal(lambda: Opaque(read_name(name), len(args), optional(low), optional(high)))
        fields = (sample.name, sample.rank, sample.lower, sample.upper)
        symbol = Opaque.restored(*fields, _uid(uid))
        if not isinstance(symbol, Opaque) or (symbol.name, symbol.rank, symbol.lower, symbol.upper) != fields:
            raise refuse(f"the symbol {sample.name!r}, which is another in this process")
        load: Expr = make(ops.LOAD, args, symbol)
        return load

    def certificate(self, table: dict[str, Any]) -> dict[str, Any]:
        """The certificate fields of a table; ParseError for unknown fields."""
        kind, goal, vacuous = table.pop("kind", None), self.node(table.pop("goal", None), Cond), table.pop("vacuous", 0)
        if not isinstance(kind, str) or not isinstance(vacuous, bool):
            raise refuse("no kind, or no word on whether it is vacuous")
        stated = self.stated(table)
        fields: dict[str, Any] = {}
        if "combinations" in table:
            rows = read_list(table.pop("combinations"))
            fields["combinations"] = tuple(self._combination(one, 0) for one in rows)
        if "count" in table:
            fields["count"] = read_number(table.pop("count"))
        if "point" in table:
            pairs = [read_list(row, 2, 2) for row in read_list(table.pop("point"))]
            fields["point"] = {self.node(e, Expr): read_number(value) for e, value in pairs}
            if len(fields["point"]) != len(pairs):
                raise refuse("a point with two values for one term")
        if "text" in table:
            fields["text"] = table.pop("text")
        if table:
            raise refuse("a field that has no meaning")
        return {"kind": kind, "goal": goal, "vacuous": vacuous, **stated, **fields}

    def stated(self, table: dict[str, Any]) -> dict[str, Any]:
        """Remove the facts and ranges from a table and parse them."""
        facts = tuple(self.fact(read_list(row, 2, 2)) for row in read_list(table.pop("facts", None)))
        ranges = tuple(self.limits(read_list(row, 3, 3)) for row in read_list(table.pop("ranges", None)))
        return {"facts": facts, "ranges": ranges}

    def fact(self, row: list[Any]) -> Fact:
        if row[1] not in PROVENANCES:
            raise refuse("a fact without provenance")
        return Fact(self.node(row[0], Cond), row[1])

    def limits(self, row: list[Any]) -> tuple[Var, Range]:
        low, extent = (self.end(end) for end in row[1:])
        return self.node(row[0], Var), _legal(lambda: Range(low, extent))

    def end(self, end: object) -> Expr | Infinity:
        if end in ("+inf", "-inf"):
            return POS_INF if end == "+inf" else NEG_INF
        node: Expr = self.node(end, Expr)
        return node

    def _combination(self, table: object, depth: int) -> Combination:
        if not isinstance(table, dict) or depth > evidence.CHECK_BRANCH_NESTING or table.keys() - _COMBINATION:
            raise refuse("something else in the place of a combination")
        case = tuple(self.node(cond, Cond) for cond in read_list(table.get("case")))
        terms = tuple(self._term(read_list(row, 1)) for row in read_list(table.get("terms", [])))
        shown = [read_list(row, 2, 2) for row in read_list(table.get("divisors", []))]
        divisors = tuple((self.node(e, Expr), self._combination(one, depth + 1)) for e, one in shown)
        on = self.node(table["on"], Cond) if "on" in table else None
        branches = tuple(self._combination(one, depth + 1) for one in read_list(table.get("branches", [])))
        return Combination(case, terms, divisors, on, branches)

    def _term(self, row: list[Any]) -> WeightedProduct:
        premises = [read_list(one, 2, 2) for one in row[1:]]
        for why, _ in premises:
            if type(why) is not int or not 0 <= why < len(evidence.REASONS):
                raise refuse("a premise without a reason")
        return WeightedProduct(
            read_number(row[0]), tuple(Premise(evidence.REASONS[why], self.node(cond, Cond)) for why, cond in premises)
        )


_COMBINATION = {"case", "terms", "divisors", "on", "branches"}


def _payload(op: ops.Op, data: object) -> Any:
    if op is ops.CAST:
        bits, signed = read_list(data, 2, 2)
        if type(bits) is not int or not isinstance(signed, bool):
            raise refuse("a cast to no width")
        return _legal(lambda: as_width(bits, "the width of a cast")), signed
    if data is None or (op is ops.ASSERTING and data == ops.SIZE):
        return data
    raise refuse("a payload that has no meaning")


def _variable(row: list[Any]) -> Var:
    name, uid = read_name(read_list(row, 3, 6)[1]), _uid(row[2])
    kind: type[Var] = PlainVar
    fields: dict[str, Any] = {}
    if len(row) > 3:
        low, high, step = (optional(value) for value in read_list(row, 6, 6)[3:])
        kind, fields = ShapeVar, _legal(lambda: ShapeVar(name, low, high, read_number(step))).fields()
    var = kind.created(name, uid, fields)
    if type(var) is not kind or var.name != name or var.fields() != fields:
        raise refuse(f"the variable {name!r}, which is another in this process")
    return var


def _uid(value: object) -> tuple[int, int]:
    token, count = read_list(value, 2, 2)
    if type(token) is not int or type(count) is not int or token < 0 or count < 0:
        raise refuse("a variable without a number")
    return token, count


def _legal(made: Callable[[], Any]) -> Any:
    """The result of a constructor call, with InputError turned into ParseError."""
    try:
        return made()
    except ParseError:
        raise
    except InputError as error:
        raise ParseError(str(error)) from None


def _point(writer: CertificateWriter, at: At | None) -> list[list[Any]] | None:
    """Rows of (term, value); a value is a number, or a one-element list with an expression."""
    if at is None:
        return None
    values = [[writer.node(value)] if isinstance(value, Expr) else number(value) for value in at.values()]
    return [[writer.node(e), value] for e, value in zip(at, values, strict=True)]


def _part(reader: CertificateReader, table: object) -> Certificate | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise refuse("something else in the place of a part")
    cert = Certificate(**reader.certificate(table))
    if not evidence.is_well_formed(cert):
        raise ParseError("the fields of a part do not fit its kind")
    return cert


def _read_point(reader: CertificateReader, rows: object) -> At | None:
    if rows is None:
        return None
    point: dict[Expr, int | Expr] = {}
    for row in read_list(rows):
        index, value = read_list(row, 2, 2)
        e = reader.node(index, Expr)
        if e in point:
            raise refuse("a point with two values for one term")
        point[e] = reader.node(read_list(value, 1, 1)[0], Expr) if isinstance(value, list) else read_number(value)
    return point
