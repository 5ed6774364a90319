/* see.h - inside of src/engine: what a rule is shown of a layer, and the score that it makes
 * of it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_SEE_H
#define FB_ENGINE_SEE_H

#include "engine/decoder.h"

/* A rule that looks at the entries of a cache. */
typedef struct fb_view {
    const fb_engine *engine;
    const fb_bound_rule *rule;
    uint64_t seed, stream;
    const fb_cache *cache; /* m entries in every slot */
    int64_t n, m;          /* tokens read; entries of a head */
    int64_t length;        /* of the text that rotations were made for */
    /* [layers * kv_heads] of [m]; NULL: entry j is token j */
    int32_t *const *position;
    fb_layer_signals seen;
    fb_tensor state;  /* [kv_heads, rows, m] of the layer at work; or FB_NONE */
    fb_tensor learnt; /* [heads, rows, head_dim] of it; or FB_NONE */
} fb_view;

/* Signals of a layer, counted among those that do not slide, that the rule reads, and no
 * others. `rotary` is lent. */
fb_signals fb_view_layer(const fb_view *view, int64_t layer,
                         const struct fb_rotary *rotary);
/* What a view lends to fb_rotation; lives as long as the view. */
struct fb_rotary fb_view_rotary(const fb_view *view);

#endif
