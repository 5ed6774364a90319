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

/* Contexts that are longer than the model was trained for. */
static fb_status warn_long(fb_runner *run, const fb_plan_task *task, const char *name)
{
    const int64_t longest = fb_model_get_facts(run->plan->model)->longest;

    if (task->cut > 0)
        FB_TRY(warn(run,
                    "%lld %s of %s %s longer than the model's %lld tokens (the "
                    "longest context has %lld); cut in the middle, same for all "
                    "rules",
                    (long long)task->cut, fb_plural(task->cut, "sample", "samples"),
                    name, fb_plural(task->cut, "is", "are"), (long long)longest,
                    (long long)task->longest_cut));
    if (task->beyond == 0) return FB_OK;
    return warn(
        run,
        "%lld %s of %s %s longer than the model's %lld tokens (the longest "
        "context has %lld) and came in whole, since renumbered entries never stand "
        "beyond a budget; the full cache, from which kl is measured, stands "
        "beyond what the model was trained for",
        (long long)task->beyond, fb_plural(task->beyond, "sample", "samples"), name,
        fb_plural(task->beyond, "is", "are"), (long long)longest,
        (long long)task->longest_beyond);
}

static fb_status warn_tasks(fb_runner *run)
{
    const fb_plan *plan = run->plan;

    for (int i = 0; i < plan->spec->n_tasks; i++) {
        const fb_plan_task *task = &plan->tasks[i];
        const char *name = fb_bound_task_get(plan->spec->tasks[i])->name;

        FB_TRY(keep_notes(run, i));
        FB_TRY(warn_long(run, task, name));
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

/* --- contexts with several questions --- */

/* What a reader may want to know, and nobody has to be told. */
static fb_status remark(fb_runner *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static fb_status remark(fb_runner *run, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (run->options->only != NULL) return FB_OK;
    return fb_store_put_note(run->store, run->rows.experiment, 0, "note", text);
}

static fb_status remark_apart(fb_runner *run)
{
    int64_t apart = 0;

    for (int i = 0; i < run->plan->spec->n_tasks; i++)
        apart += run->plan->tasks[i].apart;
    if (apart == 0) return FB_OK;
    return remark(
        run,
        "query aware: the question is part of the text, so contexts with several "
        "questions were read and compressed again for each of the %lld",
        (long long)apart);
}

/* Whether some budget has other numbers of entries for the questions of a document. */
static bool has_own_budgets(const fb_plan *plan, const fb_plan_document *d)
{
    const int64_t first = fb_plan_tokens(plan, d->first_sample);

    for (int b = 0; b < plan->spec->n_budgets; b++)
        for (int i = 1; i < d->n_samples; i++)
            if (fb_plan_entries(plan, b, fb_plan_tokens(plan, d->first_sample + i)) !=
                fb_plan_entries(plan, b, first))
                return true;
    return false;
}

static fb_status remark_budgets(fb_runner *run)
{
    const fb_plan *plan = run->plan;
    int questions = 0;

    for (int i = 0; i < plan->n_documents; i++)
        if (has_own_budgets(plan, &plan->documents[i]))
            questions += plan->documents[i].n_samples;
    if (questions == 0) return FB_OK;
    return remark(
        run,
        "question and answer count in a budget that is a share, so contexts with "
        "several questions of other lengths came in again for each of the %d",
        questions);
}

static fb_status remark_questions(fb_runner *run)
{
    const fb_plan *plan = run->plan;
    int contexts = 0, questions = 0;

    for (int i = 0; i < plan->n_documents; i++) {
        contexts += plan->documents[i].n_samples > 1;
        if (plan->documents[i].n_samples > 1) questions += plan->documents[i].n_samples;
    }
    FB_TRY(remark_apart(run));
    FB_TRY(remark_budgets(run));
    if (contexts == 0) return FB_OK;
    for (int r = 0; r < plan->spec->n_rules; r++)
        if (fb_run_knows_question(plan, r))
            FB_TRY(
                remark(run,
                       "%s reads the question: %d %s with several questions %s "
                       "compressed again for each of the %d, and each of its cells is "
                       "charged for that",
                       plan->spec->rules[r].label, contexts,
                       fb_plural(contexts, "context", "contexts"),
                       fb_plural(contexts, "was", "were"), questions));
    return FB_OK;
}

/* --- rules --- */

typedef struct marks {
    int64_t fallback, shrunk, no_choice, failed;
} marks;

static void count(marks *m, const fb_result_cell *cell)
{
    if (!fb_result_is_done(cell)) {
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

/* What the traces show is a warning too, and belongs to what is certified. */
static fb_status warn_unequal(fb_runner *run, const fb_certificate *certificate)
{
    if (!certificate->same_trace)
        FB_TRY(warn(run, "the kernel was not the same for all rules: traces differ"));
    if (!certificate->same_cache)
        FB_TRY(warn(run, "rules of a sample began with different caches"));
    if (certificate->highest_use > 1)
        return fb_fail(FB_DEFECT, "a cell used %.4f of its budget",
                       certificate->highest_use);
    return FB_OK;
}

/* The class is stored first: it is among what the body has the hash of. */
static fb_status put_certificate(fb_runner *run, fb_certificate *certificate,
                                 const fb_results *results)
{
    if (run->options->only != NULL) return FB_OK;
    FB_TRY(fb_store_put_class(run->store, run->rows.experiment,
                              fb_certificate_class(certificate),
                              fb_text_string(&certificate->reasons)));
    FB_TRY(fb_certificate_write(certificate, run->store, results));
    return fb_store_put_certificate(run->store, run->rows.experiment,
                                    fb_text_string(&certificate->body),
                                    certificate->sha256);
}

static fb_status certify(fb_runner *run, const fb_results *results)
{
    fb_certificate certificate;
    fb_status status = fb_certificate_judge(&certificate, results);

    if (status == FB_OK) status = warn_unequal(run, &certificate);
    if (status == FB_OK) status = put_certificate(run, &certificate, results);
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
    if (run->options->only == NULL)
        FB_TRY(fb_store_drop_notes(run->store, run->rows.experiment, "note"));
    FB_TRY(keep_bos_warning(run));
    FB_TRY(keep_match_notes(run));
    FB_TRY(warn_backend(run));
    FB_TRY(warn_tasks(run));
    FB_TRY(remark_questions(run));
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
