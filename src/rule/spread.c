/* spread.c - a budget divided among layers in proportion to weights, to the entry.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/number.h"

#include <flexbudget/rule.h>
#include <math.h>

/* What each layer gets of `total` entries, between `low` and `high`. */
struct spread {
    const double *weight;
    int64_t n, total, low, high;
    double *part;   /* [n] exact shares */
    bool *is_fixed; /* [n] at one of the bounds */
    int64_t *count; /* [n] */
};

/* Shares of the layers that are at no bound; where all their weights are 0, equal ones. */
static void divide(struct spread *s)
{
    double left = (double)s->total, weights = 0;
    int64_t n_open = 0;

    for (int64_t i = 0; i < s->n; i++) {
        if (s->is_fixed[i])
            left -= s->part[i];
        else
            weights += s->weight[i];
        n_open += !s->is_fixed[i];
    }
    for (int64_t i = 0; i < s->n; i++)
        if (!s->is_fixed[i])
            s->part[i] =
                weights > 0 ? left / weights * s->weight[i] : left / (double)n_open;
}

/* Where layers lie beyond a bound, those on the side with the larger sum of excesses are
 * put to it; whether there were any. So few rounds end at the one solution: shares in
 * proportion to the weights, but for those at a bound. */
static bool bound_some(struct spread *s)
{
    const double low = (double)s->low, high = (double)s->high;
    double below = 0, above = 0;
    bool is_any = false;

    for (int64_t i = 0; i < s->n; i++) {
        if (s->is_fixed[i]) continue;
        if (s->part[i] < low) below += low - s->part[i];
        if (s->part[i] > high) above += s->part[i] - high;
    }
    for (int64_t i = 0; i < s->n; i++) {
        const bool is_low = s->part[i] < low && below >= above;
        const bool is_high = s->part[i] > high && above >= below;

        if (s->is_fixed[i] || (!is_low && !is_high)) continue;
        s->part[i] = is_low ? low : high;
        s->is_fixed[i] = is_any = true;
    }
    return is_any;
}

void fb_whole_parts(const double *part, int64_t n, int64_t total, int64_t high,
                    int64_t *out)
{
    int64_t left = total;

    for (int64_t i = 0; i < n; i++) {
        out[i] = part[i] >= (double)high ? high : part[i] > 0 ? (int64_t)part[i] : 0;
        left -= out[i];
    }
    while (left > 0) {
        int64_t best = -1;

        for (int64_t i = 0; i < n; i++)
            if (out[i] < high &&
                (best < 0 || part[i] - (double)out[i] > part[best] - (double)out[best]))
                best = i;
        if (best < 0) return; /* all are full */
        out[best]++;
        left--;
    }
}

static fb_status check_weights(const double *weight, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(weight[i]) || weight[i] < 0)
            return fb_fail(FB_DEFECT, "the weight of layer %lld is %g; 0 or more",
                           (long long)i, weight[i]);
    return FB_OK;
}

fb_status fb_spread_by_weight(const fb_spread_input *in, const double *weight,
                              int64_t *k_out)
{
    const size_t n = (size_t)in->n_layers;
    const int64_t heads = in->kv_heads;
    struct spread s = {.weight = weight,
                       .n = in->n_layers,
                       .total = in->n_layers * heads * in->k,
                       .low = heads * fb_smaller(in->n_protected + 1, in->m),
                       .high = heads * in->m,
                       .part = fb_zalloc(FB_ACCOUNT_scratch, n * sizeof(double)),
                       .is_fixed = fb_zalloc(FB_ACCOUNT_scratch, n * sizeof(bool)),
                       .count = fb_zalloc(FB_ACCOUNT_scratch, n * sizeof(int64_t))};
    fb_status status = check_weights(weight, in->n_layers);

    if (s.part == NULL || s.is_fixed == NULL || s.count == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory to share a budget");
    if (status == FB_OK) {
        do
            divide(&s);
        while (bound_some(&s));
        fb_whole_parts(s.part, s.n, s.total, s.high, s.count);
        for (int64_t i = 0; i < s.n * heads; i++)
            k_out[i] = (s.count[i / heads] + heads - 1 - i % heads) / heads;
    }
    fb_free(s.part);
    fb_free(s.is_fixed);
    fb_free(s.count);
    return status;
}

fb_status fb_spread_rest_by_weight(const fb_spread_input *in, const double *weight,
                                   int64_t *k_out)
{
    fb_spread_input rest = *in;

    rest.m -= in->n_protected;
    rest.k -= in->n_protected;
    rest.n_protected = 0;
    FB_TRY(fb_spread_by_weight(&rest, weight, k_out));
    for (int64_t i = 0; i < in->n_layers * in->kv_heads; i++)
        k_out[i] += in->n_protected;
    return FB_OK;
}

fb_status fb_spread_rest_by_measure(fb_ops *ops, const fb_spread_input *in,
                                    const void *params, int64_t *k_out)
{
    (void)params;
    for (int64_t l = 0; l < in->n_layers; l++)
        FB_TRY(fb_numbers(ops, in->measured[l], &in->room[l], 1));
    return fb_spread_rest_by_weight(in, in->room, k_out);
}
