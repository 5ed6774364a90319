/* bench_words.c - see bench_words.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/bench_words.h"

#include "base/time.h"

#include <stdio.h>
#include <string.h>

static void print_seconds(double seconds, char out[FB_TIME_SHORT])
{
    fb_time_print((int64_t)(seconds * 1e9 + 0.5), out);
}

/* "6.86 to 6.98 s"; with both units where they differ. */
void fb_bench_add_interval(const fb_interval *interval, fb_text *out)
{
    char low[FB_TIME_SHORT], high[FB_TIME_SHORT];
    const char *unit, *other;

    print_seconds(interval->low, low);
    print_seconds(interval->high, high);
    unit = strchr(low, ' ');
    other = strchr(high, ' ');
    if (unit != NULL && other != NULL && strcmp(unit, other) == 0)
        fb_text_printf(out, "%.*s to %s", (int)(unit - low), low, high);
    else
        fb_text_printf(out, "%s to %s", low, high);
}

void fb_bench_add_seconds(double seconds, fb_text *out)
{
    char text[FB_TIME_SHORT];

    print_seconds(seconds, text);
    fb_text_puts(out, text);
}

/* "145 GFLOP", "3.2 MB". */
void fb_bench_add_scaled(double value, const char *unit, fb_text *out)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int p = 0;

    for (; value >= 999.5 && p < 5; p++)
        value /= 1000;
    fb_text_printf(out, "%.*f %s%s",
                   value < 9.995   ? 2
                   : value < 99.95 ? 1
                                   : 0,
                   value, prefixes[p], unit);
}

void fb_bench_add_names(const fb_bench *b, int arm, fb_text *out)
{
    char budget[64] = "-";

    if (b->arms[arm].budget >= 0)
        fb_budget_print(&b->spec->budgets[b->arms[arm].budget], budget, sizeof budget);
    fb_text_printf(out, "%s\t%s\t", b->spec->rules[b->arms[arm].rule].label, budget);
}
