/* blocks.c - the table of formats, the plain ones and those in blocks of 32.
 *
 * Layouts are those of ggml (ggml-common.h); the order of operations, and so every bit
 * of the result, is that of the Python package `gguf`, whose output the golden test
 * holds. Bytes are read one by one: a mapped file has no alignment and one byte order.
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

float fb_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half >> 15) << 31;
    const uint32_t exponent = half >> 10 & 31;
    const uint32_t fraction = half & 0x3ff;
    float small;

    if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0)
        return float_of_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    small = (float)fraction * 0x1p-24f; /* subnormal in half, normal in f32 */
    return sign != 0 ? -small : small;
}

static void unblock_f32(const uint8_t *from, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = float_of_bits(read_u32(from + 4 * i));
}

static void unblock_f16(const uint8_t *from, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = fb_half_to_float(read_u16(from + 2 * i));
}

static void unblock_bf16(const uint8_t *from, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = float_of_bits((uint32_t)read_u16(from + 2 * i) << 16);
}

/* Q4_0: scale d, 16 bytes; byte j holds numbers j (low half) and j + 16. d (q - 8). */
static void unblock_q4_0(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 18, out += BLOCK) {
        const float d = fb_half_to_float(read_u16(from));

        for (int j = 0; j < HALF; j++) {
            out[j] = d * (float)((from[2 + j] & 15) - 8);
            out[j + HALF] = d * (float)((from[2 + j] >> 4) - 8);
        }
    }
}

/* Q4_1: scale d, minimum m, 16 bytes as above. d q + m. */
static void unblock_q4_1(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 20, out += BLOCK) {
        const float d = fb_half_to_float(read_u16(from));
        const float m = fb_half_to_float(read_u16(from + 2));

        for (int j = 0; j < HALF; j++) {
            out[j] = d * (float)(from[4 + j] & 15) + m;
            out[j + HALF] = d * (float)(from[4 + j] >> 4) + m;
        }
    }
}

/* Number j of the 5-bit formats: four bits from `low`, the fifth is bit j of `high`. */
static int five_bits(const uint8_t *low, uint32_t high, int j)
{
    const int four = j < HALF ? low[j] & 15 : low[j - HALF] >> 4;

    return four | (int)(high >> j & 1) << 4;
}

/* Q5_0: d, 32 high bits, 16 bytes. d (q - 16). */
static void unblock_q5_0(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 22, out += BLOCK) {
        const float d = fb_half_to_float(read_u16(from));
        const uint32_t high = read_u32(from + 2);

        for (int j = 0; j < BLOCK; j++)
            out[j] = d * (float)(five_bits(from + 6, high, j) - 16);
    }
}

/* Q5_1: d, m, 32 high bits, 16 bytes. d q + m. */
static void unblock_q5_1(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 24, out += BLOCK) {
        const float d = fb_half_to_float(read_u16(from));
        const float m = fb_half_to_float(read_u16(from + 2));
        const uint32_t high = read_u32(from + 4);

        for (int j = 0; j < BLOCK; j++)
            out[j] = d * (float)five_bits(from + 8, high, j) + m;
    }
}

/* Q8_0: d, 32 signed bytes. d q. */
static void unblock_q8_0(const uint8_t *from, int64_t n, float *out)
{
    for (; n > 0; n--, from += 34, out += BLOCK) {
        const float d = fb_half_to_float(read_u16(from));

        for (int j = 0; j < BLOCK; j++)
            out[j] = d * (float)(int8_t)from[2 + j];
    }
}

void fb_split_q8_0(const uint8_t *from, int64_t n, int8_t *q, float *scale)
{
    for (; n > 0; n--, from += 34, q += BLOCK) {
        *scale++ = fb_half_to_float(read_u16(from));
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
