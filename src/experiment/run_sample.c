/* run_sample.c - the variants of a sample, in groups that fit the memory.
 *
 * Where several questions are asked on a document, a group that is the same for all of them
 * answers one after the other.
 *
 * A group is answered as one batch, so each weight is read once per step for all of its
 * variants. How many they are changes no bit of a result.
 *
 * Where it pays, variants read the context's own cache through masks, all of them at once.
 * That gives the bits of an arena that holds just what was kept; one of them in each group
 * is answered from its arena too, to see that it does.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "experiment/run_inside.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST = 64,        /* variants of a group */
    FEWEST_MASKS = 4, /* of a sample: the check costs one variant more */
};

typedef struct group {
    fb_runner *run;
    int n_questions, stride; /* cells between those of a variant for two of them */
    int at;                  /* the one at work, and what it is */
    const fb_plan_sample *sample;
    fb_question question;
    fb_answer_options options;
    bool may_mask;
    const fb_cell *cell[MOST]; /* for the first question */
    fb_variant *variant[MOST];
    int64_t evict_ns[MOST];
    fb_peaks made[MOST]; /* each alone, while it was made */
    size_t keeps[MOST][FB_ACCOUNT_COUNT];
    int n;
    fb_gauge asking;
    bool is_last;     /* these are the last cells of a document with one question */
    fb_variant *twin; /* in an arena of its own; NULL: nobody has a mask */
    int twin_of;      /* the first with a mask */
    fb_variant *asked[MOST + 1]; /* the batch at work; the last may be the twin */
    fb_answer answer[MOST + 1];  /* of `asked` */
} group;

/* --- stop strings --- */

fb_status fb_run_has_stopped(const fb_plan *plan, const fb_plan_sample *sample,
                             const int32_t *ids, int64_t n, bool *out)
{
    char *text = NULL;
    size_t n_text = 0;

    *out = false;
    if (sample->stop.n == 0) return FB_OK;
    FB_TRY(fb_tokenizer_decode(fb_model_tokenizer(plan->model), ids, n, true, &text,
                               &n_text));
    *out = fb_run_answer_length(sample, text, n_text) < n_text;
    fb_free(text);
    return FB_OK;
}

static fb_status is_done(void *self, const int32_t *ids, int64_t n, bool *out)
{
    const group *g = self;

    return fb_run_has_stopped(g->run->plan, g->sample, ids, n, out);
}

/* --- questions --- */

/* The cell of variant i for the question at work. */
static const fb_cell *cell_of(const group *g, int i)
{
    return g->cell[i] + g->at * g->stride;
}

/* `first`: the first cell for the first question. */
static void pose(group *g, const fb_cell *first, int question)
{
    g->at = question;
    g->sample = &g->run->plan->samples[first[question * g->stride].sample];
    g->question = fb_run_question(g->sample);
    g->options = fb_run_answer_options(g->sample);
    g->options.is_done = is_done;
    g->options.self = g;
}

/* What all its questions say of a cell that has no variant. */
static fb_status store_failures(const group *g, const fb_cell *cell, const char *reason)
{
    char text[512];

    (void)snprintf(text, sizeof text, "%s", reason); /* lent until the next failure */
    for (int q = 0; q < g->n_questions; q++)
        FB_TRY(fb_run_store_failure(g->run, cell + q * g->stride, text));
    return FB_OK;
}

/* --- answering --- */

/* Variants [first, first + n), which were asked together. */
static fb_status store_answers(group *g, int first, int n, int64_t ns, bool with_twin)
{
    fb_outcome outcome = {.answer_ns = ns,
                          .answer_shared = n + with_twin > 1,
                          .evict_shared = g->n_questions > 1};
    fb_peaks asked;

    fb_gauge_read_own(&g->asking, &asked);
    outcome.asked = &asked;
    outcome.n_asked = n + with_twin;
    for (int i = 0; i < n; i++) {
        outcome.cell = cell_of(g, first + i);
        outcome.variant = g->variant[first + i];
        outcome.answer = &g->answer[i];
        outcome.evict_ns = g->evict_ns[first + i];
        outcome.made = &g->made[first + i];
        outcome.keeps = g->keeps[first + i];
        FB_TRY(fb_run_store_cell(g->run, &outcome));
    }
    return FB_OK;
}

/* Variants [first, first + n) and the twin, if it is wanted, as one batch. */
static fb_status ask(group *g, int first, int n, bool with_twin)
{
    FB_TRY(fb_meet(g->run->reading, &g->question));
    fb_gauge_begin(&g->asking, g->run);
    memcpy(g->asked, g->variant + first, (size_t)n * sizeof(fb_variant *));
    g->asked[n] = g->twin;
    return fb_answer_group(g->run->reading, g->asked, n + with_twin, &g->question,
                           &g->options, g->answer);
}

/* Answers and what they are charged. */
static bool is_twin(const group *g, const fb_answer *masked, const fb_answer *own)
{
    return fb_answer_is_same(masked, own) &&
           fb_ledger_equal(fb_variant_ledger(g->variant[g->twin_of]),
                           fb_variant_ledger(g->twin));
}

static fb_status refuse_twin(void)
{
    return fb_fail(FB_DEFECT,
                   "a cache of its own answers otherwise than the shared one "
                   "with the other entries masked");
}

static bool is_own_fault(const group *g, fb_status status)
{
    if (status != FB_OK) fb_ops_reset(g->run->ops);
    return status == FB_OK || fb_run_is_own_fault(status);
}

/* A variant and its twin cannot be answered together: if only one of them fails, they are
 * not the same. */
static fb_status compare_apart(group *g)
{
    fb_status own = fb_answer_group(g->run->reading, &g->twin, 1, &g->question,
                                    &g->options, &g->answer[1]);
    fb_status status = FB_OK, masked;

    if (!is_own_fault(g, own)) return own;
    masked = ask(g, g->twin_of, 1, false);
    if (!is_own_fault(g, masked))
        status = masked;
    else if (masked != own ||
             (own == FB_OK && !is_twin(g, &g->answer[0], &g->answer[1])))
        status = refuse_twin();
    fb_answer_clear(&g->answer[0]);
    fb_answer_clear(&g->answer[1]);
    return status;
}

static fb_status answer(group *g, int first, int n, bool with_twin);

/* The batch failed for the fault of one of its members: each is tried alone. */
static fb_status answer_apart(group *g, int first, int n)
{
    for (int i = first; i < first + n; i++)
        FB_TRY(answer(g, i, 1, g->twin != NULL && i == g->twin_of));
    return FB_OK;
}

static fb_status answer(group *g, int first, int n, bool with_twin)
{
    const int64_t begin = fb_time_ns();
    fb_status status = ask(g, first, n, with_twin);
    const int64_t ns = fb_time_ns() - begin;

    if (status == FB_OK) {
        if (with_twin && !is_twin(g, &g->answer[g->twin_of - first], &g->answer[n]))
            status = refuse_twin();
        if (status == FB_OK) status = store_answers(g, first, n, ns, with_twin);
        for (int i = 0; i < n + with_twin; i++)
            fb_answer_clear(&g->answer[i]);
        return status;
    }
    if (!is_own_fault(g, status)) return status;
    if (n > 1) return answer_apart(g, first, n);
    if (!with_twin)
        return fb_run_store_failure(g->run, cell_of(g, first), fb_error_message());
    FB_TRY(compare_apart(g));
    return answer(g, first, 1, false);
}

static void clear_group(group *g)
{
    for (int i = 0; i < g->n; i++)
        fb_variant_free(g->variant[i]);
    fb_variant_free(g->twin);
    g->twin = NULL;
    g->n = 0;
}

/* Before the last group of a document the full cache goes, if nobody there reads it. A
 * failure here is met again by those who are asked. */
static void let_go(group *g)
{
    bool are_alone = g->is_last && g->twin == NULL;

    for (int i = 0; i < g->n; i++)
        are_alone = are_alone && fb_variant_is_alone(g->variant[i]);
    if (!are_alone) return;
    if (fb_meet(g->run->reading, &g->question) != FB_OK ||
        fb_reading_let_go(g->run->reading) != FB_OK)
        fb_ops_reset(g->run->ops);
}

static fb_status answer_group(group *g)
{
    fb_status status = FB_OK;

    for (int q = 0; status == FB_OK && g->n > 0 && q < g->n_questions; q++) {
        pose(g, g->cell[0], q);
        status = answer(g, 0, g->n, g->twin != NULL);
        fb_run_reset_peaks(g->run);
        if (status == FB_OK) status = fb_run_check_stop(g->run);
    }
    clear_group(g);
    return status;
}

/* --- forming groups --- */

/* Bytes of an answer of one variant, whichever the question. */
static double longest_answer(const group *g, const fb_cell *cell)
{
    const fb_plan *plan = g->run->plan;
    double most = 0;

    for (int q = 0; q < g->n_questions; q++) {
        const fb_plan_sample *sample = &plan->samples[cell[q * g->stride].sample];
        const fb_question question = fb_run_question(sample);
        const fb_answer_options options = fb_run_answer_options(sample);
        const double bytes = (double)fb_answer_bytes(
            fb_model_get_facts(plan->model), plan->shape.type, &question, &options);

        if (bytes > most) most = bytes;
    }
    return most;
}

/* Bytes in use once the cell is in the group too and all of it is answered. */
static double bytes_with(const group *g, const fb_cell *cell, bool masked)
{
    const fb_plan *plan = g->run->plan;
    const double each = longest_answer(g, cell);
    const double arena = fb_run_cell_bytes(plan, cell);
    const double mask = (double)fb_cache_total(fb_reading_cache(g->run->reading));
    const bool has_twin = masked || g->twin != NULL;
    double bytes = fb_run_bytes_now() + (double)(g->n + 1 + has_twin) * each;

    if (masked) bytes += mask;
    if (!masked || g->twin == NULL) bytes += arena;
    return bytes;
}

static bool is_for_a_mask(const group *g, const fb_cell *cell)
{
    const fb_bound_rule *rule = g->run->plan->spec->rules[cell->rule].rule;

    return cell->budget >= 0 && !fb_run_is_reference(g->run, cell) &&
           !fb_bound_rule_edits(rule) &&
           fb_mask_pays(g->run->engine, fb_reading_tokens(g->run->reading), cell->k);
}

static bool takes_mask(const group *g, const fb_cell *cell)
{
    return g->may_mask && is_for_a_mask(g, cell) &&
           bytes_with(g, cell, true) <= (double)g->run->limit;
}

/* FB_BUDGET if not even one variant fits; `fits` is false if the group is full. */
static fb_status check_fit(const group *g, const fb_cell *cell, bool *fits)
{
    const double need = bytes_with(g, cell, takes_mask(g, cell));

    *fits = g->n < MOST && need <= (double)g->run->limit;
    if (*fits || g->n > 0) return FB_OK;
    return fb_run_refuse_memory((double)g->run->limit, need, "a single cell needs",
                                "a smaller budget");
}

static fb_status evict(const group *g, const fb_cell *cell, bool masked,
                       fb_variant **out)
{
    const fb_plan *plan = g->run->plan;
    const fb_entrant *entrant = fb_run_entrant(g->run, cell);

    if (entrant->failure != NULL) return fb_fail(FB_DEFECT, "%s", entrant->failure);
    if (fb_spec_streams(plan->spec)) return fb_run_stream(g->run, cell, out);
    if (fb_run_is_reference(g->run, cell)) return fb_run_reference(g->run, cell, out);
    if (cell->budget < 0) return fb_keep_all(out, g->run->reading);
    return (masked ? fb_evict_masked : fb_evict)(
        out, g->run->reading, entrant->index, &plan->spec->protect,
        plan->documents[g->sample->document].protect_last, cell->k);
}

/* The first with a mask is kept in an arena too. */
static fb_status make_twin(group *g, const fb_cell *cell)
{
    FB_TRY(evict(g, cell, false, &g->twin));
    g->twin_of = g->n;
    return FB_OK;
}

/* The cell's variant and the time that it takes, that of a twin left out. */
static fb_status make_variant(group *g, const fb_cell *cell)
{
    const bool masked = takes_mask(g, cell), is_first = masked && g->twin == NULL;
    fb_gauge before;
    int64_t begin;
    fb_status status;

    if (is_first) FB_TRY(make_twin(g, cell));
    fb_gauge_begin(&before, g->run);
    begin = fb_time_ns();
    status = evict(g, cell, masked, &g->variant[g->n]);
    g->evict_ns[g->n] = fb_time_ns() - begin;
    fb_gauge_read_own(&before, &g->made[g->n]);
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        g->keeps[g->n][a] = fb_gauge_kept(&before, (fb_account)a);
    if (status == FB_OK || !is_first) return status;
    fb_variant_free(g->twin);
    g->twin = NULL;
    return status;
}

/* Adds a cell to the group, or stores its failure. */
static fb_status add(group *g, const fb_cell *cell)
{
    const fb_status status = make_variant(g, cell);

    if (status == FB_OK) {
        g->cell[g->n++] = cell;
        return FB_OK;
    }
    fb_ops_reset(g->run->ops);
    if (!fb_run_is_own_fault(status)) return status;
    return store_failures(g, cell, fb_error_message());
}

static fb_status run_cells(group *g, const fb_cell *cells, int n)
{
    for (int i = 0; i < n; i++) {
        bool fits = false;

        FB_TRY(check_fit(g, &cells[i], &fits));
        if (!fits) {
            FB_TRY(answer_group(g));
            FB_TRY(check_fit(g, &cells[i], &fits));
        }
        FB_TRY(add(g, &cells[i]));
    }
    let_go(g);
    return answer_group(g);
}

/* --- the future --- */

/* Rules that read the future are scored now; one that fails is left out. */
static fb_status foresee(const group *g, const fb_cell *cells, int n)
{
    fb_runner *run = g->run;
    bool is_needed = false;
    fb_status status;

    for (int i = 0; i < n; i++)
        is_needed |= fb_run_reads(run, cells[i].rule, FB_READS_FUTURE);
    if (!is_needed) return FB_OK;
    while ((status = fb_foresee(run->reading, &g->question)) != FB_OK)
        FB_TRY(fb_run_blame(run, status));
    return FB_OK;
}

static bool has_many_for_masks(const group *g, const fb_cell *cells, int n)
{
    int many = 0;

    for (int i = 0; i < n; i++)
        many += is_for_a_mask(g, &cells[i]);
    return many >= FEWEST_MASKS;
}

fb_status fb_run_shared(fb_runner *run, const fb_cell *cells, int n, int n_questions)
{
    group *g = fb_zalloc(FB_ACCOUNT_other, sizeof *g);
    fb_status status;

    if (g == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the run");
    g->run = run;
    g->n_questions = n_questions;
    g->stride = n;
    pose(g, cells, 0);
    g->is_last =
        cells + n == run->todo[run->document].cells + run->todo[run->document].n;
    g->may_mask = !fb_spec_streams(run->plan->spec) && has_many_for_masks(g, cells, n);
    status = foresee(g, cells, n);
    if (status == FB_OK) status = run_cells(g, cells, n);
    clear_group(g);
    fb_free(g);
    return status;
}

fb_status fb_run_sample(fb_runner *run, const fb_cell *cells, int n)
{
    return fb_run_shared(run, cells, n, 1);
}
