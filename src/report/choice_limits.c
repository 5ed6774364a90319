/* choice_limits.c - the numbers of a candidate held against the limits.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_parts.h"

#include <math.h>

bool fb_choice_has_least_quality(const fb_limits *limits)
{
    return !isnan(limits->keep) || !isnan(limits->lose);
}

double fb_choice_bytes(const fb_choice *choice, const fb_candidate *candidate)
{
    return choice->limits.is_resident ? candidate->held_bytes : candidate->peak_bytes;
}

static double quality_of(const fb_choice *choice, const fb_candidate *c, int task)
{
    const bool by_mean = choice->limits.by_mean;
    const fb_table *table;
    const fb_row *row = fb_choice_row(choice, c, task, &table);

    if (row == NULL) return (double)NAN;
    if (fb_choice_task(choice, task)->lower_is_better)
        return by_mean ? row->lost : row->lost_interval.high;
    return by_mean ? row->share : row->share_interval.low;
}

double fb_choice_number(const fb_choice *choice, const fb_candidate *candidate,
                        fb_limit limit, int task)
{
    switch (limit) {
    case FB_LIMIT_memory:
        return fb_choice_bytes(choice, candidate);
    case FB_LIMIT_compute:
        return candidate->extra;
    case FB_LIMIT_time:
        return candidate->seconds;
    default:
        return quality_of(choice, candidate, task);
    }
}

double fb_choice_limit(const fb_choice *choice, fb_limit limit, int task)
{
    const fb_limits *limits = &choice->limits;

    switch (limit) {
    case FB_LIMIT_memory:
        return limits->kv_bytes;
    case FB_LIMIT_compute:
        return limits->extra;
    case FB_LIMIT_time:
        return limits->seconds;
    default:
        return fb_choice_task(choice, task)->lower_is_better ? limits->lose
                                                             : limits->keep;
    }
}

/* By how much of the limit it is missed; 0: it is kept. What is not known misses it. */
static double excess_of(double number, double limit, bool is_least)
{
    const double over = is_least ? limit - number : number - limit;

    if (isnan(limit) || over <= 0) return 0;
    if (isnan(over)) return (double)INFINITY;
    return limit > 0 ? over / limit : over;
}

static void hold_against(const fb_choice *choice, fb_candidate *c, fb_limit limit,
                         int task)
{
    const bool is_least =
        limit == FB_LIMIT_quality && !fb_choice_task(choice, task)->lower_is_better;
    const double excess = excess_of(fb_choice_number(choice, c, limit, task),
                                    fb_choice_limit(choice, limit, task), is_least);

    if (!(excess > 0)) return;
    c->over |= 1u << limit;
    if (excess <= c->excess) return;
    c->excess = excess;
    c->misses = limit;
}

void fb_choice_hold(const fb_choice *choice, fb_candidate *c)
{
    if (c->left != FB_LEFT_not) return;
    for (int l = 0; l < FB_LIMIT_quality; l++)
        hold_against(choice, c, (fb_limit)l, 0);
    for (int t = 0; t < choice->n_tasks; t++)
        hold_against(choice, c, FB_LIMIT_quality, t);
}
