/* bench_print.h - what a bench measured, as tables and as JSON.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_BENCH_PRINT_H
#define FB_CLI_BENCH_PRINT_H

#include "cli/cli.h"
#include "experiment/bench.h"
#include "experiment/host.h"

/* One context, measured. */
typedef struct fb_bench_shown {
    const fb_bench *bench;
    const fb_profile *profile; /* given, or that of the bench */
    const fb_ops *ops;
    bool is_given; /* the profile is of a file */
} fb_bench_shown;

/* A sentence, the times, what they should be by the profile, the machine. Nothing was
 * measured: says so. */
FB_MUST_USE fb_status fb_bench_add_text(const fb_bench_shown *shown, fb_text *out);
/* An object with every sample. */
FB_MUST_USE fb_status fb_bench_add_json(const fb_bench_shown *shown, bool was_stopped,
                                        fb_text *out);

#endif
