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

A `BoundsCertificate` has such evidence for both ends of a set, part by part. Both convert to text and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from intset.check.bit_rows import check_bits
from intset.check.evidence import (
    CheckBudget,
    Combination,
    Premise,
    are_facts,
    are_ranges,
    check_linear,
    check_point,
    check_points,
    clip,
    combination_words,
    is_well_formed,
)
from intset.check.solvers import check_isl, check_z3
from intset.check.text import (
    VERSION,
    CertificateReader,
    CertificateWriter,
    dump,
    fields_of,
    load,
    number,
    read_list,
    read_number,
    refuse,
    text_of,
)
from intset.errors import BudgetError, ParseError
from intset.expr import Cond, Expr, Range, Var, arguments, as_expr, dag, ops
from intset.expr.build import logical_and
from intset.expr.definedness import asserted_parts, definedness
from intset.expr.printer import Displayed, number_text, short_number, to_text
from intset.expr.range import declared_conditions, range_conditions
from intset.facts import ASSERTED, Fact
from intset.infinity import NEG_INF, POS_INF, Infinity


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
        return text_of(self)

    @classmethod
    def from_text(cls, text: str) -> Certificate:
        """Parse a certificate.

        Raises
        ------
        ParseError: malformed text, or a variable whose uid belongs to a different variable here.
        """
        cert = cls(**fields_of(text))
        if not is_well_formed(cert):
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
            return tuple(line for one in self.combinations for line in combination_words(one))
        if self.kind == "bits":
            return ("Rows over F2, one for each bit, sum to what the goal compares:", f"  {clip(self.text)}")
        if self.kind == "isl":
            return ("isl finds that this set, the points where it would fail, is empty:", f"  {clip(self.text)}")
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
    "linear": check_linear,
    "bits": check_bits,
    "isl": check_isl,
    "points": check_points,
    "z3": check_z3,
    "point": check_point,
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
    if not is_well_formed(cert):
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
        shown = [f"{side} end by {part.kind}" for side, part in self._parts() if part is not None]
        ends = f"{_short(self.low)} <= {_short(self.expr)} <= {_short(self.high)}"
        return f"<BoundsCertificate {ends}; {', '.join(shown) or 'no end is shown'}>"

    def _parts(self) -> tuple[tuple[str, Certificate | None], ...]:
        first, last = self.attained
        return (("lower", self.lower), ("upper", self.upper), ("attained lower", first), ("attained upper", last))

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
        parts = (self.lower, self.upper, *self.attained, self.empty)
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
        parts = zip(_PARTS, (self.lower, self.upper, *self.attained, self.empty), strict=True)
        body: dict[str, Any] = {
            "expr": writer.node(self.expr),
            "ends": [writer.end(self.low), writer.end(self.high)],
            "keep": [writer.node(var) for var in self.keep],
            **writer.stated(self.facts, self.ranges),
            "at lower": _point(writer, self.at_lower),
            "at upper": _point(writer, self.at_upper),
            **{name: writer.certificate(part) for name, part in parts if part is not None},
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


KEY = "bounds"
_PARTS = ("lower", "upper", "attained lower", "attained upper", "empty")


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
    if not is_well_formed(cert):
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
