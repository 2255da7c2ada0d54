/* Hand-written: a direct convolution 3 x 3 of C channels of S x S with a border of zeros.
   The padded image is stored as a whole, for four rows (ROWS), or the borders are loops of their own (INLINE). */
#include <stdint.h>
#include <stdlib.h>

#define C 32
#define S 56
#define P (S + 2)
#define R 4

#ifndef INLINE
static void pad(const float *restrict in, float *restrict to, int first, int rows) {
    for (int c = 0; c < C; ++c)
        for (int y = first; y < first + rows; ++y) {
            float *restrict row = to + (c * rows + y - first) * P;
            if (y < 1 || y > S) {
                for (int x = 0; x < P; ++x) row[x] = 0.0f;
            } else {
                const float *restrict from = in + (c * S + y - 1) * S;
                row[0] = row[P - 1] = 0.0f;
                for (int x = 0; x < S; ++x) row[x + 1] = from[x];
            }
        }
}

static inline void row_of(const float *restrict in, const float *restrict w, float *restrict o, int rows) {
    for (int x = 0; x < S; ++x) o[x] = 0.0f;
    for (int c = 0; c < C; ++c)
        for (int ry = 0; ry < 3; ++ry) {
            const float *restrict a = in + (c * rows + ry) * P, *restrict f = w + c * 9 + ry * 3;
            for (int x = 0; x < S; ++x) o[x] += a[x] * f[0];
            for (int x = 0; x < S; ++x) o[x] += a[x + 1] * f[1];
            for (int x = 0; x < S; ++x) o[x] += a[x + 2] * f[2];
        }
}
#endif

#ifdef ROWS
#ifdef PARALLEL
#include <omp.h>
#endif
int hand(const float *restrict in, const float *restrict w, float *restrict out) {
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * C * (R + 2) * P * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int yo = 0; yo < S / R; ++yo) {
#ifdef PARALLEL
        float *restrict to = buffers + C * (R + 2) * P * omp_get_thread_num();
#else
        float *restrict to = buffers;
#endif
        pad(in, to, yo * R, R + 2);
        for (int k = 0; k < C; ++k)
            for (int y = 0; y < R; ++y)
                row_of(to + y * P, w + k * C * 9, out + (k * S + yo * R + y) * S, R + 2);
    }
    free(buffers);
    return 0;
}
#elif defined(INLINE)
int hand(const float *restrict in, const float *restrict w, float *restrict out) {
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int k = 0; k < C; ++k)
        for (int y = 0; y < S; ++y) {
            float *restrict o = out + (k * S + y) * S;
            const int first = y == 0 ? 1 : 0, last = y == S - 1 ? 2 : 3;
            for (int x = 0; x < S; ++x) o[x] = 0.0f;
            for (int c = 0; c < C; ++c)
                for (int ry = first; ry < last; ++ry) {
                    const float *restrict a = in + (c * S + y + ry - 1) * S, *restrict f = w + ((k * C + c) * 3 + ry) * 3;
                    for (int x = 1; x < S; ++x) o[x] += a[x - 1] * f[0];
                    for (int x = 0; x < S; ++x) o[x] += a[x] * f[1];
                    for (int x = 0; x < S - 1; ++x) o[x] += a[x + 1] * f[2];
                }
        }
    return 0;
}
#else
int hand(const float *restrict in, const float *restrict w, float *restrict out) {
    float *restrict padded = malloc(sizeof(float) * C * P * P);
    if (padded == NULL) return -1;
    pad(in, padded, 0, P);
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int k = 0; k < C; ++k)
        for (int y = 0; y < S; ++y) row_of(padded + y * P, w + k * C * 9, out + (k * S + y) * S, P);
    free(padded);
    return 0;
}
#endif
