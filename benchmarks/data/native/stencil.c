/* Hand-written: ten stages on H x W in tiles of 32 x 256, the two buffers of a tile taken once. CROSS or square. */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define STAGES 10
#define TY 32
#define TX 256

static inline int smaller(int a, int b) { return a < b ? a : b; }

static void stage(const float *restrict in, int si, float *restrict out, int so, int h, int w) {
    for (int y = 0; y < h; ++y) {
        const float *restrict a = in + (int64_t)y * si, *restrict b = a + si, *restrict c = b + si;
        float *restrict o = out + (int64_t)y * so;
        for (int x = 0; x < w; ++x) {
#ifdef CROSS
            o[x] = ((((a[x + 1] + b[x]) + b[x + 1]) + b[x + 2]) + c[x + 1]) * 0.2f;
#else
            o[x] = ((((((((a[x] + a[x + 1]) + a[x + 2]) + b[x]) + b[x + 1]) + b[x + 2]) + c[x]) + c[x + 1]) + c[x + 2])
                   * 0.111111111111111f;
#endif
        }
    }
}

int hand(const float *restrict A, float *restrict out, int H, int W) {
    const int rows = TY + 2 * STAGES, cols = TX + 2 * STAGES;
#ifdef PARALLEL
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    float *all = malloc(sizeof(float) * 2 * rows * cols * threads);
    if (all == NULL) return -1;
    const int h = H - 2 * STAGES, w = W - 2 * STAGES;
#ifdef PARALLEL
#pragma omp parallel for
#endif
    for (int y = 0; y < h; y += TY) {
#ifdef PARALLEL
        float *buffers = all + (int64_t)2 * rows * cols * omp_get_thread_num();
#else
        float *buffers = all;
#endif
        for (int x = 0; x < w; x += TX) {
            const int th = smaller(TY, h - y), tw = smaller(TX, w - x);
            const float *in = A + (int64_t)y * W + x;
            int stride = W;
            for (int k = 0; k < STAGES; ++k) {
                const int left = 2 * (STAGES - 1 - k), is_last = k == STAGES - 1;
                float *to = is_last ? out + (int64_t)y * w + x : buffers + (k % 2) * rows * cols;
                stage(in, stride, to, is_last ? w : cols, th + left, tw + left);
                in = to, stride = cols;
            }
        }
    }
    free(all);
    return 0;
}
