/* run_reference.c - cells of the rows that tables are read against: nothing is chosen there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/run_inside.h"

#include <string.h>

static const fb_choices *choices_of(const fb_runner *run, const fb_cell *cell)
{
    return fb_bound_rule_choices(run->plan->spec->rules[cell->rule].rule);
}

bool fb_run_is_reference(const fb_runner *run, const fb_cell *cell)
{
    return choices_of(run, cell)->reference != FB_REFERENCE_NONE;
}

/* --- evidence --- */

/* What the experiment protects for every rule; the question of `aware`. */
static void mark_protected(const fb_runner *run, const fb_plan_document *document,
                           uint8_t *stays)
{
    const fb_protect *protect = &run->plan->spec->protect;
    const int64_t n = document->context.n;
    const int64_t sink = fb_smaller(protect->sink, n);
    const int64_t recent =
        fb_smaller(fb_larger(protect->recent, document->protect_last), n);

    memset(stays, 1, (size_t)sink);
    memset(stays + (n - recent), 1, (size_t)recent);
}

static void mark(const fb_plan_sample *sample, uint8_t value, uint8_t *stays)
{
    for (int e = 0; e < sample->n_evidence; e++) {
        const fb_token_span *span = &sample->evidence[e];

        memset(stays + span->begin, value, (size_t)(span->end - span->begin));
    }
}

/* The same tokens in every slot. */
static fb_status keep(const fb_runner *run, const uint8_t *stays, int64_t n,
                      fb_variant **out)
{
    const fb_cache_shape *shape = &run->plan->shape;
    fb_kept kept = {0};
    fb_status status = fb_kept_new(&kept, shape->layers * shape->kv_heads);

    for (int64_t slot = 0; status == FB_OK && slot < kept.n_slots; slot++)
        status = fb_kept_set(&kept, slot, stays, n);
    if (status == FB_OK)
        status = fb_evict_given(out, run->reading, &kept, fb_kept_total(&kept));
    fb_kept_clear(&kept);
    return status;
}

static fb_status by_evidence(const fb_runner *run, const fb_cell *cell, bool drop,
                             fb_variant **out)
{
    const fb_plan_sample *sample = &run->plan->samples[cell->sample];
    const fb_plan_document *document = &run->plan->documents[sample->document];
    const int64_t n = document->context.n;
    uint8_t *stays = fb_alloc(FB_ACCOUNT_scratch, (size_t)n);
    fb_status status;

    if (stays == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a kept set");
    memset(stays, drop, (size_t)n);
    if (!drop) mark_protected(run, document, stays);
    mark(sample, !drop, stays);
    status = keep(run, stays, n, out);
    fb_free(stays);
    return status;
}

/* --- the end of the text --- */

static fb_status reread(const fb_runner *run, const fb_cell *cell, fb_variant **out)
{
    const int document = run->plan->samples[cell->sample].document;

    return fb_reread(out, run->reading, run->plan->documents[document].context.ids,
                     cell->k);
}

fb_status fb_run_reference(const fb_runner *run, const fb_cell *cell, fb_variant **out)
{
    switch (choices_of(run, cell)->reference) {
    case FB_REFERENCE_NO_EVIDENCE:
        return by_evidence(run, cell, true, out);
    case FB_REFERENCE_EVIDENCE:
        return by_evidence(run, cell, false, out);
    case FB_REFERENCE_QUANTISED:
        return fb_keep_quantised(out, run->reading, (int)choices_of(run, cell)->bits);
    case FB_REFERENCE_REREAD:
        return reread(run, cell, out);
    case FB_REFERENCE_NONE:
        break;
    }
    return fb_fail(FB_DEFECT, "a rule that chooses is no reference");
}
