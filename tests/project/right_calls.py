"""Correct calls of all public names, one a line, with values for the names in them."""

import functools
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import bound
import intset
import lowering
from bound import infer_bound, replay, te, tir
from intset import Context, Opaque, Range, ShapeVar, Var, check, testing
from intset.domains.interval import IntervalDomain
from intset.domains.registry import unregister
from lowering import (
    Graph,
    IndexMap,
    cache_read,
    contract,
    dataflow,
    hoist_layouts,
    lower,
    narrow,
    parse_nest,
    transform_layout,
    with_layouts,
)

Names = dict[str, Any]
HAS_PYARROW = find_spec("pyarrow") is not None


def exported(*modules: Any) -> Names:
    return {name: getattr(module, name) for module in modules for name in module.__all__}


@functools.cache
def of_intset() -> Names:
    i, j, k = Var("i"), Var("j"), Var("k")
    n = ShapeVar("n", 1)
    table = Opaque("table", 1)
    ctx = Context({i: Range(0, 4), j: Range(0, n)})
    r, rn, box = ctx.image((i, i)), ctx.image((j, i)), ctx.image((i, j), domain="interval")
    square = ctx.image((i, i), domain="interval")
    s, sn, si = ctx.value_set(i * 2), ctx.value_set(j), ctx.value_set(i, domain="interval")
    rel, reln = ctx.relation((i,), (i + 1,)), ctx.relation((j,), (i + 1,))
    m = Context({i: Range(0, 4)}).as_iter_map([i // 2, i % 2])
    sp = intset.Space({i: [1, 2, 4], "flag": [True, False]}, [i < 3])
    bc, pc = ctx.bounds(i).certificate(), ctx.prove(i < 4).certificate()

    def forged(*fields: Any) -> bool:
        return check.Certificate(*fields).check(ctx)

    def forged_bounds(*fields: Any) -> bool:
        return check.BoundsCertificate(*fields).check(ctx)

    def register(domain: Any, name: Any) -> Any:
        before = intset.domain_names()
        try:
            return intset.register(domain, name)
        finally:
            for new in {*intset.domain_names()} - {*before}:
                unregister(new)

    def stated(*fields: Any) -> Context:
        return Context({}, assume=[intset.Fact(*fields)])

    return {
        **exported(intset, check),
        "IntervalDomain": IntervalDomain,
        "intset": intset,
        "testing": testing,
        **locals(),
    }


def of_bound() -> Names:
    """Schedules are made anew: a call that is not refused changes them."""
    known = _programs()
    s, sd, sm, sy, sc = (te.create_schedule(known[name].op) for name in ("C", "D", "Z", "Y", "scanned"))
    return {**known, "s": s, "sd": sd, "sm": sm, "sc": sc, "st": sy[known["Y"]]}


@functools.cache
def _programs() -> Names:
    n = te.size_var("n")
    A = te.placeholder((20,), name="A")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute((17,), lambda i: te.sum(A[i + k], axis=k), name="B")
    C = te.compute((16,), lambda i: B[i] + B[i + 1], name="C")
    D = te.compute((n,), lambda i: A[i % 20] + 1.0, name="D")
    b = infer_bound(te.create_schedule(C.op))
    xB, ax = b.schedule[B].op.axis[0], b.schedule[C].leaf_iter_vars[0]
    i, j = Var("i"), Var("j")
    buf = tir.decl_buffer((20,), "float32", "buf")
    Y = te.compute((4, 4), lambda i, j: A[i] + A[j], name="Y")
    (y0, y1), x = Y.op.axis, C.op.axis[0]
    M = te.compute((16, 16), lambda i, j: A[i] + A[j], name="M")
    Z = te.compute((16, 16), lambda i, j: M[i, j] + 1.0, name="Z")
    sz = te.create_schedule(Z.op)
    dM, dZ = replay.domain(sz, M), replay.domain(sz, Z)
    replay.compute_at(sz, M, Z, 1)
    bz = infer_bound(sz)
    (loop,) = bz.shared_path(Z)
    tx = te.thread_axis("threadIdx.x")
    X, S = te.placeholder((5, 4), name="X"), te.placeholder((5, 4), name="S")
    S0 = te.compute((1, 4), lambda _, i: X[0, i], name="S0")
    SU = te.compute((5, 4), lambda t, i: S[t - 1, i] + X[t, i], name="SU")
    scanned = te.scan(S0, SU, S, inputs=[X])
    body = lambda ins, outs: tir.call_packed("f", *ins, *outs)  # noqa: E731  # as scripts write it
    P4 = te.placeholder((4,), name="P4")
    Q4 = te.compute((4,), lambda i: P4[i] + 1, name="Q4")
    intrin = te.decl_tensor_intrin(Q4.op, body)
    red = te.comm_reducer(lambda a, b: a + b, lambda t: tir.const(0, t), name="mine")
    modules = {"bound": bound, "te": te, "tir": tir, "replay": replay, "Range": Range, "Context": Context}
    return {**exported(bound), **modules, **locals()}


def square(config: Any) -> dict[str, Any]:
    return {"s": config["a"] ** 2}


@functools.cache
def _explored() -> Any:
    with TemporaryDirectory() as folder:
        found = lowering.explore(square, [{"a": 1}, {"a": 2}], out=folder)
        found.to_arrow()
    return found


@functools.cache
def of_lowering() -> Names:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A", dtype="int32")
    C = te.compute((n,), lambda i: A[i] // 3, name="C")
    s = te.create_schedule(C.op)
    b, f = infer_bound(s), lower(s, [A, C])
    given = te.placeholder((14,), name="A", dtype="int32")
    g = lower(te.create_schedule(te.compute((14,), lambda i: given[i] + 1, name="B").op))
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 20)})
    T, T16, tn = (IndexMap(lambda i: [i // 4, i % 4], (size,)) for size in (14, 16, n))
    flat, L = IndexMap(lambda a, b: a * 4 + b, (4, 4)), lowering.Layout((4, 2))
    q = parse_nest("def q(A: int32[4, 4], B: int32[1]):\n    for i in [0, 14):\n        B[0] = A[i // 4, i % 4]\n")
    W = with_layouts(q, {"A": T})
    c = contract(W)
    G = Graph()
    x = G.input("x", (14,), "int32")
    y = G.call(g, x)
    G.output(y)
    plan = G.plan()
    P = transform_layout(cache_read(g, "A"), "AC", lambda i: [i // 4, i % 4], pad_value=0)
    h, df, width = hoist_layouts(P), dataflow(f), narrow(f)
    line = next(k for k, text in enumerate(str(f).splitlines(), 1) if text.strip().startswith("C["))
    a, d14 = np.arange(5, dtype="int32"), np.arange(14, dtype="int32")

    def element(name: Any, indices: Any) -> Any:
        return transform_layout(cache_read(g, "A"), "AC", T, pad_value=lambda *place: lowering.element(name, indices))

    def explore(*given: Any, out: Any, **more: Any) -> Any:
        with TemporaryDirectory() as folder:
            return lowering.explore(*given, out=f"{folder}/{out}" if isinstance(out, str) else out, **more).summary

    explored = _explored() if HAS_PYARROW else None
    modules = {"lowering": lowering, "tir": tir, "Range": Range, "Context": Context}
    functions = {"square": square, "measure": lambda c: {"m": 1}}
    return {**exported(lowering), **modules, **functions, **locals()}


INTSET = """
Var("a")
ShapeVar("a", lower=1, upper=4, multiple_of=2)
Opaque("a", 1, 0, 5)
table(i)
table[i]
table[i,]
opaque("u", 0, 5)
const(3)
Range(0, 5)
Range.up_to(7)
Range.of_extent(2, 5)
sum_of([i, j])
sum_over(i, r, [i, j])
upper_bound(i * j, ctx)
UpperBound(5, True)
minimum(i, j)
maximum(i, j)
select(i < 3, i, j)
cast(i, 8, True)
asserting(i < 3, i)
nonneg(i)
bounded(i, 0, n)
logical_and(i < 3, j < 3)
logical_or(i < 3, j < 3)
logical_not(i < 3)
parse("i + 1", {"i": i})
parse("i + 1 < 4", {"i": i}, kind=Cond)
parse("i + 1", {"i": i}, kind=Expr)
evaluate(i + 1, {i: 3}, bits=8)
evaluate(i << 2, {i: 3})
evaluate(select(i < 2, i, table[i]), {i: 3, table: lambda k: 3})
evaluate(table[i], {i: 3, table: lambda k: 3})
cost(i + 1, {"add": 2})
annotate_shapes(i + n, [n])
fold(i, {ops.VAR: str})
to_json(i + 1, i < 3)
from_json(to_json(i + 1), [i])
from_json(to_json(i + 1), {"i": i})
Converter({ops.CONST: str}, str, str, kind=str, operands=list, variables={j: "j"})
i ** 2
divmod(i, 4)
Fact(i < 3, "assumed")
Fact(i < 3).substitute({i: j})
Config("auto", 3, 3, 3, 0, ("linear",))
using(domain="isl", isl_operations=3, points=3, z3_rlimit=3, z3_timeout_ms=0, tiers=("linear",))
Bounds(0, 3, True, "auto", ["x"])
IntervalSet(0, 3)
IntervalSet(0, 3, "interval", is_tight=True, is_exact=True, notes=("x",))
Proof(i < 3, "proved", "linear")
Relation(r, 1)
Context({i: Range(0, 4)}, [i < 3], "auto")
Space({i: [1, 2, 4], "flag": [True, False]}, [i < 3, "i > 1 or flag"], 1000000)
Space({i: [1, 2]}, "i > 1", memory=1000000)
divisors(56)
(1, True) in sp
{"i": 1, "flag": True} in sp
ctx.trace()
Trace()
sp.sample(2, seed=1)
sp.minimize(i * 2, k=2)
sp.minimize("i * 2")
sp.table({"t": i * 2, "u": "i + 1"})
sp.neighbours((1, True), distance=1)
sp.nearest({"i": 1, "flag": True})
sp.restrict([i < 2, "flag"])
sp.project(["i", "flag"])
sp & sp
Context.from_constraints([i], [i < 3, i >= 0], "auto")
ctx.assuming(i < 3, provenance="assumed")
ctx.extended({k: Range(0, 4)}, [k < 3], "derived")
ctx.renamed({i: k * 2 + 1}, {k: Range(0, 2)})
ctx.bounds(i, keep=(j,), domain="auto")
ctx.value_set(i, keep=[j], domain="auto")
ctx.bounds_many([i, j], effort="fast")
ctx.prove_many([i < 4], effort="full")
ctx.image((i, j), keep=(j,), domain="auto")
ctx.relation((i,), (j,), keep=(j,), domain="auto")
ctx.as_iter_map([i // 2, i % 2])
ctx.prove(i < 3)
ctx.simplify(i + 0, cost={"add": 2}, steps=True, bits=32)
ctx.canonical(i + 0)
ctx.coalesced([i * 8 + j * 2], [j])
ctx.solve(i < 3, i)
ctx.narrow(i + j < 3, keep=[j])
ctx.solve_equations([(i + k).eq(3)], [i, k])
ctx.fits(i + 1, bits=32)
ctx.explain(i < 3)
ctx.explain(i)
i.eq(j)
i.ne(j)
i.same_as(j)
(i < 3) & (j < 3)
(i < 3) | (j < 3)
(i < 3) == (j < 3)
i.substitute({i: j})
(i < 3).substitute({i: j})
s.at({n: 3})
sn.at({n: 3})
sn.at({"n": 3})
si.at({n: 3})
s.condition(i)
si.condition(i)
sn.contains(i)
s.contains(i)
si.contains(i)
3 in s
3 in si
r.at({n: 3})
rn.at({n: 3})
box.at({n: 3})
box.condition((i, j))
r.condition((i, j))
rn.condition((i, j))
(3, 3) in r
(3, 3) in ctx.image((i, i), domain="interval")
r.project((0,))
box.project((0,))
r.constraints((i, j))
r.to_text("isl")
r.pieces(order=(1, 0))
box.pieces(order=(1, 0))
rel.apply(ctx.image((i,)))
rel.at({n: 3})
reln.at({n: 3})
rel.condition((i,), (j,))
rel.contains((1,), (2,))
rel.then(rel)
pc.check(ctx)
bc.check(ctx)
check_certificate(pc, ctx)
Certificate.from_text(pc.to_text())
BoundsCertificate.from_text(bc.to_text())
forged("linear", i < 3, False, (Fact(i < 3),), ((i, Range(0, 3)),), (), "", 0, {})
forged("point", i < 3, False, (Fact(i < 3),), ((i, Range(0, 3)),), (), "", 0, {i: 3})
forged_bounds(i, const(0), const(3), (j,), ((i, Range(0, 4)),), (Fact(i < 3),), pc, pc, {i: 3}, {i: 3}, (pc, pc), None)
stated(i < 3, "assumed")
testing.question(3)
register(IntervalDomain, "mine")
testing.setting(3)
testing.cases(1, 3)
m.inverse((i, j))
testing.sweep(1, 0, ["interval"])
testing.soundness("interval", 1, 0)
testing.claims(1, 0, ["interval"])
(3, 3) in square
square.condition((i, j))
""".strip().splitlines()
INTSET += [f"i {sign} j" for sign in "+ - * // % & | ^ << >> < <= == !=".split()]
INTSET += [f"{division}(i, 3)" for division in "floordiv floormod ceildiv truncdiv truncmod".split()]
INTSET += [f"{x} {sign} {x}" for x in ("s", "r", "rel") for sign in "| & <= ==".split()]
INTSET += ["s < s", "s >= s", "r - r", "rel - rel"]

BOUND = """
te.var("x", "int32")
te.size_var("x", "int32")
te.placeholder((4, n), "float32", "x")
te.placeholder((4,), dtype="int32", name="x", value_range=(0, 3))
te.compute((4, n), lambda i, j: A[i] + 1, name="z", tag="t", attrs={"a": 1})
te.compute((4,), lambda *i: A(*i), name="z", varargs_names=["q"])
te.compute((4,), lambda i: A[i] + 1.0)
te.reduce_axis((0, n), "k")
te.reduce_axis(Range(0, 3), "k")
te.thread_axis("threadIdx.x")
te.thread_axis((0, 4), "threadIdx.x", name="tx")
te.extern((4,), [A], body, name="e", dtype="float32")
te.extern([(4,)], [A], body, name="e", dtype=["float32"], tag="t", attrs={"a": 1})
te.extern((20,), [A], body, in_buffers=[buf], out_buffers=[buf])
te.add(A, 1.0)
te.subtract(A, 1.0)
te.multiply(A, 2.0)
te.tag_scope("t")
buf.access_ptr("r", "handle", 1, 0)
buf.offset_of([0])
buf.vload((3,), None)
buf.vstore((3,), 1.0)
te.scan(S0, SU, S, inputs=[X], name="sc", tag="t", attrs={"a": 1})
te.decl_tensor_intrin(Q4.op, body, name="q", binds={P4: buf}, scalar_params=())
te.comm_reducer(lambda a, b: a + b, lambda t: tir.const(0, t), name="mine")
red(A[k], axis=k)
te.sum(A[k], axis=k)
te.sum(A[k], axis=[k], where=k < 3)
te.max(A[k], axis=k, where=k < 3)
te.min(A[k], axis=k, init=0.0)
te.prod(A[k], axis=k)
te.create_schedule(C.op)
te.create_schedule([C.op])
te.annotate_shapes(C, [n])
te.abs(i)
te.all(i < 3, j < 3)
te.any(i < 3, j < 3)
te.const(3, "int32")
te.const(1.5, "float32")
te.power(A[i], 2)
te.popcount(i)
te.if_then_else(i < 3, A[i], A[0])
te.infinity("float32")
te.max_value("float32")
te.min_value("int8")
tir.Select(i < 3, A[i], A[0])
tir.Cast("int32", A[i])
tir.IntImm("int32", 3)
tir.FloatImm("float32", 1.5)
tir.Var("x")
tir.SizeVar("x")
tir.bitwise_not(i)
tir.call_extern("int32", "f", 3)
tir.call_intrin("int32", "f", 3)
tir.call_packed("f", 3)
tir.call_pure_extern("int32", "f", 3)
tir.pow(A[i], 2)
sc[scanned].env_threads([tx])
bz.shared_loop(loop)
tir.decl_buffer((4,), "float32", "b", "global", strides=[1], offset_factor=1)
tir.ldexp(A[i], 2)
tir.dtype_of(A[i])
tir.input_tensors([A[i]])
tir.likely(i < 3)
tir.loaded_tensor(A[i])
tir.logical_not(i < 3)
tir.nodes(A[i])
tir.rewrite(A[i], {i: j})
tir.substitute(A[i], {i: j})
tir.variables(A[i])
A[i]
A(i)
B[i]
M[i, j]
M[i][j]
A[i] + 1.0
A[i] - 1.0
A[i] * 2
A[i] / 2
A[i] < 1
A[i].astype("int32")
i + A[0]
A[i].equal(A[0])
C.op.output(0)
s[C]
C in s
s.cache_read(B, "local", [C])
s.cache_write(C, "local")
s.rfactor(B, k, 0)
s.create_group(outputs=C, inputs=B, include_inputs=True)
s.create_group([C], [A])
s.with_layout(st, lambda i, j: [j, i], None)
s.current(C)
s.is_consumer(s[C], s[B])
st.bind(y0, tx)
s[B].compute_at(s[C], x)
s[B].store_at(s[C], x)
st.fuse(y0, y1)
st.fuse([y0, y1])
st.reorder(y1, y0)
st.reorder([y1, y0])
st.split(y0, 2)
st.split(y0, factor=2, tail="guard")
st.split(y0, nparts=2, disable_predication=True)
st.tile(y0, y1, 2, 2)
st.unroll(y0)
st.vectorize(y1)
st.parallel(y0)
st.pragma(y0, "auto_unroll_max_step", 4)
st.prefetch(A, y0, 1)
st.set_scope("local")
st.set_store_predicate(y0 < 3)
st.storage_align(y0, 4, 0)
st.tensorize(y1, intrin)
infer_bound(s, compute={B: "box"})
infer_bound(s, whole=[B])
b[xB]
xB in b
b.bytes("shared")
b.attached(C, ax)
b.inside(ax)
b.is_slid(ax)
b.at({n: 3})
b.loop_name(b.schedule[C], ax)
b.nest(C)
b.pieces(C, 4)
infer_bound(sd).space({"n": [1, 2]}, where="n >= 1")
b.traffic(B, "loads")
b.stored(ax)
b.with_compact([b.schedule[B]])
b.required(B).at({n: 3})
b.storage(B).index((i,))
bound.annotate_shapes(C, [n])
replay.domain(sm, M)
replay.compute_at(sm, M, Z, 1, mode="standard", repair=None)
replay.inline_at(sm, M, 1, mode="standard")
replay.inline_all_at(sm, M, 1, "standard")
replay.inline_most(sm)
replay.propagate(sm, M, 1, within=[Z])
replay.spanning_tree(sm, M, 1)
replay.common_consumer(sm, M, Z)
replay.dependency_chains(sm, M, Z)
replay.matched_consumer_position(dZ, dM, 1)
replay.matched_producer_position(dM, dZ, 1)
replay.replay_consumer_as_producer(dZ, dM, 1)
replay.replay_producer_as_consumer(dM, dZ, 1)
infer_bound(sd, Context({}), {"n": 4}, "auto", "exact", False)
tir.IterVar(Range(0, 4), "v", tir.IterType.DATA_PAR)
b.storage(B).coordinates((i,))
""".strip().splitlines()
BOUND += [
    f"tir.{name}(A[i], A[i])" if name in tir.build.FLOAT_PAIRS else f"tir.{name}(A[i])" for name in tir.build.FUNCTIONS
]
BOUND += [f"te.{name}(i, 3)" for name in "floordiv floormod indexdiv indexmod truncdiv truncmod ceildiv div".split()]
BOUND += [f"tir.{name}(i, 3)" for name in "bitwise_and bitwise_or bitwise_xor shift_left shift_right max min".split()]
BOUND += [f"b.{name}(B)" for name in "allocated computed computes_whole explain guard is_computed required".split()]
BOUND += [f"b.{name}(B)" for name in "attach_path shared_path slid stage storage".split()]
BOUND += [f"replay.{name}(sm, M)" for name in "use_chains producers consumers common_consumers".split()]

LOWERING = """
lower(s, [A, C], bounds=b, name="f")
lower(s, [A, C], ctx=Context({}), at={"n": 4}, strength=True, compact=False)
lower(s, [A, C], compute="exact", unsafe=True)
lower(s, nests="guard", reassociate=False)
lower_division(i // 3, ctx, 32)
run(f, {"A": a})
run(f, {A: a, C: a}, {"n": 5}, functions={"g": abs}, undef=lambda t: 0, backend="python")
run(f, {A: a}, {n: 5})
to_c(f, width)
parse_nest(str(f))
df.accesses()
df.sources(line)
df.by_element(line)
df.dead(line, ignoring={line: i < 3})
df.held(line)
df.assumed(line)
df.not_told(line)
df.touched("A")
IndexMap(lambda i: [i // 4, i % 4], (14,), ctx)
Layout((4, (2, n)), None, ctx)
L(5)
L(3, 1)
L.then(Layout(64, 2))
L.complement(64)
L.divide(4)
L.product(2)
bank_conflicts(i * 128, [i], ctx, 32, 4)
contiguity(i * 4, i, ctx, 4)
alignment(i * 4, ctx)
AddressAnswer(4, True, (), alignment(i * 4, ctx).evidence)
T(3)
T.padding(i, j)
T16.inverse()(i, j)
T.onto([Range(0, 4), Range(0, 4)])
T.pack(d14, 0)
tn.pack(d14, 0, {n: 14})
T.unpack(T.pack(d14, 0))
tn.unpack(tn.pack(d14, 0, {n: 14}), {n: 14})
T.packed_by(flat)
T.then(flat)
tn.renamed({n: 5}, Context({}))
cache_read(g, "A", "local")
cache_write(g, "B", "local")
add_constraint(g, "A", lambda i: i < 3, 0)
transform_layout(g, "A", lambda i: [i // 4, i % 4], pad_value=0)
transform_layout(g, "A", T, pad_value=lambda a, b: 0)
with_layouts(q, {"A": T})
contract(q, {"A": T})
contract(W)
c.promises({"A": 0})
pad_options(g, {"A": T})
Contract(g, {}, {}, {}, ())
Graph().input("x", (14,), "int32")
G.call(g, x)
G.call([g], x)
G.output(x)
G.plan(cost=lambda step: 1)
G.replace(y, g)
plan.run({"x": d14}, undef=lambda t: 0, functions={})
hoist_layouts(P)
h.run({"A": d14}, {}, {}, lambda t: 0)
PadValue(tir.const(3, "int32"))
PadValue(tir.const(3, "int32")).at(i)
PadValue(tir.const(3, "int32")).text({})
undef("int32")
element("AC", [0, 0])
annotate_shapes(f, [n])
hoist_expression(f, conditions=("if",), lets=("required",), report=[])
lower_divisions(f, 32)
remove_overcompute_through_branching(f, report=[])
sequential_buffer_access(f, "A", report=[])
lowering.simplify(f, buffers=True, report=[])
strength_reduce(f, 32)
f.with_body(f.body)
Width(32)
Source(i < 3, "x")
Timing(2, {"n": 5})
""".strip().splitlines()
LOWERING += [f"{name}(f)" for name in "to_c dataflow Dataflow drop_dead narrow rebase unique_names".split()]
LOWERING += [f"{name}(f, report=[])" for name in "merge_adjacent_loops reduce_loop_extents remove_assume".split()]
LOWERING += [f"remove_{name}(f, report=[])" for name in ("no_op", "undef", "branching_through_overcompute")]
LOWERING += [f'{name}({{"n": 5}})' for name in "Footprints Lowering ModelledCost".split()]

EXPLORING = """
explore(square, [{"a": 1}], None, None, out="r", progress=False, fresh=True, strict=False, by="s", workers=1, batch=1.0)
explore(square, [{"a": 1, "b": "x"}], measure, out="r")
explored.best(3, by="s", largest=True)
explored.failures(3)
""".strip().splitlines()  # where pyarrow is installed
