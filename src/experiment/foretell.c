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
    size_t others;                 /* of keys and values: not the cell's */
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

/* Adds what was highest since the last end of a step, in the phases that it is made of: who
 * comes back to another one finds there what has changed. */
static void end_step(telling *t, int first, int last)
{
    for (int p = first; p <= last; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            const size_t peak = fb_memory_peak_in(p, (fb_account)a);
            const size_t base = t->base[a] + (a == FB_ACCOUNT_kv ? t->others : 0);
            size_t *most = &t->out->peak[p][a];

            t->out->has[p] |= peak > 0;
            if (peak > base && peak - base > *most) *most = peak - base;
        }
    fb_memory_reset_peaks();
}

/* From here on the cell has a cache of its own: the full one is kept for others. */
static void leave_full(telling *t)
{
    t->others = fb_cache_bytes(fb_reading_cache(t->reading));
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
    fb_ops_move(t->ops, (fb_place){FB_PHASE_context, FB_SCOPE_model});
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

static fb_seeded_rule seeded(const fb_bound_rule *rule)
{
    return (fb_seeded_rule){rule, 1};
}

/* The cell's rule first, then its company. */
static fb_status read_for(telling *t, int *n_out)
{
    const fb_foretell *cell = t->cell;
    const bool reads = cell->rule != NULL && !cell->streams;
    fb_seeded_rule *rules = fb_alloc(
        FB_ACCOUNT_other, fb_size_mul((size_t)cell->n_company + 1, sizeof *rules));
    int n = 0;
    fb_status status;

    if (rules == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    if (reads) rules[n++] = seeded(cell->rule);
    for (int i = 0; i < cell->n_company; i++)
        rules[n++] = seeded(cell->company[i]);
    status = fb_read(&t->reading, t->engine, t->ids, cell->n_tokens, rules, n, 1);
    fb_free(rules);
    *n_out = reads;
    return status;
}

static fb_status read(telling *t)
{
    int n = 0;

    FB_TRY(read_for(t, &n));
    t->out->plain_flops = fb_ledger_plain(fb_reading_pass(t->reading));
    if (n > 0)
        fb_ledger_add(&t->out->ledger, fb_reading_ledger(t->reading, 0));
    else if (!t->cell->streams)
        fb_ledger_add(&t->out->ledger, fb_reading_pass(t->reading));
    if (t->cell->streams)
        leave_full(t);
    else
        end_step(t, FB_PHASE_context, FB_PHASE_evict);
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
    const fb_seeded_rule rule = seeded(t->cell->rule);
    fb_pace pace = t->cell->pace;

    pace.k = t->cell->k;
    if (pace.pays_state)
        pace.k = fb_stream_entries(fb_model_get_facts(t->model), t->cell->engine.cache,
                                   rule.rule, pace.k, pace.keeps_scores);
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
    t->out->kept_bytes = fb_variant_bytes(t->variant);
    end_step(t, t->cell->streams ? FB_PHASE_context : FB_PHASE_evict, FB_PHASE_evict);
    if (fb_variant_selection(t->variant) != NULL) leave_full(t);
    return FB_OK;
}

static fb_status answer(telling *t)
{
    const fb_question question = question_of(t);
    const fb_answer_options options = {.generate = t->cell->max_tokens > 0,
                                       .max_tokens = t->cell->max_tokens};
    fb_answer said;

    if (t->cell->n_prompt == 0) return FB_OK;
    FB_TRY(fb_answer_group(t->reading, &t->variant, 1, &question, &options, &said));
    fb_ledger_add(&t->out->ledger, &said.ledger);
    t->out->tail_bytes = said.tail_bytes;
    fb_answer_clear(&said);
    end_step(t, FB_PHASE_evict, FB_PHASE_decode);
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

double fb_foretold_peak(const fb_foretold *foretold, fb_phase phase)
{
    double bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += (double)foretold->peak[phase][a];
    return bytes;
}
