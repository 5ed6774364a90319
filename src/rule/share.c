/* share.c - how many entries each kv head of a layer may keep.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"
#include "rule/bound.h"

/* Counts, for each head, how many of the `n` places of `index` lie in its row. */
static fb_status count_rows(fb_ops *ops, fb_tensor index, int64_t n, int64_t row_length,
                            int64_t *count)
{
    int64_t *place = fb_alloc(FB_ACCOUNT_scratch, (size_t)n * sizeof *place);
    fb_status status;

    if (place == NULL) return fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    status = fb_to_host(ops, index, place, (size_t)n * sizeof *place);
    for (int64_t i = 0; status == FB_OK && i < n; i++)
        count[place[i] / row_length]++;
    fb_free(place);
    return status;
}

static int64_t between(int64_t low, int64_t x, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

fb_status fb_share_by_rank(fb_ops *ops, const fb_share_input *in, int64_t sure,
                           int64_t *k_out)
{
    const int64_t m = in->m - in->n_protected, k = in->k - in->n_protected;
    const int64_t first = between(0, sure - in->n_protected, k), others = m - first;
    const int64_t n = in->kv_heads * (k - first);
    const fb_tensor order = fb_topk(ops, in->scores, m);        /* [kv_heads, m] */
    const fb_tensor sorted = fb_gather(ops, in->scores, order); /* best first */
    const fb_tensor rest = fb_narrow(ops, sorted, 1, first, others);
    const fb_tensor row =
        fb_reshape(ops, rest, 2, (int64_t[]){1, in->kv_heads * others});

    for (int64_t g = 0; g < in->kv_heads; g++)
        k_out[g] = in->n_protected + first;
    if (n == 0) return fb_ops_status(ops);
    return count_rows(ops, fb_topk(ops, row, n), n, others, k_out);
}

static fb_status check_share(const fb_bound_rule *rule, const fb_share_input *in,
                             const int64_t *k)
{
    int64_t total = 0;

    for (int64_t g = 0; g < in->kv_heads; g++) {
        if (k[g] < 1 || k[g] > in->m)
            return fb_fail(
                FB_BUDGET,
                "rule '%s': %lld of %lld entries for kv head %lld of layer %lld",
                rule->text, (long long)k[g], (long long)in->m, (long long)g,
                (long long)in->layer);
        total += k[g];
    }
    if (total == in->kv_heads * in->k) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "rule '%s' shares %lld %s in layer %lld; the budget has %lld",
                   rule->text, (long long)total, fb_plural(total, "entry", "entries"),
                   (long long)in->layer, (long long)(in->kv_heads * in->k));
}

fb_status fb_bound_rule_share(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_share_input *in, int64_t *k_out)
{
    if (rule->rule->kind != FB_KIND_ALLOCATION) {
        for (int64_t g = 0; g < in->kv_heads; g++)
            k_out[g] = in->k;
        return FB_OK;
    }
    FB_TRY(rule->rule->share(ops, in, rule->params, k_out));
    return check_share(rule, in, k_out);
}
