/* results.h - result files, read and analysed: what compare and report begin with.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_RESULTS_H
#define FB_CLI_RESULTS_H

#include "cli/cli.h"
#include "report/analysis.h"

typedef struct fb_open_results {
    fb_store *store;
    const fb_results *results;
    fb_analysis *analysis;
} fb_open_results;

/* The experiment of a file with this name or beginning of a hash; for "" the newest, and
 * where there are others it says so. `asked` overrides what the experiment itself says
 * of confidence, resamples, margin and baseline: NULL or zero there means "as it
 * says". */
FB_MUST_USE fb_status fb_results_open(fb_open_results *out, const char *path,
                                      const char *experiment,
                                      const fb_analysis_options *asked);
void fb_results_close(fb_open_results *results);

/* FB_USAGE if there are results in the file at `path`, which is about to be replaced by
 * a page or a table. */
FB_MUST_USE fb_status fb_results_spare(const char *path);

#endif
