/* run_stream.c - protocol stream: each cell reads the context anew, under its budget.
 *
 * What a rule keeps beside the entries (their state, the last queries) is paid from the
 * same bytes, so such a rule holds fewer entries. Where all tokens fit nothing is ever
 * evicted, so no state is needed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/run_inside.h"

bool fb_run_pays_state(const fb_plan *plan, const fb_cell *cell)
{
    return cell->k < fb_plan_tokens(plan, cell->sample) &&
           !fb_values_is(&plan->spec->values, FB_SET_metadata, "free");
}

static fb_status entries_of(const fb_plan *plan, const fb_cell *cell, int64_t *out)
{
    const fb_bound_rule *rule = plan->spec->rules[cell->rule].rule;
    const int64_t chunk = fb_values_int(&plan->spec->values, FB_SET_chunk);

    *out = cell->k;
    if (!fb_run_pays_state(plan, cell)) return FB_OK;
    *out = fb_stream_entries(fb_model_get_facts(plan->model), plan->shape.type, rule,
                             cell->k, fb_spec_keeps_scores(plan->spec));
    /* Where nothing is held beside them, the stream itself says what is too small. */
    if (*out > chunk || *out >= cell->k) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "what rule '%s' holds beside entries takes %lld of the %lld that a "
                   "head may have, and the rest does not hold a chunk of %lld tokens; "
                   "take a larger budget, smaller chunks, fewer queries or statistics "
                   "(a smaller window, covariance=0), or --metadata free",
                   fb_bound_rule_get(rule)->name,
                   (long long)(cell->k - fb_larger(*out, 0)), (long long)cell->k,
                   (long long)chunk);
}

fb_status fb_run_stream(const fb_runner *run, const fb_cell *cell, fb_variant **out)
{
    const fb_spec *spec = run->plan->spec;
    const fb_ids *context =
        &run->plan->documents[run->plan->samples[cell->sample].document].context;
    const fb_seeded_rule rule = {spec->rules[cell->rule].rule, cell->seed};
    fb_pace pace = {.chunk = fb_values_int(&spec->values, FB_SET_chunk),
                    .interval = fb_values_int(&spec->values, FB_SET_interval),
                    .pays_state = fb_run_pays_state(run->plan, cell),
                    .keeps_scores = fb_spec_keeps_scores(spec)};

    FB_TRY(entries_of(run->plan, cell, &pace.k));
    return fb_stream_in(out, run->reading, &rule, context->ids, &spec->protect, &pace);
}
