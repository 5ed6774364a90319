/* bench_figures.c - what the samples of a bench say: medians, ratios, modelled seconds,
 * and what is to be thought of them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/bench.h"

#include "base/memory.h"
#include "base/time.h"

#include <math.h>
#include <stdio.h>

enum { REPLICATES = 10000, LEAST = 5 /* values that can have an outlier */ };
static const double confidence = 0.95;
static const double outlying = 3.5; /* modified z-scores */
static const uint64_t seed = 1;

/* --- figures --- */

static fb_status figure_of(fb_bench_figure *out, const double *x, int n)
{
    FB_TRY(fb_median_of(&out->median, x, n));
    return fb_bootstrap_median(&out->interval, x, n, confidence, REPLICATES, seed);
}

fb_status fb_bench_figure_of(fb_bench_figure *out, const fb_bench *b, int arm,
                             fb_bench_what what)
{
    return figure_of(out, b->arms[arm].seconds[what], b->n);
}

fb_status fb_bench_ratio_of(fb_bench_figure *out, const fb_bench *b, int arm,
                            fb_bench_what what)
{
    const fb_bench_arm *own = &b->arms[arm], *base = &b->arms[own->versus];
    double *ratios =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)b->n + 1, sizeof *ratios));
    fb_status status;

    if (ratios == NULL) return fb_fail(FB_NO_MEMORY, "no memory for ratios");
    for (int i = 0; i < b->n; i++)
        ratios[i] = base->seconds[what][i] / own->seconds[what][i];
    status = figure_of(out, ratios, b->n);
    fb_free(ratios);
    return status;
}

/* --- by the ledger --- */

/* Steps of decoding: the first token comes of the pass over the prompt. */
static double n_steps(const fb_bench *b)
{
    return (double)(b->options.answer - 1);
}

double fb_bench_token_bytes(const fb_bench *b, int arm)
{
    return fb_profile_phase_bytes(&b->arms[arm].ledger, FB_PHASE_decode,
                                  b->weight_share) /
           n_steps(b);
}

double fb_bench_token_flops(const fb_bench *b, int arm)
{
    return fb_profile_phase_flops(&b->arms[arm].ledger, FB_PHASE_decode) / n_steps(b);
}

double fb_bench_modelled(const fb_bench *b, const fb_profile *profile, int arm,
                         fb_bench_what what)
{
    static const fb_phase phases[FB_BENCH_WHATS] = {
        [FB_BENCH_READ] = FB_PHASE_context,
        [FB_BENCH_EVICT] = FB_PHASE_evict,
        [FB_BENCH_FIRST] = FB_PHASE_answer,
        [FB_BENCH_TOKEN] = FB_PHASE_decode,
    };
    const double seconds = fb_profile_phase_seconds(profile, &b->arms[arm].ledger,
                                                    phases[what], b->weight_share);

    return what == FB_BENCH_TOKEN ? seconds / n_steps(b) : seconds;
}

void fb_bench_name(const fb_bench *b, int arm, char *out, size_t n)
{
    const char *label = b->spec->rules[b->arms[arm].rule].label;
    char budget[64];

    if (b->arms[arm].budget < 0) {
        (void)snprintf(out, n, "%s", label);
        return;
    }
    fb_budget_print(&b->spec->budgets[b->arms[arm].budget], budget, sizeof budget);
    (void)snprintf(out, n, "%s at %s", label, budget);
}

/* --- warnings --- */

static const char *const what_words[FB_BENCH_WHATS] = {
    "reading the context", "evicting", "the first token", "each token"};

/* Said of an arm's times of one kind. */
static void warn_of(const fb_bench *b, int arm, fb_bench_what what, const double *z,
                    fb_report *report, void *self)
{
    const double *x = b->arms[arm].seconds[what];
    char name[256], sentence[512];
    int n = 0, worst = 0;
    double median;

    for (int i = 0; i < b->n; i++) {
        n += fabs(z[i]) > outlying;
        if (fabs(z[i]) > fabs(z[worst])) worst = i;
    }
    if (n == 0 || fb_median_of(&median, x, b->n) != FB_OK) return;
    fb_bench_name(b, arm, name, sizeof name);
    (void)snprintf(
        sentence, sizeof sentence,
        "%s, %s: %d of %d repetitions %s (%.2fx the median)%s", name, what_words[what],
        n, b->n, fb_plural(n, "is an outlier", "are outliers"), x[worst] / median,
        z[0] > outlying ? "; the first run was slower: --warmup with more" : "");
    report(self, sentence);
}

static fb_status warn_of_outliers(const fb_bench *b, fb_report *report, void *self)
{
    double *z = fb_alloc(FB_ACCOUNT_other, fb_size_mul((size_t)b->n + 1, sizeof *z));
    fb_status status = FB_OK;

    if (z == NULL) return fb_fail(FB_NO_MEMORY, "no memory for outliers");
    for (int i = 0; i < b->n_arms; i++)
        for (int w = 0; status == FB_OK && b->n >= LEAST && w < FB_BENCH_WHATS; w++) {
            if (w == FB_BENCH_EVICT && b->arms[i].budget < 0) continue;
            /* A reading is that of all budgets of its rule. */
            if (w == FB_BENCH_READ && i > 0 && b->arms[i - 1].rule == b->arms[i].rule)
                continue;
            status = fb_modified_z(z, b->arms[i].seconds[w], b->n);
            if (status == FB_OK) warn_of(b, i, (fb_bench_what)w, z, report, self);
        }
    fb_free(z);
    return status;
}

static void warn_of_others(const fb_bench *b, int threads, fb_report *report,
                           void *self)
{
    const fb_disturbance *d = &b->disturbance;
    char sentence[256];

    if (!fb_disturbance_matters(d, threads)) return;
    (void)snprintf(sentence, sizeof sentence,
                   "other processes kept %.1f of %d %s busy meanwhile: times and "
                   "intervals are those of a shared machine",
                   d->other_cpus, d->cpus, fb_plural(d->cpus, "CPU", "CPUs"));
    report(self, sentence);
}

static void warn_of_cut(const fb_bench *b, fb_report *report, void *self)
{
    char limit[FB_TIME_SHORT], sentence[256];

    if (!b->is_cut) return;
    fb_time_print(b->options.limit_ns, limit);
    (void)snprintf(sentence, sizeof sentence,
                   "%d of %d repetitions and %d of %d warm-ups were done: more would "
                   "have passed --time-limit, of which %s were left for them",
                   b->n, b->options.repetitions, b->warmups, b->options.warmup, limit);
    report(self, sentence);
}

fb_status fb_bench_warn(const fb_bench *b, int threads, fb_report *report, void *self)
{
    warn_of_cut(b, report, self);
    warn_of_others(b, threads, report, self);
    return warn_of_outliers(b, report, self);
}
