"""The part of isl's C interface that this domain uses, under the names that islpy gives it.

A line is a class, a method, the arguments and the result. Its C function is called `isl_class_method` unless the line
says otherwise. `+` marks an argument of which the function takes ownership; the first argument of a method is the
object itself.
`!N` marks a method that a limit should not end: isl meets a limit as a failed allocation, and an error path of this
method uses what failed, which ends the process. It may take N thousand operations beyond the limit and is charged
afterwards: more for what is short as a rule, fewer for integer programs.
After `|`: the C function with the same effect for a last argument that fits a C `int`; divisors are positive.

result     at a failure
-------    ------------
a class    a null pointer
truth      -1
size       -1
int, long  never: every number is an answer
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

`tests/intset/domains/test_isl_limits.py` looks for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

_TABLE = """
Context set_max_operations Context long -> void
Context reset_operations Context -> void
Context set_on_error Context int -> void = isl_options_set_on_error

Val int_from_si Context long -> Val
Val add +Val +Val -> Val
Val mul +Val +Val -> Val
Val neg +Val -> Val
Val gt Val Val -> truth
Val is_int Val -> truth
Val is_nan Val -> truth
Val is_one Val -> truth
Val is_zero Val -> truth
Val get_num_si Val -> long
Val to_str Val -> text

Space set_alloc Context int int -> Space
Space dim Space int -> size
Space get_dim_name Space int int -> name
Space set_dim_name +Space int int text -> Space
Space params +Space -> Space
Space drop_dims +Space int int int -> Space
Space add_dims +Space int int -> Space
Space set_from_params +Space -> Space
Space to_str Space -> text

LocalSpace from_space +Space -> LocalSpace
LocalSpace get_div LocalSpace int -> Aff

Constraint alloc_equality +LocalSpace -> Constraint
Constraint alloc_inequality +LocalSpace -> Constraint
Constraint dim Constraint int -> size
Constraint set_constant_val +Constraint +Val -> Constraint | set_constant_si
Constraint set_coefficient_val +Constraint int int +Val -> Constraint | set_coefficient_si
Constraint get_constant_val Constraint -> number
Constraint get_coefficient_val Constraint int int -> number
Constraint involves_dims Constraint int int int -> truth
Constraint is_div_constraint Constraint -> truth
Constraint is_equality Constraint -> truth

Mat get_element_val Mat int int -> number
Mat rows Mat -> size

ConstraintList size ConstraintList -> size
ConstraintList get_at ConstraintList int -> Constraint

Point get_coordinate_val Point int int -> number
Point get_space Point -> Space
Point is_void Point -> truth
Point to_str Point -> text

BasicSet universe +Space -> BasicSet
BasicSet add_constraint +BasicSet +Constraint -> BasicSet
BasicSet affine_hull +BasicSet -> BasicSet
BasicSet dim BasicSet int -> size
BasicSet equalities_matrix BasicSet int int int int -> Mat
BasicSet get_constraint_list BasicSet -> ConstraintList
BasicSet get_div BasicSet int -> Aff
BasicSet get_local_space BasicSet -> LocalSpace
BasicSet get_space BasicSet -> Space
BasicSet is_empty BasicSet -> truth
BasicSet is_params BasicSet -> truth
BasicSet n_constraint BasicSet -> size
BasicSet plain_is_empty BasicSet -> truth
BasicSet remove_redundancies +BasicSet -> BasicSet
BasicSet to_set +BasicSet -> Set
BasicSet to_str BasicSet -> text

BasicSetList size BasicSetList -> size
BasicSetList get_at BasicSetList int -> BasicSet

Set empty +Space -> Set
Set from_basic_set +BasicSet -> Set
Set from_params +Set -> Set
Set from_point +Point -> Set
Set from_pw_aff +PwAff -> Set
Set read_from_str Context text -> Set
Set universe +Space -> Set
Set add_constraint +Set +Constraint -> Set
Set add_dims +Set int int -> Set
Set align_divs +Set -> Set
Set align_params +Set +Space -> Set
Set apply +Set +Map -> Set
Set coalesce!1000 +Set -> Set
Set complement +Set -> Set
Set compute_divs!50 +Set -> Set
Set count_val Set -> number
Set dim Set int -> size
Set dim_has_lower_bound Set int int -> truth
Set dim_has_upper_bound Set int int -> truth
Set dim_is_bounded Set int int -> truth
Set dim_max!200 +Set int -> PwAff
Set dim_max_val +Set int -> number
Set dim_min!200 +Set int -> PwAff
Set dim_min_val +Set int -> number
Set drop_unused_params +Set -> Set
Set equate +Set int int int int -> Set
Set find_dim_by_name Set int text -> int
Set fix_val +Set int int +Val -> Set | fix_si
Set flat_product +Set +Set -> Set
Set foreach_point Set points -> void
Set get_basic_set_list Set -> BasicSetList
Set get_dim_name Set int int -> name
Set get_space Set -> Space
Set get_stride!1000 Set int -> number
Set gist!1000 +Set +Set -> Set
Set gist_params!1000 +Set +Set -> Set
Set insert_dims +Set int int int -> Set
Set intersect +Set +Set -> Set
Set intersect_params +Set +Set -> Set
Set involves_dims Set int int int -> truth
Set involves_locals Set -> truth
Set is_bounded Set -> truth
Set is_disjoint Set Set -> truth
Set is_empty Set -> truth
Set is_equal Set Set -> truth
Set is_params Set -> truth
Set is_subset Set Set -> truth
Set lex_lt_set +Set +Set -> Map
Set lexmax!50 +Set -> Set
Set lexmin!50 +Set -> Set
Set lower_bound_val +Set int int +Val -> Set | lower_bound_si
Set make_disjoint +Set -> Set
Set move_dims +Set int int int int int -> Set
Set n_basic_set Set -> size
Set params +Set -> Set
Set plain_get_val_if_fixed Set int int -> number
Set project_out +Set int int int -> Set
Set sample_point +Set -> Point
Set set_dim_name +Set int int text -> Set
Set reset_space +Set +Space -> Set
Set simple_hull +Set -> BasicSet
Set subtract +Set +Set -> Set
Set to_str Set -> text
Set union +Set +Set -> Set
Set upper_bound_val +Set int int +Val -> Set | upper_bound_si

Map from_aff +Aff -> Map
Map from_pw_aff +PwAff -> Map
Map from_range +Set -> Map
Map read_from_str Context text -> Map
Map flat_range_product +Map +Map -> Map
Map intersect_domain +Map +Set -> Map
Map from_pw_multi_aff +PwMultiAff -> Map
Map is_empty Map -> truth
Map is_equal Map Map -> truth
Map is_single_valued Map -> truth
Map move_dims +Map int int int int int -> Map
Map range +Map -> Set
Map to_str Map -> text

Aff val_on_domain +LocalSpace +Val -> Aff
Aff var_on_domain +LocalSpace int int -> Aff
Aff zero_on_domain +LocalSpace -> Aff
Aff add +Aff +Aff -> Aff
Aff add_constant_val +Aff +Val -> Aff | add_constant_si
Aff dim Aff int -> size
Aff eq_set +Aff +Aff -> Set
Aff floor +Aff -> Aff
Aff ge_set +Aff +Aff -> Set
Aff get_coefficient_val Aff int int -> number
Aff get_constant_val Aff -> number
Aff get_denominator_val Aff -> number
Aff get_div Aff int -> Aff
Aff gist!1000 +Aff +Set -> Aff
Aff gist_params!1000 +Aff +Set -> Aff
Aff gt_set +Aff +Aff -> Set
Aff is_cst Aff -> truth
Aff is_nan Aff -> truth
Aff le_set +Aff +Aff -> Set
Aff mod_val +Aff +Val -> Aff
Aff neg +Aff -> Aff
Aff scale_down_val +Aff +Val -> Aff | scale_down_ui
Aff scale_val +Aff +Val -> Aff
Aff set_coefficient_val +Aff int int +Val -> Aff | set_coefficient_si
Aff set_constant_val +Aff +Val -> Aff | set_constant_si
Aff to_str Aff -> text
Aff zero_basic_set +Aff -> BasicSet

PwAff alloc +Set +Aff -> PwAff
PwAff empty +Space -> PwAff
PwAff from_aff +Aff -> PwAff
PwAff read_from_str Context text -> PwAff
PwAff add +PwAff +PwAff -> PwAff
PwAff add_constant_val +PwAff +Val -> PwAff
PwAff as_aff +PwAff -> Aff
PwAff coalesce!1000 +PwAff -> PwAff
PwAff eq_set +PwAff +PwAff -> Set
PwAff floor +PwAff -> PwAff
PwAff foreach_piece PwAff pieces -> void
PwAff ge_set +PwAff +PwAff -> Set
PwAff get_space PwAff -> Space
PwAff gist!1000 +PwAff +Set -> PwAff
PwAff gist_params!1000 +PwAff +Set -> PwAff
PwAff insert_domain +PwAff +Space -> PwAff
PwAff intersect_domain +PwAff +Set -> PwAff
PwAff le_set +PwAff +PwAff -> Set
PwAff max +PwAff +PwAff -> PwAff
PwAff min +PwAff +PwAff -> PwAff
PwAff mod_val +PwAff +Val -> PwAff
PwAff ne_set +PwAff +PwAff -> Set
PwAff neg +PwAff -> PwAff
PwAff nonneg_set +PwAff -> Set
PwAff scale_down_val +PwAff +Val -> PwAff
PwAff scale_val +PwAff +Val -> PwAff
PwAff sub +PwAff +PwAff -> PwAff
PwAff tdiv_q +PwAff +PwAff -> PwAff
PwAff to_str PwAff -> text
PwAff union_add!1000 +PwAff +PwAff -> PwAff
PwAff zero_set +PwAff -> Set

MultiAff get_aff MultiAff int -> Aff
MultiAff to_str MultiAff -> text

PwMultiAff from_map +Map -> PwMultiAff
PwMultiAff coalesce!1000 +PwMultiAff -> PwMultiAff
PwMultiAff foreach_piece PwMultiAff multi_pieces -> void
PwMultiAff to_str PwMultiAff -> text
"""


class Limits(NamedTuple):
    """Access to the largest number of operations of the context of an object; 0 for none."""

    context_of: Callable[[Any], Any]
    read: Any
    write: Any


def beyond_limit(
    method: Callable[..., Any],
    operations: int,
    limits: Limits,
    works: Callable[[Any], bool],
    failure: Callable[[Sequence[Any]], Exception],
) -> Callable[..., Any]:
    """A method that may take `operations` beyond the limit; the next call then meets the limit."""

    def beyond(*given: Any) -> Any:
        context = limits.context_of(given[0])
        limit = limits.read(context)
        if not limit:
            return method(*given)
        if not works(context):
            raise failure(given)
        limits.write(context, limit + operations)
        try:
            return method(*given)
        finally:
            limits.write(context, limit)

    return beyond


class Reads(NamedTuple):
    """C functions of bare pointers to isl values."""

    is_int: Any
    is_zero: Any
    numerator: Any  # 0, too, where it does not fit 64 bits
    free: Any


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
    for_small: str | None
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
        head, _, tail = line.partition(" -> ")
        of, marked, *arguments = head.split()
        method, _, thousands = marked.partition("!")
        tail, _, named = tail.partition(" = ")
        result, _, small = tail.partition(" | ")
        given = tuple(Argument(word.lstrip("+"), word.startswith("+")) for word in arguments)
        for_small = f"{c_name(of)}_{small}" if small else None
        function = named or f"{c_name(of)}_{method}"
        yield Signature(of, method, given, result, function, for_small, 1000 * int(thousands or 0))
