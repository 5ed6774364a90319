/* measure.c - logits a few rows at a time, measured and dropped.
 *
 * The full cache's logits are made again from its hidden rows rather than kept: a row
 * of logits is a hundred times larger. They are made once for all variants and charged
 * to nobody, like the pass that gave the rows: every cell is compared with them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/measure.h"

#include "base/number.h"

#include <string.h>

/* Of logits at a time, as many as have room; changes no bit. */
enum { MOST_ROWS = 32, ROOM = 8 << 20 };

static int64_t most_rows(const fb_engine *engine)
{
    const int64_t rows = ROOM / (engine->facts->vocabulary * (int64_t)sizeof(float));

    return fb_smaller(MOST_ROWS, fb_larger(1, rows));
}

/* A block of places of the answer, for a few variants. */
struct block {
    int64_t first, rows;          /* places of the answer */
    int64_t at;                   /* the first of them in what is measured now */
    int64_t variant, variants;    /* members of the batch */
    fb_tensor full;               /* logits of the full cache [rows, vocabulary] */
    int32_t full_top1[MOST_ROWS]; /* [rows] */
};

static fb_status measure_block(const fb_reading *reading, const fb_question *question,
                               fb_tensor places, const struct block *b, fb_answer *out)
{
    const fb_engine *engine = reading->engine;
    fb_ops *ops = engine->ops;
    int32_t target[MOST_ROWS], top1[MOST_ROWS];
    double nll[MOST_ROWS], kl[MOST_ROWS];
    const int64_t n = b->variants * b->rows;
    fb_tensor h, logits;

    h = fb_narrow(ops, places, 0, b->variant,
                  b->variants); /* [variants, rows, width] */
    h = fb_reshape(ops, h, 2, (int64_t[]){n, engine->facts->width});
    logits = fb_linear(ops, h, fb_model_head(engine->model)); /* [n, vocabulary] */
    for (int64_t r = 0; r < n; r++)
        target[r] = question->answer[b->first + r % b->rows];
    FB_TRY(fb_nll(ops, logits, target, nll));
    FB_TRY(fb_kl(ops, b->full, logits, kl));
    FB_TRY(fb_argmax(ops, logits, top1));
    for (int64_t r = 0; r < n; r++) {
        fb_answer *answer = &out[b->variant + r / b->rows];
        const int64_t i = b->first + r % b->rows;

        answer->nll[i] = nll[r];
        answer->kl[i] = kl[r];
        answer->top1[i] = top1[r];
        answer->full_top1[i] = b->full_top1[r % b->rows];
    }
    return FB_OK;
}

static fb_status look_at_full(const fb_reading *reading, struct block *b)
{
    const fb_engine *engine = reading->engine;
    fb_ops *ops = engine->ops;

    fb_ops_charge(ops, NULL, 0);
    b->full = fb_linear(ops, fb_narrow(ops, reading->hidden, 0, b->first, b->rows),
                        fb_model_head(engine->model));
    return fb_argmax(ops, b->full, b->full_top1);
}

/* All variants at places [first, first + rows) of the answer. */
static fb_status measure_places(const fb_reading *reading, const fb_question *question,
                                fb_tensor hidden, struct block *b,
                                fb_ledger *const *ledgers, fb_answer *out)
{
    fb_ops *ops = reading->engine->ops;
    const int64_t n = fb_size(ops, hidden, 0);
    const int64_t most = most_rows(reading->engine) / b->rows;
    fb_status status = look_at_full(reading, b);
    fb_tensor places;

    fb_ops_charge(ops, ledgers, (int)n);
    places = fb_narrow(ops, hidden, 1, b->at, b->rows);
    for (int64_t v = 0; status == FB_OK && v < n; v += most) {
        b->variant = v;
        b->variants = fb_smaller(most, n - v);
        fb_ops_charge(ops, ledgers + v, (int)b->variants);
        fb_scope_open(ops);
        status = measure_block(reading, question, places, b, out);
        fb_scope_close(ops);
    }
    return status;
}

fb_status fb_measure(const fb_reading *reading, const fb_question *question,
                     fb_tensor hidden, int64_t first, fb_ledger *const *ledgers,
                     fb_answer *out)
{
    const fb_engine *engine = reading->engine;
    const fb_place place = fb_ops_place(engine->ops);
    const int64_t n = fb_size(engine->ops, hidden, 1), most = most_rows(engine);
    struct block block;
    fb_status status = FB_OK;

    fb_ops_move(engine->ops, (fb_place){place.phase, FB_SCOPE_measure});
    for (int64_t i = 0; status == FB_OK && i < n; i += most) {
        block = (struct block){
            .first = first + i, .rows = fb_smaller(most, n - i), .at = i};
        fb_scope_open(engine->ops);
        status = measure_places(reading, question, hidden, &block, ledgers, out);
        fb_scope_close(engine->ops);
    }
    fb_ops_move(engine->ops, place);
    return status;
}
