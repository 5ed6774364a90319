/* stream.h - inside of src/engine: a text that comes in under a budget.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_STREAM_H
#define FB_ENGINE_STREAM_H

#include "engine/see.h"

typedef struct fb_stream {
    fb_view view; /* its rule, and what the cache holds now */
    fb_protect protect;
    int64_t k, chunk; /* entries a head may hold; tokens read at a time */
    int64_t length;   /* of the whole text, which some rotations depend on */
    fb_cache *cache;  /* of k tokens, of the layers that are evicted from */
    fb_cache
        *sliding; /* of a window and a chunk, of the others; NULL: there are none */
    int32_t **position; /* [slots] of [k] */
    fb_tensor
        *queries; /* [layers] of [.., H*d], the last that the rule reads; persistent */
    fb_tensor
        *state; /* [layers] of [G, rows, m]; persistent; FB_NONE: the rule has none */
    fb_tensor *scores;                 /* [layers] of an event; persistent */
    fb_segment *segments;              /* [G] */
    int64_t n_protected, free_choices; /* of the last event */
    bool fallback, shrunk;             /* of any */

    /* The chunk at work. */
    fb_angles angles;
    fb_tensor x;     /* [t, width] */
    fb_tensor sum;   /* [H, m] of its queries in the layer at work */
    fb_tensor block; /* [H, t, m] their rows */
    fb_tensor asked; /* [t, H*d] its queries there */
} fb_stream;

/* stream_event.c - the rule evicts until `most` entries a head are left. */
FB_MUST_USE fb_status fb_stream_evict(fb_stream *stream, int64_t most);

#endif
