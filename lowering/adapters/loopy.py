"""loopy's kernels: domains as regions and back, expressions in the names of a kernel, and checks that always hold.

Inames and parameters are variables by name. What an array or a scalar holds is an opaque integer, the same at each
reading in one instruction, where loopy knows a signed integer type for it; floats and unsigned integers are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import islpy
import numpy as np
import pymbolic.primitives as p
from loopy import LoopKernel, TranslationUnit, expand_subst
from loopy.kernel.data import ArrayArg, ValueArg
from loopy.kernel.function_interface import CallableKernel
from loopy.symbolic import SubstitutionMapper, UncachedIdentityMapper
from loopy.types import NumpyType
from pymbolic import parse
from pymbolic.mapper.substitutor import make_subst_func

from intset import Cond, Context, Expr, InputError, Opaque, Region, Var, logical_and
from intset.adapters.islpy import region as region_of_isl
from intset.adapters.islpy import to_isl
from intset.adapters.pymbolic import importer

ProgramOfLoopy: TypeAlias = "TranslationUnit | LoopKernel"


class RemovedCheck(NamedTuple):
    """A removed condition: it is constant where the kernel tests it."""

    instruction: str
    condition: str
    holds: bool


class RefutedAccess(NamedTuple):
    """An access outside its array's shape, with an iteration and parameters at which it is."""

    instruction: str
    access: str
    axis: int
    point: dict[str, int]


class CheckedKernels(NamedTuple):
    """The answer of `remove_checks`.

    Attributes
    ----------
    program: the program without the removed checks.
    removed: the checks that were removed.
    refuted: accesses of the entry points that leave their array.
    undecided: instruction and text of accesses that depend on data, or that the prover left open.
    """

    program: ProgramOfLoopy
    removed: tuple[RemovedCheck, ...]
    refuted: tuple[RefutedAccess, ...]
    undecided: tuple[tuple[str, str], ...]


class KernelNames:
    """The variables for a kernel's inames and parameters, and their declared facts.

    >>> import loopy
    >>> names = KernelNames(loopy.make_kernel("{[i, j]: 0 <= i < n and i <= j < n}", "a[i, j] = 1"))
    >>> names.region(["i", "j"]).at({names["n"]: 4}).count()
    10
    >>> names.expression("i // 2 + n")
    i // 2 + n
    """

    def __init__(self, program: ProgramOfLoopy) -> None:
        self.kernel: Any = program.default_entrypoint if isinstance(program, TranslationUnit) else program
        scalars = [arg.name for arg in self.kernel.args if isinstance(arg, ValueArg) and _is_integer(arg.dtype)]
        names = {*self.kernel.all_inames(), *self.kernel.all_params(), *scalars}
        self.variables: dict[str, Var] = {name: Var(name) for name in sorted(names)}

    def __getitem__(self, name: str) -> Var:
        if name not in self.variables:
            raise InputError(f"the kernel has no iname or parameter {name!r}")
        return self.variables[name]

    def region(self, inames: Sequence[str]) -> Region:
        """The iterations of loops over `inames`, in that order: the kernel's domain projected on them."""
        domain = self.kernel.get_inames_domain(frozenset(inames))
        found = region_of_isl(domain, self.variables)
        order = domain.get_var_names(islpy.dim_type.set)
        for name in inames:
            if name not in order:
                raise InputError(f"the kernel has no iname {name!r}")
        return found.project([order.index(name) for name in inames])

    def expression(self, source: object) -> Expr | Cond:
        """An expression of pymbolic, or its text, in the kernel's variables; errors as in `from_pymbolic`."""
        found = importer(self.variables)(parse(source) if isinstance(source, str) else source)
        assert isinstance(found, (Expr, Cond))
        return found

    def context(self, inames: Collection[str]) -> Context:
        """The iterations of loops over `inames`, under the kernel's assumptions; extents of arrays are at least 0."""
        domain = self.kernel.get_inames_domain(frozenset(inames))
        points = [self[name] for name in domain.get_var_names(islpy.dim_type.set)]
        conditions = [
            *region_of_isl(domain, self.variables).constraints(points),
            *region_of_isl(self.kernel.assumptions.from_params(), self.variables).constraints(()),
            *self._extents(),
        ]
        return Context.from_constraints(points, conditions)

    def _extents(self) -> Iterable[Cond]:
        convert = importer(self.variables)
        for arg in self.kernel.args:
            for extent in _shape(arg):
                try:
                    size = convert(extent)
                except InputError:
                    continue
                if isinstance(size, Expr) and not size.is_const and {*size.free_vars()} <= {*self.variables.values()}:
                    yield size >= 0


def domain(points: Region, inames: Sequence[str], names: Mapping[Var, str] | None = None) -> islpy.BasicSet:
    """The domain of loops over the points of a region, for `loopy.make_kernel`.

    Parameters
    ----------
    inames: names of the coordinates.
    names: names of parameters, as for `to_isl`.

    Raises
    ------
    InputError: the region is no basic set of isl, which a domain of loopy is.
    UndecidedError: the region is a superset of the true set.

    >>> from intset import Context, Range, Var
    >>> i, j, n = Var("i"), Var("j"), Var("n")
    >>> domain(Context({i: Range(0, n), j: Range(0, 4)}).image((i, j)), ["x", "y"])
    BasicSet("[n] -> { [x, y] : 0 <= x < n and 0 <= y <= 3 }")
    """
    if len(inames) != points.dims:
        raise InputError(f"a region of {points.dims} dimensions has that many inames, not {len(inames)}")
    found = to_isl(points, names).coalesce().get_basic_sets()
    if len(found) > 1:
        raise InputError(f"a domain of loopy is one basic set; the region has {len(found)} pieces")
    only = found[0] if found else islpy.BasicSet.empty(to_isl(points, names).space)
    for k, name in enumerate(inames):
        only = only.set_dim_name(islpy.dim_type.set, k, name)
    return only


def remove_checks(program: ProgramOfLoopy) -> CheckedKernels:
    """Remove conditions of `if` expressions and predicates of instructions that always hold, and check accesses.

    Guarantee: the program computes the same, for all parameters that the kernel's assumptions allow. A refuted access
    happens at its point, whatever the arrays hold. Array arguments of entry points that nothing reads any more are
    removed: loopy does not call kernels with unused arrays correctly.

    >>> import loopy
    >>> knl = loopy.make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i + 1] if i >= 0 and i < n else 0",
    ...                         [loopy.GlobalArg("a, b", shape=("n",)), ...])
    >>> checked = remove_checks(knl)
    >>> checked.program.default_entrypoint.instructions[0].expression
    Subscript(Variable('a'), Sum((Variable('i'), 1)))
    >>> checked.refuted[0].access, checked.refuted[0].point
    ('a[i + 1]', {'i': 0, 'n': 1})
    """
    log = _Log()
    if isinstance(program, TranslationUnit):
        for function, callable_ in program.callables_table.items():
            if isinstance(callable_, CallableKernel):
                part = log if function in program.entrypoints else _Log()
                checked = _checked(callable_.subkernel, part)
                program = program.with_kernel(_without_unread(callable_.subkernel, checked) if part is log else checked)
                log.removed += [] if part is log else part.removed
    elif isinstance(program, LoopKernel):
        program = _without_unread(program, _checked(program, log))
    else:
        raise InputError(f"a kernel or translation unit of loopy is expected, not {type(program).__name__}")
    refuted = {(found.instruction, found.access, found.axis): found for found in reversed(log.refuted)}
    return CheckedKernels(
        program, tuple(log.removed), tuple(reversed(refuted.values())), tuple(dict.fromkeys(log.undecided))
    )


def _checked(kernel: Any, log: _Log) -> Any:
    names = KernelNames(kernel)
    return kernel.copy(instructions=[_Instruction(names, insn, log).checked() for insn in kernel.instructions])


def _without_unread(kernel: Any, checked: Any) -> Any:
    """The checked kernel without the array arguments that only the kernel before accessed."""
    gone = _accessed(kernel) - _accessed(checked)
    if not gone:
        return checked
    return checked.copy(args=[arg for arg in checked.args if not (isinstance(arg, ArrayArg) and arg.name in gone)])


def _accessed(kernel: Any) -> set[str]:
    """The names in instructions, substitution rules expanded."""
    expanded = expand_subst(kernel) if kernel.substitutions else kernel
    return {name for insn in expanded.instructions for name in insn.dependency_names()}


@dataclass
class _Log:
    removed: list[RemovedCheck] = field(default_factory=list)
    refuted: list[RefutedAccess] = field(default_factory=list)
    undecided: list[tuple[str, str]] = field(default_factory=list)


class _Place(NamedTuple):
    """What is known where an expression is computed.

    Attributes
    ----------
    inames: the loops around, those of reductions too.
    facts: conditions that hold there.
    context: the iterations of these loops under these facts.
    certain: every condition around is among the facts.
    """

    inames: frozenset[str]
    facts: tuple[Cond, ...]
    context: Context
    certain: bool

    def under(self, *conditions: Cond | None) -> _Place:
        known = tuple(cond for cond in conditions if cond is not None)
        context = self.context.extended(facts=known) if known else self.context
        return _Place(self.inames, self.facts + known, context, self.certain and len(known) == len(conditions))


class _Instruction(UncachedIdentityMapper):  # type: ignore[misc]  # loopy's classes are untyped here
    """The expressions of one instruction without the checks that always hold; conditions and accesses go to the log."""

    def __init__(self, names: KernelNames, insn: Any, log: _Log) -> None:
        super().__init__()
        self.names, self.kernel, self.insn, self.log = names, names.kernel, insn, log
        self.expanding = 0
        self.scalars = self._scalars()
        self.convert = importer(self.scalars, self._array)
        self.known = {*self.scalars.values()}

    def checked(self) -> Any:
        """The instruction without these checks."""
        inames = frozenset(self.insn.within_inames)
        place = outside = _Place(inames, (), self.names.context(inames), True)
        if len(self.insn.predicates) > 1:  # a set: each may be tested first
            outside = outside._replace(certain=False)
        predicates = []
        for predicate in sorted(self.insn.predicates, key=str):
            test = self.rec(predicate, outside)
            kept, place, value = self._conjuncts(test, place)
            if value is None:
                predicates.append(_all_of(kept, test))
            elif not value:
                predicates.append(test)
        bare = self.insn.copy(predicates=frozenset())
        rewritten = bare.with_transformed_expressions(lambda e: self.rec(e, place))
        return rewritten.copy(predicates=frozenset(predicates))

    # -- names ----------------------------------------------------------------------------------------------------

    def _scalars(self) -> dict[str, Var]:
        """Variables of inames, parameters and scalars of signed types; a scalar that changes gets a private axis."""
        changing = self.kernel.temporary_variables
        scalars = {name: var for name, var in self.names.variables.items() if name not in changing}
        for name, temporary in changing.items():
            if temporary.shape == () and _is_integer(temporary.dtype):
                kept = name in self.names.variables and not self._changes_inside(name)
                scalars[name] = self.names.variables[name] if kept else Var(name)
        return scalars

    def _changes_inside(self, name: str) -> bool:
        """Whether a scalar is written inside a loop whose bounds read it."""
        for iname in self.insn.within_inames | self.insn.reduction_inames():
            home = self.kernel.domains[self.kernel.get_home_domain_index(iname)]
            if name in home.get_var_names(islpy.dim_type.param):
                for writer in self.kernel.writer_map().get(name, ()):
                    if iname in self.kernel.id_to_insn[writer].within_inames:
                        return True
        return False

    def _array(self, name: str, rank: int) -> Opaque:
        kind: Any = getattr(self._described(name), "dtype", None)
        if not _is_integer(kind):
            raise InputError(f"the elements of {name} are no signed integers")
        limits = np.iinfo(kind.numpy_dtype)
        return Opaque(name, rank, int(limits.min), int(limits.max))

    def _described(self, name: str) -> Any:
        return self.kernel.arg_dict.get(name) or self.kernel.temporary_variables.get(name)

    def _read(self, term: object) -> Expr | Cond | None:
        """A term in variables; `None` if some part has no integer form."""
        try:
            found = self.convert(term)
        except InputError:
            return None
        assert isinstance(found, (Expr, Cond))
        return found if {*found.free_vars()} <= self.known else None

    # -- conditions -----------------------------------------------------------------------------------------------

    def _conjuncts(self, condition: Any, place: _Place) -> tuple[list[Any], _Place, bool | None]:
        """The unproved conjuncts, the place that assumes all conjuncts, and the decided value or `None`."""
        kept: list[Any] = []
        for part in _conjuncts_of(condition):
            found = self._read(part)
            holds = found.ne(0) if isinstance(found, Expr) else found
            if holds is not None and place.context.prove(holds):
                self._note(part, True)
                continue
            kept.append(part)
            if holds is not None and place.context.prove(~holds):
                return kept, place.under(holds), False
            place = place.under(holds)
        return kept, place, None if kept else True

    def _note(self, condition: Any, holds: bool) -> None:
        if not self.expanding:
            self.log.removed.append(RemovedCheck(str(self.insn.id), str(condition), holds))

    def map_if(self, expr: Any, place: _Place) -> Any:
        condition = self.rec(expr.condition, place)
        kept, inside, value = self._conjuncts(condition, place)
        if value is False:
            self._note(expr.condition, False)
        if value is not None:
            return self.rec(expr.then, inside) if value else self.rec(expr.else_, place)
        found = [self._read(part) for part in kept]
        parts = [part.ne(0) if isinstance(part, Expr) else part for part in found]
        known = [part for part in parts if part is not None]
        outside = place.under(~logical_and(*known) if len(known) == len(parts) else None)
        return type(expr)(_all_of(kept, condition), self.rec(expr.then, inside), self.rec(expr.else_, outside))

    # -- loops inside an expression -------------------------------------------------------------------------------

    def _inside(self, inames: Iterable[str], place: _Place) -> _Place:
        around = place.inames | frozenset(inames)
        context = self.names.context(around)
        return _Place(around, place.facts, context.extended(facts=place.facts), place.certain)

    def map_reduction(self, expr: Any, place: _Place) -> Any:
        return super().map_reduction(expr, self._inside(expr.inames, place))

    def map_sub_array_ref(self, expr: Any, place: _Place) -> Any:
        return super().map_sub_array_ref(expr, self._inside((iname.name for iname in expr.swept_inames), place))

    def map_call(self, expr: Any, place: _Place) -> Any:
        """A call; a substitution rule's body is checked at its uses and is not changed."""
        rule = self.kernel.substitutions.get(getattr(expr.function, "name", None))
        if rule is not None:
            arguments = dict(zip(rule.arguments, expr.parameters, strict=True))
            self.expanding += 1
            self.rec(SubstitutionMapper(make_subst_func(arguments))(rule.expression), place)
            self.expanding -= 1
        return super().map_call(expr, place)

    # -- accesses -------------------------------------------------------------------------------------------------

    def map_subscript(self, expr: Any, place: _Place) -> Any:
        shape = _shape(self._described(getattr(expr.aggregate, "name", "")))
        if shape and len(shape) == len(expr.index_tuple):
            for axis, (index, extent) in enumerate(zip(expr.index_tuple, shape, strict=True)):
                if extent is not None:
                    self._access(expr, axis, self._read(index), self._read(extent), place)
        return super().map_subscript(expr, place)

    def _access(
        self, expr: Any, axis: int, index: Expr | Cond | None, extent: Expr | Cond | None, place: _Place
    ) -> None:
        instruction, text = str(self.insn.id), str(expr)
        if isinstance(index, Expr) and isinstance(extent, Expr):
            proof = place.context.prove((index >= 0) & (index < extent))
            if proof:
                return
            written = self.kernel.temporary_variables  # other names are inames and parameters
            names = {var: name for name, var in self.names.variables.items() if name not in written}
            point = proof.counterexample
            if point is not None and place.certain and point.keys() <= names.keys():
                at = {names[var]: value for var, value in point.items() if isinstance(var, Var)}
                self.log.refuted.append(RefutedAccess(instruction, text, axis, dict(sorted(at.items()))))
                return
        self.log.undecided.append((instruction, text))


def _all_of(kept: Sequence[Any], condition: Any) -> Any:
    """The conjunction of the kept conjuncts. The order stays: earlier conjuncts guard accesses of later ones."""
    if len(kept) == len(_conjuncts_of(condition)):
        return condition
    return kept[0] if len(kept) == 1 else p.LogicalAnd(tuple(kept))


def _conjuncts_of(condition: Any) -> list[Any]:
    """The parts of nested conjunctions, in order."""
    if not isinstance(condition, p.LogicalAnd):
        return [condition]
    return [part for child in condition.children for part in _conjuncts_of(child)]


def _is_integer(kind: Any) -> bool:
    return isinstance(kind, NumpyType) and kind.numpy_dtype.kind == "i"


def _shape(array: Any) -> tuple[Any, ...]:
    shape = getattr(array, "shape", None)
    return shape if isinstance(shape, tuple) else ()


__all__ = ["CheckedKernels", "KernelNames", "RefutedAccess", "RemovedCheck", "domain", "remove_checks"]
