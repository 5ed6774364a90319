/* choice.c - the limits are looked at, then the choice is made.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/choice_parts.h"

#include <math.h>
#include <string.h>

/* --- limits that have no meaning here --- */

static bool is_unlimited(const fb_limits *limits)
{
    return isnan(limits->kv_bytes) && isnan(limits->extra) && isnan(limits->seconds) &&
           !fb_choice_has_least_quality(limits);
}

static fb_status check_tasks(const fb_choice *choice)
{
    const fb_analysis *analysis = choice->analysis;

    if (choice->n_tasks > 0) return FB_OK;
    if (choice->n_floors > 0)
        return fb_fail(FB_NOT_FOUND,
                       "nothing can be chosen: the full cache itself scores 0 on '%s', "
                       "so this model cannot do the task",
                       analysis->results->tasks[choice->floors[0]].name);
    if (choice->limits.passes != NULL && analysis->n_tables > 0)
        return fb_fail(FB_NOT_FOUND, "no task of these results passes --only");
    return fb_fail(FB_NOT_FOUND, "no rule but the full cache has a finished cell");
}

/* A limit of quality holds for every task, each in its own terms. */
static fb_status check_quality(const fb_choice *choice)
{
    const fb_limits *limits = &choice->limits;

    if (!fb_choice_has_least_quality(limits)) return FB_OK;
    for (int t = 0; t < choice->n_tasks; t++) {
        const fb_result_task *task = fb_choice_task(choice, t);

        if (!isnan(task->lower_is_better ? limits->lose : limits->keep)) continue;
        return fb_fail(
            FB_USAGE,
            task->lower_is_better
                ? "'%s' is measured as %s in %s, of which there is no share: %s\n"
                  "help: --lose 0.1 limits what is lost of it; --only 'task=...' "
                  "leaves "
                  "it out"
                : "'%s' is measured as %s in %s, higher is better: %s\n"
                  "help: --keep 95 is the share of the full cache's to keep; --only "
                  "'task=...' leaves it out",
            task->name, fb_say_metric(task->metric), task->unit,
            task->lower_is_better ? "--keep has no meaning"
                                  : "--lose is for losses alone");
    }
    return FB_OK;
}

/* That a number is there at all. */
static bool is_known(const fb_choice *choice, fb_limit limit, int task)
{
    for (int i = 0; i < choice->n; i++)
        if (choice->all[i].left == FB_LEFT_not &&
            isfinite(fb_choice_number(choice, &choice->all[i], limit, task)))
            return true;
    return false;
}

static fb_status check_known(const fb_choice *choice)
{
    const fb_limits *limits = &choice->limits;

    if (!isnan(limits->extra) && !is_known(choice, FB_LIMIT_compute, 0))
        return fb_fail(FB_USAGE, "these results do not hold what a rule costs in a "
                                 "fused kernel: --extra-compute cannot be checked\n"
                                 "help: a run of this version stores it");
    if (!isnan(limits->seconds) && !is_known(choice, FB_LIMIT_time, 0))
        return fb_fail(FB_USAGE, "these results do not hold what a token of the answer "
                                 "takes: --answer-time cannot be checked\n"
                                 "help: a run of this version stores it");
    for (int t = 0; t < choice->n_tasks; t++)
        if (!isnan(fb_choice_limit(choice, FB_LIMIT_quality, t)) &&
            !is_known(choice, FB_LIMIT_quality, t))
            return fb_fail(FB_USAGE,
                           "the rule 'full' has no finished cell on '%s': what is kept "
                           "of its quality is not known\n"
                           "help: run with --rules full,...",
                           fb_choice_task(choice, t)->name);
    return FB_OK;
}

static fb_status check_candidates(const fb_choice *choice)
{
    for (int i = 0; i < choice->n; i++)
        if (choice->all[i].left == FB_LEFT_not) return FB_OK;
    if (choice->limits.passes != NULL)
        return fb_fail(FB_NOT_FOUND,
                       "no rule passes --only that could be deployed, has a finished "
                       "cell in every task and had something to choose");
    return fb_fail(FB_NOT_FOUND,
                   "no rule could be deployed, has a finished cell in every task and "
                   "had something to choose");
}

/* --- the whole --- */

static fb_status choose(fb_choice *choice)
{
    FB_TRY(fb_choice_gather(choice));
    FB_TRY(check_tasks(choice));
    FB_TRY(check_quality(choice));
    FB_TRY(check_candidates(choice));
    FB_TRY(check_known(choice));
    return fb_choice_pick(choice);
}

fb_status fb_choose(fb_choice **out, const fb_analysis *analysis,
                    const fb_limits *limits)
{
    fb_choice *choice;
    fb_status status;

    *out = NULL;
    if (is_unlimited(limits))
        return fb_fail(FB_USAGE, "nothing limits the choice, so it is the full cache\n"
                                 "help: --kv-memory 64MiB --resident, --extra-compute "
                                 "5, --keep 95 or --lose 0.1");
    choice = fb_zalloc(FB_ACCOUNT_other, sizeof *choice);
    if (choice == NULL) return fb_fail(FB_NO_MEMORY, "no memory to choose");
    *choice = (fb_choice){.analysis = analysis,
                          .limits = *limits,
                          .best = -1,
                          .chosen = -1,
                          .nearest = -1};
    status = choose(choice);
    if (status == FB_OK)
        *out = choice;
    else
        fb_choice_free(choice);
    return status;
}

void fb_choice_free(fb_choice *choice)
{
    if (choice == NULL) return;
    fb_free(choice->all);
    fb_free(choice);
}
