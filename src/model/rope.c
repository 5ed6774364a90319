/* rope.c - rotary angles, rounded where the reference rounds them.
 *
 *     frequency_i  =  1 / theta^(2i/d)        exponent and quotient in f32, power in double
 *     angle        =  position * frequency_i  in f32
 *     cosine, sine of that angle              in double, rounded to f32
 *
 * (Su et al. 2021, "RoFormer", arXiv:2104.09864; roundings as in transformers.) The f32
 * product is off by up to 5e-4 at position 8,192, but weights were trained and are
 * compared with exactly that; better angles would miss the reference keys by 1.5e-4.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/rope.h"

#include "ops/elementary.h"

enum { ON_STACK = 4096 }; /* numbers: a decode step needs no allocation */

void fb_rope_frequencies(double theta, int64_t half, float *out)
{
    for (int64_t i = 0; i < half; i++) {
        const float exponent = (float)i / (float)half;

        out[i] = 1.0f / (float)fb_pow_d(theta, (double)exponent);
    }
}

/* cosine, sine: [n, half] */
static void fill(const float *frequency, int64_t half, const int64_t *position,
                 int64_t n, float *cosine, float *sine)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < half; i++) {
            const float angle = (float)position[r] * frequency[i];

            cosine[r * half + i] = (float)fb_cos_d((double)angle);
            sine[r * half + i] = (float)fb_sin_d((double)angle);
        }
}

fb_status fb_rope(fb_ops *ops, const float *frequency, int64_t half,
                  const int64_t *position, int64_t n, fb_tensor *cosine_out,
                  fb_tensor *sine_out)
{
    const int64_t shape[2] = {n, half};
    const size_t count = fb_size_mul((size_t)n, (size_t)half);
    float few[2 * ON_STACK], *many = NULL, *cosine = few, *sine = few + ON_STACK;

    if (count > ON_STACK) {
        many = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul(count, 2 * sizeof *many));
        if (many == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rotary angles");
        cosine = many;
        sine = many + count;
    }
    fill(frequency, half, position, n, cosine, sine);
    *cosine_out = fb_from_host(ops, FB_F32, 2, shape, cosine);
    *sine_out = fb_from_host(ops, FB_F32, 2, shape, sine);
    fb_free(many);
    return fb_ops_status(ops);
}
