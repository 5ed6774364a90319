/* cmd_run.c - runs an experiment, or continues it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "experiment/outline.h"
#include "experiment/run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SET,
    OUT,
    ADD,
    DRY_RUN,
    PRINT_CONFIG,
    ONLY,
    MAX_TIME,
    FAIL_FAST,
    PROGRESS,
    JSON,
};

#define WHERE "Where to"
#define MUCH  "How much"
#define SHOWN "How it is shown"

static const fb_option options[] = {
    [SET] = {.name = "set",
             .type = FB_TYPE_TEXT,
             .initial = "",
             .argument = "KEY=VALUE",
             .group = WHERE,
             .help = "any key of the experiment file by its path; may be repeated"},
    [OUT] = {.name = "out",
             .letter = 'o',
             .type = FB_TYPE_TEXT,
             .initial = "",
             .argument = "FILE",
             .group = WHERE,
             .help = "results; default: the name of FILE or of the experiment, .db"},
    [ADD] = {.name = "add",
             .type = FB_TYPE_FLAG,
             .initial = "off",
             .group = WHERE,
             .help = "store beside another experiment in the same file"},
    [DRY_RUN] = {.name = "dry-run",
                 .type = FB_TYPE_FLAG,
                 .initial = "off",
                 .group = MUCH,
                 .help = "plan, memory, time and every refusal; computes nothing"},
    [PRINT_CONFIG] = {.name = "print-config",
                      .type = FB_TYPE_FLAG,
                      .initial = "off",
                      .group = MUCH,
                      .help = "the effective experiment file, with sources"},
    [ONLY] = {.name = "only",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "FILTER",
              .group = MUCH,
              .help = "cells as 'rule=snapkv*,task=needle,sample=needle/3,budget=20%'; "
                      "keys are rule, task, sample, budget and seed; a comma before "
                      "anything else belongs to the value"},
    [MAX_TIME] = {.name = "max-time",
                  .type = FB_TYPE_TIME,
                  .initial = "",
                  .argument = "TIME",
                  .group = MUCH,
                  .help = "stop after 90s, 15m, 2h; the same command continues"},
    [FAIL_FAST] = {.name = "fail-fast",
                   .type = FB_TYPE_FLAG,
                   .initial = "off",
                   .group = MUCH,
                   .help = "stop at the first cell that fails"},
    [PROGRESS] = {.name = "progress",
                  .type = FB_TYPE_WORD,
                  .initial = "auto",
                  .words = "auto|bar|lines|json|none",
                  .argument = "FORM",
                  .group = SHOWN,
                  .help = "on stderr"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = SHOWN,
              .help = "the summary as JSON"},
    FB_OPTION_END,
};

/* --- stopping --- */

static volatile sig_atomic_t stop_asked;

/* The first request lets open cells finish, a second interrupt does not. */
static void on_signal(int number)
{
    if (stop_asked != 0 && number == SIGINT) _exit(130);
    stop_asked = 1;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    (void)sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
}

/* --- what is open during the command --- */

typedef struct job {
    const fb_line *line;
    fb_spec *spec;
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
    fb_filter *only;
    char *out; /* path of the results */
    int n_problems;
    fb_status first; /* status of the first problem */
} job;

static bool flag(const job *j, int option)
{
    return fb_values_flag(&j->line->own, option);
}

static void problem(void *self, const char *sentence)
{
    job *j = self;

    j->n_problems++;
    fb_say_error(sentence);
}

/* A failure that `problem` has not said yet is said; the exit code. */
static int fail(const job *j, fb_status status)
{
    if (j->n_problems == 0) return fb_say_failure(status);
    return fb_status_exit_code(status);
}

static fb_status read_settings(job *j)
{
    if (j->line->n_arguments > 0) FB_TRY(fb_spec_read(j->spec, j->line->arguments[0]));
    return fb_spec_environment(j->spec);
}

/* NAME.db: of the file's name, else of the experiment's. */
static fb_status choose_out(job *j)
{
    const char *asked = fb_values_text(&j->line->own, OUT);
    const char *name = fb_values_text(&j->spec->values, FB_SET_name);
    fb_text text = {0};

    fb_text_init(&text, 0);
    if (asked[0] != '\0') {
        fb_text_puts(&text, asked);
    } else if (j->line->n_arguments > 0) {
        const char *slash = strrchr(j->line->arguments[0], '/');
        const char *file = slash == NULL ? j->line->arguments[0] : slash + 1;
        const char *dot = strrchr(file, '.');

        fb_text_add(&text, file, dot == NULL ? strlen(file) : (size_t)(dot - file));
        fb_text_puts(&text, ".db");
    } else {
        fb_text_printf(&text, "%s.db", name);
    }
    j->out = fb_strdup(fb_text_string(&text));
    fb_text_clear(&text);
    return j->out != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "no memory for a path");
}

static fb_status open_ops(job *j)
{
    const fb_values *values = &j->spec->values;
    const int64_t threads = fb_values_int(values, FB_SET_threads);
    const char *isa = fb_values_text(values, FB_SET_isa);
    const fb_ops_options ops_options = {
        .isa = strcmp(isa, "auto") == 0 ? NULL : isa,
        .threads = threads > 0 ? (int)threads : 0,
    };

    return fb_ops_open(&j->ops, &ops_options);
}

/* With weights if it is going to run. */
static fb_status open_model(job *j, bool with_weights)
{
    const char *name = fb_values_text(&j->spec->values, FB_SET_model);
    char *path = NULL;
    fb_status status = fb_model_find(&path, name);

    if (status == FB_OK && with_weights) status = open_ops(j);
    if (status == FB_OK)
        status = fb_model_open(&j->model, with_weights ? j->ops : NULL, path);
    fb_free(path);
    if (status != FB_OK) return status;
    return fb_spec_bind_model(j->spec, fb_model_get_facts(j->model));
}

static void close_job(job *j)
{
    fb_plan_free(j->plan);
    fb_model_close(j->model);
    fb_ops_close(j->ops);
    fb_filter_free(j->only);
    fb_free(j->out);
}

/* --- --print-config --- */

static fb_status print_config(job *j)
{
    char sha256[FB_HASH_HEX];
    fb_text text = {0};
    fb_status status;

    fb_text_init(&text, 0);
    status = fb_spec_hash(j->spec, sha256);
    if (status == FB_OK) {
        fb_text_printf(&text, "# spec %s\n", sha256);
        status = fb_spec_print(j->spec, true, &text);
    }
    if (status == FB_OK) status = fb_say_result(text.bytes, text.n);
    fb_text_clear(&text);
    return status;
}

/* --- --dry-run --- */

static const char *s(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void add_grid(const job *j, const fb_outline *outline, fb_text *out)
{
    const fb_spec *spec = j->spec;
    const fb_model_facts *facts = fb_model_get_facts(j->model);
    char cells[32];

    fb_print_count(outline->cells, cells, sizeof cells);
    fb_text_printf(out,
                   "%s  %s (%s, kv f32)  %d rule%s x %d budget%s x %lld sample%s: %s "
                   "cells; %lld context%s read once\n",
                   fb_values_text(&spec->values, FB_SET_name), facts->name,
                   facts->weight_types, spec->n_rules, s(spec->n_rules),
                   spec->n_budgets, s(spec->n_budgets), (long long)outline->samples,
                   s(outline->samples), cells, (long long)outline->contexts,
                   s(outline->contexts));
}

static void add_tasks(const job *j, fb_text *out)
{
    for (int i = 0; i < j->spec->n_tasks; i++) {
        const fb_plan_task *task = &j->plan->tasks[i];

        fb_text_printf(out, "  task %-14s %lld documents, %lld samples, by %s",
                       fb_bound_task_get(j->spec->tasks[i])->name,
                       (long long)task->documents, (long long)task->samples,
                       fb_bound_task_metric(j->spec->tasks[i])->name);
        if (task->cut > 0)
            fb_text_printf(out, "; %lld cut in the middle", (long long)task->cut);
        if (task->rejected > 0)
            fb_text_printf(out, "; %lld records skipped", (long long)task->rejected);
        fb_text_puts(out, "\n");
    }
}

static void add_memory(const fb_outline *outline, fb_text *out)
{
    char weights[32], full[32], tail[32];

    fb_print_size(outline->weight_bytes, weights, sizeof weights);
    fb_print_size(outline->full_bytes, full, sizeof full);
    fb_print_size(outline->tail_bytes, tail, sizeof tail);
    fb_text_printf(out,
                   "  memory: weights about %s, full cache %s (%lld tokens), question "
                   "and answer up to %s per variant\n",
                   weights, full, (long long)outline->longest, tail);
}

static fb_status add_time(job *j, const fb_outline *outline, fb_text *out)
{
    const double flops = outline->read_flops + outline->answer_flops;
    char read[32], answered[32], time[FB_TIME_SHORT];
    double speed = 0;

    FB_TRY(open_ops(j));
    FB_TRY(fb_outline_speed(j->ops, &speed));
    fb_time_print((int64_t)(flops / speed * 1e9), time);
    fb_print_count((int64_t)outline->read_tokens, read, sizeof read);
    fb_print_count((int64_t)outline->answer_tokens, answered, sizeof answered);
    fb_text_printf(out,
                   "  work: %s tokens read, %s answered, %.3g GFLOP; at the %.3g "
                   "GFLOP/s measured now about %s\n",
                   read, answered, flops / 1e9, speed / 1e9, time);
    return FB_OK;
}

static fb_status make_outline(fb_outline *out, const job *j)
{
    FB_TRY(fb_outline_make(out, j->plan, j->only));
    if (out->cells > 0) return FB_OK;
    return fb_fail(FB_USAGE,
                   "filter '%s': no cell of this experiment passes\n"
                   "help: KEY=PATTERN with the keys rule, task, sample, budget or "
                   "seed; patterns have * and ?",
                   fb_values_text(&j->line->own, ONLY));
}

static fb_status dry_run(job *j)
{
    fb_outline outline;
    fb_text text = {0};
    fb_status status;

    fb_text_init(&text, 0);
    status = make_outline(&outline, j);
    if (status == FB_OK) {
        add_grid(j, &outline, &text);
        add_tasks(j, &text);
        add_memory(&outline, &text);
        status = add_time(j, &outline, &text);
    }
    fb_text_printf(&text, "  results would be in %s; nothing was computed\n", j->out);
    if (status == FB_OK) status = fb_say_result(text.bytes, text.n);
    fb_text_clear(&text);
    return status;
}

/* --- running --- */

static fb_status say_begin(const job *j)
{
    fb_outline outline;
    fb_text text = {0};
    fb_status status;

    fb_text_init(&text, 0);
    status = make_outline(&outline, j);
    if (status == FB_OK) {
        add_grid(j, &outline, &text);
        fb_say_note("%.*s", (int)text.n - 1, text.bytes);
    }
    fb_text_clear(&text);
    return status;
}

static void add_summary(const job *j, const fb_run_result *r, fb_status status,
                        fb_text *out)
{
    char cells[32], all[32], time[FB_TIME_SHORT], peak[32];

    fb_print_count(r->before + r->done, cells, sizeof cells);
    fb_print_count(r->n_cells, all, sizeof all);
    fb_time_print(r->ns, time);
    fb_print_size((double)r->peak_bytes, peak, sizeof peak);
    fb_text_printf(out, "%s %s: %s of %s cells",
                   status == FB_STOPPED ? "stopped after" : "done in", time, cells,
                   all);
    if (r->before > 0) fb_text_printf(out, " (%lld before)", (long long)r->before);
    fb_text_printf(out, ", %lld with fallback, %lld failed; peak %s\n",
                   (long long)r->fallback, (long long)r->failed, peak);
    if (r->digest[0] != '\0') fb_text_printf(out, "digest %s\n", r->digest);
    fb_text_printf(out, "results %s   ", j->out);
    if (status == FB_STOPPED)
        fb_text_puts(out, "the same command continues\n");
    else
        fb_text_printf(out, "next: flexbudget compare %s\n", j->out);
}

static void add_json(const job *j, const fb_run_result *r, fb_status status,
                     fb_text *out)
{
    fb_text_puts(out, "{\"format\": 1, \"results\": ");
    fb_json_add_string(out, j->out);
    fb_text_printf(out,
                   ", \"cells\": %lld, \"done\": %lld, \"before\": %lld, \"failed\": "
                   "%lld, \"fallback\": %lld, \"seconds\": %.3f, \"peak_bytes\": %zu, "
                   "\"digest\": \"%s\", \"stopped\": %s}\n",
                   (long long)r->n_cells, (long long)r->done, (long long)r->before,
                   (long long)r->failed, (long long)r->fallback, (double)r->ns / 1e9,
                   r->peak_bytes, r->digest, status == FB_STOPPED ? "true" : "false");
}

/* What is stored is said, also where it is not all. */
static int say_end(const job *j, const fb_run_result *result, fb_status status)
{
    fb_text text = {0};
    fb_status written;

    /* A run that was cut short says by what, not which cells had failed before. */
    if (status == FB_IO || status == FB_NO_MEMORY) return fb_say_failure(status);
    if (status == FB_OK || status == FB_STOPPED || result->failed > 0) {
        fb_text_init(&text, 0);
        (flag(j, JSON) ? add_json : add_summary)(j, result, status, &text);
        written = fb_text_status(&text);
        if (written == FB_OK) written = fb_say_result(text.bytes, text.n);
        fb_text_clear(&text);
        if (written != FB_OK) return fb_say_failure(written);
    }
    if (result->failed > 0) {
        char sentence[1024];

        (void)snprintf(sentence, sizeof sentence,
                       "%lld cells failed; the first: rule '%s', sample %s: %s\nhelp: "
                       "flexbudget run ... --only 'rule=%s,sample=%s'",
                       (long long)result->failed, result->failed_rule,
                       result->failed_sample, result->reason, result->failed_rule,
                       result->failed_sample);
        fb_say_error(sentence);
        return fb_status_exit_code(FB_DEFECT);
    }
    return status == FB_OK || status == FB_STOPPED ? fb_status_exit_code(status)
                                                   : fb_say_failure(status);
}

static int run_plan(job *j)
{
    const int64_t memory = fb_values_int(&j->spec->values, FB_SET_memory);
    const int64_t seconds = fb_values_int(&j->line->own, MAX_TIME);
    fb_progress progress;
    fb_run_result result;
    const fb_run_options run_options = {
        .path = j->out,
        .only = j->only,
        .add = flag(j, ADD),
        .fail_fast = flag(j, FAIL_FAST),
        .max_seconds = seconds > 0 ? seconds : 0,
        .memory = memory > 0 ? memory : 0,
        .stop = &stop_asked,
        .watch = fb_progress_watch,
        .self = &progress,
    };
    fb_status status = say_begin(j);

    if (status != FB_OK) return fb_say_failure(status);
    fb_progress_open(&progress, fb_values_text(&j->line->own, PROGRESS));
    catch_signals();
    status = fb_run(j->plan, j->ops, &run_options, &result);
    return say_end(j, &result, status);
}

/* --- the command --- */

static fb_status prepare(job *j)
{
    const char *only = fb_values_text(&j->line->own, ONLY);

    FB_TRY(read_settings(j));
    if (only[0] != '\0') FB_TRY(fb_filter_parse(&j->only, only));
    FB_TRY(choose_out(j));
    return fb_spec_check(j->spec, problem, j);
}

static int run_job(job *j)
{
    const bool computes = !flag(j, DRY_RUN) && !flag(j, PRINT_CONFIG);
    fb_status status = prepare(j);

    if (status == FB_OK) status = open_model(j, computes);
    if (status == FB_NOT_FOUND && flag(j, PRINT_CONFIG) && j->n_problems == 0)
        status = FB_OK; /* printed without the hash of the model */
    if (status != FB_OK) return fail(j, status);
    if (flag(j, PRINT_CONFIG)) {
        status = print_config(j);
        return status == FB_OK ? 0 : fail(j, status);
    }
    status = fb_plan_new(&j->plan, j->spec, j->model, problem, j);
    if (status != FB_OK) return fail(j, status);
    if (computes) return run_plan(j);
    status = dry_run(j);
    return status == FB_OK ? 0 : fail(j, status);
}

static int run(const fb_line *line)
{
    job j = {.line = line, .spec = line->spec};
    const int code = run_job(&j);

    close_job(&j);
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
                "flexbudget run --model builtin --tasks recall --rules "
                "full,random,snapkv:window=16 --budgets 25%\n"
                "flexbudget run experiments/default.yaml --dry-run --samples 4",
    .codes = "3 stopped on request, 130 second Ctrl-C",
    .options = options,
    .has_settings = true,
    .most = 1,
    .run = run,
};
