/* progress.h - how far a run is, on stderr.
 *
 * On a terminal one line that moves; elsewhere a line at each stage and every ten
 * seconds, without carriage returns; or JSON, an object per event; or nothing.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_PROGRESS_H
#define FB_CLI_PROGRESS_H

#include "experiment/run.h"

typedef enum fb_progress_form {
    FB_PROGRESS_NONE,
    FB_PROGRESS_LINES,
    FB_PROGRESS_BAR,
    FB_PROGRESS_JSON,
} fb_progress_form;

typedef struct fb_progress {
    fb_progress_form form;
    int64_t limit_bytes; /* of memory, to be shown; 0: unknown */
    int64_t last_ns;     /* when something was printed */
    bool is_open;        /* the moving line stands there */
} fb_progress;

/* `word`: auto, bar, lines, json, none. */
void fb_progress_open(fb_progress *progress, const char *word);
/* An fb_run_watch; `self` is the fb_progress. */
void fb_progress_watch(void *self, const fb_run_progress *now);

#endif
