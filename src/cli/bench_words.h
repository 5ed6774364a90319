/* bench_words.h - inside of the tables of a bench: how numbers are written, and its parts.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_BENCH_WORDS_H
#define FB_CLI_BENCH_WORDS_H

#include "cli/bench_print.h"

void fb_bench_add_seconds(double seconds, fb_text *out); /* "48.2 ms" */
/* "6.86 to 6.98 s"; with both units where they differ. */
void fb_bench_add_interval(const fb_interval *interval, fb_text *out);
/* "145 GFLOP", "3.20 MB". */
void fb_bench_add_scaled(double value, const char *unit, fb_text *out);
/* The cells of rule and budget of a row. */
void fb_bench_add_names(const fb_bench *bench, int arm, fb_text *out);

/* The table of modelled seconds; that of the peaks of memory. */
FB_MUST_USE fb_status fb_bench_add_work(const fb_bench_shown *shown, fb_text *out);
void fb_bench_add_memory(const fb_bench *bench, fb_text *out);

#endif
