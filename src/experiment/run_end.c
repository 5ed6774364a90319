/* run_end.c - when all cells are there: warnings with their counts, the certificate,
 * the digest.
 *
 * Counts come from the stored cells and not from this process: a run that was
 * interrupted says the same in the end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/certificate.h"
#include "experiment/run_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static fb_status warn(fb_runner *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static fb_status warn(fb_runner *run, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fb_run_tell(run, "warning", text);
    if (run->options->only != NULL) return FB_OK; /* a part: its counts are no result */
    return fb_store_put_note(run->store, run->rows.experiment, 0, "warning", text);
}

/* A note of the plan, said before the run: here it is only kept. */
struct keeping {
    const fb_runner *run;
    fb_status status;
};

static void keep_note(void *self, const char *sentence)
{
    struct keeping *k = self;

    if (k->status == FB_OK)
        k->status = fb_store_put_note(k->run->store, k->run->rows.experiment, 0,
                                      "warning", sentence);
}

static fb_status keep_notes(const fb_runner *run, int task)
{
    struct keeping keeping = {run, FB_OK};

    if (run->options->only == NULL) fb_plan_notes(run->plan, task, keep_note, &keeping);
    return keeping.status;
}

/* What was done to keep to a quota. */
static fb_status keep_match_notes(const fb_runner *run)
{
    struct keeping keeping = {run, FB_OK};

    if (run->options->only == NULL) fb_plan_match_notes(run->plan, keep_note, &keeping);
    return keeping.status;
}

/* Said before the run, like the notes: here it is only kept. */
static fb_status keep_bos_warning(const fb_runner *run)
{
    char sentence[512];

    if (run->options->only != NULL ||
        !fb_plan_bos_warning(run->plan, sentence, sizeof sentence))
        return FB_OK;
    return fb_store_put_note(run->store, run->rows.experiment, 0, "warning", sentence);
}

static fb_status warn_tasks(fb_runner *run)
{
    const fb_plan *plan = run->plan;

    for (int i = 0; i < plan->spec->n_tasks; i++) {
        const fb_plan_task *task = &plan->tasks[i];
        const char *name = fb_bound_task_get(plan->spec->tasks[i])->name;

        FB_TRY(keep_notes(run, i));
        if (task->cut > 0)
            FB_TRY(warn(run,
                        "%lld %s of %s %s longer than the model's %lld tokens (the "
                        "longest context has %lld); cut in the middle, same for all "
                        "rules",
                        (long long)task->cut, fb_plural(task->cut, "sample", "samples"),
                        name, fb_plural(task->cut, "is", "are"),
                        (long long)fb_model_get_facts(plan->model)->longest,
                        (long long)task->longest_cut));
        if (task->unknown > 0)
            FB_TRY(warn(run,
                        "%lld %s of %s %s characters that the Unicode of PCRE2 (see "
                        "'flexbudget doctor') does not know; other programs may cut "
                        "them into other tokens",
                        (long long)task->unknown,
                        fb_plural(task->unknown, "sample", "samples"), name,
                        fb_plural(task->unknown, "has", "have")));
        if (task->rejected > 0)
            FB_TRY(warn(run, "%lld %s of %s %s skipped; the first: %s",
                        (long long)task->rejected,
                        fb_plural(task->rejected, "record", "records"), name,
                        fb_plural(task->rejected, "was", "were"),
                        task->first_rejection == NULL ? "" : task->first_rejection));
    }
    return FB_OK;
}

typedef struct marks {
    int64_t fallback, shrunk, no_choice, failed;
} marks;

static void count(marks *m, const fb_result_cell *cell)
{
    if (strcmp(cell->status, "done") != 0) {
        m->failed++;
        return;
    }
    m->fallback += cell->fallback;
    m->shrunk += cell->shrunk;
    m->no_choice += cell->evicted > 0 && cell->free_choices == 0 && cell->budget >= 0;
}

static fb_status warn_rule(fb_runner *run, const fb_results *results, int rule)
{
    const char *label = results->rules[rule].label;
    marks m = {0};

    for (int i = 0; i < results->n_cells; i++)
        if (results->cells[i].rule == rule) count(&m, &results->cells[i]);
    if (m.fallback > 0)
        FB_TRY(warn(run,
                    "%s: in %lld %s the context is too short for its score; the first "
                    "and last tokens were kept instead, and %s marked",
                    label, (long long)m.fallback,
                    fb_plural(m.fallback, "cell", "cells"),
                    fb_plural(m.fallback, "the cell is", "the cells are")));
    if (m.shrunk > 0)
        FB_TRY(warn(run,
                    "%s: in %lld %s some head may keep fewer entries than are "
                    "protected; %s marked",
                    label, (long long)m.shrunk, fb_plural(m.shrunk, "cell", "cells"),
                    fb_plural(m.shrunk, "the cell is", "the cells are")));
    if (m.no_choice > 0)
        FB_TRY(warn(run,
                    "%s: in %lld %s nothing was left for the rule to choose; %s "
                    "nothing about it",
                    label, (long long)m.no_choice,
                    fb_plural(m.no_choice, "cell", "cells"),
                    fb_plural(m.no_choice, "it says", "they say")));
    if (m.failed > 0)
        FB_TRY(warn(run, "%s: %lld %s failed", label, (long long)m.failed,
                    fb_plural(m.failed, "cell", "cells")));
    return FB_OK;
}

static fb_status certify(fb_runner *run, const fb_results *results)
{
    fb_certificate certificate = {0};
    fb_status status = fb_certificate_make(&certificate, run->store, results);

    if (status == FB_OK && run->options->only == NULL)
        status = fb_store_put_certificate(run->store, run->rows.experiment,
                                          fb_text_string(&certificate.body),
                                          certificate.sha256);
    if (status == FB_OK && !certificate.same_trace)
        status = warn(run, "the kernel was not the same for all rules: traces differ");
    if (status == FB_OK && !certificate.same_cache)
        status = warn(run, "rules of a sample began with different caches");
    if (status == FB_OK && certificate.highest_use > 1)
        status = fb_fail(FB_DEFECT, "a cell used %.4f of its budget",
                         certificate.highest_use);
    fb_certificate_clear(&certificate);
    return status;
}

/* What a reader of the numbers must know of the backend. */
static fb_status warn_backend(fb_runner *run)
{
    if (fb_ops_is_exact(run->ops)) return FB_OK;
    return warn(run,
                "device %s promises results within a tolerance, not their "
                "bits: another machine may give other last digits, and with them other "
                "entries where scores are close; eviction was not tested by equality, "
                "which only device cpu allows",
                fb_values_text(&run->plan->spec->values, FB_SET_device));
}

static fb_status finish(fb_runner *run, const fb_results *results)
{
    memcpy(run->result->digest, results->digest, sizeof run->result->digest);
    if (run->options->only == NULL) /* what an earlier run said may hold no longer */
        FB_TRY(fb_store_drop_notes(run->store, run->rows.experiment, "warning"));
    FB_TRY(keep_bos_warning(run));
    FB_TRY(keep_match_notes(run));
    FB_TRY(warn_backend(run));
    FB_TRY(warn_tasks(run));
    for (int i = 0; i < results->n_rules; i++)
        FB_TRY(warn_rule(run, results, i));
    return certify(run, results);
}

fb_status fb_run_finish(fb_runner *run)
{
    const fb_results *results = NULL;
    fb_status status = fb_store_read(run->store, run->rows.spec_sha256, &results);

    if (status == FB_OK) status = finish(run, results);
    fb_results_free(results);
    return status;
}
