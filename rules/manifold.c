/* manifold.c - entries whose keys lie far from the middle of all keys stay.
 *
 *     score[g, j]  =  || k[g, j] - mean of the keys of g ||_2
 *
 * Unlike an angle (`keydiff`) the distance counts how long a key is, too. The mean of a
 * long text is a mean of many topics; `windowed` takes it over spans of so many entries,
 * the last of them shorter. Distances are not comparable between heads.
 *
 * Reads    keys, after rotary embedding: the published code takes them from the cache.
 * Source   Datta et al. 2026, "ManifoldKV: Training-Free KV Cache Compression via
 *          Euclidean Outlier Detection", arXiv:2602.08343. Formula, spans and their length
 *          in the authors' runs (4096) as in the first author's listing of the code.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, CHANNELS = 2 };

struct manifold {
    int64_t windowed;
};

static const fb_param manifold_params[] = {
    FB_INT(struct manifold, windowed, 0, 0, 1 << 20, "paper (windowed form: 4096)",
           "entries with a mean of their own; 0: one mean for all"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

/* x [spans, rows, d]: distance of every row from the mean of its span [spans, rows]. */
static fb_tensor distance(fb_ops *ops, fb_tensor x)
{
    const int64_t shape[] = {fb_size(ops, x, 0), 1, fb_size(ops, x, CHANNELS)};
    const fb_tensor mean = fb_reshape(ops, fb_mean(ops, x, ENTRIES), 3, shape);
    const fb_tensor off = fb_add(ops, x, mean, -1);

    return fb_sqrt(ops, fb_sum(ops, fb_mul(ops, off, off), CHANNELS));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct manifold *manifold = params;
    const int64_t heads = see->kv_heads, m = see->m, span = manifold->windowed;
    const int64_t whole = span > 0 ? m / span * span : 0;
    fb_tensor spans, rest;

    if (whole == 0) return distance(ops, see->keys);
    spans = fb_narrow(ops, see->keys, ENTRIES, 0, whole);
    spans = fb_reshape(ops, spans, 3,
                       (int64_t[]){heads * whole / span, span, see->head_dim});
    spans = fb_reshape(ops, distance(ops, spans), 2, (int64_t[]){heads, whole});
    if (whole == m) return spans;
    rest = distance(ops, fb_narrow(ops, see->keys, ENTRIES, whole, m - whole));
    return fb_cat(ops, spans, rest, ENTRIES);
}

const fb_rule fb_rule_manifold = {
    FB_RULE_HEAD,
    .name = "manifold",
    .summary = "entries whose keys are far from the mean key",
    .family = "key",
    .source = "Datta et al. 2026, arXiv:2602.08343",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = manifold_params,
    .params_bytes = sizeof(struct manifold),
    .choose = choose,
    .score = score,
};
