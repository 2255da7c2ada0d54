"""Domains that violate their protocol: the error names the domain, the method and the answer."""

import copy
import itertools
import os
import pickle
import textwrap
from contextlib import ExitStack

import pytest

from intset import NEG_INF, POS_INF, Bounds, Context, DomainError, InputError, IntervalSet, IntSet, Range, Var, const
from intset.domains.isl.presburger import Isl
from intset.domains.query import Points
from intset.domains.registry import domain_names
from intset.domains.sets.base import ShapeSet
from intset.domains.sets.region import ProductRegion, Region
from intset.errors import BudgetError, UndecidedError
from intset.expr.build import logical_and
from tests import ROOT
from tests.intset.domains.outside import CoreShape, registered
from tests.intset.elsewhere import ran

I, J = Var("i"), Var("j")
CTX = Context({I: Range(0, 8), J: Range(0, 4)})
ASK = {
    "image": lambda name: CTX.value_set(I + J, domain=name),
    "bounds": lambda name: CTX.bounds(I + J, domain=name),
    "region": lambda name: CTX.image((I, J), domain=name),
}


class Unfinished(IntSet):
    """A set whose constructor was forgotten, and whose ends are not two."""

    condition = count = None

    def __init__(self, ends):
        self._given = ends

    def ends(self):
        return self._given


class Odd(Unfinished):
    def __init__(self, ends, is_exact=False):
        IntSet.__init__(self, "odd", False, is_exact)
        self._given = ends


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


def broken_bounds(low, high):
    found = Bounds(0, 1, True)
    return type("Mine", (Bounds,), {"__new__": lambda cls: tuple.__new__(cls, (low, high))})() if found else None


class Depends(IntervalSet):
    """A set with parameters that its ends do not mention."""

    @property
    def params(self):
        return (STRANGER,)


STRANGER = Var("n")
OPEN = Context({J: Range(0, STRANGER)})
LINE = Context({I: Range(0, 3)}).image((I,))
WRONG = {
    "image": [
        3, None, (0, 3), [0, 3], "x", Bounds(0, 3, True), Unprintable(), IntervalSet, range(3), LINE,
        Unfinished((const(0), const(3))), Odd(None), Odd((const(0),)), Odd((0, 3)), Odd((const(5), const(3))),
        Odd((POS_INF, const(3))), Odd((const(0), "n")), Odd((I, const(9))), Odd((const(0), const(3)), is_exact=1),
        IntervalSet(5, 3), IntervalSet(POS_INF, 3), IntervalSet(0, STRANGER), Odd((STRANGER, STRANGER + 3)),
        Odd((STRANGER + 1, STRANGER)), Depends(0, 7), OPEN.value_set(J * 0 + STRANGER), OPEN.value_set(I),
    ],
    "bounds": [
        3, None, (0, 3), (const(0), const(3)), "x", IntervalSet(0, 3), Unprintable(), Bounds,
        Bounds(5, 3, True), Bounds(POS_INF, 3, True), Bounds(0, NEG_INF, True), Bounds(0, I, True), Bounds(0, 3, 1),
        Bounds(0, 3, None), broken_bounds(0, 3), broken_bounds(const(0), None), Bounds(0, STRANGER, True),
    ],
    "region": [
        3, None, (Range(0, 8), Range(0, 4)), "x", IntervalSet(0, 3), Bounds(0, 3, True), Unprintable(), LINE,
        OPEN.image((I, J)), OPEN.image((STRANGER, J)),
        ProductRegion([IntervalSet(0, 7), IntervalSet(2, 1)], "odd", False),
        ProductRegion([IntervalSet(0, STRANGER), IntervalSet(2, 3)], "odd", False),
        ProductRegion([Odd((const(0), const(3))), Depends(0, 7)], "odd", False),
    ],
}  # fmt: skip


def domain(**answers):
    """A domain with the given answers, and sound ones otherwise."""

    def method(answer):
        def run(self, query):
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return run

    methods = {"image": lambda self, query: IntervalSet(NEG_INF, POS_INF, "odd")}
    return type("Foreign", (), {"name": "odd", **methods, **{what: method(a) for what, a in answers.items()}})


@pytest.fixture
def foreign():
    count = itertools.count()
    with ExitStack() as names:
        yield lambda **answers: names.enter_context(registered(domain(**answers), f"odd{next(count)}"))


@pytest.mark.parametrize("method", WRONG)
def test_what_is_no_answer_is_named_and_a_refusal_is_a_sound_answer(method, foreign):
    for answer in WRONG[method]:
        name = foreign(**{method: answer})
        with pytest.raises(DomainError, match=f"domain '{name}': {method} (returned|must)") as e:
            ASK[method](name)
        assert "\n" not in str(e.value) and len(str(e.value)) < 250
    # `BudgetError` is no violation: the domain, and a product with it, answers the universe with a note.
    name = foreign(**{method: BudgetError("too many")})
    answer = ASK[method](name)
    assert any("too many" in note for note in answer.notes)
    for found in (answer, ASK[method](f"{name}*modular")):
        assert not found.is_tight if method == "bounds" else not found.is_exact


@pytest.mark.parametrize("method", WRONG)
@pytest.mark.parametrize(
    "error", [ValueError("bad"), InputError("bad"), KeyError("k"), RecursionError(), AssertionError(), DomainError("x")]
)
def test_what_it_raises_is_the_cause(method, error, foreign):
    name = foreign(**{method: error})
    with pytest.raises(DomainError, match=f"domain '{name}': {method} raised {type(error).__name__}") as caught:
        ASK[method](name)
    assert caught.value.__cause__ is error


def test_an_interrupt_passes():
    with registered(domain(image=KeyboardInterrupt()), "odd"), pytest.raises(KeyboardInterrupt):
        CTX.value_set(I, domain="odd")


@pytest.mark.parametrize("answer", WRONG["image"])
def test_what_is_asked_through_image_is_checked_too(answer, foreign):
    name = foreign(image=answer)
    for ask in (*ASK.values(), lambda name: CTX.bounds(I, domain=f"interval*{name}")):
        with pytest.raises(DomainError, match=f"domain '{name}'"):
            ask(name)


def test_answers_of_the_right_form_pass(foreign):
    given = IntervalSet(0, 10, "mine")
    ends = Bounds(0, 10, False, "mine")
    region = CTX.image((I, J))
    name = foreign(image=given, bounds=ends, region=region)
    assert [ask(name) for ask in ASK.values()] == [given, ends, region]
    assert ASK["image"](name) is given and ASK["bounds"](name) is ends and ASK["region"](name) is region
    assert CTX.bounds(I, domain=foreign(bounds=Bounds(POS_INF, NEG_INF, True))).is_empty

    def condition(self, e):
        raise UndecidedError("too long")

    name = foreign(image=type("Shy", (Evens,), {"condition": condition})())
    assert SMALL.value_set(I * 2, domain=name).count() == 4
    of_sets, of_regions = foreign(image=Evens()), foreign(image=Evens(), region=Grid())
    s, r = SMALL.value_set(I * 2, domain=of_sets), SMALL.image((I, J), domain=of_regions)
    assert type(s) is Evens and type(r) is Grid
    assert s == SMALL.value_set(I * 2) and r == SMALL.image((I, J)) and (r | r).count() == 12
    with registered(OfShapes):
        s, r = SMALL.value_set(I * 2, domain="odd"), SMALL.image((I, J), domain="odd")
        assert s == SMALL.value_set(I * 2) and r.count() == 12 and type(r.shape) is CoreShape
    for answer in (s, r):
        for other in (pickle.loads(pickle.dumps(answer)), copy.copy(answer)):
            assert other.count() == answer.count() and str(other) == str(answer)


BROKEN = {
    "absent": ("no_such_module:Thing", "ModuleNotFoundError"),
    "attribute": ("outside:Nothing", "AttributeError"),
    "raising": ("raising:Thing", "RuntimeError: at import"),
    "leaving": ("leaving:Thing", "SystemExit"),
    "unmade": ("outside:Unmade", "TypeError"),
    "imageless": ("outside:Imageless", "no method image"),
}


def test_a_plugin_that_cannot_be_loaded_is_named_and_skipped(tmp_path):
    (tmp_path / "outside.py").write_text(textwrap.dedent("""
        from tests.intset.domains.outside import KnownBits
        class Unmade:
            def __init__(self, size): pass
        class Imageless: pass
    """))  # fmt: skip
    (tmp_path / "raising.py").write_text("raise RuntimeError('at import\\nand more')\n")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(3)\n")
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    points = "\n".join(f"{name} = {value}" for name, (value, _) in BROKEN.items())
    (info / "entry_points.txt").write_text(f"[intset.domains]\n{points}\nknown_bits = outside:KnownBits\n")
    (tmp_path / "corpus.json").write_text('[{"vars": {"i": [0, 8]}, "exprs": ["i * 2"]}]')
    script = textwrap.dedent("""
        import sys, warnings
        from intset import Context, DomainError, InputError, Range, Var, domain_names
        i = Var("i")
        ctx = Context({i: Range(0, 9)})
        assert ctx.bounds(i).ints() == (0, 8) and 13 in ctx.value_set(i * 8 + 5, domain="known_bits")
        try:
            ctx.bounds(i, domain="octagon")
        except InputError as error:
            assert "known: auto" in str(error)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            names = domain_names()
        assert "known_bits" in names and "isl" in names, names
        for name in sys.argv[1:]:
            named = [str(w.message) for w in caught if repr(name) in str(w.message)]
            assert name not in names and len(named) == 1 and "\\n" not in named[0], (name, named)
            print(named[0])
            try:
                ctx.bounds(i, domain=name)
            except DomainError as error:
                assert str(error) == named[0]
            else:
                raise AssertionError(name)
    """)
    told = ran("-c", script, *BROKEN, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)])).splitlines()
    for line, (name, (_, reason)) in zip(told, BROKEN.items(), strict=True):
        assert line.startswith(f"the domain {name!r}") and reason in line


def test_a_name_that_stands_for_another_domain_is_asked_again():
    """Re-registration of a name invalidates cached answers, also those of `auto` and of proofs."""
    ctx = Context({I: Range(0, 8), J: Range(0, 4)})
    asks = [
        lambda: ctx.bounds(I + J, domain="odd"),
        lambda: ctx.value_set(I + J, domain="odd").ends(),
        lambda: ctx.image((I + J,), domain="odd").box,
        lambda: ctx.bounds(I + J, domain="interval*odd"),
    ]
    before = domain_names()
    for _ in range(2):
        for last in (20, 30):
            with registered(domain(image=IntervalSet(0, last, "odd")), "odd"):
                assert [str(ask()).count(str(last)) for ask in asks[:2]] == [1, 1]
                assert [str(ask()) for ask in asks[2:]] == [str(ask()) for ask in asks[2:]]
            for ask in asks:
                with pytest.raises(InputError, match="unknown domain"):
                    ask()
    assert domain_names() == before


def test_a_climb_is_made_again_where_another_domain_can_be_asked():
    x = Var("x")
    ctx = Context({x: Range(0, 1000)})
    hard = (x * x * x + x) % 1013
    before = ctx.value_set(hard).by

    class Knows:
        name, cost = "knows", 1

        def image(self, query):
            return IntervalSet(0, 1012, self.name, is_exact=True)

    with registered(Knows):
        assert ctx.value_set(hard).by == "knows"
    assert ctx.value_set(hard).by == before


class Evens(IntSet):
    """The even numbers from 0 to 6."""

    def __init__(self):
        super().__init__("outside", False, True)

    def ends(self):
        return const(0), const(6)

    def condition(self, e):
        e = const(0) + e
        return (e >= 0) & (e <= 6) & (e % 2).eq(0)

    def count(self):
        return 4


class Grid(Region):
    """The grid `0 <= x <= 3`, `0 <= y <= 2`."""

    by, is_exact, notes, dims = "outside", True, (), 2
    params, is_empty = (), False

    @property
    def box(self):
        return Range(0, 4), Range(0, 3)

    def count(self):
        return 12

    def condition(self, point):
        x, y = point
        return logical_and(const(0) + x >= 0, const(0) + x <= 3, const(0) + y >= 0, const(0) + y <= 2)


class OfShapes:
    """A domain whose points are shapes from outside."""

    name, strength = "odd", 1

    def everything(self, dims):
        return CoreShape(Isl().everything(dims))

    def points(self, query):
        shape, notes = Isl().points(query)
        return Points(CoreShape(shape), notes)

    def image(self, query):
        shape, notes = self.points(query)
        return ShapeSet(shape, "outside", is_exact=not notes)


SMALL = Context({I: Range(0, 4), J: Range(0, 3)})


@pytest.mark.parametrize("member", ["condition", "box"])
@pytest.mark.parametrize("answer", [3, None, "x", (1,), ValueError("inside"), InputError("inside")])
def test_the_condition_and_the_box_of_an_answer_are_checked_once(member, answer, foreign):
    def broken(self, *given):
        if isinstance(answer, Exception):
            raise answer
        return answer

    for method, kind in (("image", Evens), ("region", Grid)):
        if hasattr(kind, member):
            answer_ = type("Broken", (kind,), {member: property(broken) if member == "box" else broken})()
            with pytest.raises(DomainError, match=f"{method} (returned Broken|must return)"):
                ASK[method](foreign(**{method: answer_}))
