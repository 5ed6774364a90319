/* draft.c - the model goes on where the context ends, for rules that want to know what its
 * next words look at.
 *
 * The user's turn is ended as the template does, and a few tokens are decoded greedily on the
 * full cache, which stays as it is. What counts is the attention of each of these tokens to
 * the context, summed layer by layer. Where no text ends a turn, the last token of the context
 * is said again to begin with.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/draft.h"
#include "base/number.h"
#include "engine/batch.h"
#include "engine/talk.h"

typedef struct drafting {
    fb_reading *reading;
    const fb_variant *full;
    fb_tensor *sum; /* [layers] of [heads, n]; persistent */
    fb_tail *tail;
    fb_batch_room room;
    int64_t at;   /* tokens in the tail */
    int32_t next; /* of greedy decoding */
} drafting;

static fb_status add_layer(void *self, int64_t layer, const fb_batch *batch)
{
    drafting *d = self;
    fb_ops *ops = d->reading->engine->ops;
    const fb_place before =
        fb_enter(d->reading->engine, FB_PHASE_context, FB_SCOPE_signal);
    const fb_tensor sum = d->sum[layer];

    d->sum[layer] =
        fb_persist(ops, FB_ACCOUNT_signals,
                   sum.id == 0 ? batch->sum : fb_add(ops, sum, batch->sum, 1));
    fb_release(ops, sum);
    fb_ops_move(ops, before);
    return fb_ops_status(ops);
}

/* Reads t tokens, whose attention counts or not, and decides on the next. */
static fb_status step(drafting *d, const int32_t *ids, int64_t t, bool counts)
{
    const int64_t zero = 0;
    const fb_talk talk = {.reading = d->reading};
    fb_ops *ops = d->reading->engine->ops;
    fb_batch batch = {.reading = d->reading,
                      .variants = &d->full,
                      .n = 1,
                      .t = t,
                      .tail = d->tail,
                      .sequence = &zero,
                      .at = &d->at,
                      .ids = ids,
                      .wants_sum = counts,
                      .after_layer = counts ? add_layer : NULL,
                      .self = d,
                      .room = &d->room};
    fb_tensor x;
    fb_status status;

    fb_scope_open(ops);
    status = fb_batch_run(&batch, &x);
    if (status == FB_OK)
        status =
            fb_talk_choose(&talk, fb_batch_hidden(&batch, x, t - 1, 1), 1, &d->next);
    fb_scope_close(ops);
    d->at += t;
    return status;
}

/* At least one token is fed, be it one that ends the answer. */
static fb_status go_on(drafting *d, int64_t n, int64_t *fed)
{
    bool is_over = false;

    for (*fed = 0; *fed < n && !is_over; ++*fed) {
        const int32_t id = d->next;

        FB_TRY(step(d, &id, 1, true));
        is_over = fb_talk_ends(d->reading->engine, id);
    }
    return FB_OK;
}

static fb_status mean(drafting *d, int64_t fed)
{
    fb_ops *ops = d->reading->engine->ops;
    const fb_place before =
        fb_enter(d->reading->engine, FB_PHASE_context, FB_SCOPE_signal);

    for (int64_t l = 0; l < d->reading->engine->shape.layers; l++) {
        const fb_tensor sum = d->sum[l];

        fb_scope_open(ops);
        d->sum[l] =
            fb_persist(ops, FB_ACCOUNT_signals, fb_scale(ops, sum, 1 / (double)fed));
        fb_release(ops, sum);
        fb_scope_close(ops);
    }
    fb_ops_move(ops, before);
    return fb_ops_status(ops);
}

static fb_status draft(drafting *d, const fb_ids *said, int64_t n)
{
    const fb_engine *engine = d->reading->engine;
    int64_t fed = 0;

    FB_TRY(fb_reading_fits(engine->facts, d->reading->n + said->n + n));
    FB_TRY(fb_tail_new(&d->tail, engine->ops, &engine->all, 1, said->n + n));
    FB_TRY(fb_batch_room_new(&d->room, engine, 1, said->n));
    FB_TRY(step(d, said->ids, said->n, false));
    FB_TRY(go_on(d, n, &fed));
    return mean(d, fed);
}

fb_status fb_draft(fb_reading *reading, const fb_variant *full, const fb_ids *said,
                   int64_t n, fb_tensor *out)
{
    drafting d = {.reading = reading, .full = full, .sum = out};
    const fb_status status = draft(&d, said, n);

    fb_batch_room_free(&d.room);
    fb_tail_free(d.tail);
    return status;
}
