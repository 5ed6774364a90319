/* run_after.c - what `run` says in the end: the summary, and what failed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/time.h"
#include "cli/run_job.h"

static void add_summary(const fb_job *job, const fb_run_result *r, fb_status status,
                        fb_text *out)
{
    char cells[32], all[32], time[FB_TIME_SHORT], peak[32];

    fb_print_count(r->before + r->done, cells, sizeof cells);
    fb_print_count(r->n_cells, all, sizeof all);
    fb_time_print(r->ns, time);
    fb_print_size((double)r->peak_bytes, peak, sizeof peak);
    fb_text_printf(out, "%s %s: %s of %s %s",
                   status == FB_STOPPED ? "stopped after" : "done in", time, cells, all,
                   fb_plural(r->n_cells, "cell", "cells"));
    if (r->before > 0) fb_text_printf(out, " (%lld before)", (long long)r->before);
    fb_text_printf(out, ", %lld with fallback, %lld failed; peak %s\n",
                   (long long)r->fallback, (long long)r->failed, peak);
    if (r->digest[0] != '\0') fb_text_printf(out, "digest %s\n", r->digest);
    fb_text_printf(out, "results %s   ", job->out);
    if (status == FB_STOPPED) {
        fb_text_puts(out, "the same command continues\n");
    } else {
        fb_text_printf(out, "next: %s compare ", fb_say_program());
        fb_text_add_quoted(out, job->out);
        fb_text_puts(out, "\n");
    }
}

static void add_json(const fb_job *job, const fb_run_result *r, fb_status status,
                     fb_text *out)
{
    fb_text_puts(out, "{\"format\": 1, \"results\": ");
    fb_json_add_string(out, job->out);
    fb_text_printf(out,
                   ", \"cells\": %lld, \"done\": %lld, \"before\": %lld, \"failed\": "
                   "%lld, \"fallback\": %lld, \"seconds\": %.3f, \"peak_bytes\": %zu, "
                   "\"digest\": \"%s\", \"stopped\": %s}\n",
                   (long long)r->n_cells, (long long)r->done, (long long)r->before,
                   (long long)r->failed, (long long)r->fallback, (double)r->ns / 1e9,
                   r->peak_bytes, r->digest, status == FB_STOPPED ? "true" : "false");
}

/* With the command that tries the first of them again. */
static int say_failed(const fb_run_result *r)
{
    fb_text only = {0}, sentence = {0};

    fb_text_printf(&only, "rule=%s,sample=%s", r->failed_rule, r->failed_sample);
    fb_text_printf(&sentence,
                   "%lld %s failed; the first: rule '%s', sample %s: %s\n"
                   "help: flexbudget run ... --only ",
                   (long long)r->failed, fb_plural(r->failed, "cell", "cells"),
                   r->failed_rule, r->failed_sample, r->reason);
    fb_text_add_quoted(&sentence, fb_text_string(&only));
    fb_say_error(fb_text_string(&sentence));
    fb_text_clear(&only);
    fb_text_clear(&sentence);
    return fb_status_exit_code(FB_DEFECT);
}

/* What is stored is said, also where it is not all. */
int fb_job_say_end(const fb_job *job, const fb_run_result *result, fb_status status)
{
    const bool json = fb_values_flag(&job->line->own, FB_JOB_json);
    const bool is_whole = status == FB_OK || status == FB_STOPPED;
    fb_text text = {0};
    fb_status written;

    /* A run that was cut short says by what, not which cells had failed before. That
     * cells failed is a FB_DEFECT of its own. */
    if (!is_whole && status != FB_DEFECT) return fb_say_end(status);
    if (is_whole || result->failed > 0) {
        (json ? add_json : add_summary)(job, result, status, &text);
        written = fb_write_result(FB_OK, &text, "");
        if (written != FB_OK) return fb_say_end(written);
    }
    if (result->failed > 0) return say_failed(result);
    return is_whole ? fb_status_exit_code(status) : fb_say_end(status);
}
