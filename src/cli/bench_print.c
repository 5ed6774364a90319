/* bench_print.c - the tables of a bench.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/bench_print.h"
#include "base/time.h"
#include "cli/opening.h"

#include <stdio.h>
#include <string.h>

/* --- words --- */

static void print_seconds(double seconds, char out[FB_TIME_SHORT])
{
    fb_time_print((int64_t)(seconds * 1e9 + 0.5), out);
}

/* "6.86 to 6.98 s"; with both units where they differ. */
static void add_interval(const fb_interval *interval, fb_text *out)
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

static void add_seconds(double seconds, fb_text *out)
{
    char text[FB_TIME_SHORT];

    print_seconds(seconds, text);
    fb_text_puts(out, text);
}

/* "145 GFLOP", "3.2 MB". */
static void add_scaled(double value, const char *unit, fb_text *out)
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

static void add_name(const fb_bench *b, int arm, fb_text *out)
{
    char budget[64] = "-";

    if (b->arms[arm].budget >= 0)
        fb_budget_print(&b->spec->budgets[b->arms[arm].budget], budget, sizeof budget);
    fb_text_printf(out, "%s\t%s\t", b->spec->rules[b->arms[arm].rule].label, budget);
}

static const char *base_label(const fb_bench *b)
{
    for (int i = 0; i < b->n_arms; i++)
        if (b->arms[i].versus >= 0)
            return b->spec->rules[b->arms[b->arms[i].versus].rule].label;
    return NULL;
}

/* --- the heading --- */

static void add_heading(const fb_bench_shown *shown, fb_text *out)
{
    const fb_bench *b = shown->bench;
    char context[32];
    fb_host host;

    fb_host_read(&host);
    fb_print_count(b->options.context, context, sizeof context);
    fb_open_say_model(out, b->spec, fb_model_get_facts(b->model));
    fb_text_printf(out,
                   " · %s + %lld tokens · %d %s, rules in random order within each\n",
                   context, (long long)b->options.answer, b->n,
                   fb_plural(b->n, "repetition", "repetitions"));
    fb_text_printf(
        out, "on %s, %d %s, %s %s, %d %s, weights %s", host.cpu, host.cpus,
        fb_plural(host.cpus, "CPU", "CPUs"), fb_ops_backend(shown->ops),
        fb_ops_isa(shown->ops), fb_threads_count(fb_ops_threads(shown->ops)),
        fb_plural(fb_threads_count(fb_ops_threads(shown->ops)), "thread", "threads"),
        fb_weight_form_name(fb_model_weight_form(b->model)));
    if (b->disturbance.load >= 0)
        fb_text_printf(out, ", load %.1f before", b->disturbance.load);
    if (b->disturbance.other_cpus >= 0)
        fb_text_printf(out, ", others %.1f CPUs meanwhile", b->disturbance.other_cpus);
    fb_text_puts(out, "\n\n");
}

/* --- the sentence --- */

/* The arm with the quickest token beside the one it is compared with; -1: none is. */
static fb_status find_quickest(const fb_bench *b, int *out, fb_bench_figure *ratio)
{
    *out = -1;
    for (int i = 0; i < b->n_arms; i++) {
        fb_bench_figure own;

        if (b->arms[i].versus < 0) continue;
        FB_TRY(fb_bench_ratio_of(&own, b, i, FB_BENCH_TOKEN));
        if (*out >= 0 && own.median <= ratio->median) continue;
        *out = i;
        *ratio = own;
    }
    return FB_OK;
}

static fb_status add_sentence(const fb_bench *b, fb_text *out)
{
    fb_bench_figure ratio = {0};
    char name[256], base[256], own_bytes[32], base_bytes[32];
    int i;

    FB_TRY(find_quickest(b, &i, &ratio));
    if (i < 0) return FB_OK;
    fb_bench_name(b, i, name, sizeof name);
    fb_bench_name(b, b->arms[i].versus, base, sizeof base);
    fb_print_size((double)b->arms[i].kept_bytes, own_bytes, sizeof own_bytes);
    fb_print_size((double)b->arms[b->arms[i].versus].kept_bytes, base_bytes,
                  sizeof base_bytes);
    if (ratio.interval.low > 1)
        fb_text_printf(out,
                       "%s answers %.2f times as fast as %s (%.2f to %.2f a token) and "
                       "keeps %s of its %s.\n\n",
                       name, ratio.median, base, ratio.interval.low,
                       ratio.interval.high, own_bytes, base_bytes);
    else
        fb_text_printf(out,
                       "No rule here answers faster than %s beyond the noise; %s keeps "
                       "%s of its %s.\n\n",
                       base, name, own_bytes, base_bytes);
    return FB_OK;
}

/* --- the times --- */

static fb_status add_timed(const fb_bench *b, int i, fb_bench_what what, fb_text *out)
{
    fb_bench_figure figure;

    FB_TRY(fb_bench_figure_of(&figure, b, i, what));
    add_seconds(figure.median, out);
    fb_text_puts(out, "\t");
    add_interval(&figure.interval, out);
    fb_text_puts(out, "\t");
    return FB_OK;
}

static fb_status add_evict(const fb_bench *b, int i, fb_text *out)
{
    fb_bench_figure figure;

    if (b->arms[i].budget < 0) {
        fb_text_puts(out, "-\t");
        return FB_OK;
    }
    FB_TRY(fb_bench_figure_of(&figure, b, i, FB_BENCH_EVICT));
    add_seconds(figure.median, out);
    fb_text_puts(out, "\t");
    return FB_OK;
}

static fb_status add_ratio(const fb_bench *b, int i, fb_text *out)
{
    fb_bench_figure ratio;

    if (base_label(b) == NULL) return FB_OK;
    if (b->arms[i].versus < 0) {
        fb_text_puts(out, "-\t");
        return FB_OK;
    }
    FB_TRY(fb_bench_ratio_of(&ratio, b, i, FB_BENCH_TOKEN));
    fb_text_printf(out, "%.2fx (%.2f to %.2f)\t", ratio.median, ratio.interval.low,
                   ratio.interval.high);
    return FB_OK;
}

static fb_status add_row(const fb_bench *b, int i, fb_text *out)
{
    char kept[32], tail[32];

    add_name(b, i, out);
    FB_TRY(add_timed(b, i, FB_BENCH_READ, out));
    FB_TRY(add_evict(b, i, out));
    FB_TRY(add_timed(b, i, FB_BENCH_TOKEN, out));
    FB_TRY(add_ratio(b, i, out));
    fb_print_size((double)b->arms[i].kept_bytes, kept, sizeof kept);
    fb_print_size((double)b->arms[i].tail_bytes, tail, sizeof tail);
    fb_text_printf(out, "%s + tail %s\n", kept, tail);
    return FB_OK;
}

static fb_status add_times(const fb_bench *b, fb_text *out)
{
    fb_text rows = {0};
    fb_status status = FB_OK;

    fb_text_puts(&rows,
                 "rule\tbudget\tread context\t95 % interval\tevict\teach token\t95 "
                 "% interval\t");
    if (base_label(b) != NULL) fb_text_printf(&rows, "vs %s\t", base_label(b));
    fb_text_puts(&rows, "KV in the answer\n");
    for (int i = 0; status == FB_OK && i < b->n_arms; i++)
        status = add_row(b, i, &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    return status;
}

/* --- budgets that hold everything --- */

static fb_status add_share(const fb_bench *b, int i, fb_bench_what what, fb_text *out)
{
    fb_bench_figure own, base;

    FB_TRY(fb_bench_figure_of(&own, b, i, what));
    FB_TRY(fb_bench_figure_of(&base, b, b->arms[i].versus, what));
    fb_text_printf(out, "%+.1f %%", 100 * (own.median / base.median - 1));
    return FB_OK;
}

/* What a rule costs where it has nothing to evict. */
static fb_status add_overhead(const fb_bench *b, int i, fb_text *out)
{
    const fb_bench_arm *arm = &b->arms[i];
    fb_bench_figure evict;
    char name[256], base[256];

    if (!arm->holds_all || arm->versus < 0 || b->arms[arm->versus].budget >= 0)
        return FB_OK;
    fb_bench_name(b, i, name, sizeof name);
    fb_bench_name(b, arm->versus, base, sizeof base);
    fb_text_printf(out, "%s holds the whole context; over %s it costs: reading ", name,
                   base);
    FB_TRY(add_share(b, i, FB_BENCH_READ, out));
    FB_TRY(fb_bench_figure_of(&evict, b, i, FB_BENCH_EVICT));
    fb_text_puts(out, ", evicting ");
    add_seconds(evict.median, out);
    fb_text_puts(out, ", each token ");
    FB_TRY(add_share(b, i, FB_BENCH_TOKEN, out));
    fb_text_puts(out, "\n");
    return FB_OK;
}

/* --- by the profile --- */

static void add_profile(const fb_profile *p, fb_text *out)
{
    fb_text_printf(out, "\nby the work counted, on %s: ", p->name);
    add_scaled(p->flops_per_s, "FLOP/s", out);
    fb_text_puts(out, ", ");
    add_scaled(p->bytes_per_s, "B/s", out);
    if (p->seconds_per_call > 0) {
        fb_text_puts(out, ", ");
        add_seconds(p->seconds_per_call, out);
        fb_text_puts(out, " a call");
    }
    fb_text_puts(out, "\n");
}

static fb_status add_model(const fb_bench_shown *shown, int i, fb_bench_what what,
                           fb_text *out)
{
    const double seconds = fb_bench_modelled(shown->bench, shown->profile, i, what);
    fb_bench_figure figure;

    add_seconds(seconds, out);
    fb_text_puts(out, "\t");
    if (shown->is_given) return FB_OK;
    FB_TRY(fb_bench_figure_of(&figure, shown->bench, i, what));
    fb_text_printf(out, "%.2f\t", figure.median / seconds);
    return FB_OK;
}

static fb_status add_work_row(const fb_bench_shown *shown, int i, fb_text *out)
{
    const fb_bench *b = shown->bench;

    add_name(b, i, out);
    add_scaled(fb_profile_phase_flops(&b->arms[i].ledger, FB_PHASE_context), "FLOP",
               out);
    fb_text_puts(out, "\t");
    FB_TRY(add_model(shown, i, FB_BENCH_READ, out));
    add_scaled(fb_bench_token_flops(b, i), "FLOP", out);
    fb_text_puts(out, "\t");
    add_scaled(fb_bench_token_bytes(b, i), "B", out);
    fb_text_puts(out, "\t");
    FB_TRY(add_model(shown, i, FB_BENCH_TOKEN, out));
    fb_text_puts(out, "\n");
    return FB_OK;
}

static fb_status add_work(const fb_bench_shown *shown, fb_text *out)
{
    const char *measured = shown->is_given ? "" : "measured by it\t";
    fb_text rows = {0};
    fb_status status = FB_OK;

    add_profile(shown->profile, out);
    fb_text_printf(
        &rows, "rule\tbudget\treading\tmodelled\t%seach token\tmoves\tmodelled\t%s\n",
        measured, measured);
    for (int i = 0; status == FB_OK && i < shown->bench->n_arms; i++)
        status = add_work_row(shown, i, &rows);
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    return status;
}

fb_status fb_bench_add_text(const fb_bench_shown *shown, fb_text *out)
{
    const fb_bench *b = shown->bench;

    if (b->n == 0) {
        fb_text_puts(out,
                     "stopped before a repetition was whole: there are no times\n");
        return FB_OK;
    }
    FB_TRY(add_sentence(b, out));
    add_heading(shown, out);
    FB_TRY(add_times(b, out));
    for (int i = 0; i < b->n_arms; i++)
        FB_TRY(add_overhead(b, i, out));
    return add_work(shown, out);
}
