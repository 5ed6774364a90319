/* test_analysis_say.c - headlines of made experiments; one is derived by other means.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "report/analysis.h"
#include "tests/support/results.h"

#include <flexbudget/task.h>
#include <sqlite3.h>

#define MINUS "\xe2\x88\x92"

static const char *const labels[] = {"full", "random", "x", "y", "z"};
static const char *const two_tasks[] = {"needle", "continuation"};
static const char *const two_budgets[] = {"50%", "20%"};

/* An analysed experiment; everything of it is freed by drop(). */
struct analysed {
    char path[64];
    fb_store *store;
    const fb_results *results;
    fb_analysis *analysis;
};

static struct analysed analyse(const struct results_trial *trial,
                               const fb_analysis_options *options)
{
    struct analysed a;

    results_path(a.path);
    assert_ok(fb_store_open(&a.store, a.path));
    results_put_trial(a.store, trial);
    assert_ok(fb_store_read(a.store, NULL, &a.results));
    assert_ok(fb_analyse(&a.analysis, a.store, a.results, options));
    return a;
}

static void drop(struct analysed *a)
{
    fb_analysis_free(a->analysis);
    fb_results_free(a->results);
    fb_store_close(a->store);
    results_remove(a->path);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), 0);
}

/* A number of its own for a document, the same under every rule. */
static double document_noise(int document)
{
    return 0.1 * (document * 7 % 10);
}

/* A little noise for a pair, with a mean of 0 over twelve documents. */
static double pair_noise(int rule, int document)
{
    return 0.01 * ((document * 5 + rule * 3) % 12 - 5.5);
}

/* `self` holds what a rule adds, [task][budget][rule]. */
static double added(const struct results_trial *trial, int task, int rule, int budget,
                    int document)
{
    const double *add = trial->self;

    return 2 + document_noise(document) + pair_noise(rule, document) +
           add[(task * trial->n_budgets + budget) * trial->n_rules + rule];
}

static struct results_trial make_trial(double *add)
{
    return (struct results_trial){.tasks = two_tasks,
                                  .rules = labels,
                                  .budgets = two_budgets,
                                  .n_tasks = 1,
                                  .n_rules = 5,
                                  .n_budgets = 1,
                                  .n_documents = 12,
                                  .metric = "kl",
                                  .baseline = "random",
                                  .value = added,
                                  .self = add};
}

static void expect_headline(const struct results_trial *trial, const char *headline)
{
    struct analysed a = analyse(trial, NULL);

    assert_string_equal(a.analysis->headline, headline);
    drop(&a);
}

static void expect_in_paragraph(const struct results_trial *trial, const char *words)
{
    struct analysed a = analyse(trial, NULL);

    if (strstr(a.analysis->paragraph, words) == NULL)
        fail_msg("%s", a.analysis->paragraph);
    drop(&a);
}

static void one_winner_is_named_with_its_difference(void **state)
{
    double add[] = {-2, 0, -1, -0.5, 0.5};
    const struct results_trial trial = make_trial(add);

    (void)state;
    expect_headline(&trial, "x keeps most: KL " MINUS "1.00 nat against random (" MINUS
                            "1.03 to " MINUS "0.97) at 50 % of the cache.");
    expect_in_paragraph(&trial,
                        "On needle at 50 % of the cache, x (KL " MINUS "1.00 nat, ");
    expect_in_paragraph(&trial, "p = 0.001) beat random; z (KL +0.50 nat, 0.47 to ");
    expect_in_paragraph(&trial, " loses to it. Measured on tiny: 12 documents of about "
                                "500 tokens, prefill, question not seen; sign flips of "
                                "whole documents, Holm over 3 rules of a table; ");
}

static void more_is_better_where_the_task_says_so(void **state)
{
    double add[] = {2, 0, 1, 0.5, -0.5};
    struct results_trial trial = make_trial(add);

    (void)state;
    trial.higher_is_better = true;
    trial.metric = "recall";
    expect_headline(&trial, "x keeps most: recall +1.0 points against random (1.0 to "
                            "1.0) at 50 % of the cache.");
}

static void equals_are_named_together(void **state)
{
    double add[] = {-2, 0, -1.001, -1, 0.5};
    const struct results_trial trial = make_trial(add);

    (void)state;
    expect_headline(&trial,
                    "x and y are not distinguishable; both beat random at 50 % of the "
                    "cache.");
    add[4] = -1;
    expect_headline(
        &trial, "x, y and z are not distinguishable; all beat random at 50 % of the "
                "cache.");
}

static const char *const many[] = {"full", "random", "p", "q", "r", "s", "t"};

/* A sentence that can be repeated names two of many, the best ones; the paragraph names
 * them all. */
static void of_many_rules_two_are_named(void **state)
{
    double add[] = {-2, 0, -1,   -1.003, -1.002, -1.001, 0.5, /**/
                    -2, 0, -1.1, -1,     -1,     -1,     0.5};
    struct results_trial trial = make_trial(add);

    (void)state;
    trial.rules = many;
    trial.n_rules = 7;
    expect_headline(&trial,
                    "q, r and 2 more are not distinguishable; all beat random at "
                    "50 % of the cache.");
    trial.n_tasks = 2;
    add[9] = add[10] = add[11] = add[12] = 0; /* nobody leads on the second task */
    expect_headline(&trial,
                    "No rule wins both: q, r and 2 more lead on needle; no rule "
                    "beats random on continuation.");
    add[9] = -1; /* p, the last on needle, does */
    expect_headline(&trial, "p leads on needle and continuation at 50 % of the cache, "
                            "on needle not distinguishable from q, r and s.");
    add[6] = -1, add[10] = -0.004, add[11] = -0.003, add[13] = -0.002;
    expect_headline(&trial, "p leads on needle and continuation at 50 % of the cache, "
                            "on needle not distinguishable from q, r and 2 more.");
    expect_in_paragraph(&trial, "; q, r, t and s are not distinguishable from it. ");
}

static void nothing_found_says_what_could_have_been(void **state)
{
    double add[] = {-2, 0, 0, 0, 0};
    struct results_trial trial = make_trial(add);

    (void)state;
    expect_headline(
        &trial,
        "No rule beats random here (12 documents could show a difference of 0.06 "
        "nat).");
    add[2] = 0.5;
    expect_in_paragraph(&trial,
                        "no rule beats random; x (KL +0.50 nat, 0.47 to 0.53, p "
                        "= 0.001) loses to it; y and z are not distinguishable "
                        "from it.");
    trial.n_documents = 5;
    expect_headline(&trial, "No rule beats random here (5 documents cannot show any "
                            "difference at 95 %).");
}

static void a_reversal_is_told_with_both_ends(void **state)
{
    double add[] = {-2, 0, -1, 0, 0.5, /**/ -2, 0, 1, 0, 0};
    struct results_trial trial = make_trial(add);

    (void)state;
    trial.n_tasks = 2;
    expect_headline(&trial, "No rule wins both: the best one for needle (x) is worse "
                            "than random for continuation.");
    add[7] = -1; /* now x leads in both */
    expect_headline(&trial,
                    "x keeps most on needle and continuation at 50 % of the cache.");
    expect_in_paragraph(&trial, "On needle at 50 % of the cache, x (KL ");
    expect_in_paragraph(&trial, ". On continuation, x (KL "); /* the same budget */
    add[7] = 0;
    add[8] = -1;
    expect_headline(&trial, "No rule wins both: x leads on needle; y leads on "
                            "continuation.");
    add[8] = 0;
    expect_headline(&trial,
                    "No rule wins both: x leads on needle; no rule beats random "
                    "on continuation.");
}

/* The smallest budget makes the sentence; the other one qualifies it. */
static void the_smallest_budget_speaks_first(void **state)
{
    double add[] = {-2, 0, 0,  -1, 0, /* at 50 % y leads ... */
                    -2, 0, -1, 0,  0.5 /* ... at 20 % x does */};
    struct results_trial trial = make_trial(add);

    (void)state;
    trial.n_budgets = 2;
    expect_headline(&trial, "x keeps most: KL " MINUS "1.00 nat against random (" MINUS
                            "1.03 to " MINUS "0.97) at 20 % of the cache.");
    expect_in_paragraph(&trial, "At 50 % of the cache y leads on needle, x and z are "
                                "not distinguishable from random. ");
    add[2] = -1, add[3] = 0, add[4] = 0.5;
    expect_in_paragraph(&trial, "At 50 % of the cache the same holds. ");
    add[4] = 0;
    expect_in_paragraph(&trial,
                        "At 50 % of the cache x still leads on needle, z is not "
                        "distinguishable from random. ");
    add[2] = 0.5;
    expect_in_paragraph(&trial,
                        "At 50 % of the cache no rule beats random on needle, x "
                        "loses to random, z is not distinguishable from "
                        "random. ");
    add[7] = 0; /* nobody leads at 20 % */
    expect_headline(&trial, "No rule beats random at 20 % of the cache (12 documents "
                            "could show a difference of 0.06 nat).");
    add[7] = -1;
    add[2] = -1, add[3] = add[4] = 0.5; /* y, open at 20 %, loses at 50 % */
    expect_in_paragraph(&trial, "At 50 % of the cache x still leads on needle, y loses "
                                "to random. ");
}

/* On needle y is ahead of x in the mean, and not told from it. */
static void who_leads_in_company_does_not_keep_most(void **state)
{
    double add[] = {-2, 0, -1, -1.001, 0.5, /**/ -2, 0, -1, 0, 0};
    struct results_trial trial = make_trial(add);

    (void)state;
    trial.n_tasks = 2;
    expect_headline(&trial, "x leads on needle and continuation at 50 % of the cache, "
                            "on needle not distinguishable from y.");
}

/* Without `random` the first rule that could be deployed is what others must beat. */
static void the_ceiling_is_no_baseline(void **state)
{
    static const char *const names[] = {"full", "oracle", "x", "y"};
    double add[] = {-2, -1.5, 0, -1};
    struct results_trial trial = make_trial(add);
    struct analysed a;

    (void)state;
    trial.rules = names;
    trial.n_rules = 4;
    trial.baseline = NULL;
    a = analyse(&trial, NULL);
    assert_string_equal(a.results->rules[a.analysis->baseline].label, "x");
    drop(&a);
}

static double equal_values(const struct results_trial *trial, int task, int rule,
                           int budget, int document)
{
    (void)trial, (void)task, (void)budget;
    return rule == 0 ? 0 : document_noise(document);
}

static void a_rule_against_itself_shows_nothing(void **state)
{
    static const char *const names[] = {"full", "a", "a2"};
    struct results_trial trial = make_trial(NULL);

    (void)state;
    trial.rules = names;
    trial.n_rules = 3;
    trial.baseline = "a";
    trial.expression = "snapkv:window=64";
    trial.value = equal_values;
    expect_headline(&trial,
                    "No difference was seen between a and a2, one rule under "
                    "several names (the values are equal in all 12 documents).");
}

static double constant_difference(const struct results_trial *trial, int task, int rule,
                                  int budget, int document)
{
    (void)trial, (void)task, (void)budget;
    return rule == 0 ? 0 : document - (rule == 2);
}

/* No spread is not the same as no difference. */
static void a_constant_difference_is_not_called_equal(void **state)
{
    struct results_trial trial = make_trial(NULL);

    (void)state;
    trial.n_rules = 3;
    trial.value = constant_difference;
    expect_in_paragraph(&trial,
                        "; the middle difference is constant over 12 documents.");
}

/* --- the same sentence, derived from the database with other means --- */

enum { N = 10, PATTERNS = 1 << N, MOST = 8 };

struct derived {
    double values[MOST][N]; /* by rule and document */
    const char *labels[MOST];
    int n_rules; /* random is rule 0 */
};

static struct derived query_values(const char *path)
{
    struct derived d = {0};
    sqlite3_stmt *statement;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db,
                           "SELECT rule, CAST(document AS INTEGER), value FROM tidy "
                           "WHERE is_primary AND rule != 'full' AND budget != 'full' "
                           "ORDER BY rule != 'random', rule, 2",
                           -1, &statement, NULL),
        SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *rule = (const char *)sqlite3_column_text(statement, 0);

        if (d.n_rules == 0 || strcmp(d.labels[d.n_rules - 1], rule) != 0)
            d.labels[d.n_rules++] = strdup(rule);
        d.values[d.n_rules - 1][sqlite3_column_int(statement, 1)] =
            sqlite3_column_double(statement, 2);
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return d;
}

/* p of the mean difference of two rules over all sign patterns, one by one. */
static double brute_p(const struct derived *d, int a, int b)
{
    double observed = 0;
    int hits = 0;

    for (int i = 0; i < N; i++)
        observed += d->values[a][i] - d->values[b][i];
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        double sum = 0;

        for (int i = 0; i < N; i++)
            sum += (pattern >> i & 1 ? 1 : -1) * (d->values[a][i] - d->values[b][i]);
        hits += fabs(sum) >= fabs(observed) - 1e-11;
    }
    return (double)hits / PATTERNS;
}

static double mean_of(const struct derived *d, int rule)
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        sum += d->values[rule][i];
    return sum / N;
}

/* Holm as its author wrote it: step down from the smallest p until one stays. */
static void reject(const double *p, int n, bool *rejected)
{
    for (int i = 0; i < n; i++)
        rejected[i] = false;
    for (int step = 0; step < n; step++) {
        int least = -1;

        for (int i = 0; i < n; i++)
            if (!rejected[i] && (least < 0 || p[i] < p[least])) least = i;
        if (!(p[least] * (n - step) < 0.05)) return;
        rejected[least] = true;
    }
}

static void order_rules(const struct derived *d, int order[MOST])
{
    for (int i = 0; i < d->n_rules; i++) {
        order[i] = i;
        for (int j = i; j > 0 && mean_of(d, order[j]) < mean_of(d, order[j - 1]); j--) {
            const int swap = order[j];

            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    }
}

/* differs[a][b] for all pairs, random among them. */
static void find_pairs(const struct derived *d, bool differs[MOST][MOST])
{
    double p[MOST * MOST];
    bool rejected[MOST * MOST];
    int n = 0;

    for (int a = 0; a < d->n_rules; a++)
        for (int b = a + 1; b < d->n_rules; b++)
            p[n++] = brute_p(d, a, b);
    reject(p, n, rejected);
    n = 0;
    for (int a = 0; a < d->n_rules; a++)
        for (int b = a + 1; b < d->n_rules; b++)
            differs[a][b] = differs[b][a] = rejected[n++];
}

/* Rules that nobody in the group can be told from, gathered from the best one down. */
static int gather(const struct derived *d, int best, int group[MOST])
{
    bool differs[MOST][MOST] = {0};
    int order[MOST], n = 0;

    find_pairs(d, differs);
    order_rules(d, order);
    group[n++] = best;
    for (int i = 0; i < d->n_rules; i++) {
        bool fits = order[i] != best;

        for (int j = 0; j < n; j++)
            fits = fits && !differs[group[j]][order[i]];
        if (fits) group[n++] = order[i];
    }
    return n;
}

/* More than three: the first two by mean, and how many there are beside. */
static void join(char *out, const char *const *names, int n)
{
    if (n > 3) {
        (void)sprintf(out + strlen(out), "%s, %s and %d more", names[0], names[1],
                      n - 2);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (i > 0) strcat(out, i == n - 1 ? " and " : ", ");
        strcat(out, names[i]);
    }
}

enum form { FORM_none, FORM_winner, FORM_tie, FORM_unsure };

/* The beginning of the sentence that the database allows. */
static enum form derive(const struct derived *d, char out[256])
{
    const char *leaders[MOST], *others[MOST];
    int group[MOST], order[MOST], best = -1, n, n_leaders = 0, n_others = 0;
    double p[MOST];
    bool rejected[MOST];

    for (int r = 1; r < d->n_rules; r++)
        p[r - 1] = brute_p(d, r, 0);
    reject(p, d->n_rules - 1, rejected);
    order_rules(d, order);
    for (int i = d->n_rules - 1; i >= 0; i--)
        if (order[i] > 0 && rejected[order[i] - 1] &&
            mean_of(d, order[i]) < mean_of(d, 0))
            best = order[i];
    strcpy(out, "No rule beats random here (");
    if (best < 0) return FORM_none;
    n = gather(d, best, group);
    for (int i = 0; i < n; i++) {
        const int r = group[i];

        if (r > 0 && rejected[r - 1] && mean_of(d, r) < mean_of(d, 0))
            leaders[n_leaders++] = d->labels[r];
        else if (r > 0 && !rejected[r - 1])
            others[n_others++] = d->labels[r];
    }
    out[0] = 0;
    join(out, leaders, n_leaders);
    if (n_others > 0) {
        strcat(out, n_leaders == 1 ? " beats" : " beat");
        strcat(out, " random at 20 % of the cache, but ");
        strcat(out, n_leaders == 1 ? "is" : "are");
        strcat(out, " not distinguishable from ");
        join(out, others, n_others);
        return FORM_unsure;
    }
    if (n_leaders == 1) return strcat(out, " keeps most: KL "), FORM_winner;
    strcat(out, " are not distinguishable; ");
    strcat(out, n_leaders == 2 ? "both" : "all");
    strcat(out, " beat random at 20 % of the cache.");
    return FORM_tie;
}

/* Rules with effects drawn at random, some of them large, and noise beside. */
static double drawn(const struct results_trial *trial, int task, int rule, int budget,
                    int document)
{
    const uint64_t seed = *(const uint64_t *)trial->self;
    fb_random random;
    double effect, noise = 0;

    (void)task, (void)budget;
    fb_random_seed(&random, seed, 1 + (uint64_t)rule);
    effect = rule < 2 ? 0 : floor(4 * fb_random_real(&random)) / 2 - 1; /* -1 to 0.5 */
    for (int d = 0; d <= document; d++)
        noise = fb_random_real(&random) - 0.5;
    return 3 + effect + (rule == 4 ? 3 : 0.6) * noise + document_noise(document);
}

static void the_sentence_follows_from_the_database(void **state)
{
    static const char *const budget[] = {"20%"};
    int n_of[4] = {0}, n_short = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const fb_analysis_options quick = {.replicates = 50, .margin = -1};
        struct results_trial trial = make_trial(NULL);
        struct derived derived;
        struct analysed a;
        char expected[256];

        trial.rules = many;
        trial.n_rules = 7;
        trial.budgets = budget;
        trial.n_documents = N;
        trial.value = drawn;
        trial.self = &seed;
        a = analyse(&trial, &quick);
        derived = query_values(a.path);
        assert_int_equal(derived.n_rules, 6);
        n_of[derive(&derived, expected)]++;
        n_short += strstr(expected, " more ") != NULL;
        if (strncmp(a.analysis->headline, expected, strlen(expected)) != 0)
            fail_msg("seed %d: '%s', not '%s'", (int)seed, a.analysis->headline,
                     expected);
        for (int r = 0; r < derived.n_rules; r++)
            free((void *)(uintptr_t)derived.labels[r]);
        drop(&a);
    }
    for (int form = 0; form < 4; form++)
        assert_true(n_of[form] > 0);
    assert_true(n_short > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_winner_is_named_with_its_difference),
        cmocka_unit_test(more_is_better_where_the_task_says_so),
        cmocka_unit_test(equals_are_named_together),
        cmocka_unit_test(of_many_rules_two_are_named),
        cmocka_unit_test(nothing_found_says_what_could_have_been),
        cmocka_unit_test(a_reversal_is_told_with_both_ends),
        cmocka_unit_test(the_smallest_budget_speaks_first),
        cmocka_unit_test(who_leads_in_company_does_not_keep_most),
        cmocka_unit_test(the_ceiling_is_no_baseline),
        cmocka_unit_test(a_rule_against_itself_shows_nothing),
        cmocka_unit_test(a_constant_difference_is_not_called_equal),
        cmocka_unit_test(the_sentence_follows_from_the_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
