/* batch.h - inside of src/engine: t new tokens for each of a number of variants, at
 * once.
 *
 * Every weight is read once for all of them. Which other variants are in the batch
 * changes no bit of any.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_BATCH_H
#define FB_ENGINE_BATCH_H

#include "engine/variant.h"

typedef struct fb_batch {
    const fb_reading *reading;
    const fb_variant *const *variants; /* [n] */
    int64_t n, t;
    fb_tail *tail;
    const int64_t *sequence; /* [n] of the tail */
    const int64_t *at;       /* [n] tokens that the tail holds already */
    const int32_t *ids;      /* [n * t] */
    bool wants_sum;          /* attention to the context summed over queries; n = 1 */
    /* After each layer that does not slide; `layer` counts those alone. NULL: none. */
    fb_status (*after_layer)(void *self, int64_t layer, fb_tensor sum);
    void *self;

    fb_segment *segments; /* [n * kv_heads]; scratch of the caller's life */
    fb_tensor sum;        /* [heads, context] of the layer at work */
} fb_batch;

/* Runs the batch; x [n * t, width] after the last layer, in the open scope. */
FB_MUST_USE fb_status fb_batch_run(fb_batch *batch, fb_tensor *x_out);

/* Final norm of rows [first, first + rows) of each member: [n, rows, width]. */
fb_tensor fb_batch_hidden(const fb_batch *batch, fb_tensor x, int64_t first,
                          int64_t rows);

#endif
