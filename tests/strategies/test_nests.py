"""The random nests show every kind of statement and operand that passes must handle."""

from __future__ import annotations

import re

import pytest

from tests.strategies.nests import AFFINE, EVERYTHING, INTEGERS, Nest

DRAWS = 1000
KINDS = {  # by kind: text that shows it, inside a line or over two lines
    "guard": r"if ",
    "other branch": r"else:",
    "opposite guards": r"if not \(",
    "lazy and": r"if .*\w\].* and ",
    "lazy or": r"if .*\w\].* or ",
    "lazy select": r"= select\(.*\w\] ",
    "choice in a condition": r"select\(.*\) == ",
    "guarded division": r"select\(.* != \d, \d // ",
    "guarded division by data": r" != 0.* [%/]+ [ABCM]\[",
    "guarded access": r"select\(\w+ - \d - 1 >= 0",
    "division": r"\w // \d",
    "remainder": r"\w % \d",
    "local storage": r"allocate T",
    "partly written storage": r"in \[0, 6\):\n *T",
    "undef": r"undef\(\)",
    "symbolic end": r"in \[0, n",
    "negative start": r"in \[-\d",
    "empty loop": r"in \[2, 2\)",
    "triangle": r"in \[0, [ijk]\d+ \+ 1\)",
    "end read from data": r"in \[.*[ABC]\[",
    "unrolled loop": r"unrolled",
    "vectorized loop": r"vectorized",
    "parallel loop": r"parallel",
    "carried variable": r" with w\d+ = 1",
    "name": r"x\d+ = ",
    "name of an element": r"x\d+ = [ABC]\[",
    "index from data": r"\(([ABC])\[[^]]*\]\) % ",
    "reduction": r"(r\d+\]) = [ABC]\[\1 [-+] ",
    "identity store": r"([ABC]\[\w+\]) = \1\n",
    "two elements of one array": r" ([ABC])\[[^=\n]*\] = .*\1\[",
    "copy": r"([ABC])\[(i\d+)\] = (?!\1)[ABC]\[\2\]\n",
    "assumption": r"assume ",
    "guarded assumption": r"assume .* or ",
    "claim of a proof": r'"proved"',
    "assumption about padding": r"assume p \* 4",
    "two dimensions": r"M\[[^]]*, ",
    "host call": r"(bump|move)\(",
    "array of a size": r"Q\[\w+\] = ",
    "tiles": r"\* [234] \+ s\d",
    "window": r" >= 0\) & \(",
    "shared index": r"a\d+ (\*|\+|<).*% 12\] = ",
    "wrapping type": r"(u?int8|int16)\[",
    "float": r"float(16|32)\[",
}
ONLY_EVERYTHING = {"parallel loop", "host call", "array of a size", "float"}


@pytest.mark.parametrize("kinds", [EVERYTHING, INTEGERS])
def test_every_kind_occurs(kinds: frozenset[str]) -> None:
    texts = "\n".join(Nest(seed, kinds).text for seed in range(DRAWS))
    found = {kind for kind, pattern in KINDS.items() if re.search(pattern, texts)}
    assert found == set(KINDS) - (ONLY_EVERYTHING if kinds is INTEGERS else set())


def test_affine_nests_read_no_data_in_conditions_and_indices() -> None:
    for seed in range(DRAWS // 4):
        for line in Nest(seed, AFFINE).text.splitlines()[1:]:
            assert not re.search(r"(if|for|\[|select\().*[ABCM]\[[^]]*\] *(<|>|==|!=)", line) or "assume" in line
            assert not re.search(r"\[[^]]*[ABCM]\[", line)
