/* stream.h - inside of src/engine: a text that comes in under a budget.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_STREAM_H
#define FB_ENGINE_STREAM_H

#include "engine/talk.h"

typedef struct fb_stream {
    fb_view view; /* its rule, and what the cache holds now */
    fb_protect protect;
    int64_t k, chunk; /* entries a head may hold; tokens read at a time */
    int64_t interval; /* the same of an answer; 0: it stands beside the budget */
    int64_t length;   /* of the context, which some rotations depend on */
    fb_cache *cache;  /* of k tokens, of the layers that are evicted from */
    fb_cache
        *sliding; /* of a window and a block, of the others; NULL: there are none */
    int32_t **position; /* [slots] of [k] */
    fb_tensor
        *queries; /* [layers] of [.., H*d], the last that the rule reads; persistent */
    fb_tensor
        *state; /* [layers] of [G, rows, m]; persistent; FB_NONE: the rule has none */
    fb_tensor *learnt; /* [layers] of [H, rows, d]; persistent; FB_NONE: nothing yet */
    fb_tensor *scores; /* [layers] of an event; persistent */
    /* [layers] of [G, ..] those of the first entries, which survived an event; persistent;
     * FB_NONE: none has one, or all are scored anew */
    fb_tensor *kept_scores;
    bool keeps_scores;
    fb_tensor *sum;       /* [layers] of [H, m at the end of the block]; persistent;
                             FB_NONE: the rule reads none, or no block is at work */
    fb_tensor *rows;      /* [layers] the same of [H, block, m at its end] */
    fb_segment *segments; /* [G] */
    fb_account
        keeps; /* of the rule's state and queries: rule_state; of a copy, other */
    int64_t events;
    int64_t highest;                   /* entries a head held, at most */
    int64_t n_protected, free_choices; /* of the last event */
    bool fallback, shrunk;             /* of any */

    /* The block at work. */
    int64_t block, at; /* its tokens; those that are in */
    fb_angles angles;  /* of a piece of it */
    fb_tensor x;       /* [t, width] */
    fb_tensor asked;   /* [t, H*d] its queries in the layer at work */
} fb_stream;

/* Queries of the last tokens that the rule wants to see at an event; 0: none. */
int64_t fb_stream_last_queries(const fb_bound_rule *rule);

/* --- reading (stream.c) --- */

/* The rule evicts if t more tokens would not fit. */
FB_MUST_USE fb_status fb_stream_make_room(fb_stream *stream, int64_t t);
/* The next t tokens, for which there is room, are a block. */
void fb_stream_open_block(fb_stream *stream, int64_t t);
/* Both. */
FB_MUST_USE fb_status fb_stream_begin(fb_stream *stream, int64_t t);
/* Reads t of its tokens. With `wants_output` x is what the last layer makes of them, in the
 * scope open at the call. */
FB_MUST_USE fb_status fb_stream_piece(fb_stream *stream, const int32_t *ids, int64_t t,
                                      bool wants_output);
/* Reads n tokens, a chunk a block. */
FB_MUST_USE fb_status fb_stream_read(fb_stream *stream, const int32_t *ids, int64_t n);

/* stream_event.c - the rule evicts until `most` entries a head are left. */
FB_MUST_USE fb_status fb_stream_evict(fb_stream *stream, int64_t most);

/* --- stream_scores.c --- */

/* `fresh` [G, ..] of all entries, with the kept ones instead where there are some. */
fb_tensor fb_stream_join_scores(const fb_stream *stream, int64_t layer,
                                fb_tensor fresh);
/* The scores of an event are no longer needed; those of what stays are, if they are kept. */
FB_MUST_USE fb_status fb_stream_keep_scores(fb_stream *stream, int64_t layer,
                                            const fb_kept *kept);

/* --- lifetime (stream_open.c) --- */

/* A stream like `like`, of which rule, sizes and settings are set, without any token. */
FB_MUST_USE fb_status fb_stream_open(fb_stream **out, const fb_stream *like);
/* One that goes on from where `from` is, between two blocks. Its cache is no part of the
 * budget: it stands for that of `from`. */
FB_MUST_USE fb_status fb_stream_fork(fb_stream **out, const fb_stream *from);
void fb_stream_free(fb_stream *stream); /* takes NULL */

/* stream_answer.c - what variant v of a talk says, whose text goes on from `from`. */
FB_MUST_USE fb_status fb_stream_answer(const fb_talk *talk, const fb_stream *from,
                                       int v);

/* What is left of the text in it [slots], and what its last event chose from. */
FB_MUST_USE fb_status fb_stream_held(const fb_stream *stream, fb_selection *out);

#endif
