/* rope.h - rotary frequencies, plain or stretched to longer texts.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_ROPE_H
#define FB_MODEL_ROPE_H

#include "ops/ops.h"

enum { FB_ROPE_MOST_HALF = 512 }; /* pairs: heads have at most 1024 columns */

/* How frequencies are changed so that a model can be used beyond its first training
 * length. Names are those of `rope_type` in config.json. */
typedef enum fb_rope_kind {
    FB_ROPE_PLAIN,
    FB_ROPE_LINEAR,   /* positions divided by a factor */
    FB_ROPE_DYNAMIC,  /* base grows with the text ("NTK-aware") */
    FB_ROPE_YARN,     /* a ramp between both; Peng et al. 2023, arXiv:2309.00071 */
    FB_ROPE_LLAMA3,   /* low frequencies divided, a smooth step between */
    FB_ROPE_LONGROPE, /* a factor per pair; Ding et al. 2024, arXiv:2402.13753 */
    FB_N_ROPE_KINDS
} fb_rope_kind;

extern const char *const fb_rope_kind_names[FB_N_ROPE_KINDS];

typedef struct fb_rope {
    fb_rope_kind kind;
    double theta;         /* base */
    double factor;        /* of the length */
    int64_t first_length; /* trained positions before stretching */
    double low, high;     /* llama3: frequency factors */
    double fast, slow;    /* yarn: beta */
    bool rounds;          /* yarn: ends of the ramp to whole pairs */
    double size;          /* cosine and sine are multiplied by this; 1 */
    const float *short_factors, *long_factors; /* longrope [half], lent */
} fb_rope;

/* Frequencies of `half` rotary pairs for a text of `length` tokens, to `out` [half]. */
void fb_rope_frequencies(const fb_rope *rope, int64_t half, int64_t length, float *out);
/* Cosine and sine of `n` positions of such a text: [n, half] each, in the open scope. */
FB_MUST_USE fb_status fb_rope_tables(fb_ops *ops, const fb_rope *rope, int64_t half,
                                     int64_t length, const int64_t *position, int64_t n,
                                     fb_tensor *cosine_out, fb_tensor *sine_out);

#endif
