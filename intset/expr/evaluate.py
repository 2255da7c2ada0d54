"""`evaluate`: the reference semantics of expressions, over the integers and at a fixed width.

`compiled` translates an expression to a Python function of the same values, for evaluation at many points.
`some_may_be_long` bounds the bit length of intermediate values, which nested products double at each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

from intset.errors import BudgetError, InputError, MachineOverflowError, UndefinedError
from intset.expr import ops
from intset.expr.arguments import as_int, mapped, refusal
from intset.expr.dag import Interned, opaque_terms, postorder
from intset.expr.ops import Op, wrap
from intset.expr.printer import INFIX, number_text, short_number, shown

if TYPE_CHECKING:
    from intset.expr.node import Cond, Expr, Node, Var

LONGEST_VALUE: Final = 1 << 17  # bits of an intermediate value beyond which searches for points give up

Key = TypeVar("Key", bound=Hashable)  # mappings are invariant in their keys
Value = TypeVar("Value")

# States of a work item: a node to start, its arguments evaluated, or the deciding argument of a lazy node evaluated.
_START, _APPLY, _DECIDE = 0, 1, 2


def settled(node: Node) -> Any:
    """The value of a node over constants; `None` for one with variables or opaque terms."""
    if node.op is ops.CONST:
        return node.data
    return None if node.free_vars() or opaque_terms(node) else evaluate(node)


@overload
def evaluate(node: Expr, env: Mapping[Key, object] | None = None, bits: int | None = None) -> int: ...
@overload
def evaluate(node: Cond, env: Mapping[Key, object] | None = None, bits: int | None = None) -> bool: ...
@overload
def evaluate(node: Node, env: Mapping[Key, object] | None = None, bits: int | None = None) -> int | bool: ...
def evaluate(node: Node, env: Mapping[Key, object] | None = None, bits: int | None = None) -> int | bool:
    """The value of an expression (`int`) or of a condition (`bool`) at a point.

    Parameters
    ----------
    node: the expression or condition.
    env: the point, `{Var: int}`. The key of an opaque term is the term itself, or its symbol with a callable of the
        indices, a mapping from index tuples, or an array. A `NumericFunction` needs no entry.
    bits: when given, every step is a signed two's complement operation of that width, C's: a result that does not fit
        raises `MachineOverflowError` (an input or constant that does not fit as well).

    Raises
    ------
    InputError: a variable has no integer value in `env`.
    UndefinedError: division by 0, negative shift, failed assertion.
    BudgetError: a left shift produces more than 2**31 bits.

    `select`, `&` and `|` are lazy: an operand that is not needed cannot raise.
    """
    if not isinstance(node, Interned):
        raise InputError(f"evaluate takes an expression or a condition, not {shown(node)}")
    width = None if bits is None else as_width(bits, "bits")
    point: Mapping[Any, Any] = {} if env is None else mapped(env, "env", "a mapping {Var: int}")
    values: dict[Node, Any] = {}
    stack: list[tuple[int, Node]] = [(_START, node)]
    while stack:
        state, top = stack.pop()
        if top in values:
            continue
        op = top.op
        if state == _START:
            if op is ops.CONST or op is ops.BOOL:
                values[top] = top.data if width is None else _fit(top.data, top, width)
            elif op is ops.VAR:
                value = _lookup(top, point)
                values[top] = value if width is None else _fit(value, top, width)
            elif op in _LAZY:
                stack.extend(((_DECIDE, top), (_START, top.args[0])))
            else:
                waiting = [(_START, arg) for arg in top.args if not _is_at_hand(arg, values, point, width)]
                if waiting:
                    stack.append((_APPLY, top))
                    waiting.reverse()
                    stack.extend(waiting)
                else:
                    value = _apply(op, top, values, point, width)
                    values[top] = value if width is None else _fit(value, top, width)
        elif state == _DECIDE:
            first = values[top.args[0]]
            if op is ops.AND or op is ops.OR:
                if first is (op is ops.OR):
                    values[top] = first
                    continue
                chosen = top.args[1]
            elif op is ops.SELECT:
                chosen = top.args[1 if first else 2]
            else:
                if not first:
                    raise UndefinedError(f"the assertion {shown(top.args[0])} does not hold")
                chosen = top.args[1]
            if chosen in values:
                values[top] = values[chosen]
            else:
                stack.extend(((_DECIDE, top), (_START, chosen)))
        else:
            value = _apply(op, top, values, point, width)
            values[top] = value if width is None else _fit(value, top, width)
    answer: int | bool = values[node]
    return answer


_LONGEST = 1 << 31  # bits added by a shift
_LAZY = frozenset((*ops.LAZY, ops.ASSERTING))


def _is_at_hand(node: Node, values: dict[Node, Any], point: Mapping[Any, Any], width: int | None) -> bool:
    """Whether `values` has the node; enters constants and variables that need no width check."""
    if node in values:
        return True
    if width is not None:
        return False
    value = node.data if node.op is ops.CONST else point.get(node) if node.op is ops.VAR else None
    if type(value) is not int:
        return False
    values[node] = value
    return True


def _apply(op: Op, node: Node, values: dict[Node, Any], point: Mapping[Any, Any], width: int | None) -> Any:
    args = [values[arg] for arg in node.args]
    if op is ops.CAST:
        return wrap(args[0], *node.data)
    if op is ops.LOAD:
        return _load(node, args, point)
    if width is not None and op in (ops.SHL, ops.SHR) and not 0 <= args[1] < width:
        raise MachineOverflowError(f"a shift by {number_text(args[1])} at {width} bits: {shown(node)}")
    if width is not None and op in (ops.FLOORMOD, ops.TRUNCMOD) and args[1] == -1 and args[0] == -(1 << (width - 1)):
        raise MachineOverflowError(f"{number_text(args[0])} % -1 traps at {width} bits: {shown(node)}")
    assert op.meaning is not None
    if op is ops.SHL and args[1] > _LONGEST and args[0]:
        raise BudgetError(f"a shift by {short_number(args[1])} gives a number too long to compute: {shown(node)}")
    try:
        return op.meaning(*args)
    except ZeroDivisionError:
        what = "a negative shift" if op in (ops.SHL, ops.SHR) else "a division by 0"
        raise UndefinedError(f"{what}: {shown(node)}") from None


def applied(node: Node, operands: Sequence[Any]) -> Any:
    """The value of an operation, for the values of its operands; `None` if undefined, uninterpreted or too long.

    An operand without a value is `None`, which a lazy operation may not need.
    """
    if not operands or operands[0] is None:
        return None
    op = node.op
    if op is ops.SELECT:
        return operands[1] if operands[0] else operands[2]
    if op is ops.AND or op is ops.OR:
        return operands[0] if operands[0] is (op is ops.OR) else operands[1]
    if op is ops.ASSERTING:
        return operands[1] if operands[0] else None
    if op is ops.CAST:
        return wrap(operands[0], *node.data)
    if op.meaning is None or None in operands or op is ops.SHL and operands[1] > 64:
        return None
    if op is ops.MUL and operands[0].bit_length() + operands[1].bit_length() > LONGEST_VALUE:
        return None
    try:
        return op.meaning(*operands)
    except ZeroDivisionError:
        return None


def _fit(value: Any, node: Node, width: int) -> Any:
    if value is not True and value is not False and not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise MachineOverflowError(f"{number_text(value)} does not fit in {width} bits: {shown(node)}")
    return value


def _lookup(var: Any, point: Mapping[Any, Any]) -> int:
    try:
        value = point[var]
    except KeyError:
        named = any(getattr(key, "name", key) == var.name for key in point)
        why = ": the key is its name, or another variable of that name" if named else ""
        raise InputError(f"the variable {var.name} has no value{why}") from None
    return as_int(value, f"the value of {var.name}")


def _load(node: Node, indices: list[int], point: Mapping[Any, Any]) -> int:
    symbol = node.data
    if node in point:
        return as_int(point[node], f"the value of {node!r}")
    if symbol not in point and symbol.value_at is not None:
        try:
            return as_int(symbol.value_at(*indices), f"the value of {node!r}")
        except ZeroDivisionError as error:
            raise UndefinedError(f"{shown(node)} is undefined: {error}") from None
    if symbol not in point:
        raise InputError(f"the opaque symbol {symbol.name} has no value")
    source = point[symbol]
    if indices and not (callable(source) or isinstance(source, Mapping) or hasattr(source, "shape")):
        raise refusal(f"the value of {symbol.name}", "a function, a mapping or an array", source)
    try:
        if hasattr(source, "shape") and any(index < 0 for index in indices):
            raise IndexError  # an array would count from its end
        if not indices and not callable(source) and not isinstance(source, Mapping):
            value = source[()] if hasattr(source, "shape") else source
        else:
            value = source(*indices) if callable(source) else source[tuple(indices)]
    except (KeyError, IndexError) as error:
        raise InputError(f"{symbol.name} has no element {shown(tuple(indices))}") from error
    return value if type(value) is int else as_int(value, f"the value of {node!r}")


MAX_TEXT = 4000  # characters of one function; longer or deeper parts are outlined
MAX_DEPTH = 60
MAX_CALLS = 60  # nested helper functions; deeper expressions are interpreted
MAX_STATEMENTS = 1000  # local variables
MAX_SHARED = 20  # average recomputations of a node

_FORMATS: dict[ops.Op, str] = {
    **{op: f"({{}}{symbol}{{}})" for op, (symbol, _) in INFIX.items()},
    ops.NEG: "(-{})",
    ops.CEILDIV: "(-(-{}//{}))",
    ops.TRUNCDIV: "truncdiv({},{})",
    ops.TRUNCMOD: "truncmod({},{})",
    ops.MIN: "min({},{})",
    ops.MAX: "max({},{})",
    ops.ABS: "abs({})",
    ops.BITNOT: "(~{})",
    ops.SHL: "shl({},{})",
    ops.SHR: "shr({},{})",
    ops.SELECT: "({1} if {0} else {2})",
    ops.ASSERTING: "({1} if {0} else undefined())",
    ops.AND: "({} and {})",
    ops.OR: "({} or {})",
    ops.NOT: "(not {})",
}


def _undefined() -> int:
    raise UndefinedError("an assertion does not hold")


_NAMES = {
    "truncdiv": ops.trunc_div,
    "truncmod": ops.trunc_mod,
    "shl": ops.shift_left,
    "shr": ops.shift_right,
    "wrap": ops.wrap,
    "undefined": _undefined,
}


def value_or_none(function: Callable[..., Value], *values: Any) -> Value | None:
    """The value of a function that `compiled` returns; `None` where it is undefined."""
    try:
        return function(*values)
    except ArithmeticError:
        return None


def point_value(node: Node, point: Mapping[Key, object]) -> Any:
    """The value of an expression or condition at a point; `None` where it is undefined or the point lacks a value."""
    try:
        return evaluate(node, point)
    except (ArithmeticError, InputError):
        return None


def all_hold(conditions: Iterable[Cond], point: Mapping[Key, object]) -> bool:
    """Whether all conditions are defined and true at a point."""
    return all(point_value(cond, point) for cond in conditions)


def compiled(node: Node, variables: Sequence[Var]) -> Callable[..., Any]:
    """A function of the values of `variables`, in that order, equal to `evaluate` of `node`.

    Where `evaluate` raises `UndefinedError`, the function raises that or `ZeroDivisionError`. Opaque terms are refused
    by `InputError` when called.
    """
    writer = _Writer(variables)
    text = writer.written(node)
    if text is None:
        return lambda *values: evaluate(node, dict(zip(variables, values, strict=True)))
    return writer.function(text)


INTERPRETED: Final = 4  # evaluations that cost less than a translation


def repeatable(node: Node, variables: Sequence[Var]) -> Callable[..., Any]:
    """`compiled(node, variables)`, translated only once it has been called `INTERPRETED` times."""
    calls = 0
    translated: Callable[..., Any] | None = None

    def function(*values: int) -> Any:
        nonlocal calls, translated
        if translated is None:
            calls += 1
            if calls <= INTERPRETED:
                return evaluate(node, dict(zip(variables, values, strict=True)))
            translated = compiled(node, variables)
        return translated(*values)

    return function


class _Writer:
    """Python source of one expression.

    A shared total subexpression of bounded size becomes a local variable; a partial one is inlined at each use, so that
    evaluation stays lazy. Source beyond `MAX_TEXT` or `MAX_DEPTH` is outlined into helper functions.
    """

    def __init__(self, variables: Sequence[Var]) -> None:
        self.names: dict[Any, str] = {var: f"v{k}" for k, var in enumerate(variables)}
        self.parameters = ",".join(self.names.values())
        self.scope: dict[str, Any] = dict(_NAMES)
        self.statements: list[str] = []

    def function(self, text: str) -> Callable[..., Any]:
        if not self.statements:
            short: Callable[..., Any] = eval(f"lambda {self.parameters}: {text}", self.scope)
            return short
        lines = "\n ".join((*self.statements, f"return {text}"))
        local: dict[str, Callable[..., Any]] = {}
        exec(f"def function({self.parameters}):\n {lines}", self.scope, local)
        return local["function"]

    def written(self, root: Node) -> str | None:
        """The source of an expression; `None` if it exceeds the limits or has opaque terms."""
        order = postorder((root,))
        uses: Counter[Node] = Counter()
        for node in order:
            uses.update(node.args)
        texts: dict[Node, _Text] = {}
        for node in order:
            part = self._of(node, list(map(texts.__getitem__, node.args)))
            if part is None or part.calls > MAX_CALLS or part.nodes > max(MAX_TEXT, MAX_SHARED * len(texts)):
                return None
            if uses[node] > 1 and part.is_total and part.nodes > 2:
                part = self._as_local(part)
            if len(self.statements) > MAX_STATEMENTS:
                return None
            texts[node] = part
        return texts[root].text

    def _of(self, node: Node, args: list[_Text]) -> _Text | None:
        if node.op is ops.CONST:
            return _Text(f"({number_text(node.data)})", is_total=True)
        if node.op is ops.BOOL:
            return _Text(str(node.data), is_total=True)
        if node.op is ops.VAR:
            return _Text(self.names[node], is_total=True) if node in self.names else None
        if node.op is ops.LOAD:
            return None
        form = f"wrap({{}},{node.data[0]},{node.data[1]})" if node.op is ops.CAST else _FORMATS[node.op]
        text = _Text.of(form, args, _is_total(node))
        return text if text.fits() else _Text.of(form, [self._outlined(arg) for arg in args], _is_total(node))

    def _as_local(self, part: _Text) -> _Text:
        name = f"t{len(self.statements)}"
        self.statements.append(f"{name}={part.text}")
        return _Text(name, is_total=True, is_local=True)

    def _outlined(self, part: _Text) -> _Text:
        """A call of a helper function for a long part; a short part unchanged."""
        call = f"f{len(self.scope)}({self.parameters})"
        if part.depth < 4 or len(part.text) <= 2 * len(call):
            return part
        if part.is_total:
            return self._as_local(part)
        if part.is_local:
            name = f"t{len(self.statements)}"
            self.statements.append(f"{name}=lambda: {part.text}")
            return part._replace(text=f"{name}()", depth=1, calls=part.calls + 1)
        self.scope[call.partition("(")[0]] = eval(f"lambda {self.parameters}: {part.text}", self.scope)
        return part._replace(text=call, depth=1, calls=part.calls + 1)


def _is_total(node: Node) -> bool:
    """Whether the operation is total, and a chain of such operations gives no long number: each adds few bits."""
    if node.op in ops.DIVISIONS:
        divisor = node.args[1].args[0] if node.args[1].op is ops.NEG else node.args[1]
        return divisor.op is ops.CONST and divisor.data != 0
    if node.op is ops.MUL:
        return node.args[0].op in (ops.CONST, ops.VAR) or node.args[1].op in (ops.CONST, ops.VAR)
    if node.op is ops.SHR:
        return node.args[1].op is ops.CONST and node.args[1].data >= 0
    return node.op not in (ops.SHL, ops.ASSERTING)


class _Text(NamedTuple):
    """Python source of a subexpression.

    Attributes
    ----------
    depth: nesting of operators; calls: nesting of helper functions; nodes: operations executed.
    is_total: defined for all arguments; is_local: mentions local variables.
    """

    text: str
    depth: int = 1
    calls: int = 0
    nodes: int = 1
    is_total: bool = False
    is_local: bool = False

    @staticmethod
    def of(form: str, args: Sequence[_Text], is_total: bool) -> _Text:
        texts: list[str] = []
        depth, calls, nodes, is_local = 0, 0, 1, False
        for text, its_depth, its_calls, its_nodes, its_total, its_local in args:
            texts.append(text)
            depth, calls, nodes = max(depth, its_depth), max(calls, its_calls), nodes + its_nodes
            is_total, is_local = is_total and its_total, is_local or its_local
        return _Text(form.format(*texts), 1 + depth, calls, nodes, is_total, is_local)

    def fits(self) -> bool:
        return len(self.text) <= MAX_TEXT and self.depth <= MAX_DEPTH


def as_width(bits: object, what: str) -> int:
    """The width of a register in bits.

    Raises
    ------
    InputError: `bits` is not an integer in [1, LONGEST_VALUE].
    """
    width = as_int(bits, what)
    if width < 1:
        raise InputError(f"{what} must be at least 1, not {shown(width)}")
    if width > LONGEST_VALUE:
        raise InputError(f"{what} must be at most {LONGEST_VALUE}, not {shown(width)}")
    return width


def length(span: range) -> int:
    """The number of elements of a range; unlike `len`, of a range of any length."""
    return max(0, -((span.start - span.stop) // span.step))


def some_may_be_long(nodes: Sequence[Node], leaves: Mapping[Any, int], limit: int = LONGEST_VALUE) -> bool:
    """Whether a value of `nodes`, which are in postorder, may exceed `limit` bits; constants do not count.

    leaves: the bit length of each leaf.
    """
    return not _is_surely_short(nodes, leaves, limit) and _becomes_long(nodes, leaves, limit)


def _is_surely_short(nodes: Sequence[Node], leaves: Mapping[Any, int], limit: int) -> bool:
    """A cheap sufficient test: without products of variables and shifts, each step adds at most the bits of the
    longest constant plus one."""
    longest = max(1, *leaves.values()) if leaves else 1
    for node in nodes:
        op = node.op
        if op is ops.CONST:
            longest = max(longest, node.data.bit_length())
        elif op is ops.CAST:
            longest = max(longest, node.data[0])
        elif op is ops.SHL or (op is ops.MUL and all(arg.op is not ops.CONST for arg in node.args)):
            return False
    return (longest + 1) * (len(nodes) + 1) <= limit


def _becomes_long(nodes: Sequence[Node], leaves: Mapping[Any, int], limit: int) -> bool:
    bits: dict[Node, int] = {}
    for node in nodes:
        bits[node] = most_bits(node, [bits[arg] for arg in node.args], leaves)
        if bits[node] > limit and node.op is not ops.CONST:
            return True
    return False


def most_bits(node: Node, below: Sequence[int], leaves: Mapping[Any, int]) -> int:
    """An upper bound of the bit length of a node's value, from those of its operands; `leaves` has those of loads."""
    if node.op is ops.CONST:
        return int(node.data.bit_length())
    if not below or node.op is ops.LOAD:
        return leaves.get(node, 1)
    if node.op is ops.MUL:
        return sum(below)
    if node.op is ops.SHL:
        return below[0] + (1 << min(below[1], LONGEST_VALUE.bit_length()))
    return 1 + max(*below, node.data[0] if node.op is ops.CAST else 0)
