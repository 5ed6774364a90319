/* normalise.c - scores that can be compared between heads and layers, for an allocation that
 * does: `adakv(normalise(knorm))`.
 *
 *     zscore     (x - mean) / deviation, of the head's entries
 *     rank       place among the head's entries, 1 the best, 0 below all
 *     unit_sum   (x - least) / sum over the head's entries of the same
 *
 * The order within a head stays what it was, so without such an allocation nothing changes.
 * Scores that may be infinite have no mean: of these only the rank can be taken.
 *
 * Source   FlexBudget's own; the three are the usual ones.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { ZSCORE, RANK, UNIT_SUM };
enum { ENTRIES = 1 };

static const double LEAST = 1e-12; /* deviation or sum of a head without differences */

struct normalise {
    int64_t by;
};

static const fb_param normalise_params[] = {
    FB_WORD(struct normalise, by, ZSCORE, "zscore|rank|unit_sum", "FlexBudget",
            "how the scores of a head are put on one scale"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->compares = FB_COMPARES_LAYERS;
}

/* x less `from`, over `unit`, both of its rows. */
static fb_tensor rescale(fb_ops *ops, fb_tensor x, fb_tensor from, fb_tensor unit)
{
    const int64_t column[] = {fb_size(ops, x, 0), 1};
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, LEAST);

    return fb_div(ops, fb_add(ops, x, fb_reshape(ops, from, 2, column), -1),
                  fb_reshape(ops, fb_maximum(ops, unit, least), 2, column));
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    const struct normalise *normalise = params;
    const fb_tensor x = inner[0];
    const double n = (double)fb_size(ops, x, ENTRIES);
    fb_tensor least, one;

    (void)see;
    if (normalise->by == ZSCORE)
        return rescale(ops, x, fb_mean(ops, x, ENTRIES),
                       fb_sqrt(ops, fb_var(ops, x, ENTRIES)));
    if (normalise->by == RANK) {
        one = fb_full(ops, 1, (int64_t[]){1}, 1);
        return fb_add(ops, one, fb_rank(ops, x), -1 / n);
    }
    least = fb_scale(ops, fb_amax(ops, fb_scale(ops, x, -1), ENTRIES), -1);
    return rescale(ops, x, least, fb_add(ops, fb_sum(ops, x, ENTRIES), least, -n));
}

const fb_rule fb_rule_normalise = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "normalise",
    .summary = "the same order, on a scale that heads and layers share",
    .family = "mixed",
    .source = "FlexBudget",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .n_inner = 1,
    .params = normalise_params,
    .params_bytes = sizeof(struct normalise),
    .choose = choose,
    .wrap = wrap,
};
