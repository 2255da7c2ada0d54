/* The optional core: interned nodes with six operators, and the plain way of `intset.plain` in machine integers.

   `intset/expr/pure.py` is the same storage and operators in Python, and `intset/plain.py` the same rules: both builds
   give the same answers. What is not plain here (long numbers, guests, errors) is handed to Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

/* -- nodes: equal operation, arguments and payload are one object -------------------------------------------------- */

#define REMEMBERED 8
typedef struct Node {
    PyObject_HEAD
    PyObject *op, *args, *data, *weak, *remembered[REMEMBERED];
    struct Node *next; /* of the same row of the table */
    Py_hash_t hash;
    char interned;
} Node;

enum { ADD, SUB, MUL, FLOORDIV, FLOORMOD, NEG, CONST, VAR, MIN, MAX, LT, LE, GT, GE, OPS }; /* the order of `bind` */
static PyTypeObject StoredType, ArithmeticType;
static PyObject *ops[OPS], *term, *plain_var, *small, *no_args, *binary_, *divide_, *ends_name;
static Py_ssize_t nsmall; /* absolute value of the constants in `small` */
static Node **table;
static size_t nrows, used, changes; /* rows are a power of two; `changes` counts insertions and removals */

static Py_hash_t hash_of(PyObject *op, PyObject *args, PyObject *data) {
    const uint64_t mixer = 0x9E3779B97F4A7C15u;
    uint64_t hash = (uintptr_t)op >> 4;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); k++) hash = (hash ^ ((uintptr_t)PyTuple_GET_ITEM(args, k) >> 4)) * mixer;
    if (data != Py_None) {
        Py_hash_t own = PyObject_Hash(data);
        if (own == -1) return -1;
        hash = (hash ^ (uint64_t)own) * mixer;
    }
    hash ^= hash >> 29;
    return (Py_hash_t)hash == -1 ? -2 : (Py_hash_t)hash;
}

static int resize(size_t size) {
    Node **rows = PyMem_Calloc(size, sizeof *rows);
    if (!rows) return -1;
    for (size_t k = 0; k < nrows; k++)
        for (Node *node = table[k], *next; node; node = next) {
            Node **row = &rows[(size_t)node->hash & (size - 1)];
            next = node->next;
            node->next = *row;
            *row = node;
        }
    PyMem_Free(table);
    table = rows, nrows = size;
    return 0;
}

static void forget(Node *node) {
    if (!node->interned) return;
    Node **at = &table[(size_t)node->hash & (nrows - 1)];
    while (*at != node) at = &(*at)->next;
    *at = node->next;
    node->interned = 0, used--, changes++;
    if (nrows > 4096 && used < nrows / 8) resize(nrows / 4); /* without memory it stays large */
}

/* A new reference to the interned node, or NULL without an error. Payloads compare by Python code, which may change
   the table: then the row is read again. */
static Node *found(Py_hash_t hash, PyObject *op, PyObject *args, PyObject *data, int *failed) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
again:
    for (Node *node = nrows ? table[(size_t)hash & (nrows - 1)] : NULL, *next; node; node = next) {
        next = node->next;
        if (node->hash != hash || node->op != op || PyTuple_GET_SIZE(node->args) != n || !Py_REFCNT(node)) continue; /* 0: dying */
        int same = 1;
        for (Py_ssize_t k = 0; same && k < n; k++) same = PyTuple_GET_ITEM(node->args, k) == PyTuple_GET_ITEM(args, k);
        if (!same) continue;
        Py_INCREF(node);
        if (node->data == data) return node;
        size_t before = changes;
        same = PyObject_RichCompareBool(node->data, data, Py_EQ);
        if (same > 0) return node;
        Py_DECREF(node);
        if (same < 0) return *failed = 1, NULL;
        if (changes != before) goto again;
    }
    return NULL;
}

static Node *fresh_node(PyTypeObject *cls, PyObject *op, PyObject *args, PyObject *data) {
    Node *node = (Node *)cls->tp_alloc(cls, 0);
    if (node) node->op = Py_NewRef(op), node->args = Py_NewRef(args), node->data = Py_NewRef(data);
    return node;
}

static PyObject *interned(PyTypeObject *cls, PyObject *op, PyObject *args, PyObject *data) {
    int failed = 0;
    Py_hash_t hash = hash_of(op, args, data);
    Node *known = hash == -1 ? NULL : found(hash, op, args, data, &failed);
    if (known || failed || hash == -1) return (PyObject *)known;
    size_t before = changes;
    Node *node = fresh_node(cls, op, args, data); /* which may collect garbage, and run Python code */
    if (!node) return NULL;
    if (changes != before && ((known = found(hash, op, args, data, &failed)) || failed)) {
        Py_DECREF(node);
        return (PyObject *)known;
    }
    if (used >= nrows && resize(nrows ? nrows * 2 : 4096) < 0) {
        Py_DECREF(node);
        return PyErr_NoMemory();
    }
    Node **row = &table[(size_t)hash & (nrows - 1)];
    node->hash = hash, node->next = *row, node->interned = 1, *row = node;
    used++, changes++;
    return (PyObject *)node;
}

static int is_node_key(PyObject *const *given, Py_ssize_t n) {
    if (n == 4 && PyType_Check(given[0]) && PyType_IsSubtype((PyTypeObject *)given[0], &StoredType) && PyTuple_Check(given[2])) return 1;
    PyErr_SetString(PyExc_TypeError, "a node has a class, an operation, a tuple of arguments and a payload");
    return 0;
}

static PyObject *intern(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    return is_node_key(given, n) ? interned((PyTypeObject *)given[0], given[1], given[2], given[3]) : NULL;
}

static PyObject *fresh(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    return is_node_key(given, n) ? (PyObject *)fresh_node((PyTypeObject *)given[0], given[1], given[2], given[3]) : NULL;
}

static PyObject *count(PyObject *module, PyObject *none) { return PyLong_FromSize_t(used); }

static int traverse(Node *node, visitproc visit, void *arg) {
    Py_VISIT(node->op);
    Py_VISIT(node->args);
    Py_VISIT(node->data);
    for (int k = 0; k < REMEMBERED; k++) Py_VISIT(node->remembered[k]);
    return 0;
}

/* What was given to a new node cannot close a cycle, what is remembered can. */
static int clear(Node *node) {
    for (int k = 0; k < REMEMBERED; k++) Py_CLEAR(node->remembered[k]);
    return 0;
}

static void dealloc(Node *node) {
    PyObject_GC_UnTrack(node);
    forget(node);
    if (node->weak) PyObject_ClearWeakRefs((PyObject *)node);
    clear(node);
    Py_CLEAR(node->op);
    Py_CLEAR(node->args);
    Py_CLEAR(node->data);
    Py_TYPE(node)->tp_free(node);
}

/* -- operators ----------------------------------------------------------------------------------------------------- */

/* A new reference to an operand as a node; NULL without an error for what Python has to look at. */
static PyObject *operand(PyObject *value) {
    if (PyObject_TypeCheck(value, &ArithmeticType)) return Py_NewRef(value);
    if (!PyLong_CheckExact(value)) return NULL;
    int over;
    long number = PyLong_AsLongAndOverflow(value, &over);
    if (!over && -nsmall <= number && number <= nsmall) return Py_NewRef(PyTuple_GET_ITEM(small, number + nsmall));
    return interned((PyTypeObject *)term, ops[CONST], no_args, value);
}

static PyObject *binary(int op, PyObject *a, PyObject *b) {
    PyObject *x = small ? operand(a) : NULL, *y = x ? operand(b) : NULL, *args, *node = NULL;
    int divides = op == FLOORDIV || op == FLOORMOD;
    if (y && !(divides && y == PyTuple_GET_ITEM(small, nsmall))) { /* the constant 0 is in the middle */
        if ((args = PyTuple_Pack(2, x, y))) {
            node = interned((PyTypeObject *)term, ops[op], args, Py_None);
            Py_DECREF(args);
        }
    } else if (!PyErr_Occurred()) {
        node = small ? PyObject_CallFunctionObjArgs(divides ? divide_ : binary_, ops[op], a, b, NULL) : Py_NewRef(Py_NotImplemented);
    }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return node;
}

#define OPERATOR(name, op) static PyObject *name(PyObject *a, PyObject *b) { return binary(op, a, b); }
OPERATOR(add, ADD)
OPERATOR(subtract, SUB)
OPERATOR(multiply, MUL)
OPERATOR(floor_divide, FLOORDIV)
OPERATOR(remainder_, FLOORMOD)

static PyObject *negative(PyObject *a) {
    PyObject *args = term ? PyTuple_Pack(1, a) : NULL, *node = NULL;
    if (args) node = interned((PyTypeObject *)term, ops[NEG], args, Py_None);
    Py_XDECREF(args);
    return node;
}

static PyNumberMethods numbers = {.nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_floor_divide = floor_divide, .nb_remainder = remainder_, .nb_negative = negative};

#define SLOT(name, field, flags) {name, T_OBJECT_EX, offsetof(Node, field), flags, NULL}
static PyMemberDef members[] = {
    SLOT("op", op, READONLY), SLOT("args", args, READONLY), SLOT("data", data, READONLY),
    SLOT("_below", remembered[0], 0), SLOT("_free", remembered[1], 0), SLOT("_loads", remembered[2], 0), SLOT("_number", remembered[3], 0),
    SLOT("_operations", remembered[4], 0), SLOT("_order", remembered[5], 0), SLOT("_partial", remembered[6], 0), SLOT("glance", remembered[7], 0),
    {NULL}};

static PyTypeObject StoredType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "intset._core.Stored", .tp_basicsize = sizeof(Node), .tp_weaklistoffset = offsetof(Node, weak),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_traverse = (traverseproc)traverse,
    .tp_clear = (inquiry)clear, .tp_dealloc = (destructor)dealloc, .tp_members = members};
static PyTypeObject ArithmeticType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "intset._core.Arithmetic", .tp_basicsize = sizeof(Node), .tp_base = &StoredType,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_as_number = &numbers};

/* -- the plain way: a row for each node, by the rules of `intset.plain` -------------------------------------------- */

#define NODES 128 /* MOST_NODES of `intset.plain`; FEW_POINTS and STEPS likewise */
#define FEW_POINTS (1 << 11)
#define STEPS (1 << 18)
#define FEW_TERMS 256
#define DEPTH 100
#define LARGEST ((int64_t)1 << 40) /* of an end: sums and differences of two stay far from overflow */
#define BLOCK 256

typedef struct { int64_t low, high, gap, step; uint64_t free; } Row; /* a ValueRow of `intset.plain` */
typedef struct { Node *node; Row row; int op, a, b; } Step; /* operands by number; a negation has b == a */
typedef struct { Step steps[NODES]; int16_t slots[2 * NODES]; int n, nvars; int64_t points; PyObject *ranges; int bad; } Walk;

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t quotient(int64_t a, int64_t c) { return a / c - (a % c < 0); } /* c > 0 */
static int64_t residue(int64_t a, int64_t c) { return a % c < 0 ? a % c + c : a % c; }
static int64_t gcd(int64_t a, int64_t b) {
    for (int64_t c; b; a = b, b = c) c = a % b;
    return a < 0 ? -a : a;
}
static int64_t times(Walk *w, int64_t a, int64_t b) {
    if ((double)a * (double)b > 1e18 || (double)a * (double)b < -1e18) return w->bad = 1, 0;
    return a * b;
}

static Row single(int64_t value) { return (Row){value, value, 1, 0, 0}; }
static Row joined(int64_t low, int64_t high, int64_t gap, int64_t step, Row x, Row y) {
    if (low == high) return single(low);
    return (Row){low, high, x.gap && y.gap && !(x.free & y.free) ? gap : 0, step, x.free | y.free};
}
static Row negated(Row x) { return (Row){-x.high, -x.low, x.gap, x.step, x.free}; }
static Row shifted(Row x, int64_t by) { return (Row){x.low + by, x.high + by, x.gap, x.step, x.free}; }
static Row sum(Row x, Row y) {
    if (!y.step) return shifted(x, y.low);
    if (!x.step) return shifted(y, x.low);
    int64_t gap = lesser(greater(y.gap, x.gap - (y.high - y.low)), greater(x.gap, y.gap - (x.high - x.low)));
    return joined(x.low + y.low, x.high + y.high, gap, gcd(x.step, y.step), x, y);
}
static Row scaled(Walk *w, Row x, int64_t k) {
    if (!k || !x.step) return single(times(w, x.low, k));
    if (k < 0) x = negated(x), k = -k;
    return (Row){times(w, x.low, k), times(w, x.high, k), times(w, x.gap, k), times(w, x.step, k), x.free};
}
static Row product(Walk *w, Row x, Row y) {
    if (!y.step) return scaled(w, x, y.low);
    if (!x.step) return scaled(w, y, x.low);
    int64_t a = times(w, x.low, y.low), b = times(w, x.low, y.high), c = times(w, x.high, y.low), d = times(w, x.high, y.high);
    int64_t low = lesser(lesser(a, b), lesser(c, d)), high = greater(greater(a, b), greater(c, d));
    int64_t step = gcd(times(w, x.step, y.step), gcd(times(w, x.step, y.low), times(w, y.step, x.low)));
    return joined(low, high, high - low, step, x, y);
}
static Row divided(Row x, int64_t c) {
    int64_t first = quotient(x.low, c), last = quotient(x.high, c);
    return first < last ? (Row){first, last, -quotient(-x.gap, c), x.step % c ? 1 : x.step / c, x.free} : single(first);
}
static int by_value(const void *a, const void *b) { return (*(int64_t *)a > *(int64_t *)b) - (*(int64_t *)a < *(int64_t *)b); }
static Row remainder_row(Row x, int64_t c) {
    if (quotient(x.low, c) == quotient(x.high, c)) return (Row){residue(x.low, c), residue(x.high, c), x.gap, x.step, x.free};
    int64_t common = gcd(x.step, c), least = residue(x.low, common), most = c - common + least, terms = (x.high - x.low) / x.step;
    if (least == most) return single(least);
    if (x.gap != x.step) return (Row){least, most, 0, common, x.free};
    if (terms >= c / common - 1) return (Row){least, most, common, common, x.free};
    if (common == x.step) return (Row){least, most, greater(x.step, residue(x.low, c) - residue(x.high, c)), x.step, x.free};
    if (terms > FEW_TERMS) return (Row){least, most, 0, common, x.free};
    int64_t values[FEW_TERMS + 1], gap = 0;
    for (int64_t k = 0; k <= terms; k++) values[k] = residue(x.low + k * x.step, c);
    qsort(values, terms + 1, sizeof *values, by_value);
    for (int64_t k = 0; k < terms; k++) gap = greater(gap, values[k + 1] - values[k]);
    return (Row){values[0], values[terms], gap, common, x.free};
}
static Row minimum(Row x, Row y) {
    if (x.high <= y.low || y.high <= x.low) return x.high <= y.low ? x : y;
    return joined(lesser(x.low, y.low), lesser(x.high, y.high), greater(x.gap, y.gap), gcd(gcd(x.step, y.step), x.low - y.low), x, y);
}
static Row maximum(Row x, Row y) {
    if (x.low >= y.high || y.low >= x.high) return x.low >= y.high ? x : y;
    return joined(greater(x.low, y.low), greater(x.high, y.high), greater(x.gap, y.gap), gcd(gcd(x.step, y.step), x.low - y.low), x, y);
}
static Row compared(int always, int never, Row x, Row y) { return always || never ? single(always) : joined(0, 1, 1, 1, x, y); }
static Row combined(Walk *w, int op, Row x, Row y) {
    switch (op) {
    case ADD: return sum(x, y);
    case SUB: return y.step ? sum(x, negated(y)) : shifted(x, -y.low);
    case NEG: return negated(x);
    case MUL: return product(w, x, y);
    case FLOORDIV: case FLOORMOD:
        if (y.step || y.low <= 0) return w->bad = 1, x;
        return op == FLOORDIV ? divided(x, y.low) : remainder_row(x, y.low);
    case MIN: return minimum(x, y);
    case MAX: return maximum(x, y);
    case LT: return compared(x.high < y.low, x.low >= y.high, x, y);
    case LE: return compared(x.high <= y.low, x.low > y.high, x, y);
    case GT: return compared(y.high < x.low, y.low >= x.high, x, y);
    default: return compared(y.high <= x.low, y.low > x.high, x, y);
    }
}

static int machine_int(PyObject *value, int64_t *number) {
    int over;
    if (!PyLong_Check(value)) return 0;
    *number = PyLong_AsLongLongAndOverflow(value, &over);
    return !over && -LARGEST <= *number && *number <= LARGEST;
}

/* The row of a variable from its range; 0 where it has none of numbers. */
static int variable_row(Walk *w, Node *node, Row *row) {
    PyObject *range = Py_TYPE(node) == (PyTypeObject *)plain_var ? PyDict_GetItemWithError(w->ranges, (PyObject *)node) : NULL;
    PyObject *ends = range ? PyObject_GetAttr(range, ends_name) : NULL;
    int64_t low = 1, high = 0;
    int plain = ends && PyTuple_CheckExact(ends) && PyTuple_GET_SIZE(ends) == 2 && machine_int(PyTuple_GET_ITEM(ends, 0), &low) && machine_int(PyTuple_GET_ITEM(ends, 1), &high);
    Py_XDECREF(ends);
    if (!plain || low > high || w->nvars == 64) return 0;
    *row = low < high ? (Row){low, high, 1, 1, (uint64_t)1 << w->nvars++} : single(low);
    w->points = w->points > STEPS ? w->points : w->points * lesser(high - low + 1, STEPS + 1);
    return 1;
}

/* The number of the step for a node, or -1 where Python has to look at it. */
static int step_of(Walk *w, PyObject *object, int depth) {
    Node *node = (Node *)object;
    unsigned slot = (unsigned)(((uint64_t)(uintptr_t)node >> 4) * 0x9E3779B97F4A7C15u >> 56);
    for (; w->slots[slot] >= 0; slot = (slot + 1) % (2 * NODES))
        if (w->steps[w->slots[slot]].node == node) return w->slots[slot];
    if (depth > DEPTH || !PyObject_TypeCheck(object, &StoredType) || !node->op || !node->args) return -1;
    Step step = {.node = node};
    while (step.op < OPS && ops[step.op] != node->op) step.op++;
    if (step.op == CONST) {
        if (!machine_int(node->data, &step.row.low)) return -1;
        step.row = single(step.row.low);
    } else if (step.op == VAR) {
        if (!variable_row(w, node, &step.row)) return -1;
    } else {
        Py_ssize_t n = PyTuple_GET_SIZE(node->args);
        if (step.op == OPS || n != (step.op == NEG ? 1 : 2)) return -1;
        if ((step.a = step_of(w, PyTuple_GET_ITEM(node->args, 0), depth + 1)) < 0) return -1;
        if ((step.b = step_of(w, PyTuple_GET_ITEM(node->args, n - 1), depth + 1)) < 0) return -1;
        step.row = combined(w, step.op, w->steps[step.a].row, w->steps[step.b].row);
        if (w->bad || step.row.low < -LARGEST || step.row.high > LARGEST || step.row.gap > 2 * LARGEST || step.row.step > 2 * LARGEST) return -1;
    }
    if (w->n == NODES) return -1;
    while (w->slots[slot] >= 0) slot = (slot + 1) % (2 * NODES); /* its operands took slots meanwhile */
    w->steps[w->n] = step;
    w->slots[slot] = (int16_t)w->n;
    return w->n++;
}

#define EACH(value) for (int i = 0; i < m; i++) out[i] = (value); break
static void evaluate(const Walk *w, int k, int32_t (*values)[BLOCK], int m) {
    const Step *step = &w->steps[k];
    const int32_t *x = values[step->a], *y = values[step->b], c = y[0];
    const int32_t least = (int32_t)w->steps[step->a].row.low, first = step->op == FLOORDIV || step->op == FLOORMOD ? (int32_t)quotient(least, c) : 0;
    const double inverse = 1.0 / c; /* (v + 0.5) * inverse truncates to v // c for 0 <= v < 2**31 */
    int32_t *out = values[k];
    switch (step->op) {
    case ADD: EACH(x[i] + y[i]);
    case SUB: EACH(x[i] - y[i]);
    case MUL: EACH(x[i] * y[i]);
    case NEG: EACH(-x[i]);
    case FLOORDIV: EACH(first + (int32_t)((x[i] - first * c + 0.5) * inverse));
    case FLOORMOD: EACH(x[i] - c * (first + (int32_t)((x[i] - first * c + 0.5) * inverse)));
    case MIN: EACH(x[i] < y[i] ? x[i] : y[i]);
    case MAX: EACH(x[i] > y[i] ? x[i] : y[i]);
    case LT: EACH(x[i] < y[i]);
    case LE: EACH(x[i] <= y[i]);
    case GT: EACH(x[i] > y[i]);
    default: EACH(x[i] >= y[i]);
    }
}

/* The least and greatest value over all points of the box, in blocks; 0 beyond the budgets of `intset.plain`. */
static int enumerated(Walk *w, int root, int64_t most, int64_t *least, int64_t *greatest) {
    static int32_t values[NODES][BLOCK]; /* guarded by the interpreter's lock */
    int32_t at[64];
    int axes[64], naxes = 0, n = 0;
    int64_t points = 1;
    char needed[NODES] = {0};
    needed[root] = 1;
    for (int k = root; k >= 0; k--) {
        Step *step = &w->steps[k];
        if (!needed[k]) continue;
        if (step->row.low < -(1 << 30) || step->row.high > 1 << 30) return 0;
        n++;
        if (!step->row.step) for (int i = 0; i < BLOCK; i++) values[k][i] = (int32_t)step->row.low;
        else if (step->op != VAR) needed[step->a] = needed[step->b] = 1;
        else {
            points = lesser(points, STEPS) * lesser(step->row.high - step->row.low + 1, STEPS + 1);
            at[naxes] = (int32_t)step->row.low, axes[naxes++] = k;
        }
    }
    if (w->points > lesser(most, FEW_POINTS) && (points > most || points * n > STEPS)) return 0;
    *least = INT32_MAX, *greatest = INT32_MIN;
    for (int64_t done = 0; done < points; done += BLOCK) {
        int m = (int)lesser(BLOCK, points - done);
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < naxes; j++) values[axes[j]][i] = at[j];
            for (int j = 0; j < naxes && at[j]++ == w->steps[axes[j]].row.high; j++) at[j] = (int32_t)w->steps[axes[j]].row.low;
        }
        for (int k = 0; k <= root; k++)
            if (needed[k] && w->steps[k].row.step && w->steps[k].op != VAR) evaluate(w, k, values, m);
        for (int i = 0; i < m; i++) *least = lesser(*least, values[root][i]), *greatest = greater(*greatest, values[root][i]);
        if (*least == w->steps[root].row.low && *greatest == w->steps[root].row.high) break;
    }
    return 1;
}

/* ends(root, ranges, points): as `intset.plain.ends`; None where Python has to look at it. */
static PyObject *ends(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    Walk w;
    int64_t low, high, most;
    if (n != 3 || !plain_var || !PyDict_CheckExact(given[1]) || !PyLong_Check(given[2])) Py_RETURN_NONE;
    if (!machine_int(given[2], &most)) most = LARGEST;
    w.n = w.nvars = w.bad = 0, w.points = 1, w.ranges = given[1];
    memset(w.slots, -1, sizeof w.slots);
    int root = step_of(&w, given[0], 0);
    if (root < 0) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Row row = w.steps[root].row;
    low = row.low, high = row.high;
    if (!row.gap && !enumerated(&w, root, most, &low, &high)) Py_RETURN_NONE;
    return Py_BuildValue("(LLN)", (long long)low, (long long)high, PyBool_FromLong(low == row.low && high == row.high));
}

/* bind(term, plain_var, small, binary, divide, operations): what nodes are made of, from `intset.expr.node`. */
static PyObject *bind(PyObject *module, PyObject *args) {
    PyObject *given[6];
    if (!PyArg_ParseTuple(args, "OOO!OOO!", &given[0], &given[1], &PyTuple_Type, &given[2], &given[3], &given[4], &PyTuple_Type, &given[5])) return NULL;
    if (PyTuple_GET_SIZE(given[5]) != OPS) return PyErr_Format(PyExc_TypeError, "bind takes %d operations", OPS);
    PyObject **held[] = {&term, &plain_var, &small, &binary_, &divide_};
    for (int k = 0; k < 5; k++) Py_XSETREF(*held[k], Py_NewRef(given[k]));
    for (int k = 0; k < OPS; k++) Py_XSETREF(ops[k], Py_NewRef(PyTuple_GET_ITEM(given[5], k)));
    nsmall = PyTuple_GET_SIZE(small) / 2;
    Py_RETURN_NONE;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef functions[] = {FAST(intern), FAST(fresh), FAST(ends), {"count", count, METH_NOARGS, NULL}, {"bind", bind, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "intset._core", NULL, -1, functions};

PyMODINIT_FUNC PyInit__core(void) {
    StoredType.tp_new = PyBaseObject_Type.tp_new;
    if (PyType_Ready(&StoredType) < 0 || PyType_Ready(&ArithmeticType) < 0) return NULL;
    if (!(no_args = PyTuple_New(0)) || !(ends_name = PyUnicode_InternFromString("ends"))) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    PyModule_AddIntConstant(module, "revision", 1);
    PyModule_AddObjectRef(module, "Stored", (PyObject *)&StoredType);
    PyModule_AddObjectRef(module, "Arithmetic", (PyObject *)&ArithmeticType);
    return module;
}
