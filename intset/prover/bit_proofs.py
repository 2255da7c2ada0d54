"""Proofs about bits: equations between forms over F2 are rows, and a proof is a sum of rows.

To prove a goal, its negation is assumed beside the equations among the facts. An assumed equation `a == b` states that
each row of `a ^ b` is 0 and that the tails are equal. Contradictory assumptions prove every goal: a sum
of rows is the constant 1, or the rows give both sides of an assumed `a != b` the same value. An order between bits is
a question of the linear form: bits of one variable that stand together become that variable again, and the bits below
them a number with ends.

Case distinction: each choice in the goal is governed by a comparison: a select's condition, the order of a minimum's
operands, the sign of an absolute value's operand, one side of a disjunction. The proof assumes the comparison, then its
negation; under either assumption the choice reduces to one arm, and the linear form decides the rest. It stops at the
first open case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.expr import Cond, Expr, Node, Range, Var, const, dag, ops
from intset.expr.node import PlainVar, make
from intset.frame import Frame
from intset.linear import bitforms
from intset.linear.assumptions import compare, junction_args
from intset.linear.bitforms import BITWISE_NODES, BitForm, CarryError, Columns, aligned
from intset.linear.form import ZERO, Linear, is_sum
from intset.linear.multiples import step_of_sum
from intset.prover.combination import RIGHT, SearchBudget, weights

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer


CASES: Final = 12  # cases that are looked at for one goal
CASE_NODES: Final = 96  # nodes of a goal that is split into cases
SPANNED_STEPS: Final = 4_000_000  # beyond what equations of `BITWISE_NODES` take
CASE_NESTING: Final = 4  # comparisons assumed together


def holds_by_cases(known: Normalizer, canonical: Cond) -> bool:
    """Whether case distinction proves a canonical condition of `known`."""
    if not dag.is_small(CASE_NODES, (canonical,)) or next(_choices(canonical), None) is None:
        return False
    waiting = [(known, canonical, 0)]
    for _ in range(CASES):
        reader, goal, depth = waiting.pop()
        if not _holds(reader, goal):
            cases = _cases(reader, goal) if depth < CASE_NESTING else None
            if cases is None:
                return False
            waiting += [(case, goal, depth + 1) for case in reversed(cases)]
        if not waiting:
            return True
    return False


def _holds(reader: Normalizer, goal: Cond) -> bool:
    """Whether the linear form proves `goal` in one case."""
    return reader.empty or all(
        isinstance(clause, tuple) and follows(reader, *clause) for clause in reader.clauses(goal)
    )


def covers_all_values(known: Normalizer, clause: Cond) -> bool:
    """Whether a disjunction of equations between one form and numbers covers every value of the form."""
    numbers: set[int] = set()
    terms: dict[Expr, int] | None = None
    for part in dag.chain(ops.OR, clause):
        kind, form = known.compared.get(part, (ops.BOOL, ZERO))
        if kind is not ops.EQ or terms is not None and form.terms != terms:
            return False
        terms = form.terms
        numbers.add(-form.const)
    if terms is None:
        return False
    form = Linear(0, terms)
    low, high = known.bounds(form)
    m, r = step_of_sum(known, form)
    if low is None or high is None or (high - low) // m >= len(numbers):
        return False
    return numbers.issuperset(range(low + (r - low) % m, high + 1, m))


def follows(known: Normalizer, kind: ops.Op, form: Linear) -> bool:
    """Whether ranges, facts and signs imply `form >= 0`, `== 0` or `!= 0`."""
    if kind is ops.GE:
        return known.is_nonneg(form)
    negated = form.scale(-1)
    if kind is ops.EQ:
        return known.is_nonneg(form) and known.is_nonneg(negated)
    return known.is_positive(form) or known.is_positive(negated)


def _cases(reader: Normalizer, goal: Cond) -> list[Normalizer] | None:
    """Normalizers for the cases of the first undecided comparison; infeasible cases are dropped."""
    for comparison in _choices(reader.cond(goal)):
        for clause in reader.clauses(comparison):
            if isinstance(clause, tuple):
                return [reader.narrowed(side) for side in _sides(reader, *clause)]
    return None


def _sides(reader: Normalizer, kind: ops.Op, form: Linear) -> Iterator[Cond]:
    """Conditions that cover all points: `form` nonnegative or negative; for equations positive, negative or zero."""
    above = form if kind is ops.GE else form.shift(-1)
    below = form.scale(-1).shift(-1)
    if not reader.is_nonneg(form.scale(-1) if kind is not ops.GE else below):
        yield compare(reader, ops.GE, above)
    if not reader.is_nonneg(form):
        yield compare(reader, ops.GE, below)
    if kind is not ops.GE:
        yield compare(reader, ops.EQ, form)


def _choices(goal: Cond) -> Iterator[Cond]:
    """Comparisons that govern choices in `goal`, innermost first."""
    for node in dag.postorder((goal,)):
        if node.op is ops.SELECT:
            yield from _comparisons(node.args[0])
        elif node.op is ops.MIN or node.op is ops.MAX:
            yield make(ops.LE, node.args)
        elif node.op is ops.ABS:
            yield make(ops.GE, (node.args[0], const(0)))
        elif node.op is ops.OR:
            yield from _comparisons(node.args[0])


def _comparisons(cond: Cond) -> Iterator[Cond]:
    for part in dag.reachable((cond,), junction_args):
        if part.op not in (ops.AND, ops.OR, ops.BOOL):
            yield part


RowOfLiteral = tuple[int, int]  # the number of a literal, and a bit


class RowSum(NamedTuple):
    """Why a case of the negated goal is impossible.

    Attributes
    ----------
    literal: the assumed `a != b` whose sides are equal; `None` if the rows sum to 1.
    sums: for each bit of `a ^ b` the rows that sum to it; or the rows that sum to 1.
    """

    literal: int | None
    sums: tuple[tuple[RowOfLiteral, ...], ...]


class BitProof(NamedTuple):
    """The facts that a proof used as literals, and a `RowSum` for each conjunct of the goal."""

    premises: tuple[Cond, ...]
    cases: tuple[RowSum, ...]


def bit_proof(frame: Frame, goal: Cond) -> BitProof | None:
    """A proof by rows; `None` if rows do not prove the goal."""
    facts = [part for fact in frame.conditions for part in dag.conjuncts(fact)]
    roots = (goal, *facts)
    if not dag.is_small(BITWISE_NODES, roots) or not bitforms.speaks_of_bits(roots):
        return None
    columns = columns_of(frame)
    premises = tuple(part for part in facts if part.op in (ops.EQ, ops.NE))
    cases = []
    for part in dag.conjuncts(goal):
        negated = list(negated_literals(part))
        if not negated:
            return None
        found = _impossible([*premises, *negated], columns)
        if found is None:
            return None
        cases.append(found)
    return BitProof(premises, tuple(cases))


def columns_of(frame: Frame) -> Columns:
    """Columns whose widths are the intervals of a frame."""
    return Columns(lambda term: frame.known.bounds(frame.known.form(term)))


def negated_literals(part: Cond) -> Iterator[Cond]:
    """Equations and inequations that hold together where a disjunction fails; its other disjuncts are left out."""
    for disjunct in dag.chain(ops.OR, part):
        if disjunct.op is ops.NOT and disjunct.args[0].op in (ops.EQ, ops.NE):
            yield disjunct.args[0]
        elif disjunct.op in (ops.EQ, ops.NE):
            yield make(ops.NEGATED[disjunct.op], disjunct.args)


def _impossible(literals: Sequence[Cond], columns: Columns) -> RowSum | None:
    """Why the literals cannot hold together; `None` if rows do not tell."""
    basis, given, tails = bitforms.RowBasis(), [], []
    differing: list[tuple[int, BitForm, BitForm]] = []
    for k, literal in enumerate(literals):
        try:
            a, b = (columns.form(side) for side in literal.args)
        except CarryError:
            continue
        if literal.op is ops.NE:
            differing.append((k, a, b))
        elif aligned := rows_of_difference(a, b):
            for p, row in enumerate(aligned.rows):
                basis.add(row)
                given.append((k, p))
            tails.append(aligned.high)

    def named(mask: int) -> tuple[RowOfLiteral, ...]:
        return tuple(row for i, row in enumerate(given) if mask >> i & 1)

    for mask, constant in basis.relations:
        if constant:
            return RowSum(None, (named(mask),))
    for k, a, b in differing:
        difference = rows_of_difference(a, b)
        if difference is None or not _is_spanned(difference.high, tails):
            continue
        reduced = [basis.reduced(row) for row in difference.rows]
        if not any(row for row, _ in reduced):
            return RowSum(k, tuple(named(how) for _, how in reduced))
    return None


def rows_of_difference(a: BitForm, b: BitForm) -> BitForm | None:
    """The rows of `a ^ b`, and the difference of tails: both are 0 exactly where the numbers are equal.

    `None` where rows of one side meet the tail of the other.
    """
    try:
        rows = aligned(a, b)
    except CarryError:
        return None
    return BitForm(tuple(x ^ y for x, y in rows), bitforms.sum_of_tails(a, b, -1))


def _is_spanned(goal: Mapping[Expr, int], known: Sequence[Mapping[Expr, int]]) -> bool:
    """Whether a sum of tails vanishes wherever the known tails vanish: it is their combination."""
    terms = dict.fromkeys(v for one in (goal, *known) for v in one)
    rows = [{**{k: one[v] for k, one in enumerate(known) if v in one}, RIGHT: goal.get(v, 0)} for v in terms]
    return weights(rows, range(len(known)), SearchBudget(SPANNED_STEPS)) is not None


# -- orders ------------------------------------------------------------------------------------------------------------


def follows_by_bits(frame: Frame, goal: Cond) -> bool:
    """Whether the linear form proves the goal once bits of one variable that stand together are that variable."""
    tops = _outermost(goal)
    if not tops or not dag.is_small(BITWISE_NODES, (goal,)):
        return False
    columns = columns_of(frame)
    replaced: dict[Node, Node] = {}
    ranges: dict[Var, Range | None] = {}
    for e in tops:
        try:
            whole, low = split(columns.form(e), columns)
        except CarryError:
            continue
        if whole is None and not low:
            continue
        rest = PlainVar("low")
        first, last = bitforms.extreme(low, -1), bitforms.extreme(low, 1)
        ranges[rest] = Range(first, last - first + 1)
        replaced[e] = rest if whole is None else whole + rest
    if not replaced:
        return False
    inside = frame.extended(ranges, ())
    clauses = inside.known.cond(dag.rewrite(goal, replaced))
    return holds_by_signs(inside.known, clauses)


def holds_by_signs(known: Normalizer, canonical: Cond) -> bool:
    """Whether ranges, facts and signs prove each conjunct of a canonical condition."""
    for part in dag.conjuncts(canonical):
        if part.op is ops.BOOL and part.data:
            continue
        clause = known.compared.get(part)
        if clause is None or not follows(known, *clause):
            return False
    return True


def _outermost(goal: Cond) -> list[Expr]:
    """The largest terms of sums and comparisons that contain bit operations."""

    def summands(node: Node) -> tuple[Any, ...]:
        return node.args if isinstance(node, Cond) or is_sum(node) else ()

    start: tuple[Node, ...] = (goal,)
    ends = [node for node in dag.reachable(start, summands) if isinstance(node, Expr) and not is_sum(node)]
    return [node for node in ends if any(below.op in bitforms.BITWISE for below in dag.postorder((node,)))]


def split(form: BitForm, columns: Columns) -> tuple[Expr | None, tuple[int, ...]]:
    """Split a form into a multiple of one variable and the rows below: `i*128` and seven rows.

    Without such a variable, all rows are below; `CarryError` if there is a tail, too.
    """
    if form.high:
        (v, factor), *others = form.high.items()
        if others:
            raise CarryError("tails of several variables")
    else:
        top = form.rows[-1] if form.rows else 0
        if top.bit_count() != 1 or top == 1:
            return None, form.rows
        v = columns.terms[top.bit_length() - 2][0]
    places = columns.places[v]
    bits = len(places)
    first = len(form.rows) - bits
    if (
        v in columns.offsets
        or first < 0
        or form.rows[first:] != tuple(1 << column for column in places)
        or (form.high and factor != 1 << first + columns.tails[v])
    ):
        if form.high:
            raise CarryError("a tail without the bits below it")
        return None, form.rows
    return v * (1 << first) if first else v, form.rows[:first]
