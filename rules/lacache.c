/* lacache.c - old entries are thinned like the rungs of a ladder, shifted from layer to layer.
 *
 *     before = 1 + ceil((layers - span) / (span - overlap))
 *     after  = min(ceil(span / (span - overlap)), before)
 *
 * The entries from `start` on, without the newest `layers` ones, are cut in groups of
 * `before`, oldest first. Layer l keeps those at l mod (before - after + 1) of a group and the
 * after - 1 behind it. Groups are thinned one by one until the budget is met; at the end the
 * survivors are thinned again from `start` on; when no group is left the oldest leave. So
 *
 *     score[j]  =  m * (how many passes j survives)  +  j
 *
 * with entries that no pass touches above all others. The score serves all budgets. A model
 * of no more than `span` layers has no rungs: its newest entries stay.
 *
 * Reads    nothing but the places of entries.
 * Source   Shi et al. 2025, "LaCache: Ladder-Shaped KV Caching for Efficient Long-Context
 *          Modeling of Large Language Models", arXiv:2507.14204, and its code (start is 128 on
 *          LongBench, 4 for perplexity), which makes the cache itself larger by half of what a
 *          group gives and joins later passes in one; neither is done here. Positions stay
 *          original.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct lacache {
    int64_t span, overlap, start;
};

static const fb_param lacache_params[] = {
    FB_INT(struct lacache, span, 16, 1, 512, "authors' code",
           "layers that a rung of the ladder spans"),
    FB_INT(struct lacache, overlap, 0, 0, 511, "authors' code",
           "layers that two rungs share; fewer than span"),
    FB_INT(struct lacache, start, 128, 0, 65536, "authors' LongBench runs",
           "first entries that are not thinned"),
    FB_PARAM_END,
};

static fb_status check(const void *params)
{
    const struct lacache *lacache = params;

    if (lacache->overlap < lacache->span) return FB_OK;
    return fb_fail(FB_USAGE, "overlap=%lld leaves nothing of span=%lld",
                   (long long)lacache->overlap, (long long)lacache->span);
}

static void choose(const void *params, fb_choices *choices)
{
    const struct lacache *lacache = params;

    choices->compares = FB_COMPARES_LAYERS;
    choices->sink = lacache->start;
}

/* Of a group of `before` entries a layer keeps `after` from `shift` on. */
struct ladder {
    int64_t before, after, shift;
};

static struct ladder ladder_of(const struct lacache *lacache, const fb_signals *see)
{
    const int64_t step = lacache->span - lacache->overlap, layers = see->n_layers;
    const int64_t rungs = (lacache->span + step - 1) / step;
    struct ladder ladder = {.before = 1};

    if (layers > lacache->span)
        ladder.before += (layers - lacache->span + step - 1) / step;
    ladder.after = rungs < ladder.before ? rungs : ladder.before;
    ladder.shift = see->layer % (ladder.before - ladder.after + 1);
    return ladder;
}

/* Side by side; either may be empty. */
static fb_tensor join(fb_ops *ops, fb_tensor a, fb_tensor b)
{
    if (fb_size(ops, a, 1) == 0) return b;
    return fb_size(ops, b, 1) == 0 ? a : fb_cat(ops, a, b, 1);
}

static fb_tensor row(fb_ops *ops, int64_t rows, int64_t columns, double x)
{
    return fb_full(ops, 2, (int64_t[]){rows, columns}, x);
}

/* How many passes over n entries leave something to the next. */
static int64_t passes(const struct ladder *l, int64_t n)
{
    int64_t count = 0;

    for (; l->after < l->before && n >= l->before; count++)
        n -= n / l->before * (l->before - l->after);
    return count;
}

/* [1, n]: how many passes each survives. The first pass leaves a shorter row, whose numbers
 * are 1 less; between them come the ones that it drops. */
static fb_tensor survived(fb_ops *ops, const struct ladder *l, int64_t n)
{
    const int64_t groups = n / l->before, kept = groups * l->after;
    const int64_t behind = l->before - l->shift - l->after;
    fb_tensor rest, left;

    if (l->after == l->before || groups == 0) return row(ops, 1, n, 0);
    rest = fb_add(ops, survived(ops, l, n - groups * l->before + kept),
                  row(ops, 1, 1, 1), 1);
    left = fb_reshape(ops, fb_narrow(ops, rest, 1, 0, kept), 2,
                      (int64_t[]){groups, l->after});
    left = join(ops, row(ops, groups, l->shift, 0), left);
    left = join(ops, left, row(ops, groups, behind, 0));
    left = fb_reshape(ops, left, 2, (int64_t[]){1, groups * l->before});
    return join(ops, left, fb_narrow(ops, rest, 1, kept, n - groups * l->before));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct lacache *lacache = params;
    const struct ladder ladder = ladder_of(lacache, see);
    const int64_t start = lacache->start < see->m ? lacache->start : see->m;
    const int64_t recent =
        see->n_layers < see->m - start ? see->n_layers : see->m - start;
    const int64_t n = see->m - start - recent;
    const double dense = (double)passes(&ladder, n) + 1;
    const fb_tensor ends[] = {row(ops, 1, start, dense), row(ops, 1, recent, dense)};
    const fb_tensor level =
        join(ops, join(ops, ends[0], survived(ops, &ladder, n)), ends[1]);

    return fb_add(ops, fb_rank(ops, row(ops, 1, see->m, 0)), level, (double)see->m);
}

const fb_rule fb_rule_lacache = {
    FB_RULE_HEAD,
    .name = "lacache",
    .summary = "old entries are thinned, in other places in other layers",
    .family = "position",
    .source = "Shi et al. 2025, arXiv:2507.14204",
    .runs = FB_RUNS_ONE_SHOT,
    .params = lacache_params,
    .params_bytes = sizeof(struct lacache),
    .check = check,
    .choose = choose,
    .score = score,
};
