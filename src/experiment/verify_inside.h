/* verify_inside.h - what the files of `verify` share.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_VERIFY_INSIDE_H
#define FB_EXPERIMENT_VERIFY_INSIDE_H

#include "experiment/verify.h"

/* Results with the store that they were read from. */
typedef struct fb_verify_side {
    fb_store *store;
    const fb_results *results;
} fb_verify_side;

/* Fills in what the cell of `out` and the same one of `is` differ in; counts in `all`. */
FB_MUST_USE fb_status fb_verify_compare(fb_verified *all, fb_verified_cell *out,
                                        fb_verify_side was, fb_verify_side is);

#endif
