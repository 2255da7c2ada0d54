"""Certificates of bounds: both ends, the points that attain them, and what the checker refuses."""

from __future__ import annotations

import itertools
import pickle
import warnings
from dataclasses import replace

import pytest

import intset
from intset import (
    Context,
    EvaluationError,
    InputError,
    Opaque,
    ParseError,
    Range,
    ShapeVar,
    Var,
    evaluate,
    minimum,
    nonneg,
)
from intset.check import BoundsCertificate, Certificate
from intset.check.__main__ import main
from intset.check.certificate import attained_goal
from intset.domains.sets.base import Bounds
from intset.expr.node import Expr, const
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.testing.contexts import question
from tests.sweeps import daily

i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n"), ShapeVar("m")
A = Opaque("A", 1, 0, 9)

CONSTANT = [
    ({i: Range(0, 8), j: Range(0, 4)}, i * 4 + j, ()),
    ({i: Range(0, 8), j: Range(0, 4)}, (i * 4 + j) // 7 % 3, (i * 4 + j < 14,)),
    ({i: Range(0, 8), j: Range(0, i - 4)}, i + j, ()),  # the range of j is empty for i <= 4
    ({i: Range(2, 7), j: Range(i, 3), k: Range(i, j - i)}, j - i + k, ()),
    ({i: Range(0, 8)}, A[i] + A[7 - i], ()),
    ({i: None}, i % 7, ()),
    ({i: Range(-4, 9)}, nonneg(i) * 3, ()),
    ({}, const(5), ()),
]
SYMBOLIC = [
    ({i: Range(0, n), j: Range(0, m)}, i * m + j, (), ()),
    ({i: Range(0, n), j: Range(0, m)}, i * m + j, (), (i,)),
    ({i: Range(0, n)}, (i * 4 + 3) // 4, (), ()),
    ({i: Range(0, n), j: Range(i, 4)}, j - 2 * i, (), ()),
    ({i: Range(0, n)}, minimum(i, 5), (), ()),
    ({i: Range(0, n * 4)}, i // n, (), ()),
    ({i: Range(0, n)}, i, (n > 3, i >= 2), ()),
    ({i: Range(0, 8)}, nonneg(i - 3) + n, (), ()),
    ({}, n + 1, (), ()),
]


@pytest.mark.parametrize(("ranges", "e", "facts"), CONSTANT)
@pytest.mark.parametrize("domain", ["auto", "interval", "isl", "points"])
def test_constant_ends_are_shown_and_attained(ranges, e, facts, domain):
    ctx = Context(ranges, assume=facts)
    bounds = ctx.bounds(e, domain=domain)
    cert = bounds.certificate()
    assert cert.check() and cert.check(ctx) and cert.words()
    for end, shown, at in zip(bounds, (cert.lower, cert.upper), (cert.at_lower, cert.at_upper), strict=True):
        assert (shown is None) == isinstance(end, Infinity)
        assert (at is not None) == (bounds.is_tight and not isinstance(end, Infinity))
        if at is not None:
            assert evaluate(e, at) == int(end) and evaluate(shown.goal, at)


@pytest.mark.parametrize(("ranges", "e", "facts", "keep"), SYMBOLIC)
def test_symbolic_ends_are_attained_for_all_sizes_at_which_there_are_points(ranges, e, facts, keep):
    ctx = Context(ranges, assume=facts)
    bounds = ctx.bounds(e, keep=keep)
    cert = bounds.certificate()
    assert cert.check() and cert.check(ctx) and bounds.is_tight
    for end, at in zip(bounds, (cert.at_lower, cert.at_upper), strict=True):
        assert at is not None and set(at) == set(ranges) - set(keep)
        sizes = [n, m, *keep]
        for values in itertools.product(range(7), repeat=len(sizes)):
            point = dict(zip(sizes, values, strict=True))
            if reached(ctx, e, point, [v for v in ranges if v not in keep]):
                there = {var: evaluate(value, point) if isinstance(value, Expr) else value for var, value in at.items()}
                assert inside(ctx, {**point, **there}) and evaluate(e, {**point, **there}) == evaluate(end, point)


def inside(ctx, point) -> bool:
    try:
        for var, limits in ctx.ranges.items():
            low, high = evaluate(limits.min, point), evaluate(limits.min + limits.extent - 1, point)
            if not low <= point[var] <= high:
                return False
        return all(evaluate(fact.condition, point) for fact in ctx.facts)
    except EvaluationError:
        return False


def reached(ctx, e, sizes, variables) -> bool:
    """Whether some point with these sizes defines `e`."""
    for values in itertools.product(range(-1, 12), repeat=len(variables)):
        point = {**sizes, **dict(zip(variables, values, strict=True))}
        try:
            if inside(ctx, point) and evaluate(e, point) is not None:
                return True
        except EvaluationError:
            continue
    return False


def test_an_empty_set_has_a_certificate_that_it_is():
    for ctx, e in ((Context({i: Range(0, 0)}), i), (Context({i: Range(0, 4), j: Range(5, 0)}), i + j)):
        bounds = ctx.bounds(e)
        cert = bounds.certificate()
        assert bounds.is_empty and cert.check(ctx) and cert.empty is not None
        assert cert.lower is cert.upper is cert.at_lower is cert.at_upper is None
        assert not replace(cert, empty=None).check()
    false = BoundsCertificate(i, *bounds, ranges=((i, Range(0, 4)),), empty=cert.empty)
    assert not false.check()


def test_bounds_remember_their_question_and_nothing_else():
    ctx = Context({i: Range(0, 8)}, assume=[i < 6])
    bounds = ctx.bounds(i * 2)
    again = pickle.loads(pickle.dumps(bounds))
    assert again == bounds == (const(0), const(10)) and hash(again) == hash(bounds)
    assert again.certificate().check(ctx)
    del ctx
    assert bounds.certificate().check()
    with pytest.raises(InputError, match="context"):
        Bounds(0, 1, True).certificate()


@pytest.mark.parametrize(("seeds", "least"), daily([((4, 5, 6, 8, 9, 11, 15, 16, 17, 18), 10), (range(200), 190)], 2))
def test_bounds_of_random_expressions_have_certificates(seeds, least):
    shown = 0
    for seed in seeds:
        q = question(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", intset.ContradictionWarning)
            ctx = Context(q.ranges, assume=q.conds)
        bounds = ctx.bounds(q.expr)
        try:
            cert = bounds.certificate()
        except InputError:
            continue  # none was found; no claim
        assert cert.check(ctx), seed
        shown += 1
        for end, at in ((min(q.values, default=0), cert.at_lower), (max(q.values, default=0), cert.at_upper)):
            assert at is None or evaluate(q.expr, at) == end, seed
    assert shown >= least


def test_the_repr_is_short_and_tells_what_is_shown() -> None:
    i, j = Var("i"), Var("j")
    short = Context({i: Range(0, 8), j: Range(0, 4)}).bounds(i * 4 + j).certificate()
    assert repr(short).startswith("<BoundsCertificate 0 <= i * 4 + j <= 31; lower end by linear, upper end by linear")
    long = i
    for _ in range(12):
        long = long * long + j
    assert len(repr(Context({i: Range(0, 2), j: Range(0, 2)}).bounds(long).certificate())) < 600


def texts() -> list[tuple[Context, str]]:
    found = []
    for ranges, e, facts, *keep in (*CONSTANT, *SYMBOLIC, ({i: Range(0, 0)}, i, ()), ({i: None}, i * 3, ())):
        ctx = Context(ranges, assume=facts)
        found.append((ctx, ctx.bounds(e, keep=keep[0] if keep else ()).certificate().to_text()))
    return found


@pytest.fixture(scope="module")
def lines() -> list[tuple[Context, str]]:
    return texts()


def test_bounds_as_text_and_back(lines):
    for ctx, line in lines:
        cert = BoundsCertificate.from_text(line)
        assert "\n" not in line and cert.check() and cert.check(ctx) and cert.to_text() == line
        with pytest.raises(ParseError):
            Certificate.from_text(line)
        part = cert.lower or cert.upper or cert.empty
        if part is not None:
            with pytest.raises(ParseError):
                BoundsCertificate.from_text(part.to_text())


def test_a_file_of_both_kinds_is_checked(lines, tmp_path, capsys):
    ctx = Context({i: Range(0, n), j: Range(0, m)})
    cert = ctx.bounds(i * m + j).certificate()
    proof = ctx.prove(i * m + j < n * m).certificate()
    path = tmp_path / "certificates"
    path.write_text("\n".join([proof.to_text(), cert.to_text(), *(line for _, line in lines)]), encoding="utf-8")
    assert main([str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(lines) + 2 and all(line.startswith("accepted: ") for line in shown)
    assert "0 <= i * m + j <= n * m - 1 given" in shown[1] and "the upper end at i = n - 1, j = m - 1" in shown[1]
    assert sum("nowhere a value" in line for line in shown) == 1
    path.write_text(replace(cert, high=cert.high - 1).to_text(), encoding="utf-8")
    assert main([str(path)]) == 1 and capsys.readouterr().out.startswith("REJECTED: ")
    path.write_text(cert.to_text()[:-3], encoding="utf-8")
    assert main([str(path)]) == 2


def test_parts_that_are_right_and_show_something_else_are_not_accepted() -> None:
    """Valid parts with wrong statements do not make a false claim acceptable."""
    ctx, n = Context({i: Range(0, 9)}), ShapeVar("n", lower=1)
    whole = ctx.bounds(i).certificate()
    there = ctx.prove(i.ne(4)).certificate()  # a point
    below = ctx.prove(i >= -5).certificate()
    assert whole.check(ctx) and there.check(ctx) and below.check(ctx) and there.kind == "point"
    sized = Context({i: Range(0, n)})
    of_sizes = sized.bounds(i).certificate()
    assert of_sizes.check(sized) and of_sizes.at_lower == {i: 0}
    bare = replace(whole, lower=None, upper=None, at_lower=None, at_upper=None, attained=(None, None))
    nothing = replace(bare, low=POS_INF, high=NEG_INF)
    first = whole.attained[0]
    forged = {
        "empty, as another condition always holds": replace(nothing, empty=below),
        "empty, as there is a point": replace(nothing, empty=ctx.prove(i.ne(i)).certificate()),
        "an end that is refuted": replace(
            whole,
            low=const(5),
            lower=ctx.prove(i >= 5).certificate(),
            at_lower=None,
            attained=(None, whole.attained[1]),
        ),
        "an end that is the variable": replace(
            whole, low=i, lower=ctx.prove(i >= i).certificate(), at_lower=None, attained=(None, whole.attained[1])
        ),
        "no end, and a proof of one": replace(whole, low=NEG_INF, at_lower=None, attained=(None, whole.attained[1])),
        "attained where it is another value": replace(
            whole, low=const(-5), lower=below, at_lower=dict(there.point), attained=(there, whole.attained[1])
        ),
        "another point": replace(whole, at_lower={i: 3}, attained=(first, whole.attained[1])),
        "a point, and nothing that says so": replace(whole, at_lower={i: 3}, attained=(None, whole.attained[1])),
    }
    for name, cert in forged.items():
        assert not cert.check() and not cert.check(ctx), name
    for var, facts in ((i, (i >= 2,)), (ShapeVar("declared", lower=2, multiple_of=2), ())):
        narrow = Context({var: Range(0, n)}, assume=facts)
        right = narrow.bounds(var).certificate()
        goal = attained_goal(
            i, const(0), {i: 0}, [(i, Range(0, n))], ()
        )  # what facts and declarations deny is left out
        shown = narrow.prove(goal).certificate()
        lower = narrow.prove(var >= 0).certificate()
        false = replace(right, low=const(0), lower=lower, at_lower={var: 0}, attained=(shown, right.attained[1]))
        assert right.check(narrow) and shown.check(narrow) and lower.check(narrow) and not false.check(), (var, facts)
