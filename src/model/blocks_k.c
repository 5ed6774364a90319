/* blocks_k.c - the formats in blocks of 256 numbers with scales of their own scale.
 *
 * A block is cut into groups of 16 or 32 numbers; each group has a small integer scale
 * (and minimum), multiplied by the block's half-precision d (and dmin). Layouts are
 * those of ggml (ggml-common.h); order of operations as in the Python package `gguf`:
 * first d times the group's scale, then times the number, then minus the minimum.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/blocks.h"

static float read_half(const uint8_t *at)
{
    return fb_half_to_float((uint16_t)(at[0] | at[1] << 8));
}

/* Number i of the 2-bit plane that Q2_K, Q3_K and the high bits of Q6_K share: 32
 * bytes hold four runs of 32 numbers, two bits each, lowest bits first. */
static int two_bits(const uint8_t *plane, int i)
{
    return plane[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
}

/* Number i of the 4-bit plane of Q4_K and Q5_K: 32 bytes hold two runs of 32. */
static int four_bits(const uint8_t *plane, int i)
{
    return plane[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
}

/* Bit i of a plane of single bits: 32 bytes hold eight runs of 32. */
static int one_bit(const uint8_t *plane, int i)
{
    return plane[i % 32] >> (i / 32) & 1;
}

/* Q2_K: 16 bytes of scale (low half) and minimum, 64 bytes, d, dmin. */
void fb_unblock_q2_k(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 84, out += FB_K_BLOCK) {
        const float d = read_half(from + 80), dmin = read_half(from + 82);

        for (int i = 0; i < FB_K_BLOCK; i++) {
            const int group = from[i / 16];
            const float scale = d * (float)(group & 15);
            const float least = dmin * (float)(group >> 4);

            out[i] = scale * (float)two_bits(from + 16, i) - least;
        }
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
    for (; n > 0; n--, from += 110, out += FB_K_BLOCK) {
        const float d = read_half(from + 108);

        for (int i = 0; i < FB_K_BLOCK; i++) {
            const float scale = d * (float)q3_scale(from + 96, i / 16);
            const int q = two_bits(from + 32, i) - (one_bit(from, i) ? 0 : 4);

            out[i] = scale * (float)q;
        }
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

    for (int g = 0; g < FB_K_BLOCK / 32; g++) {
        int scale_bits, least_bits;
        float scale, least;

        q4_scale(from + 4, g, &scale_bits, &least_bits);
        scale = d * (float)scale_bits;
        least = dmin * (float)least_bits;
        for (int i = 32 * g; i < 32 * (g + 1); i++) {
            const int fifth = high == NULL ? 0 : one_bit(high, i) << 4;

            out[i] = scale * (float)(four_bits(low, i) | fifth) - least;
        }
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
    for (; n > 0; n--, from += 210, out += FB_K_BLOCK) {
        const float d = read_half(from + 208);

        for (int i = 0; i < FB_K_BLOCK; i++) {
            const float scale = d * (float)(int8_t)from[192 + i / 16];
            const int low = from[i / 128 * 64 + i % 64] >> (4 * (i / 64 % 2)) & 15;
            const int q = low | two_bits(from + 128, i) << 4;

            out[i] = scale * (float)(q - 32);
        }
    }
}
