/* Hand-written: a convolution 3 x 3 of each of C channels of S x S with a border of zeros.
   The padded channel is stored first, or the borders are loops of their own (INLINE). */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define C 128
#define S 112
#define P (S + 2)

#ifdef INLINE
int hand(const float *restrict in, const float *restrict w, float *restrict out) {
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int c = 0; c < C; ++c)
        for (int y = 0; y < S; ++y) {
            float *restrict o = out + (c * S + y) * S;
            for (int x = 0; x < S; ++x) o[x] = 0.0f;
            for (int ry = y == 0 ? 1 : 0; ry < (y == S - 1 ? 2 : 3); ++ry) {
                const float *restrict a = in + (c * S + y + ry - 1) * S, *restrict f = w + c * 9 + ry * 3;
                for (int x = 1; x < S; ++x) o[x] += a[x - 1] * f[0];
                for (int x = 0; x < S; ++x) o[x] += a[x] * f[1];
                for (int x = 0; x < S - 1; ++x) o[x] += a[x + 1] * f[2];
            }
        }
    return 0;
}
#else
static void conv(const float *restrict padded, const float *restrict w, float *restrict out) {
    for (int y = 0; y < S; ++y) {
        float *restrict o = out + y * S;
        for (int x = 0; x < S; ++x) o[x] = 0.0f;
        for (int ry = 0; ry < 3; ++ry) {
            const float *restrict a = padded + (y + ry) * P, *restrict f = w + ry * 3;
            for (int x = 0; x < S; ++x) o[x] += a[x] * f[0];
            for (int x = 0; x < S; ++x) o[x] += a[x + 1] * f[1];
            for (int x = 0; x < S; ++x) o[x] += a[x + 2] * f[2];
        }
    }
}

int hand(const float *restrict in, const float *restrict w, float *restrict out) {
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * P * P * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int c = 0; c < C; ++c) {
#ifdef PARALLEL
        float *restrict padded = buffers + P * P * omp_get_thread_num();
#else
        float *restrict padded = buffers;
#endif
        for (int x = 0; x < P; ++x) padded[x] = padded[(P - 1) * P + x] = 0.0f;
        for (int y = 1; y <= S; ++y) {
            padded[y * P] = padded[y * P + P - 1] = 0.0f;
            for (int x = 0; x < S; ++x) padded[y * P + x + 1] = in[(c * S + y - 1) * S + x];
        }
        conv(padded, w + c * 9, out + c * S * S);
    }
    free(buffers);
    return 0;
}
#endif
