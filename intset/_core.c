/* The optional core: interned nodes with six operators, and the plain way of `intset.plain` in machine integers.

   `intset/expr/storage.py` is the same storage and operators in Python, and `intset/plain.py` the same rules: both builds
   give the same answers. What is not plain here (long numbers, guests, errors) is handed to Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <structmember.h>

/* -- nodes: equal operation, arguments and payload are one object -------------------------------------------------- */
typedef struct Node {
    PyObject_HEAD PyObject *op, *args, *data, *remembered[8], *weak;
    struct Node *next; /* of the same row of the table */
    Py_hash_t hash;
    char interned;
} Node;
enum { ADD, SUB, MUL, FLOORDIV, FLOORMOD, NEG, CONST, VAR, MIN, MAX, LT, LE, GT, GE, OPS }; /* the order of `bind` */
static PyTypeObject StoredType, ArithmeticType;
static PyObject *ops[OPS], *term, *shape_var, *small, *no_args, *binary_, *divide_, *ends_name;
static Py_ssize_t nsmall; /* absolute value of the constants in `small` */
static Node **table;
static size_t nrows, used, changes; /* rows are a power of two; `changes` counts insertions and removals */
static Py_hash_t hash_of(PyObject *op, PyObject *args, PyObject *data) {
    const uint64_t mixer = 0x9E3779B97F4A7C15u;
    uint64_t hash = (uintptr_t)op >> 4;
    for (Py_ssize_t k = PyTuple_GET_SIZE(args); k--;) hash = (hash ^ ((uintptr_t)PyTuple_GET_ITEM(args, k) >> 4)) * mixer;
    Py_hash_t own = data == Py_None ? 0 : PyObject_Hash(data);
    if (own == -1) return -1;
    hash = (hash ^ (uint64_t)own) * mixer, hash ^= hash >> 29;
    return (Py_hash_t)hash == -1 ? -2 : (Py_hash_t)hash;
}
static int resize(size_t size) {
    Node **rows = PyMem_Calloc(size, sizeof *rows);
    if (!rows) return -1;
    for (size_t k = 0; k < nrows; k++)
        for (Node *node = table[k], *next; node; node = next) {
            Node **row = &rows[(size_t)node->hash & (size - 1)];
            next = node->next, node->next = *row, *row = node;
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
    Py_ssize_t n = PyTuple_GET_SIZE(args), turns = 0;
again:
    for (Node *node = nrows ? table[(size_t)hash & (nrows - 1)] : NULL, *next; node; node = next) {
        next = node->next;
        if (node->hash != hash || node->op != op || PyTuple_GET_SIZE(node->args) != n) continue;
        if (!Py_REFCNT(node)) continue; /* it is dying */
        if (memcmp(((PyTupleObject *)node->args)->ob_item, ((PyTupleObject *)args)->ob_item, n * sizeof args)) continue;
        size_t before = changes;
        Py_INCREF(node);
        int same = PyObject_RichCompareBool(node->data, data, Py_EQ);
        if (same > 0) return node;
        Py_DECREF(node);
        if (same < 0) return *failed = 1, NULL;
        if (changes != before && ++turns < 1000) goto again;
        if (changes != before) return *failed = 1, PyErr_SetString(PyExc_RecursionError, "comparing payloads makes nodes"), NULL;
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
    if (changes != before) known = found(hash, op, args, data, &failed);
    if (!known && !failed && used >= nrows && resize(nrows ? nrows * 2 : 4096) < 0) failed = 1, PyErr_NoMemory();
    if (known || failed) return Py_DECREF(node), (PyObject *)known;
    Node **row = &table[(size_t)hash & (nrows - 1)];
    node->hash = hash, node->next = *row, node->interned = 1, *row = node;
    used++, changes++;
    return (PyObject *)node;
}
static PyObject *made(PyObject *const *given, Py_ssize_t n, int interns) { /* (class, operation, arguments, payload) */
    PyTypeObject *cls = n == 4 && PyType_Check(given[0]) ? (PyTypeObject *)given[0] : NULL;
    if (!cls || !PyType_IsSubtype(cls, &StoredType) || !PyTuple_CheckExact(given[2]))
        return PyErr_Format(PyExc_TypeError, "a node has a class, an operation, a tuple of arguments and a payload");
    return interns ? interned(cls, given[1], given[2], given[3]) : (PyObject *)fresh_node(cls, given[1], given[2], given[3]);
}
static PyObject *intern(PyObject *module, PyObject *const *given, Py_ssize_t n) { return made(given, n, 1); }
static PyObject *fresh(PyObject *module, PyObject *const *given, Py_ssize_t n) { return made(given, n, 0); }
static PyObject *count(PyObject *module, PyObject *none) { return PyLong_FromSize_t(used); }
static int traverse(Node *node, visitproc visit, void *arg) {
    for (PyObject **field = &node->op; field < &node->weak; field++) Py_VISIT(*field);
    return 0;
}
static int clear(Node *node) { /* what was given to a new node closes no cycle, what is remembered can */
    for (PyObject **field = node->remembered; field < &node->weak; field++) Py_CLEAR(*field);
    return 0;
}
static void dealloc(Node *node) {
    PyObject_GC_UnTrack(node);
    forget(node);
    if (node->weak) PyObject_ClearWeakRefs((PyObject *)node);
    for (PyObject **field = &node->op; field < &node->weak; field++) Py_CLEAR(*field);
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
static PyObject *operation(int op, PyObject *a, PyObject *b) { /* without `b` of one operand */
    PyObject *x = operand(a), *y = x && b ? operand(b) : NULL, *args = NULL, *node = NULL;
    int divides = op == FLOORDIV || op == FLOORMOD;
    if (!b || (y && !(divides && y == PyTuple_GET_ITEM(small, nsmall)))) { /* the constant 0 is in the middle */
        args = b ? PyTuple_Pack(2, x, y) : PyTuple_Pack(1, x);
        node = args ? interned((PyTypeObject *)term, ops[op], args, Py_None) : NULL;
    } else if (!PyErr_Occurred()) node = PyObject_CallFunctionObjArgs(divides ? divide_ : binary_, ops[op], a, b, NULL);
    Py_XDECREF(args), Py_XDECREF(x), Py_XDECREF(y);
    return node;
}
static PyObject *add(PyObject *a, PyObject *b) { return operation(ADD, a, b); }
static PyObject *subtract(PyObject *a, PyObject *b) { return operation(SUB, a, b); }
static PyObject *multiply(PyObject *a, PyObject *b) { return operation(MUL, a, b); }
static PyObject *floor_divide(PyObject *a, PyObject *b) { return operation(FLOORDIV, a, b); }
static PyObject *floor_modulo(PyObject *a, PyObject *b) { return operation(FLOORMOD, a, b); }
static PyObject *negative(PyObject *a) { return operation(NEG, a, NULL); }
static PyNumberMethods numbers = {.nb_add = add, .nb_subtract = subtract, .nb_multiply = multiply, .nb_negative = negative,
                                  .nb_floor_divide = floor_divide, .nb_remainder = floor_modulo};
#define SLOT(name, field, flags) {name, T_OBJECT_EX, offsetof(Node, field), flags, NULL}
static PyMemberDef members[] = {
    SLOT("op", op, READONLY), SLOT("args", args, READONLY), SLOT("data", data, READONLY),
    SLOT("_below", remembered[0], 0), SLOT("_free", remembered[1], 0), SLOT("_loads", remembered[2], 0),
    SLOT("_number", remembered[3], 0), SLOT("_operations", remembered[4], 0), SLOT("_order", remembered[5], 0),
    SLOT("_partial", remembered[6], 0), SLOT("glance", remembered[7], 0), {NULL}};
static PyTypeObject StoredType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "intset._core.StoredNode", .tp_basicsize = sizeof(Node),
    .tp_weaklistoffset = offsetof(Node, weak),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, .tp_members = members,
    .tp_traverse = (traverseproc)traverse, .tp_clear = (inquiry)clear, .tp_dealloc = (destructor)dealloc};
static PyTypeObject ArithmeticType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "intset._core.Arithmetic", .tp_basicsize = sizeof(Node), .tp_base = &StoredType,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .tp_as_number = &numbers};

/* -- the plain way: a row for each node, by the rules of `intset.plain` -------------------------------------------- */
enum { NODES = 128, DEPTH = 100, BLOCK = 256, STEPS = 1 << 18 }; /* points times nodes of one enumeration */
#define LARGEST ((int64_t)1 << 40) /* of an end: sums and differences of two stay far from overflow */
typedef struct { int64_t low, high, gap, step; uint64_t free; } Row; /* a ValueRow of `intset.plain` */
typedef struct { Node *node; Row row; int op, a, b; } Step; /* operands by number; a negation has b == a */
typedef struct { Step steps[NODES]; int n, nvars, bad; PyObject *ranges; } Walk;
static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t quotient(int64_t a, int64_t c) { return a / c - (a % c < 0); } /* c > 0 */
static int64_t residue(int64_t a, int64_t c) { return a % c < 0 ? a % c + c : a % c; }
static int64_t gcd(int64_t a, int64_t b) {
    for (int64_t c; b; a = b, b = c) c = a % b;
    return a < 0 ? -a : a;
}
static int64_t times(Walk *w, int64_t a, int64_t b) { /* a product too large is 0, and the walk is given up */
    return (double)a * (double)b < 1e18 && (double)a * (double)b > -1e18 ? a * b : (w->bad = 1, 0);
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
static Row divided(Row x, int64_t c) {
    int64_t first = quotient(x.low, c), last = quotient(x.high, c);
    return first < last ? (Row){first, last, -quotient(-x.gap, c), x.step % c ? 1 : x.step / c, x.free} : single(first);
}
static Row remainder_row(Row x, int64_t c) {
    if (quotient(x.low, c) == quotient(x.high, c)) return (Row){residue(x.low, c), residue(x.high, c), x.gap, x.step, x.free};
    int64_t common = gcd(x.step, c), least = residue(x.low, common), most = c - common + least;
    int wraps_once = common == x.step, has_all = (x.high - x.low) / x.step >= c / common - 1;
    int64_t gap = has_all ? common : wraps_once ? greater(x.step, residue(x.low, c) - residue(x.high, c)) : 0;
    return least < most ? (Row){least, most, x.gap == x.step ? gap : 0, common, x.free} : single(least);
}
static Row maximum(Row x, Row y) {
    if (x.low >= y.high || y.low >= x.high) return x.low >= y.high ? x : y;
    int64_t step = gcd(gcd(x.step, y.step), x.low - y.low);
    return joined(greater(x.low, y.low), greater(x.high, y.high), greater(x.gap, y.gap), step, x, y);
}
static Row below(Row x, Row y, int or_equal) { /* the condition x < y or x <= y, as 0 or 1 */
    int always = x.high < y.low + or_equal, never = x.low >= y.high + or_equal;
    return always || never ? single(always) : joined(0, 1, 1, 1, x, y);
}
static Row combined(Walk *w, int op, Row x, Row y) {
    switch (op) {
    case ADD: return sum(x, y);
    case SUB: return y.step ? sum(x, negated(y)) : shifted(x, -y.low);
    case NEG: return negated(x);
    case MUL:
        if (x.step && y.step) w->bad = 1;
        return x.step ? scaled(w, x, y.low) : scaled(w, y, x.low);
    case FLOORDIV: case FLOORMOD:
        if (y.step || y.low <= 0) return w->bad = 1, x;
        return op == FLOORDIV ? divided(x, y.low) : remainder_row(x, y.low);
    case MIN: return negated(maximum(negated(x), negated(y)));
    case MAX: return maximum(x, y);
    default: return below(x, y, op == LE);
    }
}
static int machine_int(PyObject *value, int64_t *number) {
    int over = 1;
    *number = PyLong_Check(value) ? PyLong_AsLongLongAndOverflow(value, &over) : 0;
    return !over && -LARGEST <= *number && *number <= LARGEST;
}
/* The row of a variable from its range; 0 where it has none of numbers. */
static int variable_row(Walk *w, Node *node, Row *row) {
    PyObject *range = !PyObject_TypeCheck(node, (PyTypeObject *)shape_var) ? PyDict_GetItemWithError(w->ranges, (PyObject *)node) : NULL;
    PyObject *ends = range ? PyObject_GetAttr(range, ends_name) : NULL;
    int64_t low = 1, high = 0;
    int plain = ends && PyTuple_CheckExact(ends) && PyTuple_GET_SIZE(ends) == 2 && machine_int(PyTuple_GET_ITEM(ends, 0), &low) &&
                machine_int(PyTuple_GET_ITEM(ends, 1), &high);
    Py_XDECREF(ends);
    if (!plain || low > high || w->nvars == 64) return 0;
    return *row = low < high ? (Row){low, high, 1, 1, (uint64_t)1 << w->nvars++} : single(low), 1;
}
/* The number of the step for a node, or -1 where Python has to look at it. */
static int step_of(Walk *w, PyObject *object, int depth) {
    Node *node = (Node *)object;
    for (int k = w->n; k-- > 0;) if (w->steps[k].node == node) return k;
    if (depth > DEPTH || w->n == NODES || !PyObject_TypeCheck(object, &StoredType) || !node->op || !node->args) return -1;
    Step step = {.node = node};
    while (step.op < OPS && ops[step.op] != node->op) step.op++;
    if (step.op == CONST || step.op == VAR) {
        if (!(step.op == CONST ? machine_int(node->data, &step.row.low) : variable_row(w, node, &step.row))) return -1;
        if (step.op == CONST) step.row = single(step.row.low);
    } else {
        Py_ssize_t n = PyTuple_GET_SIZE(node->args), swap = step.op == GT || step.op == GE;
        if (step.op == OPS || n != (step.op == NEG ? 1 : 2)) return -1;
        int a = step_of(w, PyTuple_GET_ITEM(node->args, 0), depth + 1);
        int b = a < 0 ? a : step_of(w, PyTuple_GET_ITEM(node->args, n - 1), depth + 1);
        if (b < 0) return -1;
        step.a = swap ? b : a, step.b = swap ? a : b, step.op -= swap ? GT - LT : 0;
        Row row = step.row = combined(w, step.op, w->steps[step.a].row, w->steps[step.b].row);
        if (w->bad || row.low < -LARGEST || row.high > LARGEST || row.gap > 2 * LARGEST || row.step > 2 * LARGEST) return -1;
    }
    if (w->n == NODES) return -1;
    w->steps[w->n] = step;
    return w->n++;
}
#define EACH(value) for (int i = 0; i < m; i++) out[i] = (value); break
static void evaluate(const Walk *w, int k, int32_t (*values)[BLOCK], int m) {
    const int op = w->steps[k].op, a = w->steps[k].a, divides = op == FLOORDIV || op == FLOORMOD;
    const int32_t *x = values[a], *y = values[w->steps[k].b], c = divides ? y[0] : 1;
    const int32_t first = (int32_t)quotient(w->steps[a].row.low, c);
    const double inverse = 1.0 / c; /* (v + 0.5) * inverse truncates to v // c for 0 <= v < 2**31 */
    int32_t *out = values[k];
    switch (op) {
    case ADD: EACH(x[i] + y[i]);
    case SUB: EACH(x[i] - y[i]);
    case MUL: EACH(x[i] * y[i]);
    case NEG: EACH(-x[i]);
    case FLOORDIV: EACH(first + (int32_t)((x[i] - first * c + 0.5) * inverse));
    case FLOORMOD: EACH(x[i] - c * (first + (int32_t)((x[i] - first * c + 0.5) * inverse)));
    case MIN: EACH(x[i] < y[i] ? x[i] : y[i]);
    case MAX: EACH(x[i] > y[i] ? x[i] : y[i]);
    case LT: EACH(x[i] < y[i]);
    default: EACH(x[i] <= y[i]);
    }
}

/* The least p found with f(v + p) == f(v) + k for the node `f` at the root and the variable `v`, or its extent; `*growth`: k. */
static int64_t period_of(const Walk *w, int v, int root, const char *needed, int64_t *growth) {
    const int64_t extent = w->steps[v].row.high - w->steps[v].row.low + 1;
    int64_t period = 1, grown[NODES] = {0}; /* over a period, for each node */
    grown[v] = 1;
    for (int k = v + 1; k <= root; k++) {
        const Step *step = &w->steps[k];
        const Row a = w->steps[step->a].row, b = w->steps[step->b].row;
        if (!needed[k] || !step->row.step || step->op == VAR) continue;
        if ((step->op == FLOORDIV || step->op == FLOORMOD) && grown[step->a] % b.low) {
            int64_t more = b.low / gcd(grown[step->a], b.low);
            if (more > (extent - 1) / period) return extent;
            for (int i = v; i < k; i++) grown[i] *= more;
            period *= more;
        }
        int64_t x = grown[step->a], y = grown[step->b];
        switch (step->op) {
        case ADD: grown[k] = x + y; break;
        case SUB: grown[k] = x - y; break;
        case NEG: grown[k] = -x; break;
        case MUL: grown[k] = b.step ? y * a.low : x * b.low; break;
        case FLOORDIV: case FLOORMOD: grown[k] = step->op == FLOORDIV ? x / b.low : 0; break;
        default: if (x || y) return extent; /* MIN, MAX, LT, LE */
        }
    }
    return *growth = grown[root], period;
}
/* The least and greatest value, over a first or last period of each variable, where the ends are; 0 beyond the budgets. */
static int enumerated(Walk *w, int root, int64_t most, int64_t *least, int64_t *greatest) {
    static int32_t values[NODES][BLOCK]; /* guarded by the interpreter's lock */
    int64_t first[2][64], extents[64], points = 1; /* of a box with the least and one with the greatest value */
    int axes[64], at[64], naxes = 0, n = 0, is_one_box = 1;
    char needed[NODES] = {0};
    for (int k = root; k >= 0; k--) {
        const Step *step = &w->steps[k];
        if (!(needed[k] |= k == root)) continue;
        if (step->row.low < -(1 << 29) || step->row.high > 1 << 29) return 0;
        n++;
        if (!step->row.step) for (int i = 0; i < BLOCK; i++) values[k][i] = (int32_t)step->row.low;
        else if (step->op != VAR) needed[step->a] = needed[step->b] = 1;
        else axes[naxes++] = k;
    }
    for (int j = 0; j < naxes; j++) {
        const Row var = w->steps[axes[j]].row;
        int64_t growth = 0, extent = extents[j] = period_of(w, axes[j], root, needed, &growth);
        first[growth < 0][j] = var.low, first[growth >= 0][j] = growth ? var.high - extent + 1 : var.low;
        points *= lesser(extent, STEPS + 1), is_one_box &= !growth;
        if (points > most || points * n > STEPS) return 0;
    }
    *least = INT32_MAX, *greatest = INT32_MIN;
    for (int box = 0; box < 2 - is_one_box; box++) {
        for (int j = 0; j < naxes; j++) at[j] = (int)first[box][j];
        for (int64_t done = 0; done < points; done += BLOCK) {
            int m = (int)lesser(BLOCK, points - done);
            for (int i = 0; i < m; i++)
                for (int j = 0, carry = 1; j < naxes; j++) { /* the next point in lexicographic order */
                    values[axes[j]][i] = at[j];
                    if (carry && (carry = ++at[j] == first[box][j] + extents[j])) at[j] = (int)first[box][j];
                }
            for (int k = 0; k <= root; k++)
                if (needed[k] && w->steps[k].row.step && w->steps[k].op != VAR) evaluate(w, k, values, m);
            for (int i = 0; i < m; i++) *least = lesser(*least, values[root][i]), *greatest = greater(*greatest, values[root][i]);
            if (*least == w->steps[root].row.low && *greatest == w->steps[root].row.high) return 1;
        }
    }
    return 1;
}
/* ends(root, ranges, points): as `intset.plain.ends`; None where Python has to look at it. */
static PyObject *ends(PyObject *module, PyObject *const *given, Py_ssize_t n) {
    Walk w;
    int64_t most;
    if (n != 3 || !shape_var || !PyDict_CheckExact(given[1]) || !PyLong_Check(given[2])) Py_RETURN_NONE;
    if (!machine_int(given[2], &most)) most = LARGEST;
    w.n = w.nvars = w.bad = 0, w.ranges = given[1];
    int root = step_of(&w, given[0], 0);
    if (root < 0) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Row row = w.steps[root].row;
    int64_t low = row.low, high = row.high;
    if (!row.gap && !enumerated(&w, root, most, &low, &high)) Py_RETURN_NONE;
    return Py_BuildValue("(LLN)", (long long)low, (long long)high, PyBool_FromLong(low == row.low && high == row.high));
}

/* bind(term, shape_var, small, binary, divide, operations): what nodes are made of, from `intset.expr.node`. */
static PyObject *bind(PyObject *module, PyObject *args) {
    PyObject *given[6], *tuple = (PyObject *)&PyTuple_Type;
    if (!PyArg_ParseTuple(args, "OOO!OOO!", given, given + 1, tuple, given + 2, given + 3, given + 4, tuple, given + 5)) return NULL;
    if (PyTuple_GET_SIZE(given[5]) != OPS) return PyErr_Format(PyExc_TypeError, "bind takes %d operations", OPS);
    PyObject **held[] = {&term, &shape_var, &small, &binary_, &divide_};
    for (int k = 0; k < 5; k++) Py_XSETREF(*held[k], Py_NewRef(given[k]));
    for (int k = 0; k < OPS; k++) Py_XSETREF(ops[k], Py_NewRef(PyTuple_GET_ITEM(given[5], k)));
    nsmall = PyTuple_GET_SIZE(small) / 2;
    Py_RETURN_NONE;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef functions[] = {
    FAST(intern), FAST(fresh), FAST(ends), {"count", count, METH_NOARGS, NULL}, {"bind", bind, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "intset._core", NULL, -1, functions};
PyMODINIT_FUNC PyInit__core(void) {
    StoredType.tp_new = PyBaseObject_Type.tp_new;
    if (!(no_args = PyTuple_New(0)) || !(ends_name = PyUnicode_InternFromString("ends"))) return NULL;
    if (PyType_Ready(&StoredType) < 0 || PyType_Ready(&ArithmeticType) < 0) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddIntConstant(module, "revision", 2) < 0) return NULL;
    if (PyModule_AddObjectRef(module, "StoredNode", (PyObject *)&StoredType) < 0) return NULL;
    return PyModule_AddObjectRef(module, "Arithmetic", (PyObject *)&ArithmeticType) < 0 ? NULL : module;
}
