/* rope.h - rotary frequencies.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_ROPE_H
#define FB_MODEL_ROPE_H

#include "ops/ops.h"

/* Frequency of each of `half` rotary pairs, to `out` [half]. */
void fb_rope_frequencies(double theta, int64_t half, float *out);
/* Cosine and sine of `n` positions: [n, half] each, in the open scope. */
FB_MUST_USE fb_status fb_rope(fb_ops *ops, const float *frequency, int64_t half,
                              const int64_t *position, int64_t n, fb_tensor *cosine_out,
                              fb_tensor *sine_out);

#endif
