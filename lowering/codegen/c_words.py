"""C's vocabulary: types, constants, helper functions, and names that generated code must not take.

The reserved names are those of glibc's `math.h`, `stdbool.h`, `stdint.h`, `stdlib.h`, `stdio.h` and `time.h`, and the
macros that gcc defines outside of `-std=c99`. Names that begin with an underscore are not listed: no generated
identifier does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bound import dtypes
from intset.errors import InputError
from lowering.storage.placement import ALIGNMENT

# The preprocessor replaces macros everywhere, so no identifier may be one of them.
MACROS: Final = (
    "BIG_ENDIAN BUFSIZ BYTE_ORDER CLOCKS_PER_SEC CLOCK_BOOTTIME CLOCK_BOOTTIME_ALARM CLOCK_MONOTONIC "
    "CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID CLOCK_REALTIME CLOCK_REALTIME_ALARM "
    "CLOCK_REALTIME_COARSE CLOCK_TAI CLOCK_THREAD_CPUTIME_ID DOMAIN EDOM EILSEQ EOF ERANGE EXIT_FAILURE "
    "EXIT_SUCCESS FD_CLR FD_ISSET FD_SET FD_SETSIZE FD_ZERO FILENAME_MAX FOPEN_MAX FP_ILOGB0 FP_ILOGBNAN "
    "FP_INFINITE FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO HUGE HUGE_VAL HUGE_VALF HUGE_VALL INFINITY INT16_C INT16_MAX "
    "INT16_MIN INT32_C INT32_MAX INT32_MIN INT64_C INT64_MAX INT64_MIN INT8_C INT8_MAX INT8_MIN INTMAX_C INTMAX_MAX "
    "INTMAX_MIN INTPTR_MAX INTPTR_MIN INT_FAST16_MAX INT_FAST16_MIN INT_FAST32_MAX INT_FAST32_MIN INT_FAST64_MAX "
    "INT_FAST64_MIN INT_FAST8_MAX INT_FAST8_MIN INT_LEAST16_MAX INT_LEAST16_MIN INT_LEAST32_MAX INT_LEAST32_MIN "
    "INT_LEAST64_MAX INT_LEAST64_MIN INT_LEAST8_MAX INT_LEAST8_MIN LITTLE_ENDIAN L_ctermid L_tmpnam MATH_ERREXCEPT "
    "MATH_ERRNO MAXFLOAT MB_CUR_MAX M_1_PI M_2_PI M_2_SQRTPI M_E M_LN10 M_LN2 M_LOG10E M_LOG2E M_PI M_PI_2 M_PI_4 "
    "M_SQRT1_2 M_SQRT2 NAN NFDBITS NSIG NULL OVERFLOW PDP_ENDIAN PLOSS PTRDIFF_MAX PTRDIFF_MIN P_tmpdir RAND_MAX "
    "SEEK_CUR SEEK_END SEEK_SET SIG_ATOMIC_MAX SIG_ATOMIC_MIN SING SIZE_MAX TIMER_ABSTIME TIME_UTC TLOSS TMP_MAX "
    "UINT16_C UINT16_MAX UINT32_C UINT32_MAX UINT64_C UINT64_MAX UINT8_C UINT8_MAX UINTMAX_C UINTMAX_MAX "
    "UINTPTR_MAX UINT_FAST16_MAX UINT_FAST32_MAX UINT_FAST64_MAX UINT_FAST8_MAX UINT_LEAST16_MAX UINT_LEAST32_MAX "
    "UINT_LEAST64_MAX UINT_LEAST8_MAX UNDERFLOW WCHAR_MAX WCHAR_MIN WCONTINUED WEXITED WEXITSTATUS WIFCONTINUED "
    "WIFEXITED WIFSIGNALED WIFSTOPPED WINT_MAX WINT_MIN WNOHANG WNOWAIT WSTOPPED WSTOPSIG WTERMSIG WUNTRACED alloca "
    "assert be16toh be32toh be64toh bool errno false fpclassify htobe16 htobe32 htobe64 htole16 htole32 htole64 "
    "i386 isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered "
    "le16toh le32toh le64toh linux math_errhandling signbit stderr stdin stdout true unix"
).split()

# A local variable may hide these functions and types; the file may not declare them again.
FILE_SCOPE: Final = (
    "Exit FILE a64l abort abs acos acosf acosh acoshf acoshl acosl aligned_alloc alloca arc4random arc4random_buf "
    "arc4random_uniform asctime asctime_r asin asinf asinh asinhf asinhl asinl at_quick_exit atan atan2 atan2f "
    "atan2l atanf atanh atanhf atanhl atanl atexit atof atoi atol atoll blkcnt_t blksize_t bsearch bswap_16 "
    "bswap_32 bswap_64 caddr_t calloc cbrt cbrtf cbrtl ceil ceilf ceill clearenv clearerr clearerr_unlocked clock "
    "clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clock_t clockid_t copysign "
    "copysignf copysignl cos cosf cosh coshf coshl cosl ctermid ctime ctime_r ctype_get_mb_cur_max daddr_t daylight "
    "dev_t difftime div div_t double_t dprintf drand48 drand48_r drem dremf dreml dysize ecvt ecvt_r environ "
    "erand48 erand48_r erf erfc erfcf erfcl erff erfl exit exp exp2 exp2f exp2l expf expl expm1 expm1f expm1l fabs "
    "fabsf fabsl fclose fcvt fcvt_r fd_mask fd_set fdim fdimf fdiml fdopen feof feof_unlocked ferror "
    "ferror_unlocked fflush fflush_unlocked fgetc fgetc_unlocked fgetpos fgets fileno fileno_unlocked finite "
    "finitef finitel float_t flockfile floor floorf floorl fma fmaf fmal fmax fmaxf fmaxl fmemopen fmin fminf fminl "
    "fmod fmodf fmodl fopen fpclassify fpclassifyf fpclassifyl fpos_t fprintf fputc fputc_unlocked fputs fread "
    "fread_unlocked free freopen frexp frexpf frexpl fsblkcnt_t fscanf fseek fseeko fsetpos fsfilcnt_t fsid_t ftell "
    "ftello ftrylockfile funlockfile fwrite fwrite_unlocked gamma gammaf gammal gcvt getc getc_unlocked getchar "
    "getchar_unlocked getdelim getenv getline getloadavg getsubopt getw gid_t gmtime gmtime_r hypot hypotf hypotl "
    "id_t ilogb ilogbf ilogbl initstate initstate_r ino_t int16_t int32_t int64_t int8_t int_fast16_t int_fast32_t "
    "int_fast64_t int_fast8_t int_least16_t int_least32_t int_least64_t int_least8_t intmax_t intptr_t iseqsig "
    "iseqsigf iseqsigl isinf isinff isinfl isnan isnanf isnanl issignaling issignalingf issignalingl j0 j0f j0l j1 "
    "j1f j1l jn jnf jnl jrand48 jrand48_r key_t l64a labs lcong48 lcong48_r ldexp ldexpf ldexpl ldiv ldiv_t lgamma "
    "lgamma_r lgammaf lgammaf_r lgammal lgammal_r llabs lldiv lldiv_t llrint llrintf llrintl llround llroundf "
    "llroundl locale_t localtime localtime_r loff_t log log10 log10f log10l log1p log1pf log1pl log2 log2f log2l "
    "logb logbf logbl logf logl lrand48 lrand48_r lrint lrintf lrintl lround lroundf lroundl main malloc mblen "
    "mbstowcs mbtowc mkdtemp mkstemp mkstemps mktemp mktime mode_t modf modff modfl mrand48 mrand48_r nan nanf nanl "
    "nanosleep nearbyint nearbyintf nearbyintl nextafter nextafterf nextafterl nexttoward nexttowardf nexttowardl "
    "nlink_t nrand48 nrand48_r off_t on_exit open_memstream pclose perror pid_t popen posix_memalign pow powf powl "
    "printf program_invocation_name pselect pthread_attr_t pthread_key_t pthread_once_t pthread_spinlock_t "
    "pthread_t putc putc_unlocked putchar putchar_unlocked putenv puts putw qecvt qecvt_r qfcvt qfcvt_r qgcvt qsort "
    "quad_t quick_exit rand rand_r random random_r realloc reallocarray realpath remainder remainderf remainderl "
    "remove remquo remquof remquol rename renameat rewind rint rintf rintl round roundf roundl rpmatch scalb scalbf "
    "scalbl scalbln scalblnf scalblnl scalbn scalbnf scalbnl scanf seed48 seed48_r select setbuf setbuffer setenv "
    "setlinebuf setstate setstate_r setvbuf signbit signbitf signbitl signgam significand significandf significandl "
    "sigset_t sin sinf sinh sinhf sinhl sinl size_t snprintf sprintf sqrt sqrtf sqrtl srand srand48 srand48_r "
    "srandom srandom_r sscanf ssize_t strftime strftime_l strtod strtof strtol strtold strtoll strtoq strtoul "
    "strtoull strtouq suseconds_t system tan tanf tanh tanhf tanhl tanl tempnam tgamma tgammaf tgammal time time_t "
    "timegm timelocal timer_create timer_delete timer_getoverrun timer_gettime timer_settime timer_t timespec_get "
    "timezone tmpfile tmpnam tmpnam_r trunc truncf truncl tzname tzset u_char u_int u_int16_t u_int32_t u_int64_t "
    "u_int8_t u_long u_quad_t u_short uid_t uint uint16_identity uint16_t uint32_identity uint32_t uint64_identity "
    "uint64_t uint8_t uint_fast16_t uint_fast32_t uint_fast64_t uint_fast8_t uint_least16_t uint_least32_t "
    "uint_least64_t uint_least8_t uintmax_t uintptr_t ulong ungetc unsetenv ushort va_list valloc vdprintf vfprintf "
    "vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wchar_t wcstombs wctomb y0 y0f y0l y1 y1f y1l yn ynf ynl"
).split()

# Functions that gcc knows without a header: a declaration with other parameters is an error under -Werror.
BUILT_IN: Final = (
    "bcmp bcopy bzero cabs cabsf cabsl cacos cacosf cacosh cacoshf cacoshl cacosl carg cargf cargl casin casinf "
    "casinh casinhf casinhl casinl catan catanf catanh catanhf catanhl catanl ccos ccosf ccosh ccoshf ccoshl ccosl "
    "ceilf128 ceilf16 ceilf32 ceilf32x ceilf64 ceilf64x cexp cexpf cexpl cimag cimagf cimagl clog clog10 clog10f "
    "clog10l clogf clogl conj conjf conjl copysignf128 copysignf16 copysignf32 copysignf32x copysignf64 "
    "copysignf64x cpow cpowf cpowl cproj cprojf cprojl creal crealf creall csin csinf csinh csinhf csinhl csinl "
    "csqrt csqrtf csqrtl ctan ctanf ctanh ctanhf ctanhl ctanl dcgettext dgettext execl execle execlp execv execve "
    "execvp exp10 exp10f exp10l fabsd128 fabsd32 fabsd64 fabsf128 fabsf16 fabsf32 fabsf32x fabsf64 fabsf64x "
    "feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feraiseexcept fesetenv fesetexceptflag "
    "fesetround fetestexcept feupdateenv ffs ffsimax ffsl ffsll finited128 finited32 finited64 floorf128 floorf16 "
    "floorf32 floorf32x floorf64 floorf64x fmaf128 fmaf16 fmaf32 fmaf32x fmaf64 fmaf64x fmaxf128 fmaxf16 fmaxf32 "
    "fmaxf32x fmaxf64 fmaxf64x fminf128 fminf16 fminf32 fminf32x fminf64 fminf64x fork fprintf_unlocked "
    "fputs_unlocked gamma_r gammaf_r gammal_r gettext imaxabs index isalnum isalpha isascii isblank iscntrl isdigit "
    "isgraph isinfd128 isinfd32 isinfd64 islower isnand128 isnand32 isnand64 isprint ispunct isspace isupper "
    "iswalnum iswalpha iswblank iswcntrl iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit "
    "isxdigit memchr memcmp memcpy memmove mempcpy memset nand128 nand32 nand64 nanf128 nanf16 nanf32 nanf32x "
    "nanf64 nanf64x nearbyintf128 nearbyintf16 nearbyintf32 nearbyintf32x nearbyintf64 nearbyintf64x pow10 pow10f "
    "pow10l printf_unlocked puts_unlocked rindex rintf128 rintf16 rintf32 rintf32x rintf64 rintf64x roundeven "
    "roundevenf roundevenf128 roundevenf16 roundevenf32 roundevenf32x roundevenf64 roundevenf64x roundevenl "
    "roundf128 roundf16 roundf32 roundf32x roundf64 roundf64x signbitd128 signbitd32 signbitd64 sincos sincosf "
    "sincosl sqrtf128 sqrtf16 sqrtf32 sqrtf32x sqrtf64 sqrtf64x stpcpy stpncpy strcasecmp strcat strchr strcmp "
    "strcpy strcspn strdup strfmon strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr "
    "strspn strstr toascii tolower toupper towlower towupper truncf128 truncf16 truncf32 truncf32x truncf64 "
    "truncf64x "
).split()

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
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f32",
    "f64",
)
_OTHER_HELPERS: Final = ("round", "load", "store", "next", "modulo", "quotient", "whole")
KEYWORDS: Final = (
    *LANGUAGE,
    *_WORDS,
    *SIZE_HELPERS,
    *MACROS,
    *(f"{name}{f}" for name in (*_LIBRARY, "fabs") for f in ("", "f", "l")),
    *(
        f"{name}_{s}"
        for name in (*HELPERS, "round", "load", "store", "next", "modulo", "quotient", "whole")
        for s in _SUFFIXES
    ),
    *(name for name in TYPES.values()),
)


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
    text = ("__extension__ " if dtype == "int128" else "") + HELPERS[name].replace("T ", f"{ctype} ").replace(
        "(T)", f"({ctype})"
    ).replace("_S", f"_{suffix(dtype)}")
    text = text.replace("SIZE", str(dtypes.bits(dtype)))
    for word, single, double in _BY_WIDTH:
        text = text.replace(word, single if is_single else double)
    return text


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
    words = [_word(t) for t in (source, dtype)]
    return (
        f"static inline {words[1]} reinterpret_{suffix(source)}_{suffix(dtype)}({words[0]} x) {{\n"
        f"    union {{ {given} given; {made} made; }} bits;\n"
        f"    bits.given = ({given})x;\n    return ({words[1]})bits.made;\n}}"
    )


def _word(dtype: str) -> str:
    """The C type in which values of a type are computed."""
    return c_type(dtype, "reinterpret") if dtypes.is_float(dtype) or dtype == "uint64" else "int64_t"


def _conversion(name: str, dtype: str) -> str:
    """A function that rounds to a narrow float type, or that reads or writes the bits of an element."""
    form = dtypes.float_format(dtype)
    kept = form.digits - 1
    exponents = form.bits - 1 - kept
    rest, shift = 52 - kept, 23 - kept
    top = (1 << exponents) - 1 << kept  # the bits of infinity
    scale = f"0x1p{127 - (1 << exponents - 1) + 1}f"  # from the bias of the type to that of singles
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
    # ties to even: the bits that the type lacks are rounded off; below the least normal number a sum does it
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
