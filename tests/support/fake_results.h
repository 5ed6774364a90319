/* fake_results.h - results and an analysis of them without a store, for tests of the
 * page: any number of rules, budgets and tasks, with holes, twins and hostile words.
 *
 * Scores are a hash of their place, shifted by rule and budget, so every number differs
 * and repeats. The statistics are stand-ins (normal intervals); pages with real ones
 * come from a store.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_FAKE_RESULTS_H
#define TESTS_SUPPORT_FAKE_RESULTS_H

#include "base/memory.h"
#include "report/analysis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_RULES = 20, FAKE_BUDGETS = 5, FAKE_TASKS = 5, FAKE_SAMPLES = 40 };
#define FAKE_HOSTILE "</script><img src=x onerror=alert(1)>\"'&\xFF\x01"

typedef struct fake_shape {
    int rules; /* full, oracle and random among them, as far as it goes */
    int budgets, tasks, samples; /* samples: per task */
    bool hostile;                /* every word is FAKE_HOSTILE and more */
    bool twins;                  /* all rules get the same scores */
    bool holes;                  /* some cells, and one whole table, are missing */
    bool long_labels;
} fake_shape;

typedef struct fake {
    fake_shape shape;
    fb_results results;
    fb_analysis analysis;
    fb_result_rule rules[FAKE_RULES];
    fb_store_budget budgets[FAKE_BUDGETS];
    fb_result_task tasks[FAKE_TASKS];
    fb_result_sample samples[FAKE_SAMPLES];
    fb_table tables[FAKE_TASKS * FAKE_BUDGETS];
    fb_row rows[FAKE_TASKS * FAKE_BUDGETS][FAKE_RULES];
    fb_result_cell cells[FAKE_SAMPLES * FAKE_RULES * FAKE_BUDGETS];
    fb_store_score scores[FAKE_SAMPLES * FAKE_RULES * FAKE_BUDGETS][2];
    char words[512][256];
    int n_words;
} fake;

static inline const char *fake_word(fake *f, const char *name, int i)
{
    char *word = f->words[f->n_words++];

    if (f->shape.hostile)
        (void)snprintf(word, sizeof f->words[0], "%s%d" FAKE_HOSTILE, name, i);
    else if (f->shape.long_labels)
        (void)snprintf(word, sizeof f->words[0],
                       "%s_%d_with_a_name_that_says_all_there_is_to_say_about_the_"
                       "parameters_window=64,kernel=5,pool=avg_and_goes_on",
                       name, i);
    else
        (void)snprintf(word, sizeof f->words[0], "%s_%d", name, i);
    return word;
}

/* Uniform in [0, 1), by place. */
static inline double fake_noise(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = (a * 0x9E3779B97F4A7C15u) ^ (b * 0xC2B2AE3D27D4EB4Fu) ^
                 (c * 0x165667B19E3779F9u);

    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

static inline double fake_share(int budget)
{
    static const double shares[FAKE_BUDGETS] = {0.5, 0.2, 0.1, 0.05, 0.02};

    return shares[budget];
}

static inline double fake_score(const fake *f, int task, int sample, int rule,
                                int budget)
{
    const double loss = rule == 0 || f->shape.twins ? 0.5
                        : rule == 1                 ? 0.1
                                    : fake_noise((uint64_t)rule, (uint64_t)task, 7);
    const double lost = rule == 0 ? 0 : loss * (1 - fake_share(budget));
    const double noise = fake_noise(
        (uint64_t)sample, f->shape.twins ? 0 : (uint64_t)rule, (uint64_t)budget + 1);

    if (task % 2 == 0) return rule == 0 ? 0 : 2 * lost * (0.6 + 0.8 * noise); /* KL */
    return 60 - 40 * lost + 10 * noise; /* points */
}

static inline bool fake_is_missing(const fake *f, int task, int budget, int rule)
{
    if (!f->shape.holes) return false;
    return (task == 0 && budget == 0) || (rule + task + budget) % 4 == 3;
}

static inline void fake_fill_words(fake *f)
{
    static const char *const names[] = {"full",    "oracle",    "random",
                                        "keydiff", "knorm",     "observed_attention",
                                        "snapkv",  "snapkv-16", "streaming_llm",
                                        "blend"};
    static const char *const families[] = {
        "reference", "reference", "random",    "key",      "key",
        "attention", "attention", "attention", "position", "mixed"};

    for (int r = 0; r < f->shape.rules; r++) {
        const bool named = r < 10 && !f->shape.hostile && !f->shape.long_labels;

        f->rules[r] = (fb_result_rule){
            .label = named ? names[r] : fake_word(f, "rule", r),
            .expression = r == 0  ? "full"
                          : named ? names[r]
                                  : fake_word(f, "snapkv:", r),
            .family = r < 10 ? families[r] : families[3 + r % 7],
            .deployable = r != 1,
            .is_random = r == 2,
            .is_reference = r < 3,
        };
    }
    for (int b = 0; b < f->shape.budgets; b++) {
        static const char *const asked[] = {"50%", "20%", "10%", "256 tokens", "8MiB"};
        static const char *const value[] = {"0.5", "0.2", "0.1", "256", "8388608"};

        f->budgets[b] = (fb_store_budget){asked[b],
                                          b < 3    ? "ratio"
                                          : b == 3 ? "tokens"
                                                   : "bytes",
                                          value[b]};
    }
    for (int t = 0; t < f->shape.tasks; t++)
        f->tasks[t] = (fb_result_task){.name = fake_word(f, "task", t),
                                       .kind = f->words[f->n_words - 1],
                                       .metric = t % 2 == 0 ? "kl" : "f1",
                                       .unit = t % 2 == 0 ? "nat" : "points",
                                       .lower_is_better = t % 2 == 0,
                                       .margin = t % 2 == 0 ? 0.02 : 1};
    for (int s = 0; s < f->shape.tasks * f->shape.samples; s++)
        f->samples[s] =
            (fb_result_sample){.task = s / f->shape.samples,
                               .key = fake_word(f, "sample", s),
                               .question = fake_word(f, "What is it", s),
                               .expected = "open sesame",
                               .context = fake_word(f, "Once upon a time", s),
                               .context_tokens = 500 + s,
                               .depth = 0.1 * (s % 10)};
}

static inline void fake_fill_cells(fake *f)
{
    int n = 0;

    for (int s = 0; s < f->shape.tasks * f->shape.samples; s++)
        for (int r = 0; r < f->shape.rules; r++)
            for (int b = 0; b < (r == 0 ? 1 : f->shape.budgets); b++) {
                const int task = f->samples[s].task;
                const double score = fake_score(f, task, s, r, b);

                if (fake_is_missing(f, task, b, r)) continue;
                f->scores[n][0] = (fb_store_score){f->tasks[task].metric, score};
                f->scores[n][1] = (fb_store_score){"em", score < 0.4};
                f->cells[n] = (fb_result_cell){
                    .sample = s,
                    .rule = r,
                    .budget = r == 0 ? -1 : b,
                    .status = "done",
                    .answer = f->shape.hostile ? FAKE_HOSTILE
                              : score < 0.4    ? "open sesame"
                                               : "open the door",
                    .full_entries = 1000,
                    .kept_entries = r == 0 ? 1000 : (int64_t)(1000 * fake_share(b)),
                    .scores = f->scores[n],
                    .n_scores = 2};
                n++;
            }
    f->results.cells = f->cells;
    f->results.n_cells = n;
}

static inline void fake_fill_row(fake *f, const fb_table *table, fb_row *row, int rule)
{
    const int n = f->shape.samples, first = table->task * n;
    const int base = f->shape.rules > 2 ? 2 : f->shape.rules - 1;
    double sum = 0, square = 0, d = 0, dd = 0;

    for (int s = first; s < first + n; s++) {
        const double x = fake_score(f, table->task, s, rule, table->budget);
        const double y = x - fake_score(f, table->task, s, base, table->budget);

        sum += x, square += x * x, d += y, dd += y * y;
    }
    *row = (fb_row){.rule = rule,
                    .n = n,
                    .mean = sum / n,
                    .difference = d / n,
                    .p = (double)NAN,
                    .p_holm = (double)NAN,
                    .filled = 0.996,
                    .full_bytes = 23e6,
                    .kept_bytes = 23e6 * (rule == 0 ? 1 : fake_share(table->budget)),
                    .budget_bytes = 23e6 * (rule == 0 ? 1 : fake_share(table->budget)),
                    .extra_flops = rule < 3 ? 0 : 0.0001 * rule * rule,
                    .em = (double)NAN,
                    .nll = (double)NAN,
                    .kl = (double)NAN,
                    .top1 = (double)NAN};
    for (int p = 0; p < FB_MEMORY_PHASES; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
            row->memory[p][a] = p == 3 || (p == 1 && rule == 0) ? (double)NAN
                                : a == FB_ACCOUNT_kv && p < 2   ? 23e6
                                : a == FB_ACCOUNT_kv            ? row->kept_bytes
                                : a == FB_ACCOUNT_rule_state    ? 0
                                                                : 1e6 * (a + 1);
    if (rule > 0) row->memory[1][FB_ACCOUNT_kv] += row->kept_bytes;
    const double sd = sqrt(fmax(0, square / n - row->mean * row->mean) / n);
    const double dsd = sqrt(fmax(0, dd / n - row->difference * row->difference) / n);

    row->mean_interval = (fb_interval){row->mean - 2 * sd, row->mean + 2 * sd};
    row->difference_interval =
        (fb_interval){row->difference - 2 * dsd, row->difference + 2 * dsd};
    if (rule < 3 || rule == base) return;
    row->p = row->p_holm = exp(-fabs(row->difference) / fmax(dsd, 1e-9));
    row->verdict = row->p >= 0.05 ? FB_VERDICT_open
                   : (row->difference < 0) == f->tasks[table->task].lower_is_better
                       ? FB_VERDICT_better
                       : FB_VERDICT_worse;
    (void)snprintf(row->letters, sizeof row->letters, "%c", 'a' + rule % 4);
}

static inline int fake_by_mean(const void *a, const void *b)
{
    const fb_row *x = a, *y = b;

    if (x->rule == 0 || y->rule == 0) return x->rule == 0 ? -1 : 1;
    return x->mean < y->mean ? -1 : x->mean > y->mean;
}

static inline void fake_fill_table(fake *f, int task, int budget)
{
    const int i = f->analysis.n_tables++;
    fb_table *table = &f->tables[i];

    *table = (fb_table){.task = task,
                        .budget = budget,
                        .rows = f->rows[i],
                        .n_samples = f->shape.samples,
                        .n_documents = f->shape.samples,
                        .n_left_out = f->shape.holes ? 3 : 0,
                        .baseline = -1,
                        .smallest_effect = 0.5,
                        .digits = 2,
                        .margin = f->tasks[task].margin};
    for (int r = 0; r < f->shape.rules; r++)
        if (!fake_is_missing(f, task, budget, r))
            fake_fill_row(f, table, &table->rows[table->n_rows++], r);
    qsort(table->rows, (size_t)table->n_rows, sizeof *table->rows, fake_by_mean);
    if (!f->tasks[task].lower_is_better)
        for (int a = 1, b = table->n_rows - 1; a < b; a++, b--) {
            const fb_row row = table->rows[a];
            table->rows[a] = table->rows[b];
            table->rows[b] = row;
        }
    for (int r = 0; r < table->n_rows; r++)
        if (table->rows[r].rule == (f->shape.rules > 2 ? 2 : f->shape.rules - 1))
            table->baseline = r;
}

static inline fake *fake_new(fake_shape shape)
{
    fake *f = fb_zalloc(FB_ACCOUNT_other, sizeof *f);

    if (f == NULL) return NULL;
    f->shape = shape;
    fake_fill_words(f);
    f->results = (fb_results){.name = fake_word(f, "experiment", 1),
                              .question = "",
                              .spec = fake_word(f, "name: x\nrules: [full]", 0),
                              .spec_sha256 = "5e",
                              .program = "flexbudget 0.1.0",
                              .created = "2026-11-29 12:00",
                              .kernel = "native.f32.kv32",
                              .protocol = "prefill.agnostic.original",
                              .protection = "4+16",
                              .host = fake_word(f, "{\"cpu\": \"two cores\"}", 0),
                              .model = {.name = fake_word(f, "model", 0),
                                        .architecture = "llama",
                                        .layers = 30,
                                        .heads = 9,
                                        .kv_heads = 3,
                                        .head_dim = 64,
                                        .sha256 = "ab"},
                              .tasks = f->tasks,
                              .samples = f->samples,
                              .rules = f->rules,
                              .budgets = f->budgets,
                              .n_tasks = shape.tasks,
                              .n_rules = shape.rules,
                              .n_samples = shape.tasks * shape.samples,
                              .n_budgets = shape.budgets};
    fake_fill_cells(f);
    f->analysis = (fb_analysis){.results = &f->results,
                                .tables = f->tables,
                                .confidence = 0.95,
                                .baseline = shape.rules > 2 ? 2 : shape.rules - 1};
    f->analysis.headline =
        (char *)(uintptr_t)fake_word(f, "No rule wins both: rule", 3);
    f->analysis.paragraph =
        (char *)(uintptr_t)fake_word(f, "At 20 % of the cache rule", 4);
    f->analysis.signature =
        (char *)(uintptr_t) "fb1|m:3f2a9c|k:native.f32.kv32|p:prefill.agnostic."
                            "original|g:4+16|b:20%|n:16";
    for (int t = 0; t < shape.tasks; t++)
        for (int b = 0; b < shape.budgets; b++)
            fake_fill_table(f, t, b);
    return f;
}

static inline void fake_free(fake *f)
{
    fb_free(f);
}

#endif
