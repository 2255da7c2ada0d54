/* Hand-written: relu(x + conv(relu(conv(x) + b1)) + b2), both 3 x 3 with a border of zeros, seven rows at a time. */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define C 32
#define S 56
#define P (S + 2)
#define R 7
#define BUFFER (C * P * (R + 4) + C * S * (R + 2) + C * P * (R + 2) + C * S * R)

static void conv(const float *restrict in, const float *restrict w, float *restrict out, int first, int last, int rows) {
    for (int k = 0; k < C; ++k)
        for (int y = first; y < last; ++y) {
            float *restrict o = out + (k * rows + y) * S;
            for (int x = 0; x < S; ++x) o[x] = 0.0f;
            for (int c = 0; c < C; ++c)
                for (int ry = 0; ry < 3; ++ry) {
                    const float *restrict a = in + (c * (rows + 2) + y + ry) * P, *restrict f = w + ((k * C + c) * 3 + ry) * 3;
                    for (int x = 0; x < S; ++x) o[x] += a[x] * f[0];
                    for (int x = 0; x < S; ++x) o[x] += a[x + 1] * f[1];
                    for (int x = 0; x < S; ++x) o[x] += a[x + 2] * f[2];
                }
        }
}

int hand(const float *restrict data, const float *restrict w1, const float *restrict b1, const float *restrict w2,
         const float *restrict b2, float *restrict out) {
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * BUFFER * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int yo = 0; yo < S; yo += R) {
#ifdef PARALLEL
        float *own = buffers + (int64_t)BUFFER * omp_get_thread_num();
#else
        float *own = buffers;
#endif
        float *restrict pad1 = own, *restrict conv1 = pad1 + C * P * (R + 4), *restrict pad2 = conv1 + C * S * (R + 2);
        float *restrict conv2 = pad2 + C * P * (R + 2);
        /* the rows of the first convolution that are inside the image */
        const int first = yo == 0 ? 1 : 0, last = yo + R == S ? R + 1 : R + 2;
        for (int c = 0; c < C; ++c)
            for (int y = first; y < last + 2; ++y) {
                float *restrict row = pad1 + (c * (R + 4) + y) * P;
                const int from = yo + y - 2;
                if (from < 0 || from >= S) {
                    for (int x = 0; x < P; ++x) row[x] = 0.0f;
                } else {
                    row[0] = row[P - 1] = 0.0f;
                    for (int x = 0; x < S; ++x) row[x + 1] = data[(c * S + from) * S + x];
                }
            }
        conv(pad1, w1, conv1, first, last, R + 2);
        for (int c = 0; c < C; ++c)
            for (int y = 0; y < R + 2; ++y) {
                float *restrict row = pad2 + (c * (R + 2) + y) * P;
                if (y < first || y >= last) {
                    for (int x = 0; x < P; ++x) row[x] = 0.0f;
                } else {
                    row[0] = row[P - 1] = 0.0f;
                    for (int x = 0; x < S; ++x) {
                        const float v = conv1[(c * (R + 2) + y) * S + x] + b1[c];
                        row[x + 1] = v > 0.0f ? v : 0.0f;
                    }
                }
            }
        conv(pad2, w2, conv2, 0, R, R);
        for (int k = 0; k < C; ++k)
            for (int y = 0; y < R; ++y)
                for (int x = 0; x < S; ++x) {
                    const int at = (k * S + yo + y) * S + x;
                    const float v = conv2[(k * R + y) * S + x] + b2[k] + data[at];
                    out[at] = v > 0.0f ? v : 0.0f;
                }
    }
    free(buffers);
    return 0;
}
