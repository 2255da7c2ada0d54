"""Numbers past the limit of digits that Python converts: as legal as any other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intset import Context, Range, ShapeVar, Var, const, parse
from intset.expr.digits import number_of, number_text

I, N = Var("i"), ShapeVar("n", lower=0)
BIG = 10**4500
CTX = Context({I: Range(0, 8)})


@given(st.integers(0, 30_000), st.integers(0, 1 << 64), st.booleans())
def test_text_and_back(shift, low, negative):
    value = ((1 << shift) + low) * (-1 if negative else 1)
    assert int(number_text(value), 0) == value
    if shift < 10_000:
        assert number_of(str(value)) == value


def test_decimal_digits_of_any_number():
    for digits in (1, 599, 600, 601, 1200, 4300, 4301, 10_000):
        for lead in ("1", "9"):
            text = lead + "0" * (digits - 1)
            assert number_of(text) == int(lead) * 10 ** (digits - 1) and number_of("-" + text) == -number_of(text)
    for wrong in ("", "-", "--1", "1_0", "0x10", " 1", "１"):  # noqa: RUF001
        with pytest.raises(ValueError, match="no decimal integer"):
            number_of(wrong)


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "modular", "interval*modular", "points"])
def test_every_domain_answers_and_prints(domain):
    e = I * BIG // 3
    for answer in (
        CTX.bounds(e, domain=domain),
        CTX.value_set(e, domain=domain),
        CTX.image((e, I), domain=domain),
        Context({I: Range(0, N)}).value_set(e, domain=domain),
        Context({I: Range(0, N)}).bounds(e + I % 3, domain=domain),
    ):
        assert repr(answer) and str(answer)
    if domain != "modular":
        assert CTX.bounds(e, domain=domain)[1] == 7 * BIG // 3


def test_proofs_of_and_by_such_numbers():
    x = Var("x")
    ctx = Context({x: Range(0, BIG)})
    refuted = ctx.prove(x < BIG - 1)
    assert refuted.counterexample == {x: BIG - 1} and "0x" in repr(refuted)
    assert ctx.prove(x < BIG) and repr(ctx) and repr(ctx.prove(x < BIG).used)


def test_such_numbers_are_parsed():
    for text, value in (("1" + "0" * 4500, BIG), ("1_0" * 3000, None), (str(const(-BIG)), -BIG)):
        found = parse(text + " * i", {"i": I})
        assert parse(str(found), {"i": I}) is found
        assert value is None or found == const(value) * I
