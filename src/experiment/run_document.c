/* run_document.c - one reading for all rules of a document, then its samples.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "experiment/run_inside.h"

#include <string.h>

fb_entrant *fb_run_entrant(const fb_runner *run, const fb_cell *cell)
{
    for (int i = 0; i < run->n_entrants; i++)
        if (run->entrants[i].rule == cell->rule && run->entrants[i].seed == cell->seed)
            return &run->entrants[i];
    return NULL;
}

/* The rules and seeds that the open cells need. */
static fb_status find_entrants(fb_runner *run)
{
    const fb_todo *todo = &run->todo[run->document];

    run->n_entrants = 0;
    run->entrants = fb_zalloc(FB_ACCOUNT_other,
                              fb_size_mul((size_t)todo->n, sizeof *run->entrants));
    if (run->entrants == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the run");
    for (int i = 0; i < todo->n; i++)
        if (fb_run_entrant(run, &todo->cells[i]) == NULL)
            run->entrants[run->n_entrants++] =
                (fb_entrant){.rule = todo->cells[i].rule, .seed = todo->cells[i].seed};
    return FB_OK;
}

static void clear_entrants(fb_runner *run)
{
    for (int i = 0; i < run->n_entrants; i++)
        fb_free(run->entrants[i].failure);
    fb_free(run->entrants);
    run->entrants = NULL;
    run->n_entrants = 0;
}

/* --- reading --- */

/* Reads for the entrants [first, first + n) that have not failed. */
static fb_status read_for(fb_runner *run, int first, int n, fb_reading **out)
{
    const fb_plan_document *document = &run->plan->documents[run->document];
    fb_seeded_rule *rules =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof *rules));
    int n_rules = 0;
    fb_status status;

    if (rules == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the run");
    for (int i = first; i < first + n; i++) {
        fb_entrant *entrant = &run->entrants[i];

        if (entrant->failure != NULL || fb_spec_streams(run->plan->spec)) continue;
        entrant->index = n_rules;
        rules[n_rules].rule = run->plan->spec->rules[entrant->rule].rule;
        rules[n_rules++].seed = entrant->seed;
    }
    status = fb_read(out, run->engine, document->context.ids, document->context.n,
                     rules, n_rules, document->stream);
    if (status != FB_OK) fb_ops_reset(run->ops);
    fb_free(rules);
    return status;
}

/* Reads for one entrant alone: where that is its own fault, the others go on without. */
static fb_status try_alone(fb_runner *run, fb_entrant *entrant)
{
    fb_reading *reading = NULL;
    const fb_status status = read_for(run, (int)(entrant - run->entrants), 1, &reading);

    fb_reading_free(reading);
    if (!fb_run_is_own_fault(status)) return status;
    run->has_failed[entrant->rule] = true;
    entrant->failure = fb_strdup(fb_error_message());
    return entrant->failure != NULL ? FB_OK
                                    : fb_fail(FB_NO_MEMORY, "no memory for the run");
}

/* Some rule failed: finds out which ones, by reading for each alone. Without any rule
 * the reading must succeed, else it is not a rule's fault. */
static fb_status find_culprits(fb_runner *run)
{
    fb_reading *reading = NULL;

    FB_TRY(read_for(run, 0, 0, &reading));
    fb_reading_free(reading);
    for (int i = 0; i < run->n_entrants; i++)
        if (run->entrants[i].failure == NULL) FB_TRY(try_alone(run, &run->entrants[i]));
    return FB_OK;
}

/* A rule that has failed will fail again, as a rule: one reading for it, often cut short,
 * instead of one for every other. */
static fb_status try_suspects(fb_runner *run)
{
    for (int i = 0; i < run->n_entrants; i++)
        if (run->has_failed[run->entrants[i].rule])
            FB_TRY(try_alone(run, &run->entrants[i]));
    return FB_OK;
}

static fb_status read_document(fb_runner *run)
{
    int64_t begin;
    fb_status status;

    FB_TRY(try_suspects(run));
    begin = fb_time_ns();
    fb_gauge_begin(&run->before_read, run);
    status = read_for(run, 0, run->n_entrants, &run->reading);
    if (fb_run_is_own_fault(status)) {
        status = find_culprits(run);
        if (status == FB_OK) status = read_for(run, 0, run->n_entrants, &run->reading);
    }
    run->read_ns = fb_time_ns() - begin;
    if (status != FB_OK) return status;
    fb_gauge_read_own(&run->before_read, &run->read);
    run->full_bytes = fb_cache_bytes(fb_reading_cache(run->reading));
    run->window_bytes =
        fb_gauge_kept(&run->before_read, FB_ACCOUNT_kv) - run->full_bytes;
    return FB_OK;
}

/* --- the future --- */

bool fb_run_reads(const fb_runner *run, int rule, fb_signal signal)
{
    const fb_bound_rule *bound = run->plan->spec->rules[rule].rule;

    return (fb_bound_rule_choices(bound)->reads & signal) != 0;
}

fb_status fb_run_blame(fb_runner *run, fb_status status)
{
    fb_ops_reset(run->ops);
    if (!fb_run_is_own_fault(status)) return status;
    for (int i = 0; i < run->n_entrants; i++) {
        fb_entrant *entrant = &run->entrants[i];

        if (entrant->failure != NULL ||
            !fb_has_failed_to_foresee(run->reading, entrant->index))
            continue;
        entrant->failure = fb_strdup(fb_error_message());
        return entrant->failure != NULL
                   ? FB_OK
                   : fb_fail(FB_NO_MEMORY, "no memory for the run");
    }
    return status;
}

/* Rules that read the future of all questions on the document, also of those whose cells
 * are there already or are left out, are scored now. */
static fb_status foresee(fb_runner *run)
{
    const fb_plan_document *document = &run->plan->documents[run->document];
    const int n = document->n_samples;
    fb_question *questions;
    bool is_needed = false;
    fb_status status;

    for (int i = 0; i < run->n_entrants; i++)
        is_needed |=
            fb_run_reads(run, run->entrants[i].rule, FB_READS_DOCUMENT_FUTURE) &&
            run->entrants[i].failure == NULL;
    if (!is_needed) return FB_OK;
    questions = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *questions));
    if (questions == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the run");
    for (int i = 0; i < n; i++)
        questions[i] = fb_run_question(&run->plan->samples[document->first_sample + i]);
    while ((status = fb_foresee_document(run->reading, questions, n)) != FB_OK) {
        status = fb_run_blame(run, status);
        if (status != FB_OK) break;
    }
    fb_free(questions);
    return status;
}

fb_status fb_run_document(fb_runner *run)
{
    fb_status status = find_entrants(run);

    if (status == FB_OK) status = read_document(run);
    if (status == FB_OK) status = foresee(run);
    if (status == FB_OK) {
        run->work_done += (double)run->plan->documents[run->document].context.n;
        status = fb_run_questions(run, run->todo[run->document].cells,
                                  run->todo[run->document].n);
    }
    fb_reading_free(run->reading);
    run->reading = NULL;
    clear_entrants(run);
    return status;
}
