"""C's vocabulary: types, constants, helper functions, and names that generated code must not take.

The reserved names are those of glibc's `math.h`, `stdbool.h`, `stdint.h`, `stdlib.h`, `stdio.h` and `time.h`, and the
macros that gcc defines outside of `-std=c99`. Names that begin with an underscore are not listed: no generated
identifier does.
"""

import re
from collections.abc import Iterable
from importlib import resources
from typing import Final

from bound import dtypes
from intset.errors import InputError
from lowering.allocation import ALIGNMENT


def _names(section: str) -> list[str]:
    """The names of a section of `c_names.txt`."""
    text = resources.files(__package__).joinpath("c_names.txt").read_text("utf-8")
    return text.partition(f"# {section}\n")[2].partition("#")[0].split()


# The preprocessor replaces macros everywhere, so no identifier may be one of them.
MACROS: Final = _names("macros")

# A local variable may hide these functions and types; the file may not declare them again.
FILE_SCOPE: Final = _names("functions and types")

# Functions that gcc knows without a header: a declaration with other parameters is an error under -Werror.
BUILT_IN: Final = _names("built in")

TYPES: Final = {
    "bool": "bool",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
    **dict.fromkeys(dtypes.NARROW, "float"),  # of values; each operation rounds
}
_STORED: Final = {name: f"uint{dtypes.bits(name)}_t" for name in dtypes.NARROW}  # in memory, as bits
# Functions that C's mathematical library and `bound.tir` call alike; the library's float versions end in f.
_LIBRARY: Final = frozenset(
    "exp exp2 log log2 log10 log1p sqrt erf sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh floor ceil "
    "trunc round nearbyint fmod atan2 hypot copysign nextafter pow".split()
)
PREDICATES: Final = {"isnan": "isnan", "isfinite": "isfinite", "isinf": "isinf"}

_PLACES: Final = "(uint64_t)b < (uint64_t)limit"
_DIVISIBLE: Final = "b != 0 && (b != -1 || a != limit)"
_NOTE: Final = "#ifdef _OPENMP\n#pragma omp atomic write\n#endif\n    *undefined = 1;\n"

# Helper functions, by name; `helper_text` replaces T by the type, S by its suffix.
HELPERS: Final[dict[str, str]] = {
    "min": "static inline T min_S(T a, T b) { return a < b ? a : b; }",
    "max": "static inline T max_S(T a, T b) { return a > b ? a : b; }",
    "abs": "static inline T abs_S(T a) { return a < 0 ? -a : a; }",
    "floordiv": "static inline T floordiv_S(T a, T b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }",
    "floormod": (
        "static inline T floormod_S(T a, T b) { return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0); }"
    ),
    "ceildiv": "static inline T ceildiv_S(T a, T b) { return a / b + (a % b != 0 && (a % b < 0) == (b < 0)); }",
    "shl": "static inline T shl_S(T a, T b) { return (T)((uint64_t)a << b); }",
    # shifts by the width or more, which C leaves undefined
    "shl_far": "static inline T shl_far_S(T a, int64_t b) { return b < 64 ? (T)((uint64_t)a << b) : 0; }",
    "shr_far": "static inline T shr_far_S(T a, int64_t b) { return b < SIZE ? a >> b : a < 0 ? -1 : 0; }",
    "ushl_far": "static inline T ushl_far_S(T a, T b) { return b < 64 ? a << b : 0; }",
    "ushr_far": "static inline T ushr_far_S(T a, T b) { return b < 64 ? a >> b : 0; }",
    "wide_truncdiv": "static inline T truncdiv_S(T a, T b) { return a / b; }",
    "wide_truncmod": "static inline T truncmod_S(T a, T b) { return a % b; }",
    "compare": "static inline int compare_S(T a, T b) { return (a > b) - (a < b); }",
    "uceildiv": "static inline T uceildiv_S(T a, T b) { return a / b + (a % b != 0); }",
    "add": "static inline int64_t add_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }",
    "sub": "static inline int64_t sub_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }",
    "mul": "static inline int64_t mul_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }",
    "abs_wrap": "static inline int64_t abs_wrap(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }",
    # NaN of either operand is kept; compilers vectorize two conditional expressions, but not `||`
    "fmin": "static inline T min_S(T a, T b) { const T m = !(a >= b) ? a : b; return b != b ? b : m; }",
    "fmax": "static inline T max_S(T a, T b) { const T m = !(a <= b) ? a : b; return b != b ? b : m; }",
    "atmost": "static inline T atmost_S(T a, T c) { return c <= a ? c : a; }",
    "atleast": "static inline T atleast_S(T a, T c) { return c >= a ? c : a; }",
    # quotient and remainder of floats as in Python and numpy: the remainder is exact, 0 has the sign of the divisor
    "fmodulo": (
        "static inline T modulo_S(T a, T b) {\n    const T r = FMOD(a, b);\n    if (r == 0) return COPYSIGN(0, b);\n"
        "    return (r < 0) != (b < 0) ? r + b : r;\n}"
    ),
    "fquotient": (
        "static inline T quotient_S(T a, T b) {\n    const T r = FMOD(a, b);\n    T q = (a - r) / b;\n"
        "    if (b == 0) return a / b;\n    if (r != 0 && (r < 0) != (b < 0)) q -= 1;\n"
        "    if (q == 0) return COPYSIGN(0, a / b);\n    a = FLOOR(q);\n    return q - a > HALF ? a + 1 : a;\n}"
    ),
    # replaces a zero divisor by a given nonzero one, and records the division by zero
    "nonzero": (
        "static inline T nonzero_S(T b, T other, int *undefined) {\n    if (b != 0) return b;\n"
        f"{_NOTE}    return other;\n}}"
    ),
    # note that an operation has no value
    **{
        f"checked_{name}": f"static inline T checked_{name}_S(T a, T b, T limit, int *undefined) {{\n"
        f"    if ({cond}) return {value};\n{_NOTE}    return 0;\n}}"
        for name, cond, value in (
            ("shift_left", _PLACES, "(T)((uint64_t)a << b)"),
            ("shift_right", _PLACES, "a >> b"),
            ("truncdiv", _DIVISIBLE, "a / b"),
            ("floordiv", _DIVISIBLE, "a / b - (a % b != 0 && (a % b < 0) != (b < 0))"),
            ("ceildiv", _DIVISIBLE, "a / b + (a % b != 0 && (a % b < 0) == (b < 0))"),
        )
    },
    "amount": f"static inline T amount_S(T b, int *undefined) {{\n    if (b >= 0) return b;\n{_NOTE}    return 0;\n}}",
    "sigmoid": "static inline T sigmoid_S(T x) { return 1 / (1 + EXP(-x)); }",
    # an integer rounded to odd: rounding it again to a narrow type rounds it correctly
    "odd": (
        "static inline double odd_S(T x) {\n    const uint64_t n = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;\n"
        "    const double d = n >> 53 ? (double)(n >> 11 | ((n & 2047) != 0)) * 2048 : (double)n;\n"
        "    return x < 0 ? -d : d;\n}"
    ),
    "uodd": (
        "static inline double uodd_S(T n) {\n"
        "    return n >> 53 ? (double)(n >> 11 | ((n & 2047) != 0)) * 2048 : (double)n;\n}"
    ),
    "popcount": (
        "static inline int64_t popcount(int64_t x) { int64_t n = 0; "
        "for (uint64_t u = (uint64_t)x; u; u &= u - 1) n++; return n; }"
    ),
}

# Words of helpers, with their texts for `float` and for `double`.
_BY_WIDTH: Final = (
    *((name.upper(), f"{name}f", name) for name in ("fmod", "exp", "copysign", "floor")),
    ("HALF", "0.5f", "0.5"),
)

# Division of the least number of 64 bits by -1 overflows; some processors trap at its remainder, too.
_BY_MINUS_ONE: Final = {
    "floordiv": ("(int64_t)(0 - (uint64_t)a)", "a / b - (a % b != 0 && (a % b < 0) != (b < 0))"),
    "ceildiv": ("(int64_t)(0 - (uint64_t)a)", "a / b + (a % b != 0 && (a % b < 0) == (b < 0))"),
    "truncdiv": ("(int64_t)(0 - (uint64_t)a)", "a / b"),
    "floormod": ("0", "a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0)"),
    "truncmod": ("0", "a % b"),
}
HELPERS.update(
    {
        f"{op}_wrap": f"static inline int64_t {op}_wrap(int64_t a, int64_t b) {{ return b == -1 ? {least} : {rest}; }}"
        for op, (least, rest) in _BY_MINUS_ONE.items()
    }
)

# Arithmetic of sizes in bytes. It saturates instead of wrapping around, at a multiple of the alignment that is small
# enough for what `malloc` is asked for to stay within PTRDIFF_MAX: compilers warn of larger constants.
_LARGEST: Final = f"(SIZE_MAX / 2 - {2 * ALIGNMENT - 1})"
SIZE_HELPERS: Final = {
    "times_size": (
        "static inline size_t times_size(size_t a, size_t b) "
        f"{{ return b && a > {_LARGEST} / b ? {_LARGEST} : a * b; }}"
    ),
    "after_size": (
        "static inline size_t after_size(size_t at, size_t n) "
        f"{{ return n > {_LARGEST} - at ? {_LARGEST} : (at + n + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT}; }}"
    ),
    "larger_size": "static inline size_t larger_size(size_t a, size_t b) { return a > b ? a : b; }",
    "aligned_start": (
        "static inline char *aligned_start(char *p) "
        f"{{ return p + ({ALIGNMENT} - (uintptr_t)p % {ALIGNMENT}) % {ALIGNMENT}; }}"
    ),
}

LANGUAGE: Final = (  # keywords
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true "
    "false asm typeof"
).split()
_WORDS: Final = (
    "main malloc calloc realloc free size_t NULL isnan isinf isfinite isnormal signbit INFINITY NAN abs labs div "
    "ldiv y0 y1 yn j0 j1 jn gamma lgamma tgamma cbrt fdim fma fmax fmin frexp ilogb ldexp logb modf nan remquo "
    "remainder rint scalbn expm1 lround lrint exit abort atoi rand srand qsort bsearch system getenv random select "
    "signgam popcount add_wrap sub_wrap mul_wrap abs_wrap floordiv_wrap ceildiv_wrap truncdiv_wrap floormod_wrap "
    "truncmod_wrap"
).split()
_SUFFIXES: Final = (
    *(name.replace("float", "f") for name in dtypes.NARROW),
    *(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)),
    *("f32", "f64"),
)
_OTHER_HELPERS: Final = ("round", "load", "store", "next", "modulo", "quotient", "whole")
KEYWORDS: Final = (
    *LANGUAGE,
    *_WORDS,
    *SIZE_HELPERS,
    *MACROS,
    *(f"{name}{f}" for name in (*_LIBRARY, "fabs") for f in ("", "f", "l")),
    *(f"{name}_{s}" for name in (*HELPERS, *_OTHER_HELPERS) for s in _SUFFIXES),
    *TYPES.values(),
)
RESERVED: Final = frozenset(KEYWORDS)
RESERVED_IN_FILE: Final = RESERVED.union(FILE_SCOPE, BUILT_IN)


def c_type(dtype: str, what: str) -> str:
    """The C type of elements.

    Raises
    ------
    InputError: C99 does not have the type; the message names `what`.
    """
    ctype = TYPES.get(dtype)
    if ctype is None:
        raise InputError(f"{what} holds {dtype}, which C99 does not have")
    return ctype


def storage_type(dtype: str, what: str) -> str:
    """The C type of elements in memory; raises as `c_type` does."""
    return _STORED.get(dtype) or c_type(dtype, what)


def integer_constant(value: int, bits: int) -> str:
    """An integer constant at the width."""
    if value < 0:
        text = integer_constant(-value - 1, bits)
        return f"(-{text} - 1)" if value == -(1 << (bits - 1)) else f"(-{integer_constant(-value, bits)})"
    if value >= 1 << 64:
        raise InputError(f"the constant {value} does not fit into 64 bits")
    if value >= 1 << 63:
        return f"UINT64_C({value})"
    return str(value) if value < 1 << 31 else f"INT64_C({value})"


def float_constant(value: float, dtype: str) -> str:
    """A float constant of the type."""
    is_single = dtype != "float64"
    if value != value:
        return "NAN" if is_single else "(double)NAN"
    if value in (float("inf"), float("-inf")):
        text = "INFINITY" if is_single else "(double)INFINITY"
        return text if value > 0 else f"(-{text})"
    text = dtypes.decimal(value, "float32") + "f" if is_single else dtypes.decimal(value, dtype)
    return f"({text})" if text.startswith("-") else text


def suffix(dtype: str) -> str:
    """The suffix of a helper's name for a type: `i32`, `f64`."""
    if dtype in dtypes.NARROW:
        return dtype.replace("float", "f")
    return ("f" if dtypes.is_float(dtype) else "i" if dtypes.signed(dtype) else "u") + str(dtypes.bits(dtype))


def helper_text(name: str, dtype: str) -> str:
    """The definition of a helper for a type."""
    if name in _CONVERSIONS:
        return _conversion(name, dtype)
    dtype = "float32" if dtype in dtypes.NARROW else dtype
    is_single = dtype == "float32"
    ctype = "__int128" if dtype == "int128" else TYPES[dtype]
    words = {"T ": f"{ctype} ", "(T)": f"({ctype})", "_S": f"_{suffix(dtype)}", "SIZE": str(dtypes.bits(dtype))}
    words |= {word: single if is_single else double for word, single, double in _BY_WIDTH}
    text = HELPERS[name]
    for word, own in words.items():
        text = text.replace(word, own)
    return f"__extension__ {text}" if dtype == "int128" else text


def whole_text(dtype: str) -> str:
    """The function that converts floats to an integer type and flags overflow, which is undefined in C."""
    low, high = dtypes.int_range(dtype)
    word = "uint64_t" if dtype == "uint64" else "int64_t"
    above = f"x >= {float(low)!r}" if dtype == "int64" else f"x > {float(low - 1)!r}"
    return (
        f"static inline {word} whole_{suffix(dtype)}(double x, int *undefined) {{\n"
        f"    if ({above} && x < {float(high + 1)!r}) return ({word})x;\n{_NOTE}    return 0;\n}}"
    )


def reinterpret_text(source: str, dtype: str) -> str:
    """The function that returns the bits of a number of one type as another type."""
    given, made = c_type(source, "reinterpret"), c_type(dtype, "reinterpret")
    words = [c_type(t, "reinterpret") if dtypes.is_float(t) or t == "uint64" else "int64_t" for t in (source, dtype)]
    return (
        f"static inline {words[1]} reinterpret_{suffix(source)}_{suffix(dtype)}({words[0]} x) {{\n"
        f"    union {{ {given} given; {made} made; }} bits;\n"
        f"    bits.given = ({given})x;\n    return ({words[1]})bits.made;\n}}"
    )


def _conversion(name: str, dtype: str) -> str:
    """A function that rounds to a narrow float type, or that reads or writes the bits of an element."""
    form = dtypes.float_format(dtype)
    kept = form.digits - 1
    exponents = form.bits - 1 - kept
    rest, shift = 52 - kept, 23 - kept
    top = (1 << exponents) - 1 << kept  # the bits of infinity
    scale = f"0x1p{127 - (1 << exponents - 1) + 1}f"  # converts the bias of the type into the bias of single precision
    nan = top | (1 << kept - 1 if form.has_infinity else (1 << kept) - 1)
    overflow = "INFINITY" if form.has_infinity else "NAN"
    words = {
        "S": suffix(dtype),
        "W": f"uint{form.bits}_t",
        "SIGN": f"0x{1 << form.bits - 1:x}u",
        "UP": str(32 - form.bits),
        "SHIFT": str(shift),
        "SCALE": scale,
        "BITS": str(rest),
        "NORMAL": f"0x1p{form.least + kept}",
        "TIES": f"0x1p{form.least + 52}",
        "MOST": repr(form.highest),
        "OVERFLOW": overflow,
        "TOP": f"0x{top if form.has_infinity else nan:x}u",
        "NAN_BITS": f"0x{nan:x}u",
        "SAME": "x" if dtype == "float16" else "y",  # of 0.0 and -0.0, as numpy and ml_dtypes
    }
    return re.sub(r"@(\w+)@", lambda match: words[match[1]], _CONVERSIONS[name])


_CONVERSIONS: Final = {
    # ties to even: the bits that the type lacks are rounded off; below the least normal number, a sum rounds
    "round": """static inline float round_@S@(double x) {
    union { double d; uint64_t u; } v;
    uint64_t sign;
    if (x != x) return (float)x;
    v.d = x;
    sign = v.u & UINT64_C(0x8000000000000000);
    v.u ^= sign;
    if (v.d < @NORMAL@) {
        v.d = (v.d + @TIES@) - @TIES@;
    } else {
        v.u += (UINT64_C(1) << (@BITS@ - 1)) - 1 + ((v.u >> @BITS@) & 1);
        v.u = v.u >> @BITS@ << @BITS@;
        if (v.d > @MOST@) v.d = (double)@OVERFLOW@;
    }
    v.u |= sign;
    return (float)v.d;
}""",
    "load": """static inline float load_@S@(@W@ bits) {
    union { float f; uint32_t u; } v;
    const uint32_t sign = (uint32_t)(bits & @SIGN@) << @UP@, rest = bits & (@SIGN@ - 1);
    if (rest >= @TOP@) {
        v.f = rest > @TOP@ || @TOP@ == @NAN_BITS@ ? NAN : INFINITY;
    } else {
        v.u = rest << @SHIFT@;
        v.f *= @SCALE@;
    }
    v.u |= sign;
    return v.f;
}""",
    "store": """static inline @W@ store_@S@(float x) {
    union { float f; uint32_t u; } v;
    uint32_t sign;
    v.f = x;
    sign = v.u >> @UP@ & @SIGN@;
    if (x != x) return (@W@)(sign | @NAN_BITS@);
    v.u &= UINT32_C(0x7fffffff);
    if (v.f == INFINITY) return (@W@)(sign | @TOP@);
    v.f /= @SCALE@;
    return (@W@)(sign | v.u >> @SHIFT@);
}""",
    "next": """static inline float next_@S@(float x, float y) {
    const @W@ bits = store_@S@(x);
    if (x != x || y != y) return NAN;
    if (x == y) return @SAME@;
    if (x == 0) return load_@S@((@W@)(y < 0 ? @SIGN@ | 1u : 1u));
    return load_@S@((@W@)((x < y) == (x > 0) ? bits + 1u : bits - 1u));
}""",
}


def function_name(definition: str) -> str:
    """The name of the function that a text defines."""
    return definition.partition("(")[0].split()[-1].lstrip("*")


def library_function(name: str, dtype: str) -> str | None:
    """The function of C's mathematical library for a type; `None` if there is none."""
    return f"{name}f" if name in _LIBRARY and dtype == "float32" else name if name in _LIBRARY else None


def defined_once(name: str, definition: Iterable[str]) -> list[str]:
    """Wrap a definition in a preprocessor guard, so that concatenated files define it once."""
    guard = f"INTSET_{name.upper()}"
    return [f"#ifndef {guard}", f"#define {guard}", *definition, "#endif"]
