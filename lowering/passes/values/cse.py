"""Common subexpression elimination of indices: names for expressions, their inverse, and names in the ends of loops.

    for i.inner in [0, 32):                                  for i.inner in [0, 32):
        for k in [0, 16):                              ->        i = i.outer * 32 + i.inner
            C[i.outer * 32 + i.inner] = ...                      for k in [0, 16):
                                                                     C[i] = ...

A name stands in the body of the innermost loop that its expression mentions, so that inner loops reuse it.
`estimates.py` counts the operations that a name saves. Sums are first ordered from the outermost loop to the
innermost, so that loop-invariant parts become subexpressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import Part, nodes, operations, rewritten
from intset.config import memoized
from intset.expr import Expr, Node, Range, Var, const, constant_value, dag, ops
from intset.expr.definedness import definedness
from lowering.nest import driver, ir, walk
from lowering.nest.names import label_of
from lowering.nest.scope import element_accesses
from lowering.passes.estimates import Counts, Uses

FEWEST: Final = 2  # operations of what gets a name; a division counts twice
_NOT_MOVED: Final = (ops.LOAD, ops.CAST, ops.ASSERTING)


def name_values(f: ir.Function) -> ir.Function:
    """Name index expressions that would be computed more often than they change.

    Guarantee: equal values, and fewer operations if each branch is taken half of the time. Only total expressions get
    names, so a name may precede unreached uses. Ranges of loops keep their expressions, which carry facts. Sums are
    ordered from the outermost loop to the innermost, so that invariant parts become common subexpressions.
    """
    naming = _IndexNaming(f)
    rules: driver.StmtRules[_BoundNames] = {
        ir.Stmt: (naming.order_sums,),
        ir.Seq: (_reuse_names,),
        ir.For: (naming.name_in_body,),
    }
    return f.with_body(driver.rewritten(f.body, _BoundNames({}), leave=rules))


class _BoundNames(driver.Descent):
    """The variables in sight with the depths of their loops, and the depth of the innermost loop."""

    __slots__ = ("innermost", "order")

    def __init__(self, order: Order, innermost: int = 0) -> None:
        self.order, self.innermost = order, innermost

    def inside(self, loop: ir.For) -> _BoundNames:
        depth = len(self.order)
        return _BoundNames({**self.order, **dict.fromkeys(own_variables(loop), depth)}, depth)

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _BoundNames:
        return _BoundNames({**self.order, old.var: len(self.order)}, self.innermost) if type(old) is ir.Let else self


def own_variables(loop: ir.For) -> tuple[Var, ...]:
    """The variables that change from one iteration of a loop to the next."""
    return (loop.var, *[c.var for c in loop.carried]) if loop.carried else (loop.var,)


class _IndexNaming:
    """The rules of `name_values`.

    Attributes
    ----------
    often: expressions, by the innermost of their variables, each with an upper bound of its evaluations for one
        value of that variable; 2 stands for more.
    """

    def __init__(self, f: ir.Function) -> None:
        self.params = frozenset(f.params)
        self.sizes = [v.name for v in f.sizes]
        self.counts = Counts(FEWEST)
        self.often: dict[Parameter | None, dict[Expr, float]] = {}

    def order_sums(self, stmt: ir.Stmt, around: _BoundNames) -> ir.Stmt:
        """Order the sums of a statement, and count what could be named."""
        if all([not e.args or self.is_plain(e) for e in _shown(stmt)]):  # noqa: C419  # hot
            return stmt
        stmt = _changed(stmt, lambda e: regrouped(e, around.order))
        for operand in () if isinstance(stmt, ir.Allocate) else _shown(stmt):
            for e, times in self.counts.times(operand).items():
                bound = {around.order[v]: v for v in e.free_vars() if v in around.order}
                last = max(bound, default=-1)
                known = self.often.setdefault(bound.get(last), {})
                known[e] = known.get(e, 0.0) + (times if last >= around.innermost else 2.0)
        return stmt

    @memoized
    def is_plain(self, e: Operand) -> bool:
        """Whether nothing in an operand needs a name or another order: no integer has several operations, and no sum
        begins with a number."""
        integers = [node for node in dag.postorder((e,)) if node.args and isinstance(node, Node)]
        return not [e for e in integers if self.counts.work(e) >= FEWEST or (e.op in SUMS and e.args[0].is_const)]

    def name_in_body(self, loop: ir.For, around: _BoundNames) -> ir.For:
        """Name expressions of a loop variable, in the body of its loop."""
        often = [times for var in own_variables(loop) for times in self.often.get(var, {}).values() if times > 1]
        if not often and ir.Let not in map(type, ir.flat(loop.body)):
            return loop
        inside = around.inside(loop)
        body = self.named(loop.body, own_variables(loop), inside.order)
        return loop if body is loop.body else ir.with_fields(loop, body=body)

    def named(self, body: ir.Stmt, own: Sequence[Var], order: Order) -> ir.Stmt:
        """The body of a loop over `own` with names for what this loop decides."""
        stmts = ir.flat(body)
        known = {stmt.value for stmt in stmts if isinstance(stmt, ir.Let)}
        uses = Uses(self.counts, stmts)
        often = [e for e, times in uses.of.items() if times > 1 and e not in known]
        if not often:
            return body
        inner = [stmt for stmt in stmts if not isinstance(stmt, ir.Let)]
        deeper = {v for stmt in inner for v in walk.bound_in(stmt) if not isinstance(v, Tensor)}
        here = {*own, *(stmt.var for stmt in stmts if isinstance(stmt, ir.Let))}
        candidates = [e for e in often if self.may_be_named(e, here, deeper)]
        if not candidates:
            return body
        taken = {*self.sizes, *map(label_of, (*order, *deeper, *here))}
        labels = Labels(stmts, self.params, order, taken)
        names: dict[Expr, Var] = {}
        for e in sorted(candidates, key=self.counts.work, reverse=True):
            if uses.of[e] > 1:
                names[e] = Var(labels.of(e))
                uses.name(e)
        return _with_lets(stmts, names, names) if names else body

    def may_be_named(self, e: Expr, here: set[Parameter], deeper: set[Parameter]) -> bool:
        free = e.free_vars()
        if not any(v in here for v in free) or any(v in deeper for v in free):
            return False
        if e.op in (ops.ADD, ops.SUB) and constant_value(e.args[1]) is not None:
            return False  # its other part serves as well
        if self.counts.work_inside(e, here) < FEWEST:
            return False
        return not any(node.op in _NOT_MOVED for node in dag.postorder((e,))) and not definedness((e,))


def _reuse_names(block: ir.Seq, _: _BoundNames) -> ir.Stmt:
    """Reuse names that the statements of a sequence define already."""
    new: list[ir.Stmt] = []
    known: dict[Operand, Operand] = {}
    for stmt in block.stmts:
        new.append(_with_names(stmt, known) if known else stmt)
        value = stmt.value if isinstance(stmt, ir.Let) else None
        if isinstance(stmt, ir.Let) and isinstance(value, Expr) and value.args and not dag.opaque_terms(value):
            known[value] = stmt.var
    return ir.seq(*new) if known else block


def _with_lets(stmts: Sequence[ir.Stmt], names: Mapping[Expr, Var], defined: Collection[Expr]) -> ir.Stmt:
    """Define the `defined` names, each in front of the first statement that uses it.

    A name that only one branch uses is defined in that branch.
    """
    uses = [dict.fromkeys(e for e in _named_in(stmt, names) if e in defined) for stmt in stmts]
    times = Counter(e for used in uses for e in used)
    new: list[ir.Stmt] = []
    done: set[Expr] = set()
    for stmt, used in zip(stmts, uses, strict=True):
        inside: dict[Expr, None] = {}
        if isinstance(stmt, ir.If):
            then, orelse = (set(_named_in(part, names)) for part in (stmt.then, stmt.orelse or ir.Seq()))
            tested = {node for node in nodes(stmt.cond) if node in names}
            inside = {e: None for e in used if times[e] == 1 and e not in tested and (e in then) != (e in orelse)}
        for e in used:
            if e not in inside and e not in done:
                done.add(e)
                new.append(ir.Let(names[e], rewritten(e, {o: var for o, var in names.items() if o is not e})))
        if isinstance(stmt, ir.If) and inside:
            parts = [_with_lets(ir.flat(part), names, inside) for part in walk.children(stmt)]
            stmt = walk.with_children(walk.map_operands(stmt, lambda e: rewritten(e, names)), tuple(parts))
        else:
            stmt = _with_names(stmt, names)
        new.append(stmt)
    return ir.seq(*new)


def _named_in(root: ir.Stmt, names: Mapping[Expr, Var]) -> Iterator[Expr]:
    """The named expressions in a statement, subexpressions first."""
    for stmt in walk.statements(root):
        for operand in _shown(stmt):
            for e in dag.postorder((operand,)):
                if isinstance(e, Expr) and e in names:
                    yield e


def _with_names(root: ir.Stmt, names: Mapping[walk.Old, Operand]) -> ir.Stmt:
    return walk.rebuilt(root, lambda stmt: _changed(stmt, lambda e: rewritten(e, names)))


def _shown(stmt: ir.Stmt) -> tuple[Operand, ...]:
    """The operands of a statement that may use names."""
    if isinstance(stmt, ir.Allocate):
        return stmt.origin or ()
    return () if isinstance(stmt, (ir.For, ir.Assume)) else walk.operands(stmt)


def _changed(stmt: ir.Stmt, change: walk.OnOperand) -> ir.Stmt:
    """Apply a change to each operand that may use names."""
    if isinstance(stmt, ir.Allocate):
        return stmt if stmt.origin is None else ir.with_fields(stmt, origin=tuple(map(change, stmt.origin)))
    return stmt if isinstance(stmt, (ir.For, ir.Assume)) else walk.map_operands(stmt, change)


MAX_NODES: Final = 9  # expressions of more nodes, and selects, get a name
_RING: Final = frozenset((ops.VAR, ops.CONST, ops.NEG, ops.ADD, ops.SUB, ops.MUL))


def name_minima(f: ir.Function, names: dict[tuple[str, Expr], Var] | None = None) -> ir.Function:
    """Name long minima of allocations, at the head of the enclosing sequence.

    Loops and indices after the name use it, too.

    Guarantee: equal values; each name is defined once.

    Parameters
    ----------
    names: variables by text and value, shared by the nests of a schedule: answers about one nest serve the others.
        New names are added.
    """
    made = (stmt for stmt in walk.statements(f.body) if isinstance(stmt, ir.Allocate))
    if not any(_is_long(walk.range_ends(r)[0]) for stmt in made for r in stmt.ranges):
        return f
    shared = {} if names is None else names
    unused = dict(shared)

    def name_long_minima(block: ir.Stmt, _: driver.Descent) -> ir.Stmt:
        """A sequence with a name for each long minimum of its allocations; the names stand first."""
        assert isinstance(block, ir.Seq)
        lets: list[ir.Stmt] = []
        own: dict[Expr, Var] = {}
        for inner in block.stmts:
            for k, r in enumerate(inner.ranges if isinstance(inner, ir.Allocate) else ()):
                low = walk.range_ends(r)[0]
                if isinstance(inner, ir.Allocate) and low not in own and _is_long(low):
                    key = (f"{inner.tensor.name}.min{k}", low)
                    var = unused.pop(key) if key in unused else Var(key[0])
                    shared.setdefault(key, var)
                    lets.append(ir.Let(var, rewritten(low, own)))
                    own[low] = var
        return ir.seq(*lets, walk.transform(block, lambda e: rewritten(e, own))) if own else block

    return f.with_body(driver.rewritten(f.body, driver.Descent(), leave={ir.Seq: (name_long_minima,)}))


def _is_long(e: Expr) -> bool:
    present = dag.operations(e)
    if present <= _RING:
        return False  # a polynomial cancels against the indices, its name would not
    return ops.SELECT in present or dag.size(e) > MAX_NODES


MOST: Final = 9  # the largest inlined expression, in nodes


def inline_values(f: ir.Function, most: int = MOST) -> ir.Function:
    """Replace names of integer expressions of at most `most` nodes by the expressions; the inverse of `name_values`.

    Splitting and C compilers look at the form of indices, and find invariant parts by themselves. Names of selects, of
    long expressions and of loads stay.

    Guarantee: equal values.
    """
    return f.with_body(with_inlined_names(f.body, lambda value: is_short(value, most)))


def with_inlined_names(root: ir.Stmt, is_inlined: Callable[[Operand], bool]) -> ir.Stmt:
    """A nest without the names of integer variables whose values, names inlined, satisfy a condition."""
    names = [stmt for stmt in walk.statements(root) if isinstance(stmt, ir.Let) and isinstance(stmt.var, Var)]
    if not any(is_inlined(name.value) for name in names):
        return root
    enter = {ir.Stmt: (driver.each_operand(_use_values),), ir.Let: (_drop_inlined_name,)}
    return driver.rewritten(root, _Inlining({}, is_inlined), enter)


def is_short(value: Operand, most: int) -> bool:
    """Whether `inline_values` replaces a name of this value."""
    if not isinstance(value, Expr) or not dag.is_small(most, (value,)) or dag.opaque_terms(value):
        return False
    return not definedness((value,)) and not any(node.op is ops.SELECT for node in dag.postorder((value,)))


class _Inlining(driver.Descent):
    """The inlined values of the names in sight.

    Invariant: values hold no name that is inlined.
    """

    __slots__ = ("is_inlined", "known")

    def __init__(self, known: dict[Parameter, Operand], is_inlined: Callable[[Operand], bool]) -> None:
        self.known, self.is_inlined = known, is_inlined

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _Inlining:
        if not isinstance(old, ir.Let) or not ir.is_empty(new):
            return self
        return _Inlining({**self.known, old.var: walk.replaced(old.value, self.known)}, self.is_inlined)


def _drop_inlined_name(stmt: ir.Let, names: _Inlining) -> ir.Stmt:
    value = walk.replaced(stmt.value, names.known)
    return ir.Seq() if isinstance(stmt.var, Var) and names.is_inlined(value) else ir.with_fields(stmt, value=value)


def _use_values(operand: Operand, names: _Inlining) -> Operand:
    return walk.replaced(operand, names.known) if names.known else operand


# -- order of sums ---------------------------------------------------------------------------------------------------


Order: TypeAlias = "Mapping[Parameter, int]"  # variables by the loops that bind them, outermost first
SUMS: Final = (ops.ADD, ops.SUB)


MAX_TERMS: Final = 16  # longer sums are left as they are


def regrouped(operand: Part, order: Order) -> Part:
    """Sort the terms of every sum from the outermost loop to the innermost, constants last.

    Sums with subtracted terms stay: if all terms are nonnegative, no partial sum exceeds the total, so no step needs a
    wider type.
    """
    if not operand.args or operations(operand).isdisjoint(SUMS):
        return operand
    new: dict[Operand, Operand] = {}
    for node in nodes(operand):
        if node.op in SUMS and isinstance(node, Expr):
            ordered = _sorted(rewritten(node, new) if new else node, order)
            if ordered is not node:
                new[node] = ordered
    return rewritten(operand, new) if new else operand


def _summands(e: Expr) -> Iterator[tuple[int, Expr]]:
    """The signed parts of a sum in text order."""
    stack = [(1, e)]
    while stack:
        sign, node = stack.pop()
        if node.op in SUMS:
            left, right = node.args
            stack += [(sign if node.op is ops.ADD else -sign, right), (sign, left)]
        else:
            yield sign, node


def _sorted(e: Expr, order: Order) -> Expr:
    terms: list[Expr] = []
    total = 0
    is_in_order, has_number = True, False
    for sign, node in _summands(e):
        is_in_order = is_in_order and not has_number
        number = constant_value(node)
        if number is not None:
            has_number = True
            total += sign * number
        elif sign < 0 or (node.op is ops.MUL and (constant_value(node.args[1]) or 0) < 0) or len(terms) == MAX_TERMS:
            return e
        else:
            terms.append(node)
    depths = [max((order.get(v, -1) for v in t.free_vars()), default=-1) for t in terms]
    if not terms or (is_in_order and sorted(depths) == depths):
        return e
    if len(terms) == 2 and not any(t.args for t in terms):
        return e  # no part of it is a sum
    ranked = [t for _, t in sorted(zip(depths, terms, strict=True), key=lambda pair: pair[0])]
    total_of_terms = sum(ranked[1:], ranked[0])
    return total_of_terms + total if total > 0 else total_of_terms - -total if total < 0 else total_of_terms


# -- labels ----------------------------------------------------------------------------------------------------------


_SUFFIX: Final = {
    ops.MIN: "min",
    ops.MAX: "max",
    ops.SELECT: "choice",
    ops.TRUNCDIV: "div",
    ops.SHR: "div",
    ops.TRUNCMOD: "mod",
    ops.BITAND: "mod",
}
_WHOLE: Final = frozenset((*ops.DIVISIONS, *ops.COMPARISONS, ops.SHR, ops.BITAND))  # operations on whole indices


class Labels:
    """Names for expressions in the body of a loop.

    In this order: the axis of a parameter that the expression indexes; the start of storage (`B.min0`); the axis of
    other storage (`B.i`); the common prefix of its variables (`i.outer * 4 + i.inner` is `i`), with `.at` if that name
    is taken and `.base` for parts of an index.

    Parameters
    ----------
    taken: names already in sight.
    """

    def __init__(self, stmts: Sequence[ir.Stmt], params: frozenset[Tensor], order: Order, taken: set[str]) -> None:
        self.order, self.taken = order, taken
        self.whole: set[Expr] = set()
        axes: dict[Expr, str] = {}
        origins: dict[Expr, str] = {}
        local: dict[Expr, str] = {}
        for stmt in walk.statements(ir.seq(*stmts)):
            if isinstance(stmt, ir.Allocate):
                for k, low in enumerate(stmt.origin or ()):
                    origins.setdefault(low, f"{stmt.tensor.name}.min{k}")
                continue
            for tensor, indices, _ in element_accesses(stmt):
                self.whole.update(map(_without_number, indices))
                names = [axis.var.name for axis in getattr(tensor.op, "axis", ())]
                for index, name in zip(indices, names, strict=False):
                    if tensor in params:
                        axes.setdefault(index, name)
                    else:
                        local.setdefault(index, f"{tensor.name}.{name}")
            dividing = [e for e in walk.operands(stmt) if not _WHOLE.isdisjoint(operations(e))]
            divided = (arg for node in nodes(*dividing) if node.op in _WHOLE for arg in node.args)
            self.whole.update(_without_number(arg) for arg in divided if isinstance(arg, Expr))
        self.known = {**local, **origins, **axes}
        self.reserved = set(axes.values())

    def of(self, e: Expr) -> str:
        """A name for an expression; it is taken from now on."""
        own = self.known.get(e)
        names = [name for name in self._offered(e, own) if name == own or name not in self.reserved]
        name = next((name for name in names if name not in self.taken), names[-1])
        self.taken.add(name)
        return name

    def _offered(self, e: Expr, own: str | None) -> Iterable[str]:
        if own is not None:
            yield own
        stem = _stem([v.name for v in sorted(e.free_vars(), key=lambda v: self.order.get(v, -1))])
        if e.op in _SUFFIX:
            yield f"{stem}.{_SUFFIX[e.op]}"
        elif e in self.whole or e.op not in (ops.ADD, ops.SUB, ops.MUL):
            yield from (stem, f"{stem}.at")
        else:
            yield f"{stem}.base"


def _without_number(e: Expr) -> Expr:
    return e.args[0] if e.op in (ops.ADD, ops.SUB) and constant_value(e.args[1]) is not None else e


def _stem(names: Sequence[str]) -> str:
    """What the parts of all names begin with, else the last name without what a split added."""
    common: list[str] = []
    for parts in zip(*(name.split(".") for name in names), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common) if common else names[-1].removesuffix(".inner").removesuffix(".outer")


def name_ends(f: ir.Function) -> ir.Function:
    """Use the names in sight in the ranges of loops, where that makes these shorter.

    Only names that `inline_values` replaces are used: passes over C, which need the expressions, get them back.

    Guarantee: equal values.
    """
    return f.with_body(driver.rewritten(f.body, _ShortNames({}, {}), enter={ir.For: (_shorten_range,)}))


class _ShortNames(driver.Descent):
    """The names in sight that `inline_values` replaces, by their values; and these without names."""

    __slots__ = ("inlined", "names")

    def __init__(self, names: dict[Operand, Expr], inlined: dict[Parameter, Operand]) -> None:
        self.names, self.inlined = names, inlined

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _ShortNames:
        if not isinstance(old, ir.Let) or not isinstance(old.var, Var):
            return self
        value = walk.replaced(old.value, self.inlined)
        if not is_short(value, MOST):
            return self
        return _ShortNames({**self.names, old.value: old.var}, {**self.inlined, old.var: value})


def _shorten_range(loop: ir.For, around: _ShortNames) -> ir.For:
    if not around.names:
        return loop
    low, extent = walk.range_ends(loop.range)
    shorter = [_by_names(e, around.names) for e in (low, extent)]
    return loop if shorter == [low, extent] else ir.with_fields(loop, range=Range(*shorter))


def _by_names(e: Expr, names: Mapping[Operand, Expr]) -> Expr:
    new: dict[Operand, Operand] = {}
    for node in nodes(e):
        known = rewritten(node, new) if new else node
        named = names.get(known, known)
        if isinstance(named, Expr) and named.op in SUMS:
            named = _sum_by_names(named, names)
        if named is not node:
            new[node] = named
    found: Expr = rewritten(e, new)
    return found


def _sum_by_names(e: Expr, names: Mapping[Operand, Expr]) -> Expr:
    """Replace terms of a sum by a name with these terms, or their opposites, if that makes the sum shorter."""
    terms, number = _terms_of(e)
    for value, name in names.items():
        parts, constant = _terms_of(value) if isinstance(value, Expr) and value.op in SUMS else ([], 0)
        for sign in (1, -1):
            own = [(sign * k, term) for k, term in parts]
            if len(own) > 1 and all(terms.count(part) >= own.count(part) for part in own):
                place = terms.index(own[0])
                for part in own:
                    terms.remove(part)
                terms.insert(min(place, len(terms)), (sign, name))
                number -= sign * constant
    first = next((k for k, (sign, _) in enumerate(terms) if sign > 0), None)
    if first is None and number <= 0:
        return e
    total = const(number) if first is None else terms.pop(first)[1]
    number = 0 if first is None else number
    for sign, term in terms:
        total = total + term if sign > 0 else total - term
    total = total + number if number > 0 else total - -number if number < 0 else total
    return total if dag.size(total) < dag.size(e) else e


def _terms_of(e: Expr) -> tuple[list[tuple[int, Expr]], int]:
    """Split a sum into signed terms, in order, and a constant."""
    parts = [(sign, node, constant_value(node)) for sign, node in _summands(e)]
    terms = [(sign, node) for sign, node, value in parts if value is None]
    return terms, sum(sign * value for sign, _, value in parts if value is not None)
