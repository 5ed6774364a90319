/* test_experiment_match.c - efforts that keep to a quota: what is foretold is what is
 * charged, and one step more would be too much.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match.h"

#include "experiment/match_price.h"
#include "store/store.h"
#include "tests/support/near.h"
#include "tests/support/small_folder.h"

#define BEGIN                                                                          \
    "name: small\nmodel: builtin\n"                                                    \
    "tasks: [{recall: {tokens: 96, pairs: 8, samples: 2}}, "                           \
    "{recall: {tokens: 180, pairs: 12, samples: 1}}]\n"                                \
    "budgets: [50%, 25%]\nprotocol: {protect: {sink: 1, recent: 2}}\n"
#define RULES                                                                          \
    "rules: [full, random, knorm, 'snapkv:window=24', 'vase:window=24', rkv, "         \
    "'noncausal:chunk=64', 'compactor(noncausal:chunk=40, leverage:sketch=20)', "      \
    "'adakv(finch:window=20)', 'caote(snapkv:window=20)', oracle]\n"

enum { MOST_RULES = 16 };

/* --- efforts --- */

static void expect_effort(const char *written, int64_t most, int64_t step,
                          const char *wanted)
{
    fb_bound_rule *rule, *less, *same;

    assert_ok(fb_rule_parse(&rule, written));
    assert_int_equal(fb_bound_rule_most_effort(rule), most);
    assert_ok(fb_bound_rule_with_effort(&less, rule, step));
    assert_ok(fb_rule_parse(&same, wanted));
    assert_string_equal(fb_bound_rule_text(less), fb_bound_rule_text(same));
    fb_bound_rule_free(same);
    fb_bound_rule_free(less);
    fb_bound_rule_free(rule);
}

static void effort_is_lowered_in_proportion_and_not_below_the_least(void **state)
{
    (void)state;
    expect_effort("knorm", -1, 0, "knorm");
    expect_effort("snapkv:window=32,kernel=7", 32, 10, "snapkv:window=10,kernel=7");
    expect_effort("snapkv:window=32", 32, 0, "snapkv:window=1");
    expect_effort("adakv(snapkv:window=32)", 32, 5, "adakv(snapkv:window=5)");
    expect_effort("blend(snapkv:window=32,tova)", 32, 5, "blend(snapkv:window=5,tova)");
    expect_effort("compactor(noncausal:chunk=256,leverage:sketch=48)", 256, 64,
                  "compactor(noncausal:chunk=64,leverage:sketch=12)");
    expect_effort("expected_attention", 1, 0, "expected_attention:covariance=0");
    expect_effort("control(merging(snapkv:window=32))", 32, 32,
                  "control(merging(snapkv:window=32))");
}

/* Of every rule of the list, from its least value to its default. */
static void every_effort_that_a_rule_names_can_be_lowered(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        const fb_rule *rule = fb_rule_at(i);
        fb_bound_rule *bound, *less;
        char written[128];

        if (rule->effort == NULL) continue;
        n++;
        (void)snprintf(written, sizeof written, rule->n_inner > 0 ? "%s(knorm)" : "%s",
                       rule->name);
        assert_ok(fb_rule_parse(&bound, written));
        assert_true(fb_bound_rule_most_effort(bound) > 0);
        for (int64_t step = fb_bound_rule_most_effort(bound); step >= 0; step--) {
            assert_ok(fb_bound_rule_with_effort(&less, bound, step));
            assert_true(fb_bound_rule_is_lowered(less, bound));
            fb_bound_rule_free(less);
        }
        fb_bound_rule_free(bound);
    }
    assert_true(n > 12);
}

/* --- quotas --- */

static bool is_of_rule(const char *scope)
{
    return strcmp(scope, "signal") == 0 || strcmp(scope, "score") == 0 ||
           strcmp(scope, "select") == 0;
}

/* What a cell's rule was charged, or what read its context. */
static double work_of(fb_store *store, const fb_result_cell *cell, bool of_rule)
{
    fb_store_count *counts;
    double flops = 0;
    int n;

    assert_ok(fb_store_read_counts(store, cell->id, &counts, &n));
    for (int c = 0; c < n; c++)
        if (of_rule ? is_of_rule(counts[c].scope)
                    : !is_of_rule(counts[c].scope) &&
                          strcmp(counts[c].phase, "context") == 0)
            flops += counts[c].flops;
    fb_free(counts);
    return flops;
}

/* What the full cache took to read the context of a sample. */
static double plain_of(fb_store *store, const fb_results *r, int sample)
{
    for (int i = 0; i < r->n_cells; i++)
        if (r->cells[i].sample == sample && r->cells[i].budget < 0)
            return work_of(store, &r->cells[i], false);
    fail_msg("sample %d has no full cache", sample);
    return 0;
}

/* The largest share that a rule's cells were charged. */
static double charged(fb_store *store, const fb_results *r, int rule)
{
    double most = 0;

    for (int i = 0; i < r->n_cells; i++) {
        const fb_result_cell *cell = &r->cells[i];
        double plain;

        if (cell->rule != rule) continue;
        assert_string_equal(cell->status, "done");
        plain = plain_of(store, r, cell->sample);
        assert_true(cell->plain_flops == plain);
        most = fmax(most, work_of(store, cell, true) / plain);
    }
    return most;
}

/* The step of the largest effort that gives `solved`, or -1. */
static int64_t step_of(const fb_bound_rule *written, const char *solved)
{
    for (int64_t step = fb_bound_rule_most_effort(written); step >= 0; step--) {
        fb_bound_rule *rule;
        bool is_it;

        assert_ok(fb_bound_rule_with_effort(&rule, written, step));
        is_it = strcmp(fb_bound_rule_text(rule), solved) == 0;
        fb_bound_rule_free(rule);
        if (is_it) return step;
    }
    return -1;
}

/* A rule that was lowered keeps to the quota, and the next effort does not. */
static void check_lowered(int rule, const char *expression, double quota)
{
    fb_bound_rule *written, *next;
    double now, then;
    int64_t step;

    assert_ok(fb_rule_parse(&written, expression));
    step = step_of(written, fb_bound_rule_text(s.spec.rules[rule].rule));
    assert_true(step >= 0);
    assert_ok(fb_bound_rule_with_effort(&next, written, step + 1));
    assert_ok(fb_match_share(s.plan, rule, NULL, &now));
    assert_ok(fb_match_share(s.plan, rule, next, &then));
    if (now > quota || then <= quota)
        fail_msg("%s: %.6f, and with one step more %.6f, of %.6f", expression, now,
                 then, quota);
    fb_bound_rule_free(next);
    fb_bound_rule_free(written);
}

/* Rules that were lowered, of those of the text; what they were charged is what was told. */
static int check_quota(const char *text, double quota)
{
    char *before[MOST_RULES];
    const fb_results *r = NULL;
    fb_run_result result;
    fb_store *store = NULL;
    int lowered = 0;

    small_open(&s, text);
    for (int i = 0; i < s.spec.n_rules; i++)
        before[i] = fb_strdup(fb_bound_rule_text(s.spec.rules[i].rule));
    assert_ok(fb_match(s.plan, &s.spec));
    for (int i = 0; i < s.spec.n_rules; i++) {
        if (strcmp(before[i], fb_bound_rule_text(s.spec.rules[i].rule)) == 0) continue;
        check_lowered(i, before[i], quota);
        lowered++;
    }
    (void)unlink(test_path(folder, "a.db"));
    assert_ok(fb_run(s.plan, s.ops,
                     &(fb_run_options){.path = test_path(folder, "a.db")}, &result));
    assert_ok(fb_store_open_read(&store, test_path(folder, "a.db")));
    assert_ok(fb_store_read(store, NULL, &r));
    for (int i = 0; i < s.spec.n_rules; i++) {
        double told;

        fb_free(before[i]);
        if (fb_spec_is_reference(&s.spec, i)) continue;
        assert_ok(fb_match_share(s.plan, i, NULL, &told));
        assert_string_equal(r->rules[i].label, s.spec.rules[i].label);
        assert_near(charged(store, r, i), told, 1e-12);
    }
    fb_results_free(r);
    fb_store_close(store);
    return lowered;
}

static void what_is_lowered_fits_and_one_step_more_would_not(void **state)
{
    (void)state;
    assert_int_equal(
        check_quota(BEGIN RULES "compute: {mode: matched, quota: 1.5%}\n", 0.015), 2);
    small_close(&s);
    assert_int_equal(
        check_quota(BEGIN RULES "compute: {mode: matched, quota: 5%}\n", 0.05), 3);
    small_close(&s);
    assert_int_equal(
        check_quota(BEGIN RULES "compute: {mode: matched, quota: 1000%}\n", 10), 0);
}

static void a_stream_keeps_to_it_too(void **state)
{
    (void)state;
    assert_true(check_quota("name: small\nmodel: builtin\n"
                            "tasks: [{recall: {tokens: 96, pairs: 8, samples: 2}}]\n"
                            "budgets: [60%]\n"
                            "protocol: {kind: stream, chunk: 8, interval: 0, "
                            "protect: {sink: 1, recent: 2}}\n"
                            "rules: [full, random, 'snapkv:window=12', knorm]\n"
                            "compute: {mode: matched, quota: 20%}\n",
                            0.2) == 1);
}

#define ELEVEN(protocol)                                                               \
    "name: small\nmodel: builtin\n"                                                    \
    "tasks: [{recall: {tokens: 96, pairs: 8, samples: 6}}, "                           \
    "{recall: {tokens: 96, pairs: 8, samples: 3, answer: 3}}, "                        \
    "{recall: {tokens: 120, pairs: 8, samples: 2}}]\nbudgets: [60%]\n"                 \
    "protocol: {kind: " protocol ", protect: {sink: 1, recent: 2}}\n"                  \
    "rules: [full, random, 'snapkv:window=12', knorm]\n"                               \
    "compute: {mode: matched, quota: 20%}\n"

/* Samples of equal lengths have one price; in a stream, that of a question is among them. */
static void each_kind_of_text_is_priced_once(void **state)
{
    static const char *const texts[] = {ELEVEN("prefill"), ELEVEN("stream, chunk: 8")};
    static const int kinds[] = {2, 3};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fb_pricing pricing;

        (void)check_quota(texts[i], 0.2); /* no sample was charged more than was told */
        assert_int_equal(s.plan->n_samples, 11);
        assert_ok(fb_pricing_open(&pricing, s.plan));
        assert_int_equal(pricing.n_texts, kinds[i]);
        fb_pricing_close(&pricing);
        small_close(&s);
    }
}

/* Labels stay; the text of the experiment has the efforts, and is read back as it is. */
static void the_text_of_the_experiment_gives_the_same_efforts(void **state)
{
    char first[FB_HASH_HEX], again[FB_HASH_HEX];
    fb_text text = {0};

    (void)state;
    small_open(&s, BEGIN RULES "compute: {mode: matched, quota: 5%}\n");
    assert_ok(fb_match(s.plan, &s.spec));
    assert_string_equal(s.spec.rules[6].label, "noncausal:chunk=64");
    assert_null(strstr(fb_bound_rule_text(s.spec.rules[6].rule), "chunk=64"));
    assert_ok(fb_spec_hash(&s.spec, first));
    assert_ok(fb_spec_print(&s.spec, false, &text));
    small_close(&s);
    small_open(&s, fb_text_string(&text));
    fb_text_clear(&text);
    assert_ok(fb_match(s.plan, &s.spec));
    assert_ok(fb_spec_hash(&s.spec, again));
    assert_string_equal(first, again);
    assert_null(strstr(fb_text_string(&s.plan->matched), "->"));
    small_close(&s); /* a label that says more than is there belongs to nothing else */
    assert_fails(
        small_try(&s, BEGIN "rules: [full, 'snapkv:window=9: snapkv:window=8']\n"),
        FB_USAGE, "has a '='");
}

static void what_was_done_is_said(void **state)
{
    (void)state;
    small_open(&s, BEGIN RULES "compute: {mode: matched, quota: 5%}\n");
    assert_ok(fb_match(s.plan, &s.spec));
    assert_non_null(
        strstr(fb_text_string(&s.plan->matched), "\nnoncausal:chunk=64: chunk 64 -> "));
    assert_non_null(
        strstr(fb_text_string(&s.plan->matched), ": noncausal chunk 40 -> "));
    assert_non_null(strstr(fb_text_string(&s.plan->matched),
                           "above the quota of 5 %, so it stands apart\n"));
    assert_null(strstr(fb_text_string(&s.plan->matched), "oracle:"));
    assert_null(strstr(fb_text_string(&s.plan->matched), "random:"));
}

static void a_quota_that_no_rule_can_keep_is_refused_with_what_they_take(void **state)
{
    (void)state;
    small_open(&s, BEGIN RULES "compute: {mode: matched, quota: 0%}\n");
    assert_fails(
        fb_match(s.plan, &s.spec), FB_BUDGET,
        "compute matched:0%: no rule keeps to the quota, whatever its effort; at "
        "least they take: knorm 0.");
    small_close(&s);
    small_open(&s, BEGIN "rules: [full, random]\n"
                         "compute: {mode: matched, quota: 0%}\n");
    assert_ok(fb_match(s.plan, &s.spec)); /* nobody is to keep to it */
}

static void other_modes_leave_rules_as_they_are(void **state)
{
    static const char *const modes[] = {"cap", "report"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[1024];

        (void)snprintf(text, sizeof text, "%scompute: {mode: %s, quota: 0%%}\n",
                       BEGIN RULES, modes[i]);
        small_open(&s, text);
        assert_ok(fb_match(s.plan, &s.spec));
        assert_string_equal(fb_bound_rule_text(s.spec.rules[6].rule),
                            "noncausal:chunk=64,scale=none,tail=exact,skip_first=0,"
                            "skip_last=0");
        if (i == 0) /* but what the run would show in the end is said before it */
            assert_non_null(strstr(fb_text_string(&s.plan->matched),
                                   "compute cap:0%: every rule takes more of the "
                                   "operations that read a context (knorm 0."));
        else
            assert_int_equal(s.plan->matched.n, 0);
        small_close(&s);
    }
    small_open(&s, BEGIN RULES "compute: {mode: cap, quota: 1%}\n");
    assert_ok(fb_match(s.plan, &s.spec)); /* knorm keeps to it */
    assert_int_equal(s.plan->matched.n, 0);
}

/* Its cells fail, and say why; the others are lowered all the same. */
static void a_rule_that_cannot_be_told_stays_as_it_is(void **state)
{
    (void)state;
    small_open(&s, "name: small\nmodel: builtin\n"
                   "tasks: [{recall: {tokens: 96, pairs: 8, samples: 1}}]\n"
                   "budgets: [60%]\n"
                   "protocol: {kind: stream, chunk: 32, interval: 0, "
                   "protect: {sink: 1, recent: 2}}\n"
                   "rules: [full, random, 'snapkv:window=12', "
                   "expected_attention]\n"
                   "compute: {mode: matched, quota: 5%}\n");
    assert_ok(fb_match(s.plan, &s.spec));
    assert_non_null(
        strstr(fb_text_string(&s.plan->matched),
               "expected_attention: what it takes could not be told (chunks "
               "of 32 tokens do not fit"));
    assert_non_null(
        strstr(fb_text_string(&s.plan->matched), "snapkv:window=12: window 12 -> "));
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_folder, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(effort_is_lowered_in_proportion_and_not_below_the_least),
        cmocka_unit_test(every_effort_that_a_rule_names_can_be_lowered),
        test(what_is_lowered_fits_and_one_step_more_would_not),
        test(a_stream_keeps_to_it_too),
        test(each_kind_of_text_is_priced_once),
        test(the_text_of_the_experiment_gives_the_same_efforts),
        test(what_was_done_is_said),
        test(a_quota_that_no_rule_can_keep_is_refused_with_what_they_take),
        test(a_rule_that_cannot_be_told_stays_as_it_is),
        test(other_modes_leave_rules_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
