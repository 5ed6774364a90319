/* run_memory.c - whether the cells of a plan fit the memory, before any is computed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/host.h"
#include "experiment/run_inside.h"

#include <stdio.h>
#include <string.h>

/* --- what is there --- */

double fb_run_bytes_now(void)
{
    double bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += (double)fb_memory_now((fb_account)a);
    return bytes;
}

/* Of weights that are still to be loaded. PyTorch has loaded all of them, in a precision
 * of its own. */
static double bytes_to_load(const fb_plan *plan)
{
    const double all = (double)fb_model_get_facts(plan->model)->weight_bytes;
    const double now = (double)fb_memory_now(FB_ACCOUNT_weights);

    if (fb_spec_is_torch(plan->spec) && now > 0) return 0;
    return now < all ? all - now : 0;
}

/* What lies there is charged like all else, but the machine's memory says nothing of how
 * much fits: PyTorch fails where it does not. */
static bool has_own_memory(const fb_plan *plan)
{
    const char *device = fb_values_text(&plan->spec->values, FB_SET_device);

    return strstr(device, "cuda") != NULL || strstr(device, "xpu") != NULL;
}

int64_t fb_run_limit(const fb_plan *plan, const fb_run_options *options)
{
    const double load = bytes_to_load(plan);
    fb_host host;

    if (options->memory > 0) return options->memory;
    if (has_own_memory(plan)) return INT64_MAX;
    fb_host_read(&host);
    if (host.available_bytes <= 0) return INT64_MAX;
    return (int64_t)(((double)host.available_bytes - load) * 0.8 + fb_run_bytes_now() +
                     load);
}

/* --- what is needed --- */

typedef struct need {
    const fb_plan *plan;
    double limit, base; /* bytes: there may be, are in use before a context is read */
} need;

static double cache_bytes(const fb_plan *plan, int64_t entries)
{
    return (double)entries * (double)plan->shape.layers * (double)plan->shape.kv_heads *
           (double)fb_entry_bytes(&plan->shape);
}

/* Of the work of one pass with the signals of all rules, or of another one for some. */
static double pass_bytes(const fb_plan *plan, int64_t tokens)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    size_t again = 0, once;
    bool wants_sum = false, wants_queries = false, wants_blocks = false;
    int64_t window = 0;

    for (int r = 0; r < plan->spec->n_rules; r++) {
        const fb_bound_rule *rule = plan->spec->rules[r].rule;

        window = fb_larger(window, fb_bound_rule_window(rule, tokens));
        wants_sum |= fb_bound_rule_reads_sum(rule);
        wants_queries |= fb_bound_rule_queries(rule, tokens) > 0;
        wants_blocks |= fb_bound_rule_reads_block(rule);
        if (fb_bound_rule_replay(rule) == NULL) continue;
        once = fb_replay_bytes(facts, plan->shape.type, tokens,
                               fb_bound_rule_replay(rule));
        if (once > again) again = once;
    }
    once = fb_pass_bytes(facts, tokens, window, wants_sum, wants_queries, wants_blocks);
    return (double)(once > again ? once : again);
}

double fb_run_reading_bytes(const fb_plan *plan, int64_t tokens)
{
    const fb_model_facts *facts = fb_model_get_facts(plan->model);
    const double layer = (double)tokens * (double)plan->shape.kv_heads *
                         (double)fb_entry_bytes(&plan->shape);

    return cache_bytes(plan, tokens) +
           (double)fb_window_bytes(facts, plan->shape.type, tokens) +
           (facts->sliding_layers > 0 ? layer : 0) + pass_bytes(plan, tokens);
}

double fb_run_cell_bytes(const fb_plan *plan, const fb_cell *cell)
{
    const fb_choices *choices =
        fb_bound_rule_choices(plan->spec->rules[cell->rule].rule);
    const bool has_own = cell->budget >= 0 || choices->reference != FB_REFERENCE_NONE;
    double bytes = has_own ? cache_bytes(plan, cell->k) : 0;

    if (fb_spec_goes_on(plan->spec)) return 2 * cache_bytes(plan, cell->k);
    if (choices->reference == FB_REFERENCE_REREAD) bytes += pass_bytes(plan, cell->k);
    return bytes;
}

fb_status fb_run_refuse_memory(double limit, double needed, const char *what,
                               const char *help)
{
    char have[32], wanted[32];

    fb_print_size(limit, have, sizeof have);
    fb_print_size(needed, wanted, sizeof wanted);
    return fb_fail(FB_BUDGET,
                   "memory limit of %s: %s %s\nhelp: --memory with more, or %s", have,
                   what, wanted, help);
}

static fb_status check_context(const need *n, int document)
{
    const int64_t tokens = n->plan->documents[document].context.n;
    const double bytes = n->base + fb_run_reading_bytes(n->plan, tokens);
    char what[64];

    if (bytes <= n->limit) return FB_OK;
    (void)snprintf(what, sizeof what, "a context of %lld tokens needs",
                   (long long)tokens);
    return fb_run_refuse_memory(n->limit, bytes, what, "shorter contexts");
}

static fb_status check_cell(const need *n, int document, const fb_cell *cell)
{
    const fb_plan_sample *sample = &n->plan->samples[cell->sample];
    const fb_question question = fb_run_question(sample);
    const fb_answer_options options = fb_run_answer_options(sample);
    const double full =
        fb_run_reading_bytes(n->plan, n->plan->documents[document].context.n);
    const double own = fb_run_cell_bytes(n->plan, cell);
    const double answer = (double)fb_answer_bytes(
        fb_model_get_facts(n->plan->model), n->plan->shape.type, &question, &options);

    if (n->base + full + own + answer <= n->limit) return FB_OK;
    return fb_run_refuse_memory(n->limit, n->base + full + own + answer,
                                "a single cell needs", "a smaller budget");
}

static fb_status check_document(const need *n, const fb_filter *only, int document)
{
    fb_cell *cells = NULL;
    int n_cells = 0;
    fb_status status;

    FB_TRY(fb_plan_cells(n->plan, document, only, &cells, &n_cells));
    status = n_cells > 0 ? check_context(n, document) : FB_OK;
    for (int i = 0; i < n_cells && status == FB_OK; i++)
        status = check_cell(n, document, &cells[i]);
    fb_free(cells);
    return status;
}

fb_status fb_run_check_memory(const fb_plan *plan, const fb_run_options *options)
{
    const need n = {plan, (double)fb_run_limit(plan, options),
                    fb_run_bytes_now() + bytes_to_load(plan)};

    for (int i = 0; i < plan->n_documents; i++)
        FB_TRY(check_document(&n, options->only, i));
    return FB_OK;
}

fb_status fb_run_check(const fb_plan *plan, const fb_run_options *options)
{
    FB_TRY(fb_run_check_file(plan, options));
    return fb_run_check_memory(plan, options);
}
