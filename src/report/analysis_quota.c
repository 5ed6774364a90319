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

    return rule->deployable && !rule->is_reference &&
           row->extra_most > fb_quota_of(results);
}
