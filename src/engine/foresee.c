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

/* Rows that look: prompt and reference answer. */
struct view {
    fb_reading *reading;
    int64_t n_rows;
};

static fb_status score_future(void *self, int64_t layer, const fb_batch *batch)
{
    const struct view *view = self;
    fb_reading *reading = view->reading;
    const fb_layer_signals seen = {
        .future = fb_scale(reading->engine->ops, batch->sum, 1 / (double)view->n_rows)};
    fb_status status = FB_OK;

    for (int r = 0; status == FB_OK && r < reading->n_rules; r++) {
        fb_scored_rule *rule = &reading->rules[r];

        if (rule->has_failed || fb_bound_rule_is_deployable(rule->rule) ||
            fb_select_falls_back(rule->rule, reading->n))
            continue;
        status = fb_reading_score_layer(reading, rule, layer, &seen);
        rule->has_failed = status != FB_OK;
    }
    return status;
}

static fb_status run(fb_reading *reading, const fb_question *question, fb_variant *full,
                     fb_tail *tail, const int32_t *ids, bool foresee)
{
    const int64_t zero = 0, t = question->n_prompt + question->n_answer;
    const fb_variant *const variants[] = {full};
    fb_ops *ops = reading->engine->ops;
    struct view view = {reading, t};
    fb_batch_room room;
    fb_batch batch = {.reading = reading,
                      .variants = variants,
                      .n = 1,
                      .t = t,
                      .tail = tail,
                      .sequence = &zero,
                      .at = &zero,
                      .ids = ids,
                      .wants_sum = foresee,
                      .after_layer = foresee ? score_future : NULL,
                      .self = &view,
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

fb_status fb_reading_answer(fb_reading *reading, const fb_question *question,
                            bool foresee)
{
    const int64_t t = question->n_prompt + question->n_answer;
    fb_ops *ops = reading->engine->ops;
    char hex[65];
    fb_variant *full = NULL;
    fb_tail *tail = NULL;
    int32_t *ids = NULL;
    fb_place before;
    fb_status status;

    if (question->n_prompt < 1 || question->n_answer < 1)
        return fb_fail(FB_USAGE,
                       "a question needs a prompt and a reference answer of at "
                       "least one token each");
    FB_TRY(fb_reading_fits(reading->engine->facts, reading->n + t));
    hash_question(question, hex);
    if (strcmp(hex, reading->question_sha256) == 0 &&
        (reading->has_foreseen || !foresee))
        return FB_OK;
    reading->question_sha256[0] = 0; /* should it fail halfway, nothing is known */
    before = fb_enter(reading->engine, FB_PHASE_answer, FB_SCOPE_model);
    fb_ops_charge(ops, NULL, 0);
    status = fb_keep_all(&full, reading);
    if (status == FB_OK) status = fb_tail_new(&tail, ops, &reading->engine->all, 1, t);
    if (status == FB_OK) status = join_ids(question, &ids);
    if (status == FB_OK) status = run(reading, question, full, tail, ids, foresee);
    fb_free(ids);
    fb_tail_free(tail);
    fb_variant_free(full);
    fb_ops_move(ops, before);
    if (status != FB_OK) return status;
    memcpy(reading->question_sha256, hex, sizeof hex);
    reading->has_foreseen = foresee;
    return FB_OK;
}

bool fb_has_failed_to_foresee(const fb_reading *reading, int rule)
{
    return reading->rules[rule].has_failed;
}

fb_status fb_foresee(fb_reading *reading, const fb_question *question)
{
    return fb_reading_answer(reading, question, true);
}
