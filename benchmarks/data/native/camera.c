/* Hand-written: raw values cleaned, taken apart to four planes of half the size, filled in, put together and corrected,
   in strips of 32 rows of H x W, both even. */
#include <stdint.h>
#include <stdlib.h>
#ifdef PARALLEL
#include <omp.h>
#endif

#define R 32
#define Q (R / 2 + 1)

static inline float least(float a, float b) { return a < b ? a : b; }
static inline float most(float a, float b) { return a > b ? a : b; }

int hand(const float *restrict raw, float *restrict out, int H, int W) {
    const int hw = W / 2 + 1, rw = W + 8, cw = 2 * hw;
    const int64_t buffer = (int64_t)2 * Q * cw + 6 * Q * hw + 3 * R * W;
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
        float *restrict clean = own, *restrict gr = clean + 2 * Q * cw, *restrict r = gr + Q * hw, *restrict b = r + Q * hw;
        float *restrict gb = b + Q * hw, *restrict g_r = gb + Q * hw, *restrict g_b = g_r + Q * hw;
        float *restrict red = g_b + Q * hw, *restrict green = red + R * W, *restrict blue = green + R * W;
        for (int y = 0; y < 2 * Q; ++y) {
            const float *restrict a = raw + (int64_t)(yo + y) * rw, *restrict c = a + 2 * rw, *restrict e = a + 4 * rw;
            for (int x = 0; x < cw; ++x) {
                const float low = least(least(least(a[x + 2], e[x + 2]), c[x]), c[x + 4]);
                const float high = most(most(most(a[x + 2], e[x + 2]), c[x]), c[x + 4]);
                clean[y * cw + x] = most(least(c[x + 2], high), low);
            }
        }
        for (int y = 0; y < Q; ++y) {
            const float *restrict a = clean + 2 * y * cw, *restrict c = a + cw;
            for (int x = 0; x < hw; ++x) gr[y * hw + x] = a[2 * x];
            for (int x = 0; x < hw; ++x) r[y * hw + x] = a[2 * x + 1];
            for (int x = 0; x < hw; ++x) b[y * hw + x] = c[2 * x];
            for (int x = 0; x < hw; ++x) gb[y * hw + x] = c[2 * x + 1];
        }
        for (int y = 0; y < Q - 1; ++y) {
            for (int x = 0; x < hw - 1; ++x) g_r[y * hw + x] = (gr[y * hw + x] + gr[y * hw + x + 1]) * 0.5f;
            for (int x = 0; x < hw - 1; ++x) g_b[y * hw + x] = (gb[y * hw + x] + gb[(y + 1) * hw + x]) * 0.5f;
        }
        for (int y = 0; y < Q - 1; ++y) {
            const float *restrict r0 = r + y * hw, *restrict r1 = r0 + hw, *restrict b0 = b + y * hw, *restrict b1 = b0 + hw;
            float *restrict red0 = red + 2 * y * W, *restrict red1 = red0 + W, *restrict blue0 = blue + 2 * y * W;
            float *restrict blue1 = blue0 + W, *restrict green0 = green + 2 * y * W, *restrict green1 = green0 + W;
            for (int x = 0; x < W / 2; ++x) {
                red0[2 * x] = (r0[x] + r0[x + 1]) * 0.5f;
                red0[2 * x + 1] = r0[x];
            }
            for (int x = 0; x < W / 2; ++x) {
                red1[2 * x] = (r0[x] + r1[x]) * 0.5f;
                red1[2 * x + 1] = (r0[x] + r1[x + 1]) * 0.5f;
            }
            for (int x = 0; x < W / 2; ++x) {
                green0[2 * x] = gr[y * hw + x];
                green0[2 * x + 1] = g_r[y * hw + x];
            }
            for (int x = 0; x < W / 2; ++x) {
                green1[2 * x] = g_b[y * hw + x];
                green1[2 * x + 1] = gb[y * hw + x];
            }
            for (int x = 0; x < W / 2; ++x) {
                blue0[2 * x] = (b0[x] + b1[x]) * 0.5f;
                blue0[2 * x + 1] = (b0[x] + b1[x + 1]) * 0.5f;
            }
            for (int x = 0; x < W / 2; ++x) {
                blue1[2 * x] = b0[x];
                blue1[2 * x + 1] = (b0[x] + b0[x + 1]) * 0.5f;
            }
        }
        static const float m[3][3] = {{1.6f, -0.4f, -0.2f}, {-0.3f, 1.5f, -0.2f}, {-0.1f, -0.5f, 1.6f}};
        for (int c = 0; c < 3; ++c)
            for (int y = 0; y < R; ++y) {
                float *restrict o = out + ((int64_t)c * H + yo + y) * W;
                for (int x = 0; x < W; ++x) {
                    const float v = (red[y * W + x] * m[c][0] + green[y * W + x] * m[c][1]) + blue[y * W + x] * m[c][2];
                    o[x] = most(least(v, 1.0f), 0.0f);
                }
            }
    }
    free(buffers);
    return 0;
}
