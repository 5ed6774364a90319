/* budgets.c - a list of budgets as people write it: single ones and ranges.
 *
 *     10%..50%+10%   10%, 20%, 30%, 40%, 50%
 *     5%..80%*2      5%, 10%, 20%, 40%, 80%
 *
 * Ranges are counted in whole numbers (ratios in units of 1e-8), so that 10% + 10% is
 * 20% and not almost.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64, WORD = 64 };

static const int64_t unit = 100000000; /* 1 as a ratio */

/* A budget as a whole number of its kind's unit; false if it is not one. */
static bool to_units(const fb_budget *budget, int64_t *out)
{
    if (budget->kind != FB_BUDGET_RATIO) {
        *out = budget->value;
        return true;
    }
    if (budget->denominator > unit || unit % budget->denominator != 0 ||
        budget->numerator > INT64_MAX / unit)
        return false;
    *out = budget->numerator * (unit / budget->denominator);
    return true;
}

static fb_status from_units(fb_budget *out, fb_budget_kind kind, int64_t units)
{
    char text[WORD];

    switch (kind) {
    case FB_BUDGET_RATIO: /* percent with six decimals: 1e-8 each */
        (void)snprintf(text, sizeof text, "%lld.%06lld%%", (long long)(units / 1000000),
                       (long long)(units % 1000000));
        break;
    case FB_BUDGET_TOKENS:
        (void)snprintf(text, sizeof text, "%lldt", (long long)units);
        break;
    default:
        (void)snprintf(text, sizeof text, "%lldB", (long long)units);
        break;
    }
    return fb_budget_parse(out, text);
}

typedef struct range {
    fb_budget first, last, step;
    int64_t begin, end, add; /* in units; add 0: multiply instead */
    double factor;
} range;

static fb_status bad_range(const char *text)
{
    return fb_fail(FB_USAGE,
                   "budget range '%s': write FIRST..LAST+STEP as 10%%..50%%+10%% or "
                   "FIRST..LAST*FACTOR as 5%%..80%%*2",
                   text);
}

static fb_status parse_range(range *r, const char *text)
{
    const char *dots = strstr(text, "..");
    const char *sign = dots + strcspn(dots, "+*");
    char first[WORD], last[WORD];

    *r = (range){0};
    if (*sign == '\0' || dots - text >= WORD || sign - dots >= WORD)
        return bad_range(text);
    (void)snprintf(first, sizeof first, "%.*s", (int)(dots - text), text);
    (void)snprintf(last, sizeof last, "%.*s", (int)(sign - dots - 2), dots + 2);
    FB_TRY(fb_budget_parse(&r->first, first));
    FB_TRY(fb_budget_parse(&r->last, last));
    if (*sign == '+') {
        FB_TRY(fb_budget_parse(&r->step, sign + 1));
        if (r->step.kind != r->first.kind || !to_units(&r->step, &r->add) ||
            r->add <= 0)
            return bad_range(text);
    } else if (!fb_parse_real(sign + 1, &r->factor) || r->factor < 1.01 ||
               r->factor > 1e6) {
        return bad_range(text);
    }
    if (r->first.kind != r->last.kind || !to_units(&r->first, &r->begin) ||
        !to_units(&r->last, &r->end))
        return bad_range(text);
    if (r->begin <= r->end) return FB_OK;
    return fb_fail(FB_USAGE, "budget range '%s' ends before it begins; write %s..%s%s",
                   text, last, first, sign);
}

/* The one after `at`; past the end where it would be, which may be far past int64. */
static int64_t next_of(const range *r, int64_t at)
{
    const double scaled = (double)at * r->factor + 0.5;
    int64_t next;

    if (r->add > 0) return at + r->add;
    next = scaled >= (double)r->end + 1 ? r->end + 1 : (int64_t)scaled;
    return next > at ? next : at + 1;
}

static fb_status expand_range(const char *text, fb_budget *out, int *n_out)
{
    range r;
    int64_t at;

    FB_TRY(parse_range(&r, text));
    *n_out = 0;
    for (at = r.begin; at <= r.end; at = next_of(&r, at)) {
        if (*n_out == MOST)
            return fb_fail(FB_USAGE, "budget range '%s' has more than %d budgets", text,
                           MOST);
        FB_TRY(from_units(&out[*n_out], r.first.kind, at));
        (*n_out)++;
    }
    return FB_OK;
}

fb_status fb_budgets_expand(const char *text, fb_budget **out, int *n_out)
{
    fb_budget *budgets = fb_zalloc(FB_ACCOUNT_other, MOST * sizeof *budgets);
    fb_status status;

    *out = NULL;
    *n_out = 0;
    if (budgets == NULL) return fb_fail(FB_NO_MEMORY, "no memory for budgets");
    if (strstr(text, "..") != NULL) {
        status = expand_range(text, budgets, n_out);
    } else {
        status = fb_budget_parse(budgets, text);
        *n_out = 1;
    }
    if (status != FB_OK) {
        fb_free(budgets);
        *n_out = 0;
        return status;
    }
    *out = budgets;
    return FB_OK;
}
