/* results.h - result files, read and analysed: what compare and report begin with.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_RESULTS_H
#define FB_CLI_RESULTS_H

#include "cli/cli.h"
#include "report/across.h"

typedef struct fb_open_results {
    fb_store *store;
    const fb_results *results;
    fb_analysis *analysis;
} fb_open_results;

/* The option that chooses among several experiments of a file. */
#define FB_EXPERIMENT_OPTION                                                           \
    {                                                                                  \
        .name = "experiment", .type = FB_TYPE_TEXT, .initial = "",                     \
        .argument = "NAME|HASH", .group = "Choose what",                               \
        .help = "of a file with several, by name or the beginning of the "             \
                "hash (default: the newest)"                                           \
    }

#define FB_OUT_OPTION                                                                  \
    {                                                                                  \
        .name = "out", .letter = 'o', .type = FB_TYPE_TEXT, .initial = "",             \
        .argument = "FILE", .group = "Output", .help = "write there instead of stdout" \
    }

/* Of each file that the line names, [line->n_arguments], the experiment with this name
 * or beginning of a hash; for "" the newest, and where there are others it says so.
 * `asked` overrides what the experiment itself says of confidence, resamples, margin and
 * baseline: NULL or zero there means "as it says". FB_USAGE if the file at `target`,
 * which is about to be replaced by a page or a table, holds results. */
FB_MUST_USE fb_status fb_results_open(fb_open_results **out, const fb_line *line,
                                      const char *experiment, const char *target,
                                      const fb_analysis_options *asked);
/* The first two of them across their backends; FB_USAGE that names the differences if
 * there are others. */
FB_MUST_USE fb_status fb_results_across(fb_across **out, const fb_open_results *open,
                                        const fb_line *line,
                                        const fb_analysis_options *asked);
/* Whether they are two runs of one experiment on two backends. */
FB_MUST_USE fb_status fb_results_are_across(const fb_open_results *open, int n,
                                            bool *out);
void fb_results_close(fb_open_results *results, int n); /* takes NULL */

/* The same of one file, read and not analysed, finished or not: [1]. */
FB_MUST_USE fb_status fb_results_read(fb_open_results **out, const char *path,
                                      const char *experiment);
/* FB_USAGE if the file there, which is about to be replaced, holds results. */
FB_MUST_USE fb_status fb_results_spare(const char *path);

#endif
