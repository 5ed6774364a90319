/* run_memory.c - whether the cells of a plan fit the memory, before any is computed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/foretell.h"
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
    double reading;     /* bytes of the longest context */
} need;

static double cache_bytes(const fb_plan *plan, int64_t entries)
{
    return (double)entries * (double)plan->shape.layers * (double)plan->shape.kv_heads *
           (double)fb_entry_bytes(&plan->shape);
}

/* Rules that score a context as it is read, of a random one as often as it has seeds. */
typedef struct readers {
    const fb_bound_rule **rule;
    int n;
} readers;

static fb_status add_readers(const fb_plan *plan, readers *out)
{
    const fb_spec *spec = plan->spec;
    size_t n = 1;

    for (int r = 0; r < spec->n_rules; r++)
        n += fb_bound_rule_is_random(spec->rules[r].rule) ? (size_t)spec->n_seeds : 1;
    out->rule = fb_alloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *out->rule));
    if (out->rule == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    for (int r = 0; !fb_spec_streams(spec) && r < spec->n_rules; r++) {
        const fb_bound_rule *rule = spec->rules[r].rule;

        for (int i = 0; i < (fb_bound_rule_is_random(rule) ? spec->n_seeds : 1); i++)
            out->rule[out->n++] = rule;
    }
    return FB_OK;
}

static fb_status tell(const fb_plan *plan, int64_t tokens, const readers *who,
                      fb_foretold *out)
{
    const int64_t threads = fb_values_int(&plan->spec->values, FB_SET_threads);

    return fb_foretell_cell(out,
                            &(fb_foretell){.model = plan->model,
                                           .n_tokens = tokens,
                                           .engine = fb_run_engine_options(plan),
                                           .threads = threads > 0 ? (int)threads : 0,
                                           .company = who->rule,
                                           .n_company = who->n});
}

/* A rule at fault loses its own cells later, and nobody else's: without it. */
static fb_status leave_out(const fb_plan *plan, int64_t tokens, readers *who)
{
    fb_foretold alone;
    int n = 0;

    for (int r = 0; r < who->n; r++) {
        const readers one = {&who->rule[r], 1};
        const fb_status status = tell(plan, tokens, &one, &alone);

        if (status == FB_OK)
            who->rule[n++] = who->rule[r];
        else if (!fb_run_is_own_fault(status))
            return status;
    }
    who->n = n;
    return FB_OK;
}

static fb_status tell_reading(const fb_plan *plan, int64_t tokens, fb_foretold *out)
{
    readers who = {0};
    fb_status status = add_readers(plan, &who);

    if (status == FB_OK) status = tell(plan, tokens, &who, out);
    if (who.n > 0 && fb_run_is_own_fault(status)) {
        status = leave_out(plan, tokens, &who);
        if (status == FB_OK) status = tell(plan, tokens, &who, out);
    }
    fb_free((void *)who.rule);
    return status;
}

/* Without weights; what the operators work in stays from earlier, and is used again. */
static double bytes_to_take(const fb_foretold *told, fb_phase phase)
{
    const double there = (double)fb_memory_now(FB_ACCOUNT_scratch);
    const double scratch = (double)told->peak[phase][FB_ACCOUNT_scratch];

    return fb_foretold_peak(told, phase) -
           (double)told->peak[phase][FB_ACCOUNT_weights] -
           (there < scratch ? there : scratch);
}

fb_status fb_run_reading_bytes(const fb_plan *plan, int64_t tokens, double *out)
{
    double scored;
    fb_foretold told;

    *out = 0;
    FB_TRY(tell_reading(plan, tokens, &told));
    *out = bytes_to_take(&told, FB_PHASE_context);
    scored = bytes_to_take(&told, FB_PHASE_evict);
    if (scored > *out) *out = scored;
    return FB_OK;
}

double fb_run_cell_bytes(const fb_plan *plan, const fb_cell *cell)
{
    const fb_choices *choices =
        fb_bound_rule_choices(plan->spec->rules[cell->rule].rule);
    const bool has_own = cell->budget >= 0 || choices->reference != FB_REFERENCE_NONE;

    if (fb_spec_goes_on(plan->spec)) return 2 * cache_bytes(plan, cell->k);
    return has_own ? cache_bytes(plan, cell->k) : 0;
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

static fb_status find_longest(const fb_plan *plan, const fb_filter *only, int64_t *out)
{
    for (int d = 0; d < plan->n_documents; d++) {
        fb_cell *cells = NULL;
        int n_cells = 0;

        if (plan->documents[d].context.n <= *out) continue;
        FB_TRY(fb_plan_cells(plan, d, only, &cells, &n_cells));
        fb_free(cells);
        if (n_cells > 0) *out = plan->documents[d].context.n;
    }
    return FB_OK;
}

/* Shorter contexts take no more. */
static fb_status check_context(need *n, const fb_filter *only)
{
    int64_t longest = 0;
    char what[64];

    FB_TRY(find_longest(n->plan, only, &longest));
    if (longest == 0) return FB_OK;
    FB_TRY(fb_run_reading_bytes(n->plan, longest, &n->reading));
    if (n->base + n->reading <= n->limit) return FB_OK;
    (void)snprintf(what, sizeof what, "a context of %lld tokens needs",
                   (long long)longest);
    return fb_run_refuse_memory(n->limit, n->base + n->reading, what,
                                "shorter contexts");
}

static fb_status check_cell(const need *n, const fb_cell *cell)
{
    const fb_plan_sample *sample = &n->plan->samples[cell->sample];
    const fb_question question = fb_run_question(sample);
    const fb_answer_options options = fb_run_answer_options(sample);
    const double answer = (double)fb_answer_bytes(
        fb_model_get_facts(n->plan->model), n->plan->shape.type, &question, &options);
    const double bytes =
        n->base + n->reading + fb_run_cell_bytes(n->plan, cell) + answer;

    if (bytes <= n->limit) return FB_OK;
    return fb_run_refuse_memory(n->limit, bytes, "a single cell needs",
                                "a smaller budget");
}

static fb_status check_document(const need *n, const fb_filter *only, int document)
{
    fb_cell *cells = NULL;
    int n_cells = 0;
    fb_status status;

    status = fb_plan_cells(n->plan, document, only, &cells, &n_cells);
    for (int i = 0; i < n_cells && status == FB_OK; i++)
        status = check_cell(n, &cells[i]);
    fb_free(cells);
    return status;
}

fb_status fb_run_check_memory(const fb_plan *plan, const fb_run_options *options)
{
    need n = {plan, (double)fb_run_limit(plan, options),
              fb_run_bytes_now() + bytes_to_load(plan), 0};

    FB_TRY(check_context(&n, options->only));
    for (int i = 0; i < plan->n_documents; i++)
        FB_TRY(check_document(&n, options->only, i));
    return FB_OK;
}

fb_status fb_run_check(const fb_plan *plan, const fb_run_options *options)
{
    FB_TRY(fb_run_check_file(plan, options));
    return fb_run_check_memory(plan, options);
}
