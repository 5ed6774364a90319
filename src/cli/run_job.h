/* run_job.h - what is open during the command `run`, and what it says.
 *
 * Before: the effective file, the plan of a dry run, the line that a run begins with
 * (run_before.c). During: progress.h. After: the summary and what failed (run_after.c).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_RUN_JOB_H
#define FB_CLI_RUN_JOB_H

#include "cli/cli.h"
#include "experiment/run.h"

/* The command's own options, in the order of its table. */
enum {
    FB_JOB_set,
    FB_JOB_out,
    FB_JOB_add,
    FB_JOB_dry_run,
    FB_JOB_print_config,
    FB_JOB_only,
    FB_JOB_max_time,
    FB_JOB_fail_fast,
    FB_JOB_progress,
    FB_JOB_json,
};

typedef struct fb_job {
    const fb_line *line;
    fb_spec *spec;
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
    fb_filter *only;
    char *out;      /* path of the results */
    int n_problems; /* said so far */
} fb_job;

/* The effective experiment file, with sources, and its hash. */
FB_MUST_USE fb_status fb_job_print_config(const fb_job *job, fb_text *out);
/* What a run would do, need and take. FB_USAGE if no cell passes the filter. */
FB_MUST_USE fb_status fb_job_print_plan(const fb_job *job, fb_text *out);
/* The grid in one line on stderr. FB_USAGE as above. */
FB_MUST_USE fb_status fb_job_say_begin(const fb_job *job);
/* The summary on stdout, failures on stderr; the exit code. */
int fb_job_say_end(const fb_job *job, const fb_run_result *result, fb_status status);

#endif
