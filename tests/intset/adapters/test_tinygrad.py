"""tinygrad's terms, both ways: drawn expressions and the kernels of models beside tinygrad's own evaluation."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from intset import Opaque, ShapeVar, Var, evaluate
from intset.expr.node import Cond, Expr, Node
from tests.intset.adapters.documented import check_examples
from tests.strategies.contexts import Expressions, value
from tests.strategies.refusals import refused

pytest.importorskip("tinygrad.uop.ops")
from tinygrad import Device, Tensor, dtypes, nn
from tinygrad.codegen import full_rewrite_to_sink
from tinygrad.dtype import Invalid
from tinygrad.helpers import Context as TinyContext
from tinygrad.uop.ops import Ops, UOp, exec_alu

from intset.adapters import tinygrad as adapter
from intset.adapters.tinygrad import KernelTerms, bounds, exporter, from_tinygrad, to_tinygrad

i, j = Var("i"), Var("j")
n = ShapeVar("n", 1, 64)
INTEGERS = (dtypes.weakint, *dtypes.ints)


def element(index: int) -> int:
    """What every buffer holds in these tests."""
    return (index * 7 + 3) % 11


def value_in_tinygrad(root: Any, point: Mapping[Any, int]) -> Any:
    """The value of a term by tinygrad's own table of operations; leaves have the values of `point`."""
    known: dict[Any, Any] = {}
    stack = [root]
    while stack:
        term = stack[-1]
        operands = (
            () if term in point or term.op is Ops.CONST else term.src[1:] if term.op is Ops.INDEX else
            term.src[:1] if term.op is Ops.AFTER else term.src
        )  # fmt: skip
        waiting = [arg for arg in operands if arg not in known]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        values = [known[arg] for arg in operands]
        if term in point:
            known[term] = point[term]
        elif term.op is Ops.CONST:
            known[term] = term.val
        elif term.op is Ops.INDEX:
            known[term] = Invalid if Invalid in values else element(values[0])
        elif term.op is Ops.LOAD:
            known[term] = values[0] if len(values) == 1 or values[2] else values[1]
        elif term.op is Ops.AFTER:
            known[term] = values[0]
        elif term.op is Ops.CAST:
            known[term] = exec_alu(Ops.ADD, term.dtype, (int(values[0]), 0)) if values[0] is not Invalid else Invalid
        else:
            known[term] = exec_alu(term.op, term.dtype, values)
    return known[root]


@pytest.mark.parametrize("seed", range(60))
def test_drawn_expressions_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    drawn = Expressions(rng, (i, j), "sums products quotients divisors choices bits casts", sizes=(n,), shared=40)
    there = exporter({i: UOp.range(9, 0), j: UOp.special(7, "gidx0")})
    for root in (drawn.integer(4), drawn.condition(3)):
        term = there(root)
        back = KernelTerms(there.sources)
        again = back(term)
        for _ in range(6):
            point: dict[Node, int] = {i: rng.randrange(9), j: rng.randrange(7), n: rng.randint(1, 64)}
            expected = value(root, point)
            if expected is not None:
                at = {there.variables[v]: point[v] for v in root.free_vars()}
                assert value_in_tinygrad(term, at) == expected
                assert evaluate(again, point) == expected


def relu_layer() -> Tensor:
    return (Tensor.empty(4, 8) @ Tensor.empty(8, 6)).relu() @ Tensor.empty(6, 3)


def attention() -> Tensor:
    q, k, v = (Tensor.empty(2, 3, 5, 4) for _ in range(3))
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def resnet_block() -> Tensor:
    x = Tensor.empty(1, 4, 6, 6)
    y = x.conv2d(Tensor.empty(4, 4, 3, 3), padding=1).relu().conv2d(Tensor.empty(4, 4, 3, 3), padding=1)
    return (x + y).relu()


def gru_cell() -> Tensor:
    x, h = Tensor.empty(2, 5), Tensor.empty(2, 4)
    gates, hidden = x.linear(Tensor.empty(5, 12)), h.linear(Tensor.empty(4, 12))
    r, z = ((gates[:, k : k + 4] + hidden[:, k : k + 4]).sigmoid() for k in (0, 4))
    return (1 - z) * (gates[:, 8:] + r * hidden[:, 8:]).tanh() + z * h


MODELS: dict[str, Callable[[], Tensor]] = {
    "mlp": relu_layer,
    "convolutions": lambda: Tensor.empty(1, 3, 9, 9).conv2d(Tensor.empty(4, 3, 3, 3), stride=2, padding=1).max_pool2d(),
    "attention": attention,
    "layer norm": lambda: Tensor.empty(3, 10).layernorm() * Tensor.empty(10),
    "softmax": lambda: Tensor.empty(3, 7).softmax(),
    "resnet block": resnet_block,
    "embedding": lambda: Tensor.empty(11, 4)[Tensor.empty(2, 3, dtype=dtypes.int)],
    "gru cell": gru_cell,
    "average pool": lambda: Tensor.empty(1, 2, 7, 7).avg_pool2d(3, 2, padding=1),
    "grouped convolution": lambda: Tensor.empty(1, 4, 6, 6).conv2d(Tensor.empty(4, 2, 3, 3), groups=2, dilation=2),
    "transposed, flipped, rolled": lambda: (Tensor.empty(5, 6).T.flip(0).roll(2, 1).reshape(10, 3) + 1).cat(
        Tensor.empty(2, 3)
    ),
    "cumulative sum": lambda: Tensor.empty(3, 12).cumsum(1),
    "batch norm of a transposed convolution": lambda: nn.BatchNorm(2)(
        Tensor.empty(1, 3, 4, 4).conv_transpose2d(Tensor.empty(3, 2, 3, 3), stride=2)
    ),
    "a linear layer of unknown batch": lambda: (
        Tensor.empty(32, 8)[: UOp.variable("batch", 1, 32).bind(7)].linear(Tensor.empty(8, 5)).relu()
    ),
}  # fmt: skip


def indices(model: str) -> list[tuple[int, Any]]:
    """The index terms and gates of the kernels of a model, as scheduled, lowered, and lowered with optimizations."""
    found: list[tuple[int, Any]] = []
    with TinyContext(DEV="PYTHON"):
        calls = MODELS[model]().contiguous().linear_with_vars()[0].src
        renderer = Device["PYTHON"].renderer
        kernels = [call.src[0] for call in calls if call.src[0].op is Ops.SINK]
        for k, kernel in enumerate(kernels):
            lowered = [full_rewrite_to_sink(kernel, renderer, optimize=flag) for flag in (False, True)]
            for stage, sink in enumerate((kernel, *lowered)):
                for term in sink.toposort():
                    if term.op is Ops.INDEX:
                        found += [(3 * k + stage, index) for index in term.src[1:] if index.dtype in INTEGERS]
                    elif term.op is Ops.LOAD and len(term.src) == 3:
                        found.append((3 * k + stage, term.src[2]))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("model", MODELS)
def test_kernels_of_models(model: str) -> None:
    rng = random.Random(len(model))
    kernels: dict[int, KernelTerms] = {}
    terms = 0
    for number, term in indices(model):
        kernel = kernels.setdefault(number, KernelTerms())
        e = kernel(term)
        assert isinstance(e, (Expr, Cond))
        low, high = kernel.bounds(term)
        try:
            theirs = term.vmin, term.vmax
        except (TypeError, ValueError):  # of terms with Invalid
            theirs = low, high
        assert theirs[0] <= low and high <= theirs[1]
        again = exporter(kernel.sources, kernel.buffers)(e)
        leaves = [v for v in kernel.variables.items() if isinstance(v[1], Var)]
        ranges = kernel.context().ranges
        for _ in range(3):
            point: dict[Any, Any] = {}
            at: dict[Any, int] = {}
            for leaf, v in sorted(leaves, key=lambda pair: pair[1] in ranges):  # sizes first
                if v in ranges:
                    point[v] = at[leaf] = rng.randrange(int(evaluate(ranges[v].extent, point)))
                else:
                    point[v] = at[leaf] = rng.randint(leaf.vmin, leaf.vmax)
            for symbol in kernel.buffers:
                point[symbol] = element
            expected = value_in_tinygrad(term, at)
            if expected is Invalid:
                assert value(e, point) is None
                continue
            assert evaluate(e, point) == expected
            assert value_in_tinygrad(again, at) == expected
            assert low <= expected <= high
        terms += 1
    assert terms >= 4


def test_bounds_beside_those_of_tinygrad() -> None:
    r, s, m = UOp.range(10, 0), UOp.special(6, "lidx0"), UOp.variable("m", 4, 64, multiple_of=4)
    for term, expected in {
        r * 4 - r * 3: (0, 9),
        (r * 6 + s) // 6 - r: (0, 0),
        m // 4 * 4 - m: (0, 0),
        (r < 3).where(r, 0) * 2: (0, 4),
        r ^ s: (0, 13),
        (r < 20) & (s * r < 46): (True, True),
        r.ne(4): (False, True),
        (r + 300).cast(dtypes.uint8): (44, 53),
        UOp.range(m, 1) // 4: (0, 15),
    }.items():
        assert bounds(term) == expected
        assert term.vmin <= expected[0] and expected[1] <= term.vmax or term.op is Ops.CAST


def test_an_invalid_index_has_no_value() -> None:
    r = UOp.range(10, 0)
    kernel = KernelTerms()
    e = kernel((r < 4).where(r * 2, UOp.const(Invalid)))
    assert kernel.bounds((r < 4).where(r * 2, UOp.const(Invalid))) == (0, 6)
    back = to_tinygrad(e, kernel.sources)
    assert value_in_tinygrad(back, {r: 3}) == 6 and value_in_tinygrad(back, {r: 4}) is Invalid


REFUSED: dict[str, Callable[[], object]] = {
    "a fraction": lambda: from_tinygrad(UOp.const(1.5)),
    "a float": lambda: from_tinygrad(UOp.range(4, 0).cast(dtypes.float32) < 2.5),
    "a root": lambda: from_tinygrad(UOp.range(4, 0).cast(dtypes.float32).sqrt()),
    "a buffer": lambda: from_tinygrad(UOp.placeholder((40,), dtypes.int32, 0)),
    "an element that is a float": lambda: from_tinygrad(
        UOp.placeholder((40,), dtypes.float32, 0).index(UOp.range(4, 0))
    ),
    "a kernel": lambda: from_tinygrad(UOp.sink(UOp.range(4, 0))),
    "a loop without a counter": lambda: from_tinygrad(UOp.loop(0)),
    "two variables of a name": lambda: to_tinygrad(i + Var("i")),
    "an element of no buffer": lambda: to_tinygrad(Opaque("T", 1)[i]),
}

test_what_has_no_counterpart_is_refused = refused(REFUSED)


def test_the_examples_of_the_documentation() -> None:
    check_examples(adapter)
