/* cmd_report.c - one HTML page.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/results.h"
#include "report/report.h"

#include <string.h>

enum { EXPERIMENT, OUT, TITLE, SAMPLES, TEXT };

static const fb_option options[] = {
    [EXPERIMENT] = FB_EXPERIMENT_OPTION,
    [OUT] = {.name = "out",
             .letter = 'o',
             .type = FB_TYPE_TEXT,
             .initial = "",
             .argument = "FILE",
             .group = "Output",
             .help = "default: the name of the first RESULTS, .html"},
    [TITLE] = {.name = "title",
               .type = FB_TYPE_TEXT,
               .initial = "",
               .argument = "TEXT",
               .group = "Output",
               .help = "default: the name of the experiment"},
    [SAMPLES] = {.name = "samples",
                 .type = FB_TYPE_INT,
                 .initial = "5",
                 .low = 1,
                 .high = 100000,
                 .words = "all",
                 .argument = "N",
                 .group = "Output",
                 .help =
                     "samples shown per task: those on which the rules differ most"},
    [TEXT] = {.name = "text",
              .type = FB_TYPE_FLAG,
              .initial = "on",
              .group = "Output",
              .help = "prompts and answers; --no-text leaves them out (private data)"},
    FB_OPTION_END,
};

/* results.db becomes results.html. */
static char *page_path(const char *results)
{
    const char *dot = strrchr(results, '.');
    const char *slash = strrchr(results, '/');
    fb_text text = {0};
    char *path;

    if (dot != NULL && slash != NULL && dot < slash) dot = NULL;
    fb_text_init(&text, 0);
    fb_text_add(&text, results,
                dot == NULL ? strlen(results) : (size_t)(dot - results));
    fb_text_puts(&text, ".html");
    path = fb_strdup(fb_text_string(&text));
    fb_text_clear(&text);
    return path;
}

static fb_status write_page(const fb_line *line, const char *path,
                            const fb_open_results *open, const fb_across *across)
{
    const char *title = fb_values_text(&line->own, TITLE);
    const int64_t samples = fb_values_int(&line->own, SAMPLES);
    const fb_report_options how = {
        .title = title[0] != '\0' ? title : NULL,
        .samples = samples > 0 ? (int)samples : FB_REPORT_ALL_SAMPLES,
        .no_text = !fb_values_flag(&line->own, TEXT),
        .across = across,
    };
    const size_t n = (size_t)line->n_arguments;
    const fb_analysis **analyses =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul(n, sizeof(fb_analysis *)));
    fb_status status;

    if (analyses == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a page");
    for (size_t i = 0; i < n; i++)
        analyses[i] = open[i].analysis;
    status = fb_report_write(path, analyses, (int)n, &how);
    fb_free(analyses);
    return status;
}

/* NULL unless they are one experiment on two backends. */
static fb_status open_across(fb_across **out, const fb_line *line,
                             const fb_open_results *open)
{
    bool are_across;

    FB_TRY(fb_results_are_across(open, line->n_arguments, &are_across));
    return are_across ? fb_results_across(out, open, line, NULL) : FB_OK;
}

static fb_status report(const fb_line *line)
{
    const char *experiment = fb_values_text(&line->own, EXPERIMENT);
    const char *asked = fb_values_text(&line->own, OUT);
    char *path = asked[0] != '\0' ? fb_strdup(asked) : page_path(line->arguments[0]);
    fb_open_results *open = NULL;
    fb_across *across = NULL;
    fb_status status = FB_OK;

    if (path == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for a page");
    if (status == FB_OK) status = fb_results_open(&open, line, experiment, path, NULL);
    if (status == FB_OK) status = open_across(&across, line, open);
    if (status == FB_OK) status = write_page(line, path, open, across);
    if (status == FB_OK) fb_say_note("wrote %s", path);
    fb_across_free(across);
    fb_results_close(open, line->n_arguments);
    fb_free(path);
    return status;
}

static int run(const fb_line *line)
{
    return fb_say_end(report(line));
}

const fb_command fb_command_report = {
    .name = "report",
    .arguments = "RESULTS...",
    .summary = "one HTML page: plots, tables, answers, what it rests on",
    .about = "Writes one file that opens from disk, without network, and is readable "
             "without JavaScript. Several results: a part for each; of one experiment "
             "on two "
             "backends also what they differ in.",
    .examples = "flexbudget report results.db -o report.html\n"
                "flexbudget report results.db --no-text",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
