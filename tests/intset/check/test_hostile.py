"""Certificates of an adversary: ends without a value, names that read as verdicts, work without end, broken files."""

from __future__ import annotations

import itertools
import json
import random
import time
import warnings
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intset
from intset import Context, EvaluationError, Fact, ParseError, Range, ShapeVar, Var, evaluate, parse, select
from intset.check import BoundsCertificate, Certificate
from intset.check.__main__ import claim, main
from intset.check.certificate import Stated, attained_goal, end_goal
from intset.check.evidence import CheckBudget, Combination, Premise, WeightedProduct, premises_of
from intset.check.solvers import emptiness_text, unsat_text
from intset.expr.build import asserting
from intset.expr.dag import free_vars
from intset.expr.node import Expr, const
from intset.expr.printer import name_text
from intset.infinity import Infinity
from tests.intset.check.test_forgeries import _declared, _disturb, _inside, signed_anew
from tests.sweeps import daily

x, y = Var("x"), Var("y")
n, m = ShapeVar("n", 1, 5), ShapeVar("m", 0, 4)

# -- ends that have no value --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [asserting(n < 0, const(3)), 3 - 1 // (n - n), 3 + 0 // m, select(m > 1, 3, 3 // m)])
@pytest.mark.parametrize("kind", ["isl", "points", "z3"])
def test_an_end_without_a_value_is_refused(end, kind):
    """Comparisons with an undefined end never fail, and must not count as proofs."""
    ranges = ((x, Range(0, 4)),)
    whole = BoundsCertificate(x, const(0), end, (), ranges)
    forged = replace(whole, lower=_by(x >= 0, ranges, kind), upper=_by(x <= end, ranges, kind))
    assert forged.lower is not None and forged.lower.check()
    assert not forged.check()
    facts = (Fact(n < 0, "asserted"),)  # which is stated nowhere but in the forged end
    upper = replace(_by(x <= end, ranges, kind), facts=facts)
    assert not replace(forged, upper=upper).check()


def _by(goal, ranges, kind, facts=()):
    return signed_anew(Certificate(kind, goal, False, facts, ranges), kind)


def test_ends_that_divide_by_what_the_question_divides_by_are_shown():
    for e, ranges, facts in (
        (x // m, {x: Range(0, m * 3)}, ()),
        (n // m, {}, ()),
        (x, {x: Range(0, n // m)}, ()),
        (x, {x: Range(0, 9)}, ((n // m).eq(2), x < n // m)),
    ):
        ctx = Context(ranges, assume=facts)
        goal = end_goal(1, e, n // m, tuple(ranges.items()), ctx.facts)
        assert goal is (e <= n // m), e
        ends = end_goal(1, e, n // (m - 1), tuple(ranges.items()), ctx.facts)
        assert ends is not None and ends is not (e <= n // (m - 1))


def test_a_point_at_which_the_end_has_no_value_attains_nothing():
    """`x == 6 // m` at `x = 6 // m` is undefined for m = 0, so it attains no end there."""
    ranges = ((x, Range(0, 7)),)
    goal = attained_goal(x, 6 // m, {x: 6 // m}, ranges, ())
    assert goal is not None
    assert evaluate(goal, {m: 2}) and not evaluate(goal, {m: 0})


def test_a_fact_that_is_asserted_nowhere_is_not_of_the_context():
    ctx = Context({x: Range(0, 9)})
    facts = (Fact(x < 3, "asserted"),)
    cert = _by(x < 3, tuple(ctx.ranges.items()), "points", facts)
    assert cert.check() and not cert.check(ctx) and not cert.check(Stated(ctx.ranges, ctx.facts))
    bounds = Context({x: Range(0, 9)}, assume=facts)
    shown = _bounds_certificate(bounds, x)
    assert shown.check(bounds) and not shown.check(ctx)
    stated_by_goal = _by(asserting(x < 3, x) < 3, tuple(ctx.ranges.items()), "points", facts)
    assert stated_by_goal.check(ctx)


def _bounds_certificate(ctx, e):
    return ctx.bounds(e).certificate()


# -- names --------------------------------------------------------------------------------------------------------

WORDS = ["1", "1 == 2 (linear)" + " " * 1500, "x\naccepted: always: 1 == 2", "\x1b[2K\raccepted", "True", "inf", "not",
         "x >= 0", "\u0430", "\u202eevil", "i#2", "'", '"', "\\", "a.b", "0x1", "\ud800", "(", "nonneg(x)",
         "\u22121"]  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_names_are_told_from_numbers_and_verdicts(name):
    v = Var(name)
    cert = Context({v: Range(0, 4)}).prove(v < 4).certificate()
    said = claim(Certificate.from_text(cert.to_text()))
    shown = name if name in ("a.b", "x") else ascii(name)
    assert said.startswith(f"always: {shown} < 4") and said.isascii() and "\n" not in said
    assert str(v) == name_text(name)


def test_labels_of_twins_are_no_names_of_others():
    first, second, third = Var("i"), Var("i"), Var("i#2")
    cert = Context({v: Range(0, 4) for v in (first, second, third)}).prove(first + second + third < 12).certificate()
    assert "i + i#2 + 'i#2' < 12" in claim(cert)


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.sampled_from(WORDS), st.text(min_size=1)), st.one_of(st.sampled_from(WORDS), st.text(min_size=1)))
def test_expressions_over_any_names_read_back(first, second):
    if first != second:
        a, b = Var(first), ShapeVar(second)
        for e in (a + b * 2, select(a < b, a // 3, intset.nonneg(b - a)), (a < b) | a.eq(b)):
            assert parse(str(e), {first: a, second: b}) is e


# -- budgets ------------------------------------------------------------------------------------------------------


def squared(e: Expr, times: int) -> Expr:
    for _ in range(times):
        e = e * e
    return e


def long_goal(width: int):
    goal = x + 1 > x
    for k in range(width):
        goal = goal & (x + k > -1 - k)
    return goal


def _points_of_a_long_goal():
    return Certificate("points", long_goal(300), False, (), ((x, Range(0, 10**6)),), count=10**6)


def _squares_of_numbers():
    k = squared(const(7), 60)
    return Certificate(
        "linear",
        k >= 0,
        combinations=(Combination((k < 0,), (WeightedProduct(1, (Premise("the goal negated", k < 0),)),)),),
    )


def _powers_of_a_sum():
    e = squared(sum((Var(f"v{k}") for k in range(12)), const(0)), 4)
    way = e < 0
    term = WeightedProduct(1, (Premise("the goal negated", way),) * 4)
    return Certificate("linear", e >= 0, combinations=(Combination((way,), (term,) * 50),))


def _hard_for_z3():
    cert = Certificate("z3", (x * y).ne(1000003 * 1000033), False, (), ((x, Range(2, 10**6)), (y, Range(2, 10**12))))
    return replace(cert, text=unsat_text(cert))


def _hard_for_isl():
    vs = [Var(f"v{k}") for k in range(16)]
    pairs = [(i, j) for i in range(16) for j in range(i)]
    facts = tuple(Fact(((vs[i] * (3 + j) + vs[j] * (7 + i)) % (11 + i + j)).ne(3)) for i, j in pairs)
    cert = Certificate("isl", vs[0] < 0, False, facts)
    return replace(cert, text=emptiness_text(premises_of(cert), cert.goal))


HOSTILE = {
    "squarings at a point": lambda: Certificate("point", squared(x, 60) < 0, point={x: 3}),
    "squarings at all points": lambda: Certificate(
        "points", squared(x, 17) >= 0, False, (), ((x, Range(0, 10**5)),), count=10**5
    ),
    "points of a long goal": _points_of_a_long_goal,
    "long numbers": _squares_of_numbers,
    "powers of a sum": _powers_of_a_sum,
    "a shift by a long number": lambda: Certificate("point", (x << squared(x, 5)) < 0, point={x: 9}),
    "a long conjunction": lambda: Certificate("linear", long_goal(20_000)),
    "z3": _hard_for_z3,
    "isl": _hard_for_isl,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_without_end_is_refused_within_the_budget(name, tmp_path, capsys):
    cert = HOSTILE[name]()
    budget, begun = CheckBudget(300_000), time.process_time()
    assert not cert.check(budget=budget)
    assert budget.is_spent and time.process_time() - begun < 60  # about a second on an idle machine
    if len(text := cert.to_text()) < 3_000:
        (tmp_path / "file").write_text(text)
        assert main([str(tmp_path / "file")]) == 1
        assert capsys.readouterr().out.startswith("REJECTED, because it takes more than ")


def test_one_budget_serves_all_parts_of_bounds():
    part = _by(x >= 0, ((x, Range(0, 1000)),), "points")
    whole = BoundsCertificate(x, const(0), const(999), (), part.ranges)
    whole = replace(whole, lower=part, upper=_by(x <= 999, part.ranges, "points"))
    needed = CheckBudget()
    assert whole.check(budget=needed)
    spent = 1_500_000 - needed.left
    assert whole.check(budget=CheckBudget(spent)) and not whole.check(budget=CheckBudget(spent - 1))
    alone = CheckBudget()
    assert part.check(budget=alone) and 1_500_000 - alone.left < spent


# -- files --------------------------------------------------------------------------------------------------------

FILES = [
    b"", b"\n\n", b" \t\n", b"\x00\xff\xfe", b"{", b"x", b"[]", b"{}", b"null", b"[" * 200_000, b"1" * 5000,
    b"\xef\xbb\xbf", b"\x1b[31m", b'{"certificate":1', b'{"certificate": 2}', b'{"certificate": true}',
    b'{"certificate":1,"nodes":{}}', b'{"bounds":1}', b'{"certificate":1,"nodes":[[]],"kind":3}',
    b'{"certificate":1,"nodes":[["var","x",[1,1]],["cast",[0],[1000000000,true]]],"kind":"isl"}',
]  # fmt: skip


@pytest.mark.parametrize("data", FILES)
def test_files_that_are_none_end_with_2_and_a_line(data, tmp_path, capsys):
    (tmp_path / "file").write_bytes(data)
    assert main([str(tmp_path / "file")]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1 and shown.err.strip().isprintable()
    with pytest.raises(ParseError):
        Certificate.from_text(data.decode(errors="replace"))


# -- forged bounds ------------------------------------------------------------------------------------------------


def _originals() -> list[BoundsCertificate]:
    asked = [
        ({x: Range(0, 4)}, x * 2 + 1, ()),
        ({x: Range(0, n)}, x, ()),
        ({x: Range(0, n), y: Range(0, m)}, x * m + y, ()),
        ({x: Range(0, 5)}, x // m, (m >= 1,)),
        ({x: Range(0, n)}, intset.nonneg(x - 1), ()),
        ({x: Range(-3, 7)}, select(x.ne(0), 6 // x, 0), ()),
        ({x: Range(0, n)}, x + m, (Fact(x < 3, "asserted"),)),
    ]
    found = []
    for ranges, e, facts in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(_bounds_certificate(Context(ranges, assume=facts), e))
            except intset.InputError:
                continue
    return found


def _is_false(cert: BoundsCertificate) -> bool:
    """Whether enumeration finds a crossed or undefined end, or an unattained one."""
    roots = [cert.expr, *(e for e in (cert.low, cert.high) if isinstance(e, Expr))]
    roots += [fact.condition for fact in cert.facts]
    roots += [end for _, r in cert.ranges for end in (r.min, r.extent) if isinstance(end, Expr)]
    variables, ranged = free_vars(*roots, *(v for v, _ in cert.ranges)), dict(cert.ranges)
    spans = [[k for k in range(-4, 10) if _declared(v, k)] for v in variables]
    attained: dict[tuple, list[bool]] = {}
    for values in itertools.product(*spans):
        point = dict(zip(variables, values, strict=True))
        try:
            if not _inside(cert, point):
                continue
            value = evaluate(cert.expr, point)
        except EvaluationError:
            continue
        if cert.empty is not None:
            return True
        try:
            ends = [None if isinstance(e, Infinity) else evaluate(e, point) for e in (cert.low, cert.high)]
        except EvaluationError:
            return True
        if (ends[0] is not None and value < ends[0]) or (ends[1] is not None and value > ends[1]):
            return True
        sizes = tuple(k for v, k in point.items() if v not in ranged or v in cert.keep)
        seen = attained.setdefault(sizes, [False, False])
        seen[0] |= value == ends[0]
        seen[1] |= value == ends[1]
    claimed = (cert.at_lower is not None, cert.at_upper is not None)
    return any(said and not seen[side] for seen in attained.values() for side, said in enumerate(claimed))


def _forged(cert: BoundsCertificate, rng: random.Random) -> BoundsCertificate:
    side = rng.choice(("low", "high"))
    end = getattr(cert, side)
    if rng.random() < 0.5 or isinstance(end, Infinity):
        table = json.loads(cert.to_text())
        _disturb(table, rng)
        return BoundsCertificate.from_text(json.dumps(table))
    d = rng.choice((m, n - 1, n - n, n, x if x in dict(cert.ranges) else m))
    new = rng.choice(
        (
            end + 1, end - 1, end // d, asserting(m > 1, end), asserting(d < 0, end), end + 1 // d,
            select(m > 0, end, 9 // m),
        )
    )  # fmt: skip
    forged = replace(cert, **{side: new})
    number, part = (0, cert.lower) if side == "low" else (1, cert.upper)
    if part is None:
        return forged
    goal = rng.choice(
        (
            cert.expr >= new if number == 0 else cert.expr <= new,
            end_goal(number * 2 - 1, cert.expr, new, cert.ranges, cert.facts) or part.goal,
        )
    )
    facts = rng.choice((part.facts, (*part.facts, Fact(d < 0, "asserted")), (*part.facts, Fact(m > 1, "asserted"))))
    anew = signed_anew(replace(part, goal=goal, facts=facts), rng.choice(("isl", "z3", "points")))
    kept = rng.random() < 0.5
    first, last = cert.attained
    attained = (first if number or kept else None, last if not number or kept else None)
    at = {"at_lower": cert.at_lower if attained[0] else None, "at_upper": cert.at_upper if attained[1] else None}
    shown = {"lower": anew} if number == 0 else {"upper": anew}
    return replace(forged, attained=attained, **at, **shown)


@pytest.mark.parametrize(("wanted", "seed"), daily([(120, 3), (20_000, 4)], 2))
def test_forged_bounds_that_are_accepted_are_true(wanted, seed):
    rng = random.Random(seed)
    originals = _originals()
    assert len(originals) >= 5 and all(cert.check() and not _is_false(cert) for cert in originals)
    seen: Counter = Counter()
    while seen["tried"] < wanted:
        cert = rng.choice(originals)
        try:
            for _ in range(rng.choice((1, 1, 2))):
                cert = _forged(cert, rng)
        except (ParseError, intset.InputError):
            seen["unreadable"] += 1
            continue
        seen["tried"] += 1
        if cert.check():
            seen["accepted"] += 1
            assert not _is_false(cert), (cert, cert.to_text())
    assert 0 < seen["accepted"] < seen["tried"] / 2, seen
