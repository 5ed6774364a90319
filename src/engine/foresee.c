/* foresee.c - the full cache's own answer: what others are compared with, and what it
 * looked at, for the rules that may read the future.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/hash.h"
#include "engine/batch.h"

#include <string.h>

static void hash_question(const fb_question *question, char hex[65])
{
    fb_hash hash;

    fb_hash_init(&hash);
    fb_hash_add(&hash, &question->n_prompt, sizeof question->n_prompt);
    fb_hash_add(&hash, question->prompt, (size_t)question->n_prompt * sizeof(int32_t));
    fb_hash_add(&hash, question->answer, (size_t)question->n_answer * sizeof(int32_t));
    fb_hash_hex(&hash, hex);
}

/* A pass of a question over the full cache, and who looks at its attention. */
struct view {
    fb_reading *reading;
    int64_t n_rows; /* that the mean is over */
    bool is_last;   /* question of a document */
    /* fb_batch.after_layer; NULL: nobody */
    fb_status (*look)(void *self, int64_t layer, const fb_batch *batch);
};

static bool reads(const fb_scored_rule *rule, fb_signal signal)
{
    return (fb_bound_rule_choices(rule->rule)->reads & signal) != 0;
}

/* Scores a layer for the rules that read `signal`, but not those that wait for `other`. */
static fb_status score_for(fb_reading *reading, fb_signal signal, uint32_t other,
                           int64_t layer, const fb_layer_signals *seen)
{
    fb_status status = FB_OK;

    for (int r = 0; status == FB_OK && r < reading->n_rules; r++) {
        fb_scored_rule *rule = &reading->rules[r];

        if (rule->has_failed || !reads(rule, signal) || reads(rule, (fb_signal)other) ||
            fb_select_falls_back(rule->rule, reading->n))
            continue;
        status = fb_reading_score_layer(reading, rule, layer, seen);
        rule->has_failed = status != FB_OK;
    }
    return status;
}

static fb_status look_at_question(void *self, int64_t layer, const fb_batch *batch)
{
    const struct view *view = self;
    fb_reading *reading = view->reading;
    const fb_layer_signals seen = {
        .future = fb_scale(reading->engine->ops, batch->sum, 1 / (double)view->n_rows),
        .document_future = reading->document_future[layer]};

    return score_for(reading, FB_READS_FUTURE, 0, layer, &seen);
}

/* Adds the question's part to the mean; with the last one it is complete. */
static fb_status look_at_document(void *self, int64_t layer, const fb_batch *batch)
{
    const struct view *view = self;
    fb_reading *reading = view->reading;
    fb_ops *ops = reading->engine->ops;
    const fb_tensor before = reading->document_future[layer];
    fb_tensor mean = fb_scale(ops, batch->sum, 1 / (double)view->n_rows);

    if (before.id != 0) mean = fb_add(ops, before, mean, 1);
    reading->document_future[layer] = fb_persist(ops, FB_ACCOUNT_signals, mean);
    fb_release(ops, before);
    FB_TRY(fb_ops_status(ops));
    if (!view->is_last) return FB_OK;
    return score_for(
        reading, FB_READS_DOCUMENT_FUTURE, FB_READS_FUTURE, layer,
        &(fb_layer_signals){.document_future = reading->document_future[layer]});
}

static fb_status run(fb_reading *reading, const fb_question *question, fb_variant *full,
                     fb_tail *tail, const int32_t *ids, struct view *view)
{
    const int64_t zero = 0, t = question->n_prompt + question->n_answer;
    const fb_variant *const variants[] = {full};
    fb_ops *ops = reading->engine->ops;
    fb_batch_room room;
    fb_batch batch = {.reading = reading,
                      .variants = variants,
                      .n = 1,
                      .t = t,
                      .tail = tail,
                      .sequence = &zero,
                      .at = &zero,
                      .ids = ids,
                      .wants_sum = view->look != NULL,
                      .after_layer = view->look,
                      .self = view,
                      .room = &room};
    fb_tensor x, hidden;
    fb_status status;

    status = fb_batch_room_new(&room, reading->engine, 1, t);
    fb_scope_open(ops);
    if (status == FB_OK) status = fb_batch_run(&batch, &x);
    if (status == FB_OK) {
        hidden = fb_batch_hidden(&batch, x, question->n_prompt - 1, question->n_answer);
        hidden =
            fb_reshape(ops, hidden, 2,
                       (int64_t[]){question->n_answer, reading->engine->facts->width});
        fb_release(ops, reading->hidden);
        reading->hidden = fb_persist(ops, FB_ACCOUNT_other, hidden);
        status = fb_ops_status(ops);
    }
    fb_scope_close(ops);
    fb_batch_room_free(&room);
    return status;
}

static fb_status join_ids(const fb_question *question, int32_t **out)
{
    const size_t prompt = (size_t)question->n_prompt,
                 answer = (size_t)question->n_answer;

    *out = fb_alloc(FB_ACCOUNT_other, (prompt + answer) * sizeof **out);
    if (*out == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a question");
    memcpy(*out, question->prompt, prompt * sizeof **out);
    memcpy(*out + prompt, question->answer, answer * sizeof **out);
    return FB_OK;
}

/* The pass, whatever is known already. */
static fb_status ask(fb_reading *reading, const fb_question *question,
                     struct view *view)
{
    const int64_t t = question->n_prompt + question->n_answer;
    fb_ops *ops = reading->engine->ops;
    fb_variant *full = NULL;
    fb_tail *tail = NULL;
    int32_t *ids = NULL;
    fb_place before;
    fb_status status;

    if (reading->cache == NULL)
        return fb_fail(FB_DEFECT, "a question that was not met before the full cache "
                                  "was let go");
    FB_TRY(fb_reading_fits(reading->engine->facts, reading->n + t));
    reading->question_sha256[0] = 0; /* should it fail halfway, nothing is known */
    before = fb_enter(reading->engine, FB_PHASE_answer, FB_SCOPE_model);
    fb_ops_charge(ops, NULL, 0);
    status = fb_keep_all(&full, reading);
    if (status == FB_OK) status = fb_tail_new(&tail, ops, &reading->engine->all, 1, t);
    if (status == FB_OK) status = join_ids(question, &ids);
    if (status == FB_OK) status = run(reading, question, full, tail, ids, view);
    fb_free(ids);
    fb_tail_free(tail);
    fb_variant_free(full);
    fb_ops_move(ops, before);
    if (status == FB_OK) hash_question(question, reading->question_sha256);
    return status;
}

static fb_status check_question(const fb_question *question)
{
    if (question->n_prompt >= 1 && question->n_answer >= 1) return FB_OK;
    return fb_fail(FB_USAGE, "a question needs a prompt and a reference answer of at "
                             "least one token each");
}

fb_status fb_reading_answer(fb_reading *reading, const fb_question *question,
                            bool foresee)
{
    struct view view = {.reading = reading,
                        .n_rows = question->n_prompt + question->n_answer,
                        .look = foresee ? look_at_question : NULL};
    char hex[65];

    FB_TRY(check_question(question));
    hash_question(question, hex);
    if (strcmp(hex, reading->question_sha256) == 0 &&
        (reading->has_foreseen || !foresee))
        return FB_OK;
    FB_TRY(ask(reading, question, &view));
    reading->has_foreseen = foresee;
    return FB_OK;
}

bool fb_has_failed_to_foresee(const fb_reading *reading, int rule)
{
    return reading->rules[rule].has_failed;
}

fb_status fb_meet(fb_reading *reading, const fb_question *question)
{
    return question->n_answer > 0 ? fb_reading_answer(reading, question, false) : FB_OK;
}

fb_status fb_foresee(fb_reading *reading, const fb_question *question)
{
    return fb_reading_answer(reading, question, true);
}

fb_status fb_foresee_document(fb_reading *reading, const fb_question *questions, int n)
{
    struct view view = {.reading = reading, .look = look_at_document};

    for (int i = 0; i < n; i++) {
        FB_TRY(check_question(&questions[i]));
        view.n_rows += questions[i].n_prompt + questions[i].n_answer;
    }
    for (int64_t l = 0; l < reading->engine->shape.layers; l++) {
        fb_release(reading->engine->ops, reading->document_future[l]);
        reading->document_future[l] = FB_NONE;
    }
    reading->has_foreseen = false;
    for (int i = 0; i < n; i++) {
        view.is_last = i == n - 1;
        FB_TRY(ask(reading, &questions[i], &view));
    }
    return FB_OK;
}
