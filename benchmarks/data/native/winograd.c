/* Hand-written: F(2, 3) of C channels of S x S with a border of zeros: the transforms written as sums over constant
   matrices, every product of the definition in it. */
#include <stdint.h>
#include <stdlib.h>

#define C 32
#define S 56
#define P (S + 2)
#define T (S / 2)

static const float B[4][4] = {{1, 0, 0, 0}, {0, 1, -1, 1}, {-1, 1, 1, 0}, {0, 0, 0, -1}};
static const float G[4][3] = {{1, 0, 0}, {0.5f, 0.5f, 0.5f}, {0.5f, -0.5f, 0.5f}, {0, 0, 1}};
static const float A[4][2] = {{1, 0}, {1, 1}, {1, -1}, {0, -1}};

int hand(const float *restrict data, const float *restrict w, float *restrict out) {
    float *buffers = malloc(sizeof(float) * (C * P * P + 16 * C * C + 32 * C * T * T));
    if (buffers == NULL) return -1;
    float *restrict pad = buffers, *restrict U = pad + C * P * P, *restrict V = U + 16 * C * C;
    float *restrict M = V + 16 * C * T * T;
    for (int c = 0; c < C; ++c)
        for (int y = 0; y < P; ++y) {
            float *restrict row = pad + (c * P + y) * P;
            if (y < 1 || y > S) {
                for (int x = 0; x < P; ++x) row[x] = 0.0f;
            } else {
                row[0] = row[P - 1] = 0.0f;
                for (int x = 0; x < S; ++x) row[x + 1] = data[(c * S + y - 1) * S + x];
            }
        }
    for (int k = 0; k < C; ++k)
        for (int c = 0; c < C; ++c)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) {
                    float sum = 0.0f;
                    for (int r = 0; r < 3; ++r)
                        for (int t = 0; t < 3; ++t) sum += w[((k * C + c) * 3 + r) * 3 + t] * G[i][r] * G[j][t];
                    U[((i * 4 + j) * C + k) * C + c] = sum;
                }
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int c = 0; c < C; ++c)
        for (int p = 0; p < T; ++p)
            for (int q = 0; q < T; ++q)
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j) {
                        float sum = 0.0f;
                        for (int m = 0; m < 4; ++m)
                            for (int n = 0; n < 4; ++n)
                                sum += pad[(c * P + 2 * p + m) * P + 2 * q + n] * B[m][i] * B[n][j];
                        V[(((i * 4 + j) * C + c) * T + p) * T + q] = sum;
                    }
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < C; ++k) {
            float *restrict m = M + (i * C + k) * T * T;
            for (int x = 0; x < T * T; ++x) m[x] = 0.0f;
            for (int c = 0; c < C; ++c) {
                const float u = U[(i * C + k) * C + c], *restrict v = V + (i * C + c) * T * T;
                for (int x = 0; x < T * T; ++x) m[x] += u * v[x];
            }
        }
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int k = 0; k < C; ++k)
        for (int p = 0; p < T; ++p)
            for (int q = 0; q < T; ++q)
                for (int y = 0; y < 2; ++y)
                    for (int x = 0; x < 2; ++x) {
                        float sum = 0.0f;
                        for (int o = 0; o < 4; ++o)
                            for (int r = 0; r < 4; ++r)
                                sum += M[(((o * 4 + r) * C + k) * T + p) * T + q] * A[o][y] * A[r][x];
                        out[(k * S + 2 * p + y) * S + 2 * q + x] = sum;
                    }
    free(buffers);
    return 0;
}
