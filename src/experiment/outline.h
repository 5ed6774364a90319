/* outline.h - what a run will take, said before it begins.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_OUTLINE_H
#define FB_EXPERIMENT_OUTLINE_H

#include "experiment/plan.h"

typedef struct fb_outline {
    int64_t cells, contexts, samples;
    double read_tokens, answer_tokens; /* that the model sees */
    double read_flops, answer_flops;   /* of the plain model, estimated */
    double weight_bytes;
    double tail_bytes; /* of the longest question and answer */
} fb_outline;

FB_MUST_USE fb_status fb_outline_make(fb_outline *out, const fb_plan *plan,
                                      const fb_filter *only);
/* FLOP/s of this machine's matrix products, measured in about a second. */
FB_MUST_USE fb_status fb_outline_speed(fb_ops *ops, double *out);

#endif
