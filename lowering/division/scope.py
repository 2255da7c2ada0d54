"""Contexts of branches of an expression, and budgeted proofs in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import intset
from intset.config import Effort, current, tiers_within
from intset.context import Context
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.dag import conjuncts, free_vars, postorder
from intset.expr.definedness import embedded_claims
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from intset.expr.range import Range
from intset.facts import ASSERTED, DERIVED, Fact
from intset.names import CHEAPEST
from intset.prover.proof import PROVED, UNKNOWN, Proof
from lowering.division.site import Fits, Need, Needs

DIVISION_Z3: Final = 100_000  # lowering asks many small questions: each gets a small share
DIVISION_ISL: Final = 6_000  # isl's operations for each of them

K = TypeVar("K")

MAX_GUARDS: Final = 8  # the innermost branch conditions that are used
MAX_PREMISES: Final = 16  # subterms of a division that are assumed to be representable
MAX_GUARD: Final = 200  # nodes, counted as a tree: a larger branch condition is not used
MAX_TREE: Final = 1000  # nodes, counted as a tree: larger operands are given to the linear tier alone
MAX_ASKED: Final = 100_000  # still larger ones to no tier
NONLINEAR: Final = 20  # divides the budget of questions with products of unknowns: z3's units take that much longer


class DivisionScope:
    """The caller's context with the branch conditions around one part of an expression.

    Guarantee: `prove` is right at every point of the caller's context at which that part is evaluated and the whole
    expression has a value; `prove_at` where moreover every evaluated subterm is representable in `bits` bits.
    """

    def __init__(self, ctx: Context, bits: int, guards: tuple[Cond, ...] = (), claims: tuple[Cond, ...] = ()) -> None:
        self._given, self.bits, self.guards, self._claims = ctx, bits, guards, claims
        self._ctx: Context | None = None
        self._proofs: dict[Cond, Proof] = {}
        self._premised: dict[Node, Context] = {}
        self._proofs_at: dict[tuple[Node, Cond], Proof] = {}
        self._inner: dict[tuple[Cond, Node], DivisionScope] = {}
        self._closed: dict[tuple[Var, ...], Context] = {}

    @property
    def ctx(self) -> Context:
        if self._ctx is None:
            facts = [Fact(guard, DERIVED) for guard in self.guards]
            facts += [Fact(part, ASSERTED) for claim in self._claims for part in conjuncts(claim)]
            self._ctx = self._given.extended(facts=facts) if facts else self._given
        return self._ctx

    def inside(self, condition: Cond, branch: Node) -> DivisionScope:
        """The scope of a lazily evaluated branch, guarded by a condition."""
        key = (condition, branch)
        if key not in self._inner:
            new = [condition] if is_small(condition) else []
            guards = tuple(dict.fromkeys((*self.guards, *new)))[-MAX_GUARDS:]
            new = [claim for claim in embedded_claims((branch,)) if is_small(claim)]
            claims = tuple(dict.fromkeys((*self._claims, *new)))[-MAX_GUARDS:]
            same = guards == self.guards and claims == self._claims
            self._inner[key] = self if same else DivisionScope(self._given, self.bits, guards, claims)
        return self._inner[key]

    def prove(self, cond: Cond, size: int = 0) -> Proof:
        """Prove a condition; `size` counts the tree nodes of its expressions."""
        if size > MAX_ASKED:
            return _decided(cond) or Proof(cond, UNKNOWN, "", reason="the expression is too large to be asked about")
        return self._cached(self._proofs, cond, cond, size, lambda: self.ctx)

    def prove_at(self, root: Node, cond: Cond, size: int = 0) -> Proof:
        """The proof of `cond` with the premise that the evaluated subterms of `root` are representable."""
        if size > MAX_TREE:  # every root has a context of its own
            return self.prove(cond, size)
        return self._cached(self._proofs_at, (root, cond), cond, size, lambda: self.premised(root))

    @staticmethod
    def _cached(cache: dict[K, Proof], key: K, cond: Cond, size: int, ctx: Callable[[], Context]) -> Proof:
        if key not in cache:
            with _budget(size, cond):
                cache[key] = _decided(cond) or ctx().prove(cond)
        return cache[key]

    def premised(self, root: Node) -> Context:
        """The context with the facts that the operands below `root` are representable."""
        if root not in self._premised:
            least, most = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
            facts = [Fact(limit, DERIVED) for e in _operands(root) for limit in (e >= least, e <= most)]
            self._premised[root] = self.ctx.extended(facts=facts)
        return self._premised[root]

    def justify_any(self, root: Node, needs: Needs, size: int) -> Proof | None:
        """The proof of the first alternative that is proved."""
        proofs = (self.justify(root, need, size) for need in needs)
        return next((proof for proof in proofs if proof is not None), None)

    def justify(self, root: Node, need: Need, size: int = 0) -> Proof | None:
        """One proof of a conjunction; `None` if a part is not proved."""
        for item in need:
            proof = self.prove_at(root, item.cond, size) if isinstance(item, Fits) else self.prove(item, size)
            if not proof:
                return None
        goal = logical_and(*(item.cond if isinstance(item, Fits) else item for item in need))
        fits = any(isinstance(item, Fits) for item in need)
        proof = self.prove_at(root, goal, size) if fits else self.prove(goal, size)
        return proof or None

    def lower_bound(self, e: Expr, size: int = 0) -> int | None:
        """A constant lower bound of `e`; `None` if none is known."""
        if size > MAX_TREE:
            return None
        unbound = tuple(var for var in free_vars(e) if var not in self.ctx.ranges)
        if unbound not in self._closed:
            self._closed[unbound] = self.ctx.extended(ranges=dict.fromkeys(unbound)) if unbound else self.ctx
        low = self._closed[unbound].bounds(e, domain=CHEAPEST)[0]
        return constant_value(low) if isinstance(low, Expr) else None


def root_scope(ctx: Context | None, root: Node, bits: int) -> DivisionScope:
    """The scope of a whole expression: the context, the ranges of its loop variables, and its embedded assertions."""
    given = Context() if ctx is None else ctx
    carried: dict[Var, Range | None] = {}
    pending = list(free_vars(root))
    ends: list[Expr] = []
    sizes: list[Cond] = []
    while pending:
        var = pending.pop()
        sizes += [size >= 0 for size in getattr(var, "sizes", ())]
        limits = getattr(var, "dom", None)
        if var in given.ranges or var in carried or not isinstance(limits, Range):
            continue
        carried[var] = limits
        ends += [end for end in (limits.min, limits.extent) if isinstance(end, Expr)]
        pending += limits.free_vars()
    given = given.extended(ranges=carried)
    claims = (*sizes, *(claim for claim in embedded_claims((root, *ends)) if is_small(claim)))
    return DivisionScope(given, bits, (), tuple(dict.fromkeys(claims)))


@contextmanager
def _budget(size: int, cond: Cond) -> Iterator[None]:
    config = current()
    effort = Effort.DEFAULT if _is_exact_division(cond) else Effort.FULL
    tiers = tiers_within(Effort.FAST if size > MAX_TREE else effort)
    units = min(config.z3_rlimit, DIVISION_Z3 // NONLINEAR if _is_nonlinear(cond) else DIVISION_Z3)
    with intset.using(z3_rlimit=units, isl_operations=min(config.isl_operations, DIVISION_ISL), tiers=tiers):
        yield


def _is_exact_division(cond: Cond) -> bool:
    """Whether a condition says that an unknown divides a term. z3 hardly ever decides it; linear forms and facts do."""
    remainder = cond.args[0] if cond.op is ops.EQ else None
    return remainder is not None and remainder.op is ops.FLOORMOD and remainder.args[1].op is not ops.CONST


def _is_nonlinear(cond: Cond) -> bool:
    """Whether a condition multiplies unknowns, or divides by one."""
    for node in postorder((cond,)):
        if node.op is ops.MUL and sum(arg.op is not ops.CONST for arg in node.args) > 1:
            return True
        if node.op in ops.DIVISIONS and node.args[1].op is not ops.CONST:
            return True
    return False


def is_small(cond: Cond) -> bool:
    """Whether the tree of a condition has at most `MAX_GUARD` nodes."""
    count, stack = 0, [cond]
    while stack and count <= MAX_GUARD:
        count += 1
        stack.extend(stack.pop().args)
    return count <= MAX_GUARD


def _decided(cond: Cond) -> Proof | None:
    """The proof of a comparison of constants, or of the empty conjunction."""
    if cond.op is ops.BOOL and cond.data:
        return Proof(cond, PROVED, "linear")
    if cond.op in ops.COMPARISONS:
        a, b = (constant_value(arg) for arg in cond.args)
        if a is not None and b is not None and cond.op.meaning is not None and cond.op.meaning(a, b):
            return Proof(cond, PROVED, "linear")
    return None


def _operands(root: Node) -> list[Expr]:
    """Variables, loads and subterms that are evaluated whenever `root` is, the nearest first; not `root` itself."""
    evaluated: dict[Node, None] = {}
    level: list[Node] = [root]
    while level and len(evaluated) < MAX_PREMISES:
        below: dict[Node, None] = {}
        for node in level:
            lazy = node.op in (ops.SELECT, ops.AND, ops.OR)
            args = node.args[:1] if lazy else node.args[1:] if node.op is ops.ASSERTING else node.args
            below.update(dict.fromkeys(arg for arg in args if arg not in evaluated))
        evaluated.update(below)
        level = list(below)
    return [node for node in evaluated if isinstance(node, Expr) and node.op is not ops.CONST]
