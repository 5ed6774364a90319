/* foretold.h - a cell run with its numbers, beside what was foretold of it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_FORETOLD_H
#define TESTS_SUPPORT_FORETOLD_H

#include "experiment/foretell.h"
#include "tests/support/rig.h"

/* The ids of a cell, as many as it has. */
typedef struct foretold_text {
    const int32_t *context, *prompt, *answer;
} foretold_text;

typedef struct foretold_rig {
    rig rig;
    size_t base[FB_ACCOUNT_COUNT]; /* bytes in use before it was opened */
    size_t others; /* the full cache, once it is kept for others alone */
} foretold_rig;

/* Operators, model and engine of the cell, fresh: what they have taken is the cell's. The
 * cell's model is set to it. */
static inline void foretold_open(foretold_rig *r, const char *model, fb_foretell *cell)
{
    const fb_ops_options ops = {.threads = cell->threads};

    r->others = 0;
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        r->base[a] = fb_memory_now((fb_account)a);
    rig_open(&r->rig, model, &ops, &cell->engine);
    fb_memory_reset_peaks();
    cell->model = r->rig.model;
}

/* --- the same cell with numbers --- */

/* Adds the peaks of a step, in its own phases. */
static inline void foretold_end_step(foretold_rig *r, fb_foretold *out, int first,
                                     int last)
{
    for (int p = first; p <= last; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            const size_t peak = fb_memory_peak_in(p, (fb_account)a);
            const size_t base = r->base[a] + (a == FB_ACCOUNT_kv ? r->others : 0);

            if (peak > base && peak - base > out->peak[p][a])
                out->peak[p][a] = peak - base;
            out->has[p] |= peak > 0;
        }
    fb_memory_reset_peaks();
}

static inline fb_variant *foretold_evict(fb_reading *reading,
                                         const fb_question *question,
                                         const fb_foretell *cell, const int32_t *ids)
{
    const fb_seeded_rule rule = {cell->rule, 1};
    fb_pace pace = cell->pace;
    fb_variant *variant;

    pace.k = cell->k;
    if (pace.pays_state)
        pace.k = fb_stream_entries(fb_model_get_facts(cell->model), cell->engine.cache,
                                   cell->rule, cell->k, pace.keeps_scores);
    if (cell->streams) {
        assert_ok(fb_stream_in(&variant, reading, &rule, ids, &cell->protect, &pace));
        return variant;
    }
    if (fb_bound_rule_choices(cell->rule)->reads & FB_READS_DOCUMENT_FUTURE)
        assert_ok(fb_foresee_document(reading, question, 1));
    if (fb_bound_rule_choices(cell->rule)->reads & FB_READS_FUTURE)
        assert_ok(fb_foresee(reading, question));
    if (fb_bound_rule_choices(cell->rule)->keeps_all)
        assert_ok(fb_keep_all(&variant, reading));
    else
        assert_ok(fb_evict(&variant, reading, 0, &cell->protect, 0, cell->k));
    return variant;
}

static inline void foretold_run(foretold_rig *r, const fb_foretell *cell,
                                const foretold_text *text, fb_foretold *out)
{
    const fb_question question = {text->prompt, text->answer, cell->n_prompt,
                                  cell->n_answer};
    const fb_answer_options options = {.generate = true,
                                       .max_tokens = cell->max_tokens};
    const fb_seeded_rule rule = {cell->rule, 1};
    fb_reading *reading;
    fb_variant *variant;
    fb_answer answer;

    memset(out, 0, sizeof *out);
    assert_ok(fb_read(&reading, r->rig.engine, text->context, cell->n_tokens, &rule,
                      !cell->streams, 1));
    r->others = cell->streams ? fb_cache_bytes(fb_reading_cache(reading)) : 0;
    if (!cell->streams) foretold_end_step(r, out, FB_PHASE_context, FB_PHASE_evict);
    fb_memory_reset_peaks();
    variant = foretold_evict(reading, &question, cell, text->context);
    foretold_end_step(r, out, cell->streams ? FB_PHASE_context : FB_PHASE_evict,
                      FB_PHASE_evict);
    if (fb_variant_selection(variant) != NULL)
        r->others = fb_cache_bytes(fb_reading_cache(reading));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    foretold_end_step(r, out, FB_PHASE_evict, FB_PHASE_decode);
    assert_int_equal(answer.n_ids, cell->max_tokens);
    if (!cell->streams) out->ledger = *fb_reading_ledger(reading, 0);
    fb_ledger_add(&out->ledger, fb_variant_ledger(variant));
    fb_ledger_add(&out->ledger, &answer.ledger);
    out->kept_bytes = fb_variant_bytes(variant);
    out->tail_bytes = answer.tail_bytes;
    fb_answer_clear(&answer);
    fb_variant_free(variant);
    fb_reading_free(reading);
}

/* --- comparing --- */

/* The bytes of a choice: how much each head gets of a shared budget is the scores' to say. */
static inline bool foretold_is_of_scores(fb_scope scope, enum fb_op op)
{
    return scope == FB_SCOPE_select && (op == FB_OP_topk || op == FB_OP_to_host);
}

static inline int foretold_ledgers_differ(const char *rule, const fb_ledger *wanted,
                                          const fb_ledger *got)
{
    int n = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++) {
                const fb_count *a = &wanted->count[p][s][op],
                               *b = &got->count[p][s][op];

                if (memcmp(a, b, sizeof *a) == 0) continue;
                if (foretold_is_of_scores((fb_scope)s, (enum fb_op)op) &&
                    a->calls == b->calls && a->flops == b->flops)
                    continue;
                n++;
                print_message("%s, %s %s %s: run %lld calls, %.17g FLOPs, %.17g bytes; "
                              "foretold %lld, %.17g, %.17g\n",
                              rule, fb_phase_name((fb_phase)p),
                              fb_scope_name((fb_scope)s), fb_op_name((enum fb_op)op),
                              (long long)a->calls, a->flops, a->bytes,
                              (long long)b->calls, b->flops, b->bytes);
            }
    return n;
}

/* All accounts but `other`, which has what the model's file is read into. */
static inline int foretold_peaks_differ(const char *rule, const fb_foretold *wanted,
                                        const fb_foretold *got)
{
    int n = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++) {
        if (wanted->has[p] != got->has[p]) n++;
        for (int a = 0; a < FB_ACCOUNT_other; a++) {
            const double ran = (double)wanted->peak[p][a],
                         told = (double)got->peak[p][a];

            if (told >= 0.98 * ran && told <= 1.02 * ran) continue;
            n++;
            print_message("%s, %s of %s: %.0f bytes, foretold %.0f\n", rule,
                          fb_account_name((fb_account)a), fb_phase_name((fb_phase)p),
                          ran, told);
        }
    }
    return n;
}

/* How much is not as foretold, with a line for each. */
static inline int foretold_differs(foretold_rig *r, const fb_foretell *cell,
                                   const foretold_text *text)
{
    static fb_foretold ran, told;
    const char *rule = fb_bound_rule_text(cell->rule);

    foretold_run(r, cell, text, &ran);
    if (fb_foretell_cell(&told, cell) != FB_OK) {
        print_message("%s: %s\n", rule, fb_error_message());
        return 1;
    }
    if (ran.kept_bytes != told.kept_bytes || ran.tail_bytes != told.tail_bytes)
        print_message("%s: %zu and %zu bytes, foretold %zu and %zu\n", rule,
                      ran.kept_bytes, ran.tail_bytes, told.kept_bytes, told.tail_bytes);
    return (ran.kept_bytes != told.kept_bytes || ran.tail_bytes != told.tail_bytes) +
           foretold_ledgers_differ(rule, &ran.ledger, &told.ledger) +
           foretold_peaks_differ(rule, &ran, &told);
}

#endif
