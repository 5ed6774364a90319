/* caote.c - how far the output moves when one entry leaves, of a rule's scores.
 *
 *     h[g, j]      =  inner score[g, j] / sum over entries of it
 *     score[g, j]  =  h[g, j] / (1 - h[g, j])  || x[g] - v[g, j] ||_2
 *
 *     output=read    x  =  sum over j of h[g, j] v[g, j]
 *     output=mean    x  =  mean of v[g, j]          (FastCAOTE)
 *
 * With h the attention of one query this is the exact change of its output when j leaves and
 * the softmax is renormalised. Meant for scores that are amounts of attention (the paper:
 * h2o, tova, snapkv); one below 0 counts as none. Entries without a score are left out of
 * sums and mean.
 *
 * Reads    values.
 * Source   Goel et al. 2025, "CAOTE: KV Cache Selection for LLMs via Attention Output
 *          Error-Based Token Eviction", arXiv:2504.14051, which has no public code; how it
 *          scales scores was read in a summary of version 6: to the sum of 1, as above. 1 - h
 *          is at least 1e-6, as in `dropkv`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { READ, MEAN };
enum { ENTRIES = 1 };
static const double LEAST = 1e-6; /* what of the scores the others have */
static const double SMALLEST_SUM = 1e-30;

struct caote {
    int64_t output;
};

static const fb_param caote_params[] = {
    FB_WORD(struct caote, output, READ, "read|mean", "paper",
            "what values are held against: what scores read, or their plain mean"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads |= FB_READS_VALUES;
    choices->compares = FB_COMPARES_HEADS; /* lengths of values, of shares */
}

/* [rows, n] of numbers that are not negative and add up to 1, or are all 0. */
static fb_tensor shares(fb_ops *ops, fb_tensor x)
{
    const int64_t column[] = {fb_size(ops, x, 0), 1};
    const fb_tensor zero = fb_full(ops, 1, (int64_t[]){1}, 0);
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, SMALLEST_SUM);
    const fb_tensor amount = fb_maximum(ops, x, zero);
    const fb_tensor sum = fb_maximum(ops, fb_sum(ops, amount, ENTRIES), least);

    return fb_div(ops, amount, fb_reshape(ops, sum, 2, column));
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct caote *caote = params;
    const int64_t g = see->kv_heads, n = fb_size(ops, inner[0], ENTRIES);
    const int64_t row[] = {g, 1, n}, middle[] = {g, 1, see->head_dim};
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, LEAST);
    const fb_tensor values = fb_narrow(ops, see->values, ENTRIES, 0, n);
    const fb_tensor h = shares(ops, inner[0]);
    const fb_tensor others = fb_maximum(ops, fb_add(ops, one, h, -1), least);
    const fb_tensor x =
        caote->output == MEAN
            ? fb_reshape(ops, fb_mean(ops, values, ENTRIES), 3, middle)
            : fb_bmm(ops, fb_reshape(ops, h, 3, row), false, values, false);
    const fb_tensor apart = fb_sqrt(ops, fb_square_distances(ops, x, values));

    return fb_mul(ops, fb_div(ops, h, others),
                  fb_reshape(ops, apart, 2, (int64_t[]){g, n}));
}

const fb_rule fb_rule_caote = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "caote",
    .summary = "entries without which what a rule's scores read moves most",
    .family = "mixed",
    .source = "Goel et al. 2025, arXiv:2504.14051",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
    .params = caote_params,
    .params_bytes = sizeof(struct caote),
    .choose = choose,
    .wrap = wrap,
};
