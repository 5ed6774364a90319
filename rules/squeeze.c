/* squeeze.c - few entries for layers whose attention changes the residual stream little.
 *
 *     c[l]  =  mean over tokens of the cosine of the residual stream before and after the
 *              attention of layer l is added
 *
 * Layers are divided into 3 classes of similar c (least sum of squares within them; the
 * best of all divisions of the sorted c). Those of the class with the highest c keep
 * `share` * k entries a head, the others divide the rest equally.
 *
 * Reads    the residual stream.
 * Source   Wang et al. 2024, "SqueezeAttention: 2D Management of KV-Cache in LLM Inference
 *          via Layer-wise Optimal Budget", arXiv:2404.04793. There a k-means that begins
 *          at random divides the layers, and `share` is searched for each model.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct squeeze {
    double share;
};

static const fb_param squeeze_params[] = {
    FB_REAL(struct squeeze, share, 0.3, 0, 1, "FlexBudget (authors: 0.2 to 0.5)",
            "of an equal split, for the layers that change least"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads |= FB_READS_RESIDUAL;
}

static fb_tensor measure(fb_ops *ops, const fb_signals *see, fb_tensor score,
                         const void *params)
{
    const fb_tensor row = fb_reshape(ops, see->residual, 2, (int64_t[]){1, see->m});

    (void)score;
    (void)params;
    return fb_mean(ops, row, 1);
}

/* Sum of squared distances from their mean of the numbers with low <= c < high. */
static double scatter(const double *c, int64_t n, double low, double high)
{
    double sum = 0, squares = 0, mean;
    int64_t count = 0;

    for (int64_t l = 0; l < n; l++)
        if (c[l] >= low && c[l] < high) {
            sum += c[l];
            count++;
        }
    mean = count > 0 ? sum / (double)count : 0;
    for (int64_t l = 0; l < n; l++)
        if (c[l] >= low && c[l] < high) squares += (c[l] - mean) * (c[l] - mean);
    return squares;
}

/* Where the highest of the 3 classes begins. Classes begin at one of the numbers. */
static double highest_class(const double *c, int64_t n)
{
    double best = -FB_LOWEST, begin = -FB_LOWEST;

    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n; b++) {
            double cost;

            if (c[a] > c[b]) continue;
            cost = scatter(c, n, FB_LOWEST, c[a]) + scatter(c, n, c[a], c[b]) +
                   scatter(c, n, c[b], -FB_LOWEST);
            if (cost >= best) continue;
            best = cost;
            begin = c[b];
        }
    return begin;
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    const struct squeeze *squeeze = params;
    const double n = (double)in->n_layers;
    double begin, n_high = 0;

    for (int64_t l = 0; l < in->n_layers; l++)
        FB_TRY(fb_numbers(ops, in->measured[l], &in->room[l], 1));
    begin = highest_class(in->room, in->n_layers);
    for (int64_t l = 0; l < in->n_layers; l++)
        n_high += in->room[l] >= begin;
    if (n_high >= n) return FB_OK; /* all alike: equal shares, as they came */
    for (int64_t l = 0; l < in->n_layers; l++)
        in->room[l] = in->room[l] >= begin
                          ? squeeze->share
                          : (n - n_high * squeeze->share) / (n - n_high);
    return fb_spread_by_weight(in, in->room, k_out);
}

const fb_rule fb_rule_squeeze = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "squeeze",
    .summary = "few entries for layers whose attention changes little",
    .family = "mixed",
    .source = "Wang et al. 2024, arXiv:2404.04793",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = squeeze_params,
    .params_bytes = sizeof(struct squeeze),
    .choose = choose,
    .spread = spread,
    .measure = measure,
};
