"""isl's C interface through ctypes, in islpy's library: classes and methods under islpy's names.

islpy's own methods take about the same time, but leak a wrapper for each argument that isl takes ownership of: 40 bytes
for an intersection (2026.2). The wheels of islpy, for Linux and macOS, show isl's functions.

Guarantee: no leak, also under interrupts. ctypes copies an argument that isl takes ownership of during conversion, and
isl's own function frees an object; neither runs a line of Python. Calls hold the interpreter lock.

Contexts are never freed but reused after the end of their thread, so an object may outlive its thread.

The table at the end declares the part of isl's C interface that this domain uses. A line is a class, its methods of one
signature, their arguments and result. The C function is called `isl_class_method` unless the line says otherwise. `+`
marks an argument of which the function takes ownership; the first argument of a method is the object itself. `!N` marks
a method that a limit should not end: isl meets a limit as a failed allocation, and an error path of this method uses
what failed, which ends the process. It may take N thousand operations beyond the limit and is charged afterwards: more
for what is short as a rule, fewer for integer programs.

result     at a failure
-------    ------------
a class    a null pointer
truth      -1
size       -1
int        never: every number is an answer
number     a null pointer; an `int` where it is an integer, else a `Val`
void       never
text       a null pointer; a text to be freed
name       never: a null pointer is an answer, too; the text belongs to the object

Evidence for `!`, in isl 0.27 to 0.28, from forked children that fail one allocation after another:

function              where the process ended
--------------------  ------------------------------------------------------------------------------------
compute_divs          often, in `isl_basic_map_drop_redundant_divs`: an inequality of a copy that failed
gist_params           often, in `isl_tab_detect_implicit_equalities`: a tableau that could not grow
get_stride            34 times within longer computations, never alone
union_add, lexmin     once each within longer computations, never alone
coalesce, gist        not seen: they run the code of `compute_divs` and `gist_params`
dim_max               once in some 40 drawn sets, 50,000 operations beyond a limit
lexmax, dim_min       not seen: they run the code of `lexmin`
to_str                printing; all texts are printed without a limit

`tests/intset/domains/test_isl_bindings.py` looks for others.
"""

import ctypes
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_char_p, c_int, c_long, c_void_p, py_object
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias

from intset.errors import BudgetError
from intset.expr.printer import number_of

_TABLE = """
Context set_max_operations (Context long) -> void
Context reset_operations (Context) -> void
Context set_on_error (Context int) -> void = isl_options_set_on_error

Val int_from_si (Context long) -> Val
Val add mul (+Val +Val) -> Val
Val neg (+Val) -> Val
Val is_int (Val) -> truth
Val to_str (Val) -> text

Space set_alloc (Context int int) -> Space
Space dim (Space int) -> size
Space get_dim_name (Space int int) -> name
Space set_dim_name (+Space int int text) -> Space
Space params set_from_params (+Space) -> Space
Space drop_dims (+Space int int int) -> Space
Space add_dims (+Space int int) -> Space
Space to_str (Space) -> text

LocalSpace from_space (+Space) -> LocalSpace
LocalSpace get_div (LocalSpace int) -> Aff

Constraint alloc_equality alloc_inequality (+LocalSpace) -> Constraint
Constraint dim (Constraint int) -> size
Constraint set_constant_val (+Constraint +Val) -> Constraint
Constraint set_coefficient_val (+Constraint int int +Val) -> Constraint
Constraint get_constant_val (Constraint) -> number
Constraint get_coefficient_val (Constraint int int) -> number
Constraint involves_dims (Constraint int int int) -> truth
Constraint is_div_constraint is_equality (Constraint) -> truth

Mat get_element_val (Mat int int) -> number
Mat rows (Mat) -> size

ConstraintList size (ConstraintList) -> size
ConstraintList get_at (ConstraintList int) -> Constraint

Point get_coordinate_val (Point int int) -> number
Point get_space (Point) -> Space
Point is_void (Point) -> truth
Point to_str (Point) -> text

BasicSet universe (+Space) -> BasicSet
BasicSet add_constraint (+BasicSet +Constraint) -> BasicSet
BasicSet affine_hull remove_redundancies (+BasicSet) -> BasicSet
BasicSet dim (BasicSet int) -> size
BasicSet equalities_matrix (BasicSet int int int int) -> Mat
BasicSet get_constraint_list (BasicSet) -> ConstraintList
BasicSet get_div (BasicSet int) -> Aff
BasicSet get_local_space (BasicSet) -> LocalSpace
BasicSet get_space (BasicSet) -> Space
BasicSet is_empty is_params plain_is_empty (BasicSet) -> truth
BasicSet n_constraint (BasicSet) -> size
BasicSet to_set (+BasicSet) -> Set
BasicSet to_str (BasicSet) -> text

BasicSetList size (BasicSetList) -> size
BasicSetList get_at (BasicSetList int) -> BasicSet

Set empty universe (+Space) -> Set
Set from_basic_set (+BasicSet) -> Set
Set from_params align_divs complement drop_unused_params make_disjoint params (+Set) -> Set
Set coalesce!1000 compute_divs!50 lexmax!50 lexmin!50 (+Set) -> Set
Set from_point (+Point) -> Set
Set from_pw_aff (+PwAff) -> Set
Set read_from_str (Context text) -> Set
Set add_constraint (+Set +Constraint) -> Set
Set add_dims (+Set int int) -> Set
Set align_params reset_space (+Set +Space) -> Set
Set apply (+Set +Map) -> Set
Set count_val (Set) -> number
Set dim (Set int) -> size
Set dim_has_lower_bound dim_has_upper_bound dim_is_bounded (Set int int) -> truth
Set dim_max!200 dim_min!200 (+Set int) -> PwAff
Set dim_max_val dim_min_val (+Set int) -> number
Set equate (+Set int int int int) -> Set
Set find_dim_by_name (Set int text) -> int
Set fix_val (+Set int int +Val) -> Set
Set flat_product gist!1000 gist_params!1000 intersect intersect_params subtract union (+Set +Set) -> Set
Set foreach_point (Set points) -> void
Set get_basic_set_list (Set) -> BasicSetList
Set get_dim_name (Set int int) -> name
Set get_space (Set) -> Space
Set get_stride!1000 (Set int) -> number
Set insert_dims project_out (+Set int int int) -> Set
Set involves_dims (Set int int int) -> truth
Set involves_locals is_bounded is_empty is_params (Set) -> truth
Set is_disjoint is_equal is_subset (Set Set) -> truth
Set lex_lt_set (+Set +Set) -> Map
Set lower_bound_val (+Set int int +Val) -> Set
Set move_dims (+Set int int int int int) -> Set
Set n_basic_set (Set) -> size
Set plain_get_val_if_fixed (Set int int) -> number
Set sample_point (+Set) -> Point
Set set_dim_name (+Set int int text) -> Set
Set simple_hull (+Set) -> BasicSet
Set to_str (Set) -> text
Set upper_bound_val (+Set int int +Val) -> Set

Map from_aff (+Aff) -> Map
Map from_pw_aff (+PwAff) -> Map
Map from_range (+Set) -> Map
Map read_from_str (Context text) -> Map
Map flat_range_product (+Map +Map) -> Map
Map intersect_domain (+Map +Set) -> Map
Map from_pw_multi_aff (+PwMultiAff) -> Map
Map is_empty is_single_valued (Map) -> truth
Map is_equal (Map Map) -> truth
Map move_dims (+Map int int int int int) -> Map
Map range (+Map) -> Set
Map to_str (Map) -> text

Aff val_on_domain (+LocalSpace +Val) -> Aff
Aff var_on_domain (+LocalSpace int int) -> Aff
Aff zero_on_domain (+LocalSpace) -> Aff
Aff add (+Aff +Aff) -> Aff
Aff add_constant_val (+Aff +Val) -> Aff
Aff dim (Aff int) -> size
Aff eq_set ge_set gt_set le_set (+Aff +Aff) -> Set
Aff floor neg (+Aff) -> Aff
Aff get_coefficient_val (Aff int int) -> number
Aff get_constant_val get_denominator_val (Aff) -> number
Aff get_div (Aff int) -> Aff
Aff gist!1000 gist_params!1000 (+Aff +Set) -> Aff
Aff is_cst is_nan (Aff) -> truth
Aff mod_val scale_val (+Aff +Val) -> Aff
Aff scale_down_val (+Aff +Val) -> Aff
Aff set_coefficient_val (+Aff int int +Val) -> Aff
Aff set_constant_val (+Aff +Val) -> Aff
Aff to_str (Aff) -> text
Aff zero_basic_set (+Aff) -> BasicSet

PwAff alloc (+Set +Aff) -> PwAff
PwAff empty (+Space) -> PwAff
PwAff from_aff (+Aff) -> PwAff
PwAff read_from_str (Context text) -> PwAff
PwAff add max min sub tdiv_q union_add!1000 (+PwAff +PwAff) -> PwAff
PwAff add_constant_val mod_val scale_down_val scale_val (+PwAff +Val) -> PwAff
PwAff coalesce!1000 floor neg (+PwAff) -> PwAff
PwAff eq_set ge_set le_set ne_set (+PwAff +PwAff) -> Set
PwAff foreach_piece (PwAff pieces) -> void
PwAff get_space (PwAff) -> Space
PwAff gist!1000 gist_params!1000 intersect_domain (+PwAff +Set) -> PwAff
PwAff insert_domain (+PwAff +Space) -> PwAff
PwAff nonneg_set zero_set (+PwAff) -> Set
PwAff to_str (PwAff) -> text

MultiAff get_aff (MultiAff int) -> Aff
MultiAff to_str (MultiAff) -> text

PwMultiAff from_map (+Map) -> PwMultiAff
PwMultiAff coalesce!1000 (+PwMultiAff) -> PwMultiAff
PwMultiAff foreach_piece (PwMultiAff multi_pieces) -> void
PwMultiAff to_str (PwMultiAff) -> text
"""


class Argument(NamedTuple):
    """An argument: its kind, and whether the function takes ownership."""

    kind: str
    is_taken: bool


class Signature(NamedTuple):
    """One line of the table."""

    of: str
    method: str
    arguments: tuple[Argument, ...]
    result: str
    function: str
    beyond: int  # operations that it may take beyond the limit

    @property
    def is_method(self) -> bool:
        """Whether the first argument is an object of the class."""
        return self.arguments[0].kind == self.of


def c_name(of: str) -> str:
    """The common prefix of a class's C functions: `isl_basic_set` for `BasicSet`."""
    if of == "Context":
        return "isl_ctx"
    return "isl" + "".join(f"_{c.lower()}" if c.isupper() else c for c in of)


def signatures() -> Iterator[Signature]:
    """Parse the table."""
    for line in filter(None, _TABLE.splitlines()):
        head, _, tail = line.partition(") -> ")
        (of, *methods), arguments = (part.split() for part in head.split("("))
        result, _, named = tail.partition(" = ")
        given = tuple(Argument(word.lstrip("+"), word.startswith("+")) for word in arguments)
        for method, _, thousands in (marked.partition("!") for marked in methods):
            function = named or f"{c_name(of)}_{method}"
            yield Signature(of, method, given, result, function, 1000 * int(thousands or 0))


_KINDS: Final[Any] = (0, 1, 2, 3, 3, 4)
CST, PARAM, IN, OUT, SET, DIV = _KINDS  # of dimensions; islpy takes them as numbers, too
LONG = 1 << 63
# Callback of one or two objects and an unused user pointer; 0, a null pointer, is success.
MEETS: Final = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_void_p)


class Error(Exception):
    """isl refused an operation."""


Failure: TypeAlias = Callable[[Sequence[Any]], Error]  # from the arguments of the call
Method: TypeAlias = Callable[..., Any]


def bound(function: Any) -> Any:
    """A C function as a method that runs no Python."""
    make = ctypes.pythonapi.PyInstanceMethod_New
    make.restype, make.argtypes = py_object, (py_object,)
    return make(function)


def objects(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> Any:
        made = call(*given)
        if made:
            return made
        raise failure(given)

    return method


def objects_of_numbers(call: Any, with_int: Any, failure: Failure) -> Method:
    """A method whose last argument is an isl value or an `int` of 64 bits."""

    def method(*given: Any) -> Any:
        made = (with_int if type(given[-1]) is int else call)(*given)
        if made:
            return made
        raise failure(given)

    return method


def truths(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> bool:
        found: int = call(*given)
        if found >= 0:
            return found > 0
        raise failure(given)

    return method


def sizes(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> int:
        found: int = call(*given)
        if found >= 0:
            return found
        raise failure(given)

    return method


def texts(call: Any, failure: Failure) -> Method:
    def method(*given: Any) -> str:
        text = call(*given)
        if text:
            return ctypes.string_at(text).decode()
        raise failure(given)

    return method


def names(call: Any, _: Failure) -> Method:
    def method(*given: Any) -> str | None:
        name: bytes | None = call(*given)
        return None if name is None else name.decode()

    return method


def visiting(call: Any, kinds: Sequence[Any], failure: Failure) -> Method:
    """A method that collects all visited objects first and then calls back, so that the callback may raise.

    A method of `dict` collects them, because isl would swallow an interrupt in a Python callback. Keys are distinct:
    each object has a pointer of its own; the first of a pair is the domain of a piece, and domains are disjoint.
    """

    def method(visited: Any, visit: Callable[..., object]) -> None:
        found: dict[int, int | None] = {}
        done = call(visited, MEETS(found.setdefault if len(kinds) == 1 else found.__setitem__), None)
        met = [[kind(part) for kind, part in zip(kinds, pair, strict=False)] for pair in found.items()]
        if done < 0:
            raise failure((visited,))
        for parts in met:
            visit(*parts)

    return method


def elements(listed: Callable[[Any], Any]) -> Method:
    """A method that returns the elements of an isl list."""

    def method(whole: Any) -> list[Any]:
        found = listed(whole)
        return [found.get_at(k) for k in range(found.size())]

    return method


# The fastest conversions of ctypes; a `long` has the size of a pointer wherever islpy shows these functions.
_INDEX: Final = SimpleNamespace(from_param=operator.index)  # ctypes passes a bare number as an `int`
_PLAIN: Final[dict[str, Any]] = {"int": _INDEX, "long": c_void_p, "text": SimpleNamespace(from_param=str.encode)}
_MET: Final = {"points": ("Point",), "pieces": ("Set", "Aff"), "multi_pieces": ("Set", "MultiAff")}
_ANSWERS: Final[dict[str, tuple[Any, Callable[..., Any]]]] = {
    "truth": (c_int, truths),
    "size": (c_int, sizes),
    "name": (c_char_p, names),
    "int": (c_int, lambda call, _: bound(call)),
    "void": (None, lambda call, _: bound(call)),
}
_MADE: Final[list[SimpleNamespace]] = []
_MAKING: Final = threading.Lock()
_IDLE: Final[list[int | None]] = []  # contexts of threads that ended


class _Given(c_void_p):
    """An argument owned by the callee; never freed here."""

    __slots__ = ()


class Handle(c_void_p):
    """An isl object; base of the classes built from the table of signatures."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = self.to_str()  # type: ignore[attr-defined]  # of the table
        return text


@cache
def isl() -> Any:
    """The classes under islpy's names; built once.

    Raises
    ------
    BudgetError: islpy is not installed, or its library does not show isl's functions.
    """
    with _MAKING:
        if not _MADE:
            _MADE.append(_made())
        return _MADE[0]


def _made() -> SimpleNamespace:
    try:
        maker = _Maker(shared_object())
    except (AttributeError, OSError) as error:
        raise BudgetError(f"islpy cannot be imported: {error}") from None
    return SimpleNamespace(
        **maker.classes,
        Error=Error,
        duplicate=maker.duplicate,
        ordered=maker.ordered,
        works=maker.works,
        name=maker.name,
        without_blocks=maker.without_blocks,
        dim_type=SimpleNamespace(cst=CST, param=PARAM, in_=IN, out=OUT, set=SET, div=DIV),
        on_error=SimpleNamespace(CONTINUE=1),
    )


def shared_object() -> ctypes.PyDLL:
    """The library that contains isl; raises `OSError` without it."""
    spec = find_spec("islpy")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for suffix in EXTENSION_SUFFIXES:
            path = Path(folder, f"_isl{suffix}")
            if path.exists():
                return ctypes.PyDLL(str(path))
    raise OSError("its library is not found")


class _Maker:
    """Builds the classes, with the methods of the table."""

    def __init__(self, found: ctypes.PyDLL) -> None:
        self._library = found
        self._message = self._function("isl_ctx_last_error_msg", c_char_p, c_void_p)
        self._reset = self._function("isl_ctx_reset_error", None, c_void_p)
        self._value = self._function("isl_val_int_from_si", _Given, c_void_p, c_void_p)
        # Of bare pointers to isl values.
        self._is_int = self._function("isl_val_is_int", c_int, c_void_p)
        self._is_zero = self._function("isl_val_is_zero", c_int, c_void_p)
        self._numerator = self._function("isl_val_get_num_si", c_long, c_void_p)  # 0, too, beyond 64 bits
        self._free = self._function("isl_val_free", None, c_void_p)
        self._next = self._function("isl_ctx_next_operation", c_int, c_void_p)
        # The largest number of operations of a context; 0 for none.
        self._limit_of = self._function("isl_ctx_get_max_operations", c_void_p, c_void_p)
        self._set_limit = self._function("isl_ctx_set_max_operations", None, c_void_p, c_void_p)
        # isl caches memory blocks, and counts each allocation as an operation.
        self.without_blocks = self._function("isl_blk_clear_cache", None, c_void_p)
        self._name = self._function("isl_id_alloc", c_void_p, c_void_p, c_char_p, c_void_p)
        self._id = self._class("Id", "isl_id_free", (Handle,))
        lists = "isl_basic_set_list_"
        self._listed = self._function("isl_set_get_basic_set_list", c_void_p, c_void_p)
        self._length = self._function(f"{lists}size", c_int, c_void_p)
        self._element = self._function(f"{lists}get_at", c_void_p, c_void_p, _INDEX)
        self._own = self._function("isl_basic_set_dup", c_void_p, c_void_p)
        self._drop = self._function("isl_basic_set_free", None, c_void_p)
        # Not in isl's public interface; `remove_redundancies` sorts, too.
        sort = "sort_constraints" if hasattr(found, "isl_basic_set_sort_constraints") else "remove_redundancies"
        self._sort = self._function(f"isl_basic_set_{sort}", c_void_p, c_void_p)
        self._put = self._function(f"{lists}set_at", c_void_p, c_void_p, _INDEX, c_void_p)
        self._copy = self._function("isl_set_copy", c_void_p, c_void_p)
        self._united = self._function(f"{lists}union", c_void_p, c_void_p)
        self._text = self._class("Text", "free", (c_void_p,))
        table = list(signatures())
        self.classes: dict[str, Any] = {"Context": self._context_class()}
        for name in dict.fromkeys(line.of for line in table if line.of not in self.classes):
            self.classes[name] = self._class(name, f"{c_name(name)}_free", (Handle,))
        self._contexts = {name: self._finds_context(name) for name in self.classes}
        objects = [(name, kind) for name, kind in self.classes.items() if name != "Context"]
        # The conversion of an argument copies it if the function takes ownership.
        self._taken = {
            name: SimpleNamespace(from_param=self._function(f"{c_name(name)}_copy", _Given, kind))
            for name, kind in objects
        }
        for line in table:
            method = self._method(line)
            setattr(self.classes[line.of], line.method, method if line.is_method else staticmethod(method))
        self.classes["Set"].get_basic_sets = elements(self.classes["Set"].get_basic_set_list)
        self.classes["BasicSet"].get_constraints = elements(self.classes["BasicSet"].get_constraint_list)

    # -- classes ------------------------------------------------------------------------------------------------

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        function = self._library[name]
        function.restype, function.argtypes = result, arguments
        return function

    def _class(self, name: str, free: str, bases: tuple[type, ...]) -> Any:
        """A class of pointers that a C function frees."""
        return type(name, bases, {"__slots__": (), "__del__": bound(self._function(free, None, c_void_p))})

    def _context_class(self) -> type[c_void_p]:
        make = self._function("isl_ctx_alloc", c_void_p)
        begins = [self._function("isl_ctx_reset_operations", None, c_void_p), self._reset]
        set_limit = self._set_limit

        class ContextPointer(c_void_p):
            """The isl context shared by the objects of one thread."""

            __slots__ = ()

            def __init__(self) -> None:
                try:
                    self.value = _IDLE.pop()
                except IndexError:
                    self.value = make()
                set_limit(self, 0)
                for begin in begins:
                    begin(self)

            def __del__(self) -> None:
                _IDLE.append(self.value)

        return ContextPointer

    def _finds_context(self, name: str) -> Callable[[Any], Any]:
        if name == "Context":
            return operator.attrgetter("value")
        found: Callable[[Any], Any] = self._function(f"{c_name(name)}_get_ctx", c_void_p, self.classes[name])
        return found

    # -- functions ----------------------------------------------------------------------------------------------

    def _argument(self, argument: Argument) -> Any:
        if argument.kind in _PLAIN:
            return _PLAIN[argument.kind]
        return (self._taken if argument.is_taken else self.classes)[argument.kind]

    def _failed(self, function: str, context: Any) -> Error:
        message = self._message(context)
        self._reset(context)
        return Error(f"{function} failed" + (f": {message.decode()}" if message else ""))

    def _method(self, line: Signature) -> Any:
        context_of = self._contexts[line.arguments[0].kind]

        def failure(given: Any) -> Error:
            return self._failed(line.function, context_of(given[0]))

        method = self._plain_method(line, context_of, failure)
        if line.beyond or line.result == "text":  # isl can abort when it meets the limit while printing
            return self._beyond_limit(method, line.beyond, context_of, failure)
        return method

    def _beyond_limit(
        self, method: Method, operations: int, context_of: Callable[[Any], Any], failure: Failure
    ) -> Method:
        """A method that may take `operations` beyond the limit, which the next call then meets; with 0, any number."""

        def limited(*given: Any) -> Any:
            context = context_of(given[0])
            limit = self._limit_of(context) or 0
            if operations and limit and not self.works(context):
                raise failure(given)
            self._set_limit(context, limit + operations if operations and limit else 0)
            try:
                return method(*given)
            finally:
                self._set_limit(context, limit)

        return limited

    def _plain_method(self, line: Signature, context_of: Callable[[Any], Any], failure: Failure) -> Any:
        *others, last = line.arguments
        if last.kind in _MET:
            visit = self._function(line.function, c_int, *map(self._argument, others), MEETS, c_void_p)
            return visiting(visit, [self.classes[part] for part in _MET[last.kind]], failure)
        arguments = [self._argument(argument) for argument in line.arguments]
        if line.result in _ANSWERS:
            result, answer = _ANSWERS[line.result]
            return answer(self._function(line.function, result, *arguments), failure)
        if line.result == "text":
            return texts(self._function(line.function, self._text, *arguments), failure)
        if line.result == "number":
            call = self._function(line.function, c_void_p, *arguments)
            return self._numbers(call, failure)
        made = self.classes[line.result]
        call = self._function(line.function, made, *arguments)
        if last != ("Val", True) or not others:
            return objects(call, failure)
        owning = self._function(line.function, made, *arguments[:-1], _Given)

        def with_int(*given: Any) -> Any:
            number = given[-1]
            if not -LONG <= number < LONG:
                raise OverflowError(f"a number of {number.bit_length()} bits")
            return owning(*given[:-1], self._value(context_of(given[0]), number))

        return objects_of_numbers(call, with_int, failure)

    def _numbers(self, call: Any, failure: Failure) -> Method:
        """A method that returns an `int` for an integral value, else the isl value."""

        def method(*given: Any) -> Any:
            pointer = call(*given)
            if not pointer:
                raise failure(given)
            found = self._numerator(pointer)
            if (self._is_int if found else self._is_zero)(pointer) == 1:
                self._free(pointer)
                return found
            value = self.classes["Val"](pointer)
            return number_of(value.to_str()) if value.is_int() else value

        return method

    def duplicate(self, points: Any) -> Any:
        """A deep copy of a set; isl's functions may rewrite shared disjuncts in place."""
        return self._copied(points, self._own)

    def ordered(self, points: Any) -> Any:
        """A deep copy of a set, with the constraints of each disjunct in isl's order.

        Before a lexicographic optimum, isl looks for coordinates that are remainders or quotients
        (`isl_basic_map_try_find_any_output_div_mod`, since isl 0.27) and assumes sorted constraints. isl sorts parsed
        sets, but not computed ones. In unsorted constraints it pairs bounds of different coordinates, and the optimum
        is wrong.
        """
        return self._copied(points, lambda shared: self._sort(self._own(shared)))

    def _copied(self, points: Any, copy: Callable[[Any], Any]) -> Any:
        """Copy a set disjunct by disjunct."""
        listed = self._listed(points)
        for k in range(self._length(listed)):
            shared = self._element(listed, k)
            listed = self._put(listed, k, copy(shared))
            self._drop(shared)
        pointer = self._united(listed) if self._length(listed) else self._copy(points)
        if pointer:
            return type(points)(pointer)
        raise self._failed("isl_basic_set_dup", self._contexts["Set"](points))

    def works(self, context: Any) -> bool:
        """Whether isl still computes, at the cost of one operation."""
        if self._next(context) >= 0:
            return True
        self._reset(context)
        return False

    def name(self, context: Any, text: str) -> Any:
        """Intern a name: the isl id for a text."""
        return self._id(self._name(context, text.encode(), None))
