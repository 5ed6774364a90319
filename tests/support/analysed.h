/* analysed.h - a plain experiment of two tasks and two budgets, analysed, for tests.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_ANALYSED_H
#define TESTS_SUPPORT_ANALYSED_H

#include "base/memory.h"
#include "report/analysis.h"
#include "tests/support/results.h"

static const char *const tasks[] = {"needle", "continuation"};
static const char *const budgets[] = {"20%", "50%"};
static const char *const labels[] = {"full", "random", "snapkv", "a,\"b\" \xc3\xa9\n"};

static inline double plain_value(const struct results_trial *trial, int task, int rule,
                                 int budget, int document)
{
    (void)trial;
    return rule == 0 ? 0 : 1 + task - 0.3 * rule - 0.1 * budget + 0.01 * document;
}

static const struct results_trial plain = {.tasks = tasks,
                                           .rules = labels,
                                           .budgets = budgets,
                                           .n_tasks = 2,
                                           .n_rules = 4,
                                           .n_budgets = 2,
                                           .n_documents = 8,
                                           .metric = "kl",
                                           .baseline = "random",
                                           .value = plain_value};

static const fb_analysis_options quick = {.replicates = 100, .margin = -1};

struct fixture {
    char path[64];
    fb_store *store;
    const fb_results *results;
    fb_analysis *analysis;
};

static inline int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    results_path(f->path);
    assert_ok(fb_store_open(&f->store, f->path));
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;

    fb_analysis_free(f->analysis);
    fb_results_free(f->results);
    fb_store_close(f->store);
    results_remove(f->path);
    free(f);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
    return 0;
}

static inline void analyse(struct fixture *f)
{
    assert_ok(fb_store_read(f->store, NULL, &f->results));
    assert_ok(fb_analyse(&f->analysis, f->store, f->results, &quick));
}

static inline void analyse_plain(struct fixture *f)
{
    results_put_trial(f->store, &plain);
    analyse(f);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
