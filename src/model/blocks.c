/* blocks.c - the table of formats, the plain ones and those in blocks of 32.
 *
 * Layouts are those of ggml (ggml-common.h); the order of operations, and so every bit
 * of the result, is that of the Python package `gguf`, whose output the golden test
 * holds. Bytes are read one by one: a mapped file has no alignment and one byte order.
 * A block becomes small whole numbers first and floats then, in plain loops that
 * compilers turn into vectors: resident weights are unpacked for every block of rows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/blocks.h"

#include <string.h>

enum { BLOCK = 32, HALF = BLOCK / 2 };

static uint16_t read_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The exponent moves from 5 bits to 8 by a product with a power of two, which is exact
 * and turns subnormals into what they stand for; infinities and NaN need their own. */
static inline float half_to_float(uint16_t half)
{
    const uint32_t special = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
    const float value = float_of_bits((uint32_t)(half & 0x7fff) << 13) * 0x1p112f;
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return float_of_bits(bits | special | (uint32_t)(half & 0x8000) << 16);
}

float fb_half_to_float(uint16_t half)
{
    return half_to_float(half);
}

static void unblock_f32(const uint8_t *restrict from, int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = float_of_bits(read_u32(from + 4 * i));
}

static void unblock_f16(const uint8_t *restrict from, int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = half_to_float(read_u16(from + 2 * i));
}

static void unblock_bf16(const uint8_t *restrict from, int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = float_of_bits((uint32_t)read_u16(from + 2 * i) << 16);
}

void fb_scale_codes(const int8_t *restrict q, int n, float d, float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = d * (float)q[i];
}

void fb_scale_codes_plus(const int8_t *restrict q, int n, float d, float m,
                         float *restrict out)
{
    for (int i = 0; i < n; i++)
        out[i] = d * (float)q[i] + m;
}

/* Byte j holds numbers j (low half) and j + 16; `less` is taken off each. */
static void read_halves(const uint8_t *restrict from, int less, int8_t *restrict q)
{
    for (int j = 0; j < HALF; j++) {
        q[j] = (int8_t)((from[j] & 15) - less);
        q[j + HALF] = (int8_t)((from[j] >> 4) - less);
    }
}

#define FB_EIGHT_BITS 1, 2, 4, 8, 16, 32, 64, 128

/* The same with a fifth bit: bit j of the 32 at `high` for number j. */
static void read_fifths(const uint8_t *restrict from, const uint8_t *restrict high,
                        int less, int8_t *restrict q)
{
    static const uint8_t bit[BLOCK] = {FB_EIGHT_BITS, FB_EIGHT_BITS, FB_EIGHT_BITS,
                                       FB_EIGHT_BITS};
    uint8_t spread[BLOCK];

    read_halves(from, less, q);
    for (int b = 0; b < BLOCK / 8; b++)
        memset(spread + 8 * b, high[b], 8);
    for (int j = 0; j < BLOCK; j++)
        q[j] = (int8_t)(q[j] + ((spread[j] & bit[j]) != 0 ? 16 : 0));
}

/* Q4_0: scale d, 16 bytes. d (q - 8). */
static void unblock_q4_0(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[BLOCK];

    for (; n > 0; n--, from += 18, out += BLOCK) {
        read_halves(from + 2, 8, q);
        fb_scale_codes(q, BLOCK, half_to_float(read_u16(from)), out);
    }
}

/* Q4_1: scale d, minimum m, 16 bytes. d q + m. */
static void unblock_q4_1(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[BLOCK];

    for (; n > 0; n--, from += 20, out += BLOCK) {
        read_halves(from + 4, 0, q);
        fb_scale_codes_plus(q, BLOCK, half_to_float(read_u16(from)),
                            half_to_float(read_u16(from + 2)), out);
    }
}

/* Q5_0: d, 32 high bits, 16 bytes. d (q - 16). */
static void unblock_q5_0(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[BLOCK];

    for (; n > 0; n--, from += 22, out += BLOCK) {
        read_fifths(from + 6, from + 2, 16, q);
        fb_scale_codes(q, BLOCK, half_to_float(read_u16(from)), out);
    }
}

/* Q5_1: d, m, 32 high bits, 16 bytes. d q + m. */
static void unblock_q5_1(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[BLOCK];

    for (; n > 0; n--, from += 24, out += BLOCK) {
        read_fifths(from + 8, from + 4, 0, q);
        fb_scale_codes_plus(q, BLOCK, half_to_float(read_u16(from)),
                            half_to_float(read_u16(from + 2)), out);
    }
}

/* Q8_0: d, 32 signed bytes. d q. */
static void unblock_q8_0(const uint8_t *from, int64_t n, float *out)
{
    int8_t q[BLOCK];

    for (; n > 0; n--, from += 34, out += BLOCK) {
        memcpy(q, from + 2, BLOCK);
        fb_scale_codes(q, BLOCK, half_to_float(read_u16(from)), out);
    }
}

void fb_split_q8_0(const uint8_t *from, int64_t n, int8_t *q, float *scale)
{
    for (; n > 0; n--, from += 34, q += BLOCK) {
        *scale++ = half_to_float(read_u16(from));
        memcpy(q, from + 2, BLOCK);
    }
}

/* By GGUF's numbers; holes have gone, or never stand in files. */
static const fb_blocks formats[] = {
    [0] = {"F32", 1, 4, unblock_f32},
    [1] = {"F16", 1, 2, unblock_f16},
    [2] = {"Q4_0", BLOCK, 18, unblock_q4_0},
    [3] = {"Q4_1", BLOCK, 20, unblock_q4_1},
    [6] = {"Q5_0", BLOCK, 22, unblock_q5_0},
    [7] = {"Q5_1", BLOCK, 24, unblock_q5_1},
    [8] = {"Q8_0", BLOCK, 34, unblock_q8_0},
    [10] = {"Q2_K", FB_K_BLOCK, 84, fb_unblock_q2_k},
    [11] = {"Q3_K", FB_K_BLOCK, 110, fb_unblock_q3_k},
    [12] = {"Q4_K", FB_K_BLOCK, 144, fb_unblock_q4_k},
    [13] = {"Q5_K", FB_K_BLOCK, 176, fb_unblock_q5_k},
    [14] = {"Q6_K", FB_K_BLOCK, 210, fb_unblock_q6_k},
    [16] = {"IQ2_XXS", FB_K_BLOCK, 66, NULL},
    [17] = {"IQ2_XS", FB_K_BLOCK, 74, NULL},
    [18] = {"IQ3_XXS", FB_K_BLOCK, 98, NULL},
    [19] = {"IQ1_S", FB_K_BLOCK, 50, NULL},
    [20] = {"IQ4_NL", BLOCK, 18, NULL},
    [21] = {"IQ3_S", FB_K_BLOCK, 110, NULL},
    [22] = {"IQ2_S", FB_K_BLOCK, 82, NULL},
    [23] = {"IQ4_XS", FB_K_BLOCK, 136, NULL},
    [24] = {"I8", 1, 1, NULL},
    [25] = {"I16", 1, 2, NULL},
    [26] = {"I32", 1, 4, NULL},
    [27] = {"I64", 1, 8, NULL},
    [28] = {"F64", 1, 8, NULL},
    [29] = {"IQ1_M", FB_K_BLOCK, 56, NULL},
    [30] = {"BF16", 1, 2, unblock_bf16},
    [34] = {"TQ1_0", FB_K_BLOCK, 54, NULL},
    [35] = {"TQ2_0", FB_K_BLOCK, 66, NULL},
    [39] = {"MXFP4", BLOCK, 17, NULL},
    [40] = {"NVFP4", 64, 36, NULL},
    [41] = {"Q1_0", 128, 18, NULL},
};

const fb_blocks *fb_blocks_find(uint32_t type)
{
    if (type >= sizeof formats / sizeof *formats || formats[type].name == NULL)
        return NULL;
    return &formats[type];
}
