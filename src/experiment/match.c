/* match.c - see match.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match.h"

#include "base/number.h"
#include "experiment/match_price.h"

#include <math.h>
#include <string.h>

typedef struct match {
    fb_pricing pricing;
    fb_plan *plan;
    fb_spec *spec;
    double quota;   /* share of the plain pass */
    double *shares; /* [n_rules, n_texts] as written; NAN: not told */
    int n_kept, n_judged;
    fb_text refusals; /* of rules that cannot keep to it */
} match;

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

/* A rule that fails here fails its cells; it is no reason not to run the others. */
static void note_failure(match *m, int rule)
{
    fb_text_printf(&m->plan->matched,
                   "%s: what it takes could not be told (%s); as it is written\n",
                   m->spec->rules[rule].label, fb_error_message());
    m->n_kept++;
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
        fb_text_puts(text, "and has no window or the like to lower");
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

    if (has_effort) {
        const int worst = find_worst(shares_of(m, rule), m->pricing.n_texts);
        const fb_status status =
            fb_match_solve(&m->pricing, rule, m->quota, worst, &s, &share);

        if (status == FB_NO_MEMORY) return status;
        if (status != FB_OK) {
            note_failure(m, rule);
            return FB_OK;
        }
    }
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
        if (fb_is_above(m->quota, shares[find_worst(shares, m->pricing.n_texts)]))
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

static fb_status lower_all(match *m)
{
    const size_t n = fb_size_mul((size_t)m->spec->n_rules, (size_t)m->pricing.n_texts);

    m->shares = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *m->shares));
    if (m->shares == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a quota");
    FB_TRY(price_written(m));
    return match_all(m);
}

/* --- a quota that lowers nothing --- */

/* Says before the run if no rule will be left to compare. One that keeps to the quota with
 * the first text is enough to know that it is worth it. */
static fb_status warn_if_none_keeps(match *m)
{
    for (int rule = 0; rule < m->spec->n_rules; rule++) {
        double share = 0;
        fb_status status;

        if (!is_judged(m, rule)) continue;
        status = fb_price(&m->pricing, 0, rule, m->spec->rules[rule].rule, &share);
        if (status == FB_NO_MEMORY) return status;
        if (status != FB_OK || !fb_is_above(m->quota, share)) return FB_OK;
        fb_text_printf(&m->refusals, "%s%s ", m->n_judged++ > 0 ? ", " : "",
                       m->spec->rules[rule].label);
        say_share(&m->refusals, share);
    }
    if (m->n_judged == 0) return FB_OK;
    fb_text_printf(
        &m->plan->matched,
        "compute cap:%.15g%%: every rule takes more of the operations that read "
        "a context (%s): all will stand apart, and nothing will be compared\n",
        100 * m->quota, fb_text_string(&m->refusals));
    m->plan->matched.failed |= m->refusals.failed;
    return fb_text_status(&m->plan->matched);
}

fb_status fb_match(fb_plan *plan, fb_spec *spec)
{
    match m = {.plan = plan, .spec = spec};
    const bool lowers = fb_values_is(&spec->values, FB_SET_compute, "matched");
    fb_status status;

    if (fb_values_is(&spec->values, FB_SET_compute, "report")) return FB_OK;
    m.quota = fb_values_real(&spec->values, FB_SET_quota) / 100;
    fb_text_init(&plan->matched, 0);
    status = fb_pricing_open(&m.pricing, plan);
    if (status == FB_OK && m.pricing.n_texts > 0)
        status = lowers ? lower_all(&m) : warn_if_none_keeps(&m);
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
