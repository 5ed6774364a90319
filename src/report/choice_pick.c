/* choice_pick.c - the best candidate, what is chosen for it, and what ties.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/choice_parts.h"

#include <math.h>
#include <string.h>

/* --- pairs --- */

static fb_status compare(fb_pair *out, const fb_choice *choice, int a, int b, int task)
{
    const fb_table *first, *second;
    const fb_row *row = fb_choice_row(choice, &choice->all[a], task, &first);
    const fb_row *other = fb_choice_row(choice, &choice->all[b], task, &second);

    return fb_analysis_pair(out, choice->analysis, first, row, second, other);
}

static double margin_of(const fb_choice *choice, int candidate, int task)
{
    const fb_table *table;

    (void)fb_choice_row(choice, &choice->all[candidate], task, &table);
    return table->margin;
}

/* Whether the interval of the difference says that no more than the margin is lost. */
static bool is_no_worse(const fb_pair *pair, bool lower_is_better, double margin)
{
    return lower_is_better ? pair->interval.high <= margin
                           : pair->interval.low >= -margin;
}

static fb_status is_as_good(bool *out, const fb_choice *choice, int candidate, int best)
{
    *out = true;
    for (int t = 0; t < choice->n_tasks && *out; t++) {
        fb_pair pair;

        FB_TRY(compare(&pair, choice, candidate, best, t));
        *out = is_no_worse(&pair, fb_choice_task(choice, t)->lower_is_better,
                           margin_of(choice, best, t));
    }
    return FB_OK;
}

/* --- the choice --- */

/* With a least quality the fewest bytes are wanted, to the rounding of their means. */
static double most_granted(const fb_choice *choice)
{
    double least = (double)INFINITY;

    if (!fb_choice_has_least_quality(&choice->limits)) return least;
    for (int i = 0; i < choice->n_fit; i++)
        least = fmin(least, choice->all[i].granted);
    return least * (1 + 1e-9);
}

static fb_status choose(fb_choice *choice)
{
    const double granted = most_granted(choice);

    choice->best = choice->chosen = -1;
    for (int i = 0; i < choice->n_fit; i++) {
        bool is_good;

        if (choice->all[i].granted > granted) continue;
        if (choice->best < 0) {
            choice->best = choice->chosen = i;
            continue;
        }
        if (fb_choice_by_cost(choice, &choice->all[i], &choice->all[choice->chosen]) >
            0)
            continue;
        FB_TRY(is_as_good(&is_good, choice, i, choice->best));
        if (is_good) choice->chosen = i;
    }
    return FB_OK;
}

/* The first of those that miss their limits by least. */
static void find_nearest(fb_choice *choice)
{
    choice->nearest = -1;
    for (int i = 0; i < choice->n; i++)
        if (choice->all[i].left == FB_LEFT_not &&
            (choice->nearest < 0 ||
             choice->all[i].excess < choice->all[choice->nearest].excess))
            choice->nearest = i;
}

/* --- ties --- */

/* Of a candidate against the chosen one in a task. */
typedef struct relation {
    bool is_same; /* within the margin, either way */
    bool has_letters, shares_letter;
    double p; /* where there are no letters */
} relation;

static bool share_letter(const char *a, const char *b)
{
    return strpbrk(a, b) != NULL;
}

static fb_status relate(relation *out, const fb_choice *choice, int candidate, int task)
{
    const fb_table *first, *second;
    const fb_row *row = fb_choice_row(choice, &choice->all[candidate], task, &first);
    const fb_row *chosen =
        fb_choice_row(choice, &choice->all[choice->chosen], task, &second);
    const double margin = second->margin;
    fb_pair pair;

    FB_TRY(fb_analysis_pair(&pair, choice->analysis, first, row, second, chosen));
    *out = (relation){.is_same =
                          pair.interval.high <= margin && pair.interval.low >= -margin,
                      .has_letters = first == second && row->letters[0] != 0 &&
                                     chosen->letters[0] != 0,
                      .p = pair.p};
    out->shares_letter =
        out->has_letters && share_letter(row->letters, chosen->letters);
    return FB_OK;
}

/* p of pairs without letters, Holm over all of them. `p` [2 n]: room. */
static void correct(relation *all, int n, double *p)
{
    int n_tested = 0;

    for (int i = 0; i < n; i++)
        if (!all[i].has_letters && !isnan(all[i].p)) p[n_tested++] = all[i].p;
    fb_holm(p, n_tested, p + n);
    n_tested = 0;
    for (int i = 0; i < n; i++)
        if (!all[i].has_letters && !isnan(all[i].p)) all[i].p = p[n + n_tested++];
}

static bool is_apart(const relation *r, double confidence)
{
    return r->has_letters ? !r->shares_letter : r->p < 1 - confidence;
}

static fb_tie tie_of(const fb_choice *choice, const relation *tasks)
{
    bool is_same = true, is_open = true;

    for (int t = 0; t < choice->n_tasks; t++) {
        is_same = is_same && tasks[t].is_same;
        is_open = is_open && !is_apart(&tasks[t], choice->analysis->confidence);
    }
    return is_same ? FB_TIE_same : is_open ? FB_TIE_open : FB_TIE_apart;
}

/* `all` [n_fit, n_tasks]; what stands in the chosen one's place is not read. */
static fb_status relate_all(fb_choice *choice, relation *all, double *p)
{
    const int n_tasks = choice->n_tasks;

    for (int i = 0; i < choice->n_fit; i++)
        for (int t = 0; t < n_tasks; t++)
            if (i == choice->chosen)
                all[i * n_tasks + t] = (relation){.p = (double)NAN};
            else
                FB_TRY(relate(&all[i * n_tasks + t], choice, i, t));
    correct(all, choice->n_fit * n_tasks, p);
    for (int i = 0; i < choice->n_fit; i++)
        if (i != choice->chosen) choice->all[i].tie = tie_of(choice, &all[i * n_tasks]);
    return FB_OK;
}

static fb_status find_ties(fb_choice *choice)
{
    const size_t n = fb_size_mul((size_t)choice->n_fit, (size_t)choice->n_tasks);
    relation *all = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof *all));
    double *p = fb_zalloc(FB_ACCOUNT_other, fb_size_mul(n, 2 * sizeof *p));
    fb_status status;

    if (all == NULL || p == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory to compare %d rules", choice->n_fit);
    else
        status = relate_all(choice, all, p);
    fb_free(all);
    fb_free(p);
    return status;
}

fb_status fb_choice_pick(fb_choice *choice)
{
    fb_choice_rank(choice);
    FB_TRY(choose(choice));
    find_nearest(choice);
    return choice->chosen >= 0 ? find_ties(choice) : FB_OK;
}
