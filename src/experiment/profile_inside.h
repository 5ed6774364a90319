/* profile_inside.h - what the files that measure a profile share among themselves.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_PROFILE_INSIDE_H
#define FB_EXPERIMENT_PROFILE_INSIDE_H

#include "experiment/profile.h"

/* Something that is done over and over. */
typedef struct fb_trial {
    fb_ops *ops;
    void (*work)(fb_ops *ops, const void *self);
    const void *self;
    int calls; /* between two looks at the clock; 1: as many as are needed */
} fb_trial;

/* Seconds of one call of `work`: the median of a few stretches. */
FB_MUST_USE fb_status fb_trial_measure(double *out, fb_trial *trial);

/* Of products of one row with all weights of the model, as each token has them; `out` has
 * seconds_per_call already. */
FB_MUST_USE fb_status fb_profile_measure_row(fb_profile *out, fb_ops *ops,
                                             const fb_model *model);
/* Bytes of the cache that the next one fills. */
double fb_profile_attention_bytes(const fb_model *model, fb_dtype cache);
/* Of attention with heads like the model's, of a block of rows and of one. */
FB_MUST_USE fb_status fb_profile_measure_attention(fb_profile *out, fb_ops *ops,
                                                   const fb_model *model,
                                                   fb_dtype cache);

#endif
