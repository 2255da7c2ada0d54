"""`Scope`: what holds where a part of an expression is evaluated, and what has been proved there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import intset
from intset.budgets import DIVISION_ISL, DIVISION_Z3
from intset.config import Effort, current, tiers_within
from intset.context import Context
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.definedness import embedded_claims
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from intset.expr.range import Range
from intset.expr.walk import conjuncts, free_vars, postorder
from intset.facts import ASSERTED, DERIVED, Fact
from intset.names import CHEAPEST
from intset.prover.proof import PROVED, UNKNOWN, Proof
from lowering.division.site import Fits, Need

MAX_GUARDS = 8  # of more branch conditions, the outermost are not used
MAX_PREMISES = 16  # subterms of a division that are used as representable
MAX_GUARD = 200  # nodes, counted as a tree: a larger branch condition is not used
MAX_TREE = 1000  # nodes, counted as a tree: of larger operands only the linear tier is asked
MAX_ASKED = 100_000  # of still larger ones nothing is asked
NONLINEAR = 20  # by how much less where products or divisions of unknowns stand: a unit of z3's takes that much longer


class Scope:
    """The context in which a part of an expression is evaluated: the given one, and the conditions of the branch.

    Guarantee: what `prove` says holds at every point of the given context at which that part is evaluated and the
    whole expression has a value; what `prove_at` says, where moreover every evaluated subterm is representable in
    `bits` bits.
    """

    def __init__(self, ctx: Context, bits: int, guards: tuple[Cond, ...] = (), claims: tuple[Cond, ...] = ()) -> None:
        self._given, self.bits, self.guards, self._claims = ctx, bits, guards, claims
        self._ctx: Context | None = None
        self._proofs: dict[Cond, Proof] = {}
        self._premised: dict[Node, Context] = {}
        self._proofs_at: dict[tuple[Node, Cond], Proof] = {}
        self._inner: dict[tuple[Cond, Node], Scope] = {}
        self._closed: dict[tuple[Var, ...], Context] = {}

    @property
    def ctx(self) -> Context:
        if self._ctx is None:
            facts = [Fact(guard, DERIVED) for guard in self.guards]
            facts += [Fact(part, ASSERTED) for claim in self._claims for part in conjuncts(claim)]
            self._ctx = self._given.extended(facts=facts) if facts else self._given
        return self._ctx

    def inside(self, condition: Cond, branch: Node) -> Scope:
        """The scope of `branch`, which is evaluated only where `condition` holds."""
        key = (condition, branch)
        if key not in self._inner:
            new = [condition] if is_small(condition) else []
            guards = tuple(dict.fromkeys((*self.guards, *new)))[-MAX_GUARDS:]
            new = [claim for claim in embedded_claims((branch,)) if is_small(claim)]
            claims = tuple(dict.fromkeys((*self._claims, *new)))[-MAX_GUARDS:]
            same = guards == self.guards and claims == self._claims
            self._inner[key] = self if same else Scope(self._given, self.bits, guards, claims)
        return self._inner[key]

    def prove(self, cond: Cond, size: int = 0) -> Proof:
        """The proof of `cond`, or why there is none; `size`: how large the expressions in it are."""
        found = self._proofs.get(cond)
        if size > MAX_ASKED:
            return _decided(cond) or Proof(cond, UNKNOWN, "", reason="the expression is too large to be asked about")
        if found is None:
            with _budget(size, cond):
                found = self._proofs[cond] = _decided(cond) or self.ctx.prove(cond)
        return found

    def prove_at(self, root: Node, cond: Cond, size: int = 0) -> Proof:
        """The same with the premise that `root` and what is evaluated for it is representable."""
        found = self._proofs_at.get((root, cond))
        if size > MAX_TREE:  # every root has a context of its own
            return self.prove(cond, size)
        if found is None:
            with _budget(size, cond):
                found = self._proofs_at[root, cond] = _decided(cond) or self.premised(root).prove(cond)
        return found

    def premised(self, root: Node) -> Context:
        """This scope's context, with the premise that the operands below `root` are representable as facts."""
        if root not in self._premised:
            least, most = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
            facts = [Fact(limit, DERIVED) for e in _operands(root) for limit in (e >= least, e <= most)]
            self._premised[root] = self.ctx.extended(facts=facts)
        return self._premised[root]

    def justify(self, root: Node, need: Need, size: int = 0) -> Proof | None:
        """One proof of everything in `need`, or None."""
        for item in need:
            proof = self.prove_at(root, item.cond, size) if isinstance(item, Fits) else self.prove(item, size)
            if not proof:
                return None
        goal = logical_and(*(item.cond if isinstance(item, Fits) else item for item in need))
        fits = any(isinstance(item, Fits) for item in need)
        proof = self.prove_at(root, goal, size) if fits else self.prove(goal, size)
        return proof or None

    def lower_bound(self, e: Expr, size: int = 0) -> int | None:
        """A number below which `e` does not fall."""
        if size > MAX_TREE:
            return None
        unbound = tuple(var for var in free_vars(e) if var not in self.ctx.ranges)
        if unbound not in self._closed:
            self._closed[unbound] = self.ctx.extended(ranges=dict.fromkeys(unbound)) if unbound else self.ctx
        low = self._closed[unbound].bounds(e, domain=CHEAPEST)[0]
        return constant_value(low) if isinstance(low, Expr) else None


def root_scope(ctx: Context | None, root: Node, bits: int) -> Scope:
    """The scope of a whole expression: the context, the ranges that its loop variables carry, and what it asserts."""
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
    return Scope(given, bits, (), tuple(dict.fromkeys(claims)))


@contextmanager
def _budget(size: int, cond: Cond) -> Iterator[None]:
    config = current()
    effort = Effort.SETS if _is_exact_division(cond) else Effort.SEARCH
    tiers = tiers_within(Effort.LOOK_UP if size > MAX_TREE else effort)
    units = min(config.z3_rlimit, DIVISION_Z3 // NONLINEAR if _is_nonlinear(cond) else DIVISION_Z3)
    with intset.using(z3_rlimit=units, isl_operations=min(config.isl_operations, DIVISION_ISL), tiers=tiers):
        yield


def _is_exact_division(cond: Cond) -> bool:
    """Whether a condition says that an unknown divides a term. z3 hardly ever decides it; linear forms and facts do."""
    remainder = cond.args[0] if cond.op is ops.EQ else None
    return remainder is not None and remainder.op is ops.FLOORMOD and remainder.args[1].op is not ops.CONST


def _is_nonlinear(cond: Cond) -> bool:
    """Whether unknowns are multiplied or divided by one another in a condition."""
    for node in postorder((cond,)):
        if node.op is ops.MUL and sum(arg.op is not ops.CONST for arg in node.args) > 1:
            return True
        if node.op in ops.DIVISIONS and node.args[1].op is not ops.CONST:
            return True
    return False


def is_small(cond: Cond) -> bool:
    """Whether `cond`, as a tree, has no more than `MAX_GUARD` nodes."""
    count, stack = 0, [cond]
    while stack and count <= MAX_GUARD:
        count += 1
        stack.extend(stack.pop().args)
    return count <= MAX_GUARD


def _decided(cond: Cond) -> Proof | None:
    """The proof of a comparison of constants, or of nothing."""
    if cond.op is ops.BOOL and cond.data:
        return Proof(cond, PROVED, "linear")
    if cond.op in ops.COMPARISONS:
        a, b = (constant_value(arg) for arg in cond.args)
        if a is not None and b is not None and cond.op.meaning is not None and cond.op.meaning(a, b):
            return Proof(cond, PROVED, "linear")
    return None


def _operands(root: Node) -> list[Expr]:
    """Variables, loads and subterms that are evaluated whenever `root` is, the nearest first; not `root` itself."""
    found: dict[Node, None] = {}
    level: list[Node] = [root]
    while level and len(found) < MAX_PREMISES:
        below: dict[Node, None] = {}
        for node in level:
            lazy = node.op in (ops.SELECT, ops.AND, ops.OR)
            args = node.args[:1] if lazy else node.args[1:] if node.op is ops.ASSERTING else node.args
            below.update(dict.fromkeys(arg for arg in args if arg not in found))
        found.update(below)
        level = list(below)
    return [node for node in found if isinstance(node, Expr) and node.op is not ops.CONST]
