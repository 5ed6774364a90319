/* decoder.h - inside of src/engine: one layer of the network over a block of rows.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_DECODER_H
#define FB_ENGINE_DECODER_H

#include "engine/engine.h"

struct fb_engine {
    fb_ops *ops;
    const fb_model *model;
    const fb_model_facts *facts;
    fb_cache_shape shape;   /* of the layers that are evicted from */
    fb_cache_shape sliding; /* of those that only have their window */
    fb_cache_shape all;     /* of both */
    fb_engine_options options;
    double scale; /* of attention */
};

/* What the kernel saw of one layer; FB_NONE: not asked for. */
typedef struct fb_layer_signals {
    fb_tensor sum;             /* [H, n] attention to each entry, over all queries */
    fb_tensor rows;            /* [H, window, n] of the last queries */
    fb_tensor block;           /* [H, t, m] of the queries of a block at work */
    fb_tensor queries;         /* [n, H*d] of all, rotated */
    fb_tensor future;          /* [H, n] mean over the queries that are still to come */
    fb_tensor document_future; /* the same over those of all questions */
    fb_tensor residual;        /* [n] of all tokens, as in rule.h */
    fb_tensor replay;          /* [H, n] as in rule.h */
} fb_layer_signals;

/* Rotary tables of a block's rows: [R, r/2] each. FB_NONE where no layer uses them. */
typedef struct fb_angles {
    fb_tensor cosine[FB_N_ROPES], sine[FB_N_ROPES];
} fb_angles;

/* Stores the block's keys and values and attends: qkv [R, (H + 2G)*d], rotated, to
 * [R, H*d]. */
typedef fb_tensor fb_attend_rows(void *self, int64_t layer, fb_tensor qkv);

/* Sees the attention of a layer just before it is added to the residual stream: x, the
 * norm of it that attention read, and what it adds, [R, width] each. */
typedef void fb_see_rows(void *self, fb_tensor x, fb_tensor normed, fb_tensor added);

/* What a pass does in the middle of a layer. */
typedef struct fb_layer_hooks {
    fb_attend_rows *attend;
    fb_see_rows *see; /* NULL: nobody looks */
    void *self;       /* of both */
} fb_layer_hooks;

/* x [R, width] (changed in place) through `layer`. With `only_attend` the block ends
 * after attention: nothing but `see` reads the output of the last layer of a context.
 * `first_row` is for the watcher. */
void fb_layer_forward(const fb_engine *engine, int64_t layer, fb_tensor x,
                      const fb_angles *angles, int64_t first_row, bool only_attend,
                      const fb_layer_hooks *hooks);

/* Rotary tables for `n` tokens of a text of `length` tokens, in the open scope: of their
 * positions [n], and of those in sliding layers [n], whose windows are never renumbered. */
FB_MUST_USE fb_status fb_angles_of(const fb_engine *engine, int64_t length,
                                   const int64_t *position, const int64_t *in_windows,
                                   int64_t n, fb_angles *out);

/* turn.c - the keys of the first m entries of a slot of layers that do not slide turn further,
 * entry j by by[j] positions, as in a text of `length` tokens. */
FB_MUST_USE fb_status fb_turn_keys(const fb_engine *engine, fb_cache *cache,
                                   int64_t slot, int64_t length, const int64_t *by,
                                   int64_t m);
/* The same of queries [t, H*d], all by as many positions, in the open scope. */
fb_tensor fb_turn_queries(const fb_engine *engine, fb_tensor queries, int64_t length,
                          int64_t by);

/* x [n, width] of tokens, before the first layer. */
fb_tensor fb_embed(const fb_engine *engine, const int32_t *ids, int64_t n);

/* The window that attention has to cut to in `layer` when `seen` tokens are there: 0 if
 * all of them are inside it. */
int64_t fb_window_of(const fb_engine *engine, int64_t layer, int64_t seen);

/* Sets scope and phase around a piece of work; returns the place to go back to. */
fb_place fb_enter(const fb_engine *engine, fb_phase phase, fb_scope scope);

/* What is made of nothing from here on lies where the cache of the layer does, and so its
 * attention: caches of layers with and without a window are divided among parts each. */
void fb_use_layer(const fb_engine *engine, int64_t layer);

#endif
