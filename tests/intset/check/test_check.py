"""The checker of certificates by itself: what it imports, its text, its program; and forgeries met before."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

import intset
from intset import (
    BudgetError,
    Context,
    Fact,
    Opaque,
    ParseError,
    Range,
    ShapeVar,
    Var,
    cast,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
)
from intset.check import Certificate
from intset.check.__main__ import claim, main
from intset.check.evidence import Combination, Premise, WeightedProduct, both_ways, check_linear, ways_to_fail
from intset.expr.build import sum_of
from intset.expr.node import Cond, const, truth
from tests.intset.elsewhere import ran

SEARCHES = ("intset.context", "intset.domains", "intset.linear", "intset.prover", "bound", "lowering")

i, j, x, y = (Var(name) for name in "ijxy")
n, m = ShapeVar("n"), ShapeVar("m", 1, 64, multiple_of=4)
A = Opaque("A", 1)


def certificates() -> list[Certificate]:
    """Certificates of every kind that cover every kind of node."""
    proofs = [
        Context({i: Range(0, n), j: Range(0, m)}).prove(((i * m + j) // m).eq(i)),
        Context({i: Range(0, 128)}).prove(select(i < 64, i, i - 64) // 4 < 16),
        Context({x: Range(0, 8), y: Range(0, 8)}).prove((x ^ y) < 8),
        Context().prove((n * (n + 1) % 2).eq(0)),
        Context({i: Range(0, 3), j: Range(0, 3)}).prove(A[i] <= A[j]),
        Context({i: Range(0, 0)}).prove(i > 5),
        Context({x: None}, assume=[Fact(nonneg(x) < 10**5000, "derived")]).prove((cast(x, 8) <= 127) | truth(False)),
    ]
    return [proof.certificate() for proof in proofs]


def test_the_checker_loads_nothing_that_searches(tmp_path):
    texts = [cert.to_text() for cert in certificates()]
    file = tmp_path / "certificates"
    file.write_text("\n".join(texts) + "\n")
    code = "import sys; from intset.check.__main__ import main; print(main(sys.argv[1:])); print(*sorted(sys.modules))"
    *lines, ended, modules = ran("-c", code, file).splitlines()
    assert ended == "0" and len(lines) == len(texts) and all(line.startswith("accepted: ") for line in lines)
    assert {"intset.check.evidence", "islpy", "z3"} <= set(modules.split())
    assert not [name for name in modules.split() if name.startswith(SEARCHES)]


def test_texts_give_certificates_and_their_variables_back():
    for cert in certificates():
        text = cert.to_text()
        assert "\n" not in text and text.isascii()
        again = Certificate.from_text(text)
        assert again.check() and again.to_text() == text
        assert again.goal is cert.goal and again.ranges == cert.ranges and again.facts == cert.facts
        assert again.combinations == cert.combinations and again.point == cert.point
    twin = Var("i")
    ctx = Context({i: Range(0, 4), twin: Range(4, 4)})
    text = ctx.prove(i < twin).certificate().to_text()
    again = Certificate.from_text(text)
    assert again.check(ctx) and again.goal is (i < twin)
    assert "i < i#2" in claim(again) and "i#2 in [4, 7]" in claim(again)
    table = json.loads(text)
    assert table["nodes"][0][1] == "i"
    table["nodes"][0][1] = "k"  # the variable is alive here, under another name
    with pytest.raises(ParseError, match="another in this process"):
        Certificate.from_text(json.dumps(table))


def test_every_field_of_a_text_is_needed_and_none_is_added():
    for cert in certificates():
        table = json.loads(cert.to_text())
        for field in table:
            if field not in ("combinations", "count", "point", "text"):
                with pytest.raises(ParseError):
                    Certificate.from_text(json.dumps({k: v for k, v in table.items() if k != field}))
        with pytest.raises(ParseError, match="no meaning"):
            Certificate.from_text(json.dumps({**table, "trust": "me"}))
        for row in range(len(table["nodes"])):
            for bad in ([], ["nothing", []], ["add", [len(table["nodes"]), 0]], ["add", [-1, -1]], ["bool", [], 1], 7):
                rows = [*table["nodes"][:row], bad, *table["nodes"][row + 1 :]]
                with pytest.raises(ParseError):
                    Certificate.from_text(json.dumps({**table, "nodes": rows}))


def test_the_program_tells_its_verdicts(tmp_path, capsys):
    good = Context({i: Range(0, n * n)}).prove(i // n < n).certificate()
    bad = replace(good, goal=i // n < n - 1)
    file = tmp_path / "some"

    def ends(*lines: str) -> int:
        file.write_text("\n".join(lines))
        return main([str(file)])

    assert ends(good.to_text(), "", good.to_text()) == 0
    assert ends(good.to_text(), bad.to_text()) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-2].startswith("accepted: always: i // n < n given i in [0, n * n - 1]")
    assert out[-1].startswith("REJECTED: always: i // n < n - 1")
    assert ends(bad.to_text(), "\x1b[31mjunk", good.to_text()) == 2
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 2 and told.err.count("\n") == 1 and "some:2: " in told.err
    file.write_bytes(b"\xff\xfe")
    assert main([str(file)]) == 2
    assert main([str(tmp_path / "nothing")]) == 2 == main([])


def test_names_do_not_command_the_terminal(tmp_path, capsys):
    evil = Var("\x1b[31mi\r\nREJECTED\u202e")
    file = tmp_path / "evil"
    file.write_text(Context({evil: Range(0, 4)}).prove(evil + Opaque("\x07")() * 0 < 4).certificate().to_text())
    assert main([str(file)]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and out[:-1].isprintable() and "\\x1b[31mi\\r\\nREJECTED\\u202e" in out


# -- forgeries met before -------------------------------------------------------------------------------------------


def test_certificates_of_other_contexts_and_divisors_that_may_be_negative_are_refused():
    ctx = Context({i: Range(0, n)}, assume=[n < 9])
    cert = ctx.prove(i < 8).certificate()
    assert cert.check() and cert.check(ctx)
    assert not cert.check(Context({i: Range(0, n)})) and not cert.check(Context({i: Range(0, n + 1)}, assume=[n < 9]))
    asserted = replace(cert, facts=(Fact(i < 8, "asserted"),))
    assert not asserted.check(ctx)
    for kind in ("linear", "isl", "points", "z3"):
        with intset.using(tiers=(kind, "linear")):
            claimed = Context({x: Range(0, 8)}, assume=[Fact(x < 3, "asserted")]).prove(x < 4).certificate()
        assert claimed.check() and claimed.facts
        assert not claimed.check(Context({x: Range(0, 8)}))  # an assertion that neither goal nor context makes
    inner = Context({x: Range(-3, 8)}).prove(nonneg(x) < 5).certificate()
    assert inner.check() and inner.check(Context({x: Range(-3, 8)}))
    # Evidence for a positive divisor must refute divisor <= -1, not another falsehood.
    true = Context({x: None, y: Range(1, 3)}).prove((x // y) * y <= x).certificate()
    (one,) = true.combinations
    ((divisor, shown),) = one.divisors
    assert true.check() and divisor is y and shown.case == (y <= -1,)
    false = replace(true, ranges=tuple((v, Range(-3, 3) if v is y else r) for v, r in true.ranges))
    absurd = (x * 0 + 1 < 1,)
    trivial = Combination(absurd, (WeightedProduct(1, (Premise("the goal negated", absurd[0]),)),))
    for bad in (shown, trivial, trivial._replace(case=shown.case), shown._replace(divisors=one.divisors)):
        assert not replace(false, combinations=(one._replace(divisors=((y, bad),)),)).check(), bad
    elsewhere = one._replace(divisors=((x, shown),), terms=one.terms)
    assert not replace(true, combinations=(elsewhere,)).check()


def test_what_is_no_certificate_is_refused_not_raised():
    cert = Context({}, assume=[x >= 3, y <= 2]).prove(2 * x - y >= 4).certificate()
    (one,) = cert.combinations
    term = one.terms[0]
    shapes = [
        {"kind": None}, {"kind": "other"}, {"kind": []}, {"goal": x}, {"goal": None}, {"vacuous": 1}, {"facts": None},
        {"facts": (x >= 3,)}, {"facts": list(cert.facts)}, {"ranges": ((x, None),)},
        {"ranges": ((x, Range(0, 1)),) * 2}, {"combinations": None},
        {"combinations": (None,)}, {"text": "more"}, {"count": 1}, {"point": {x: 3}},
        {"combinations": (one._replace(terms=(term._replace(factor=0.5),)),)},
        {"combinations": (one._replace(terms=(term._replace(factor=True),)),)},
        {"combinations": (one._replace(terms=((1, ()),)),)},
        {"combinations": (one._replace(on=x),)},
        {"combinations": (one._replace(divisors=((x, None),)),)},
    ]  # fmt: skip
    for bad in shapes:
        assert not replace(cert, **bad).check(), bad
    nothing = Context({i: Range(0, 0)}).prove(i > 5).certificate()
    assert nothing.vacuous and nothing.check() and not replace(nothing, vacuous=1).check()


def test_every_branch_of_every_split_is_looked_at():
    """Spoiling any single leaf of a split tree invalidates the combination."""
    case = (x * 0 + 1 < 1,)  # contradictory, closes every leaf
    close = (WeightedProduct(1, (Premise("the goal negated", case[0]),)),)

    def split(given, conditions, spoil, place=()):
        """A tree of splits; `spoil` replaces or drops the leaf at each path."""
        if not conditions:
            return spoil(place, Combination(given, close))
        ways = both_ways(conditions[0], ())
        branches = [split((*given, *way), conditions[1:], spoil, (*place, k)) for k, way in enumerate(ways)]
        return Combination(given, (), (), conditions[0], tuple(one for one in branches if one is not None))

    cert = Certificate("linear", x * 0 + 1 >= 1)
    assert replace(cert, combinations=(split(case, (x < 3, y < 1, x < y), lambda place, leaf: leaf),)).check()
    spoiled = 0
    for place in itertools.product(range(2), repeat=3):
        for bad in (
            lambda leaf: leaf._replace(terms=()),
            lambda leaf: None,
            lambda leaf: leaf._replace(divisors=((y, leaf),)),
            lambda leaf: leaf._replace(terms=(), divisors=((y, leaf),)),
        ):
            tree = split(
                case, (x < 3, y < 1, x < y), lambda at, leaf, bad=bad, place=place: bad(leaf) if at == place else leaf
            )
            assert not replace(cert, combinations=(tree,)).check(), (place, tree)
            spoiled += 1
    assert spoiled == 32
    long = split(case, tuple(Var(f"v{k}") < k for k in range(8)), lambda place, leaf: leaf._replace(terms=()))
    assert not replace(cert, combinations=(long,)).check()  # more branches than are looked at


def test_what_is_long_or_deep_is_refused_or_read():
    # A combination whose polynomials would be too long: false, and nobody knows.
    one, other = (sum_of([Var(f"{name}{k}") for k in range(210)]) for name in "ab")
    cert = Certificate("linear", one * other > 0)
    ((way, _),) = ways_to_fail(cert)
    claimed = Combination(way, (WeightedProduct(1, (Premise("the goal negated", way[0]),)),))
    with pytest.raises(BudgetError):
        check_linear(replace(cert, combinations=(claimed,)))
    assert not replace(cert, combinations=(claimed,)).check()
    deep = x >= 0
    for k in range(3_000):
        deep = ~(deep & (x >= -k))
    assert Certificate("linear", deep | truth(True)).check() in (True, False)
    assert not Certificate("linear", deep).check()
    power: intset.Expr = x + y + 1
    for _ in range(12):
        power = power * power
    assert not Certificate("linear", power >= const(0)).check()


def by(goal: Cond, *premises: Premise, factor: int = 1, **stated: Any) -> Certificate:
    """A certificate that adds what makes the goal false to `factor` times each premise, in each way to fail."""
    cert = Certificate("linear", goal, **stated)
    terms = tuple(WeightedProduct(factor, (premise,)) for premise in premises)
    ways = [way for way, _ in ways_to_fail(cert)]
    combinations = (
        Combination(way, (WeightedProduct(1, (Premise("the goal negated", way[-1]),)), *terms)) for way in ways
    )
    return replace(cert, combinations=tuple(combinations))


def test_a_premise_is_what_its_reason_says_and_no_more():
    third, turned, floor = truncdiv(x, 3), truncdiv(x, const(-3)), x // const(-3)
    three = const(-3)
    lazy = select((x < 1) & (y < 1), 5, 0)
    false = {
        "a square": (x * x <= 0, x * x >= 1, x * y >= 0, x + x >= 0, x * x > 0),
        "declared": (m < 64, m > 1, m <= 63, m >= 2, n >= 1, A[i] >= 0),
        "the meaning of the operation": (
            third * 3 <= x, x <= third * 3, turned * -3 >= x, x >= floor * three + three + 2,
            x <= third * 3 + 3 - 2, (x - x // 3 * 3) * x >= 0,
            maximum(x, y) <= x, minimum(x, y) >= x, x // y * y <= x, x <= x // y * y + y - 1, abs(x) <= -x,
        ),
    }  # fmt: skip
    reasons = ("a fact", "where it has a value", "a range", "a divisor is positive")
    for why, goals in (*false.items(), *((why, (x < 5, x * y >= 1)) for why in reasons)):
        for goal in goals:
            assert not by(goal, Premise(why, goal)).check(), (why, goal)
    right = {"a square": (x * x >= 0,), "declared": (m <= 64, m >= 1), "the meaning of the operation": (abs(x) >= x,)}
    for why, goals in right.items():
        assert all(by(goal, Premise(why, goal)).check() for goal in goals), why
    for goal, why, cond, factor in (
        ((x >= 1) | (lazy >= 5), "the meaning of the operation", lazy.eq(5), 1),
        (minimum(x, y) >= x, "the meaning of the operation", minimum(x, y).eq(x), 1),
        (maximum(x, y) <= x, "the meaning of the operation", maximum(x, y).eq(x), -1),
        ((m % 4) >= 1, "declared", (m % 4).eq(1), 1),
    ):
        assert not by(goal, Premise(why, cond), factor=factor).check(), goal
