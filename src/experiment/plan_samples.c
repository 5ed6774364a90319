/* plan_samples.c - one question that a task asks becomes a sample: its texts, the tokens
 * of question and answer, its metric. The document that it is asked of is placed later
 * (plan_documents.c).
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/plan_inside.h"

#include <string.h>

/* --- its texts --- */

static void clear_strings(fb_strings *strings)
{
    for (int i = 0; i < strings->n; i++)
        fb_free(strings->text[i]);
    fb_free(strings->text);
    *strings = (fb_strings){0};
}

static fb_status copy_strings(fb_strings *out, const char *const *strings, int n)
{
    out->text = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof(char *)));
    if (out->text == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a sample");
    for (out->n = 0; out->n < n; out->n++) {
        out->text[out->n] = fb_strdup(strings[out->n]);
        if (out->text[out->n] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a sample");
    }
    return FB_OK;
}

void fb_plan_sample_clear(fb_plan_sample *sample)
{
    fb_free(sample->key);
    fb_free(sample->group);
    fb_free(sample->question);
    fb_free(sample->prefix);
    fb_free(sample->own_metric);
    clear_strings(&sample->references);
    clear_strings(&sample->stop);
    clear_strings(&sample->classes);
    fb_ids_clear(&sample->prompt);
    fb_ids_clear(&sample->answer);
}

static fb_status copy_texts(fb_plan_sample *out, const fb_document *document,
                            const fb_probe *probe)
{
    const char *question = probe->question == NULL ? "" : probe->question;

    out->key = fb_strdup(probe->key);
    out->group = fb_strdup(document->group == NULL ? document->key : document->group);
    out->question = fb_strdup(question);
    out->prefix = fb_strdup(probe->answer_prefix == NULL ? "" : probe->answer_prefix);
    if (probe->metric != NULL) out->own_metric = fb_strdup(probe->metric);
    if (out->key == NULL || out->group == NULL || out->question == NULL ||
        out->prefix == NULL || (probe->metric != NULL && out->own_metric == NULL))
        return fb_fail(FB_NO_MEMORY, "no memory for a sample");
    FB_TRY(copy_strings(&out->references, probe->references, probe->n_references));
    FB_TRY(copy_strings(&out->stop, probe->stop, probe->n_stop));
    return copy_strings(&out->classes, probe->classes, probe->n_classes);
}

/* --- its tokens --- */

/* The first id of a continuation is its prompt, the next `max_tokens` are scored. */
static fb_status split_continuation(fb_plan_sample *sample)
{
    fb_ids *answer = &sample->answer;

    if (answer->n < 2)
        return fb_fail(FB_FORMAT,
                       "sample '%s': the continuation has %lld %s; at "
                       "least 2 are needed",
                       sample->key, (long long)answer->n,
                       fb_plural(answer->n, "token", "tokens"));
    FB_TRY(fb_ids_add(&sample->prompt, answer->ids[0]));
    answer->n--;
    memmove(answer->ids, answer->ids + 1, (size_t)answer->n * sizeof *answer->ids);
    if (sample->max_tokens > 0 && answer->n > sample->max_tokens)
        answer->n = sample->max_tokens;
    return FB_OK;
}

static fb_status encode_sample(const fb_plan *plan, fb_plan_sample *sample,
                               const fb_probe *probe)
{
    fb_ids question = {0};
    fb_status status;

    if (sample->references.n > 0)
        FB_TRY(fb_plan_encode(plan, sample->references.text[0], &sample->answer));
    if (probe->continues) return split_continuation(sample);
    status = fb_plan_encode(plan, sample->question, &question);
    sample->question_tokens = question.n;
    fb_ids_clear(&question);
    FB_TRY(status);
    FB_TRY(fb_plan_prompt(plan, sample->question, sample->prefix, &sample->prompt));
    if (sample->prompt.n == 0 || (sample->references.n > 0 && sample->answer.n == 0))
        return fb_fail(FB_FORMAT, "sample '%s': the %s has no token of this model",
                       sample->key, sample->prompt.n == 0 ? "question" : "answer");
    return FB_OK;
}

/* The limit of a free answer: the experiment's, else the probe's. */
static int64_t limit_of(const fb_plan *plan, const fb_probe *probe)
{
    const int64_t asked = fb_values_int(&plan->spec->values, FB_SET_max_tokens);

    return asked > 0 && !probe->continues ? asked : probe->max_tokens;
}

/* --- its metric --- */

/* Scores of one pass per option are not computed yet. */
static fb_status check_metric(const fb_plan_sample *sample)
{
    const fb_metric *metric = fb_metric_find(sample->metric);

    if (metric != NULL && metric->kind != FB_METRIC_OPTIONS) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "sample '%s': metric '%s' is %s", sample->key,
                   sample->metric,
                   metric == NULL ? "unknown" : "known but not built yet");
}

/* Means are over the samples of a task: they would mix what two metrics say. */
static fb_status check_same_metric(const fb_plan_maker *m, const fb_plan_sample *sample)
{
    const fb_plan *plan = m->plan;
    const fb_plan_sample *before =
        plan->n_samples > 0 ? &plan->samples[plan->n_samples - 1] : NULL;

    if (before == NULL || before->task != m->task ||
        strcmp(before->metric, sample->metric) == 0)
        return FB_OK;
    return fb_fail(FB_FORMAT,
                   "sample '%s' has the metric '%s', those before '%s', and one table "
                   "has one metric; make a file for each, or set one for all with "
                   "'metric=%s' behind the task",
                   sample->key, sample->metric, before->metric, before->metric);
}

/* What is asked of no task is not scored. */
static fb_status choose_metric(const fb_plan_maker *m, fb_plan_sample *out)
{
    if (m->bound == NULL) return FB_OK;
    out->metric = out->own_metric != NULL ? out->own_metric
                                          : fb_bound_task_metric(m->bound)->name;
    FB_TRY(check_metric(out));
    return check_same_metric(m, out);
}

fb_status fb_plan_make_sample(const fb_plan_maker *m, const fb_document *document,
                              const fb_probe *probe, fb_plan_sample *out)
{
    out->task = m->task;
    out->depth = probe->depth;
    out->length = document->length;
    out->continues = probe->continues;
    out->max_tokens = limit_of(m->plan, probe);
    FB_TRY(copy_texts(out, document, probe));
    out->is_first = m->plan->tasks[m->task].documents == 0;
    FB_TRY(choose_metric(m, out));
    return encode_sample(m->plan, out, probe);
}
