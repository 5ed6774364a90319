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
 * Stretching follows transformers' modeling_rope_utils: what is a tensor there is f32
 * here, what is a Python number there is a double here. The frequencies of a text are
 * chosen once, by its length: its keys are never rotated anew.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/rope.h"

#include "ops/elementary.h"

#define TWO_PI 6.283185307179586

enum { ON_STACK = 4096 };

const char *const fb_rope_kind_names[FB_N_ROPE_KINDS] = {
    "default", "linear", "dynamic", "yarn", "llama3", "longrope"};

/* theta^(i / half) of every pair. */
static void powers(double theta, int64_t half, float *out)
{
    for (int64_t i = 0; i < half; i++)
        out[i] = (float)fb_pow_d(theta, (double)((float)i / (float)half));
}

/* The base for a text that is longer than the model was trained on. */
static double grown_base(const fb_rope *rope, int64_t half, int64_t length)
{
    const double dim = 2 * (double)half, first = (double)rope->first_length;
    const double n = (double)length > first ? (double)length : first;

    if (dim <= 2) return rope->theta;
    return rope->theta *
           fb_pow_d(rope->factor * n / first - (rope->factor - 1), dim / (dim - 2));
}

/* The pair that turns `rotations` times over the first length. */
static double pair_of_rotations(const fb_rope *rope, int64_t half, double rotations)
{
    return (double)half * fb_log_d((double)rope->first_length / (rotations * TWO_PI)) /
           fb_log_d(rope->theta);
}

/* Fast pairs stay, slow ones are divided, in between a ramp. */
static void stretch_yarn(const fb_rope *rope, int64_t half, float *power)
{
    double low = pair_of_rotations(rope, half, rope->fast);
    double high = pair_of_rotations(rope, half, rope->slow);

    if (rope->rounds) {
        low = __builtin_floor(low);
        high = __builtin_ceil(high);
    }
    if (low < 0) low = 0;
    if (high > 2 * (double)half - 1) high = 2 * (double)half - 1;
    if (low == high) high += 0.001;
    for (int64_t i = 0; i < half; i++) {
        const float plain = 1.0f / power[i];
        const float divided = 1.0f / ((float)rope->factor * power[i]);
        float ramp = ((float)i - (float)low) / (float)(high - low);

        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        power[i] = divided * (1 - (1 - ramp)) + plain * (1 - ramp);
    }
}

/* Waves longer than the text are divided, short ones stay, a smooth step between. */
static void stretch_llama3(const fb_rope *rope, int64_t half, float *frequency)
{
    const double n = (double)rope->first_length;
    const float longest = (float)(n / rope->low), shortest = (float)(n / rope->high);

    for (int64_t i = 0; i < half; i++) {
        const float wave = (float)TWO_PI / frequency[i];
        const float step =
            ((float)n / wave - (float)rope->low) / (float)(rope->high - rope->low);

        if (wave > longest)
            frequency[i] /= (float)rope->factor;
        else if (wave >= shortest)
            frequency[i] =
                (1 - step) * frequency[i] / (float)rope->factor + step * frequency[i];
    }
}

void fb_rope_frequencies(const fb_rope *rope, int64_t half, int64_t length, float *out)
{
    const bool grows = rope->kind == FB_ROPE_DYNAMIC;
    const float *factors =
        length > rope->first_length ? rope->long_factors : rope->short_factors;

    powers(grows ? grown_base(rope, half, length) : rope->theta, half, out);
    if (rope->kind == FB_ROPE_YARN) {
        stretch_yarn(rope, half, out);
        return;
    }
    for (int64_t i = 0; i < half; i++) {
        if (rope->kind == FB_ROPE_LONGROPE) out[i] *= factors[i];
        out[i] = 1.0f / out[i];
        if (rope->kind == FB_ROPE_LINEAR) out[i] /= (float)rope->factor;
    }
    if (rope->kind == FB_ROPE_LLAMA3) stretch_llama3(rope, half, out);
}

/* cosine, sine: [n, half] */
static void fill(const fb_rope *rope, const float *frequency, int64_t half,
                 const int64_t *position, int64_t n, float *cosine, float *sine)
{
    const float size = (float)rope->size;

    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < half; i++) {
            const float angle = (float)position[r] * frequency[i];

            cosine[r * half + i] = (float)fb_cos_d((double)angle) * size;
            sine[r * half + i] = (float)fb_sin_d((double)angle) * size;
        }
}

fb_status fb_rope_tables(fb_ops *ops, const fb_rope *rope, int64_t half, int64_t length,
                         const int64_t *position, int64_t n, fb_tensor *cosine_out,
                         fb_tensor *sine_out)
{
    const int64_t shape[2] = {n, half};
    const size_t count = fb_size_mul((size_t)n, (size_t)half);
    float few[2 * ON_STACK], *many = NULL, *cosine = few, *sine = few + ON_STACK;
    float frequency[FB_ROPE_MOST_HALF];

    if (count > ON_STACK) {
        many = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul(count, 2 * sizeof *many));
        if (many == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rotary angles");
        cosine = many;
        sine = many + count;
    }
    fb_rope_frequencies(rope, half, length, frequency);
    if (fb_ops_has_numbers(ops)) fill(rope, frequency, half, position, n, cosine, sine);
    *cosine_out = fb_from_host(ops, FB_F32, 2, shape, cosine);
    *sine_out = fb_from_host(ops, FB_F32, 2, shape, sine);
    fb_free(many);
    return fb_ops_status(ops);
}
