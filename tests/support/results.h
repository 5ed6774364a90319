/* results.h - a small experiment written through the store, for tests.
 *
 * Two tasks, `n` documents each, any rules and budgets; the value of a cell comes from
 * a function of the test.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_RESULTS_H
#define TESTS_SUPPORT_RESULTS_H

#include "store/store.h"
#include "tests/support/near.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path in a fresh folder, in memory where there is such a place, since every cell is
 * synchronised; results_remove() takes both away. */
static inline void results_path(char out[64])
{
    strcpy(out, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fb_results_XXXXXX"
                                              : "/tmp/fb_results_XXXXXX");
    assert_non_null(mkdtemp(out));
    strcat(out, "/r.db");
}

static inline void results_remove(char path[64])
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char *slash = strrchr(path, '/');

    for (size_t i = 0; i < 4; i++) {
        char file[80];

        (void)snprintf(file, sizeof file, "%s%s", path, ends[i]);
        (void)unlink(file);
    }
    *slash = 0;
    assert_int_equal(rmdir(path), 0);
}

/* Ids of rows that cells refer to. */
struct results_ids {
    int64_t experiment, host, model;
};

#define RESULTS_SPEC  "5bec000000000000000000000000000000000000000000000000000000000001"
#define RESULTS_MODEL "3f2a9c0000000000000000000000000000000000000000000000000000000000"

/* `kernel`, `protocol`, `compute`: NULL as usual. */
static inline struct results_ids
results_begin_with(fb_store *store, const char *baseline, const char *kernel,
                   const char *protocol, const char *compute)
{
    const fb_store_experiment experiment = {
        .name = "trial",
        .question = "Which one?",
        .spec = "name: trial\n",
        .spec_sha256 = RESULTS_SPEC,
        .class_name = "closed",
        .program = "flexbudget 0.1.0",
        .baseline = baseline,
        .kernel = kernel != NULL ? kernel : "native.f32.kv32",
        .protocol = protocol != NULL ? protocol : "prefill.agnostic.original",
        .protection = "4+16",
        .compute = compute != NULL ? compute : "cap5",
    };
    const fb_store_model model = {
        .sha256 = RESULTS_MODEL,
        .name = "tiny",
        .architecture = "llama",
        .layers = 2,
        .heads = 4,
        .kv_heads = 2,
        .head_dim = 16,
    };
    struct results_ids ids;

    assert_ok(fb_store_put_experiment(store, &experiment, &ids.experiment));
    assert_ok(fb_store_put_host(store, "4057", "{\"cpu\": \"any\"}", &ids.host));
    assert_ok(fb_store_put_model(store, &model, &ids.model));
    return ids;
}

static inline struct results_ids results_begin_as(fb_store *store, const char *baseline,
                                                  const char *kernel,
                                                  const char *protocol)
{
    return results_begin_with(store, baseline, kernel, protocol, NULL);
}

static inline struct results_ids results_begin(fb_store *store, const char *baseline)
{
    return results_begin_as(store, baseline, NULL, NULL);
}

static inline int64_t results_task(fb_store *store, const char *name,
                                   const char *metric, bool lower_is_better)
{
    const fb_store_task task = {.name = name,
                                .version = 1,
                                .params = "{}",
                                .metric = metric,
                                .unit = lower_is_better ? "nat" : "points",
                                .lower_is_better = lower_is_better,
                                .margin = lower_is_better ? 0.02 : 1};
    int64_t id;

    assert_ok(fb_store_put_task(store, &task, &id));
    return id;
}

static inline int64_t results_sample(fb_store *store, int64_t task, int number)
{
    char key[16], hash[65];
    fb_store_sample sample = {.task = task,
                              .key = key,
                              .context_tokens = 500,
                              .question_tokens = 12,
                              .tokens_sha256 = hash,
                              .depth = -1};
    int64_t id;

    (void)snprintf(key, sizeof key, "%d", number);
    (void)snprintf(hash, sizeof hash, "%064d", number);
    assert_ok(fb_store_put_sample(store, &sample, &id));
    return id;
}

/* Labels that begin with full, oracle or random are references of that kind. `snapkv` here draws
 * random numbers, and is a rule to be tested all the same. */
static inline int64_t results_rule(fb_store *store, const char *label,
                                   const char *expression)
{
    const bool is_random = strncmp(label, "random", 6) == 0;
    const bool draws = strcmp(label, "snapkv") == 0;
    const bool is_ceiling = strcmp(label, "full") == 0 || strcmp(label, "oracle") == 0;
    const fb_store_rule rule = {.label = label,
                                .expression = expression,
                                .family = is_random ? "random" : "attention",
                                .origin = "built-in",
                                .abi = 1,
                                .deployable = strcmp(label, "oracle") != 0,
                                .accounted = true,
                                .is_random = is_random || draws,
                                .is_reference = is_random || is_ceiling};
    int64_t id;

    assert_ok(fb_store_put_rule(store, &rule, &id));
    return id;
}

static inline int64_t results_budget(fb_store *store, const char *asked)
{
    const bool is_full = strcmp(asked, "full") == 0;
    const bool is_tokens = strchr(asked, 't') != NULL;
    const fb_store_budget budget = {asked,
                                    is_full     ? "full"
                                    : is_tokens ? "tokens"
                                                : "ratio",
                                    asked};
    int64_t id;

    assert_ok(fb_store_put_budget(store, &budget, &id));
    return id;
}

/* A cell of `ids` with plausible sizes; the caller sets what it cares for. */
static inline fb_store_cell results_cell(const struct results_ids *ids, int64_t sample,
                                         int64_t rule, int64_t budget, double kept)
{
    static char digest[65];
    const int64_t entries = 2000, entry_bytes = 128;
    static fb_store_peak peaks[6];
    const int64_t k = (int64_t)(kept * (double)entries);

    peaks[0] = (fb_store_peak){"context", "kv", entries * entry_bytes};
    peaks[1] = (fb_store_peak){"context", "rule_state", 0};
    peaks[2] = (fb_store_peak){"answer", "kv", k * entry_bytes};
    peaks[3] = (fb_store_peak){"answer", "rule_state", 0};
    peaks[4] = (fb_store_peak){"evict", "kv", (entries + k) * entry_bytes};
    peaks[5] = (fb_store_peak){"evict", "rule_state", 0};
    (void)snprintf(digest, sizeof digest, "%016llx%016llx%016llx%016llx",
                   (unsigned long long)ids->experiment, (unsigned long long)sample,
                   (unsigned long long)rule, (unsigned long long)budget);
    return (fb_store_cell){.experiment = ids->experiment,
                           .model = ids->model,
                           .sample = sample,
                           .rule = rule,
                           .budget = budget,
                           .host = ids->host,
                           .status = "done",
                           .full_entries = entries,
                           .budget_entries = k,
                           .kept_entries = k,
                           .budget_bytes = k * entry_bytes,
                           .kept_bytes = k * entry_bytes,
                           .peak_bytes = entries * entry_bytes,
                           .evicted = entries - k,
                           .free_choices = k,
                           .plain_flops = (double)NAN,
                           .fused_flops = 300,
                           .step_flops = (double)NAN,
                           .step_bytes = 1e6,
                           .peaks = peaks,
                           .n_peaks = k < entries ? 6 : 4,
                           .digest = digest};
}

/* A whole experiment: every rule at every budget for every document of every task. */
struct results_trial {
    const char *const *tasks;   /* [n_tasks] */
    const char *const *rules;   /* [n_rules], labels; "full" gets one cell per sample */
    const char *const *budgets; /* [n_budgets], as "20%" */
    int n_tasks, n_rules, n_budgets, n_documents;
    const char *metric, *baseline;
    bool higher_is_better;
    const char *expression; /* of every rule but references; NULL: its label */
    /* NAN: the cell failed. */
    double (*value)(const struct results_trial *trial, int task, int rule, int budget,
                    int document);
    /* FLOPs of signals, of 2000 that read the context; NULL: 2. */
    double (*signals)(int rule, int document);
    double signal_flops; /* of the cell at work; 0: 2 */
    const char *compute; /* NULL: cap5 */
    const void *self;
    /* What else is to be said of a cell; NULL: nothing. */
    void (*shape)(const struct results_trial *trial, int rule, int budget,
                  fb_store_cell *cell);
};

/* Keeps all entries, so that it has no budget. */
static inline bool results_is_whole(const char *label)
{
    return strcmp(label, "full") == 0 || strncmp(label, "quantised", 9) == 0;
}

static inline void results_put_cell(fb_store *store, const struct results_trial *trial,
                                    fb_store_cell cell, double value)
{
    const fb_store_score score = {trial->metric, value};
    const fb_store_count counts[] = {{"context", "model", "mm", 1, 1000, 10},
                                     {"context", "attention", "bmm", 1, 1000, 10},
                                     {"context", "signal", "sum", 1,
                                      trial->signal_flops > 0 ? trial->signal_flops : 2,
                                      1},
                                     {"evict", "select", "topk", 1, 2, 1}};

    cell.scores = &score;
    cell.n_scores = 1;
    cell.counts = counts;
    cell.n_counts = cell.evicted > 0 ? 4 : 2;
    if (isnan(value)) {
        cell.status = "failed";
        cell.reason = "on purpose";
        cell.digest = NULL;
        cell.n_scores = 0;
    }
    assert_ok(fb_store_put_cell(store, &cell));
}

static inline void results_put_trial(fb_store *store, const struct results_trial *trial)
{
    const struct results_ids ids =
        results_begin_with(store, trial->baseline, NULL, NULL, trial->compute);
    struct results_trial at_work = *trial;
    int64_t rules[16], budgets[8];
    const int64_t full = results_budget(store, "full");

    for (int r = 0; r < trial->n_rules; r++) {
        const char *label = trial->rules[r];
        const bool is_own = strcmp(label, "full") == 0 ||
                            strcmp(label, "oracle") == 0 ||
                            strncmp(label, "random", 6) == 0;

        rules[r] = results_rule(
            store, label,
            is_own || trial->expression == NULL ? label : trial->expression);
    }
    for (int b = 0; b < trial->n_budgets; b++)
        budgets[b] = results_budget(store, trial->budgets[b]);
    for (int t = 0; t < trial->n_tasks; t++) {
        const int64_t task = results_task(store, trial->tasks[t], trial->metric,
                                          !trial->higher_is_better);

        for (int d = 0; d < trial->n_documents; d++) {
            const int64_t sample = results_sample(store, task, d);

            for (int r = 0; r < trial->n_rules; r++)
                for (int b = 0; b < trial->n_budgets; b++) {
                    const bool is_full = results_is_whole(trial->rules[r]);
                    const double kept = is_full ? 1 : atof(trial->budgets[b]) / 100;
                    fb_store_cell cell = results_cell(
                        &ids, sample, rules[r], is_full ? full : budgets[b], kept);

                    if (is_full && b > 0) break;
                    if (trial->shape != NULL) trial->shape(trial, r, b, &cell);
                    if (trial->signals != NULL)
                        at_work.signal_flops = trial->signals(r, d);
                    results_put_cell(store, &at_work, cell,
                                     trial->value(trial, t, r, b, d));
                }
        }
    }
}

#endif
