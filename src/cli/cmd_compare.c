/* cmd_compare.c - which differences are real.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/results.h"
#include "report/unlike.h"

#include <string.h>

enum { EXPERIMENT, ACROSS, BASELINE, CONFIDENCE, MARGIN, RESAMPLES, OUT, JSON, CSV };

static const fb_option options[] = {
    [EXPERIMENT] = FB_EXPERIMENT_OPTION,
    [ACROSS] = {.name = "across-backends",
                .type = FB_TYPE_FLAG,
                .initial = "off",
                .group = "Choose what",
                .help = "pair the cells of two RESULTS that differ in nothing but "
                        "device and precision"},
    [BASELINE] = {.name = "baseline",
                  .type = FB_TYPE_TEXT,
                  .initial = "",
                  .argument = "RULE",
                  .group = "Statistics",
                  .help = "test the others against this rule (default: the "
                          "experiment's)"},
    [CONFIDENCE] = {.name = "confidence",
                    .type = FB_TYPE_PERCENT,
                    .initial = "",
                    .low = 50,
                    .high = 99.99,
                    .argument = "PCT",
                    .group = "Statistics",
                    .help = "level of the intervals (default: the experiment's)"},
    [MARGIN] = {.name = "margin",
                .type = FB_TYPE_REAL,
                .initial = "",
                .high = 1e6,
                .argument = "X",
                .group = "Statistics",
                .help = "smallest difference that matters, in the task's unit "
                        "(default: the task's)"},
    [RESAMPLES] = {.name = "resamples",
                   .type = FB_TYPE_INT,
                   .initial = "",
                   .low = 100,
                   .high = 1000000,
                   .argument = "N",
                   .group = "Statistics",
                   .help = "bootstrap replicates (default: the experiment's)"},
    [OUT] = FB_OUT_OPTION,
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    [CSV] = {.name = "csv",
             .type = FB_TYPE_FLAG,
             .initial = "off",
             .group = "Output",
             .help = "CSV (RFC 4180); a text that a spreadsheet would take for a "
                     "formula has an apostrophe in front"},
    FB_OPTION_END,
};

static fb_status choose_format(const fb_line *line, fb_format *out)
{
    const bool json = fb_values_flag(&line->own, JSON);
    const bool csv = fb_values_flag(&line->own, CSV);

    *out = json ? FB_FORMAT_JSON : csv ? FB_FORMAT_CSV : FB_FORMAT_TEXT;
    if (!json || !csv) return FB_OK;
    return fb_fail(FB_USAGE, "--json and --csv exclude each other");
}

/* What keeps the numbers of a file apart from those of the first: in the text between
 * them, else on stderr. */
static fb_status say_unlike(const fb_open_results *open, int i, const fb_line *line,
                            fb_format format, fb_text *out)
{
    fb_text sentence = {0};
    fb_status status;

    fb_text_printf(&sentence,
                   "%s and %s are not to be compared number by number; they "
                   "differ in ",
                   line->arguments[0], line->arguments[i]);
    if (fb_say_unlike(&sentence, open[0].results, open[i].results)) {
        if (format == FB_FORMAT_TEXT) {
            fb_say_wrapped(out, fb_text_string(&sentence));
            fb_text_puts(out, "\n");
        } else {
            fb_say_warning(fb_text_string(&sentence));
        }
    }
    status = fb_text_status(&sentence);
    fb_text_clear(&sentence);
    return status;
}

static fb_status add_tables(const fb_open_results *open, const fb_line *line,
                            fb_format format, fb_text *out)
{
    for (int i = 0; i < line->n_arguments; i++) {
        char *text = NULL;

        if (i > 0 && format == FB_FORMAT_TEXT) fb_text_puts(out, "\n");
        if (i > 0) FB_TRY(say_unlike(open, i, line, format, out));
        FB_TRY(fb_analysis_print(open[i].analysis, format, &text));
        fb_text_puts(out, text);
        fb_free(text);
    }
    return FB_OK;
}

/* The two of them, each with its own experiment, cell by cell. */
static fb_status add_across(const fb_open_results *open, const fb_line *line,
                            const fb_analysis_options *asked, fb_format format,
                            fb_text *out)
{
    fb_across *across = NULL;
    char *text = NULL;
    fb_status status;

    FB_TRY(fb_results_across(&across, open, line, asked));
    status = fb_across_print(across, format, &text);
    if (status == FB_OK) fb_text_puts(out, text);
    fb_free(text);
    fb_across_free(across);
    return status;
}

static fb_status check_across(const fb_line *line)
{
    if (!fb_values_flag(&line->own, ACROSS) || line->n_arguments == 2) return FB_OK;
    return fb_fail(
        FB_USAGE, "--across-backends compares two RESULTS with each other; %d %s given",
        line->n_arguments, fb_plural(line->n_arguments, "is", "are"));
}

static fb_status compare(const fb_line *line)
{
    const fb_values *v = &line->own;
    const char *baseline = fb_values_text(v, BASELINE), *out = fb_values_text(v, OUT);
    const fb_analysis_options asked = {
        .baseline = baseline[0] != '\0' ? baseline : NULL,
        .confidence = fb_values_real(v, CONFIDENCE) / 100,
        .replicates = (int)fb_values_int(v, RESAMPLES),
        .margin = fb_values_real(v, MARGIN),
    };
    fb_open_results *open;
    fb_format format;
    fb_text text = {0};
    fb_status status;

    FB_TRY(choose_format(line, &format));
    FB_TRY(check_across(line));
    FB_TRY(fb_results_open(&open, line, fb_values_text(v, EXPERIMENT), out, &asked));
    status = fb_values_flag(v, ACROSS) ? add_across(open, line, &asked, format, &text)
                                       : add_tables(open, line, format, &text);
    fb_results_close(open, line->n_arguments);
    return fb_write_result(status, &text, out);
}

static int run(const fb_line *line)
{
    return fb_say_end(compare(line));
}

const fb_command fb_command_compare = {
    .name = "compare",
    .arguments = "RESULTS...",
    .summary = "which differences are real",
    .about =
        "Prints scores with intervals, paired differences from a baseline, and groups "
        "of rules that cannot be told apart. Only samples that all compared rules have "
        "are used; what is left out is said. Several files: a part for each; numbers "
        "of "
        "two backends are never in one table. --across-backends asks whether the "
        "backend changes anything: kept sets, answers and scores of two runs, cell by "
        "cell.",
    .reading = (const char *const[]){FB_LETTER_WORDS, FB_QUOTA_WORDS, FB_MEMORY_WORDS,
                                     FB_ACROSS_WORDS, FB_CLASS_WORDS,
                                     FB_SIGNATURE_WORDS, NULL},
    .examples = "flexbudget compare results.db --baseline h2o\n"
                "flexbudget compare cpu.db gpu.db --across-backends\n"
                "flexbudget compare results.db --json",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
