/* answer.c - a question and its answer for a group of variants.
 *
 * First the question and the reference answer, under teacher forcing, which gives NLL
 * and KL. A free answer is what greedy decoding from the question says, and nothing
 * else: as far as a variant agrees with the reference, the forced pass has shown it
 * already, with the first token that differs; from there it is decoded token by token. A
 * variant that agrees to the end goes on like any other, for it need not be silent after
 * the reference. Where there is no reference, the first pass shows the first token.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/number.h"
#include "engine/batch.h"
#include "engine/measure.h"
#include "engine/stream.h"
#include "engine/talk.h"

#include <string.h>

/* A group at work. */
struct group {
    fb_talk talk;
    const fb_variant *const *variants;
    int n;
    fb_tail *tail;
    fb_batch_room room;
    fb_ledger **ledgers;        /* [n] scratch */
    int64_t *sequence;          /* [n] variants at work */
    int64_t *at;                /* [n] tokens in their tails */
    int32_t *ids;               /* [n * t] */
    const fb_variant **members; /* [n] of `sequence` */
};

/* Tokens that a tail holds: the same for every variant of the question. */
static int64_t tail_tokens(const fb_question *question,
                           const fb_answer_options *options)
{
    return question->n_prompt + fb_talk_longest(question, options);
}

static void charge(const struct group *group, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        group->ledgers[i] = &group->talk.out[group->sequence[i]].ledger;
    fb_ops_charge(group->talk.reading->engine->ops, group->ledgers, (int)n);
}

/* Of the members lined up in the group, `t` tokens each, in `ids`. */
static fb_batch batch_of(const struct group *group, int64_t n, int64_t t)
{
    return (fb_batch){.reading = group->talk.reading,
                      .variants = group->members,
                      .n = n,
                      .t = t,
                      .tail = group->tail,
                      .sequence = group->sequence,
                      .at = group->at,
                      .ids = group->ids,
                      .room = &group->room};
}

/* --- teacher forcing --- */

static fb_batch forced_batch(const struct group *group, int64_t first, int64_t n)
{
    const fb_question *q = group->talk.question;
    const int64_t forced = fb_talk_places(q) - 1, t = q->n_prompt + forced;

    for (int64_t i = 0; i < n; i++) {
        int32_t *row = group->ids + i * t;

        group->sequence[i] = first + i;
        group->members[i] = group->variants[first + i];
        group->at[i] = 0;
        memcpy(row, q->prompt, (size_t)q->n_prompt * sizeof *row);
        if (forced > 0)
            memcpy(row + q->n_prompt, q->answer, (size_t)forced * sizeof *row);
    }
    return batch_of(group, n, t);
}

/* The first token of each answer, where no reference is measured. */
static fb_status begin(const struct group *group, fb_tensor hidden, int64_t first,
                       int64_t n)
{
    FB_TRY(fb_talk_choose(&group->talk, hidden, n, group->ids));
    for (int64_t i = 0; i < n; i++)
        group->talk.out[first + i].top1[0] = group->ids[i];
    return FB_OK;
}

static fb_status force(const struct group *group, int64_t first, int64_t n)
{
    const fb_question *q = group->talk.question;
    fb_ops *ops = group->talk.reading->engine->ops;
    fb_batch batch = forced_batch(group, first, n);
    char trace[65];
    fb_tensor x;
    fb_status status;

    charge(group, n);
    fb_scope_open(ops);
    fb_trace_begin(ops, n);
    status = fb_batch_run(&batch, &x);
    fb_trace_end(ops, trace);
    for (int64_t i = 0; i < n; i++)
        memcpy(group->talk.out[first + i].trace_answer, trace, sizeof trace);
    if (status == FB_OK) {
        x = fb_batch_hidden(&batch, x, q->n_prompt - 1, fb_talk_places(q));
        status = q->n_answer == 0 ? begin(group, x, first, n)
                                  : fb_measure(group->talk.reading, q, x, 0,
                                               group->ledgers, group->talk.out + first);
    }
    fb_scope_close(ops);
    return status;
}

static fb_status force_all(const struct group *group)
{
    const fb_question *q = group->talk.question;
    const int64_t most =
        fb_larger(1, FB_FORCED_ROWS / (q->n_prompt + fb_talk_places(q)));
    fb_status status = FB_OK;

    (void)fb_enter(group->talk.reading->engine, FB_PHASE_answer, FB_SCOPE_model);
    for (int64_t first = 0; status == FB_OK && first < group->n; first += most)
        status = force(group, first, fb_smaller(most, group->n - first));
    return status;
}

/* --- free answers --- */

/* One token for each of the n variants in `sequence`. */
static fb_status step(struct group *group, int64_t n)
{
    fb_ops *ops = group->talk.reading->engine->ops;
    fb_batch batch = batch_of(group, n, 1);
    char trace[65];
    fb_tensor x;
    fb_status status;

    charge(group, n);
    fb_scope_open(ops);
    fb_trace_begin(ops, n);
    status = fb_batch_run(&batch, &x);
    if (status == FB_OK)
        status = fb_talk_choose(&group->talk, fb_batch_hidden(&batch, x, 0, 1), n,
                                group->ids);
    fb_trace_end(ops, trace);
    for (int64_t i = 0; i < n; i++)
        memcpy(group->talk.out[group->sequence[i]].trace_decode, trace, sizeof trace);
    fb_scope_close(ops);
    return status;
}

/* Lines up the variants that are still talking, in order; how many they are. */
static int64_t gather(struct group *group, const bool *talking)
{
    int64_t n = 0;

    for (int v = 0; v < group->n; v++) {
        if (!talking[v]) continue;
        group->sequence[n] = v;
        group->members[n] = group->variants[v];
        group->at[n] = group->talk.question->n_prompt + group->talk.out[v].n_ids - 1;
        group->ids[n] = group->talk.out[v].ids[group->talk.out[v].n_ids - 1];
        n++;
    }
    return n;
}

static fb_status decode(struct group *group, bool *talking)
{
    fb_status status = FB_OK;
    int64_t n;

    (void)fb_enter(group->talk.reading->engine, FB_PHASE_decode, FB_SCOPE_model);
    for (int v = 0; v < group->n; v++)
        FB_TRY(fb_talk_begin(&group->talk, v, &talking[v]));
    while (status == FB_OK && (n = gather(group, talking)) > 0) {
        status = step(group, n);
        for (int64_t i = 0; status == FB_OK && i < n; i++) {
            const int v = (int)group->sequence[i];

            status = fb_talk_take(&group->talk, v, group->ids[i], &talking[v]);
        }
    }
    return status;
}

/* --- the group --- */

static fb_status open_group(struct group *group)
{
    const fb_question *q = group->talk.question;
    const int64_t tokens = tail_tokens(q, group->talk.options);
    const size_t n = (size_t)group->n, a = (size_t)fb_talk_places(q);
    const size_t t = (size_t)q->n_prompt + a;
    const fb_cache_shape *shape = &group->talk.reading->engine->all;

    group->ledgers = fb_alloc(FB_ACCOUNT_other, n * sizeof *group->ledgers);
    group->sequence = fb_alloc(FB_ACCOUNT_other, n * sizeof *group->sequence);
    group->at = fb_alloc(FB_ACCOUNT_other, n * sizeof *group->at);
    group->ids = fb_alloc(FB_ACCOUNT_other, n * t * sizeof *group->ids);
    group->members = fb_alloc(FB_ACCOUNT_other, n * sizeof *group->members);
    if (group->ledgers == NULL || group->sequence == NULL || group->at == NULL ||
        group->ids == NULL || group->members == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for %d answers", group->n);
    for (size_t v = 0; v < n; v++)
        group->talk.out[v].tail_bytes = fb_tail_bytes(shape, tokens);
    FB_TRY(fb_batch_room_new(&group->room, group->talk.reading->engine, group->n,
                             (int64_t)(n * t)));
    return fb_tail_new(&group->tail, group->talk.reading->engine->ops, shape, group->n,
                       tokens);
}

static void close_group(struct group *group)
{
    fb_tail_free(group->tail);
    fb_batch_room_free(&group->room);
    fb_free(group->ledgers);
    fb_free(group->sequence);
    fb_free(group->at);
    fb_free(group->ids);
    fb_free(group->members);
}

static fb_status answer_all(struct group *group)
{
    bool *talking = fb_zalloc(FB_ACCOUNT_other, (size_t)group->n * sizeof *talking);
    fb_status status;

    if (talking == NULL) return fb_fail(FB_NO_MEMORY, "no memory for answers");
    status = force_all(group);
    if (status == FB_OK && group->talk.options->generate)
        status = decode(group, talking);
    fb_free(talking);
    return status;
}

static fb_status answer_batch(struct group *group)
{
    const fb_status status = open_group(group);

    return status == FB_OK ? answer_all(group) : status;
}

/* Question and answer stand under the budgets: of all variants, or of none. */
static bool go_on(const struct group *group)
{
    return group->n > 0 && group->variants[0]->stream != NULL;
}

/* Their caches go different ways from the first eviction on. */
static fb_status answer_streams(const struct group *group)
{
    fb_status status = FB_OK;

    for (int v = 0; status == FB_OK && v < group->n; v++) {
        FB_ASSERT(group->variants[v]->stream != NULL);
        status = fb_stream_answer(&group->talk, group->variants[v]->stream, v);
    }
    return status;
}

/* What a reference is measured against. */
static fb_status look_at_full(fb_reading *reading, const fb_question *question,
                              const fb_answer_options *options)
{
    if (question->n_answer > 0) return fb_meet(reading, question);
    if (question->n_prompt > 0 && options->generate) return FB_OK;
    return fb_fail(FB_USAGE,
                   "without a reference answer a question needs a prompt of at "
                   "least one token, and a free answer");
}

fb_status fb_answer_group(fb_reading *reading, fb_variant *const *variants,
                          int n_variants, const fb_question *question,
                          const fb_answer_options *options, fb_answer *out)
{
    const fb_place before = fb_ops_place(reading->engine->ops);
    struct group group = {.talk = {reading, question, options, out},
                          .variants = (const fb_variant *const *)variants,
                          .n = n_variants};
    fb_status status;

    FB_ASSERT(!options->generate || options->max_tokens > 0);
    memset(out, 0, (size_t)n_variants * sizeof *out);
    FB_TRY(fb_reading_fits(reading->engine->facts,
                           reading->n + tail_tokens(question, options)));
    FB_TRY(look_at_full(reading, question, options));
    status = fb_talk_open(&group.talk, n_variants);
    if (status == FB_OK)
        status = go_on(&group) ? answer_streams(&group) : answer_batch(&group);
    fb_ops_charge(reading->engine->ops, NULL, 0);
    fb_ops_move(reading->engine->ops, before);
    close_group(&group);
    for (int v = 0; status != FB_OK && v < n_variants; v++)
        fb_answer_clear(&out[v]);
    return status;
}

void fb_answer_clear(fb_answer *answer)
{
    fb_free(answer->nll);
    fb_free(answer->kl);
    fb_free(answer->top1);
    fb_free(answer->full_top1);
    fb_free(answer->ids);
    fb_selection_clear(&answer->held);
    memset(answer, 0, sizeof *answer);
}

static bool are_same(const void *a, const void *b, int64_t n, size_t size)
{
    return n == 0 || a == b ||
           (a != NULL && b != NULL && memcmp(a, b, (size_t)n * size) == 0);
}

bool fb_answer_is_same(const fb_answer *a, const fb_answer *b)
{
    return a->n == b->n && a->n_ids == b->n_ids && a->stop == b->stop &&
           are_same(a->nll, b->nll, a->n, sizeof *a->nll) &&
           are_same(a->kl, b->kl, a->n, sizeof *a->kl) &&
           are_same(a->top1, b->top1, a->n, sizeof *a->top1) &&
           are_same(a->ids, b->ids, a->n_ids, sizeof *a->ids) &&
           fb_ledger_equal(&a->ledger, &b->ledger);
}

size_t fb_answer_bytes(const fb_model_facts *facts, fb_dtype cache,
                       const fb_question *question, const fb_answer_options *options)
{
    const fb_cache_shape shape = {facts->layers, facts->kv_heads, facts->head_dim,
                                  cache};
    const size_t row = (size_t)(facts->vocabulary + 4 * facts->width + 3 * facts->ffn);

    return fb_tail_bytes(&shape, tail_tokens(question, options)) + row * sizeof(float) +
           sizeof(fb_answer);
}
