"""Solvers that a certificate names: the text of the question, written anew, and the answer.

isl   verifies that the set of the violating points is empty. Conditions are translated as written, without the
      canonical form; operations that isl does not know become fresh coordinates.
z3    verifies that the negated statement, as SMT-LIB 2 text, has no model. `&` of two variables and powers of 2 with
      variable exponents are uninterpreted functions, constrained by valid axioms that include their definition on a
      finite window.

Guarantee: every violating point extends to an element of the set, or to a model of the text, so the solver's answer
proves the claim. The encodings are independent of those that the search uses (`intset/prover/smt.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from intset.check.evidence import CheckBudget, premises_of, stated
from intset.expr import Cond, Expr, Node, Range, Var, constant_value, dag, ops
from intset.expr.build import Opaque
from intset.expr.node import make
from intset.expr.printer import decimal
from intset.installation import load, uninterrupted

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_STEPS_PER_ISL_OPERATION: Final = 3  # steps that one of isl's operations takes
CHECK_ISL_TEXT: Final = 60_000  # characters of a text for isl
CHECK_ISL_BITS: Final = 8_192  # bits of a constant for isl

# The texts of operations, of those of their operands.
_ISL_TEXTS: Final = {
    ops.ADD: "({} + {})",
    ops.SUB: "({} - {})",
    ops.NEG: "(-{})",
    ops.ASSERTING: "{1}",
    ops.MIN: "min({}, {})",
    ops.MAX: "max({}, {})",
    ops.ABS: "max({0}, (-{0}))",
    ops.LT: "{} < {}",
    ops.LE: "{} <= {}",
    ops.GT: "{} > {}",
    ops.GE: "{} >= {}",
    ops.EQ: "{} = {}",
    ops.NE: "{} != {}",
    ops.AND: "(({}) and ({}))",
    ops.OR: "(({}) or ({}))",
    ops.NOT: "(not ({}))",
}


def emptiness_text(holds: Sequence[Cond], fails: Cond | None) -> str | None:
    """The set that satisfies `holds` and violates `fails`, as text; None beyond `CHECK_ISL_TEXT` characters.

    Guarantee: it projects onto a superset of the violating points, so emptiness proves the claim.
    """
    writer = _IslTextWriter()
    parts = [writer.text(cond) for cond in holds]
    if fails is not None:
        parts.append(f"not ({writer.text(fails)})")
    if writer.overflow:
        return None
    body = " and ".join(f"({part})" for part in [*writer.extra, *parts]) or "true"
    text = f"{{ [{', '.join(writer.names.values())}] : {body} }}"
    return text if len(text) <= CHECK_ISL_TEXT else None


def check_isl(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the text equals the translation of the statement, and isl proves it empty."""
    budget.spend_nodes(*stated(cert))
    text = emptiness_text(premises_of(cert), None if cert.vacuous else cert.goal)
    if text is None or cert.text != text:
        return False
    return is_empty_text(text, budget.left // CHECK_STEPS_PER_ISL_OPERATION, budget)


def is_empty_text(text: str, max_operations: int, budget: CheckBudget | None = None) -> bool:
    """Whether a fresh isl context proves the set empty within `max_operations`."""
    try:
        load("islpy")
        import islpy as m
    except ImportError:
        return False  # unverified
    context = m.Context()
    context.set_on_error(m.on_error.CONTINUE)
    context.set_max_operations(max_operations)
    try:
        return bool(m.Set.read_from_str(context, text).is_empty())
    except m.Error as error:
        if budget is not None and "operations" in str(error):
            budget.spend(budget.left + 1)
        return False


class _IslTextWriter:
    def __init__(self) -> None:
        self.names: dict[object, str] = {}
        self.extra: list[str] = []
        self.overflow = False
        self._texts: dict[Node, str] = {}

    def text(self, root: Node) -> str:
        for node in dag.postorder((root,)):
            if node not in self._texts:
                written = "0" if self.overflow else self._of(node, [self._texts[arg] for arg in node.args])
                self.overflow |= len(written) > CHECK_ISL_TEXT
                self._texts[node] = "0" if self.overflow else written
        return self._texts[root]

    def _of(self, node: Node, args: list[str]) -> str:
        op = node.op
        if op is ops.CONST and node.data.bit_length() > CHECK_ISL_BITS:
            self.overflow = True
            return "0"
        if op is ops.CONST:
            return f"({decimal(node.data)})" if node.data < 0 else decimal(node.data)
        if op is ops.BOOL:
            return "true" if node.data else "false"
        if op in _ISL_TEXTS:
            return _ISL_TEXTS[op].format(*args)
        assert isinstance(node, Expr)
        return self._integer(node, args)

    def _integer(self, e: Expr, args: list[str]) -> str:
        op = e.op
        if op is ops.SELECT:
            s = self._name(e)
            self.extra.append(f"(({args[0]}) and {s} = {args[1]}) or ((not ({args[0]})) and {s} = {args[2]})")
            return s
        if op is ops.MUL:
            for k, x in ((constant_value(e.args[0]), args[1]), (constant_value(e.args[1]), args[0])):
                if k is not None:
                    return f"({k}*{x})" if k >= 0 else f"(-{-k}*{x})"
        if op is ops.CAST:
            bits, signed = e.data
            half = 1 << (bits - 1)
            return f"((({args[0]} + {half}) mod {1 << bits}) - {half})" if signed else f"(({args[0]}) mod {1 << bits})"
        c = constant_value(e.args[1]) if op in ops.DIVISIONS else None
        return self._divided(e, args[0], c) if c else self._name(e)

    def _divided(self, e: Expr, x: str, c: int) -> str:
        op, negated = e.op, f"(-{x})"
        over = x if c > 0 else negated
        if op in (ops.FLOORDIV, ops.FLOORMOD):
            quotient = f"floor(({over})/{abs(c)})"
        elif op is ops.CEILDIV:
            return f"(-floor(({negated if c > 0 else x})/{abs(c)}))"
        else:
            quotient = self._name((ops.TRUNCDIV, e.args))
            up, down = f"{quotient} = floor(({x})/{abs(c)})", f"{quotient} = -floor(({negated})/{abs(c)})"
            side = f"({x} >= 0 and {up}) or ({x} < 0 and {down})"
            if side not in self.extra:
                self.extra.append(side)
            quotient = quotient if c > 0 else f"(-{quotient})"
        if op in (ops.FLOORDIV, ops.TRUNCDIV):
            return quotient
        return f"({x} - {c}*{quotient})" if c > 0 else f"({x} + {-c}*{quotient})"

    def _name(self, key: object) -> str:
        """The coordinate of a variable or uninterpreted term."""
        if key not in self.names:
            self.names[key] = f"x{len(self.names)}"
        return self.names[key]


CHECK_Z3_UNITS_PER_STEP: Final = 4  # z3's resource units that take one step
CHECK_Z3_NODES: Final = 20_000  # nodes of a formula for z3
CHECK_Z3_DEPTH: Final = 1_000  # nesting of a formula; beyond, z3 may overflow its stack
CHECK_Z3_BITS: Final = 8_192  # bits of a constant for z3
CHECK_Z3_EFFORT: Final = 48  # products and divisions of two terms; beyond, z3 may not heed its limit
CHECK_Z3_DEGREE: Final = 64  # degree of products; z3 expands them outside its limit
CHECK_Z3_SHIFT: Final = 4_096  # largest exponent of a literal power of 2
CHECK_Z3_WIDTH: Final = 64  # bits of the window on which `&` is defined
CHECK_Z3_TABLE: Final = 64  # powers of 2 in a table
CHECK_Z3_MASK_RUNS: Final = 16  # runs of ones in an arithmetically encoded mask

SHORT = 40  # texts up to this length are repeated, longer ones named

Window = tuple[int, int] | None
_SMT_INFIX = {
    ops.ADD: "+",
    ops.SUB: "-",
    ops.MUL: "*",
    ops.LT: "<",
    ops.LE: "<=",
    ops.GT: ">",
    ops.GE: ">=",
    ops.EQ: "=",
}
_SMT_LOGIC = {ops.AND: "and", ops.OR: "or", ops.NOT: "not", ops.NEG: "-"}


def check_z3(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the text equals the encoding of the statement, and z3 proves it unsatisfiable within its units."""
    budget.spend_nodes(*stated(cert))
    text = unsat_text(cert)
    if text is None or cert.text != text:
        return False
    is_unsat = _is_unsat(text, CHECK_Z3_UNITS_PER_STEP * budget.left)
    if is_unsat is None:
        budget.spend(budget.left + 1)
    return is_unsat is True


def _is_unsat(text: str, units: int) -> bool | None:
    """Whether z3 proves the text unsatisfiable; None if it runs out of units."""
    try:
        load("z3")
    except ImportError:
        return False  # unverified
    return uninterrupted(partial(_found_unsat, text, units))


def _found_unsat(text: str, units: int) -> bool | None:
    import z3

    solver = z3.SimpleSolver(ctx=z3.Context())
    solver.set(rlimit=units, random_seed=0, ctrl_c=False)
    try:
        solver.from_string(text)
        verdict = solver.check()
        return None if verdict == z3.unknown else bool(verdict == z3.unsat)
    except z3.Z3Exception:
        return False


def unsat_text(cert: Certificate) -> str | None:
    """Premises and negated goal as SMT-LIB 2 text; None beyond z3's safe limits."""
    premises = list(dict.fromkeys(premises_of(cert)))
    conditions = premises if cert.vacuous else [*premises, make(ops.NOT, (cert.goal,))]
    if not _is_modest(conditions):
        return None
    writer = _SmtTextWriter(dict(cert.ranges))
    asserted = [writer.text(cond) for cond in conditions]
    return "\n".join([*writer.lines, *(f"(assert {text})" for text in (*writer.axioms, *asserted))])


def _is_modest(roots: Sequence[Cond]) -> bool:
    depth: dict[Node, int] = {}
    degree: dict[Node, int] = {}
    effort = 0
    for node in dag.postorder(roots):
        depth[node] = 1 + max((depth[arg] for arg in node.args), default=0)
        if len(depth) > CHECK_Z3_NODES or depth[node] > CHECK_Z3_DEPTH:
            return False
        if node.op is ops.CONST and node.data.bit_length() > CHECK_Z3_BITS:
            return False
        if node.op is ops.CAST and node.data[0] > CHECK_Z3_SHIFT:
            return False
        by_term = node.op is ops.MUL or node.op in ops.DIVISIONS
        below = [degree[arg] for arg in node.args]
        degree[node] = (sum if by_term else max)(below) if below else int(node.op is not ops.CONST)
        if degree[node] > CHECK_Z3_DEGREE:
            return False
        factors = node.args if node.op is ops.MUL else node.args[-1:]
        effort += by_term and all(constant_value(arg) is None for arg in factors)
    return effort <= CHECK_Z3_EFFORT


class _SmtTextWriter:
    """Writes nodes as SMT-LIB terms; collects declarations in `lines`, axioms of uninterpreted functions in
    `axioms`.
    """

    def __init__(self, ranges: Mapping[Var, Range]) -> None:
        self.ranges = ranges
        self.lines: list[str] = []
        self.axioms: list[str] = []
        self._texts: dict[Node, str] = {}
        self._functions: dict[object, str] = {}
        self._count = 0

    def text(self, root: Node) -> str:
        for node in dag.postorder((root,)):
            if node not in self._texts:
                args = [self._texts[arg] for arg in node.args]
                sort = "Int" if isinstance(node, Expr) else "Bool"
                self._texts[node] = self.named(_texts_of(self, node, args), sort)
        return self._texts[root]

    def named(self, text: str, sort: str = "Int") -> str:
        """`text`, or a defined name for texts beyond `SHORT` characters."""
        if len(text) <= SHORT:
            return text
        name = self._fresh("t")
        self.lines.append(f"(define-fun {name} () {sort} {text})")
        return name

    def variable(self) -> str:
        name = self._fresh("x")
        self.lines.append(f"(declare-fun {name} () Int)")
        return name

    def function(self, key: Opaque | str, rank: int) -> str:
        """The uninterpreted function of a tensor symbol or operation."""
        if key not in self._functions:
            name = self._functions[key] = self._fresh("f") if isinstance(key, Opaque) else key
            self.lines.append(f"(declare-fun {name} ({' '.join(['Int'] * rank)}) Int)")
        return self._functions[key]

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def window(self, e: Expr) -> Window:
        """An interval hint for `e`; soundness does not depend on it."""
        value = constant_value(e)
        if value is not None:
            return value, value
        low: int | None = None
        high: int | None = None
        if isinstance(e, Var):
            low, high, _ = e.declared()
            limits = self.ranges.get(e)
            if limits is not None and limits.ends is not None:
                low, high = limits.ends
        elif e.op is ops.LOAD:
            low, high = e.data.lower, e.data.upper
        return None if low is None or high is None else (low, high)

    def bit_and(self, node: Node, a: str, b: str) -> str:
        left, right = node.args
        if left is right:
            return a
        for mask, x in ((constant_value(right), a), (constant_value(left), b)):
            if mask is not None and len(_runs(mask if mask >= 0 else ~mask)) <= CHECK_Z3_MASK_RUNS:
                return _masked(x, mask) if mask >= 0 else f"(- {x} {_masked(x, ~mask)})"
        term = self.named(f"({self.function('bitand', 2)} {a} {b})")
        self.axioms += [
            f"(=> (>= {a} 0) (and (>= {term} 0) (<= {term} {a})))",
            f"(=> (>= {b} 0) (and (>= {term} 0) (<= {term} {b})))",
            f"(=> (and (< {a} 0) (< {b} 0)) (and (<= {term} {a}) (<= {term} {b}) (> {term} (+ {a} {b}))))",
            f"(= (mod {term} 2) (ite (= (mod {a} 2) 1) (mod {b} 2) 0))",
            self._bits(term, a, b, self.window(left), self.window(right)),
        ]
        return term

    def _bits(self, term: str, a: str, b: str, left: Window, right: Window) -> str:
        """The definition of `&` by bit-vectors, on the window where both operands fit."""
        ends = [*(left or ()), *(right or ())]
        signed = min(ends, default=-1) < 0
        width = max((end.bit_length() for end in ends), default=0) + signed
        if len(ends) < 4 or width > CHECK_Z3_WIDTH:
            signed, width = True, 8
        width = max(width, 1)
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        bits = f"(bvand ((_ int2bv {width}) {a}) ((_ int2bv {width}) {b}))"
        value = f"(bv2nat {bits})"
        if signed:
            value = f"(ite (bvslt {bits} (_ bv0 {width})) (- (bv2nat {bits}) {1 << width}) (bv2nat {bits}))"
        inside = " ".join(f"(<= {number(low)} {x}) (< {x} {number(high)})" for x in (a, b))
        return f"(=> (and {inside}) (= {term} {value}))"

    def shift(self, node: Node, op: str, x: str, amount: str) -> str:
        """`x` times, or divided by, a power of 2."""
        known = constant_value(node.args[1])
        if known is not None and known <= CHECK_Z3_SHIFT:
            return f"({op} {x} {1 << max(known, 0)})"
        low, high = self.window(node.args[1]) or (0, 8)
        low = max(low, 0)
        if high - low >= CHECK_Z3_TABLE or high > CHECK_Z3_SHIFT:
            low, high = 0, 8
        power = self.named(f"({self.function('pow2', 1)} {amount})")
        self.axioms.append(f"(>= {power} 1)")
        self.axioms.append(f"(=> (> {amount} 0) (and (> {power} {amount}) (= (mod {power} 2) 0)))")
        self.axioms += [f"(=> (= {amount} {k}) (= {power} {1 << k}))" for k in range(low, high + 1)]
        text = f"({op} {x} {power})"
        for k in range(low, high + 1):
            text = f"(ite (= {amount} {k}) ({op} {x} {1 << k}) {text})"
        return text


def number(value: int) -> str:
    return decimal(value) if value >= 0 else f"(- {decimal(-value)})"


def _runs(mask: int) -> list[tuple[int, int]]:
    """(start, length) of each run of ones in the binary digits of `mask >= 0`."""
    return [(run.start(), len(run[0])) for run in re.finditer("1+", bin(mask)[:1:-1])]


def _masked(x: str, mask: int) -> str:
    """`x & mask` for mask >= 0, as a sum over runs of ones of shifted remainders."""
    parts = [f"(* (mod (div {x} {1 << start}) {1 << length}) {1 << start})" for start, length in _runs(mask)]
    return f"(+ 0 {' '.join(parts)})" if parts else "0"


def _floor(node: Node, a: str, b: str, op: str = "div") -> str:
    """Floor quotient (or, with `mod`, remainder) by z3's Euclidean division; negative divisors are negated."""
    known = constant_value(node.args[1])
    sign = "" if op == "div" else "- "
    flipped = f"({op} (- {a}) {f'(- {b})' if known is None else number(-known)})"
    flipped = f"({sign}{flipped})" if sign else flipped
    if known is not None:
        return f"({op} {a} {b})" if known >= 0 else flipped
    return f"(ite (> {b} 0) ({op} {a} {b}) {flipped})"


def _cast(node: Node, x: str) -> str:
    bits, signed = node.data
    if not signed:
        return f"(mod {x} {1 << bits})"
    half = 1 << (bits - 1)
    return f"(- (mod (+ {x} {half}) {1 << bits}) {half})"


def _texts_of(writer: _SmtTextWriter, node: Node, args: list[str]) -> str:
    op = node.op
    if op in _SMT_INFIX:
        return f"({_SMT_INFIX[op]} {args[0]} {args[1]})"
    if op in _SMT_LOGIC:
        return f"({_SMT_LOGIC[op]} {' '.join(args)})"
    return _SMT_SPECIAL[op](writer, node, args)


def _load(writer: _SmtTextWriter, node: Node, args: list[str]) -> str:
    name = writer.function(node.data, node.data.rank)
    return f"({name} {' '.join(args)})" if args else name


_Text = Callable[[_SmtTextWriter, "Node", list[str]], str]
_SMT_SPECIAL: Mapping[ops.Op, _Text] = {
    ops.CONST: lambda w, e, a: number(e.data),
    ops.VAR: lambda w, e, a: w.variable(),
    ops.LOAD: _load,
    ops.FLOORDIV: lambda w, e, a: _floor(e, a[0], a[1]),
    ops.FLOORMOD: lambda w, e, a: _floor(e, a[0], a[1], "mod"),
    ops.CEILDIV: lambda w, e, a: f"(- {_floor(e, w.named(f'(- {a[0]})'), a[1])})",
    ops.TRUNCDIV: lambda w, e, a: f"(ite (>= {a[0]} 0) (div {a[0]} {a[1]}) (- (div (- {a[0]}) {a[1]})))",
    ops.TRUNCMOD: lambda w, e, a: f"(ite (>= {a[0]} 0) (mod {a[0]} {a[1]}) (- (mod (- {a[0]}) {a[1]})))",
    ops.MIN: lambda w, e, a: f"(ite (<= {a[0]} {a[1]}) {a[0]} {a[1]})",
    ops.MAX: lambda w, e, a: f"(ite (>= {a[0]} {a[1]}) {a[0]} {a[1]})",
    ops.ABS: lambda w, e, a: f"(ite (>= {a[0]} 0) {a[0]} (- {a[0]}))",
    ops.BITAND: lambda w, e, a: w.bit_and(e, a[0], a[1]),
    ops.BITOR: lambda w, e, a: f"(- (+ {a[0]} {a[1]}) {w.bit_and(e, a[0], a[1])})",
    ops.BITXOR: lambda w, e, a: f"(- (+ {a[0]} {a[1]}) (* 2 {w.bit_and(e, a[0], a[1])}))",
    ops.BITNOT: lambda w, e, a: f"(- (- {a[0]}) 1)",
    ops.SHL: lambda w, e, a: w.shift(e, "*", a[0], a[1]),
    ops.SHR: lambda w, e, a: w.shift(e, "div", a[0], a[1]),
    ops.CAST: lambda w, e, a: _cast(e, a[0]),
    ops.SELECT: lambda w, e, a: f"(ite {a[0]} {a[1]} {a[2]})",
    ops.ASSERTING: lambda w, e, a: a[1],
    ops.BOOL: lambda w, e, a: "true" if e.data else "false",
    ops.NE: lambda w, e, a: f"(not (= {a[0]} {a[1]}))",
}
