/* context.h - inside of src/engine: one pass over a context with a full cache.
 *
 * Layer by layer over the whole context, each layer in blocks of rows, so that the
 * signals of one layer are complete, scored and gone before the next layer begins.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_CONTEXT_H
#define FB_ENGINE_CONTEXT_H

#include "engine/decoder.h"

typedef struct fb_context_pass {
    const fb_engine *engine;
    const int32_t *ids; /* [n] */
    int64_t n;
    int64_t length;  /* of the text that some rotations depend on; 0: n */
    fb_cache *cache; /* empty, of n tokens; filled with the layers that do not slide */
    fb_cache *sliding; /* filled with the last tokens of those that do; NULL: dropped */
    bool wants_output; /* x after the last layer is needed */
    bool wants_sum;    /* signals to reduce */
    int64_t window;    /* rows; 0: none */
    bool wants_queries, wants_residual;
    /* Called after each block of a layer that does not slide with the rows of its t
     * queries, the newest of m entries; no rows of a window are shown after the layer then.
     * NULL: nobody looks. */
    fb_status (*after_block)(void *self, int64_t layer, fb_tensor rows);
    /* Called after each layer that does not slide with its signals; `layer` counts those
     * alone. NULL: none. */
    fb_status (*after_layer)(void *self, int64_t layer, const fb_layer_signals *seen);
    void *self;

    fb_angles angles;      /* of all n positions */
    fb_tensor x;           /* [n, width], in the scope open at the call; output */
    fb_layer_signals seen; /* of the layer at work */
    fb_segment *segments;  /* [G] */
    fb_cache *whole;       /* one layer of all tokens, for a sliding layer at work */
    int64_t start;         /* first row of the block at work */
} fb_context_pass;

FB_MUST_USE fb_status fb_context_run(fb_context_pass *pass);

#endif
