/* match_solve.c - the effort with which one rule keeps to a quota.
 *
 * It is halved on the document that shows the rule to be above; then all documents are
 * looked at again, and where another shows that it still is, it is halved on that one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match_price.h"

/* A share that is the quota but for its last digits keeps to it. */
static const double ROUNDING = 1e-12;

bool fb_is_above(double quota, double share)
{
    return share > quota * (1 + ROUNDING);
}

typedef struct search {
    fb_pricing *pricing;
    int rule; /* of the spec */
    double quota;
    const fb_bound_rule *written;
} search;

/* Its share of one text, or the largest of all (text -1) and where that is, at effort s. */
static fb_status share_at(const search *in, int64_t s, int *text, double *out)
{
    fb_bound_rule *bound;
    fb_status status;

    *out = 0;
    FB_TRY(fb_bound_rule_with_effort(&bound, in->written, s));
    if (*text >= 0) {
        status = fb_price(in->pricing, *text, in->rule, bound, out);
    } else {
        double share = 0;

        status = FB_OK;
        for (int i = 0; status == FB_OK && i < in->pricing->n_texts; i++) {
            status = fb_price(in->pricing, i, in->rule, bound, &share);
            if (status == FB_OK && (i == 0 || share > *out)) {
                *out = share;
                *text = i;
            }
        }
    }
    fb_bound_rule_free(bound);
    return status;
}

/* Effort `low` keeps to the quota with this text, `high` does not: until they are
 * neighbours. */
static fb_status halve(const search *in, int text, int64_t *low, int64_t high)
{
    while (high - *low > 1) {
        const int64_t middle = *low + (high - *low) / 2;
        double share;

        FB_TRY(share_at(in, middle, &text, &share));
        if (fb_is_above(in->quota, share))
            high = middle;
        else
            *low = middle;
    }
    return FB_OK;
}

fb_status fb_match_solve(fb_pricing *pricing, int rule, double quota, int text,
                         int64_t *out, double *share_out)
{
    const fb_bound_rule *written = pricing->plan->spec->rules[rule].rule;
    const search in = {pricing, rule, quota, written};
    int64_t high = fb_bound_rule_most_effort(written);

    for (;;) {
        int64_t low = 0;
        int worst = -1;

        *out = -1;
        FB_TRY(share_at(&in, 0, &text, share_out));
        if (high < 1 || fb_is_above(quota, *share_out)) return FB_OK;
        FB_TRY(halve(&in, text, &low, high));
        FB_TRY(share_at(&in, low, &worst, share_out));
        *out = low;
        if (!fb_is_above(quota, *share_out)) return FB_OK;
        high = low;
        text = worst;
    }
}
