/* plan_documents.c - what tasks emit becomes documents of the plan, with their samples
 * (plan_samples.c).
 *
 * Documents with the same ids are one: found by the hash of their ids, which also names
 * them to the random numbers, so neither the order of tasks nor their number matters.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/digest.h"
#include "experiment/plan_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fb_status fb_list_grow(void **list, int n, size_t size)
{
    void *grown;

    if (n > 0 && (n & (n - 1)) != 0) return FB_OK;
    grown = fb_realloc(FB_ACCOUNT_other, *list,
                       fb_size_mul(n == 0 ? 1 : 2 * (size_t)n, size));
    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the plan");
    *list = grown;
    return FB_OK;
}

/* --- documents --- */

/* The most ids that a question and an answer on this document need. */
static int64_t reserve_of(const fb_plan_sample *samples, int n)
{
    int64_t most = 0;

    for (int i = 0; i < n; i++) {
        const fb_plan_sample *s = &samples[i];
        const int64_t answer =
            s->answer.n > s->max_tokens ? s->answer.n : s->max_tokens;

        if (s->prompt.n + answer > most) most = s->prompt.n + answer;
    }
    return most;
}

/* Byte ranges of the text as ranges of ids; none where ids were cut out. */
static fb_status place_evidence(const fb_plan *plan, const char *text,
                                const fb_plan_document *document, const fb_probe *probe,
                                fb_plan_sample *out)
{
    const fb_ids *ids = &document->context;
    size_t *ends = NULL;

    if (probe->n_evidence == 0 || document->cut_tokens > 0) return FB_OK;
    FB_TRY(fb_plan_token_ends(plan, ids, document->n_before, strlen(text), &ends));
    for (int e = 0; e < probe->n_evidence; e++) {
        int64_t first = document->n_before, last;

        while (first < ids->n && ends[first] <= probe->evidence[e].begin)
            first++;
        for (last = first; last < ids->n && ends[last] < probe->evidence[e].end;)
            last++;
        if (last < ids->n) last++;
        out->evidence[e] = (fb_token_span){first, last};
    }
    out->n_evidence = probe->n_evidence;
    fb_free(ends);
    return FB_OK;
}

static void clear_document(fb_plan_document *document)
{
    fb_ids_clear(&document->context);
    fb_free(document->text);
}

/* The document with these ids, else -1. */
static int find_document(const fb_plan *plan, const fb_plan_document *document)
{
    size_t at = 0;
    int i;

    while (fb_index_next(&plan->streams, document->stream, &at, &i)) {
        const fb_plan_document *d = &plan->documents[i];

        if (d->context.n == document->context.n &&
            d->protect_last == document->protect_last &&
            memcmp(d->context.ids, document->context.ids,
                   (size_t)d->context.n * sizeof *d->context.ids) == 0)
            return i;
    }
    return -1;
}

/* The first 64 bits of the hash of the ids. */
static uint64_t stream_of(const fb_ids *ids)
{
    char hex[FB_HASH_HEX], first[17];

    fb_sample_sha256(ids->ids, ids->n, NULL, 0, NULL, 0, hex);
    memcpy(first, hex, 16);
    first[16] = '\0';
    return strtoull(first, NULL, 16);
}

/* Takes `document` over, or frees it where the plan has it already. */
static fb_status add_document(fb_plan *plan, fb_plan_document *document, int *index_out)
{
    fb_status status;

    document->stream = stream_of(&document->context);
    *index_out = find_document(plan, document);
    if (*index_out >= 0) {
        clear_document(document);
        return FB_OK;
    }
    status = fb_list_grow((void **)&plan->documents, plan->n_documents,
                          sizeof *plan->documents);
    if (status == FB_OK)
        status = fb_index_add(&plan->streams, document->stream, plan->n_documents);
    if (status != FB_OK) {
        clear_document(document);
        return status;
    }
    *index_out = plan->n_documents;
    plan->documents[plan->n_documents++] = *document;
    return FB_OK;
}

static fb_status add_sample(fb_plan *plan, fb_plan_sample *sample)
{
    const fb_ids *context = &plan->documents[sample->document].context;

    FB_TRY(
        fb_list_grow((void **)&plan->samples, plan->n_samples, sizeof *plan->samples));
    fb_sample_sha256(context->ids, context->n, sample->prompt.ids, sample->prompt.n,
                     sample->answer.ids, sample->answer.n, sample->tokens_sha256);
    plan->samples[plan->n_samples++] = *sample;
    plan->tasks[sample->task].samples++;
    *sample = (fb_plan_sample){0};
    return FB_OK;
}

/* Under `aware` the ids of the question move to the context. At least one id stays to
 * be read after the eviction. */
static fb_status move_question(const fb_plan *plan, fb_plan_document *document,
                               fb_plan_sample *sample)
{
    int64_t n = sample->question_tokens;

    if (sample->continues || n == 0) return FB_OK;
    if (n >= sample->prompt.n) n = sample->prompt.n - 1;
    for (int64_t i = 0; i < n; i++)
        FB_TRY(fb_ids_add(&document->context, sample->prompt.ids[i]));
    sample->prompt.n -= n;
    memmove(sample->prompt.ids, sample->prompt.ids + n,
            (size_t)sample->prompt.n * sizeof *sample->prompt.ids);
    if (fb_values_flag(&plan->spec->values, FB_SET_protect_question))
        document->protect_last = n;
    return FB_OK;
}

/* Whether a text of n tokens, longer than the model was trained for, may be read whole: it
 * comes in under budgets whose entries are renumbered, so that the budget and not the text
 * says how far positions go. (In layers with a window they go on, and what a token looks
 * at is never further off than the window.) A model that has nothing but a window cannot
 * be told from its evictions beyond it. */
static bool stays_in_range(const fb_plan *plan, int64_t n, int64_t reserve)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    const bool goes_on = fb_spec_goes_on(plan->spec);
    const int64_t beside = goes_on ? 0 : reserve, all = goes_on ? n + reserve : n;

    if (!fb_spec_streams(plan->spec) || plan->spec->n_budgets == 0 ||
        !fb_values_is(&plan->spec->values, FB_SET_positions, "compact") ||
        facts->longest < facts->context_length)
        return false;
    for (int b = 0; b < plan->spec->n_budgets; b++)
        if (fb_plan_entries(plan, b, all) + beside > facts->longest) return false;
    return true;
}

static fb_status make_document(const fb_plan_maker *m, const char *text,
                               int64_t reserve, fb_plan_document *out)
{
    const fb_plan *plan = m->plan;
    const int64_t most = fb_model_get_facts(plan->model)->longest - reserve;

    *out = (fb_plan_document){0};
    FB_TRY(fb_plan_context(plan, text, &out->context, &out->n_before));
    if (out->context.n == 0)
        return fb_fail(FB_FORMAT, "the context has no token of this model");
    if (most < out->n_before + 2) /* a record may be skipped, a task's own text not */
        return fb_fail(m->bound != NULL && fb_bound_task_data(m->bound) != NULL
                           ? FB_FORMAT
                           : FB_UNSUPPORTED,
                       "question and answer need %lld of the model's %lld "
                       "tokens; nothing is left for the context",
                       (long long)reserve, (long long)(most + reserve));
    out->is_beyond =
        out->context.n > most && stays_in_range(plan, out->context.n, reserve);
    if (!out->is_beyond) out->cut_tokens = fb_plan_cut_middle(&out->context, most);
    if (!fb_values_flag(&plan->spec->values, FB_SET_prompts)) return FB_OK;
    out->text = fb_strdup(text);
    return out->text != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a context");
}

static void count_long(fb_plan_task *task, const fb_plan_document *document)
{
    const int64_t n = document->context.n + document->cut_tokens;
    int64_t *longest = document->is_beyond ? &task->longest_beyond : &task->longest_cut;

    task->cut += document->cut_tokens > 0;
    task->beyond += document->is_beyond;
    if (n > *longest) *longest = n;
}

static fb_status count_unknown(const fb_plan_maker *m, const char *context,
                               const fb_plan_sample *sample)
{
    const char *const texts[] = {context, sample->question,
                                 sample->references.n > 0 ? sample->references.text[0]
                                                          : ""};
    bool is_known = true;

    for (size_t i = 0; i < sizeof texts / sizeof *texts && is_known; i++)
        FB_TRY(fb_tokenizer_knows(fb_model_tokenizer(m->plan->model), texts[i],
                                  &is_known));
    m->plan->tasks[m->task].unknown += !is_known;
    return FB_OK;
}

/* A model has no tokens for some text if its ids do not give the text back. */
static fb_status count_lost(const fb_plan_maker *m, const char *context,
                            const fb_plan_document *document)
{
    const fb_ids *ids = &document->context;
    char *text = NULL;
    size_t n = 0;

    if (document->cut_tokens > 0) return FB_OK;
    FB_TRY(fb_tokenizer_decode(fb_model_tokenizer(m->plan->model), ids->ids, ids->n,
                               false, &text, &n));
    m->plan->tasks[m->task].lost += memmem(text, n, context, strlen(context)) == NULL;
    fb_free(text);
    return FB_OK;
}

static fb_status place_sample(const fb_plan_maker *m, const fb_document *document,
                              const fb_probe *probe, int64_t reserve,
                              fb_plan_sample *sample)
{
    fb_plan *plan = m->plan;
    fb_plan_document made = {0};
    fb_status status = make_document(m, document->context, reserve, &made);

    if (status == FB_OK) status = count_unknown(m, document->context, sample);
    if (status == FB_OK) status = count_lost(m, document->context, &made);
    if (status == FB_OK)
        status = place_evidence(plan, document->context, &made, probe, sample);
    if (status == FB_OK && fb_values_is(&plan->spec->values, FB_SET_query, "aware"))
        status = move_question(plan, &made, sample);
    if (status != FB_OK) {
        clear_document(&made);
        return status;
    }
    if (made.cut_tokens > 0 || made.is_beyond) count_long(&plan->tasks[m->task], &made);
    FB_TRY(add_document(plan, &made, &sample->document));
    return add_sample(plan, sample);
}

static fb_status emit(void *self, const fb_document *document)
{
    const fb_plan_maker *m = self;
    const int n = document->n_probes;
    fb_plan_sample *samples =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *samples));
    int64_t reserve;
    fb_status status = FB_OK;

    if (samples == NULL) return fb_fail(FB_NO_MEMORY, "no memory for samples");
    for (int i = 0; i < n && status == FB_OK; i++)
        status = fb_plan_make_sample(m, document, &document->probes[i], &samples[i]);
    reserve = reserve_of(samples, n);
    for (int i = 0; i < n && status == FB_OK; i++)
        status = place_sample(m, document, &document->probes[i], reserve, &samples[i]);
    for (int i = 0; i < n; i++)
        fb_plan_sample_clear(&samples[i]);
    fb_free(samples);
    if (status == FB_OK) m->plan->tasks[m->task].documents++;
    if (status == FB_OK && n > 1 &&
        fb_values_is(&m->plan->spec->values, FB_SET_query, "aware"))
        m->plan->tasks[m->task].apart += n;
    return status;
}

/* --- what a task is lent --- */

static fb_status count(void *self, const char *text, int64_t *out)
{
    const fb_plan_maker *m = self;
    fb_ids ids = {0};
    fb_status status = fb_plan_encode(m->plan, text, &ids);

    *out = ids.n;
    fb_ids_clear(&ids);
    return status;
}

/* Bytes of the first ids of `window`, at most `tokens` of them. */
static fb_status bytes_of_ids(const fb_plan *plan, const fb_ids *ids, int64_t tokens,
                              size_t *out)
{
    char *text = NULL;
    fb_status status =
        fb_tokenizer_decode(fb_model_tokenizer(plan->model), ids->ids,
                            ids->n < tokens ? ids->n : tokens, false, &text, out);

    fb_free(text);
    return status;
}

/* The longest beginning of `text` with at most `tokens` tokens. A window of it is
 * tokenised, wide enough to hold more than that, and the bytes of the first ids are
 * counted; a word cut in two may then need one token more, so less is taken until it
 * fits. */
static fb_status cut(void *self, const char *text, int64_t tokens, size_t *bytes_out)
{
    const fb_plan_maker *m = self;
    const size_t n = strlen(text);
    size_t window = (size_t)tokens * 8 + 64;
    fb_ids ids = {0};
    fb_status status = FB_OK;

    *bytes_out = 0;
    for (;; window *= 2) {
        const size_t taken = window < n ? window : n;
        const fb_piece p = {text, taken, false};

        fb_ids_clear(&ids);
        status = fb_tokenizer_encode(fb_model_tokenizer(m->plan->model), &p, 1, &ids);
        if (status != FB_OK || ids.n > tokens || taken == n) break;
    }
    if (status == FB_OK && ids.n <= tokens) *bytes_out = n;
    while (status == FB_OK && ids.n > tokens && tokens > 0) {
        fb_ids again = {0};
        fb_piece p = {text, 0, false};

        status = bytes_of_ids(m->plan, &ids, tokens, &p.n);
        if (status != FB_OK) break;
        status = fb_tokenizer_encode(fb_model_tokenizer(m->plan->model), &p, 1, &again);
        *bytes_out = p.n;
        if (again.n <= tokens)
            ids.n = 0; /* it fits */
        else
            tokens -= again.n - tokens;
        fb_ids_clear(&again);
    }
    fb_ids_clear(&ids);
    return status;
}

/* The sentence is often that of the last failure: it is copied before the next. */
static fb_status reject(void *self, const char *sentence)
{
    const fb_plan_maker *m = self;
    fb_plan_task *task = &m->plan->tasks[m->task];
    char text[512];

    (void)snprintf(text, sizeof text, "%s", sentence);
    if (fb_values_is(&m->plan->spec->values, FB_SET_bad_records, "refuse"))
        return fb_fail(FB_FORMAT,
                       "%s\nhelp: --set data.bad_records=skip counts such records and "
                       "goes on",
                       text);
    if (task->rejected++ == 0) task->first_rejection = fb_strdup(text);
    return FB_OK;
}

static void note(void *self, const char *sentence)
{
    const fb_plan_maker *m = self;

    fb_text_printf(&m->plan->tasks[m->task].notes, "%s\n", sentence);
}

static fb_status note_lost(const fb_plan_maker *m)
{
    fb_plan_task *task = &m->plan->tasks[m->task];

    if (task->lost > 0)
        fb_text_printf(&task->notes,
                       "'%s' has no tokens for some of the text of %lld of %lld %s of "
                       "%s, and leaves it out; -m FILE takes another model\n",
                       fb_model_get_facts(m->plan->model)->name, (long long)task->lost,
                       (long long)task->samples,
                       fb_plural(task->samples, "sample", "samples"),
                       fb_bound_task_get(m->bound)->name);
    return fb_text_status(&task->notes);
}

fb_status fb_plan_make(fb_plan *plan, int task)
{
    fb_plan_maker m = {plan, task, plan->spec->tasks[task]};
    const int64_t limit = fb_values_int(&plan->spec->values, FB_SET_samples);
    fb_ids before = {0};
    fb_status status;
    fb_task_env env = {
        .self = &m,
        .samples = limit > 0 ? limit : 0,
        .seed = plan->spec->n_seeds > 0 ? plan->spec->seeds[0] : 1,
        .count = count,
        .cut = cut,
        .emit = emit,
        .reject = reject,
        .note = note,
    };

    status = fb_plan_context(plan, "", &before, &env.template_tokens);
    fb_ids_clear(&before);
    FB_TRY(status);
    fb_text_init(&plan->tasks[task].notes, 0);
    FB_TRY(fb_task_make(plan->spec->tasks[task], &env));
    FB_TRY(note_lost(&m));
    return fb_bound_task_check_data(plan->spec->tasks[task]);
}

/* --- a question of the user's --- */

static fb_status note_question(fb_plan *plan)
{
    fb_plan_task *task = &plan->tasks[0];

    if (task->lost > 0)
        fb_text_printf(&task->notes,
                       "'%s' has no tokens for some of the text, and leaves it out; -m "
                       "FILE takes another model\n",
                       fb_model_get_facts(plan->model)->name);
    if (task->unknown > 0)
        fb_text_puts(&task->notes,
                     "text or question has characters that the Unicode of PCRE2 (see "
                     "'flexbudget doctor') does not know; other programs may cut them "
                     "into other tokens\n");
    return fb_text_status(&task->notes);
}

fb_status fb_plan_make_question(fb_plan *plan, const fb_own_question *own)
{
    fb_plan_maker m = {plan, 0, NULL};
    const char *const stop[] = {own->stop};
    fb_text question = {0};
    fb_probe probe = {.key = "question",
                      .max_tokens = FB_OWN_TOKENS,
                      .stop = stop,
                      .n_stop = own->stop == NULL ? 0 : 1,
                      .depth = -1};
    const fb_document document = {
        .key = "text", .context = own->text, .probes = &probe, .n_probes = 1};
    fb_status status;

    fb_text_puts(&question,
                 fb_seam(own->text, strlen(own->text), "\n\n", own->question));
    fb_text_puts(&question, own->question);
    status = fb_text_status(&question);
    probe.question = fb_text_string(&question);
    if (status == FB_OK) status = emit(&m, &document);
    fb_text_clear(&question);
    return status == FB_OK ? note_question(plan) : status;
}
