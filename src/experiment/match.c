/* match.c - see match.h.
 *
 * A document is looked at once for all rules. Of a rule that is above the quota its effort
 * is halved in, on the document that shows it; then all documents are looked at again, and
 * where another shows that it is still above, on that one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match.h"

#include "base/number.h"
#include "experiment/match_price.h"

#include <math.h>
#include <string.h>

/* A share that is the quota but for its last digits keeps to it. */
static const double ROUNDING = 1e-12;

typedef struct match {
    fb_pricing pricing;
    fb_plan *plan;
    fb_spec *spec;
    double quota;   /* share of the plain pass */
    double *shares; /* [n_rules, n_texts] as written; NAN: not told */
    int n_kept, n_judged;
    fb_text refusals; /* of rules that cannot keep to it */
} match;

static bool is_above(const match *m, double share)
{
    return share > m->quota * (1 + ROUNDING);
}

static double *shares_of(const match *m, int rule) /* [n_texts] */
{
    return m->shares + (size_t)rule * (size_t)m->pricing.n_texts;
}

/* Not of what rules are measured against. */
static bool is_judged(const match *m, int rule)
{
    const char *family = fb_bound_rule_family(m->spec->rules[rule].rule);

    return !fb_spec_is_reference(m->spec, rule) &&
           (family == NULL || strcmp(family, "random") != 0);
}

/* The text with the largest share. */
static int find_worst(const double *shares, int n)
{
    int worst = 0;

    for (int i = 1; i < n; i++)
        if (shares[i] > shares[worst]) worst = i;
    return worst;
}

static void say_share(fb_text *text, double share)
{
    fb_text_printf(text, "%.3g %%", 100 * share);
}

/* --- one rule --- */

/* Its share of one text, or the largest of all (text -1) and where that is, at effort s. */
static fb_status share_at(match *m, int rule, int64_t s, int *text, double *out)
{
    fb_bound_rule *bound;
    fb_status status;

    *out = 0;
    FB_TRY(fb_bound_rule_with_effort(&bound, m->spec->rules[rule].rule, s));
    if (*text >= 0) {
        status = fb_price(&m->pricing, *text, rule, bound, out);
    } else {
        double share = 0;

        status = FB_OK;
        for (int i = 0; status == FB_OK && i < m->pricing.n_texts; i++) {
            status = fb_price(&m->pricing, i, rule, bound, &share);
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
static fb_status halve(match *m, int rule, int text, int64_t *low, int64_t high)
{
    while (high - *low > 1) {
        const int64_t middle = *low + (high - *low) / 2;
        double share;

        FB_TRY(share_at(m, rule, middle, &text, &share));
        if (is_above(m, share))
            high = middle;
        else
            *low = middle;
    }
    return FB_OK;
}

/* The effort for all texts, -1 if the least is too much; with its share. */
static fb_status solve(match *m, int rule, int64_t *out, double *share)
{
    int64_t high = fb_bound_rule_most_effort(m->spec->rules[rule].rule), low = 0;
    int text = find_worst(shares_of(m, rule), m->pricing.n_texts);

    for (;;) {
        int worst = -1;

        *out = -1;
        FB_TRY(share_at(m, rule, 0, &text, share));
        if (high < 1 || is_above(m, *share)) return FB_OK;
        low = 0;
        FB_TRY(halve(m, rule, text, &low, high));
        FB_TRY(share_at(m, rule, low, &worst, share));
        *out = low;
        if (!is_above(m, *share)) return FB_OK;
        high = low;
        text = worst;
    }
}

static void note_apart(match *m, int rule, double least, bool has_effort)
{
    const double written =
        shares_of(m, rule)[find_worst(shares_of(m, rule), m->pricing.n_texts)];
    const char *label = m->spec->rules[rule].label;
    fb_text *text = &m->plan->matched;

    fb_text_printf(text, "%s: takes ", label);
    say_share(text, written);
    fb_text_puts(text, " of the operations that read a context, ");
    if (has_effort) {
        fb_text_puts(text, "with its least effort ");
        say_share(text, least);
    } else {
        fb_text_puts(text, "and has no effort to lower");
    }
    fb_text_puts(text, "; above the quota of ");
    say_share(text, m->quota);
    fb_text_puts(text, ", so it stands apart\n");
    fb_text_printf(&m->refusals, "%s%s ", m->refusals.n > 0 ? ", " : "", label);
    say_share(&m->refusals, has_effort ? least : written);
}

static void note_solved(match *m, int rule, const fb_bound_rule *solved, double share)
{
    fb_text *text = &m->plan->matched;
    fb_text less = {0};

    fb_bound_rule_less_effort(m->spec->rules[rule].rule, solved, &less);
    fb_text_printf(text, "%s: %s, to keep to ", m->spec->rules[rule].label,
                   fb_text_string(&less));
    say_share(text, m->quota);
    fb_text_puts(text, " of the operations that read a context; takes up to ");
    say_share(text, share);
    fb_text_puts(text, "\n");
    text->failed |= less.failed;
    fb_text_clear(&less);
}

static fb_status match_rule(match *m, int rule)
{
    const fb_bound_rule *written = m->spec->rules[rule].rule;
    const bool has_effort = fb_bound_rule_most_effort(written) > 0;
    fb_bound_rule *solved;
    double share = 0;
    int64_t s = -1;

    if (has_effort) FB_TRY(solve(m, rule, &s, &share));
    if (s < 0) {
        note_apart(m, rule, share, has_effort);
        return FB_OK;
    }
    FB_TRY(fb_bound_rule_with_effort(&solved, written, s));
    note_solved(m, rule, solved, share);
    fb_bound_rule_free(m->spec->rules[rule].rule);
    m->spec->rules[rule].rule = solved;
    m->n_kept++;
    return FB_OK;
}

/* --- all --- */

/* A rule that fails here fails its cells; it is no reason not to run the others. */
static fb_status price_written(match *m)
{
    const int n = m->pricing.n_texts;

    for (int rule = 0; rule < m->spec->n_rules; rule++) {
        if (!is_judged(m, rule)) continue;
        for (int i = 0; i < n; i++) {
            const fb_status status =
                fb_price(&m->pricing, i, rule, m->spec->rules[rule].rule,
                         &shares_of(m, rule)[i]);

            if (status == FB_NO_MEMORY) return status;
            if (status == FB_OK) continue;
            fb_text_printf(
                &m->plan->matched,
                "%s: what it takes could not be told (%s); as it is written\n",
                m->spec->rules[rule].label, fb_error_message());
            shares_of(m, rule)[0] = (double)NAN;
            break;
        }
    }
    return FB_OK;
}

static fb_status match_all(match *m)
{
    for (int rule = 0; rule < m->spec->n_rules; rule++) {
        const double *shares = shares_of(m, rule);

        if (!is_judged(m, rule) || isnan(shares[0])) continue;
        m->n_judged++;
        if (is_above(m, shares[find_worst(shares, m->pricing.n_texts)]))
            FB_TRY(match_rule(m, rule));
        else
            m->n_kept++;
    }
    FB_TRY(fb_text_status(&m->plan->matched));
    if (m->n_kept > 0 || m->n_judged == 0) return FB_OK;
    FB_TRY(fb_text_status(&m->refusals));
    return fb_fail(FB_BUDGET,
                   "compute matched:%.15g%%: no rule keeps to the quota, whatever its "
                   "effort; at least they take: %s\nhelp: a larger quota, or --compute "
                   "report",
                   100 * m->quota, fb_text_string(&m->refusals));
}

fb_status fb_match(fb_plan *plan, fb_spec *spec)
{
    match m = {.plan = plan, .spec = spec};
    fb_status status;

    if (!fb_values_is(&spec->values, FB_SET_compute, "matched")) return FB_OK;
    m.quota = fb_values_real(&spec->values, FB_SET_quota) / 100;
    fb_text_init(&plan->matched, 0);
    status = fb_pricing_open(&m.pricing, plan);
    if (status == FB_OK) {
        m.shares = fb_zalloc(FB_ACCOUNT_other,
                             fb_size_mul(fb_size_mul((size_t)spec->n_rules,
                                                     (size_t)m.pricing.n_texts + 1),
                                         sizeof *m.shares));
        status = m.shares != NULL ? price_written(&m)
                                  : fb_fail(FB_NO_MEMORY, "no memory for a quota");
    }
    if (status == FB_OK && m.pricing.n_texts > 0) status = match_all(&m);
    fb_text_clear(&m.refusals);
    fb_free(m.shares);
    fb_pricing_close(&m.pricing);
    return status;
}

fb_status fb_match_share(const fb_plan *plan, int rule,
                         const fb_bound_rule *in_its_place, double *out)
{
    fb_pricing pricing;
    fb_status status = fb_pricing_open(&pricing, plan);
    double share = 0;

    *out = 0;
    for (int i = 0; status == FB_OK && i < pricing.n_texts; i++) {
        status = fb_price(
            &pricing, i, rule,
            in_its_place != NULL ? in_its_place : plan->spec->rules[rule].rule, &share);
        if (status == FB_OK) *out = fmax(*out, share);
    }
    fb_pricing_close(&pricing);
    return status;
}
