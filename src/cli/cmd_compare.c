/* cmd_compare.c - which differences are real.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/results.h"

#include <string.h>

enum { EXPERIMENT, BASELINE, CONFIDENCE, MARGIN, RESAMPLES, OUT, JSON, CSV };

static const fb_option options[] = {
    [EXPERIMENT] = {.name = "experiment",
                    .type = FB_TYPE_TEXT,
                    .initial = "",
                    .argument = "NAME|HASH",
                    .group = "Choose what",
                    .help = "of a file with several, by name or the beginning of the "
                            "hash (default: the newest)"},
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
    [OUT] = {.name = "out",
             .letter = 'o',
             .type = FB_TYPE_TEXT,
             .initial = "",
             .argument = "FILE",
             .group = "Output",
             .help = "write there instead of stdout"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    [CSV] = {.name = "csv",
             .type = FB_TYPE_FLAG,
             .initial = "off",
             .group = "Output",
             .help = "CSV (RFC 4180)"},
    FB_OPTION_END,
};

static fb_status add_file(const fb_line *line, const char *path, fb_format format,
                          fb_text *out)
{
    const fb_values *v = &line->own;
    const char *baseline = fb_values_text(v, BASELINE);
    const fb_analysis_options asked = {
        .baseline = baseline[0] != '\0' ? baseline : NULL,
        .confidence = fb_values_real(v, CONFIDENCE) / 100,
        .replicates = (int)fb_values_int(v, RESAMPLES),
        .margin = fb_values_real(v, MARGIN),
    };
    fb_open_results open;
    char *text = NULL;
    fb_status status =
        fb_results_open(&open, path, fb_values_text(v, EXPERIMENT), &asked);

    if (status == FB_OK) status = fb_analysis_print(open.analysis, format, &text);
    if (status == FB_OK) fb_text_puts(out, text);
    fb_free(text);
    fb_results_close(&open);
    return status;
}

static fb_status compare(const fb_line *line)
{
    const bool json = fb_values_flag(&line->own, JSON);
    const bool csv = fb_values_flag(&line->own, CSV);
    const fb_format format = json  ? FB_FORMAT_JSON
                             : csv ? FB_FORMAT_CSV
                                   : FB_FORMAT_TEXT;
    const char *out = fb_values_text(&line->own, OUT);
    fb_text text = {0};
    fb_status status = FB_OK;

    if (json && csv) return fb_fail(FB_USAGE, "--json and --csv exclude each other");
    FB_TRY(fb_results_spare(out));
    fb_text_init(&text, 0);
    for (int i = 0; i < line->n_arguments && status == FB_OK; i++) {
        if (i > 0 && format == FB_FORMAT_TEXT) fb_text_puts(&text, "\n");
        status = add_file(line, line->arguments[i], format, &text);
    }
    if (status == FB_OK) status = fb_text_status(&text);
    if (status == FB_OK) status = fb_write_result(out, text.bytes, text.n);
    fb_text_clear(&text);
    return status;
}

static int run(const fb_line *line)
{
    const fb_status status = compare(line);

    return status == FB_OK ? 0 : fb_say_failure(status);
}

const fb_command fb_command_compare = {
    .name = "compare",
    .arguments = "RESULTS...",
    .summary = "which differences are real",
    .about =
        "Prints scores with intervals, paired differences from a baseline, and groups "
        "of rules that cannot be told apart. Only samples that all compared rules have "
        "are used; what is left out is said. Several files: a part for each.",
    .examples = "flexbudget compare results.db --baseline h2o\n"
                "flexbudget compare results.db --json",
    .options = options,
    .least = 1,
    .most = -1,
    .run = run,
};
