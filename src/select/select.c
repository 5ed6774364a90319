/* select.c - protect, allocate, choose.
 *
 * Protected entries are the first `sink` and the newest `recent` of a slot, the same
 * for all heads; what lies between can be chosen. So a choice is one top-k over a
 * middle piece of the scores, and no score has to be faked.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"

#include "base/check.h"
#include "base/number.h"

#include <string.h>

/* What stays in every head before the rule has a say. */
struct protection {
    int64_t sink, recent;
};

bool fb_select_falls_back(const fb_bound_rule *rule, int64_t n)
{
    const fb_choices *choices = fb_bound_rule_choices(rule);

    return !choices->keeps_all &&
           (n <= choices->unscored_last || n < choices->min_tokens);
}

/* The union of the experiment's or the rule's protection, the entries without a score,
 * the share of the newest that defines the rule, and the question. */
static struct protection protect(const fb_selector *in, int64_t k, bool fallback)
{
    const fb_choices *choices = fb_bound_rule_choices(in->rule);
    struct protection p = {0, 0};

    if (in->protect.kind == FB_PROTECT_EXPERIMENT)
        p = (struct protection){in->protect.sink, in->protect.recent};
    if (in->protect.kind == FB_PROTECT_PUBLISHED)
        p = (struct protection){choices->sink, choices->recent};
    p.recent = fb_larger(p.recent, in->protect_last);
    if (!fallback) {
        p.recent = fb_larger(p.recent, choices->unscored_last);
        p.recent = fb_larger(p.recent, (int64_t)((double)k * choices->recent_quota));
    }
    if (p.sink > in->n) p.sink = in->n;
    if (p.recent > in->n - p.sink) p.recent = in->n - p.sink;
    return p;
}

/* A head smaller than its protection: the newest entry, then sinks from the first on,
 * then the other recents, newest first. */
static void mark_shrunk(uint8_t *stays, int64_t n, struct protection p, int64_t k)
{
    int64_t left = k - 1;

    stays[n - 1] = 1;
    for (int64_t j = 0; j < p.sink && j < n - 1 && left > 0; j++, left--)
        stays[j] = 1;
    for (int64_t j = n - 2; left > 0; j--) {
        if (stays[j] != 0) continue;
        stays[j] = 1;
        left--;
    }
}

static void mark_protected(uint8_t *stays, int64_t n, struct protection p)
{
    memset(stays, 0, (size_t)n);
    memset(stays, 1, (size_t)p.sink);
    memset(stays + (n - p.recent), 1, (size_t)p.recent);
}

static fb_status keep_everything(fb_selection *out, int64_t n, uint8_t *stays)
{
    memset(stays, 1, (size_t)n);
    for (int64_t s = 0; s < out->kept.n_slots; s++)
        FB_TRY(fb_kept_set(&out->kept, s, stays, n));
    return FB_OK;
}

/* Sinks and the newest: where the rule has nothing to choose, or cannot. */
static fb_status keep_ends(fb_selection *out, const fb_selector *in,
                           struct protection p, uint8_t *stays)
{
    memset(stays, 0, (size_t)in->n);
    mark_shrunk(stays, in->n, p, out->k);
    for (int64_t s = 0; s < out->kept.n_slots; s++)
        FB_TRY(fb_kept_set(&out->kept, s, stays, in->n));
    return FB_OK;
}

/* Marks the best k - n_protected entries of each head, taken from `best` [kv_heads,
 * most]. */
static fb_status keep_best(fb_selection *out, const fb_selector *in,
                           struct protection p, int64_t layer, const int64_t *best,
                           int64_t most, const int64_t *k, uint8_t *stays)
{
    for (int64_t g = 0; g < in->kv_heads; g++) {
        mark_protected(stays, in->n, p);
        for (int64_t i = 0; i < k[g] - p.sink - p.recent; i++)
            stays[p.sink + best[g * most + i]] = 1;
        FB_TRY(fb_kept_set(&out->kept, layer * in->kv_heads + g, stays, in->n));
    }
    return FB_OK;
}

static fb_status choose_layer(fb_selection *out, fb_ops *ops, const fb_selector *in,
                              struct protection p, int64_t layer, uint8_t *stays,
                              int64_t *best)
{
    const int64_t n_protected = p.sink + p.recent;
    const fb_tensor scores =
        fb_narrow(ops, in->scores[layer], 1, p.sink, in->n - n_protected);
    const fb_share_input share = {scores, layer,       in->layers, in->kv_heads,
                                  in->n,  n_protected, out->k};
    int64_t k[FB_MAX_KV_HEADS], most = 0;
    size_t bytes;

    FB_TRY(fb_bound_rule_share(in->rule, ops, &share, k));
    for (int64_t g = 0; g < in->kv_heads; g++)
        most = fb_larger(most, k[g] - n_protected);
    bytes = (size_t)(in->kv_heads * most) * sizeof *best;
    FB_TRY(fb_to_host(ops, fb_topk(ops, scores, most), best, bytes));
    return keep_best(out, in, p, layer, best, most, k, stays);
}

static fb_status choose(fb_selection *out, fb_ops *ops, const fb_selector *in,
                        struct protection p, uint8_t *stays)
{
    int64_t *best = fb_alloc(FB_ACCOUNT_scratch,
                             fb_size_mul((size_t)(in->kv_heads * in->n), sizeof *best));
    fb_status status = FB_OK;

    if (best == NULL) return fb_fail(FB_NO_MEMORY, "no memory to select entries");
    for (int64_t layer = 0; status == FB_OK && layer < in->layers; layer++) {
        fb_scope_open(ops);
        status = choose_layer(out, ops, in, p, layer, stays, best);
        fb_scope_close(ops);
    }
    fb_free(best);
    return status;
}

static fb_status select_into(fb_selection *out, fb_ops *ops, const fb_selector *in,
                             uint8_t *stays)
{
    const bool fallback = fb_select_falls_back(in->rule, in->n);
    const struct protection p = protect(in, out->k, fallback);

    out->n_protected = p.sink + p.recent;
    if (out->k >= in->n) return keep_everything(out, in->n, stays);
    out->fallback = fallback;
    out->shrunk = out->k < out->n_protected;
    if (fallback || out->k <= out->n_protected) return keep_ends(out, in, p, stays);
    out->free_choices = in->layers * in->kv_heads * (out->k - out->n_protected);
    return choose(out, ops, in, p, stays);
}

fb_status fb_select(fb_selection *out, fb_ops *ops, const fb_selector *in, int64_t k)
{
    uint8_t *stays;
    fb_status status;

    *out = (fb_selection){.k = k, .budget_entries = in->layers * in->kv_heads * k};
    FB_ASSERT(k >= 1 && in->n >= 1 && in->kv_heads <= FB_MAX_KV_HEADS);
    if (fb_bound_rule_choices(in->rule)->keeps_all && k < in->n)
        return fb_fail(FB_BUDGET,
                       "'%s' keeps all %lld entries; the budget has %lld a head",
                       fb_bound_rule_text(in->rule), (long long)in->n, (long long)k);
    FB_TRY(fb_kept_new(&out->kept, in->layers * in->kv_heads));
    stays = fb_alloc(FB_ACCOUNT_scratch, (size_t)in->n);
    status = stays == NULL ? fb_fail(FB_NO_MEMORY, "no memory to select entries")
                           : select_into(out, ops, in, stays);
    fb_free(stays);
    if (status != FB_OK) fb_selection_clear(out);
    return status;
}

void fb_selection_clear(fb_selection *selection)
{
    fb_kept_clear(&selection->kept);
    *selection = (fb_selection){0};
}
