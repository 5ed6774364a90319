/* stream_answer.c - a question and its answer, under the budget of the context.
 *
 * The question is one more piece of text. Then the answer: before every `interval` tokens of
 * it that would not fit, the rule evicts, so that these fit. First the reference comes in and
 * is measured; then the free answer, token by token, from the same state after the context.
 * Both meet the same evictions, so where they say the same they are the same bits.
 *
 * A rule is shown each token of an answer by itself: what it sees of a longer block would have
 * to be held from token to token, beside the budget. The reference comes in so too, or the two
 * passes would not be the same.
 *
 * Each pass works in a copy of the cache, for the variant may be asked again. The copy and
 * whatever a pass repeats of another is charged to nobody.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "engine/measure.h"
#include "engine/stream.h"

enum { COLUMNS = 1 };

typedef struct pass {
    const fb_talk *talk;
    const fb_stream *from; /* after the context */
    int v;
    fb_answer *answer;
    fb_ledger *payer; /* NULL: nobody */
    fb_stream *s;     /* the copy at work */
    int64_t said;     /* tokens of the answer that it has read */
    int64_t room;     /* so many of them, once there was room for these */
    int64_t place;    /* of the reference that comes next */
    int32_t next;     /* of greedy decoding */
} pass;

/* What is done with hidden rows [1, n, width], after the final norm. */
typedef fb_status use_rows(pass *p, fb_tensor hidden);

static void charge(pass *p, fb_ledger *ledger)
{
    p->payer = ledger;
    fb_ops_charge(p->talk->reading->engine->ops, &p->payer, ledger != NULL ? 1 : 0);
}

/* --- reading --- */

static fb_tensor last_hidden(const fb_stream *s, int64_t n)
{
    const fb_engine *engine = s->view.engine;
    fb_ops *ops = engine->ops;
    const int64_t t = fb_size(ops, s->x, 0);
    fb_tensor h = fb_narrow(ops, s->x, 0, t - n, n);

    h = fb_rms_norm(ops, h, fb_model_norm(engine->model), engine->facts->rms_eps);
    return fb_reshape(ops, h, 3, (int64_t[]){1, n, engine->facts->width});
}

/* t tokens of the block at work, of which the last n rows are used. */
static fb_status read_piece(pass *p, const int32_t *ids, int64_t t, int64_t n,
                            use_rows *use)
{
    fb_ops *ops = p->s->view.engine->ops;
    fb_status status;

    fb_scope_open(ops);
    status = fb_stream_piece(p->s, ids, t, n > 0);
    if (status == FB_OK && n > 0) status = use(p, last_hidden(p->s, n));
    fb_scope_close(ops);
    return status;
}

static fb_status read_question(pass *p, use_rows *use)
{
    const fb_question *q = p->talk->question;

    for (int64_t i = 0; i < q->n_prompt; i += p->s->chunk) {
        const int64_t t = fb_smaller(p->s->chunk, q->n_prompt - i);
        const bool is_last = i + t == q->n_prompt;

        FB_TRY(fb_stream_begin(p->s, t));
        FB_TRY(read_piece(p, q->prompt + i, t, is_last && use != NULL ? 1 : 0, use));
    }
    return FB_OK;
}

/* Room for the next tokens of an answer, of which the last of the longest is never read. */
static fb_status make_room(pass *p)
{
    const int64_t most = fb_talk_longest(p->talk->question, p->talk->options) - 1;
    const int64_t t = fb_smaller(p->s->interval, most - p->said);

    FB_TRY(fb_stream_make_room(p->s, t));
    p->room = p->said + t;
    return FB_OK;
}

/* The next token of the answer: a block of its own. */
static fb_status read_answer(pass *p, const int32_t *ids, use_rows *use)
{
    if (p->said == p->room) FB_TRY(make_room(p));
    fb_stream_open_block(p->s, 1);
    FB_TRY(read_piece(p, ids + p->said, 1, use != NULL ? 1 : 0, use));
    p->said++;
    return FB_OK;
}

/* --- the first pass --- */

static fb_status measure(pass *p, fb_tensor hidden)
{
    const int64_t n = fb_size(p->s->view.engine->ops, hidden, COLUMNS);
    fb_status status;

    status = fb_measure(p->talk->reading, p->talk->question, hidden, p->place,
                        &p->payer, p->answer);
    charge(p, p->payer);
    p->place += n;
    return status;
}

/* Of an answer without a reference. */
static fb_status show_first(pass *p, fb_tensor hidden)
{
    return fb_talk_choose(p->talk, hidden, 1, p->answer->top1);
}

static fb_status force(pass *p)
{
    const fb_question *q = p->talk->question;

    FB_TRY(read_question(p, q->n_answer > 0 ? measure : show_first));
    while (p->said < q->n_answer - 1)
        FB_TRY(read_answer(p, q->answer, measure));
    return FB_OK;
}

static fb_status note(pass *p)
{
    p->answer->n_read = p->s->view.n;
    p->answer->events = p->s->events;
    p->answer->highest = p->s->highest;
    return fb_stream_held(p->s, &p->answer->held);
}

static fb_status first_pass(pass *p)
{
    fb_ops *ops = p->talk->reading->engine->ops;
    fb_status status;

    (void)fb_enter(p->talk->reading->engine, FB_PHASE_answer, FB_SCOPE_model);
    charge(p, NULL);
    FB_TRY(fb_stream_fork(&p->s, p->from));
    charge(p, &p->answer->ledger);
    fb_trace_begin(ops, 1);
    status = force(p);
    fb_trace_end(ops, p->answer->trace_answer);
    return status == FB_OK ? note(p) : status;
}

/* --- the free answer --- */

/* To the state after the question, where the first pass has gone on from it. */
static fb_status go_back(pass *p)
{
    if (p->said == 0) return FB_OK;
    fb_stream_free(p->s);
    p->s = NULL;
    p->said = p->room = 0;
    FB_TRY(fb_stream_fork(&p->s, p->from));
    return read_question(p, NULL);
}

/* What the first pass has shown, but for the last token of it. */
static fb_status catch_up(pass *p)
{
    const fb_answer *answer = p->answer;

    while (p->said < answer->n_ids - 1)
        FB_TRY(read_answer(p, answer->ids, NULL));
    return FB_OK;
}

static fb_status choose(pass *p, fb_tensor hidden)
{
    return fb_talk_choose(p->talk, hidden, 1, &p->next);
}

static fb_status step(pass *p)
{
    fb_ops *ops = p->s->view.engine->ops;
    fb_status status;

    fb_trace_begin(ops, 1);
    status = read_answer(p, p->answer->ids, choose);
    fb_trace_end(ops, p->answer->trace_decode);
    return status;
}

static fb_status decode(pass *p)
{
    bool talking = true;

    (void)fb_enter(p->s->view.engine, FB_PHASE_decode, FB_SCOPE_model);
    FB_TRY(fb_talk_begin(p->talk, p->v, &talking));
    if (!talking) return FB_OK;
    charge(p, NULL);
    FB_TRY(go_back(p));
    FB_TRY(catch_up(p));
    charge(p, &p->answer->ledger);
    while (talking) {
        FB_TRY(step(p));
        FB_TRY(fb_talk_take(p->talk, p->v, p->next, &talking));
    }
    p->answer->free_events = p->s->events;
    p->answer->highest = fb_larger(p->answer->highest, p->s->highest);
    return FB_OK;
}

fb_status fb_stream_answer(const fb_talk *talk, const fb_stream *from, int v)
{
    pass p = {.talk = talk, .from = from, .v = v, .answer = &talk->out[v]};
    fb_status status = first_pass(&p);

    if (status == FB_OK && talk->options->generate) status = decode(&p);
    fb_stream_free(p.s);
    return status;
}
