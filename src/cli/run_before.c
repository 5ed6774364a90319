/* run_before.c - what `run` says before it computes: configuration, plan, first line.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "cli/opening.h"
#include "cli/peer_notes.h"
#include "cli/run_job.h"
#include "experiment/outline.h"

#include <stdio.h>
#include <string.h>

/* --- --print-config --- */

fb_status fb_job_print_config(const fb_job *job, fb_text *out)
{
    char sha256[FB_HASH_HEX];

    FB_TRY(fb_spec_hash(job->spec, sha256));
    fb_text_printf(out, "# spec %s\n", sha256);
    if (job->plan != NULL)
        fb_plan_match_notes(job->plan, fb_open_warn, NULL);
    else if (fb_values_is(&job->spec->values, FB_SET_compute, "matched"))
        fb_text_puts(out,
                     "# rules as written: what a quota leaves of them is known with "
                     "the model\n");
    return fb_spec_print(job->spec, true, out);
}

/* --- the plan --- */

static void add_count(fb_text *out, int64_t n, const char *one, const char *many)
{
    char count[32];

    fb_print_count(n, count, sizeof count);
    fb_text_printf(out, "%s %s", count, fb_plural(n, one, many));
}

static void add_grid(const fb_job *job, const fb_outline *outline, fb_text *out)
{
    const fb_spec *spec = job->spec;

    fb_text_printf(out, "%s  ", fb_values_text(&spec->values, FB_SET_name));
    fb_open_say_model(out, spec, fb_model_get_facts(job->model));
    fb_text_puts(out, "  ");
    add_count(out, spec->n_rules, "rule", "rules");
    fb_text_puts(out, " x ");
    add_count(out, spec->n_budgets, "budget", "budgets");
    fb_text_puts(out, " x ");
    add_count(out, outline->samples, "sample", "samples");
    fb_text_puts(out, ": ");
    add_count(out, outline->cells, "cell", "cells");
    fb_text_puts(out, "; ");
    add_count(out, outline->contexts, "context", "contexts");
    fb_text_puts(out,
                 fb_spec_streams(spec) ? " read anew by each cell\n" : " read once\n");
}

static void add_tasks(const fb_job *job, fb_text *out)
{
    for (int i = 0; i < job->spec->n_tasks; i++) {
        const fb_plan_task *task = &job->plan->tasks[i];

        fb_text_printf(out, "  task %-14s ",
                       fb_bound_task_get(job->spec->tasks[i])->name);
        add_count(out, task->documents, "document", "documents");
        fb_text_puts(out, ", ");
        add_count(out, task->samples, "sample", "samples");
        fb_text_printf(out, ", by %s", fb_bound_task_metric(job->spec->tasks[i])->name);
        if (task->cut > 0)
            fb_text_printf(out, "; %lld cut in the middle", (long long)task->cut);
        if (task->rejected > 0) {
            fb_text_puts(out, "; ");
            add_count(out, task->rejected, "record", "records");
            fb_text_puts(out, " skipped");
        }
        fb_text_puts(out, "\n");
    }
}

static void add_memory(const fb_outline *outline, fb_text *out)
{
    char weights[32], full[32], tail[32];

    fb_print_size(outline->weight_bytes, weights, sizeof weights);
    fb_print_size(outline->full_bytes, full, sizeof full);
    fb_print_size(outline->tail_bytes, tail, sizeof tail);
    fb_text_printf(out, "  memory: weights %s, full cache %s (", weights, full);
    add_count(out, outline->longest, "token", "tokens");
    fb_text_puts(out, "), ");
    if (outline->window_bytes > 0) {
        fb_print_size(outline->window_bytes, full, sizeof full);
        fb_text_printf(out, "windows of sliding layers %s, ", full);
    }
    fb_text_printf(out, "question and answer up to %s per variant\n", tail);
}

static fb_status add_time(const fb_job *job, const fb_outline *outline, fb_text *out)
{
    const double flops = outline->read_flops + outline->answer_flops;
    char answered[32], time[FB_TIME_SHORT];
    double speed = 0;

    FB_TRY(fb_outline_speed(job->ops, &speed));
    fb_time_print((int64_t)(flops / speed * 1e9), time);
    fb_print_count((int64_t)outline->answer_tokens, answered, sizeof answered);
    fb_text_puts(out, "  work: ");
    add_count(out, (int64_t)outline->read_tokens, "token", "tokens");
    fb_text_printf(out,
                   " read, %s answered, %.3g GFLOP; at the %.3g GFLOP/s measured now "
                   "about %s\n",
                   answered, flops / 1e9, speed / 1e9, time);
    return FB_OK;
}

/* Warnings about the data of the tasks, notes about rules. */
static void say_notes(const fb_job *job)
{
    fb_say_peers(job->line);
    fb_plan_match_notes(job->plan, fb_open_warn, NULL);
    for (int i = 0; i < job->spec->n_tasks; i++)
        fb_plan_notes(job->plan, i, fb_open_warn, NULL);
}

static fb_status make_outline(fb_outline *out, const fb_job *job)
{
    FB_TRY(fb_outline_make(out, job->plan, job->only));
    if (out->cells > 0) return FB_OK;
    return fb_fail(FB_USAGE,
                   "filter '%s': no cell of this experiment passes\n"
                   "help: KEY=PATTERN with the keys rule, task, sample, budget or "
                   "seed; patterns have * and ?",
                   fb_values_text(&job->line->own, FB_JOB_only));
}

fb_status fb_job_print_plan(const fb_job *job, fb_text *out)
{
    fb_outline outline;

    FB_TRY(make_outline(&outline, job));
    say_notes(job);
    add_grid(job, &outline, out);
    add_tasks(job, out);
    add_memory(&outline, out);
    FB_TRY(add_time(job, &outline, out));
    fb_text_printf(out, "  results would be in %s; nothing was computed\n", job->out);
    return FB_OK;
}

/* --- a run --- */

fb_status fb_job_say_begin(const fb_job *job)
{
    fb_outline outline;
    fb_text text = {0};

    FB_TRY(make_outline(&outline, job));
    add_grid(job, &outline, &text);
    if (text.n > 0) fb_say_note("%.*s", (int)text.n - 1, text.bytes);
    fb_text_clear(&text);
    say_notes(job);
    return FB_OK;
}
