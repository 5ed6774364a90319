/* test_experiment_references.c - rows that tables are read against: what they keep, and that
 * their cells are the same alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/store.h"
#include "tests/support/small_experiment.h"

static small s;
static char folder[TEST_PATH];
static fb_store *store;
static const fb_results *r;

static int open_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static void close_results(void)
{
    fb_results_free(r);
    fb_store_close(store);
    r = NULL;
    store = NULL;
}

static int close_all(void **state)
{
    (void)state;
    close_results();
    small_close(&s);
    test_folder_remove(folder);
    return 0;
}

static void run(const char *name, const char *only)
{
    fb_run_options options = {.path = test_path(folder, name)};
    fb_filter *filter = NULL;
    fb_run_result result;

    if (only != NULL) assert_ok(fb_filter_parse(&filter, only));
    options.only = filter;
    assert_ok(fb_run(s.plan, s.ops, &options, &result));
    assert_int_equal(result.failed, 0);
    assert_int_equal(result.no_choice, 0);
    fb_filter_free(filter);
    close_results();
    assert_ok(fb_store_open_read(&store, test_path(folder, name)));
    assert_ok(fb_store_read(store, NULL, &r));
}

#define TASK "tasks: [{recall: {tokens: 64, pairs: 8, samples: 2}}]\n"
#define REST "budgets: [50%]\nprotocol: {protect: {sink: 1, recent: 2}}\n"
#define WITH(task, rules)                                                              \
    "name: references\nmodel: builtin\n" task "rules: [" rules "]\n" REST

/* The cell of a rule on sample i. */
static const fb_result_cell *cell_of(const char *label, int i)
{
    for (int c = 0; c < r->n_cells; c++)
        if (r->cells[c].sample == i &&
            strcmp(r->rules[r->cells[c].rule].label, label) == 0)
            return &r->cells[c];
    fail_msg("no cell of %s", label);
    return NULL;
}

static double kl_of(const char *label, int i)
{
    double kl = -1;

    assert_true(fb_result_score(cell_of(label, i), "kl", &kl));
    return kl;
}

/* Whether every slot of a cell keeps just the tokens that `stays` [n] says. */
static void kept_is(const fb_result_cell *cell, const uint8_t *stays, int64_t n)
{
    fb_store_kept *kept = NULL;
    int n_slots = 0;

    assert_ok(fb_store_read_kept(store, cell->id, &kept, &n_slots));
    assert_int_equal(n_slots, 4);
    for (int slot = 0; slot < n_slots; slot++) {
        int64_t i = 0;

        for (int64_t j = 0; j < n; j++)
            if (stays[j] != 0) {
                assert_true(i < kept[slot].n);
                assert_int_equal(kept[slot].position[i++], j);
            }
        assert_int_equal(i, kept[slot].n);
    }
    fb_free(kept);
}

/* --- evidence --- */

static void what_is_dropped_and_kept_is_the_evidence(void **state)
{
    (void)state;
    small_open(
        &s,
        WITH(TASK, "full, drop_evidence, evidence_only, knorm") "store: {kept: all}\n");
    run("a.db", NULL);
    for (int i = 0; i < 2; i++) {
        const fb_token_span at = s.plan->samples[i].evidence[0];
        uint8_t drop[64], only[64] = {0};

        memset(drop, 1, sizeof drop);
        memset(drop + at.begin, 0, (size_t)(at.end - at.begin));
        memset(only + at.begin, 1, (size_t)(at.end - at.begin));
        only[0] = only[62] = only[63] = 1;
        kept_is(cell_of("drop_evidence", i), drop, 64);
        kept_is(cell_of("evidence_only", i), only, 64);
        assert_int_equal(cell_of("drop_evidence", i)->budget, -1);
        assert_true(kl_of("drop_evidence", i) > 5);
        assert_true(kl_of("evidence_only", i) < 0.01);
    }
    for (int i = 0; i < r->n_rules; i++) {
        const bool is_rule = strcmp(r->rules[i].label, "knorm") == 0;

        assert_int_equal(r->rules[i].is_reference, !is_rule);
        if (strstr(r->rules[i].label, "evidence") != NULL)
            assert_false(r->rules[i].deployable);
    }
}

static void
a_task_that_does_not_say_where_its_evidence_is_has_no_such_rows(void **state)
{
    static const char *const lines =
        "{\"key\": \"a\", \"context\": \"A0B1\", \"question\": \"?A\", \"answer\": "
        "\"0\"}\n";
    char text[2048];

    (void)state;
    test_write(test_path(folder, "own.jsonl"), lines);
    (void)snprintf(text, sizeof text,
                   "model: builtin\ntasks: [{jsonl: {data: %s}}]\n"
                   "rules: [full, drop_evidence]\n",
                   test_path(folder, "own.jsonl"));
    assert_fails(
        small_try(&s, text), FB_USAGE,
        "'drop_evidence' is told where the answer stands in the context, and 1 "
        "of 1 sample of jsonl does not say");
}

/* --- a document with several questions --- */

static void the_oracle_of_a_document_sees_questions_that_are_not_run(void **state)
{
    char digest[FB_HASH_HEX], only[256];

    (void)state;
    small_open(&s, WITH("tasks: [{needle: {keys: 2, samples: 1, length: 180}}]\n",
                        "full, oracle, oracle_document"));
    run("a.db", NULL);
    assert_int_equal(r->n_samples, 2);
    assert_string_not_equal(cell_of("oracle", 1)->kept_sha256,
                            cell_of("oracle_document", 1)->kept_sha256);
    assert_string_equal(cell_of("oracle_document", 0)->kept_sha256,
                        cell_of("oracle_document", 1)->kept_sha256);
    (void)snprintf(digest, sizeof digest, "%s", cell_of("oracle_document", 1)->digest);
    (void)snprintf(only, sizeof only, "rule=oracle_document,sample=needle/%s",
                   s.plan->samples[1].key);
    run("b.db", only);
    assert_int_equal(r->n_cells, 1);
    assert_string_equal(r->cells[0].digest, digest);
}

/* --- budgets --- */

static void a_prompt_that_is_cut_and_a_control_take_the_budget_of_a_rule(void **state)
{
    uint8_t last[64] = {0};

    (void)state;
    memset(last + 32, 1, 32);
    small_open(
        &s, WITH(TASK, "full, knorm, reread, control(knorm)") "seeds: [1, 2]\n"
                                                              "store: {kept: all}\n");
    run("a.db", NULL);
    assert_int_equal(r->n_cells, 2 * (1 + 1 + 1 + 2));
    assert_int_equal(r->n_notes, 0); /* of traces that differ, of no free choice */
    for (int i = 0; i < 2; i++) {
        const fb_result_cell *rule = cell_of("knorm", i), *cut = cell_of("reread", i),
                             *control = cell_of("control(knorm)", i);

        kept_is(cut, last, 64);
        assert_int_equal(cut->kept_bytes, rule->kept_bytes);
        assert_int_equal(cut->peak_bytes, cut->kept_bytes);
        assert_string_equal(cut->trace_answer, rule->trace_answer);
        assert_int_equal(control->kept_entries, rule->kept_entries);
        assert_int_equal(control->free_choices, rule->free_choices);
        assert_string_not_equal(control->kept_sha256, rule->kept_sha256);
        assert_int_equal(control[0].seed, 1);
        assert_int_equal(control[1].seed, 2);
        assert_string_not_equal(control[0].kept_sha256, control[1].kept_sha256);
    }
    assert_true(r->rules[2].is_reference && r->rules[2].deployable);
    assert_true(r->rules[3].is_random);
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_folder, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(what_is_dropped_and_kept_is_the_evidence),
        test(a_task_that_does_not_say_where_its_evidence_is_has_no_such_rows),
        test(the_oracle_of_a_document_sees_questions_that_are_not_run),
        test(a_prompt_that_is_cut_and_a_control_take_the_budget_of_a_rule),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
