"""No certificate that states something false is accepted, whatever was done to it: enumeration knows the truth."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.intset.check.forgeries import forgeries, is_true, originals


def tamper(wanted: int, seed: int, random_questions: int) -> Counter:
    """Try `wanted` forgeries; each that is accepted must state the truth. How many there were, and of which kind."""
    rng = random.Random(seed)
    handed_out = originals(random_questions)
    for ctx, cert in handed_out:
        assert cert.check() and cert.check(ctx) and is_true(cert), cert
    certificates = [cert for _, cert in handed_out]
    seen: Counter = Counter()
    while seen["tried"] < wanted:
        for forged in forgeries(rng.choice(certificates), certificates, rng):
            seen["tried"] += 1
            if forged.check():
                seen["accepted"] += 1
                seen[f"accepted {forged.kind}"] += 1
                assert is_true(forged), (forged.kind, forged.goal, forged.facts, forged.ranges, forged.vacuous, forged)
    return seen


def test_a_forgery_that_is_accepted_states_the_truth():
    seen = tamper(160, 1, 4)
    assert seen["accepted"] < seen["tried"] / 3, seen
    assert {"accepted linear", "accepted isl", "accepted points", "accepted point", "accepted z3"} <= set(seen), seen


@pytest.mark.nightly
def test_many_forgeries_are_refused_or_true():
    seen = tamper(25_000, 2, 150)
    assert seen["accepted"] < seen["tried"] / 3, seen
