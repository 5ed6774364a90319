/* choice_rank.c - how good the candidates are, and their order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/choice_parts.h"

#include <math.h>
#include <string.h>

/* --- how good --- */

/* Whether all tasks measure quality by one number against the full cache. */
static bool all_have(const fb_choice *choice, bool lower_is_better)
{
    const char *unit = fb_choice_task(choice, 0)->unit;

    for (int t = 0; t < choice->n_tasks; t++) {
        const fb_result_task *task = fb_choice_task(choice, t);
        bool is_known = false;

        for (int c = 0; c < choice->n && !is_known; c++) {
            const fb_table *table;
            const fb_row *row = fb_choice_row(choice, &choice->all[c], t, &table);

            is_known =
                row != NULL && isfinite(lower_is_better ? row->lost : row->share);
        }
        if (!is_known || task->lower_is_better != lower_is_better ||
            (lower_is_better && strcmp(task->unit, unit) != 0))
            return false;
    }
    return true;
}

static fb_choice_scale find_scale(const fb_choice *choice)
{
    if (all_have(choice, false)) return FB_SCALE_share;
    if (all_have(choice, true)) return FB_SCALE_lost;
    return choice->n_tasks == 1 ? FB_SCALE_value : FB_SCALE_place;
}

/* Lower is better, whatever the task says. */
static double value_of(const fb_choice *choice, const fb_candidate *c, int task)
{
    const bool by_mean = choice->limits.by_mean;
    const fb_table *table;
    const fb_row *row = fb_choice_row(choice, c, task, &table);

    if (row == NULL) return (double)INFINITY;
    if (fb_choice_task(choice, task)->lower_is_better)
        return by_mean ? row->mean : row->mean_interval.high;
    return -(by_mean ? row->mean : row->mean_interval.low);
}

static int place_of(const fb_choice *choice, const fb_candidate *c, int task)
{
    const double own = value_of(choice, c, task);
    int place = 1;

    for (int i = 0; i < choice->n; i++)
        place += choice->all[i].left == FB_LEFT_not &&
                 value_of(choice, &choice->all[i], task) < own;
    return place;
}

static double badness_of(const fb_choice *choice, const fb_candidate *c, int task)
{
    double number;

    if (choice->scale == FB_SCALE_place) return place_of(choice, c, task);
    if (choice->scale == FB_SCALE_value) return value_of(choice, c, task);
    number = fb_choice_number(choice, c, FB_LIMIT_quality, task);
    if (isnan(number)) return (double)INFINITY;
    return choice->scale == FB_SCALE_share ? -number : number;
}

/* The worst task decides. */
static void rate(const fb_choice *choice, fb_candidate *c)
{
    c->badness = -(double)INFINITY;
    for (int t = 0; t < choice->n_tasks; t++) {
        const double badness = badness_of(choice, c, t);

        if (!(badness > c->badness)) continue;
        c->badness = badness;
        c->decides = t;
    }
}

/* --- the order --- */

static bool is_fit(const fb_candidate *c)
{
    return c->left == FB_LEFT_not && c->over == 0;
}

static int by_number(double a, double b)
{
    return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
}

/* Bytes, then extra work, then the name; one rule at two budgets of the same bytes as the
 * experiment lists them. */
int fb_choice_by_cost(const fb_choice *choice, const fb_candidate *a,
                      const fb_candidate *b)
{
    const fb_result_rule *rules = choice->analysis->results->rules;
    int order = by_number(a->granted, b->granted);

    if (order == 0) order = by_number(a->extra, b->extra);
    if (order == 0) order = strcmp(rules[a->rule].label, rules[b->rule].label);
    return order != 0 ? order : a->budget - b->budget;
}

/* Those that fit, then the others, then those that are no candidates; the best first. */
static int by_quality(const fb_choice *choice, const fb_candidate *a,
                      const fb_candidate *b)
{
    int order = (a->left != FB_LEFT_not) - (b->left != FB_LEFT_not);

    if (order == 0) order = is_fit(b) - is_fit(a);
    if (order == 0) order = by_number(a->badness, b->badness);
    return order != 0 ? order : fb_choice_by_cost(choice, a, b);
}

static void sort(fb_choice *choice)
{
    for (int i = 1; i < choice->n; i++)
        for (int j = i;
             j > 0 && by_quality(choice, &choice->all[j], &choice->all[j - 1]) < 0;
             j--) {
            const fb_candidate c = choice->all[j];

            choice->all[j] = choice->all[j - 1];
            choice->all[j - 1] = c;
        }
}

void fb_choice_rank(fb_choice *choice)
{
    choice->scale = find_scale(choice);
    for (int i = 0; i < choice->n; i++) {
        rate(choice, &choice->all[i]);
        choice->n_fit += is_fit(&choice->all[i]);
    }
    sort(choice);
}
