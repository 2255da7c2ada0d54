/* Hand-written: C = A B, float32, all three N x N, in tiles of 32 rows and 64 columns, 16 of the sum at a time. */
#include <stdint.h>

#define TY 32
#define TX 64
#define TK 16

/* One row of tiles: a function of its own, as compilers forget `restrict` in a parallel region. */
static inline void rows(const float *restrict A, const float *restrict B, float *restrict C, int N, int y) {
    for (int x = 0; x < N; x += TX) {
        for (int i = y; i < y + TY; ++i)
            for (int j = x; j < x + TX; ++j) C[(int64_t)i * N + j] = 0.0f;
        for (int ko = 0; ko < N; ko += TK)
            for (int i = y; i < y + TY; ++i)
                for (int k = ko; k < ko + TK; ++k) {
                    const float a = A[(int64_t)i * N + k];
                    for (int j = x; j < x + TX; ++j) C[(int64_t)i * N + j] += a * B[(int64_t)k * N + j];
                }
    }
}

int hand(const float *restrict A, const float *restrict B, float *restrict C, int N) {
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int y = 0; y < N; y += TY) rows(A, B, C, N, y);
    return 0;
}
