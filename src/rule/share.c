/* share.c - how many entries each kv head of a layer may keep.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"
#include "rule/bound.h"
#include "rule/check.h"

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
    const int64_t n = in->total - in->kv_heads * (in->n_protected + first);
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

/* --- the allocations of a rule --- */

/* The one that divides a layer's entries among its heads, or NULL. */
static const fb_bound_rule *find_sharer(const fb_bound_rule *rule)
{
    while (rule->rule->kind == FB_KIND_ALLOCATION && rule->rule->share == NULL)
        rule = rule->inner[0];
    return rule->rule->share == NULL ? NULL : rule;
}

static int64_t sum_of(const int64_t *k, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += k[i];
    return sum;
}

/* So many entries as a head can have, in heads [first, first + n) of all layers. */
static fb_status check_heads(const fb_bound_rule *rule, const fb_share_input *in,
                             const int64_t *k, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (k[i] < 1 || k[i] < in->n_protected || k[i] > in->m)
            return fb_fail(
                FB_BUDGET,
                "rule '%s': %lld of %lld entries for kv head %lld of layer %lld%s",
                rule->text, (long long)k[i], (long long)in->m,
                (long long)((first + i) % in->kv_heads),
                (long long)((first + i) / in->kv_heads),
                k[i] < in->n_protected ? ", fewer than are protected" : "");
    return FB_OK;
}

/* What `share` or `spread` of the rule itself has said. */
static fb_status said_by(const fb_bound_rule *rule, const char *function,
                         fb_status status)
{
    return fb_context(fb_rule_check_status(function, status), "rule '%s'",
                      rule->rule->name);
}

static fb_status share_layer(const fb_bound_rule *sharer, fb_ops *ops,
                             const fb_share_input *in, int64_t *k)
{
    fb_status status;

    fb_scope_open(ops);
    status = said_by(sharer, "share", sharer->rule->share(ops, in, sharer->params, k));
    fb_scope_close(ops);
    FB_TRY(status);
    FB_TRY(check_heads(sharer, in, k, in->layer * in->kv_heads, in->kv_heads));
    if (sum_of(k, in->kv_heads) == in->total) return FB_OK;
    return fb_fail(FB_BUDGET,
                   "rule '%s' shares %lld %s in layer %lld; the budget has %lld",
                   sharer->text, (long long)sum_of(k, in->kv_heads),
                   fb_plural(sum_of(k, in->kv_heads), "entry", "entries"),
                   (long long)in->layer, (long long)in->total);
}

/* Divides each layer's sum anew. */
static fb_status share_layers(const fb_bound_rule *sharer, fb_ops *ops,
                              const fb_spread_input *in, int64_t *k)
{
    const int64_t heads = in->kv_heads;
    double *room = fb_zalloc(FB_ACCOUNT_scratch, (size_t)heads * sizeof *room);
    fb_status status = FB_OK;

    if (room == NULL) return fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    for (int64_t layer = 0; status == FB_OK && layer < in->n_layers; layer++) {
        int64_t *own = k + layer * heads;
        const int64_t total = sum_of(own, heads);

        status = share_layer(sharer, ops,
                             &(fb_share_input){.scores = in->scores[layer],
                                               .layer = layer,
                                               .n_layers = in->n_layers,
                                               .kv_heads = heads,
                                               .m = in->m,
                                               .n_protected = in->n_protected,
                                               .total = total,
                                               .k = total / heads,
                                               .room = room},
                             own);
    }
    fb_free(room);
    return status;
}

static fb_status check_spread(const fb_bound_rule *rule, const fb_spread_input *in,
                              const int64_t *k)
{
    const fb_share_input heads = {
        .kv_heads = in->kv_heads, .m = in->m, .n_protected = in->n_protected};
    const int64_t n = in->n_layers * in->kv_heads;

    FB_TRY(check_heads(rule, &heads, k, 0, n));
    if (sum_of(k, n) == n * in->k) return FB_OK;
    return fb_fail(FB_BUDGET, "rule '%s' shares %lld entries; the budget has %lld",
                   rule->text, (long long)sum_of(k, n), (long long)(n * in->k));
}

/* Shares over layers, with room for a number of each. */
static fb_status spread(const fb_bound_rule *rule, fb_ops *ops,
                        const fb_spread_input *in, int64_t *k_out)
{
    const size_t n = (size_t)in->n_layers;
    fb_spread_input own = *in;
    fb_status status;

    own.room = fb_zalloc(FB_ACCOUNT_scratch, n * sizeof *own.room);
    if (own.room == NULL) return fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    fb_scope_open(ops);
    status =
        said_by(rule, "spread", rule->rule->spread(ops, &own, rule->params, k_out));
    fb_scope_close(ops);
    fb_free(own.room);
    FB_TRY(status);
    return check_spread(rule, in, k_out);
}

static fb_status share_all(const fb_bound_rule *rule, fb_ops *ops,
                           const fb_spread_input *in, int64_t *k_out)
{
    const fb_bound_rule *sharer;

    rule = fb_choosing(rule);
    sharer = find_sharer(rule);
    for (int64_t i = 0; i < in->n_layers * in->kv_heads; i++)
        k_out[i] = in->k;
    if (rule->rule->spread != NULL) FB_TRY(spread(rule, ops, in, k_out));
    if (sharer != NULL) FB_TRY(share_layers(sharer, ops, in, k_out));
    return fb_ops_status(ops);
}

fb_status fb_bound_rule_share(const fb_bound_rule *rule, fb_ops *ops,
                              const fb_spread_input *in, int64_t *k_out)
{
    return fb_bound_rule_context(rule, share_all(rule, ops, in, k_out));
}
