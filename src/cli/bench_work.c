/* bench_work.c - what the work of a bench should take, and the memory it took.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/bench_words.h"

#include <stdio.h>

/* --- by the profile --- */

static void add_own_rate(const char *name, double rate, const char *unit, fb_text *out)
{
    if (rate <= 0) return;
    fb_text_puts(out, name);
    fb_bench_add_scaled(rate, unit, out);
}

static void add_profile(const fb_profile *p, fb_text *out)
{
    fb_text_printf(out, "\nwhat the work counted takes on %s: ", p->name);
    fb_bench_add_scaled(p->flops_per_s, "FLOP/s", out);
    fb_text_puts(out, ", ");
    fb_bench_add_scaled(p->bytes_per_s, "B/s", out);
    if (p->seconds_per_call > 0) {
        fb_text_puts(out, ", ");
        fb_bench_add_seconds(p->seconds_per_call, out);
        fb_text_puts(out, " a call");
    }
    add_own_rate(", one row ", p->row_flops_per_s, "FLOP/s", out);
    add_own_rate("; attention ", p->attention_flops_per_s, "FLOP/s", out);
    add_own_rate(", one row ", p->attention_bytes_per_s, "B/s", out);
    fb_text_puts(out, "\n");
}

/* Modelled seconds; of this machine also the measured ones divided by them. */
static fb_status add_modelled(const fb_bench_shown *shown, int i, fb_bench_what what,
                              fb_text *out)
{
    const double seconds = fb_bench_modelled(shown->bench, shown->profile, i, what);
    fb_bench_figure figure;

    fb_bench_add_seconds(seconds, out);
    if (shown->is_given) return FB_OK;
    FB_TRY(fb_bench_figure_of(&figure, shown->bench, i, what));
    fb_text_printf(out, "\t%.2fx", figure.median / seconds);
    return FB_OK;
}

static fb_status add_work_row(const fb_bench_shown *shown, int i, fb_text *out)
{
    const fb_bench *b = shown->bench;

    fb_bench_add_names(b, i, out);
    fb_bench_add_scaled(fb_profile_phase_flops(&b->arms[i].ledger, FB_PHASE_context),
                        "FLOP", out);
    fb_text_puts(out, "\t");
    FB_TRY(add_modelled(shown, i, FB_BENCH_READ, out));
    fb_text_puts(out, "\t");
    fb_bench_add_scaled(fb_bench_token_flops(b, i), "FLOP", out);
    fb_text_puts(out, "\t");
    fb_bench_add_scaled(fb_bench_token_bytes(b, i), "B", out);
    fb_text_puts(out, "\t");
    FB_TRY(add_modelled(shown, i, FB_BENCH_TOKEN, out));
    fb_text_puts(out, "\n");
    return FB_OK;
}

fb_status fb_bench_add_work(const fb_bench_shown *shown, fb_text *out)
{
    const char *measured = shown->is_given ? "" : "\tmeasured by it";
    fb_text rows = {0};
    fb_status status = FB_OK;

    add_profile(shown->profile, out);
    fb_text_printf(&rows,
                   "rule\tbudget\treading\tmodelled%s\teach token\tmoves\tmodelled%s\n",
                   measured, measured);
    for (int i = 0; status == FB_OK && i < shown->bench->n_arms; i++)
        status = add_work_row(shown, i, &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    return status;
}

/* --- memory --- */

static size_t most_of(const fb_bench *b, int phase, int account)
{
    size_t most = 0;

    for (int i = 0; i < b->n_arms; i++)
        if (b->arms[i].peak[phase][account] > most)
            most = b->arms[i].peak[phase][account];
    return most;
}

/* Peaks of accounts, the largest of all rows; the context's cache is there throughout. */
void fb_bench_add_memory(const fb_bench *b, fb_text *out)
{
    static const char *const heads[FB_ACCOUNT_COUNT] = {
        "weights", "keys and values", "rule state", "signals", "scratch", "other"};
    fb_text rows = {0};
    char size[32];

    fb_text_puts(&rows, "memory at most");
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        fb_text_printf(&rows, "\t%s", heads[a]);
    for (int p = 0; p < FB_BENCH_PHASES; p++) {
        fb_text_printf(&rows, "\nto %s", fb_bench_phases[p]);
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            fb_print_size((double)most_of(b, p, a), size, sizeof size);
            fb_text_printf(&rows, "\t%s", size);
        }
    }
    fb_text_puts(&rows, "\n");
    fb_text_puts(out, "\n");
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}
