/* foretell.c - see foretell.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/foretell.h"

#include <string.h>

/* A cell at work. */
typedef struct telling {
    const fb_foretell *cell;
    fb_foretold *out;
    size_t base[FB_ACCOUNT_COUNT]; /* bytes in use before */
    int32_t *ids;                  /* zeros: of the context, and of a question */
    int32_t *answer; /* not what greedy decoding says, which is 0 throughout */
    fb_ops *ops;
    fb_model *model; /* without weights */
    fb_engine *engine;
    fb_reading *reading;
    fb_variant *variant;
} telling;

/* --- memory --- */

static void begin(telling *t)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        t->base[a] = fb_memory_now((fb_account)a);
}

/* What was highest since the last end of a phase. */
static void end_phase(telling *t, fb_phase phase)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
        const size_t peak = fb_memory_peak((fb_account)a);

        t->out->peak[phase][a] = peak > t->base[a] ? peak - t->base[a] : 0;
    }
    fb_memory_reset_peaks();
}

static fb_status open_ids(telling *t)
{
    const fb_foretell *cell = t->cell;
    const int64_t n = cell->n_tokens > cell->n_prompt ? cell->n_tokens : cell->n_prompt;

    if (cell->n_tokens < 1 || n > INT32_MAX || cell->n_answer > INT32_MAX)
        return fb_fail(FB_USAGE, "a context of %lld tokens; 1 to %d are possible",
                       (long long)cell->n_tokens, INT32_MAX);
    t->ids = fb_zalloc(FB_ACCOUNT_other, (size_t)n * sizeof *t->ids);
    t->answer =
        fb_zalloc(FB_ACCOUNT_other, (size_t)(cell->n_answer + 1) * sizeof *t->answer);
    if (t->ids == NULL || t->answer == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a context");
    if (fb_model_get_facts(cell->model)->vocabulary > 1) t->answer[0] = 1;
    return FB_OK;
}

static fb_status open_engine(telling *t)
{
    begin(t);
    FB_TRY(fb_ops_open_hollow(&t->ops, t->cell->threads));
    FB_TRY(fb_model_open_hollow(&t->model, t->ops, t->cell->model));
    FB_TRY(fb_engine_open(&t->engine, t->ops, t->model, &t->cell->engine));
    fb_memory_reset_peaks();
    return FB_OK;
}

static void close_all(telling *t)
{
    fb_variant_free(t->variant);
    fb_reading_free(t->reading);
    fb_engine_close(t->engine);
    fb_model_close(t->model);
    fb_ops_close(t->ops);
    fb_free(t->ids);
    fb_free(t->answer);
    fb_memory_reset_peaks();
}

/* --- the cell --- */

static fb_seeded_rule seeded(const telling *t)
{
    return (fb_seeded_rule){t->cell->rule, 1};
}

static fb_status read(telling *t)
{
    const fb_seeded_rule rule = seeded(t);
    const int n = t->cell->rule != NULL && !t->cell->streams;

    FB_TRY(fb_read(&t->reading, t->engine, t->ids, t->cell->n_tokens, &rule, n, 1));
    t->out->plain_flops = fb_foretell_plain(fb_reading_pass(t->reading));
    if (n > 0)
        fb_ledger_add(&t->out->ledger, fb_reading_ledger(t->reading, 0));
    else if (!t->cell->streams)
        fb_ledger_add(&t->out->ledger, fb_reading_pass(t->reading));
    end_phase(t, FB_PHASE_context);
    return FB_OK;
}

static fb_question question_of(const telling *t)
{
    return (fb_question){.prompt = t->ids,
                         .answer = t->answer,
                         .n_prompt = t->cell->n_prompt,
                         .n_answer = t->cell->n_answer};
}

/* Rules that read the future look at the question's answer, or at one of a token. */
static fb_status foresee(telling *t)
{
    const fb_question asked = question_of(t), some = {t->ids, t->answer, 1, 1};
    const fb_question *q = asked.n_prompt > 0 && asked.n_answer > 0 ? &asked : &some;
    const uint32_t reads = fb_bound_rule_choices(t->cell->rule)->reads;

    if (reads & FB_READS_DOCUMENT_FUTURE) FB_TRY(fb_foresee_document(t->reading, q, 1));
    if (reads & FB_READS_FUTURE) FB_TRY(fb_foresee(t->reading, q));
    return FB_OK;
}

static fb_status stream(telling *t)
{
    const fb_seeded_rule rule = seeded(t);
    fb_pace pace = t->cell->pace;

    pace.k = t->cell->k;
    if (pace.pays_state)
        pace.k = fb_stream_entries(fb_model_get_facts(t->model), t->cell->engine.cache,
                                   rule.rule, pace.k);
    return fb_stream_in(&t->variant, t->reading, &rule, t->ids, &t->cell->protect,
                        &pace);
}

static fb_status evict_as_reference(telling *t, const fb_choices *choices)
{
    if (choices->reference == FB_REFERENCE_QUANTISED)
        return fb_keep_quantised(&t->variant, t->reading, (int)choices->bits);
    if (choices->reference == FB_REFERENCE_REREAD)
        return fb_reread(&t->variant, t->reading, t->ids, t->cell->k);
    return fb_keep_all(&t->variant, t->reading); /* what a task names: no rule's cost */
}

static fb_status evict(telling *t)
{
    const fb_foretell *cell = t->cell;
    const fb_choices *choices;

    if (cell->rule == NULL || cell->k == 0) return fb_keep_all(&t->variant, t->reading);
    if (cell->streams) return stream(t);
    choices = fb_bound_rule_choices(cell->rule);
    if (choices->reference != FB_REFERENCE_NONE) return evict_as_reference(t, choices);
    if (choices->keeps_all) return fb_keep_all(&t->variant, t->reading);
    FB_TRY(foresee(t));
    return fb_evict(&t->variant, t->reading, 0, &cell->protect, cell->protect_last,
                    cell->k);
}

static fb_status run_evict(telling *t)
{
    FB_TRY(evict(t));
    fb_ledger_add(&t->out->ledger, fb_variant_ledger(t->variant));
    t->out->extra_flops = fb_foretell_extra(&t->out->ledger);
    t->out->kept_bytes = fb_variant_bytes(t->variant);
    end_phase(t, FB_PHASE_evict);
    return FB_OK;
}

/* fb_answer_options.watch: the first word of a free answer ends the pass over the
 * question. */
static fb_status watch(void *self, const fb_growth *growth)
{
    telling *t = self;

    if (growth->n == 1) end_phase(t, FB_PHASE_answer);
    return FB_OK;
}

static fb_status answer(telling *t)
{
    const fb_question question = question_of(t);
    const fb_answer_options options = {.generate = t->cell->max_tokens > 0,
                                       .max_tokens = t->cell->max_tokens,
                                       .watch = watch,
                                       .self = t};
    fb_answer said;

    if (t->cell->n_prompt == 0) return FB_OK;
    FB_TRY(fb_answer_group(t->reading, &t->variant, 1, &question, &options, &said));
    fb_ledger_add(&t->out->ledger, &said.ledger);
    t->out->tail_bytes = said.tail_bytes;
    fb_answer_clear(&said);
    end_phase(t, options.generate ? FB_PHASE_decode : FB_PHASE_answer);
    return FB_OK;
}

static fb_status tell(telling *t)
{
    FB_TRY(open_ids(t));
    FB_TRY(open_engine(t));
    FB_TRY(read(t));
    FB_TRY(run_evict(t));
    return answer(t);
}

fb_status fb_foretell_cell(fb_foretold *out, const fb_foretell *cell)
{
    telling t = {.cell = cell, .out = out};
    fb_status status;

    memset(out, 0, sizeof *out);
    status = tell(&t);
    close_all(&t);
    return status;
}

/* --- sums --- */

double fb_foretell_plain(const fb_ledger *ledger)
{
    return fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_model).flops +
           fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_attention).flops;
}

double fb_foretell_extra(const fb_ledger *ledger)
{
    static const fb_phase phases[] = {FB_PHASE_context, FB_PHASE_evict};
    static const fb_scope scopes[] = {FB_SCOPE_signal, FB_SCOPE_score, FB_SCOPE_select};
    double flops = 0;

    for (int p = 0; p < 2; p++)
        for (int s = 0; s < 3; s++)
            flops += fb_ledger_total(ledger, phases[p], scopes[s]).flops;
    return flops;
}

double fb_foretold_peak(const fb_foretold *foretold, fb_phase phase)
{
    double bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += (double)foretold->peak[phase][a];
    return bytes;
}
