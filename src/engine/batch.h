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

/* Rows of a teacher-forced batch, more than of a block of a context; changes no bit. */
enum { FB_FORCED_ROWS = 512 };

/* Memory that a batch works in; the same for all steps of an answer. */
typedef struct fb_batch_room {
    fb_segment *segments; /* one per member and kv head */
    int64_t *position;    /* two per token: its own, and in sliding layers */
} fb_batch_room;

/* For batches of at most `n` members and `tokens` new tokens together. Zeroed or freed
 * before; what was taken is given back by fb_batch_room_free also where it failed. */
FB_MUST_USE fb_status fb_batch_room_new(fb_batch_room *out, const fb_engine *engine,
                                        int64_t n, int64_t tokens);
void fb_batch_room_free(fb_batch_room *room);

typedef struct fb_batch fb_batch;
struct fb_batch {
    const fb_reading *reading;
    const fb_variant *const *variants; /* [n] */
    int64_t n, t;
    fb_tail *tail;
    const int64_t *sequence; /* [n] of the tail */
    const int64_t *at;       /* [n] tokens that the tail holds already */
    const int32_t *ids;      /* [n * t] */
    bool wants_sum;          /* attention to the context summed over queries; n = 1 */
    /* Rows of attention to these entries and the tail are wanted; n = 1. The context's
     * own cache: of the attention of the pass itself. NULL: none. */
    const fb_cache *shown;
    /* After each layer that does not slide; `layer` counts those alone. NULL: none. */
    fb_status (*after_layer)(void *self, int64_t layer, const fb_batch *batch);
    void *self;
    const fb_batch_room *room; /* of the caller */

    /* Of the layer at work: */
    fb_tensor sum;    /* [heads, context] */
    fb_tensor rows;   /* [heads, t, entries of `shown`] */
    fb_tensor normed; /* [n * t, width] what attention read */
};

/* Runs the batch; x [n * t, width] after the last layer, in the open scope. */
FB_MUST_USE fb_status fb_batch_run(fb_batch *batch, fb_tensor *x_out);

/* Final norm of rows [first, first + rows) of each member: [n, rows, width]. */
fb_tensor fb_batch_hidden(const fb_batch *batch, fb_tensor x, int64_t first,
                          int64_t rows);

#endif
