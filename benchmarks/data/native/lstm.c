/* Hand-written: an LSTM of T steps, N rows, H hidden values; the inputs are multiplied already, gates are i, g, f, o. */
#include <math.h>
#include <stdint.h>

#define T 16
#define N 8
#define H 128

static inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

int hand(const float *restrict X, const float *restrict W, float *restrict cs, float *restrict hs) {
    static float inner[N * 4 * H], next_c[N * H], next_h[N * H];
    for (int k = 0; k < N * H; ++k) cs[k] = hs[k] = 0.0f;
    for (int t = 1; t < T; ++t) {
        const float *restrict h0 = hs + (t - 1) * N * H, *restrict c0 = cs + (t - 1) * N * H;
#ifdef PARALLEL
#pragma omp parallel for
#endif
        for (int n = 0; n < N; ++n)
            for (int g = 0; g < 4; ++g) {
                float *restrict o = inner + (n * 4 + g) * H;
                for (int h = 0; h < H; ++h) o[h] = 0.0f;
                for (int k = 0; k < H; ++k) {
                    const float a = h0[n * H + k], *restrict w = W + (g * H + k) * H;
                    for (int h = 0; h < H; ++h) o[h] += a * w[h];
                }
            }
        for (int n = 0; n < N; ++n)
            for (int h = 0; h < H; ++h) {
                const float *restrict o = inner + n * 4 * H, *restrict x = X + (t * N + n) * 4 * H;
                const float i = sigmoid(o[h] + x[h]), g = tanhf(o[H + h] + x[H + h]);
                next_c[n * H + h] = sigmoid(o[2 * H + h] + x[2 * H + h]) * c0[n * H + h] + i * g;
            }
        for (int n = 0; n < N; ++n)
            for (int h = 0; h < H; ++h) {
                const float *restrict o = inner + n * 4 * H, *restrict x = X + (t * N + n) * 4 * H;
                next_h[n * H + h] = sigmoid(o[3 * H + h] + x[3 * H + h]) * tanhf(next_c[n * H + h]);
            }
        for (int k = 0; k < N * H; ++k) cs[t * N * H + k] = next_c[k];
        for (int k = 0; k < N * H; ++k) hs[t * N * H + k] = next_h[k];
    }
    return 0;
}
