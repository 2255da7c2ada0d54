"""No certificate that states something false is accepted, whatever was done to it: enumeration knows the truth."""

from __future__ import annotations

import itertools
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

import intset
from intset import Context, EvaluationError, Fact, Opaque, ParseError, Range, ShapeVar, Var, evaluate, maximum, select
from intset.check import Certificate
from intset.check.evidence import box_of, premises_of
from intset.check.solvers import emptiness_text, unsat_text
from intset.expr import ops
from intset.expr.dag import free_vars, postorder, symbols
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, const, make, truth
from intset.infinity import Infinity
from intset.testing.contexts import question
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
    asked = [(ranges, goal, facts) for ranges, goal, facts in QUESTIONS]
    for seed in range(random_questions):
        q = question(seed)
        asked.append((q.ranges, q.goal, q.conds))
    found = []
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
    if not symbols(*_stated(cert)):
        return not _contradicted_somewhere(cert)
    return not any(_contradicts(cert, point) for point in _points(cert))


def _contradicted_somewhere(cert: Certificate) -> bool:
    """Compiled version of `_contradicts` over all `_points`, for claims without opaque symbols."""
    variables = free_vars(*_stated(cert))
    window = WINDOW if len(variables) <= 3 else range(-2, 6)
    spans = [[value for value in window if _declared(var, value)] for var in variables]
    holds = [compiled(cond, variables) for cond in _said(cert)]
    goal = compiled(truth(False) if cert.vacuous else cert.goal, variables)
    for point in itertools.product(*spans):
        try:
            if _hold(holds, point) and not goal(*point):
                return True
        except (EvaluationError, ZeroDivisionError):
            continue
    return False


def _said(cert: Certificate) -> list[Cond]:
    """What ranges and facts say."""
    said = [limits.min <= var for var, limits in cert.ranges if not isinstance(limits.min, Infinity)]
    said += [var <= limits.max for var, limits in cert.ranges if not isinstance(limits.max, Infinity)]
    return [*said, *(fact.condition for fact in cert.facts)]


def _hold(conditions: Sequence[Callable[..., bool]], values: Sequence[int]) -> bool:
    try:
        return all(hold(*values) for hold in conditions)
    except (EvaluationError, ZeroDivisionError):
        return False


def _stated(cert: Certificate) -> tuple[object, ...]:
    ends = [end for _, r in cert.ranges for end in (r.min, r.extent) if isinstance(end, Expr)]
    goal = () if cert.vacuous else (cert.goal,)
    return (*goal, *(fact.condition for fact in cert.facts), *ends, *(var for var, _ in cert.ranges))


def _points(cert: Certificate) -> Iterator[dict]:
    roots = _stated(cert)
    variables = free_vars(*roots)
    spans = [WINDOW if len(variables) <= 3 else range(-2, 6)] * len(variables)
    tables = list(itertools.product((0, 1), repeat=3))
    plain = [compiled(cond, variables) for cond in _said(cert) if not symbols(cond)]
    for values in itertools.product(*spans):
        point = dict(zip(variables, values, strict=True))
        if not all(_declared(var, point[var]) for var in variables) or not _hold(plain, values):
            continue  # whatever the tables are
        for contents in itertools.product(tables, repeat=len(symbols(*roots))):
            loads = {s: (lambda *at, t=t: t[at[0] % 3]) for s, t in zip(symbols(*roots), contents, strict=True)}
            yield {**point, **loads}


def _declared(var: Var, value: int) -> bool:
    low, high, step = var.declared()
    return (low is None or low <= value) and (high is None or value <= high) and value % step == 0


def _inside(cert: Certificate, point: dict) -> bool:
    for var, limits in cert.ranges:
        for end, sign in ((limits.min, 1), (limits.max, -1)):
            if not isinstance(end, Infinity) and sign * (point[var] - evaluate(end, point)) < 0:
                return False
    return all(evaluate(fact.condition, point) for fact in cert.facts)


def _contradicts(cert: Certificate, point: dict) -> bool:
    try:
        return _inside(cert, point) and (cert.vacuous or not evaluate(cert.goal, point))
    except EvaluationError:
        return False


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


@pytest.mark.parametrize(("wanted", "seed", "random_questions"), daily([(160, 1, 4), (25_000, 2, 150)], 2))
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
