/* lazy.c - layers that look at the first and the newest entries only keep few others.
 *
 *     z[l]  =  sum of a[j] over the first `initial` and the newest `recent` entries j
 *
 * with a the last query's attention, mean over its heads, the query's own entry left out.
 * The layer with the highest z is cut to initial + recent - 1 entries a head, then the
 * next, until the budget is met; the last one cut keeps what the budget still has. The
 * other layers keep everything. `recent` is at most k / 2.
 *
 * Which entries a cut layer keeps is the inner rule's word: lazy(streaming_llm) is the
 * published choice.
 *
 * Reads    attention of the last query.
 * Source   Zhang et al. 2024, "SimLayerKV: A Simple Framework for Layer-Level KV Cache
 *          Reduction", arXiv:2410.13846; as SimLayerKVPress of kvpress 0.5.5, which cuts
 *          layers by a threshold on z: a size that nobody can set. Here they are ranked.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { HEADS = 0, QUERIES = 1, ENTRIES = 1 };

struct lazy {
    int64_t initial, recent;
};

static const fb_param lazy_params[] = {
    FB_INT(struct lazy, initial, 4, 0, 4096, "kvpress 0.5.5",
           "first entries of a cut layer"),
    FB_INT(struct lazy, recent, 1024, 1, 1048576, "kvpress 0.5.5",
           "newest entries of a cut layer, half of an equal split at most"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads |= FB_READS_WINDOW_ATTENTION;
    if (choices->window < 1) choices->window = 1;
}

/* [1, m - 1]: who looks where depends on the budget, so all of it is kept. */
static fb_tensor measure(fb_ops *ops, const fb_signals *see, fb_tensor score,
                         const void *params)
{
    const int64_t rows = fb_size(ops, see->window_attention, QUERIES);
    const fb_tensor last = fb_narrow(ops, see->window_attention, QUERIES, rows - 1, 1);
    const fb_tensor mean = fb_mean(ops, last, HEADS); /* [1, m] */

    (void)score;
    (void)params;
    return fb_narrow(ops, mean, ENTRIES, 0, see->m - 1);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* [1], the sum of `n` elements. */
static fb_tensor part(fb_ops *ops, fb_tensor row, int64_t start, int64_t n)
{
    if (n == 0) return fb_full(ops, 1, (int64_t[]){1}, 0);
    return fb_sum(ops, fb_narrow(ops, row, ENTRIES, start, n), ENTRIES);
}

static fb_status laziness(fb_ops *ops, fb_tensor row, int64_t initial, int64_t recent,
                          double *z)
{
    const int64_t all = fb_size(ops, row, ENTRIES), first = smaller(initial, all);
    const int64_t newest = smaller(recent, all - first);
    const fb_tensor left = part(ops, row, 0, first);

    return fb_numbers(ops, fb_add(ops, left, part(ops, row, all - newest, newest), 1),
                      z, 1);
}

/* The laziest layer that was not cut yet; equal ones from below. */
static int64_t laziest(const fb_spread_input *in, const int64_t *k)
{
    int64_t best = -1;

    for (int64_t l = 0; l < in->n_layers; l++)
        if (k[l * in->kv_heads] == in->m && (best < 0 || in->room[l] > in->room[best]))
            best = l;
    return best;
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    const struct lazy *lazy = params;
    const int64_t recent = smaller(lazy->recent, in->k / 2);
    const int64_t wanted = lazy->initial + recent - 1, least = in->n_protected + 1;
    const int64_t few = smaller(wanted > least ? wanted : least, in->k);
    int64_t left = in->n_layers * (in->m - in->k);

    for (int64_t i = 0; i < in->n_layers * in->kv_heads; i++)
        k_out[i] = in->m;
    for (int64_t l = 0; l < in->n_layers; l++)
        FB_TRY(laziness(ops, in->measured[l], lazy->initial, recent, &in->room[l]));
    while (left > 0) {
        const int64_t cut = smaller(left, in->m - few), l = laziest(in, k_out);

        for (int64_t g = 0; g < in->kv_heads; g++)
            k_out[l * in->kv_heads + g] -= cut;
        left -= cut;
    }
    return FB_OK;
}

const fb_rule fb_rule_lazy = {
    FB_RULE_HEAD,
    .kind = FB_KIND_ALLOCATION,
    .name = "lazy",
    .summary = "few entries for layers that look at both ends only, all for others",
    .family = "attention",
    .source = "Zhang et al. 2024, arXiv:2410.13846",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = lazy_params,
    .params_bytes = sizeof(struct lazy),
    .choose = choose,
    .spread = spread,
    .measure = measure,
};
