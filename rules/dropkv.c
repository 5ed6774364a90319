/* dropkv.c - how far the output moves when one entry leaves.
 *
 *     score[h, j]  =  sum over the last `window` queries i of
 *                     ( A[h, i, j] / (1 - A[h, i, j]) )^2  || v[g, j] - o[h, i] ||_2^2
 *
 * o: the output of the query, the mean of values that A weighs. It is the exact change when
 * j alone leaves and the softmax is renormalised: CAOTE's (see `caote`) of every query,
 * squared and summed. Then, per query head, an average pool of `kernel`. The newest
 * `window` entries, which only some of these queries see, have no score and are kept.
 *
 * Reads    values, attention of the last `window` queries.
 * Source   Zhang 2026, "DropKV", openreview MqfNzH3TVH; formula as in issue 284 of kvpress.
 *          Of its pull request 285 (open in September 2026) stand there: the mean over a group
 *          of query heads, 1 - A of at least 1e-6, and a pool whose width was not to be seen:
 *          none here, as in the formula. Nor was the window: that of SnapKV.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { QUERIES = 2 };
static const double LEAST = 1e-6; /* what of a query's attention the others have */

struct dropkv {
    int64_t window, kernel;
};

static const fb_param dropkv_params[] = {
    FB_INT(struct dropkv, window, 64, 1, 4096, "kvpress 0.5.5 SnapKVPress",
           "how many of the last queries are asked"),
    FB_INT(struct dropkv, kernel, 1, 1, 63, "issue 284 of kvpress",
           "width of the smoothing; odd"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct dropkv *dropkv = params;

    choices->reads = FB_READS_VALUES | FB_READS_WINDOW_ATTENTION;
    choices->window = dropkv->window;
    choices->unscored_last = dropkv->window;
    choices->compares = FB_COMPARES_HEADS;
    choices->pool_average = dropkv->kernel;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t g = see->kv_heads, r = see->heads / g, m = see->m;
    const int64_t w = fb_size(ops, see->window_attention, 1);
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, LEAST);
    const fb_tensor a =
        fb_reshape(ops, see->window_attention, 3, (int64_t[]){g, r * w, m});
    const fb_tensor output = fb_bmm(ops, a, false, see->values, false);
    const fb_tensor others = fb_maximum(ops, fb_add(ops, one, a, -1), least);
    const fb_tensor ratio = fb_div(ops, a, others);
    fb_tensor change = fb_square_distances(ops, output, see->values);

    (void)params;
    change = fb_mul(ops, fb_mul(ops, ratio, ratio), change); /* [g, r * w, m] */
    change = fb_sum(ops, fb_reshape(ops, change, 4, (int64_t[]){g, r, w, m}), QUERIES);
    return fb_reshape(ops, change, 2, (int64_t[]){see->heads, m});
}

const fb_rule fb_rule_dropkv = {
    FB_RULE_HEAD,
    .name = "dropkv",
    .summary = "entries without which the output of the last queries would move most",
    .family = "mixed",
    .source = "Zhang 2026, openreview MqfNzH3TVH",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = dropkv_params,
    .params_bytes = sizeof(struct dropkv),
    .effort = "window",
    .choose = choose,
    .score = score,
};
