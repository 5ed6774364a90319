/* blocks.h - the number formats of GGUF tensors, unpacked to f32.
 *
 * A tensor's row is a run of *blocks*: `per_block` numbers packed into `bytes` bytes
 * with their scales. Formats that are only known by size have no `unpack`: their
 * tensors can be skipped over but not read.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_BLOCKS_H
#define FB_MODEL_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

/* Writes the n * per_block numbers of `n` blocks at `from` (any alignment) to `out`. */
typedef void fb_unblock(const uint8_t *from, int64_t n, float *out);

typedef struct fb_blocks {
    const char *name; /* as GGUF spells it: "Q4_K" */
    int64_t per_block;
    size_t bytes;
    fb_unblock *unpack; /* NULL: known by size only */
} fb_blocks;

/* The format with GGUF's number `type`; NULL: there is no such number. */
const fb_blocks *fb_blocks_find(uint32_t type);

/* `n` blocks of Q8_0 as their whole numbers q [32 n] and scales [n]: unpacked numbers are
 * the products scale * q in f32. */
enum { FB_EIGHT_BLOCK = 32 };
void fb_split_q8_0(const uint8_t *from, int64_t n, int8_t *q, float *scale);

/* The value of a half-precision number, exactly. */
float fb_half_to_float(uint16_t half);

/* out = d q, and d q + m: the end of every format. */
void fb_scale_codes(const int8_t *restrict q, int n, float d, float *restrict out);
void fb_scale_codes_plus(const int8_t *restrict q, int n, float d, float m,
                         float *restrict out);

/* The larger formats, in blocks of 256 numbers (blocks_k.c). */
enum { FB_K_BLOCK = 256 };
fb_unblock fb_unblock_q2_k, fb_unblock_q3_k, fb_unblock_q4_k, fb_unblock_q5_k,
    fb_unblock_q6_k;

#endif
