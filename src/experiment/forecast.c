/* forecast.c - see forecast.h.
 *
 * Each rule is told alone, for its ledger; the one whose cell takes most memory once more,
 * with all others in its reading, as a run has them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/forecast.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

/* --- sizes --- */

static void measure(fb_forecast *out, const fb_foretell *like)
{
    const fb_model_facts *facts = fb_model_get_facts(like->model);
    const fb_cache_shape shape = {facts->global_layers, facts->kv_heads,
                                  facts->head_dim, like->engine.cache};
    const double layer = (double)shape.kv_heads * (double)fb_entry_bytes(&shape);

    out->like = *like;
    out->token_bytes = (double)shape.layers * layer;
    out->full_bytes = out->token_bytes * (double)like->n_tokens;
    out->window_bytes =
        (double)fb_window_bytes(facts, like->engine.cache, like->n_tokens);
    for (int b = 0; b < out->n_budgets; b++)
        out->budgets[b].bytes = out->token_bytes * (double)out->budgets[b].k;
}

static int64_t largest_k(const fb_forecast *forecast)
{
    int64_t k = 0;

    for (int b = 0; b < forecast->n_budgets; b++)
        k = fb_larger(k, forecast->budgets[b].k);
    return k > 0 ? k : forecast->like.n_tokens;
}

/* --- rules --- */

/* The most that a phase takes. */
static double height(const fb_foretold *told)
{
    double most = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++) {
        const double peak = fb_foretold_peak(told, (fb_phase)p);

        if (peak > most) most = peak;
    }
    return most;
}

static fb_foretell cell_of(const fb_forecast *out, const fb_foretell *like,
                           const fb_bound_rule *rule)
{
    fb_foretell cell = *like;

    cell.rule = rule;
    cell.k = largest_k(out);
    if (like->streams && fb_bound_rule_choices(rule)->keeps_all)
        cell.k = like->n_tokens + like->n_prompt + /* with what is asked and said */
                 fb_larger(like->n_answer, like->max_tokens);
    cell.pace.pays_state = like->pace.pays_state && cell.k < like->n_tokens;
    return cell;
}

/* Why a rule cannot: some reasons are none of its own. */
static fb_status note_reason(fb_forecast_rule *rule, fb_status status)
{
    if (status == FB_DEFECT || status == FB_IO) return status;
    rule->reason = fb_strdup(fb_error_message());
    return rule->reason == NULL ? fb_fail(FB_NO_MEMORY, "no memory for a reason")
                                : FB_OK;
}

static void set_prices(fb_forecast_rule *rule, const fb_foretold *told)
{
    const double plain =
        fb_bound_rule_is_deployable(rule->rule) ? told->plain_flops : (double)NAN;

    rule->open = fb_ledger_open(&told->ledger) / plain;
    rule->fused = fb_ledger_fused(&told->ledger) / plain;
}

/* Tells every rule alone; the index of the heaviest, -1: none can be run. */
static fb_status tell_each(fb_forecast *out, const fb_foretell *like, int *heaviest)
{
    fb_foretold told;
    double most = 0;

    *heaviest = -1;
    for (int r = 0; r < out->n_rules; r++) {
        const fb_foretell cell = cell_of(out, like, out->rules[r].rule);
        const fb_status status = fb_foretell_cell(&told, &cell);

        if (status != FB_OK) {
            FB_TRY(note_reason(&out->rules[r], status));
            continue;
        }
        out->plain_flops = told.plain_flops;
        set_prices(&out->rules[r], &told);
        if (*heaviest >= 0 && height(&told) <= most) continue;
        most = height(&told);
        *heaviest = r;
    }
    if (*heaviest >= 0) return FB_OK;
    return fb_fail(FB_BUDGET, "no rule can be run: %s", out->rules[0].reason);
}

/* Who is scored in the reading besides; NULL: no memory. */
static const fb_bound_rule **company_of(const fb_forecast *out, int heaviest,
                                        fb_foretell *cell)
{
    const fb_bound_rule **company;
    size_t n = 1;

    for (int r = 0; r < out->n_rules; r++)
        n += (size_t)out->rules[r].n_seeds;
    company = fb_alloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *company));
    for (int r = 0; company != NULL && r < out->n_rules; r++)
        for (int i = r == heaviest; i < out->rules[r].n_seeds; i++)
            if (out->rules[r].reason == NULL)
                company[cell->n_company++] = out->rules[r].rule;
    return company;
}

static fb_status tell_together(fb_forecast *out, const fb_foretell *like, int heaviest)
{
    const size_t other = fb_memory_now(FB_ACCOUNT_other);
    fb_foretell cell = cell_of(out, like, out->rules[heaviest].rule);
    const fb_bound_rule **company =
        like->streams ? NULL : company_of(out, heaviest, &cell);
    fb_status status;

    if (company == NULL && !like->streams)
        return fb_fail(FB_NO_MEMORY, "no memory for rules");
    cell.company = company;
    status = fb_foretell_cell(&out->most, &cell);
    fb_free((void *)company);
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        out->most.peak[p][FB_ACCOUNT_other] += other;
    out->heaviest = out->rules[heaviest].label;
    return status;
}

/* --- the whole --- */

static fb_status copy_lists(fb_forecast *out, const fb_forecast_rule *rules,
                            int n_rules, const fb_forecast_budget *budgets,
                            int n_budgets)
{
    out->rules = fb_zalloc(FB_ACCOUNT_other,
                           fb_size_mul((size_t)n_rules + 1, sizeof *out->rules));
    out->budgets = fb_zalloc(FB_ACCOUNT_other,
                             fb_size_mul((size_t)n_budgets + 1, sizeof *out->budgets));
    if (out->rules == NULL || out->budgets == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a forecast");
    for (int r = 0; r < n_rules; r++)
        out->rules[r] = (fb_forecast_rule){
            rules[r].label, rules[r].rule, rules[r].n_seeds, 0, 0, NULL};
    for (int b = 0; b < n_budgets; b++)
        out->budgets[b] = budgets[b];
    out->n_rules = n_rules;
    out->n_budgets = n_budgets;
    return FB_OK;
}

static fb_status make(fb_forecast *out, const fb_foretell *like)
{
    int heaviest;

    measure(out, like);
    FB_TRY(tell_each(out, like, &heaviest));
    return tell_together(out, like, heaviest);
}

fb_status fb_forecast_make(fb_forecast *out, const fb_foretell *like,
                           const fb_forecast_rule *rules, int n_rules,
                           const fb_forecast_budget *budgets, int n_budgets)
{
    fb_status status;

    memset(out, 0, sizeof *out);
    status = copy_lists(out, rules, n_rules, budgets, n_budgets);
    if (status == FB_OK) status = make(out, like);
    if (status != FB_OK) fb_forecast_clear(out);
    return status;
}

void fb_forecast_clear(fb_forecast *forecast)
{
    for (int r = 0; r < forecast->n_rules; r++)
        fb_free(forecast->rules[r].reason);
    fb_free(forecast->rules);
    fb_free(forecast->budgets);
    memset(forecast, 0, sizeof *forecast);
}

fb_status fb_forecast_check_length(const fb_model_facts *facts, int64_t n_tokens,
                                   const char *help)
{
    char asked[32], most[32];

    if (n_tokens <= facts->longest) return FB_OK;
    fb_print_count(n_tokens, asked, sizeof asked);
    fb_print_count(facts->longest, most, sizeof most);
    return fb_fail(FB_USAGE,
                   "context, prompt and answer are %s tokens; the model takes %s\n"
                   "help: %s",
                   asked, most, help);
}
