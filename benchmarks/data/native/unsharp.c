/* Hand-written: three channels of H x W (and a border of 2) sharpened by what a blur of their grey leaves out, in strips
   of 32 rows. */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define R 32

int hand(const float *restrict A, float *restrict out, int H, int W) {
    const int w4 = W + 4;
    const int64_t plane = (int64_t)(H + 4) * w4, buffer = (int64_t)(R + 4) * w4 + R * w4 + R * W;
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * buffer * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int yo = 0; yo < H; yo += R) {
#ifdef PARALLEL
        float *own = buffers + buffer * omp_get_thread_num();
#else
        float *own = buffers;
#endif
        float *restrict grey = own, *restrict down = grey + (R + 4) * w4, *restrict ratio = down + R * w4;
        const int n = R < H - yo ? R : H - yo;
        for (int y = 0; y < n + 4; ++y) {
            const float *restrict a = A + (int64_t)(yo + y) * w4, *restrict b = a + plane, *restrict c = b + plane;
            for (int x = 0; x < w4; ++x) grey[y * w4 + x] = (a[x] * 0.299f + b[x] * 0.587f) + c[x] * 0.114f;
        }
        for (int y = 0; y < n; ++y) {
            const float *restrict g = grey + y * w4;
            for (int x = 0; x < w4; ++x)
                down[y * w4 + x] = (((g[x] * 0.0625f + g[x + w4] * 0.25f) + g[x + 2 * w4] * 0.375f)
                                    + g[x + 3 * w4] * 0.25f) + g[x + 4 * w4] * 0.0625f;
        }
        for (int y = 0; y < n; ++y) {
            const float *restrict d = down + y * w4, *restrict g = grey + (y + 2) * w4 + 2;
            for (int x = 0; x < W; ++x) {
                const float blurred = (((d[x] * 0.0625f + d[x + 1] * 0.25f) + d[x + 2] * 0.375f)
                                       + d[x + 3] * 0.25f) + d[x + 4] * 0.0625f;
                ratio[y * W + x] = (g[x] * 2.0f - blurred) / g[x];
            }
        }
        for (int c = 0; c < 3; ++c)
            for (int y = 0; y < n; ++y) {
                const float *restrict a = A + c * plane + (int64_t)(yo + y + 2) * w4 + 2, *restrict r = ratio + y * W;
                float *restrict o = out + ((int64_t)c * H + yo + y) * W;
                for (int x = 0; x < W; ++x) o[x] = r[x] * a[x];
            }
    }
    free(buffers);
    return 0;
}
