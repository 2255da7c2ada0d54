"""C's words for types, constants and functions."""

from __future__ import annotations

from typing import Final

from bound import dtypes
from intset.errors import InputError
from lowering.codegen.c_reserved import MACROS

TYPES: Final = {
    "bool": "bool",
    **{f"{u}int{b}": f"{u}int{b}_t" for u in ("", "u") for b in (8, 16, 32, 64)},
    "float32": "float",
    "float64": "double",
}
# Functions of C's mathematical library that have our name; float versions end in f.
_LIBRARY: Final = frozenset(
    "exp exp2 log log2 log10 log1p sqrt erf sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh floor ceil "
    "trunc round nearbyint fmod atan2 hypot copysign nextafter pow".split()
)
PREDICATES: Final = {"isnan": "isnan", "isfinite": "isfinite", "isinf": "isinf"}

# Helpers, by name; T is replaced by the type, S by its suffix.
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
    # by more places than a number has: C leaves open what that gives
    "shl_far": "static inline T shl_far_S(T a, T b) { return b < 64 ? (T)((uint64_t)a << b) : 0; }",
    "shr_far": "static inline T shr_far_S(T a, T b) { return b < SIZE ? a >> b : a < 0 ? -1 : 0; }",
    "add": "static inline int64_t add_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }",
    "sub": "static inline int64_t sub_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }",
    "mul": "static inline int64_t mul_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }",
    "abs_wrap": "static inline int64_t abs_wrap(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }",
    # what is not a number stays, whichever it is; compilers run several at a time of two choices, not of `||`
    "fmin": "static inline T min_S(T a, T b) { const T m = !(a >= b) ? a : b; return b != b ? b : m; }",
    "fmax": "static inline T max_S(T a, T b) { const T m = !(a <= b) ? a : b; return b != b ? b : m; }",
    "atmost": "static inline T atmost_S(T a, T c) { return c <= a ? c : a; }",
    "atleast": "static inline T atleast_S(T a, T c) { return c >= a ? c : a; }",
    # Python's and numpy's quotient and remainder of floats: the remainder is exact, 0 has the sign of the divisor
    "fmodulo": (
        "static inline T modulo_S(T a, T b) {\n    const T r = FMOD(a, b);\n    if (r == 0) return COPYSIGN(0, b);\n"
        "    return (r < 0) != (b < 0) ? r + b : r;\n}"
    ),
    "fquotient": (
        "static inline T quotient_S(T a, T b) {\n    const T r = FMOD(a, b);\n    T q = (a - r) / b;\n"
        "    if (b == 0) return a / b;\n    if (r != 0 && (r < 0) != (b < 0)) q -= 1;\n"
        "    if (q == 0) return COPYSIGN(0, a / b);\n    a = FLOOR(q);\n    return q - a > HALF ? a + 1 : a;\n}"
    ),
    # a float as 64 bits without a sign; C leaves open what a conversion to a type that is too narrow gives
    "whole": ("static inline int64_t whole_S(T x) {\n    return x < BEYOND ? (int64_t)x : (int64_t)(uint64_t)x;\n}"),
    # replaces a zero divisor by a given nonzero one, and records the division by zero
    "nonzero": (
        "static inline T nonzero_S(T b, T other, int *undefined) {\n    if (b != 0) return b;\n#ifdef _OPENMP\n"
        "#pragma omp atomic write\n#endif\n    *undefined = 1;\n    return other;\n}"
    ),
    "sigmoid": "static inline T sigmoid_S(T x) { return 1 / (1 + EXP(-x)); }",
    "popcount": (
        "static inline int64_t popcount(int64_t x) { int64_t n = 0; "
        "for (uint64_t u = (uint64_t)x; u; u &= u - 1) n++; return n; }"
    ),
}

# The words of helpers that have another text for `float` than for `double`.
_BY_WIDTH: Final = (
    *((name.upper(), f"{name}f", name) for name in ("fmod", "exp", "copysign", "floor")),
    ("HALF", "0.5f", "0.5"),
    ("BEYOND", "9223372036854775808.0f", "9223372036854775808.0"),
)

# What -1 makes of the least number of 64 bits does not fit, and some machines stop at its remainder, too.
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

LANGUAGE: Final = (
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
_SUFFIXES: Final = ("i32", "i64", "f32", "f64")
KEYWORDS: Final = (
    *LANGUAGE,
    *_WORDS,
    *MACROS,
    *(f"{name}{f}" for name in (*_LIBRARY, "fabs") for f in ("", "f", "l")),
    *(f"{name}_{s}" for name in (*HELPERS, "modulo", "quotient") for s in _SUFFIXES),
    *(name for name in TYPES.values()),
)


def c_type(dtype: str, what: str) -> str:
    """The C type of elements; a type that C99 does not have is refused, naming `what`."""
    found = TYPES.get(dtype)
    if found is None:
        raise InputError(f"{what} holds {dtype}, which C99 does not have")
    return found


def integer_constant(value: int, bits: int) -> str:
    """An integer constant of the width."""
    if value < 0:
        text = integer_constant(-value - 1, bits)
        return f"(-{text} - 1)" if value == -(1 << (bits - 1)) else f"(-{integer_constant(-value, bits)})"
    if value >= 1 << 63:
        raise InputError(f"the constant {value} does not fit into 64 bits")
    return str(value) if value < 1 << 31 else f"INT64_C({value})"


def float_constant(value: float, dtype: str) -> str:
    """A float constant of the type."""
    if value != value:
        return "NAN" if dtype == "float32" else "(double)NAN"
    if value in (float("inf"), float("-inf")):
        text = "INFINITY" if dtype == "float32" else "(double)INFINITY"
        return text if value > 0 else f"(-{text})"
    text = dtypes.decimal(value, dtype) + ("f" if dtype == "float32" else "")
    return f"({text})" if text.startswith("-") else text


def suffix(dtype: str) -> str:
    return ("f" if dtypes.is_float(dtype) else "i") + str(dtypes.bits(dtype))


def helper_text(name: str, dtype: str) -> str:
    """The definition of a helper for a type."""
    is_single = dtype == "float32"
    ctype = TYPES[dtype]
    text = HELPERS[name].replace("T ", f"{ctype} ").replace("(T)", f"({ctype})").replace("_S", f"_{suffix(dtype)}")
    text = text.replace("SIZE", str(dtypes.bits(dtype)))
    for word, single, double in _BY_WIDTH:
        text = text.replace(word, single if is_single else double)
    return text


def library_function(name: str, dtype: str) -> str | None:
    """The function of C's library, or `None`."""
    return f"{name}f" if name in _LIBRARY and dtype == "float32" else name if name in _LIBRARY else None
