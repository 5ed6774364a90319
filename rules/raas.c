/* raas.c - what was looked at last stays: least recently used, by pages.
 *
 *     T[g, j]      =  the last query i with A[g, i, j] >= threshold  (j itself at first)
 *     score[g, j]  =  the largest T of its page of `page` entries
 *
 * A[g]: the mean over the query heads of kv head g. A token that reasoning still needs is
 * stamped again and again; one that it is done with grows old. Pages are counted where the
 * entries stand in the cache. The paper never evicts the prompt; here the protocol says what
 * is read under the budget.
 *
 * Reads    attention of all queries, block by block; positions.
 * Source   Hu et al. 2025, "RaaS: Reasoning-Aware Attention Sparsity for Efficient LLM
 *          Reasoning", arXiv:2502.11147.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct raas {
    double threshold;
    int64_t page;
};

static const fb_param raas_params[] = {
    FB_REAL(struct raas, threshold, 0.0001, 0, 1, "provisional: after the paper",
            "least attention that counts as a look"),
    FB_INT(struct raas, page, 16, 1, 4096, "the paper", "entries of a page"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_ATTENTION_BLOCK | FB_READS_POSITION;
    choices->compares = FB_COMPARES_LAYERS;
    choices->state_rows = 1;
}

/* Places of the block's queries in the text, [t, 1]; the first token is 1, so that 0 is
 * "never". */
static fb_tensor times(fb_ops *ops, const fb_signals *see)
{
    const int64_t t = fb_size(ops, see->block_attention, 1);
    const fb_tensor one = fb_full(ops, 2, (int64_t[]){1, t}, 1);

    return fb_reshape(ops, fb_add(ops, fb_cumsum(ops, one), one, (double)(see->n - t)),
                      2, (int64_t[]){t, 1});
}

static fb_tensor update(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct raas *raas = params;
    const int64_t shape[] = {see->kv_heads, 1, see->m};
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);
    const fb_tensor least = fb_full(ops, 1, (int64_t[]){1}, raas->threshold);
    const fb_tensor below = fb_less(ops, fb_block_mean(ops, see), least);
    const fb_tensor hit =
        fb_mul(ops, fb_add(ops, one, below, -1), fb_block_seen(ops, see));
    const fb_tensor last = fb_amax(ops, fb_mul(ops, hit, times(ops, see)), 1);
    const fb_tensor born =
        fb_reshape(ops, fb_add(ops, see->position, one, 1), 3, shape);

    return fb_maximum(ops, fb_maximum(ops, see->state, born),
                      fb_reshape(ops, last, 3, shape));
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const struct raas *raas = params;
    const fb_tensor last =
        fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
    const fb_tensor pages = fb_pieces(ops, last, 0, raas->page, 0);
    const fb_tensor best =
        fb_reshape(ops, fb_amax(ops, pages, 2), 3,
                   (int64_t[]){see->kv_heads, fb_size(ops, pages, 1), 1});
    const fb_tensor spread =
        fb_add(ops, fb_scale(ops, pages, 0), best, 1); /* to every entry of the page */

    return fb_from_pieces(ops, spread, 0, see->m);
}

const fb_rule fb_rule_raas = {
    FB_RULE_HEAD,
    .name = "raas",
    .summary = "pages that were looked at most recently",
    .family = "attention",
    .source = "Hu et al. 2025, arXiv:2502.11147",
    .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
    .params = raas_params,
    .params_bytes = sizeof(struct raas),
    .choose = choose,
    .update = update,
    .score = score,
};
