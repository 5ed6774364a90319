/* nexus.c - blocks of text drawn by what the last queries look at, and agree on.
 *
 * Of the mean query and the mean key over heads, for the last `window` queries i:
 *
 *     a[i, b]  =  attention of query i to the entries of block b
 *     C        <- C + (1 + a[i].C) a[i]      for the first `depth` queries, from C = 0
 *     w[b]     =  mean over i of a[i, b]  +  mix C[b] / sum of C  +  tie b / (blocks - 1)
 *     score    =  ln of the mean over `draws` numbers u of u^(1 / w[b])
 *
 * The entries of a block have its score, in all heads; equal ones stay from the first on, so
 * blocks stay whole but for the last that has room. The highest u^(1/w) are a draw without
 * replacement by weight; the more numbers, the nearer to the order of weights. The logarithm
 * is ours: such powers are too small for an f32. Blocks are `size` neighbours in the cache.
 * The numbers u of a block are those of its first entries in kv head 0: in a stream a block
 * draws anew when other entries begin it.
 *
 * Reads    keys, the last queries, positions, random numbers.
 * Source   Duong et al. 2026, "Forget Without Compromise: Nexus Sampling for Streaming KV-Cache
 *          Eviction Under Fixed Budgets", arXiv:2606.23961, equations 1 to 6; constants of its
 *          section 5.1. Taken literally: the walk has the window's first rows (the sum over q
 *          = 1 to H). Decided here: a query sees what is before it (the paper's attention has
 *          no mask), and the recent window that it keeps, of no stated size, is `window`.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ENTRIES = 1, BLOCKS = 1, INSIDE = 2 };
static const double SMALLEST_WEIGHT = 1e-20, UNSEEN = -1e30;

struct nexus {
    int64_t window, size, depth, draws;
    double mix, tie;
};

static const fb_param nexus_params[] = {
    FB_INT(struct nexus, window, 16, 1, 4096, "paper",
           "how many of the last queries are asked"),
    FB_INT(struct nexus, size, 32, 1, 65536, "paper", "entries of a block"),
    FB_INT(struct nexus, depth, 3, 0, 4096, "paper", "queries that the walk goes over"),
    FB_INT(struct nexus, draws, 5, 1, 4096, "paper",
           "random numbers of a block; at most `size`"),
    FB_REAL(struct nexus, mix, 0.5, 0, 1000, "paper", "weight of what the walk finds"),
    FB_REAL(struct nexus, tie, 1e-6, 0, 1, "paper", "weight of being the newest block"),
    FB_PARAM_END,
};

static fb_status check(const void *params)
{
    const struct nexus *nexus = params;

    if (nexus->draws <= nexus->size) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "'nexus' has %lld random numbers for blocks of %lld; at most as many "
        "as entries are right",
        (long long)nexus->draws, (long long)nexus->size);
}

static void choose(const void *params, fb_choices *choices)
{
    const struct nexus *nexus = params;

    choices->reads =
        FB_READS_KEYS | FB_READS_QUERIES | FB_READS_POSITION | FB_READS_RANDOM;
    choices->queries = nexus->window;
    choices->sink = nexus->size;
    choices->recent = nexus->window;
    choices->compares = FB_COMPARES_LAYERS;
}

/* 0, 1, ... n - 1 as [1, n]. */
static fb_tensor count_up(fb_ops *ops, int64_t n)
{
    const fb_tensor ones = fb_full(ops, 2, (int64_t[]){1, n}, 1);

    return fb_add(ops, fb_cumsum(ops, ones), ones, -1);
}

/* a [w, blocks]. */
static fb_tensor attention(fb_ops *ops, const fb_signals *see, int64_t size)
{
    const int64_t w = fb_size(ops, see->queries, 1), m = see->m, d = see->head_dim;
    const fb_tensor first = fb_full(ops, 2, (int64_t[]){1, 1}, (double)(see->n - w));
    const fb_tensor own = fb_reshape(ops, fb_add(ops, count_up(ops, w), first, 1), 3,
                                     (int64_t[]){1, w, 1});
    const fb_tensor there = fb_reshape(ops, fb_narrow(ops, see->position, 0, 0, 1), 3,
                                       (int64_t[]){1, 1, m});
    const fb_tensor q =
        fb_reshape(ops, fb_mean(ops, see->queries, 0), 3, (int64_t[]){1, w, d});
    const fb_tensor k =
        fb_reshape(ops, fb_mean(ops, see->keys, 0), 3, (int64_t[]){1, m, d});
    fb_tensor x = fb_scale(ops, fb_bmm(ops, q, false, k, true), see->scale);

    x = fb_where(ops, fb_less(ops, own, there), fb_full(ops, 1, (int64_t[]){1}, UNSEEN),
                 x);
    x = fb_reshape(ops, fb_softmax(ops, x), 2, (int64_t[]){w, m});
    return fb_sum(ops, fb_pieces(ops, x, 0, size, 0), INSIDE);
}

/* C / sum of C [1, blocks]; 0 without a walk. */
static fb_tensor walk(fb_ops *ops, fb_tensor a, int64_t depth)
{
    const int64_t w = fb_size(ops, a, 0), one[] = {1, 1};
    fb_tensor c = fb_full(ops, 2, (int64_t[]){1, fb_size(ops, a, BLOCKS)}, 0);

    for (int64_t i = 0; i < depth && i < w; i++) {
        const fb_tensor row = fb_narrow(ops, a, 0, i, 1);
        const fb_tensor shared = fb_sum(ops, fb_mul(ops, row, c), BLOCKS);
        const fb_tensor again = fb_mul(ops, row, fb_reshape(ops, shared, 2, one));

        c = fb_add(ops, fb_add(ops, c, row, 1), again, 1);
    }
    if (depth == 0) return c;
    return fb_div(ops, c, fb_reshape(ops, fb_sum(ops, c, BLOCKS), 2, one));
}

/* w [1, blocks]. */
static fb_tensor weights(fb_ops *ops, const fb_signals *see, const struct nexus *nexus)
{
    const fb_tensor a = attention(ops, see, nexus->size);
    const int64_t blocks = fb_size(ops, a, BLOCKS);
    const double step = blocks > 1 ? nexus->tie / (double)(blocks - 1) : 0;
    fb_tensor w = fb_reshape(ops, fb_mean(ops, a, 0), 2, (int64_t[]){1, blocks});

    w = fb_add(ops, w, walk(ops, a, nexus->depth), nexus->mix);
    w = fb_add(ops, w, count_up(ops, blocks), step);
    return fb_maximum(ops, w, fb_full(ops, 1, (int64_t[]){1}, SMALLEST_WEIGHT));
}

/* The first `draws` places of every block of x [1, m]: [1, blocks, draws]. */
static fb_tensor begins(fb_ops *ops, fb_tensor x, const struct nexus *nexus,
                        double fill)
{
    x = fb_pieces(ops, x, 0, nexus->size, fill);
    return fb_narrow(ops, x, INSIDE, 0, nexus->draws);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct nexus *nexus = params;
    const fb_tensor w = weights(ops, see, nexus);
    const int64_t blocks = fb_size(ops, w, BLOCKS), column[] = {1, blocks, 1};
    const fb_tensor ones = fb_full(ops, 2, (int64_t[]){1, see->m}, 1);
    const fb_tensor count = fb_sum(ops, begins(ops, ones, nexus, 0), INSIDE);
    const fb_tensor u = fb_log(ops, fb_narrow(ops, see->random, 0, 0, 1));
    const fb_tensor x =
        fb_div(ops, begins(ops, u, nexus, FB_LOWEST), fb_reshape(ops, w, 3, column));
    const fb_tensor most = fb_amax(ops, x, INSIDE); /* [1, blocks] */
    const fb_tensor sum = fb_sum(
        ops, fb_exp(ops, fb_add(ops, x, fb_reshape(ops, most, 3, column), -1)), INSIDE);
    const fb_tensor priority =
        fb_add(ops, most, fb_log(ops, fb_div(ops, sum, count)), 1);
    const fb_tensor spread =
        fb_add(ops, fb_full(ops, 3, (int64_t[]){1, 1, nexus->size}, 0),
               fb_reshape(ops, priority, 3, column), 1);

    return fb_from_pieces(ops, spread, 0, see->m);
}

const fb_rule fb_rule_nexus = {
    FB_RULE_HEAD,
    .name = "nexus",
    .summary = "blocks drawn by what the last queries look at, and agree on",
    .family = "attention",
    .source = "Duong et al. 2026, arXiv:2606.23961",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = nexus_params,
    .params_bytes = sizeof(struct nexus),
    .effort = "window",
    .check = check,
    .choose = choose,
    .score = score,
};
