/* Hand-written: a 3 x 3 box blur in two passes on H x W, in strips of 32 rows, the rows of a strip blurred first. */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define TY 32

int hand(const float *restrict A, float *restrict out, int H, int W) {
    const int h = H - 2, w = W - 2;
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *buffers = malloc(sizeof(float) * (TY + 2) * w * threads);
    if (buffers == NULL) return -1;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int y = 0; y < h; y += TY) {
#ifdef PARALLEL
        float *restrict rows = buffers + (int64_t)(TY + 2) * w * omp_get_thread_num();
#else
        float *restrict rows = buffers;
#endif
        const int n = TY < h - y ? TY : h - y;
        for (int i = 0; i < n + 2; ++i)
            for (int x = 0; x < w; ++x) {
                const float *restrict a = A + (int64_t)(y + i) * W + x;
                rows[(int64_t)i * w + x] = ((a[0] + a[1]) + a[2]) * 0.333333333333333f;
            }
        for (int i = 0; i < n; ++i)
            for (int x = 0; x < w; ++x) {
                const float *restrict r = rows + (int64_t)i * w + x;
                out[(int64_t)(y + i) * w + x] = ((r[0] + r[w]) + r[2 * w]) * 0.333333333333333f;
            }
    }
    free(buffers);
    return 0;
}
