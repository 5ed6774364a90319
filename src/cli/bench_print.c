/* bench_print.c - the sentence and the times of a bench.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/bench_words.h"
#include "cli/opening.h"

#include <stdio.h>
#include <string.h>

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

/* The arm that evicts with the quickest token beside the one it is compared with; -1: none. */
static fb_status find_quickest(const fb_bench *b, int *out, fb_bench_figure *ratio)
{
    *out = -1;
    for (int i = 0; i < b->n_arms; i++) {
        fb_bench_figure own;

        if (b->arms[i].versus < 0 || b->arms[i].holds_all) continue;
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
    if (ratio.interval.low > 1 && b->n > 1)
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
    fb_bench_add_seconds(figure.median, out);
    fb_text_puts(out, "\t");
    if (b->n > 1)
        fb_bench_add_interval(&figure.interval, out);
    else
        fb_text_puts(out, "-"); /* one value tells nothing of others */
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
    fb_bench_add_seconds(figure.median, out);
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
    fb_text_printf(out, "%.2fx", ratio.median);
    if (b->n > 1)
        fb_text_printf(out, " (%.2f to %.2f)", ratio.interval.low, ratio.interval.high);
    fb_text_puts(out, "\t");
    return FB_OK;
}

static fb_status add_row(const fb_bench *b, int i, fb_text *out)
{
    char kept[32], tail[32], held[32];

    fb_bench_add_names(b, i, out);
    FB_TRY(add_timed(b, i, FB_BENCH_READ, out));
    FB_TRY(add_evict(b, i, out));
    FB_TRY(add_timed(b, i, FB_BENCH_TOKEN, out));
    FB_TRY(add_ratio(b, i, out));
    fb_print_size((double)b->arms[i].kept_bytes, kept, sizeof kept);
    fb_print_size((double)b->arms[i].tail_bytes, tail, sizeof tail);
    fb_print_size((double)b->arms[i].held_bytes, held, sizeof held);
    fb_text_printf(out, "%s + tail %s\t%s\n", kept, tail, held);
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
    fb_text_puts(&rows, "KV in the answer\tmeasured\n");
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
    fb_bench_add_seconds(evict.median, out);
    fb_text_puts(out, ", each token ");
    FB_TRY(add_share(b, i, FB_BENCH_TOKEN, out));
    fb_text_puts(out, "\n");
    return FB_OK;
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
    FB_TRY(fb_bench_add_work(shown, out));
    fb_bench_add_memory(b, out);
    return FB_OK;
}
