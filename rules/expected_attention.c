/* expected_attention.c - what the queries still to come are expected to look at.
 *
 * They are taken to be distributed normally, as the queries of the text are before rotary
 * embedding. Turned by the mean of the rotations at the next `future` positions, those
 * have mean mu[h] and covariance C[h] (divisor: their number). With the scale s of the
 * logits, the logarithm of the mean of exp(s q.k) is
 *
 *     z[h, j]      =  s k[j].mu[h]  +  s^2 / 2  k[j].C[h] k[j]
 *     score[g, j]  =  (mean over heads h of g of softmax_j z[h, j]  +  epsilon) ||v[g, j]||
 *
 * The first `stat_skip` tokens, whose queries and keys are unlike all others, are left out
 * of the statistics and of the softmax; they get the best score of the layer. In a stream the
 * text's queries are all so far, also of tokens that have left, and those left out of the
 * softmax are the oldest `stat_skip` entries; the rule itself never evicts them.
 *
 * Reads    keys, values, queries of the whole text, the model's rotation.
 * Source   Devoto et al. 2025, "Expected Attention: KV Cache Compression by Estimating
 *          Attention from Future Queries Distribution", arXiv:2510.00636; defaults and
 *          order of steps as kvpress 0.5.5 ExpectedAttentionPress. There s is
 *          1/sqrt(head_dim); here it is the model's. kvpress's board has epsilon 0.01.
 *          Inside `critical`, which weighs values itself, set vnorm=0.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKENS = 1, CHANNELS = 2 };

struct expected_attention {
    int64_t future, stat_skip, covariance, vnorm;
    double epsilon;
};

static const fb_param expected_attention_params[] = {
    FB_INT(struct expected_attention, future, 512, 1, 65536, "paper, kvpress 0.5.5",
           "how many of the next positions queries are expected at"),
    FB_INT(struct expected_attention, stat_skip, 4, 0, 4096, "kvpress 0.5.5",
           "first tokens left out of the statistics"),
    FB_INT(struct expected_attention, covariance, 1, 0, 1, "paper, kvpress 0.5.5",
           "1: queries vary as they did; 0: all are like their mean"),
    FB_INT(struct expected_attention, vnorm, 1, 0, 1, "paper, kvpress 0.5.5",
           "1: times the length of the value"),
    FB_REAL(struct expected_attention, epsilon, 0, 0, 1, "kvpress 0.5.5 (board: 0.01)",
            "added to the attention, before vnorm"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct expected_attention *expected = params;

    choices->reads =
        FB_READS_KEYS | FB_READS_VALUES | FB_READS_QUERIES | FB_READS_ROTATION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->layer_rows = 1;
    choices->layer_squares = expected->covariance;
    choices->sink = expected->stat_skip;
    choices->min_tokens = expected->stat_skip + 1;
}

/* What was learnt of the mean; FB_NONE before anything was. */
static fb_tensor first_row(fb_ops *ops, const fb_signals *see)
{
    if (see->layer_state.id == 0) return FB_NONE;
    return fb_narrow(ops, see->layer_state, TOKENS, 0, 1);
}

/* [heads, d, d] the covariance of the block's queries, and with it that of the tokens before:
 * Chan, Golub and LeVeque 1983, Am. Stat. 37(3), eq. 2.1, divided by the number of tokens. */
static fb_tensor join_covariance(fb_ops *ops, const fb_signals *see, int64_t skip,
                                 fb_tensor queries, fb_tensor mean)
{
    const int64_t d = see->head_dim, t = fb_size(ops, queries, TOKENS);
    const double share = fb_block_share(see, skip, t);
    fb_tensor x = fb_add(ops, queries, mean, -1), before;
    fb_tensor c = fb_scale(ops, fb_bmm(ops, x, true, x, false), 1 / (double)t);

    if (see->layer_state.id == 0 || share == 1) return c;
    before = fb_narrow(ops, see->layer_state, TOKENS, 1, d);
    c = fb_mean_so_far(ops, see, skip, before, c, t);
    x = fb_add(ops, mean, first_row(ops, see), -1);
    return fb_add(ops, c, fb_bmm(ops, x, true, x, false), share * (1 - share));
}

/* [heads, 1 + d, d] of the queries before rotation: the mean; behind it the covariance. */
static fb_tensor learn(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct expected_attention *expected = params;
    const int64_t h = see->heads, d = see->head_dim, skip = expected->stat_skip;
    const int64_t rows = expected->covariance != 0 ? 1 + d : 1;
    const fb_tensor queries = fb_block_queries(ops, see, skip);
    fb_tensor mean, all;

    if (queries.id == 0) return fb_full(ops, 3, (int64_t[]){h, rows, d}, 0);
    mean = fb_reshape(ops, fb_mean(ops, queries, TOKENS), 3, (int64_t[]){h, 1, d});
    all = fb_mean_so_far(ops, see, skip, first_row(ops, see), mean,
                         fb_size(ops, queries, TOKENS));
    if (expected->covariance == 0) return all;
    return fb_cat(ops, all, join_covariance(ops, see, skip, queries, mean), TOKENS);
}

/* k.C k, [kv_heads, r, m] for keys [kv_heads, m, d] and c [heads, d, d]. */
static fb_tensor spread(fb_ops *ops, const fb_signals *see, fb_tensor keys, fb_tensor c)
{
    const int64_t d = see->head_dim, g = see->kv_heads, r = see->heads / g;
    const int64_t m = fb_size(ops, keys, TOKENS);
    fb_tensor turned, products;

    c = fb_reshape(ops, c, 3, (int64_t[]){g, r * d, d});
    turned = fb_bmm(ops, keys, false, c, true); /* [kv_heads, m, r * d] */
    products = fb_mul(ops, fb_reshape(ops, turned, 3, (int64_t[]){g * m, r, d}),
                      fb_reshape(ops, keys, 3, (int64_t[]){g * m, 1, d}));
    products = fb_sum(ops, products, CHANNELS);
    products = fb_reshape(ops, products, 3, (int64_t[]){g, m, r});
    return fb_transpose(ops, products, 1, 2);
}

/* [heads, d, d] the covariance, turned on both sides by a mean rotation. */
static fb_tensor turned_covariance(fb_ops *ops, const fb_signals *see, fb_tensor cosine,
                                   fb_tensor sine)
{
    const int64_t d = see->head_dim;
    fb_tensor c = fb_narrow(ops, see->layer_state, TOKENS, 1, d);

    c = fb_rotate(ops, c, cosine, sine, false);
    return fb_rotate(ops, fb_transpose(ops, c, 1, 2), cosine, sine, false);
}

/* [kv_heads, m] expected attention to keys [kv_heads, m, d]. */
static fb_tensor attention(fb_ops *ops, const fb_signals *see, fb_tensor keys,
                           const struct expected_attention *expected)
{
    const int64_t d = see->head_dim, g = see->kv_heads, r = see->heads / g;
    fb_tensor cosine, sine, mean, z;

    fb_mean_rotation(ops, see, see->next, 1, expected->future, &cosine, &sine);
    mean = fb_rotate(ops, first_row(ops, see), cosine, sine, false);
    z = fb_bmm(ops, fb_reshape(ops, mean, 3, (int64_t[]){g, r, d}), false, keys,
               true); /* [kv_heads, r, m] */
    z = fb_scale(ops, z, see->scale);
    if (expected->covariance != 0)
        z = fb_add(ops, z,
                   spread(ops, see, keys, turned_covariance(ops, see, cosine, sine)),
                   see->scale * see->scale / 2);
    return fb_mean(ops, fb_softmax(ops, z), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct expected_attention *expected = params;
    const int64_t skip = expected->stat_skip, m = see->m - skip;
    const fb_tensor keys = fb_narrow(ops, see->keys, TOKENS, skip, m);
    const fb_tensor values = fb_narrow(ops, see->values, TOKENS, skip, m);
    fb_tensor score = attention(ops, see, keys, expected), square;

    if (expected->vnorm != 0) {
        square = fb_sum(ops, fb_mul(ops, values, values), CHANNELS);
        score =
            fb_add(ops, score, fb_full(ops, 1, (int64_t[]){1}, expected->epsilon), 1);
        score = fb_mul(ops, score, fb_sqrt(ops, square));
    }
    return fb_with_best_around(ops, score, skip, 0);
}

const fb_rule fb_rule_expected_attention = {
    FB_RULE_HEAD,
    .name = "expected_attention",
    .summary = "what queries to come, like those of the text, will look at",
    .family = "mixed",
    .source = "Devoto et al. 2025, arXiv:2510.00636",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = expected_attention_params,
    .params_bytes = sizeof(struct expected_attention),
    .effort = "covariance",
    .choose = choose,
    .learn = learn,
    .score = score,
};
