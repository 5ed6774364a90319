/* cmd_run.c - runs an experiment, or continues it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/opening.h"
#include "cli/progress.h"
#include "cli/run_job.h"
#include "experiment/match.h"
#include "store/store.h"

#include <string.h>

#define WHERE "Where to"
#define MUCH  "How much"
#define SHOWN "How it is shown"

static const fb_option options[] = {
    [FB_JOB_set] = {.name = "set",
                    .type = FB_TYPE_TEXT,
                    .initial = "",
                    .argument = "KEY=VALUE",
                    .group = WHERE,
                    .help =
                        "any key of the experiment file by its path; may be repeated"},
    [FB_JOB_out] = {.name = "out",
                    .letter = 'o',
                    .type = FB_TYPE_TEXT,
                    .initial = "",
                    .argument = "FILE",
                    .group = WHERE,
                    .help =
                        "results; default: the name of FILE or of the experiment, .db"},
    [FB_JOB_add] = {.name = "add",
                    .type = FB_TYPE_FLAG,
                    .initial = "off",
                    .group = WHERE,
                    .help = "store beside another experiment in the same file"},
    [FB_JOB_dry_run] = {.name = "dry-run",
                        .type = FB_TYPE_FLAG,
                        .initial = "off",
                        .group = MUCH,
                        .help =
                            "plan, memory, time, and what a run would refuse before it "
                            "computes"},
    [FB_JOB_print_config] = {.name = "print-config",
                             .type = FB_TYPE_FLAG,
                             .initial = "off",
                             .group = MUCH,
                             .help = "the effective experiment file, with sources"},
    [FB_JOB_only] =
        {.name = "only",
         .type = FB_TYPE_TEXT,
         .initial = "",
         .argument = "FILTER",
         .group = MUCH,
         .help = "cells as 'rule=snapkv*,task=needle,sample=needle/3,budget=20%'; "
                 "keys are rule, task, sample, budget and seed; a comma before "
                 "anything else belongs to the value"},
    [FB_JOB_max_time] = {.name = "max-time",
                         .type = FB_TYPE_TIME,
                         .initial = "",
                         .argument = "TIME",
                         .group = MUCH,
                         .help = "stop after 90s, 15m, 2h; the same command continues"},
    [FB_JOB_fail_fast] = {.name = "fail-fast",
                          .type = FB_TYPE_FLAG,
                          .initial = "off",
                          .group = MUCH,
                          .help = "stop at the first cell that fails"},
    [FB_JOB_progress] = {.name = "progress",
                         .type = FB_TYPE_WORD,
                         .initial = "auto",
                         .words = "auto|bar|lines|json|none",
                         .argument = "FORM",
                         .group = SHOWN,
                         .help = "on stderr: auto (bar on a terminal, else lines), "
                                 "bar, lines, json or none"},
    [FB_JOB_json] = {.name = "json",
                     .type = FB_TYPE_FLAG,
                     .initial = "off",
                     .group = SHOWN,
                     .help = "the summary as JSON"},
    FB_OPTION_END,
};

/* --- opening --- */

static bool flag(const fb_job *job, int option)
{
    return fb_values_flag(&job->line->own, option);
}

static fb_status read_settings(fb_job *job)
{
    const char *file = job->line->n_arguments > 0 ? job->line->arguments[0] : NULL;

    if (file != NULL && fb_store_is_at(file))
        return fb_fail(FB_USAGE,
                       "'%s' holds results, not an experiment; `compare` shows them, "
                       "and the command that began them, with -o '%s', continues\n"
                       "help: flexbudget help compare",
                       file, file);
    if (file != NULL) FB_TRY(fb_spec_read(job->spec, file));
    return fb_open_environment(job->spec);
}

/* NAME.db: of the file's name, else of the experiment's. */
static fb_status choose_out(fb_job *job)
{
    const char *asked = fb_values_text(&job->line->own, FB_JOB_out);
    const char *name = fb_values_text(&job->spec->values, FB_SET_name);
    fb_text text = {0};

    if (asked[0] == '\0' && job->line->own.value[FB_JOB_out].origin == FB_FROM_COMMAND)
        return fb_fail(FB_USAGE,
                       "--out '': the name of the results is empty; leave the "
                       "option out for %s.db",
                       name);
    fb_text_init(&text, 0);
    if (asked[0] != '\0') {
        fb_text_puts(&text, asked);
    } else if (job->line->n_arguments > 0) {
        const char *slash = strrchr(job->line->arguments[0], '/');
        const char *file = slash == NULL ? job->line->arguments[0] : slash + 1;
        const char *dot = strrchr(file, '.');

        fb_text_add(&text, file, dot == NULL ? strlen(file) : (size_t)(dot - file));
        fb_text_puts(&text, ".db");
    } else {
        fb_text_printf(&text, "%s.db", name);
    }
    job->out = fb_strdup(fb_text_string(&text));
    fb_text_clear(&text);
    return job->out != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a path");
}

/* With weights for a dry run too: it refuses what a run refuses, also of them. */
static fb_status open_model(fb_job *job, bool with_weights)
{
    return fb_open_model(&job->model, with_weights ? &job->ops : NULL, job->spec,
                         FB_OPEN_FOR_RESULTS);
}

static void close_job(fb_job *job)
{
    fb_plan_free(job->plan);
    fb_model_close(job->model);
    fb_ops_close(job->ops);
    fb_filter_free(job->only);
    fb_free(job->out);
}

/* --- the command --- */

static fb_run_options run_options_of(const fb_job *job)
{
    const int64_t memory = fb_values_int(&job->spec->values, FB_SET_memory);
    const int64_t seconds = fb_values_int(&job->line->own, FB_JOB_max_time);

    return (fb_run_options){
        .path = job->out,
        .only = job->only,
        .add = flag(job, FB_JOB_add),
        .fail_fast = flag(job, FB_JOB_fail_fast),
        .max_seconds = seconds > 0 ? seconds : 0,
        .memory = memory > 0 ? memory : 0,
        .stop = &fb_stop_asked,
    };
}

static int run_plan(fb_job *job)
{
    fb_run_options run_options = run_options_of(job);
    fb_progress progress;
    fb_run_result result;
    fb_status status = fb_job_say_begin(job);

    if (status != FB_OK) return fb_say_end(status);
    run_options.watch = fb_progress_watch;
    run_options.self = &progress;
    fb_progress_open(&progress, fb_values_text(&job->line->own, FB_JOB_progress));
    fb_stop_catch();
    status = fb_run(job->plan, job->ops, &run_options, &result);
    return fb_job_say_end(job, &result, status);
}

static fb_status prepare(fb_job *job)
{
    const char *only = fb_values_text(&job->line->own, FB_JOB_only);

    FB_TRY(read_settings(job));
    if (only[0] != '\0') FB_TRY(fb_filter_parse(&job->only, only));
    FB_TRY(choose_out(job));
    return fb_spec_check(job->spec, fb_open_problem, &job->n_problems);
}

/* What stdout is to show without a run. */
static fb_status print(fb_job *job, fb_text *out)
{
    const fb_run_options run_options = run_options_of(job);

    if (flag(job, FB_JOB_print_config)) return fb_job_print_config(job, out);
    FB_TRY(fb_run_check(job->plan, &run_options));
    fb_plan_warn(job->plan, job->only, fb_open_warn, NULL);
    return fb_job_print_plan(job, out);
}

static bool is_matched(const fb_job *job)
{
    return fb_values_is(&job->spec->values, FB_SET_compute, "matched");
}

/* With rules as a quota leaves them. */
static fb_status make_plan(fb_job *job)
{
    FB_TRY(fb_plan_new(&job->plan, job->spec, job->model, fb_open_problem,
                       &job->n_problems));
    return fb_match(job->plan, job->spec);
}

static int run_job(fb_job *job)
{
    const bool prints = flag(job, FB_JOB_print_config);
    const bool computes = !prints && !flag(job, FB_JOB_dry_run);
    fb_text text = {0};
    fb_status status = prepare(job);

    if (status == FB_OK) status = open_model(job, !prints);
    if (status == FB_NOT_FOUND && prints && job->n_problems == 0)
        status = FB_OK; /* printed without the hash of the model */
    if (status == FB_OK && job->model != NULL && (!prints || is_matched(job)))
        status = make_plan(job);
    if (status == FB_OK && computes) return run_plan(job);
    if (status == FB_OK) status = print(job, &text);
    return fb_open_end(fb_write_result(status, &text, ""), job->n_problems);
}

static int run(const fb_line *line)
{
    fb_job job = {.line = line, .spec = line->spec};
    const int code = run_job(&job);

    close_job(&job);
    return code;
}

const fb_command fb_command_run = {
    .name = "run",
    .arguments = "[FILE]",
    .summary = "an experiment from a YAML file or from options; or continue it",
    .about =
        "Reads every context once, lets each rule decide what stays under each budget, "
        "asks all variants as one batch, and stores each cell as soon as it is done. "
        "The same command continues where it was stopped or killed, and ends with the "
        "same digest of all cells.",
    .examples = "flexbudget run experiments/default.yaml\n"
                "flexbudget run --model builtin --tasks recall:filler=inert --rules "
                "full,random,snapkv:window=16 --budgets 25%\n"
                "flexbudget run experiments/default.yaml --dry-run --samples 4",
    .codes = "3 stopped on request, 130 second Ctrl-C",
    .options = options,
    .has_settings = true,
    .most = 1,
    .run = run,
};
