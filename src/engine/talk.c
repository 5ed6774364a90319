/* talk.c - see talk.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/talk.h"

#include "base/number.h"

int64_t fb_talk_places(const fb_question *question)
{
    return fb_larger(question->n_answer, 1);
}

int64_t fb_talk_longest(const fb_question *question, const fb_answer_options *options)
{
    return fb_larger(question->n_answer, options->generate ? options->max_tokens : 0);
}

fb_status fb_talk_open(const fb_talk *talk, int n)
{
    const size_t places = (size_t)fb_talk_places(talk->question);
    bool has_all = true;

    for (int v = 0; v < n; v++) {
        fb_answer *answer = &talk->out[v];

        answer->n = talk->question->n_answer;
        answer->nll = fb_alloc(FB_ACCOUNT_other, places * sizeof *answer->nll);
        answer->kl = fb_alloc(FB_ACCOUNT_other, places * sizeof *answer->kl);
        answer->top1 = fb_alloc(FB_ACCOUNT_other, places * sizeof *answer->top1);
        answer->full_top1 =
            fb_alloc(FB_ACCOUNT_other, places * sizeof *answer->full_top1);
        has_all = has_all && answer->nll != NULL && answer->kl != NULL &&
                  answer->top1 != NULL && answer->full_top1 != NULL;
    }
    return has_all ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for %d answers", n);
}

bool fb_talk_ends(const fb_engine *engine, int32_t id)
{
    return fb_ops_has_numbers(engine->ops) &&
           fb_tokenizer_is_end(fb_model_tokenizer(engine->model), id);
}

fb_status fb_talk_take(const fb_talk *talk, int v, int32_t id, bool *talking)
{
    const fb_answer_options *options = talk->options;
    const bool is_end =
        !options->goes_past_end && fb_talk_ends(talk->reading->engine, id);
    fb_answer *answer = &talk->out[v];
    bool is_done = false;

    if (!is_end) answer->ids[answer->n_ids++] = id;
    if (!is_end && options->is_done != NULL)
        FB_TRY(options->is_done(options->self, answer->ids, answer->n_ids, &is_done));
    answer->stop = is_end ? FB_STOP_end : is_done ? FB_STOP_string : FB_STOP_length;
    *talking = !is_end && !is_done && answer->n_ids < options->max_tokens;
    if (options->watch == NULL) return FB_OK;
    return options->watch(options->self, &(fb_growth){.variant = v,
                                                      .ids = answer->ids,
                                                      .n = answer->n_ids,
                                                      .n_new = is_end ? 0 : 1,
                                                      .is_over = !*talking,
                                                      .stop = answer->stop});
}

fb_status fb_talk_begin(const fb_talk *talk, int v, bool *talking)
{
    const fb_question *q = talk->question;
    const size_t room = (size_t)talk->options->max_tokens;
    fb_answer *answer = &talk->out[v];

    answer->ids = fb_alloc(FB_ACCOUNT_other, fb_size_mul(room, sizeof *answer->ids));
    if (answer->ids == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an answer");
    *talking = true;
    for (int64_t i = 0; *talking && i < fb_talk_places(q); i++) {
        FB_TRY(fb_talk_take(talk, v, answer->top1[i], talking));
        if (i < q->n_answer && answer->top1[i] != q->answer[i]) break;
    }
    return FB_OK;
}

fb_status fb_talk_choose(const fb_talk *talk, fb_tensor hidden, int64_t n, int32_t *ids)
{
    const fb_engine *engine = talk->reading->engine;
    fb_ops *ops = engine->ops;

    hidden = fb_reshape(ops, hidden, 2, (int64_t[]){n, engine->facts->width});
    hidden = fb_linear(ops, hidden, fb_model_head(engine->model)); /* [n, vocabulary] */
    return fb_argmax(ops, hidden, ids);
}
