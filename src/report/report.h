/* report.h - the page: one HTML file that opens from disk and asks nobody for anything.
 *
 * Everything is in the text of the page and readable without JavaScript; the script
 * only draws the charts and hides what is not chosen. Words of users, models and files
 * are untrusted: they are escaped here and never become markup, and the content policy
 * lets no script run but the two whose hashes it names.
 *
 * Must never: compute a statistic; it shows the numbers of an fb_analysis.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_REPORT_H
#define FB_REPORT_REPORT_H

#include "report/across.h"

enum { FB_REPORT_SAMPLES = 5, FB_REPORT_ALL_SAMPLES = 0 };

typedef struct fb_report_options {
    const char *title;       /* NULL: the name of the experiment */
    int samples;             /* shown per task: those on which the rules differ most */
    bool no_text;            /* without prompts, expected texts and answers */
    const fb_across *across; /* the first two of the page, across their backends; NULL:
                                they are no such two */
} fb_report_options;

/* The page of `n` experiments, a part for each, to a fresh string; free with fb_free.
 * NULL options: FB_REPORT_SAMPLES samples, with their texts. */
FB_MUST_USE fb_status fb_report_html(char **out, const fb_analysis *const *analyses,
                                     int n, const fb_report_options *options);
/* The same to a file. */
FB_MUST_USE fb_status fb_report_write(const char *path,
                                      const fb_analysis *const *analyses, int n,
                                      const fb_report_options *options);

#endif
