/* analysis_quota.c - which rules cost more than all were allowed.
 *
 * The quota is a share of the plain pass over a context, the open price of a rule what is
 * measured against it, and a rule that is above it with one document is above it: all
 * others kept to it with each.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is behind one of these words is the quota in per cent. */
static const char *const enforced[] = {"cap", "matched"};

/* A share that is the quota but for how both are written keeps to it. */
static const double ROUNDING = 1e-12;

double fb_quota_of(const fb_results *results)
{
    for (size_t i = 0; i < sizeof enforced / sizeof *enforced; i++) {
        const size_t n = strlen(enforced[i]);
        char *end;
        double percent;

        if (results->compute == NULL || strncmp(results->compute, enforced[i], n) != 0)
            continue;
        percent = strtod(results->compute + n, &end);
        return end == results->compute + n || *end != 0 ? (double)INFINITY
                                                        : percent / 100;
    }
    return (double)INFINITY;
}

bool fb_is_over_quota(const fb_results *results, const fb_row *row)
{
    const fb_result_rule *rule = &results->rules[row->rule];

    return rule->deployable && !rule->is_reference && !fb_is_draw(rule) &&
           row->extra_most > fb_quota_of(results) * (1 + ROUNDING);
}

bool fb_stands_apart(const fb_row *row, int baseline)
{
    return row->is_over_quota && row->rule != baseline;
}

void fb_say_quota(fb_text *text, double quota)
{
    fb_say_percent(text, quota);
    fb_text_puts(text, " of the operations that read the context");
}

/* Rules that stand apart in one of the tables, in their order; how many they are. */
static int find_apart(int *out, int most, const fb_table *const *tables, int n)
{
    int found = 0;

    for (int t = 0; t < n; t++)
        for (int r = tables[t]->n_rows - tables[t]->n_apart; r < tables[t]->n_rows;
             r++) {
            int i = 0;

            while (i < found && out[i] != tables[t]->rows[r].rule)
                i++;
            if (i == found && found < most) out[found++] = tables[t]->rows[r].rule;
        }
    return found;
}

void fb_say_apart(fb_text *text, const fb_analysis *analysis,
                  const fb_table *const *tables, int n)
{
    const char *names[FB_MOST_LEADERS];
    int rules[FB_MOST_LEADERS];
    const int found = find_apart(rules, FB_MOST_LEADERS, tables, n);

    if (found == 0) return;
    for (int i = 0; i < found; i++)
        names[i] = analysis->results->rules[rules[i]].label;
    fb_say_list(text, names, found);
    fb_text_printf(text, " %s more than the quota of ", found == 1 ? "costs" : "cost");
    fb_say_quota(text, analysis->quota);
    fb_text_printf(text, " and %s apart", found == 1 ? "stands" : "stand");
}
