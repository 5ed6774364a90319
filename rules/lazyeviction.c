/* lazyeviction.c - an entry may rest as long as it has rested before.
 *
 *     T[g, j]      =  the last query i with A[g, i, j] >= threshold  (j itself at first)
 *     R[g, j]      =  the longest time between two such queries
 *     score[g, j]  =  - (n - 1 - T) / max(1, R)
 *
 * A[g]: the mean over the query heads of kv head g; n: tokens read. A token that came back
 * after long pauses is not given up while it pauses. The paper evicts every so many steps and
 * keeps the newest; here protocol and protection say so.
 *
 * Provisional: the paper's own weighting of pause and interval could not be had; this
 * ratio is its stated principle. The threshold is ours.
 *
 * Reads    attention of all queries, block by block; positions.
 * Source   Zhang et al. 2025, "LazyEviction: Lagged KV Eviction with Attention Pattern
 *          Observation for Efficient Long Reasoning", arXiv:2506.15969.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct lazyeviction {
    double threshold;
};

static const fb_param lazyeviction_params[] = {
    FB_REAL(struct lazyeviction, threshold, 0.001, 0, 1, "ours, provisional",
            "least attention that counts as coming back"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_ATTENTION_BLOCK | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 2;
}

/* State: T and R. One query after the other, since each pause ends at the next look. */
static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct lazyeviction *rule = params;
    const int64_t t = fb_size(ops, see->block_attention, 1);
    const int64_t row[] = {see->kv_heads, 1, see->m};
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, rule->threshold);
    const fb_tensor below = fb_less(ops, fb_block_mean(ops, see), least);
    fb_tensor last = fb_maximum(ops, fb_narrow(ops, see->state, 1, 0, 1),
                                fb_reshape(ops, see->position, 3, row));
    fb_tensor longest = fb_narrow(ops, see->state, 1, 1, 1);

    for (int64_t i = 0; i < t; i++) {
        const fb_tensor now = fb_full(ops, 1, (int64_t[]){1}, (double)(see->n - t + i));
        /* what the query does not see yet has a pause below 0 */
        const fb_tensor pause = fb_add(ops, now, last, -1);
        const fb_tensor is_below = fb_narrow(ops, below, 1, i, 1);

        longest = fb_where(ops, is_below, longest, fb_maximum(ops, longest, pause));
        last = fb_where(ops, is_below, last, fb_maximum(ops, last, now));
    }
    return fb_cat(ops, last, longest, 1);
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t shape[] = {see->kv_heads, see->m};
    const fb_tensor last =
        fb_reshape(ops, fb_narrow(ops, see->state, 1, 0, 1), 2, shape);
    const fb_tensor longest =
        fb_reshape(ops, fb_narrow(ops, see->state, 1, 1, 1), 2, shape);
    const fb_tensor now = fb_full(ops, 1, (int64_t[]){1}, (double)(see->n - 1));
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);

    (void)params;
    return fb_div(ops, fb_add(ops, last, now, -1), fb_maximum(ops, longest, one));
}

const fb_rule fb_rule_lazyeviction = {
    FB_RULE_HEAD,
    .name = "lazyeviction",
    .summary = "looked at lately, for the longest pause it has made so far",
    .family = "attention",
    .source = "Zhang et al. 2025, arXiv:2506.15969",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = lazyeviction_params,
    .params_bytes = sizeof(struct lazyeviction),
    .choose = choose,
    .update = update,
    .score = score,
};
