/* gkv.c - what queries of all evictions so far looked at, less what others say as well.
 *
 *     new[g, j]  =  mean over the last `window` queries i of max over heads h of g of
 *                   A[h, i, j], of past entries, over the largest of them
 *     F[g, j]    =  max(alpha F_before[g, j], new[g, j])
 *     score      =  weight * F  -  (1 - weight) * R[g, j] / max over past entries of R
 *
 * An entry carries F from eviction to eviction, so what was looked at long ago is not
 * forgotten at once; one that has not met any has `new`. memory=mean: alpha F + (1 - alpha)
 * new; memory=sum: alpha F + new. R is how much of the entry others say as well
 * (fb_redundancy, as in `rkv`). The newest `window` entries have no score and are kept.
 *
 * Reads    attention of the last queries, keys, positions.
 * Source   "G-KV: Decoding-Time KV Cache Eviction with Global Attention" 2025,
 *          arXiv:2512.00504, and its code; the published setting, without pooling. The
 *          trained variants of the paper are another matter.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { MAX, MEAN, SUM };
enum { NONE, LAST };
enum { ENTRIES = 1 };

struct gkv {
    int64_t window, memory, retain;
    double alpha, weight, alike;
};

static const fb_param gkv_params[] = {
    FB_INT(struct gkv, window, 16, 1, 4096, "published setting",
           "how many of the last queries vote"),
    FB_REAL(struct gkv, alpha, 0.8, 0, 1, "published setting",
            "how much of what it carries an entry keeps at an eviction"),
    FB_WORD(struct gkv, memory, MAX, "max|mean|sum", "paper",
            "how what is carried and what is new are joined"),
    FB_REAL(struct gkv, weight, 0.5, 0, 1, "published setting (its code: 0.1)",
            "of attention; the rest is that of redundancy"),
    FB_REAL(struct gkv, alike, 0.5, -1, 1, "the authors' code",
            "cosine above which keys say the same"),
    FB_WORD(struct gkv, retain, LAST, "none|last", "paper, its code",
            "last: the newest of those that say the same is spared"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct gkv *gkv = params;

    choices->reads = FB_READS_KEYS | FB_READS_WINDOW_ATTENTION | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->window = gkv->window;
    choices->unscored_last = gkv->window;
    choices->state_rows = 1;
    choices->updates_at_events = true;
}

/* x [kv_heads, n] over the largest of each row. */
static fb_tensor of_largest(fb_ops *ops, fb_tensor x)
{
    const int64_t shape[] = {fb_size(ops, x, 0), 1};

    return fb_div(ops, x, fb_reshape(ops, fb_amax(ops, x, ENTRIES), 2, shape));
}

/* [kv_heads, n] of the first n entries. */
static fb_tensor look(fb_ops *ops, const fb_signals *see, int64_t n)
{
    const int64_t g = see->kv_heads, r = see->heads / g, m = see->m;
    const int64_t w = fb_size(ops, see->window_attention, 1);
    fb_tensor x = fb_reshape(ops, see->window_attention, 3, (int64_t[]){g, r, w * m});

    x = fb_reshape(ops, fb_amax(ops, x, 1), 3, (int64_t[]){g, w, m});
    return of_largest(ops, fb_narrow(ops, fb_mean(ops, x, 1), ENTRIES, 0, n));
}

/* [kv_heads, n] of what the first n entries carry. */
static fb_tensor carried(fb_ops *ops, const fb_signals *see, int64_t n)
{
    const int64_t shape[] = {see->kv_heads, see->m};

    return fb_narrow(ops, fb_reshape(ops, see->state, 2, shape), ENTRIES, 0, n);
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct gkv *gkv = params;
    const int64_t g = see->kv_heads, n = see->m - gkv->window;
    const fb_tensor fresh = look(ops, see, n), old = carried(ops, see, n);
    const fb_tensor met = fb_less(ops, fb_full(ops, 1, (int64_t[]){1}, 0), old);
    const fb_tensor kept = fb_scale(ops, old, gkv->alpha);
    const fb_tensor joined =
        gkv->memory == MAX
            ? fb_maximum(ops, kept, fresh)
            : fb_add(ops, kept, fresh, gkv->memory == SUM ? 1 : 1 - gkv->alpha);
    const fb_tensor f = fb_where(ops, met, joined, fresh);
    const fb_tensor none = fb_full(ops, 2, (int64_t[]){g, gkv->window}, 0);

    return fb_reshape(ops, fb_cat(ops, f, none, ENTRIES), 3, (int64_t[]){g, 1, see->m});
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct gkv *gkv = params;
    const int64_t n = see->m - gkv->window;
    const fb_tensor all = fb_redundancy(ops, see, gkv->alike, gkv->retain == LAST);
    const fb_tensor r = of_largest(ops, fb_narrow(ops, all, ENTRIES, 0, n));
    const fb_tensor past = fb_add(ops, fb_scale(ops, carried(ops, see, n), gkv->weight),
                                  r, gkv->weight - 1);

    return fb_cat(ops, past,
                  fb_full(ops, 2, (int64_t[]){see->kv_heads, gkv->window}, 0), ENTRIES);
}

const fb_rule fb_rule_gkv = {
    FB_RULE_HEAD,
    .name = "gkv",
    .summary = "what queries of all evictions looked at, less what is said twice",
    .family = "mixed",
    .source = "G-KV 2025, arXiv:2512.00504",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = gkv_params,
    .params_bytes = sizeof(struct gkv),
    .effort = "window",
    .choose = choose,
    .update = update,
    .score = score,
};
