"""Certificates of an adversary: no false certificate is accepted, however forged."""

import itertools
import json
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intset
from intset import (
    Context,
    EvaluationError,
    Fact,
    Opaque,
    ParseError,
    Range,
    ShapeVar,
    Var,
    evaluate,
    maximum,
    parse,
    select,
)
from intset.check import BoundsCertificate, Certificate
from intset.check.__main__ import claim, main
from intset.check.certificate import end_goal
from intset.check.evidence import CheckBudget, Combination, Premise, WeightedProduct, box_of, premises_of
from intset.check.solvers import emptiness_text, unsat_text
from intset.expr import Infinity, ops
from intset.expr.build import asserting
from intset.expr.dag import free_vars, postorder, symbols
from intset.expr.evaluate import compiled, value_or_none
from intset.expr.node import Cond, Expr, const, make, truth
from intset.expr.printer import name_text
from intset.testing.contexts import question
from tests.strategies.contexts import value
from tests.sweeps import daily

WINDOW = range(-6, 10)  # where an unbounded variable is tried

i, j, x, y = (Var(name) for name in "ijxy")
twin = Var("i")  # another variable of that name
n, m = ShapeVar("n", 1, 5), ShapeVar("m", 0, 6, multiple_of=3)
A = Opaque("A", 1, lower=0, upper=1)
B = Opaque("B", 1)

QUESTIONS = [
    ({i: Range(0, n), j: Range(0, m)}, i * m + j < n * m, ()),
    ({i: Range(0, n), j: Range(0, m)}, ((i * m + j) // m).eq(i), ()),
    ({i: Range(0, n * n)}, i // n < n, ()),
    ({i: Range(0, n * m)}, i // m < n, ()),
    ({}, (n * (n + 1) % 2).eq(0), ()),
    ({}, ((n * m) // maximum(m, 1)).eq(n) | m.eq(0), ()),
    ({}, x - y >= 1, (Fact(x >= 3, "asserted"), y <= 2, x <= 8)),
    ({i: Range(0, 8), j: Range(i, 3)}, i <= 2, ()),
    ({i: Range(0, 4), j: Range(0, i - 2)}, i + j >= 3, ()),
    ({i: Range(2, 4), j: Range(1, i)}, (i + j) % 3 >= 0, ()),
    ({i: Range(0, 0)}, i > 5, ()),
    ({i: Range(0, 9)}, i.eq(77), ((i % 2).eq(0), (i % 4).eq(1))),
    ({}, n.eq(1000), (n >= 5, n <= 3)),
    ({i: Range(0, 3), twin: Range(3, 2)}, i < twin, ()),
    ({i: Range(0, 3), j: Range(0, 3)}, ~i.eq(j) | A[i].eq(A[j]), ()),
    ({i: Range(0, 3), j: Range(0, 3)}, A[i] + A[j] <= 2, ()),
    ({i: Range(0, 3), j: Range(0, 3)}, A[i] <= A[j], ()),
    ({i: Range(0, 3), j: Range(0, 3)}, i.eq(j) | A[i].eq(A[j]), ()),
    ({x: Range(0, 4)}, select(x < 0, A[10 // x], 3) > 5, ()),
    ({x: Range(-3, 7)}, select(x.ne(0), 6 // x, 0) <= 6, ()),
    ({x: Range(-3, 7)}, 6 // x <= 5, ()),
    ({x: Range(0, 4), y: Range(0, 4)}, (x ^ y) < 4, ()),
    ({x: Range(0, 4), y: Range(0, 4)}, (x & y) <= x, ()),
    ({x: Range(0, 8)}, x < 3, ()),
    ({x: Range(-5, 11)}, (x % 4 < 4) & (x // 4 * 4 <= x), ()),
    ({x: Range(-5, 11)}, intset.nonneg(x) >= 0, ()),
    ({x: Range(-5, 11), y: Range(-2, 5)}, (intset.truncdiv(x, y) * y + intset.truncmod(x, y)).eq(x), ()),
]


def originals(random_questions: int = 40) -> list[tuple[Context, Certificate]]:
    """(context, certificate) pairs of all kinds from the prover."""
    drawn = map(question, range(random_questions))
    asked, found = [*QUESTIONS, *((q.ranges, q.goal, q.conds) for q in drawn)], []
    for ranges, goal, facts in asked:
        for tiers in (intset.Config().tiers, ("z3",), ("points",)):
            with intset.using(tiers=tiers), warnings.catch_warnings():
                warnings.simplefilter("ignore", intset.ContradictionWarning)
                ctx = Context(ranges, assume=facts)
                proof = ctx.prove(goal)
                if proof.status != "unknown":
                    found.append((ctx, proof.certificate()))
    return found


# -- the truth ----------------------------------------------------------------------------------------------------


def is_true(cert: Certificate) -> bool:
    """Whether the claim holds on a window of all variables and all 0/1 tables of opaque symbols.

    The checker must reject claims that are false there.
    """
    if cert.kind == "point":
        return _fails_at(cert)
    goal = truth(False) if cert.vacuous else cert.goal
    stated = (*(() if cert.vacuous else (goal,)), *_said(cert), *(var for var, _ in cert.ranges))
    variables, loaded = free_vars(*stated), symbols(*stated)
    window = WINDOW if len(variables) <= 3 else range(-2, 6)
    plain = [compiled(cond, variables) for cond in _said(cert) if not symbols(cond)]
    rows = itertools.product(*([x for x in window if _declared(var, x)] for var in variables))
    inside = (row for row in rows if all(value_or_none(cond, *row) is True for cond in plain))
    if not loaded:
        holds = compiled(goal, variables)
        return not any(value_or_none(holds, *row) is False for row in inside)
    tables = list(itertools.product((0, 1), repeat=3))
    for row, contents in itertools.product(inside, itertools.product(tables, repeat=len(loaded))):
        loads = {s: (lambda *at, t=t: t[at[0] % 3]) for s, t in zip(loaded, contents, strict=True)}
        if _contradicts(cert, {**dict(zip(variables, row, strict=True)), **loads}):
            return False
    return True


def _said(cert: Certificate | BoundsCertificate) -> list[Cond]:
    """What ranges and facts say."""
    said = [limits.min <= var for var, limits in cert.ranges if not isinstance(limits.min, Infinity)]
    said += [var <= limits.max for var, limits in cert.ranges if not isinstance(limits.max, Infinity)]
    return [*said, *(fact.condition for fact in cert.facts)]


def _inside(cert: Certificate | BoundsCertificate, point: dict) -> bool:
    return all(value(cond, point) is True for cond in _said(cert))


def _declared(var: Var, x: int) -> bool:
    low, high, step = var.declared()
    return (low is None or low <= x) and (high is None or x <= high) and x % step == 0


def _contradicts(cert: Certificate, point: dict) -> bool:
    return _inside(cert, point) and (cert.vacuous or value(cert.goal, point) is False)


def _fails_at(cert: Certificate) -> bool:
    """Whether the point lies inside and contradicts the goal, with the values of loads as those of a table."""
    point = {e: value for e, value in cert.point.items() if e.op is ops.VAR}
    if not all(_declared(var, value) for var, value in point.items()):
        return False
    loads = [e for e in cert.point if e.op is ops.LOAD]
    for symbol in dict.fromkeys(e.data for e in loads):
        table: dict[tuple[int, ...], set[int]] = {}
        for e in (e for e in loads if e.data is symbol):
            try:
                inner = {**point, **{e: cert.point[e] for e in loads}}
                table.setdefault(tuple(evaluate(index, inner) for index in e.args), set()).add(cert.point[e])
            except EvaluationError:
                continue
        point[symbol] = lambda *at, table=table, symbol=symbol: _only(table, at, symbol)
    return _contradicts(cert, point)


def _only(table: dict, at: tuple[int, ...], symbol: Opaque) -> int:
    (value,) = table.get(at, {symbol.lower or 0})  # two values for one element are none
    assert (symbol.lower is None or value >= symbol.lower) and (symbol.upper is None or value <= symbol.upper)
    return value


# -- what a forger may do -----------------------------------------------------------------------------------------


def forgeries(cert: Certificate, others: list[Certificate], rng: random.Random) -> Iterator[Certificate]:
    """Mutations of `cert` in a few fields, some with regenerated evidence."""
    other = rng.choice(others)
    yield replace(cert, goal=_other_condition(cert.goal, rng))
    yield replace(cert, goal=~cert.goal)
    yield replace(cert, goal=other.goal)
    yield replace(cert, vacuous=not cert.vacuous)
    yield replace(cert, facts=_without_one(cert.facts, rng))
    yield replace(cert, facts=(*cert.facts, *other.facts[:1], Fact(_other_condition(cert.goal, rng))))
    yield replace(cert, facts=tuple(Fact(_other_condition(f.condition, rng), f.provenance) for f in cert.facts))
    yield replace(cert, ranges=_without_one(cert.ranges, rng))
    yield replace(cert, ranges=tuple((var, _other_range(limits, rng)) for var, limits in cert.ranges))
    yield replace(cert, ranges=tuple(zip((v for v, _ in cert.ranges[::-1]), (r for _, r in cert.ranges), strict=True)))
    kind = rng.choice(("linear", "isl", "points", "z3", "point", "nothing"))
    yield replace(cert, kind=kind)
    yield replace(
        cert, kind=other.kind, combinations=other.combinations, text=other.text, count=other.count, point=other.point
    )
    yield replace(other, goal=cert.goal, ranges=cert.ranges, facts=cert.facts)
    yield replace(cert, kind="z3", combinations=(), count=0, point={}, text="(assert false)")
    yield replace(cert, kind="isl", combinations=(), count=0, point={}, text="{ [] : false }")
    yield replace(cert, kind="linear", text="", count=0, point={}, combinations=())
    yield replace(cert, count=cert.count + rng.choice((-1, 1)))
    yield replace(cert, text=_other_text(cert.text, rng))
    if cert.point:
        e = rng.choice(list(cert.point))
        yield replace(cert, point={**cert.point, e: cert.point[e] + rng.choice((-1, 1, 7))})
        yield replace(cert, point={k: v for k, v in cert.point.items() if k is not e})
        yield replace(cert, point=dict(zip(cert.point, list(cert.point.values())[::-1], strict=True)))
    for place, one in enumerate(cert.combinations):
        bad = rng.choice(list(combination_forgeries(one, rng)))
        yield replace(cert, combinations=(*cert.combinations[:place], bad, *cert.combinations[place + 1 :]))
    for stated in (
        replace(cert, goal=_other_condition(cert.goal, rng)),
        replace(cert, ranges=tuple((var, _other_range(limits, rng)) for var, limits in cert.ranges)),
        replace(cert, facts=_without_one(cert.facts, rng)),
        replace(cert, vacuous=True),
    ):
        yield signed_anew(stated, rng.choice(("isl", "z3", "points")))
    yield from _as_text(cert, rng)


def signed_anew(cert: Certificate, kind: str) -> Certificate:
    """The claim with the strongest evidence that a forger with knowledge of the checker could write."""
    plain = replace(cert, kind=kind, combinations=(), text="", count=0, point={})
    if kind == "isl":
        return replace(plain, text=emptiness_text(premises_of(plain), None if plain.vacuous else plain.goal) or "")
    if kind == "z3":
        return replace(plain, text=unsat_text(plain) or "")
    box = box_of(plain)
    return replace(plain, count=0 if box is None else len(list(itertools.product(*box.values()))))


def combination_forgeries(one, rng: random.Random):
    """Combinations that differ from `one` in one place, at any depth."""
    yield one._replace(case=())
    yield one._replace(case=(*one.case, truth(False)))
    yield one._replace(case=tuple(_other_condition(cond, rng) for cond in one.case))
    yield one._replace(divisors=())
    for place, branch in enumerate(one.branches):
        yield one._replace(branches=(*one.branches[:place], *one.branches[place + 1 :]))
        for bad in combination_forgeries(branch, rng):
            yield one._replace(branches=(*one.branches[:place], bad, *one.branches[place + 1 :]))
    if one.on is not None:
        yield one._replace(on=_other_condition(one.on, rng))
        yield one._replace(on=None)
    for place, (factor, premises) in enumerate(one.terms):
        term = one.terms[place]
        others = (*one.terms[:place], *one.terms[place + 1 :])
        forged = [term._replace(factor=k) for k in (-factor, 0, factor + 1, factor * 2)]
        forged += [term._replace(premises=premises[1:]), term._replace(premises=(*premises, premises[0]))]
        for why in (
            "a fact", "a range", "declared", "a square", "the meaning of the operation", "where it has a value",
        ):  # fmt: skip
            forged.append(term._replace(premises=tuple(c._replace(why=why) for c in premises)))
        changed = tuple(c._replace(cond=_other_condition(c.cond, rng)) for c in premises)
        yield one._replace(terms=others)
        for bad in (*forged, term._replace(premises=changed)):
            yield one._replace(terms=(*others, bad))


def _other_condition(cond, rng: random.Random):
    """`cond` with one node changed: another constant, another variable, another operation."""
    nodes = postorder((cond,))
    node = rng.choice(nodes)
    if node.op is ops.CONST:
        new = const(node.data + rng.choice((-2, -1, 1, 2)))
    elif node.op is ops.VAR:
        new = rng.choice([*free_vars(cond), const(rng.randint(-1, 3)), node + 1])
    elif node.op in ops.COMPARISONS:
        new = make(rng.choice(ops.COMPARISONS), node.args)
    elif node.op in (ops.AND, ops.OR):
        new = make(ops.OR if node.op is ops.AND else ops.AND, node.args)
    elif isinstance(node, Expr) and len(node.args) == 2 and node.op not in (ops.ASSERTING, ops.LOAD):
        new = make(rng.choice((ops.ADD, ops.SUB, ops.MUL, ops.MIN, ops.FLOORDIV, ops.FLOORMOD)), node.args)
    else:
        new = ~node if not isinstance(node, Expr) else node - 1
    return _replaced(cond, node, new)


def _replaced(root, old, new):
    made = {}
    for node in postorder((root,)):
        args = tuple(made[arg] for arg in node.args)
        made[node] = new if node is old else make(node.op, args, node.data) if args else node
    return made[root]


def _other_range(limits: Range, rng: random.Random) -> Range:
    if isinstance(limits.min, Infinity) or isinstance(limits.extent, Infinity):
        return Range(0, 3)
    low, extent = rng.choice(((-1, 1), (1, -1), (0, 1), (0, -1), (1, 0), (-1, 0)))
    extent = limits.extent + extent
    if limits.ends is not None:
        return Range(limits.ends[0] + low, max(evaluate(extent, {}), 0))
    return Range(limits.min + low, extent)


def _without_one(rows: tuple, rng: random.Random) -> tuple:
    place = rng.randrange(len(rows)) if rows else 0
    return (*rows[:place], *rows[place + 1 :])


def _other_text(text: str, rng: random.Random) -> str:
    if not text:
        return "(assert false)"
    place = rng.randrange(len(text))
    return rng.choice((text + "\n(assert false)", text[:place] + text[place + 1 :], text.replace(">", "<", 1), ""))


def _as_text(cert: Certificate, rng: random.Random) -> Iterator[Certificate]:
    """Certificates parsed from mutated text; unparsable mutations are skipped."""
    table = json.loads(cert.to_text())
    for _ in range(4):
        bad = json.loads(json.dumps(table))
        _disturb(bad, rng)
        try:
            yield Certificate.from_text(json.dumps(bad))
        except ParseError:
            continue


def _disturb(table: dict, rng: random.Random) -> None:
    """Change one entry somewhere in the table."""
    here: object = table
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(here[key], (dict, list)) and here[key] and rng.random() < 0.85:
            here = here[key]
            continue
        value = here[key]
        if type(value) is int:
            here[key] = value + rng.choice((-1, 1))
        elif isinstance(value, bool):
            here[key] = not value
        elif isinstance(value, str):
            here[key] = rng.choice(("add", "sub", "mul", "lt", "le", "eq", "linear", "isl", "z3", "points", "", value))
        elif isinstance(value, list):
            rng.shuffle(value)
        else:
            here.pop(key)
        return


# -- forgeries are refused or true -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "seed", "random_questions"), daily([(110, 1, 4), (25_000, 2, 150)], 2))
def test_a_forgery_that_is_accepted_states_the_truth(wanted, seed, random_questions):
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
    assert seen["accepted"] < seen["tried"] / 3, seen
    assert {"accepted linear", "accepted isl", "accepted points", "accepted point", "accepted z3"} <= set(seen), seen


few = ShapeVar("m", 0, 4)

# -- ends that have no value --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [asserting(n < 0, const(3)), 3 - 1 // (n - n), 3 + 0 // few, select(few > 1, 3, 3 // few)]
)
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


@settings(max_examples=70, deadline=None)
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
    "points of a long goal": lambda: Certificate(
        "points", long_goal(300), False, (), ((x, Range(0, 10**6)),), count=10**6
    ),
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
    budget, begun = CheckBudget(30_000), time.process_time()
    assert not cert.check(budget=budget)
    assert budget.is_spent and time.process_time() - begun < 60  # less than a second on an idle machine
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
        ({x: Range(0, n), y: Range(0, few)}, x * few + y, ()),
        ({x: Range(0, 5)}, x // few, (few >= 1,)),
        ({x: Range(0, n)}, intset.nonneg(x - 1), ()),
        ({x: Range(-3, 7)}, select(x.ne(0), 6 // x, 0), ()),
        ({x: Range(0, n)}, x + few, (Fact(x < 3, "asserted"),)),
    ]
    found = []
    for ranges, e, facts in asked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(Context(ranges, assume=facts).bounds(e).certificate())
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
        x = value(cert.expr, point)
        if x is None or not _inside(cert, point):
            continue
        ends = [None if isinstance(e, Infinity) else (value(e, point),) for e in (cert.low, cert.high)]
        if cert.empty is not None or (None,) in ends:
            return True
        if (ends[0] is not None and x < ends[0][0]) or (ends[1] is not None and x > ends[1][0]):
            return True
        sizes = tuple(k for v, k in point.items() if v not in ranged or v in cert.keep)
        seen = attained.setdefault(sizes, [False, False])
        seen[0] |= (x,) == ends[0]
        seen[1] |= (x,) == ends[1]
    claimed = (cert.at_lower is not None, cert.at_upper is not None)
    return any(said and not seen[side] for seen in attained.values() for side, said in enumerate(claimed))


def _forged(cert: BoundsCertificate, rng: random.Random) -> BoundsCertificate:
    side = rng.choice(("low", "high"))
    end = getattr(cert, side)
    if rng.random() < 0.5 or isinstance(end, Infinity):
        table = json.loads(cert.to_text())
        _disturb(table, rng)
        return BoundsCertificate.from_text(json.dumps(table))
    d = rng.choice((few, n - 1, n - n, n, x if x in dict(cert.ranges) else few))
    new = rng.choice(
        (
            end + 1, end - 1, end // d, asserting(few > 1, end), asserting(d < 0, end), end + 1 // d,
            select(few > 0, end, 9 // few),
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
    facts = rng.choice((part.facts, (*part.facts, Fact(d < 0, "asserted")), (*part.facts, Fact(few > 1, "asserted"))))
    anew = signed_anew(replace(part, goal=goal, facts=facts), rng.choice(("isl", "z3", "points")))
    kept = rng.random() < 0.5
    first, last = cert.attained
    attained = (first if number or kept else None, last if not number or kept else None)
    at = {"at_lower": cert.at_lower if attained[0] else None, "at_upper": cert.at_upper if attained[1] else None}
    shown = {"lower": anew} if number == 0 else {"upper": anew}
    return replace(forged, attained=attained, **at, **shown)


@pytest.mark.parametrize(("wanted", "seed"), daily([(70, 3), (20_000, 4)], 2))
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
