/* leverage.c - entries whose keys no combination of the others makes.
 *
 * X [m, t] are the keys before rotary embedding, less their mean, times a Gaussian matrix
 * [d, t] of variance 1 / t: a sketch that keeps their geometry in fewer columns.
 *
 *     score[g, j]  =  z( x[j].(X^T X + ridge I)^-1 x[j] )
 *
 * z makes the mean over all kv heads of the layer 0 and the deviation (divisor N - 1) 1.
 * The matrix is new for every layer and kv head, and the same in every run of one `seed`.
 * Where X^T X is so large that f32 cannot hold the ridge beside it, the ridge is `lift`
 * times its trace: a Gram matrix of few different keys is singular but for its rounding,
 * and has no factors. (kvpress tries tenfold ridges until it finds some.)
 * Under skip_first, skip_last these tokens are left out and get the layer's best score.
 *
 * Reads    keys, the model's rotation.
 * Source   Chari and Van Durme 2025, "Compactor: Calibrated Query-Agnostic KV Cache
 *          Compression with Approximate Leverage Scores", arXiv:2507.08143; by Cholesky
 *          as kvpress 0.5.5 LeverageScorePress, whose sketch is not seeded.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { TOKENS = 1, CHANNELS = 2, BLOCK = 32 };
static const double SMALLEST_DEVIATION = 1e-6;

struct leverage {
    int64_t sketch, seed, skip_first, skip_last;
    double ridge, lift;
};

static const fb_param leverage_params[] = {
    FB_INT(struct leverage, sketch, 48, 1, 512, "kvpress 0.5.5",
           "columns of the sketch of the keys"),
    FB_INT(struct leverage, seed, 1, 0, INT32_MAX, "FlexBudget", "of the sketch"),
    FB_INT(struct leverage, skip_first, 0, 0, 4096, "kvpress 0.5.5 (compactor: 8)",
           "first tokens left out"),
    FB_INT(struct leverage, skip_last, 0, 0, 4096, "kvpress 0.5.5 (compactor: 4)",
           "newest tokens left out"),
    FB_REAL(struct leverage, ridge, 0.01, 1e-6, 1e6, "kvpress 0.5.5 (authors: 0.005)",
            "added to the diagonal"),
    FB_REAL(struct leverage, lift, 2e-7, 0, 1, "FlexBudget (kvpress: 0)",
            "of the trace is added at least"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct leverage *leverage = params;

    choices->reads = FB_READS_KEYS | FB_READS_ROTATION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->sink = leverage->skip_first;
    choices->recent = leverage->skip_last;
    choices->min_tokens = leverage->skip_first + leverage->skip_last + 1;
}

/* X [kv_heads, n, t] of the tokens that are not left out. */
static fb_tensor sketch(fb_ops *ops, const fb_signals *see, const struct leverage *p)
{
    const int64_t n = see->m - p->skip_first - p->skip_last, d = see->head_dim;
    const fb_tensor normal = fb_normal(ops, see, (uint64_t)p->seed, d, p->sketch);
    fb_tensor cosine, sine, x;

    fb_rotation(ops, see, p->skip_first, 1, n, &cosine, &sine);
    x = fb_narrow(ops, see->keys, TOKENS, p->skip_first, n);
    x = fb_rotate(ops, x, cosine, sine, true);
    x = fb_add(
        ops, x,
        fb_reshape(ops, fb_mean(ops, x, TOKENS), 3, (int64_t[]){see->kv_heads, 1, d}),
        -1);
    x = fb_bmm(ops, x, false, normal, false);
    return fb_div(ops, x, fb_sqrt(ops, fb_number(ops, (double)p->sketch)));
}

/* X^T X [kv_heads, t, t], as a sum over blocks of tokens: one long chain of sums in f32
 * would leave errors as large as the smallest eigenvalues. */
static fb_tensor gram(fb_ops *ops, fb_tensor x)
{
    const int64_t g = fb_size(ops, x, 0), n = fb_size(ops, x, TOKENS);
    const int64_t t = fb_size(ops, x, CHANNELS), blocks = n / BLOCK, rest = n % BLOCK;
    fb_tensor all = fb_full(ops, 3, (int64_t[]){g, t, t}, 0), some;

    if (blocks > 0) {
        some = fb_narrow(ops, x, TOKENS, 0, blocks * BLOCK);
        some = fb_reshape(ops, some, 3, (int64_t[]){g * blocks, BLOCK, t});
        some = fb_bmm(ops, some, true, some, false);
        some = fb_reshape(ops, some, 3, (int64_t[]){g, blocks, t * t});
        all = fb_reshape(ops, fb_sum(ops, some, 1), 3, (int64_t[]){g, t, t});
    }
    if (rest == 0) return all;
    some = fb_narrow(ops, x, TOKENS, n - rest, rest);
    return fb_add(ops, all, fb_bmm(ops, some, true, some, false), 1);
}

/* x.(X^T X + ridge I)^-1 x, [kv_heads, n] */
static fb_tensor norms(fb_ops *ops, fb_tensor x, const struct leverage *p)
{
    const int64_t g = fb_size(ops, x, 0), t = fb_size(ops, x, CHANNELS);
    const fb_tensor squares = fb_sum(ops, fb_mul(ops, x, x), CHANNELS);
    const fb_tensor trace =
        fb_reshape(ops, fb_sum(ops, squares, 1), 3, (int64_t[]){g, 1, 1});
    const fb_tensor added =
        fb_maximum(ops, fb_scale(ops, trace, p->lift), fb_number(ops, p->ridge));
    const fb_tensor matrix =
        fb_add(ops, gram(ops, x), fb_mul(ops, fb_identity_matrix(ops, t), added), 1);
    const fb_tensor columns = fb_transpose(ops, x, 1, 2); /* [kv_heads, t, n] */
    const fb_tensor solved = fb_cholesky_solve(ops, matrix, columns);

    return fb_sum(ops, fb_mul(ops, columns, solved), 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct leverage *p = params;
    const fb_tensor all = norms(ops, sketch(ops, see, p), p);

    return fb_with_best_around(ops, fb_standardise(ops, all, SMALLEST_DEVIATION),
                               p->skip_first, p->skip_last);
}

const fb_rule fb_rule_leverage = {
    FB_RULE_HEAD,
    .name = "leverage",
    .summary = "entries whose keys no combination of the others makes",
    .family = "key",
    .source = "Chari and Van Durme 2025, arXiv:2507.08143",
    .runs = FB_RUNS_ONE_SHOT,
    .params = leverage_params,
    .params_bytes = sizeof(struct leverage),
    .effort = "sketch",
    .choose = choose,
    .score = score,
};
