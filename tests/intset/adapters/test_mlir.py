"""MLIR's affine maps and sets: drawn texts beside Python's evaluation of the same text, and back."""

from __future__ import annotations

import itertools
import operator
import random
import re

import pytest

from intset import InputError, IntSetError, ParseError, Var, evaluate, minimum, select, truncdiv
from intset.adapters.mlir import AffineMap, affine_map, affine_set, map_text, set_text


class Number(int):
    """An integer with MLIR's operators, spelled `//`, `%` and `@` (of one precedence in Python as in MLIR)."""

    def __matmul__(self, other: int) -> Number:
        return Number(-(-int(self) // other))


COMPARED = {">=": operator.ge, "<=": operator.le, "==": operator.eq}


def python_value(text: str, names: dict[str, int]) -> int:
    spelled = re.sub(r"\bfloordiv\b", "//", re.sub(r"\bceildiv\b", "@", re.sub(r"\bmod\b", "%", text)))
    wrapped = re.sub(r"\b([a-z]\d)\b|\b(\d+)\b", r"Number(\1\2)", spelled)
    return int(eval(wrapped, {"Number": Number, **names}))


for _name in ("add", "sub", "mul", "floordiv", "mod", "neg"):
    _plain = getattr(int, f"__{_name}__")
    setattr(Number, f"__{_name}__", lambda *args, _plain=_plain: Number(_plain(*args)))


def drawn(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(("d0", "d1", "s0", str(rng.randrange(9))))
    a, b = drawn(rng, depth - 1), drawn(rng, depth - 1)
    divisor = rng.choice(("2", "3", "5", "s0", "(s0 + 1)"))
    return rng.choice(
        (
            f"{a} + {b}", f"{a} - {b}", f"({a} + {b}) * {rng.randrange(5)}", f"({a})", f"-{divisor} + {a}", f"-({a})",
            f"({a}) floordiv {divisor}", f"({a}) mod {divisor}", f"({a}) ceildiv {divisor}",
            f"{drawn(rng, 0)} mod {divisor} floordiv 2", f"{drawn(rng, 0)} * s0 ceildiv 3", f"({a}) - ({b})",
        )
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(80))
def test_drawn_maps_mean_what_python_says(seed: int) -> None:
    rng = random.Random(seed)
    items = [drawn(rng, 3) for _ in range(3)]
    read = affine_map(f"#m = affine_map<(d0, d1)[s0] -> ({', '.join(items)})>")
    again = affine_map(str(read), read.dims, read.symbols)
    for d0, d1, s0 in itertools.product((-7, 0, 5), (-2, 3), (1, 4)):
        names = {"d0": d0, "d1": d1, "s0": s0}
        point = dict(zip((*read.dims, *read.symbols), names.values(), strict=True))
        expected = [python_value(item, names) for item in items]
        assert [evaluate(e, point) for e in read.results] == expected
        assert [evaluate(e, point) for e in again.results] == expected


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("affine_map<() -> ()>", "()"),
        ("#m = affine_map<(i, j) [s] -> ( i * 5 floordiv 4, j ceildiv 7 mod s)>", "(i * 5 // 4, ceildiv(j, 7) % s)"),
        (
            "affine_map<(d0, d1)[mod, floordiv] -> (floordiv floordiv 2 - d0, mod mod 3)>",
            "(floordiv // 2 - d0, mod % 3)",
        ),
        ("(d0)[step, loc] -> (step - d0, symbol(loc))", "(step - d0, loc)"),
        ("(and, if)[not] -> (and + if * not)", "('and' + 'if' * 'not',)"),
        ("(i)[] -> (-5 floordiv 3, -i floordiv 4, i floordiv -1)", "(-5 // 3, -i // 4, i // -1)"),
        ("(a, b) ->\n  (a +\n b)", "(a + b,)"),
        ("affine_map<(list)[select, x] -> (list * select, x mod 2)> // (d0) -> (d0)", "(list * select, x % 2)"),
        ("(a$1, _b, c.0) -> (a$1 -1, _b, c.0*0x10)", "('a$1' - 1, _b, c.0 * 16)"),
        ("(True, None, lambda, max) -> (True + None + lambda, -max)", "('True' + None + lambda, -max)"),
        ("(d0) -> // the first\n (d0, // the second\n -2 - -d0)", "(d0, -2 - -d0)"),
    ],
)
def test_texts(text: str, results: str) -> None:
    read = affine_map(text)
    assert str(read.results) == results
    assert str(AffineMap(*affine_map(str(read)))) == str(read)


def test_drawn_sets_hold_where_python_says() -> None:
    members = 0
    for seed in range(60):
        rng = random.Random(seed)
        rows = [f"{drawn(rng, 2)} {rng.choice(('>=', '<=', '=='))} {drawn(rng, 1)}" for _ in range(rng.randint(1, 3))]
        read = affine_set(f"affine_set<(d0, d1)[s0] : ({', '.join(rows)})>")
        again = affine_set(str(read), read.dims, read.symbols)
        for d0, d1, s0 in itertools.product(range(-3, 4), range(-3, 4), (1, 2)):
            names = {"d0": d0, "d1": d1, "s0": s0}
            point = dict(zip((*read.dims, *read.symbols), names.values(), strict=True))
            sides = [re.split(r"(>=|<=|==)", row) for row in rows]
            expected = all(
                COMPARED[sign](python_value(left, names), python_value(right.strip(), names))
                for left, sign, right in sides
            )
            for constraints in (read.constraints, again.constraints):
                assert all(evaluate(cond, point) for cond in constraints) is expected
            members += expected
    assert members > 500


REFUSED = {
    "no arrow": lambda: affine_map("(d0 -> d0"),
    "an operand missing": lambda: affine_map("(d0) -> (d0 + )"),
    "an unknown name": lambda: affine_map("(d0) -> (d1)"),
    "a name twice": lambda: affine_map("(d0, d0) -> (d0)"),
    "a name that is none": lambda: affine_map("(0) -> (0)"),
    "never closed": lambda: affine_map("affine_map<(d0) -> (d0)"),
    "a set as a map": lambda: affine_map("affine_set<(d0) : (d0 >= 0)>"),
    "a number as a constraint": lambda: affine_set("(d0) : (d0)"),
    "a condition as a result": lambda: affine_map("(d0) -> (d0 >= 0)"),
    "a division by 0": lambda: affine_map("(d0) -> (d0 mod 0)"),
    "no text": lambda: affine_map(3),  # type: ignore[arg-type]
    "variables of another number": lambda: affine_map("(d0) -> (d0)", dims=[]),
    "no list": lambda: affine_map("(d0) -> d0"),
    "a minimum": lambda: map_text([minimum(i, 3)], [i]),
    "a select": lambda: map_text([select(i < 3, i, 0)], [i]),
    "an inequation": lambda: set_text([i.ne(3)], [i]),
    "a disjunction": lambda: set_text((i < 3) | (i > 5), [i]),
    "a stranger": lambda: map_text([i + Var("j")], [i], []),
    **{
        f"{text!r}": lambda text=text: affine_map(f"(i, j) -> ({text})")
        for text in (
            "i % 2", "i // 2", "i << 2", "i if i else 2", "i and j", "max(i, j)", "abs(i)", "symbol()", "symbol(i, j)",
            "i j", "i[0]", "1e3", "+i", "list(i)", "i) + (j", "i != 2", "'i'",
        )
    },
    "a union of bounds": lambda: affine_set("(d0) : (d0 > 3)"),
    "a product of dimensions": lambda: map_text([i * i], [i]),
    "a dimension twice": lambda: map_text([i], [i, i]),
    "a dimension that is a symbol": lambda: map_text([i], [i], [i]),
    "a dimension that is none": lambda: map_text([i], [i + 1]),  # type: ignore[list-item]
    "a name as a dimension": lambda: map_text([i], ["i"]),  # type: ignore[list-item]
    "a text as a result": lambda: map_text(["i"], [i]),  # type: ignore[list-item]
    "a result alone": lambda: map_text(i, [i]),  # type: ignore[arg-type]
    "a number beyond 64 bits": lambda: map_text([i + 2**63], [i]),
    "a truncated quotient": lambda: map_text([truncdiv(i, 3)], [i]),
}  # fmt: skip
i = Var("i")


def test_products_and_divisors_have_symbols_alone() -> None:
    j, n = Var("j"), Var("n")
    for e in (i * j, (i + n) * (j - 1), i // j, n % (i + n), i * n * j):
        with pytest.raises(InputError, match="dimension"):
            map_text([e], [i, j], [n])
        assert affine_map(map_text([e], [], [i, j, n]))
    assert map_text([i * (n * n), (i + j) // (n + 1), 3], [i, j]) == (
        "affine_map<(d0, d1)[s0] -> (d0 * (s0 * s0), (d0 + d1) floordiv (s0 + 1), 3)>"
    )


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_none_is_refused(name: str) -> None:
    with pytest.raises(IntSetError) as error:
        REFUSED[name]()
    assert isinstance(error.value, (ParseError, InputError)) and str(error.value)
