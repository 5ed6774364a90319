/* blocks_k.c - the formats in blocks of 256 numbers with scales of their own scale.
 *
 * A block is cut into groups of 16 or 32 numbers; each group has a small integer scale
 * (and minimum), multiplied by the block's half-precision d (and dmin). Layouts are
 * those of ggml (ggml-common.h); order of operations as in the Python package `gguf`:
 * first d times the group's scale, then times the number, then minus the minimum.
 * As in blocks.c, whole numbers come first and floats then.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/blocks.h"

enum { RUN = 32 };

static float read_half(const uint8_t *at)
{
    return fb_half_to_float((uint16_t)(at[0] | at[1] << 8));
}

/* The 2-bit plane that Q2_K, Q3_K and the high bits of Q6_K share: 32 bytes hold four
 * runs of 32 numbers, two bits each, lowest bits first. */
static void read_two_bits(const uint8_t *restrict plane, int8_t *restrict q)
{
    for (int half = 0; half < 2; half++, plane += RUN)
        for (int shift = 0; shift < 8; shift += 2, q += RUN)
            for (int j = 0; j < RUN; j++)
                q[j] = (int8_t)(plane[j] >> shift & 3);
}

/* A 4-bit plane: `n` bytes hold two runs of n numbers. */
static void read_four_bits(const uint8_t *restrict plane, int n, int8_t *restrict q)
{
    for (int j = 0; j < n; j++) {
        q[j] = (int8_t)(plane[j] & 15);
        q[j + n] = (int8_t)(plane[j] >> 4);
    }
}

/* A plane of single bits: 32 bytes hold eight runs of 32. Adds `value` where a bit is
 * set. */
static void add_bits(const uint8_t *restrict plane, int value, int8_t *restrict q)
{
    for (int run = 0; run < FB_K_BLOCK / RUN; run++, q += RUN)
        for (int j = 0; j < RUN; j++)
            q[j] = (int8_t)(q[j] + (plane[j] >> run & 1) * value);
}

/* Q2_K: 16 bytes of scale (low half) and minimum, 64 bytes, d, dmin. */
void fb_unblock_q2_k(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[FB_K_BLOCK];

    for (; n > 0; n--, from += 84) {
        const float d = read_half(from + 80), dmin = read_half(from + 82);

        read_two_bits(from + 16, q);
        for (int g = 0; g < FB_K_BLOCK / 16; g++, out += 16)
            fb_scale_codes_plus(q + 16 * g, 16, d * (float)(from[g] & 15),
                                -(dmin * (float)(from[g] >> 4)), out);
    }
}

/* The 16 scales of Q3_K, six bits each: low four in bytes 0..7 (low halves first),
 * high two in bytes 8..11 (bits 0-1 of all four bytes first); 32 stands for 0. */
static int q3_scale(const uint8_t *packed, int g)
{
    const int low = packed[g % 8] >> (4 * (g / 8)) & 15;
    const int high = packed[8 + g % 4] >> (2 * (g / 4)) & 3;

    return (low | high << 4) - 32;
}

/* Q3_K: 32 bytes of third bits (set: subtract nothing, clear: subtract 4), 64 bytes, 12
 * bytes of scales, d. */
void fb_unblock_q3_k(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[FB_K_BLOCK];

    for (; n > 0; n--, from += 110) {
        const float d = read_half(from + 108);

        read_two_bits(from + 32, q);
        add_bits(from, 4, q);
        for (int i = 0; i < FB_K_BLOCK; i++)
            q[i] = (int8_t)(q[i] - 4);
        for (int g = 0; g < FB_K_BLOCK / 16; g++, out += 16)
            fb_scale_codes(q + 16 * g, 16, d * (float)q3_scale(from + 96, g), out);
    }
}

/* Scale and minimum of group g of 8 in Q4_K and Q5_K, six bits each in 12 bytes: groups
 * 0..3 stand whole in bytes g and g + 4; groups 4..7 have their low four bits in byte g
 * + 4 and their high two on top of bytes g - 4 and g. */
static void q4_scale(const uint8_t *packed, int g, int *scale_out, int *least_out)
{
    if (g < 4) {
        *scale_out = packed[g] & 63;
        *least_out = packed[g + 4] & 63;
    } else {
        *scale_out = (packed[g + 4] & 15) | (packed[g - 4] >> 6) << 4;
        *least_out = packed[g + 4] >> 4 | (packed[g] >> 6) << 4;
    }
}

/* Q4_K: d, dmin, 12 bytes of scales, 128 bytes. Q5_K: between them 32 bytes of fifth
 * bits, `high`; NULL for Q4_K. */
static void unblock_scaled(const uint8_t *from, const uint8_t *high, const uint8_t *low,
                           float *out)
{
    const float d = read_half(from), dmin = read_half(from + 2);
    int8_t q[FB_K_BLOCK];

    for (int i = 0; i < FB_K_BLOCK; i += 2 * RUN, low += RUN)
        read_four_bits(low, RUN, q + i);
    if (high != NULL) add_bits(high, 16, q);
    for (int g = 0; g < FB_K_BLOCK / RUN; g++, out += RUN) {
        int scale, least;

        q4_scale(from + 4, g, &scale, &least);
        fb_scale_codes_plus(q + RUN * g, RUN, d * (float)scale, -(dmin * (float)least),
                            out);
    }
}

void fb_unblock_q4_k(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 144, out += FB_K_BLOCK)
        unblock_scaled(from, NULL, from + 16, out);
}

void fb_unblock_q5_k(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 176, out += FB_K_BLOCK)
        unblock_scaled(from, from + 16, from + 48, out);
}

/* Q6_K: 128 bytes of low four bits (64 bytes hold two runs of 64), 64 bytes of high
 * two, 16 signed scales, d. d scale (q - 32). */
void fb_unblock_q6_k(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[FB_K_BLOCK], low[FB_K_BLOCK];

    for (; n > 0; n--, from += 210) {
        const float d = read_half(from + 208);

        read_two_bits(from + 128, q);
        read_four_bits(from, 64, low);
        read_four_bits(from + 64, 64, low + 128);
        for (int i = 0; i < FB_K_BLOCK; i++)
            q[i] = (int8_t)((low[i] | q[i] << 4) - 32);
        for (int g = 0; g < FB_K_BLOCK / 16; g++, out += 16)
            fb_scale_codes(q + 16 * g, 16, d * (float)(int8_t)from[192 + g], out);
    }
}
