/* run.c - what is left to do, document by document.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "experiment/run_inside.h"

#include <string.h>

/* --- telling --- */

static int64_t estimate_left(const fb_runner *run)
{
    const double done = run->work_done;
    const double ns = (double)(fb_time_ns() - run->begin_ns);

    if (done <= 0 || run->work <= 0) return -1;
    return (int64_t)(ns * (run->work - done) / done);
}

void fb_run_tell(fb_runner *run, const char *event, const char *text)
{
    fb_run_progress *now = &run->progress;

    if (run->options->watch == NULL) return;
    now->event = event;
    now->text = text;
    now->ns = fb_time_ns() - run->begin_ns;
    now->left_ns = estimate_left(run);
    run->options->watch(run->options->self, now);
}

static void tell_warning(void *self, const char *sentence)
{
    fb_run_tell(self, "warning", sentence);
}

fb_status fb_run_check_stop(const fb_runner *run)
{
    const int64_t limit = run->options->max_seconds;

    if (run->options->stop != NULL && *run->options->stop != 0)
        return fb_fail(FB_STOPPED, "stopped on request");
    if (limit > 0 && fb_time_ns() - run->begin_ns >= limit * 1000000000)
        return fb_fail(FB_STOPPED, "stopped after %lld s, as asked", (long long)limit);
    return FB_OK;
}

/* --- what is left --- */

/* Tokens that a cell makes the model see, for the estimate. */
double fb_run_cell_work(const fb_runner *run, const fb_cell *cell)
{
    const fb_plan_sample *sample = &run->plan->samples[cell->sample];
    const fb_choices *choices =
        fb_bound_rule_choices(run->plan->spec->rules[cell->rule].rule);
    int64_t read = 0;

    if (fb_spec_streams(run->plan->spec))
        read =
            run->plan->documents[sample->document].context.n /
            run->plan->documents[sample->document].n_samples; /* often once for all */
    if (choices->reference == FB_REFERENCE_REREAD) read = cell->k;
    return (double)(read + sample->prompt.n + sample->answer.n);
}

static fb_status find_todo(fb_runner *run, int document)
{
    fb_todo *todo = &run->todo[document];
    int kept = 0;

    FB_TRY(
        fb_plan_cells(run->plan, document, run->options->only, &todo->cells, &todo->n));
    run->progress.n_cells += todo->n;
    for (int i = 0; i < todo->n; i++) {
        const fb_store_cell identity = fb_run_identity(run, &todo->cells[i]);
        bool is_there = false;

        FB_TRY(fb_store_has_cell(run->store, &identity, &is_there));
        if (is_there) continue;
        todo->cells[kept++] = todo->cells[i];
        run->work += fb_run_cell_work(run, &todo->cells[i]);
    }
    run->progress.cells_before += todo->n - kept;
    todo->n = kept;
    if (kept > 0)
        run->work += (double)run->plan->documents[document].context.n;
    else
        run->progress.documents++;
    return FB_OK;
}

static fb_status find_all_todo(fb_runner *run)
{
    const int n = run->plan->n_documents;

    run->todo = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n, sizeof *run->todo));
    run->has_failed =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)run->plan->spec->n_rules,
                                                sizeof *run->has_failed));
    if (run->todo == NULL || run->has_failed == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for the run");
    run->progress.n_documents = n;
    for (int i = 0; i < n; i++)
        FB_TRY(find_todo(run, i));
    run->progress.cells = run->progress.cells_before;
    run->result->n_cells = run->progress.n_cells;
    run->result->before = run->progress.cells_before;
    if (run->progress.cells == run->progress.n_cells) return FB_OK;
    return fb_store_reopen(run->store, run->rows.experiment, fb_class_unfinished);
}

/* --- the loop --- */

static fb_status run_documents(fb_runner *run)
{
    for (int i = 0; i < run->plan->n_documents; i++) {
        if (run->todo[i].n == 0) continue;
        FB_TRY(fb_run_check_stop(run));
        run->document = i;
        FB_TRY(fb_run_document(run));
        run->progress.documents++;
        fb_run_tell(run, "read", NULL);
    }
    return FB_OK;
}

void fb_run_reset_peaks(fb_runner *run)
{
    size_t bytes = 0;

    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        bytes += fb_memory_peak((fb_account)a);
    if (bytes > run->result->peak_bytes) run->result->peak_bytes = bytes;
    fb_memory_reset_peaks();
}

fb_engine_options fb_run_engine_options(const fb_plan *plan)
{
    return (fb_engine_options){
        .cache = plan->shape.type,
        .compact = fb_values_is(&plan->spec->values, FB_SET_positions, "compact"),
        .turn_end = plan->template.after};
}

static fb_status run_all(fb_runner *run)
{
    const fb_engine_options options = fb_run_engine_options(run->plan);

    FB_TRY(fb_run_check_memory(run->plan, run->options)); /* before a file is made */
    run->limit = fb_run_limit(run->plan, run->options);
    FB_TRY(fb_run_open_rows(run));
    FB_TRY(find_all_todo(run));
    FB_TRY(fb_engine_open(&run->engine, run->ops, run->plan->model, &options));
    fb_run_tell(run, "begin", NULL);
    fb_plan_warn(run->plan, run->options->only, tell_warning, run);
    FB_TRY(run_documents(run));
    return fb_run_finish(run);
}

static void close_run(fb_runner *run)
{
    fb_engine_close(run->engine);
    for (int i = 0; run->todo != NULL && i < run->plan->n_documents; i++)
        fb_free(run->todo[i].cells);
    fb_free(run->todo);
    fb_free(run->has_failed);
    fb_run_close_rows(run);
}

fb_status fb_run(const fb_plan *plan, fb_ops *ops, const fb_run_options *options,
                 fb_run_result *result)
{
    fb_runner run = {.plan = plan,
                     .options = options,
                     .result = result,
                     .ops = ops,
                     .begin_ns = fb_time_ns()};
    fb_status status;

    *result = (fb_run_result){0};
    status = run_all(&run);
    result->ns = fb_time_ns() - run.begin_ns;
    fb_run_reset_peaks(&run);
    if (run.progress.event != NULL) fb_run_tell(&run, "end", NULL);
    close_run(&run);
    if (status == FB_OK && result->failed > 0)
        status = fb_fail(FB_DEFECT, "%lld of %lld %s failed: %s",
                         (long long)result->failed, (long long)result->n_cells,
                         fb_plural(result->n_cells, "cell", "cells"), result->reason);
    return status;
}
