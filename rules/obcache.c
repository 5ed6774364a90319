/* obcache.c - optimal brain damage: what pruning a value, a key or both does to the output.
 *
 *     score[h, j]  =  sum over the last `window` queries i of A[h, i, j]^2 || e ||_2^2
 *
 *     part=value    e  =  v[g, j]                            the value becomes 0
 *     part=key      e  =  z (v[g, j] - o[h, i])              the logit z[h, i, j] becomes 0
 *     part=joint    e  =  v[g, j] + z (v[g, j] - o[h, i])    both, to first order
 *
 * o: the output of the query, the mean of values that A weighs. Then, per query head, a max
 * pool of `kernel`. The newest `window` entries have no score and are kept.
 *
 * Reads    keys, values, the last queries and their attention.
 * Source   Gu et al. 2025, "OBCache: Optimal Brain KV Cache Pruning for Efficient Long-Context
 *          LLM Inference", arXiv:2510.07651; sums and switches as in a renamed copy of the
 *          authors' code (MalachiAjayi/kv-cache-pruner), which expands joint into the scores
 *          of value and key and a cross term: the same number. Its window is as large as the
 *          recent part, 16 in its example, 5 % of the budget in its runs; its SnapKV-like
 *          form has kernel 7. It scores query heads; their mean over a group is FlexBudget's.
 *          The logit is that of keys and queries, before a model's cap.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { VALUE, KEY, JOINT };
enum { QUERIES = 2, CHANNELS = 2 };

struct obcache {
    int64_t window, kernel, part;
};

static const fb_param obcache_params[] = {
    FB_INT(struct obcache, window, 16, 1, 4096, "the authors' example",
           "how many of the last queries are asked"),
    FB_INT(struct obcache, kernel, 1, 1, 63, "the authors' code (as SnapKV: 7)",
           "width of the smoothing by maxima; odd"),
    FB_WORD(struct obcache, part, JOINT, "value|key|joint", "paper",
            "what is thought to be pruned"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct obcache *obcache = params;

    choices->reads = FB_READS_VALUES | FB_READS_WINDOW_ATTENTION;
    if (obcache->part != VALUE) choices->reads |= FB_READS_KEYS | FB_READS_QUERIES;
    choices->window = obcache->window;
    if (obcache->part != VALUE) choices->queries = obcache->window;
    choices->unscored_last = obcache->window;
    choices->compares = FB_COMPARES_HEADS;
    choices->pool_max = obcache->kernel;
}

/* || x ||^2 of the rows of x [B, n, d]: [B, n, 1], or [B, 1, n] across. */
static fb_tensor squares(fb_ops *ops, fb_tensor x, bool across)
{
    const int64_t batch = fb_size(ops, x, 0), n = fb_size(ops, x, 1);

    return fb_reshape(ops, fb_sum(ops, fb_mul(ops, x, x), CHANNELS), 3,
                      (int64_t[]){batch, across ? 1 : n, across ? n : 1});
}

/* || e ||^2 [kv_heads, rows, m] for the queries of `attention` [kv_heads, rows, m]. */
static fb_tensor change(fb_ops *ops, const fb_signals *see, fb_tensor attention,
                        int64_t part)
{
    const int64_t shape[] = {see->kv_heads, fb_size(ops, attention, 1), see->head_dim};
    const fb_tensor v = squares(ops, see->values, true);
    fb_tensor output, z, apart, cross;

    if (part == VALUE) return v;
    output = fb_bmm(ops, attention, false, see->values, false);
    z = fb_reshape(ops, see->queries, 3, shape);
    z = fb_scale(ops, fb_bmm(ops, z, false, see->keys, true), see->scale);
    apart = fb_square_distances(ops, output, see->values);
    if (part == KEY) return fb_mul(ops, fb_mul(ops, z, z), apart);
    /* 2 v.(v - o)  =  |v - o|^2 + |v|^2 - |o|^2 */
    cross = fb_add(ops, apart, v, 1);
    cross = fb_mul(ops, z, fb_add(ops, cross, squares(ops, output, false), -1));
    return fb_add(ops, fb_add(ops, v, cross, 1), fb_mul(ops, fb_mul(ops, z, z), apart),
                  1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct obcache *obcache = params;
    const int64_t g = see->kv_heads, r = see->heads / g, m = see->m;
    const int64_t w = fb_size(ops, see->window_attention, 1);
    const fb_tensor a =
        fb_reshape(ops, see->window_attention, 3, (int64_t[]){g, r * w, m});
    fb_tensor x = fb_mul(ops, fb_mul(ops, a, a), change(ops, see, a, obcache->part));

    x = fb_sum(ops, fb_reshape(ops, x, 4, (int64_t[]){g, r, w, m}), QUERIES);
    return fb_reshape(ops, x, 2, (int64_t[]){see->heads, m});
}

const fb_rule fb_rule_obcache = {
    FB_RULE_HEAD,
    .name = "obcache",
    .summary = "entries whose pruning would change the output of the last queries",
    .family = "mixed",
    .source = "Gu et al. 2025, arXiv:2510.07651",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = obcache_params,
    .params_bytes = sizeof(struct obcache),
    .effort = "window",
    .choose = choose,
    .score = score,
};
