/* isa_rows.c - loops over rows: the exponential, softmax's parts, norms, rotation.
 *
 * exp(x) = 2^n e^r with n the integer next to x / ln 2 and r = x - n ln 2 in two steps,
 * |r| <= ln 2 / 2. e^r is a polynomial of degree 6 (minimax, its
 * relative error is 2^-27.7) and 2^n is added to the exponent. Results below the
 * smallest normal float are 0: they would only slow the products down.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/native/isa_vector.h"

#define LOG2_E   0x1.715476p+0f
#define LN2_HIGH 0x1.62e4p-1f      /* ln 2 to 15 bits: n times it is exact */
#define LN2_LOW  0x1.7f7d1cp-20f   /* the rest */
#define ROUNDER  0x1.8p23f         /* x + it - it: x rounded to an integer */
#define LOWEST   (-0x1.5d589ep+6f) /* below: exp(x) < 2^-126 */
#define HIGHEST  0x1.62e42ep+6f    /* above: exp(x) > the largest float */

enum { TREE = 16 };

FB_INLINE vec exp_vec(vec x)
{
    const vec shifted = fma_vec(x, all(LOG2_E), all(ROUNDER));
    const vec n = shifted - all(ROUNDER);
    const vec r = fma_vec(n, all(-LN2_LOW), fma_vec(n, all(-LN2_HIGH), x));
    vec e = all(0x1.6ffa2ap-10f); /* of r^6 */

    e = fma_vec(e, r, all(0x1.12583ep-7f));
    e = fma_vec(e, r, all(0x1.5552fep-5f));
    e = fma_vec(e, r, all(0x1.555466p-3f));
    e = fma_vec(e, r, all(0.5f));
    e = fma_vec(e, r, all(1.0f));
    e = fma_vec(e, r, all(1.0f));
    e = (vec)((uvec)e + ((uvec)shifted << 23));
    e = choose(x < all(LOWEST), all(0), e);
    return choose(x <= all(HIGHEST), e, x * all(__builtin_inff())); /* NaN: NaN */
}

static void exp_row(const float *x, float *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, exp_vec(load(x + i)));
    if (i < n) store_some(out + i, exp_vec(load_some(x + i, n - i, 0)), n - i);
}

FB_INLINE vec max_vec(vec a, vec b)
{
    return choose(a > b, a, b);
}

/* Four vectors side by side hide the latency of a comparison. */
static float max_row(const float *x, int64_t n)
{
    enum { SIDE_BY_SIDE = 4, STEP = SIDE_BY_SIDE * FB_LANES };
    const float lowest = -__builtin_inff();
    vec most[SIDE_BY_SIDE] = {all(lowest), all(lowest), all(lowest), all(lowest)};
    float lanes[FB_LANES], max = lowest;
    int64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        FB_UNROLL
    for (int v = 0; v < SIDE_BY_SIDE; v++)
        most[v] = max_vec(load(x + i + v * LANES), most[v]);
    for (; i + LANES <= n; i += LANES)
        most[0] = max_vec(load(x + i), most[0]);
    store(lanes, max_vec(max_vec(most[0], most[1]), max_vec(most[2], most[3])));
    for (int l = 0; l < LANES; l++)
        max = lanes[l] > max ? lanes[l] : max;
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static void hide(float *x, const uint8_t *hidden, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = hidden[i] != 0 ? -__builtin_inff() : x[i];
}

static void exp_minus(float *x, int64_t n, float max)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(x + i, exp_vec(load(x + i) - all(max)));
    if (i < n)
        store_some(x + i, exp_vec(load_some(x + i, n - i, max) - all(max)), n - i);
}

static void add_rows(float *to, const float *x, int64_t stride, int64_t rows, int64_t n,
                     const float *factor)
{
    int64_t j = 0;

    for (; j + LANES <= n; j += LANES) {
        vec sum = load(to + j);

        for (int64_t r = 0; r < rows; r++)
            sum = fma_all(factor[r], load(x + r * stride + j), sum);
        store(to + j, sum);
    }
    for (; j < n; j++)
        for (int64_t r = 0; r < rows; r++)
            to[j] = FB_FMA(x[r * stride + j], factor[r], to[j]);
}

static void divide(const float *x, float divisor, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] / divisor;
}

/* The exponent moves from 5 bits to 8 by a product with a power of two, which is exact;
 * so subnormals become what they stand for. */
FB_INLINE vec float_of_f16(uvec half)
{
    const vec size = (vec)((half & 0x7fff) << 13) * all(0x1p112f);

    return (vec)((uvec)size | (half & 0x8000) << 16);
}

static void floats_of_f16(const uint16_t *x, float *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, float_of_f16(load_halves(x + i)));
    if (i < n) store_some(out + i, float_of_f16(load_some_halves(x + i, n - i)), n - i);
}

static void floats_of_bf16(const uint16_t *x, float *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, (vec)(load_halves(x + i) << 16));
    if (i < n) store_some(out + i, (vec)(load_some_halves(x + i, n - i) << 16), n - i);
}

/* The lanes' sums, added in pairs: 8 apart, then 4, 2, 1. */
FB_INLINE double tree(double *lanes)
{
    for (int apart = TREE / 2; apart > 0; apart /= 2)
        for (int l = 0; l < apart; l++)
            lanes[l] += lanes[l + apart];
    return lanes[0];
}

static double sum_of_squares(const float *x, int64_t n)
{
    double lanes[TREE] = {0};
    int64_t i = 0;

    for (; i + TREE <= n; i += TREE)
        for (int l = 0; l < TREE; l++)
            lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i + l < n; l++)
        lanes[l] += (double)x[i + l] * (double)x[i + l];
    return tree(lanes);
}

static void rms_norm(const float *x, const float *weight, double eps, float *out,
                     int64_t n)
{
    const double mean = n == 0 ? 0 : sum_of_squares(x, n) / (double)n;
    const float factor = (float)(1.0 / __builtin_sqrt(mean + eps));

    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] * factor * weight[i];
}

FB_INLINE vec swiglu_vec(vec gate, vec up)
{
    return gate / (all(1.0f) + exp_vec(-gate)) * up;
}

static void swiglu(const float *gate, const float *up, float *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, swiglu_vec(load(gate + i), load(up + i)));
    if (i < n)
        store_some(
            out + i,
            swiglu_vec(load_some(gate + i, n - i, 0), load_some(up + i, n - i, 0)),
            n - i);
}

/* x/2 (1 + tanh u) is x / (1 + exp(-2u)). */
FB_INLINE vec geglu_vec(vec gate, vec up)
{
    const vec cube = gate * gate * gate;
    const vec u =
        fma_vec(all(0.044715f), cube, gate) * all(0x1.988454p-1f); /* sqrt(2/pi) */

    return gate / (all(1.0f) + exp_vec(u * all(-2.0f))) * up;
}

static void geglu(const float *gate, const float *up, float *out, int64_t n)
{
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(out + i, geglu_vec(load(gate + i), load(up + i)));
    if (i < n)
        store_some(
            out + i,
            geglu_vec(load_some(gate + i, n - i, 0), load_some(up + i, n - i, 0)),
            n - i);
}

static void rotary(float *low, float *high, const float *cosine, const float *sine,
                   int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float a = low[i], b = high[i];

        low[i] = a * cosine[i] - b * sine[i];
        high[i] = b * cosine[i] + a * sine[i];
    }
}

extern const fb_isa_rows FB_TABLE(fb_isa_rows);
const fb_isa_rows FB_TABLE(fb_isa_rows) = {
    .exp = exp_row,
    .max = max_row,
    .hide = hide,
    .exp_minus = exp_minus,
    .add_rows = add_rows,
    .divide = divide,
    .floats_of_f16 = floats_of_f16,
    .floats_of_bf16 = floats_of_bf16,
    .rms_norm = rms_norm,
    .swiglu = swiglu,
    .geglu = geglu,
    .rotary = rotary,
};
