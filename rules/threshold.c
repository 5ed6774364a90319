/* threshold.c - what a rule scores below a number leaves, even where there is room.
 *
 * Entries older than the newest `window` leave where their score is below `tau`. What is
 * left competes for the budget by score, so a head keeps its k best at most, and as few as
 * are not below. Cells that end under their budget say so by their entries; shares of an
 * allocation are not handed on.
 *
 * Reads    what the inner rule reads.
 * Source   kvpress 0.5.5 DMSPress, the inference of Lancucki et al. 2025, "Inference-Time
 *          Hyper-Scaling with KV Cache Compression", arXiv:2506.05345, with a rule's scores
 *          for the trained decisions; window as there. It has no budget, no default of tau,
 *          and scores a token once, when it is new: in `prefill` that is the same.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1 };
static const double NONE = -1e30; /* is below no score */

struct threshold {
    double tau;
    int64_t window;
};

static const fb_param threshold_params[] = {
    FB_REAL(struct threshold, tau, -1e30, -1e30, 1e30,
            "FlexBudget: nothing leaves by it",
            "scores below it leave; depends on the rule"),
    FB_INT(struct threshold, window, 128, 0, 1 << 20, "kvpress 0.5.5",
           "newest entries that it spares; kept under `protect: published`"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct threshold *threshold = params;

    if (threshold->window > choices->recent) choices->recent = threshold->window;
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct threshold *threshold = params;
    const int64_t n = fb_size(ops, in->scores, ENTRIES);
    const int64_t before = in->m - threshold->window - in->first;
    const int64_t old = before < 0 ? 0 : before < n ? before : n;
    const fb_tensor tau = fb_full(ops, 1, (int64_t[]){1}, threshold->tau);
    const fb_tensor lowest = fb_full(ops, 2, (int64_t[]){1, 1}, FB_LOWEST);
    fb_tensor order;

    if (old == 0 || threshold->tau <= NONE) return in->scores;
    order = fb_narrow(ops, in->scores, ENTRIES, 0, old);
    order = fb_where(ops, fb_less(ops, order, tau), lowest, order);
    if (old == n) return order;
    return fb_cat(ops, order, fb_narrow(ops, in->scores, ENTRIES, old, n - old),
                  ENTRIES);
}

const fb_rule fb_rule_threshold = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "threshold",
    .summary = "what a rule scores below a number leaves, even where there is room",
    .family = "mixed",
    .source = "kvpress 0.5.5 DMSPress",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = threshold_params,
    .params_bytes = sizeof(struct threshold),
    .choose = choose,
    .select = select,
};
