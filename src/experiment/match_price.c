/* match_price.c - see match_price.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match_price.h"

#include "experiment/foretell.h"
#include "experiment/run_inside.h"

#include <math.h>
#include <string.h>

/* --- texts --- */

/* Of an answer that nobody gives beforehand. */
static int64_t free_tokens(const fb_plan_sample *sample)
{
    return fb_plan_needs_text(sample) ? sample->max_tokens : 0;
}

/* Questions count where they are asked of what a stream holds. */
static bool are_questions_alike(const fb_plan_sample *a, const fb_plan_sample *b)
{
    return a->prompt.n == b->prompt.n && a->answer.n == b->answer.n &&
           free_tokens(a) == free_tokens(b);
}

/* Whether two samples give every rule the same to do. */
static bool are_alike(const fb_plan *plan, int a, int b)
{
    const fb_plan_sample *x = &plan->samples[a], *y = &plan->samples[b];
    const fb_plan_document *of_x = &plan->documents[x->document];
    const fb_plan_document *of_y = &plan->documents[y->document];

    return of_x->context.n == of_y->context.n &&
           of_x->protect_last == of_y->protect_last &&
           (!fb_spec_streams(plan->spec) || are_questions_alike(x, y));
}

static void find_texts(fb_pricing *p)
{
    for (int s = 0; s < p->plan->n_samples; s++) {
        int i = 0;

        while (i < p->n_texts && !are_alike(p->plan, p->texts[i], s))
            i++;
        if (i == p->n_texts) p->texts[p->n_texts++] = s;
    }
}

static fb_status open_engine(fb_pricing *p)
{
    const fb_engine_options options = fb_run_engine_options(p->plan);

    FB_TRY(fb_ops_open_hollow(&p->ops, 1));
    FB_TRY(fb_model_open_hollow(&p->model, p->ops, p->plan->model));
    return fb_engine_open(&p->engine, p->ops, p->model, &options);
}

fb_status fb_pricing_open(fb_pricing *out, const fb_plan *plan)
{
    int64_t longest = 1;

    *out = (fb_pricing){.plan = plan};
    for (int d = 0; d < plan->n_documents; d++)
        if (plan->documents[d].context.n > longest)
            longest = plan->documents[d].context.n;
    out->texts = fb_zalloc(
        FB_ACCOUNT_other, fb_size_mul((size_t)plan->n_samples + 1, sizeof *out->texts));
    out->ids = fb_zalloc(FB_ACCOUNT_other, (size_t)longest * sizeof *out->ids);
    if (out->texts == NULL || out->ids == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a quota");
    find_texts(out);
    return open_engine(out);
}

void fb_pricing_close(fb_pricing *pricing)
{
    fb_engine_close(pricing->engine);
    fb_model_close(pricing->model);
    fb_ops_close(pricing->ops);
    fb_free(pricing->ids);
    fb_free(pricing->texts);
}

/* --- a context that is read at once --- */

/* With the choice that a cell makes. */
static fb_status price_choice(fb_pricing *p, fb_reading *reading,
                              const fb_plan_document *document, int64_t k, double *out)
{
    fb_ledger ledger = *fb_reading_ledger(reading, 0);
    fb_variant *variant;

    FB_TRY(fb_evict(&variant, reading, 0, &p->plan->spec->protect,
                    document->protect_last, k));
    fb_ledger_add(&ledger, fb_variant_ledger(variant));
    fb_variant_free(variant);
    *out =
        fmax(*out, fb_ledger_open(&ledger) / fb_ledger_plain(fb_reading_pass(reading)));
    return FB_OK;
}

static fb_status price_at_once(fb_pricing *p, int document, const fb_bound_rule *bound,
                               const fb_cell *cells, int n, double *out)
{
    const fb_plan_document *d = &p->plan->documents[document];
    const fb_seeded_rule seeded = {bound, 1};
    fb_reading *reading;
    fb_status status =
        fb_read(&reading, p->engine, p->ids, d->context.n, &seeded, 1, d->stream);

    for (int i = 0; status == FB_OK && i < n; i++)
        status = price_choice(p, reading, d, cells[i].k, out);
    if (status != FB_OK) fb_ops_reset(p->ops);
    fb_reading_free(reading);
    return status;
}

/* --- a stream --- */

static fb_status price_stream(fb_pricing *p, const fb_bound_rule *bound,
                              const fb_cell *cell, double *out)
{
    const fb_plan *plan = p->plan;
    const fb_plan_sample *sample = &plan->samples[cell->sample];
    const fb_values *values = &plan->spec->values;
    const fb_plan_document *document = &plan->documents[sample->document];
    const fb_foretell asked = {
        .model = plan->model,
        .rule = bound,
        .n_tokens = document->context.n,
        .k = cell->k,
        .engine = fb_run_engine_options(plan),
        .protect = plan->spec->protect,
        .protect_last = document->protect_last,
        .streams = true,
        .pace = {.chunk = fb_values_int(values, FB_SET_chunk),
                 .interval = fb_values_int(values, FB_SET_interval),
                 .pays_state = fb_run_pays_state(plan, cell),
                 .keeps_scores = fb_spec_keeps_scores(plan->spec)},
        .n_prompt = sample->prompt.n,
        .n_answer = sample->answer.n,
        .max_tokens = free_tokens(sample),
        .threads = 1,
    };
    fb_foretold *told = fb_zalloc(FB_ACCOUNT_other, sizeof *told);
    fb_status status;

    if (told == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a quota");
    status = fb_foretell_cell(told, &asked);
    if (status == FB_OK)
        *out = fmax(*out, fb_ledger_open(&told->ledger) / told->plain_flops);
    fb_free(told);
    return status;
}

/* --- both --- */

static bool is_among(const fb_cell *cells, int n, int64_t k)
{
    for (int i = 0; i < n; i++)
        if (cells[i].k == k) return true;
    return false;
}

/* The cells of a sample and rule come first, one for each number of entries: seeds, and
 * budgets that come to the same, have the same price. */
static int find_own(fb_cell *cells, int n, int sample, int rule)
{
    int n_own = 0;

    for (int i = 0; i < n; i++)
        if (cells[i].sample == sample && cells[i].rule == rule &&
            !is_among(cells, n_own, cells[i].k))
            cells[n_own++] = cells[i];
    return n_own;
}

fb_status fb_price(fb_pricing *pricing, int text, int rule, const fb_bound_rule *bound,
                   double *out)
{
    const int sample = pricing->texts[text];
    const int document = pricing->plan->samples[sample].document;
    fb_status status = FB_OK;
    fb_cell *cells;
    int n;

    *out = 0;
    FB_TRY(fb_plan_cells(pricing->plan, document, NULL, &cells, &n));
    n = find_own(cells, n, sample, rule);
    if (!fb_spec_streams(pricing->plan->spec))
        status = price_at_once(pricing, document, bound, cells, n, out);
    else
        for (int i = 0; status == FB_OK && i < n; i++)
            status = price_stream(pricing, bound, &cells[i], out);
    fb_free(cells);
    return status;
}
