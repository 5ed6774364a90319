/* forecast_plan.c - the forecast of a plan: of its longest context with the cells on it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/forecast.h"
#include "experiment/run_inside.h"

#include <string.h>

/* The cells of a document. */
typedef struct longest {
    int document;
    fb_cell *cells;
    int n;
} longest;

static fb_status find_longest(const fb_plan *plan, const fb_filter *only, longest *out)
{
    for (int d = 0; d < plan->n_documents; d++) {
        const int64_t n = plan->documents[d].context.n;
        fb_cell *cells = NULL;
        int n_cells = 0;

        if (out->n > 0 && n <= plan->documents[out->document].context.n) continue;
        FB_TRY(fb_plan_cells(plan, d, only, &cells, &n_cells));
        if (n_cells == 0) {
            fb_free(cells);
            continue;
        }
        fb_free(out->cells);
        *out = (longest){d, cells, n_cells};
    }
    if (out->n > 0) return FB_OK;
    return fb_fail(FB_USAGE, "no cell of the experiment passes the filter");
}

static bool has_cell(const longest *l, int rule, int budget)
{
    for (int i = 0; i < l->n; i++)
        if ((rule < 0 || l->cells[i].rule == rule) &&
            (budget < 0 || l->cells[i].budget == budget))
            return true;
    return false;
}

/* As the cells have them: where question and answer stand under a budget, the largest. */
static int add_budgets(const fb_plan *plan, const longest *l, fb_forecast_budget *out)
{
    int n = 0;

    for (int b = 0; b < plan->spec->n_budgets; b++) {
        if (!has_cell(l, -1, b)) continue;
        out[n].k = 0;
        for (int i = 0; i < l->n; i++)
            if (l->cells[i].budget == b) out[n].k = fb_larger(out[n].k, l->cells[i].k);
        fb_plan_budget_text(plan, b, out[n].text, sizeof out[n].text);
        n++;
    }
    return n;
}

static int add_rules(const fb_plan *plan, const longest *l, fb_forecast_rule *out)
{
    const fb_spec *spec = plan->spec;
    int n = 0;

    for (int r = 0; r < spec->n_rules; r++)
        if (has_cell(l, r, -1))
            out[n++] = (fb_forecast_rule){
                .label = spec->rules[r].label,
                .rule = spec->rules[r].rule,
                .n_seeds =
                    fb_bound_rule_is_random(spec->rules[r].rule) ? spec->n_seeds : 1};
    return n;
}

/* The question with the longest text of its own. */
static const fb_plan_sample *longest_sample(const fb_plan *plan, const longest *l)
{
    const fb_plan_sample *best = NULL;
    int64_t most = -1;

    for (int i = 0; i < l->n; i++) {
        const fb_plan_sample *s = &plan->samples[l->cells[i].sample];
        const int64_t n = s->prompt.n + fb_larger(s->answer.n, s->max_tokens);

        if (n <= most) continue;
        most = n;
        best = s;
    }
    return best;
}

static fb_foretell cell_like(const fb_plan *plan, const longest *l)
{
    const fb_values *values = &plan->spec->values;
    const fb_plan_document *document = &plan->documents[l->document];
    const fb_plan_sample *sample = longest_sample(plan, l);
    const fb_answer_options options = fb_run_answer_options(sample);

    return (fb_foretell){
        .model = plan->model,
        .n_tokens = document->context.n,
        .engine = fb_run_engine_options(plan),
        .protect = plan->spec->protect,
        .protect_last = document->protect_last,
        .streams = fb_spec_streams(plan->spec),
        .pace = {.chunk = fb_values_int(values, FB_SET_chunk),
                 .interval = fb_values_int(values, FB_SET_interval),
                 .pays_state = !fb_values_is(values, FB_SET_metadata, "free"),
                 .keeps_scores = fb_spec_keeps_scores(plan->spec)},
        .n_prompt = sample->prompt.n,
        .n_answer = sample->answer.n,
        .max_tokens = options.generate ? options.max_tokens : 0,
        .threads = (int)fb_larger(0, fb_values_int(values, FB_SET_threads))};
}

static fb_status forecast(fb_forecast *out, const fb_plan *plan, const longest *l)
{
    const size_t n_rules = (size_t)plan->spec->n_rules;
    const size_t n_budgets = (size_t)plan->spec->n_budgets;
    const fb_foretell like = cell_like(plan, l);
    fb_forecast_rule *rules =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul(n_rules + 1, sizeof *rules));
    fb_forecast_budget *budgets =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n_budgets + 1, sizeof *budgets));
    fb_status status = FB_OK;

    if (rules == NULL || budgets == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for a forecast");
    else
        status = fb_forecast_make(out, &like, rules, add_rules(plan, l, rules), budgets,
                                  add_budgets(plan, l, budgets));
    fb_free(rules);
    fb_free(budgets);
    return status;
}

fb_status fb_forecast_plan(fb_forecast *out, const fb_plan *plan, const fb_filter *only)
{
    longest l = {0};
    fb_status status;

    memset(out, 0, sizeof *out);
    status = find_longest(plan, only, &l);
    if (status == FB_OK) status = forecast(out, plan, &l);
    fb_free(l.cells);
    return status;
}
