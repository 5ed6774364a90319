/* cap.c - entries whose values point where others relevant to the text's queries do not.
 *
 * The anchor a[h] is the mean of the text's queries before rotary embedding, turned by the
 * mean of the rotations at the next `future` positions. Per query head, v of its kv head:
 *
 *     w[j]         =  exp( tau (cos(a, k[j]) - max_i cos(a, k[i])) )
 *     M            =  I  +  sum_j (w[j] + epsilon) v[j] v[j]^T            [d, d]
 *     score[h, j]  =  w[j]  v[j].M^-1 v[j]
 *
 * then the mean over the query heads of a kv head. The first `stat_skip` tokens are left
 * out of all sums; they get the best score of the layer. In a stream the mean is over all
 * queries so far, and those left out are the oldest `stat_skip` entries.
 *
 * Reads    keys, values, queries of the whole text, the model's rotation.
 * Source   Yang et al. 2026, "Rethinking KV Cache Eviction via a Unified
 *          Information-Theoretic Objective", arXiv:2604.25975 (CapKV), as kvpress 0.5.5
 *          CapPress has it: cosines where the paper has products, and the anchor turned,
 *          of which the paper does not speak.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKENS = 1, CHANNELS = 2 };

struct cap {
    int64_t future, stat_skip;
    double tau, epsilon;
};

static const fb_param cap_params[] = {
    FB_INT(struct cap, future, 512, 1, 65536, "kvpress 0.5.5",
           "how many of the next positions queries are expected at"),
    FB_INT(struct cap, stat_skip, 4, 0, 4096, "kvpress 0.5.5",
           "first tokens left out of the statistics"),
    FB_REAL(struct cap, tau, 5, 0, 50, "paper, kvpress 0.5.5",
            "how much likeness to the queries counts"),
    FB_REAL(struct cap, epsilon, 1e-6, 0, 1, "kvpress 0.5.5",
            "weight that every value has in M"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct cap *cap = params;

    choices->reads =
        FB_READS_KEYS | FB_READS_VALUES | FB_READS_QUERIES | FB_READS_ROTATION;
    choices->compares = FB_COMPARES_HEADS;
    choices->layer_rows = 1; /* the mean query */
    choices->sink = cap->stat_skip;
    choices->min_tokens = cap->stat_skip + 1;
}

/* [heads, 1, d] the mean query before rotation. */
static fb_tensor learn(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct cap *cap = params;
    const int64_t shape[] = {see->heads, 1, see->head_dim};
    const fb_tensor queries = fb_block_queries(ops, see, cap->stat_skip);
    fb_tensor mean;

    if (queries.id == 0) return fb_full(ops, 3, shape, 0);
    mean = fb_reshape(ops, fb_mean(ops, queries, TOKENS), 3, shape);
    return fb_mean_so_far(ops, see, cap->stat_skip, see->layer_state, mean,
                          fb_size(ops, queries, TOKENS));
}

/* [kv_heads, r, d], one anchor for each query head. */
static fb_tensor anchors(fb_ops *ops, const fb_signals *see, const struct cap *cap)
{
    const int64_t grouped[] = {see->kv_heads, see->heads / see->kv_heads,
                               see->head_dim};
    fb_tensor cosine, sine, x;

    fb_mean_rotation(ops, see, see->next, 1, cap->future, &cosine, &sine);
    x = fb_rotate(ops, see->layer_state, cosine, sine, false);
    return fb_reshape(ops, x, 3, grouped);
}

/* v.M^-1 v, [heads, m], for w [kv_heads, r, m] and values [kv_heads, m, d]. */
static fb_tensor leverage(fb_ops *ops, fb_tensor w, fb_tensor values, double epsilon)
{
    const int64_t g = fb_size(ops, w, 0), r = fb_size(ops, w, 1),
                  m = fb_size(ops, w, 2);
    const int64_t d = fb_size(ops, values, CHANNELS);
    const fb_tensor root = fb_sqrt(ops, fb_add(ops, w, fb_number(ops, epsilon), 1));
    const fb_tensor zeros = fb_full(ops, 4, (int64_t[]){g, r, d, m}, 0);
    fb_tensor v = fb_transpose(ops, values, 1, 2), x, scaled, matrix;

    v = fb_add(ops, zeros, fb_reshape(ops, v, 4, (int64_t[]){g, 1, d, m}), 1);
    scaled = fb_mul(ops, v, fb_reshape(ops, root, 4, (int64_t[]){g, r, 1, m}));
    x = fb_reshape(ops, v, 3, (int64_t[]){g * r, d, m});
    scaled = fb_reshape(ops, scaled, 3, (int64_t[]){g * r, d, m});
    matrix = fb_bmm(ops, scaled, false, scaled, true); /* [heads, d, d] */
    matrix = fb_add(ops, matrix, fb_identity_matrix(ops, d), 1);
    return fb_sum(ops, fb_mul(ops, x, fb_cholesky_solve(ops, matrix, x)), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct cap *cap = params;
    const int64_t skip = cap->stat_skip, m = see->m - skip, g = see->kv_heads;
    const fb_tensor keys = fb_narrow(ops, see->keys, TOKENS, skip, m);
    const fb_tensor values = fb_narrow(ops, see->values, TOKENS, skip, m);
    const fb_tensor anchor = fb_unit_rows(ops, anchors(ops, see, cap));
    const fb_tensor cosine = fb_bmm(ops, anchor, false, fb_unit_rows(ops, keys), true);
    const fb_tensor most =
        fb_reshape(ops, fb_amax(ops, cosine, 2), 3, (int64_t[]){g, see->heads / g, 1});
    const fb_tensor w =
        fb_exp(ops, fb_scale(ops, fb_add(ops, cosine, most, -1), cap->tau));
    const fb_tensor weight = fb_reshape(ops, w, 2, (int64_t[]){see->heads, m});
    const fb_tensor alone = leverage(ops, w, values, cap->epsilon);

    return fb_with_best_around(ops, fb_mul(ops, weight, alone), skip, 0);
}

const fb_rule fb_rule_cap = {
    FB_RULE_HEAD,
    .name = "cap",
    .summary = "values that no other entry relevant to the queries has",
    .family = "mixed",
    .source = "Yang et al. 2026, arXiv:2604.25975",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = cap_params,
    .params_bytes = sizeof(struct cap),
    .choose = choose,
    .learn = learn,
    .score = score,
};
