"""Shared memory: bank conflicts, contiguous runs and alignment of byte addresses, by their bits.

    e = (i*128 + j*2) ^ ((i & 7) << 4)           lanes i in [0, 8), j = 0: eight words in eight banks

An address is an affine form over F2 (`intset.linear.bitforms`). Two lanes meet in a bank where the bank's rows agree,
so each bank that is hit has two to the rank of the words' rows minus the rank of the bank's rows different words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from intset.check.bit_rows import AddressCertificate, RankEvidence
from intset.context import Context
from intset.errors import InputError
from intset.expr import Expr, IntLike, Range, Var, arguments, as_expr, dag, shown
from intset.linear.bitforms import BitForm, CarryError, Columns, RowBasis


@dataclass(frozen=True)
class AddressAnswer:
    """A number about an address.

    Attributes
    ----------
    value: the number.
    is_exact: whether it is the best one; else the truth may be better: fewer conflicts, more contiguity or alignment.
    notes: the reasons for a loss of precision.
    evidence: what `certificate` returns.
    """

    value: int
    is_exact: bool
    notes: tuple[str, ...]
    evidence: AddressCertificate

    def __post_init__(self) -> None:
        arguments.a_flag(self.is_exact, "is_exact")
        arguments.of_kind(AddressCertificate, self.evidence, "the evidence", "an AddressCertificate")

    def certificate(self) -> AddressCertificate:
        """The certificate of the answer, checked.

        Raises
        ------
        InputError: the checker does not read the address, as where a term is known by its width alone.
        """
        if not self.evidence.check():
            raise InputError(f"no certificate was found for {self.evidence.claim} of {shown(self.evidence.address)}")
        return self.evidence

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"<{self.value} {self.evidence.claim} {'exact' if self.is_exact else 'not exact'}>"


def bank_conflicts(e: IntLike, lanes: Sequence[Var], ctx: Context, banks: int = 32, width: int = 4) -> AddressAnswer:
    """The most distinct words in one bank that the lanes access at once, for all values of the other variables.

    Parameters
    ----------
    e: the address in bytes.
    lanes: the variables that run at once.
    banks: the number of banks, a power of two.
    width: the bytes of a word, a power of two.

    Raises
    ------
    InputError: the address of a lane is not made of bits, such as `i*3`, or a lane has no constant end.

    >>> from intset import Context, Range, Var
    >>> i = Var("i")
    >>> rows = Context({i: Range(0, 32)})
    >>> bank_conflicts(i * 128, [i], rows).value, bank_conflicts((i * 128) ^ ((i & 31) << 2), [i], rows).value
    (32, 1)
    """
    address, form, columns = _read(e, ctx)
    running = tuple(
        dict.fromkeys(arguments.of_kind(Var, v, "a lane", "a variable") for v in arguments.listed(lanes, "the lanes"))
    )
    bank_bits, word_bits = _power(banks, "banks"), _power(width, "width")
    if any(v in form.high for v in running):
        raise InputError(f"a lane has no constant end: {shown(next(v for v in running if v in form.high))}")
    for term, reason in columns.fresh.items():
        if any(v in running for v in dag.free_vars(term)):
            raise InputError(f"the bits of {shown(term)} are not known: {reason}")
    mask = sum(1 << column for v in running for column in columns.places.get(v, ()))
    words = [row & mask for row in form.rows[word_bits:]]
    of_words, of_banks = RowBasis(words), RowBasis(words[:bank_bits])
    is_exact, notes = _precision(ctx, running)
    value = 1 << of_words.rank - of_banks.rank
    evidence = AddressCertificate(
        "conflicts", address, _ranges(ctx, address), running, (banks, width), value, is_exact,
        (_evidence(of_words, columns), _evidence(of_banks, columns)),
    )  # fmt: skip
    return AddressAnswer(value, is_exact, notes, evidence)


def contiguity(e: IntLike, v: Var, ctx: Context, step: int = 1) -> AddressAnswer:
    """The largest power of two of consecutive values of `v`, from a multiple of it on, with addresses `step` apart.

    Some such run lies within the range of `v`.

    Raises
    ------
    InputError: the address is not composed of bits, or `step` is not a power of two.

    >>> from intset import Context, Range, Var
    >>> i, j = Var("i"), Var("j")
    >>> tile = Context({i: Range(0, 32), j: Range(0, 64)})
    >>> contiguity((i * 128 + j * 2) ^ ((i & 7) << 4), j, tile, step=2).value
    8
    """
    address, form, columns = _read(e, ctx)
    shift = _power(step, "step")
    variable = arguments.of_kind(Var, v, "the variable of contiguity", "a variable")
    is_exact, notes = _precision(ctx, dag.free_vars(address))
    is_exact = is_exact and not columns.fresh
    bits = 0
    is_moving_fresh = any(variable in dag.free_vars(term) for term in columns.fresh)
    limits = ctx.ranges.get(variable)
    low, high = (0, None) if limits is None or limits.ends is None else limits.ends
    for b, column in enumerate(() if is_moving_fresh else columns.places.get(variable, ())):
        p, length = shift + b, 2 << b
        if high is not None and -(-low // length) * length + length - 1 > high:
            break  # the run would leave the range
        flipped = sum(row >> column & 1 for row in form.rows)
        if not (flipped == 1 and p < len(form.rows) and form.rows[p] == 1 << column):
            is_exact = is_exact and flipped <= 1  # several bits that flip together may add a power of two as well
            break
        bits = b + 1
    evidence = AddressCertificate(
        "contiguity", address, _ranges(ctx, address), (variable,), (step,), 1 << bits, is_exact
    )
    return AddressAnswer(1 << bits, is_exact, (*notes, *_fresh_notes(columns)), evidence)


def alignment(e: IntLike, ctx: Context) -> AddressAnswer:
    """The largest power of two that divides every address.

    Raises
    ------
    InputError: the address is not composed of bits, or is constantly 0.

    >>> from intset import Context, Range, Var
    >>> i = Var("i")
    >>> alignment((i * 16) ^ 32, Context({i: Range(0, 8)})).value
    16
    """
    address, form, columns = _read(e, ctx)
    bits = next((p for p, row in enumerate(form.rows) if row), None)
    if bits is None and not form.high:
        raise InputError(f"the address is always 0: {shown(address)}")
    if bits is None:
        bits = min((factor & -factor).bit_length() - 1 for factor in form.high.values())
    is_exact, notes = _precision(ctx, dag.free_vars(address))
    is_exact = is_exact and not columns.fresh and bits < len(form.rows)
    evidence = AddressCertificate("alignment", address, _ranges(ctx, address), (), (), 1 << bits, is_exact)
    return AddressAnswer(1 << bits, is_exact, (*notes, *_fresh_notes(columns)), evidence)


def _read(e: IntLike, ctx: Context) -> tuple[Expr, BitForm, Columns]:
    address = as_expr(e, "the address")
    known = arguments.of_kind(Context, ctx, "ctx", "a Context").frame.known
    columns = Columns(lambda term: known.bounds(known.form(term)))
    try:
        return address, columns.form(address), columns
    except CarryError as error:
        raise InputError(f"the address {shown(address)} is not made of bits: {error}") from None


def _power(size: int, what: str) -> int:
    value = arguments.as_count(size, what)
    if value < 1 or value & (value - 1):
        raise InputError(f"{what} must be a power of two, not {value}")
    return value.bit_length() - 1


def _fresh_notes(columns: Columns) -> tuple[str, ...]:
    return tuple(f"{term} is known by its width alone: {reason}" for term, reason in columns.fresh.items())


def _precision(ctx: Context, variables: Sequence[Var]) -> tuple[bool, tuple[str, ...]]:
    """Whether the variables cover all combinations of their bits; otherwise the reason."""
    for v in variables:
        limits = ctx.ranges.get(v)
        ends = None if limits is None else limits.ends
        extent = 0 if ends is None else ends[1] - ends[0] + 1
        if ends is None or extent < 1 or extent & (extent - 1) or ends[0] % extent:
            return False, (f"the extent of {v} is no known power of two",)
    if facts := [fact for fact in ctx.facts if any(v in variables for v in dag.free_vars(fact.condition))]:
        return False, (f"a fact may exclude values: {facts[0]}",)
    return True, ()


def _ranges(ctx: Context, address: Expr) -> tuple[tuple[Var, Range], ...]:
    return tuple((v, ctx.ranges[v]) for v in dag.free_vars(address) if v in ctx.ranges)


def _evidence(basis: RowBasis, columns: Columns) -> RankEvidence:
    def rows(mask: int) -> tuple[int, ...]:
        return tuple(k for k in range(mask.bit_length()) if mask >> k & 1)

    pivots = tuple((rows(made_of), columns.terms[column - 1]) for column, (_, made_of) in basis.rows.items())
    dependent = [rows(mask) for mask, _ in basis.relations]
    return RankEvidence(pivots, tuple((last, tuple(others)) for *others, last in dependent))


__all__ = ["AddressAnswer", "alignment", "bank_conflicts", "contiguity"]
