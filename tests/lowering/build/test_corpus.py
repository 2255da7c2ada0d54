"""Every schedule of the corpus, lowered: it equals the reference and touches nothing outside its storage."""

from __future__ import annotations

from typing import Any

import pytest

from bound import infer_bound
from bound.errors import ScheduleError
from intset.errors import InputError
from lowering import lower, rebase, run, simplify, to_c
from lowering.build.function import nest_of
from tests.bound.corpus import CASES
from tests.lowering.lowered import check, check_c, check_run, close, of_corpus, problem
from tests.sweeps import daily

REFUSED = tuple(name for name in CASES if name.startswith("reject_"))
RUN = tuple(name for name in CASES if name not in REFUSED)
FUNCTIONS = {"f": lambda given, result: result.__setitem__(Ellipsis, given * 2)}


def functions_of(name: str) -> Any:
    return FUNCTIONS if "extern" in CASES[name]["tags"] else None


@pytest.mark.parametrize("name", daily(RUN, 4))
def test_the_nest_equals_the_reference(name: str) -> None:
    s, f = of_corpus(name)
    check_run(f, s, CASES[name]["sub"], functions_of(name))


@pytest.mark.parametrize("name", daily(RUN, 12))
def test_the_c_code_equals_the_reference(name: str) -> None:
    s, f = of_corpus(name)
    if functions_of(name) is None:
        check_c(f, s, CASES[name]["sub"])
    else:
        with pytest.raises(InputError, match="a function of the host"):
            to_c(f)


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_the_rules_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError):
        lower(CASES[name]["fn"]())


@pytest.mark.parametrize("name", daily(RUN[::2], 4))
def test_each_pass_keeps_the_meaning(name: str) -> None:
    case = CASES[name]
    s = case["fn"]()
    given, expected = problem(s, case["sub"], functions_of(name))
    f = nest_of(infer_bound(s))
    for step in (f, simplify(f), rebase(f), rebase(simplify(f))):
        close(run(step, given, case["sub"], functions_of(name)), expected)


@pytest.mark.parametrize("name", daily(RUN[1::2], 4))
def test_boxes_without_guards_equal_the_reference(name: str) -> None:
    case = CASES[name]
    s = case["fn"]()
    check(s, case["sub"], functions_of(name), bounds=infer_bound(s, compute="box"))


@pytest.mark.parametrize("name", daily([name for name in RUN if CASES[name]["sub"]], 2))
def test_sizes_can_be_fixed(name: str) -> None:
    case = CASES[name]
    s, with_sizes = of_corpus(name)
    sizes = {v.name: case["sub"][v.name] for v in with_sizes.sizes}
    f = check(s, case["sub"], at=sizes)
    assert str(f) == str(lower(s, bounds=infer_bound(s, at=sizes)))
    assert all(f"assert {n} == {value}" in str(f) for n, value in sizes.items())
