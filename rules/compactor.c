/* compactor.c - two rules' scores, the second counting the more the less may stay.
 *
 *     score  =  a  +  weight * b
 *
 * where the weight is the share of the layer's entries that leave (weight=ratio), or the
 * number `fixed`. Published: compactor(noncausal, leverage), both with skip_first=8 and
 * skip_last=4 (`protect: published` then keeps these). Inside an allocation heads share
 * the budget by the first rule alone.
 *
 * Reads    what the two rules read.
 * Source   Chari and Van Durme 2025, "Compactor: Calibrated Query-Agnostic KV Cache
 *          Compression with Approximate Leverage Scores", arXiv:2507.08143; the weight as
 *          kvpress 0.5.5 CompactorPress, 0.5 in the authors' engine.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { BY_RATIO, FIXED };

struct compactor {
    int64_t weight;
    double fixed;
};

static const fb_param compactor_params[] = {
    FB_WORD(struct compactor, weight, BY_RATIO, "ratio|fixed", "kvpress 0.5.5",
            "of the second rule: the share that leaves, or `fixed`"),
    FB_REAL(struct compactor, fixed, 0.5, 0, 1e6, "the authors' engine",
            "weight of the second rule under weight=fixed"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct compactor *compactor = params;

    if (compactor->weight == BY_RATIO) choices->planes = 2;
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct compactor *compactor = params;

    (void)see;
    return compactor->weight == BY_RATIO
               ? fb_cat(ops, inner[0], inner[1], 0)
               : fb_add(ops, inner[0], inner[1], compactor->fixed);
}

static fb_tensor select(fb_ops *ops, const fb_select_input *in, const void *params)
{
    const struct compactor *compactor = params;
    const int64_t g = in->kv_heads;
    int64_t leave = g * fb_size(ops, in->scores, 1);
    const double all = (double)(g * in->m);

    if (compactor->weight == FIXED) return in->scores;
    for (int64_t i = 0; i < g; i++)
        leave -= in->k[i];
    return fb_add(ops, fb_narrow(ops, in->scores, 0, 0, g),
                  fb_narrow(ops, in->scores, 0, g, g), (double)leave / all);
}

const fb_rule fb_rule_compactor = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "compactor",
    .summary = "two rules' scores; the more leaves, the more the second counts",
    .family = "mixed",
    .source = "Chari and Van Durme 2025, arXiv:2507.08143",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 2,
    .params = compactor_params,
    .params_bytes = sizeof(struct compactor),
    .choose = choose,
    .wrap = wrap,
    .select = select,
};
