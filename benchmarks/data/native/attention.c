/* Hand-written: softmax(Q K' / 8) V for H heads, the scores of R rows at a time. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define H 4
#define D 64
#define R 16

int hand(const float *restrict Q, const float *restrict KT, const float *restrict V, float *restrict out, int L) {
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * R * (2 * L + D) * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int h = 0; h < H; ++h) {
#ifdef PARALLEL
        float *own = buffers + (int64_t)R * (2 * L + D) * omp_get_thread_num();
#else
        float *own = buffers;
#endif
        float *restrict S = own, *restrict E = S + R * L, *restrict O = E + R * L;
        float top[R], total[R];
        for (int io = 0; io < L; io += R) {
            for (int i = 0; i < R; ++i) {
                float *restrict s = S + i * L;
                for (int j = 0; j < L; ++j) s[j] = 0.0f;
                for (int d = 0; d < D; ++d) {
                    const float q = Q[(h * L + io + i) * D + d], *restrict k = KT + (h * D + d) * L;
                    for (int j = 0; j < L; ++j) s[j] += q * k[j];
                }
            }
            for (int i = 0; i < R; ++i) {
                top[i] = -INFINITY;
                for (int j = 0; j < L; ++j) top[i] = top[i] > S[i * L + j] ? top[i] : S[i * L + j];
            }
            for (int i = 0; i < R; ++i)
                for (int j = 0; j < L; ++j) E[i * L + j] = expf((S[i * L + j] - top[i]) * 0.125f);
            for (int i = 0; i < R; ++i) {
                total[i] = 0.0f;
                for (int j = 0; j < L; ++j) total[i] += E[i * L + j];
            }
            for (int i = 0; i < R; ++i) {
                float *restrict o = O + i * D;
                for (int e = 0; e < D; ++e) o[e] = 0.0f;
                for (int j = 0; j < L; ++j) {
                    const float w = E[i * L + j], *restrict v = V + (h * L + j) * D;
                    for (int e = 0; e < D; ++e) o[e] += w * v[e];
                }
            }
            for (int i = 0; i < R; ++i)
                for (int e = 0; e < D; ++e) out[(h * L + io + i) * D + e] = O[i * D + e] / total[i];
        }
    }
    free(buffers);
    return 0;
}
