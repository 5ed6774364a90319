/* adakv.c - heads share a layer's budget by where the highest scores are.
 *
 * form=floor: every head is sure of its best max(1, floor(safeguard * k)) entries, protected
 * ones counted; the rest of the layer's kv_heads * k goes to the highest scores of all heads
 * together.
 *
 * form=blend: c[g] counts the entries of head g among the highest of the layer;
 *
 *     k[g]  =  protected  +  (1 - safeguard) * c[g]  +  safeguard * mean of c
 *
 * to whole entries by largest remainders (the code rounds each, so that a few may be lacking).
 *
 * normalise=mass: before that, a head's scores are multiplied by the share of their sum that
 * its best k hold. A head then keeps its own best k[g]. Dropped entries are really freed.
 *
 * Needs    scores that can be compared between heads.
 * Source   Feng et al. 2024, "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget
 *          Allocation for Efficient LLM Inference", arXiv:2407.11550: floor is how kvpress
 *          reads it, blend and normalise are the authors' code.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { FLOOR, BLEND };
enum { NONE, MASS };
enum { ENTRIES = 1 };

struct adakv {
    double safeguard;
    int64_t form, normalise;
};

static const fb_param adakv_params[] = {
    FB_REAL(struct adakv, safeguard, 0.2, 0, 1, "paper, kvpress 0.5.5",
            "share of an equal split that every head is sure of"),
    FB_WORD(struct adakv, form, FLOOR, "floor|blend", "kvpress 0.5.5 (authors: blend)",
            "whether that is a least number or mixed in"),
    FB_WORD(struct adakv, normalise, NONE, "none|mass", "kvpress 0.5.5",
            "whether heads whose scores lie in few entries count more"),
    FB_PARAM_END,
};

/* Scores times what the best n of their head hold of the sum. */
static fb_tensor weigh(fb_ops *ops, fb_tensor scores, int64_t n)
{
    const fb_tensor best = fb_gather(ops, scores, fb_topk(ops, scores, n));
    const fb_tensor share =
        fb_div(ops, fb_sum(ops, best, ENTRIES), fb_sum(ops, scores, ENTRIES));

    return fb_mul(ops, scores,
                  fb_reshape(ops, share, 2, (int64_t[]){fb_size(ops, share, 0), 1}));
}

/* Counts k of all entries become the blend. */
static void blend(const struct adakv *adakv, const fb_share_input *in, int64_t *k)
{
    const int64_t rest = in->total - in->kv_heads * in->n_protected;
    const double mean = (double)rest / (double)in->kv_heads;

    for (int64_t g = 0; g < in->kv_heads; g++)
        in->room[g] = (1 - adakv->safeguard) * (double)(k[g] - in->n_protected) +
                      adakv->safeguard * mean;
    fb_whole_parts(in->room, in->kv_heads, rest, in->m - in->n_protected, k);
    for (int64_t g = 0; g < in->kv_heads; g++)
        k[g] += in->n_protected;
}

static fb_status share(fb_ops *ops, const fb_share_input *in, const void *params,
                       int64_t *k_out)
{
    const struct adakv *adakv = params;
    const double floor = adakv->form == FLOOR ? adakv->safeguard : 0;
    const int64_t sure = (int64_t)((double)in->k * floor);
    fb_share_input own = *in;

    if (adakv->normalise == MASS)
        own.scores = weigh(ops, in->scores, in->k - in->n_protected);
    FB_TRY(fb_share_by_rank(ops, &own, sure > 1 ? sure : 1, k_out));
    if (adakv->form == BLEND) blend(adakv, in, k_out);
    return FB_OK;
}

const fb_rule fb_rule_adakv = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "adakv",
    .summary = "more entries for heads with the higher scores, within a layer",
    .family = "mixed",
    .source = "Feng et al. 2024, arXiv:2407.11550",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .needs = FB_COMPARES_HEADS,
    .params = adakv_params,
    .params_bytes = sizeof(struct adakv),
    .share = share,
};
