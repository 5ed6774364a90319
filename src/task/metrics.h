/* metrics.h - the table of metrics, and the scores of an answer's text.
 *
 * A cell has numbers from the teacher-forced pass over the reference answer (kl, nll,
 * em_tf, top1) and, where its metric reads text, a free answer that is scored here.
 * Text scores are shares from 0 to 1, computed as the benchmarks' own code does; where
 * that code does something odd, the scorer does it too and says so.
 *
 * Unicode: lower case and classes of characters come from utf8proc, white space is
 * Python's. Lower case maps one code point to one (U+0130 to two), without the rule for
 * a final sigma. Bytes that are not UTF-8 count as U+FFFD.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TASK_METRICS_H
#define FB_TASK_METRICS_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum fb_metric_kind {
    FB_METRIC_PASS,    /* numbers of the teacher-forced pass: no text is needed */
    FB_METRIC_TEXT,    /* of the free answer, by fb_metric_text */
    FB_METRIC_OPTIONS, /* of one teacher-forced pass per option */
    FB_METRIC_RECORD,  /* stands for the text metric that each record names */
} fb_metric_kind;

typedef struct fb_metric {
    const char *name;
    fb_metric_kind kind;
    const char *meaning; /* one line */
    const char *unit;    /* "nat", or "share" (of 1) */
    bool lower_is_better;
    double low, high; /* range; high may be infinite */
    double worst;     /* what a failed cell gets; NaN: there is no worst value */
    double margin;    /* smallest difference that matters, in the unit */
    int version;      /* changes when a score changes */
} fb_metric;

int fb_metric_count(void);
const fb_metric *fb_metric_at(int index);
const fb_metric *fb_metric_find(const char *name); /* NULL if there is none */

/* Scores `prediction` against `references` [n]: the best of them, or their share
 * (contains_all). White space around a reference does not count, but for code_sim.
 * `classes` [n_classes] serve `class` alone. FB_USAGE for a name that is no text
 * metric, and without references. */
FB_MUST_USE fb_status fb_metric_text(const char *name, const char *prediction,
                                     const char *const *references, int n,
                                     const char *const *classes, int n_classes,
                                     double *out);

#endif
