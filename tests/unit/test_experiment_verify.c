/* test_experiment_verify.c - what only running cells again shows, and the class.
 *
 * Two programs that cheat are played by the native backend with one kernel exchanged: one
 * whose arithmetic is another, and one in which a rule brings a second path of model calls.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "experiment/certificate.h"
#include "experiment/verify.h"
#include "ops/backend.h"
#include "tests/support/small_experiment.h"

#define TEXT(rest)                                                                     \
    "name: small\n"                                                                    \
    "model: builtin\n"                                                                 \
    "tasks: [{recall: {tokens: 64, pairs: 8, samples: 2}}]\n"                          \
    "budgets: [50%, 25%]\n" rest
#define RULES "rules: [full, random, knorm]\n"

static small s;
static char folder[TEST_PATH];
static fb_run_result result;

/* --- programs that cheat --- */

static fb_backend backend;
static fb_kernel *kernels[FB_OP_COUNT];
static fb_ops *smuggler;
static bool is_inexact; /* the backend has another name, and promises no bits */

/* Every norm comes out a little larger. */
static fb_status planted(void *self, const fb_call *call)
{
    fb_call other = *call;

    other.alpha *= 0.5;
    return fb_backend_native.kernels[FB_OP_rms_norm](self, &other);
}

static fb_status far(void *self, const fb_call *call)
{
    fb_call other = *call;

    other.alpha = 0.5;
    return fb_backend_native.kernels[FB_OP_rms_norm](self, &other);
}

static fb_status barely(void *self, const fb_call *call)
{
    fb_call other = *call;

    other.alpha *= 1.0001;
    return fb_backend_native.kernels[FB_OP_rms_norm](self, &other);
}

/* Of the rules here only knorm takes roots: with each it now makes the model compute too. */
static fb_status smuggled(void *self, const fb_call *call)
{
    const fb_place place = fb_ops_place(smuggler);

    fb_ops_move(smuggler, (fb_place){place.phase, FB_SCOPE_attention});
    fb_scope_open(smuggler);
    (void)fb_exp(smuggler, fb_full(smuggler, 1, (int64_t[]){4}, 1));
    fb_scope_close(smuggler);
    fb_ops_move(smuggler, place);
    return fb_backend_native.kernels[FB_OP_sqrt](self, call);
}

/* The experiment on the native backend, with `kernel` in the place of that of `op`. */
static void open_with(const char *text, enum fb_op op, fb_kernel *kernel)
{
    const fb_ops_options options = {.threads = 1};
    fb_model_options form;

    small_open(&s, text);
    fb_plan_free(s.plan);
    fb_model_close(s.model);
    fb_ops_close(s.ops);
    form = (fb_model_options){fb_spec_weights(&s.spec)};
    memcpy(kernels, fb_backend_native.kernels, sizeof kernels);
    kernels[op] = kernel;
    backend = fb_backend_native;
    backend.kernels = kernels;
    if (is_inexact) backend.name = "other";
    backend.is_exact = !is_inexact;
    assert_ok(fb_ops_open_backend(&s.ops, &backend, &options));
    smuggler = s.ops;
    assert_ok(fb_model_open(&s.model, s.ops, "builtin", &form));
    assert_ok(fb_plan_new(&s.plan, &s.spec, s.model, NULL, NULL));
}

/* --- running --- */

static int begin(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    is_inexact = false;
    small_close(&s);
    test_folder_remove(folder);
    return 0;
}

static void run(const char *name)
{
    const fb_run_options options = {.path = test_path(folder, name)};

    assert_ok(fb_run(s.plan, s.ops, &options, &result));
}

static void read_results(const char *name, fb_store **store, const fb_results **results)
{
    assert_ok(fb_store_open_read(store, test_path(folder, name)));
    assert_ok(fb_store_read(*store, NULL, results));
}

static void verify(const char *name, int64_t cells, fb_verified *out)
{
    const fb_verify_options how = {.plan = s.plan, .ops = s.ops, .cells = cells};
    const fb_results *r = NULL;
    fb_store *store = NULL;
    fb_text problems = {0};

    read_results(name, &store, &r);
    assert_ok(fb_verify_file(store, r, name, &problems));
    assert_string_equal(fb_text_string(&problems), "");
    assert_ok(fb_verify_cells(out, store, r, &how));
    fb_text_clear(&problems);
    fb_results_free(r);
    fb_store_close(store);
}

/* --- tests --- */

static void what_was_run_is_run_again(void **state)
{
    fb_verified all, some;

    (void)state;
    small_open(&s, TEXT(RULES));
    run("a.db");
    verify("a.db", -1, &all);
    assert_int_equal(all.n, 10);
    assert_int_equal(all.n_equal, 10);
    verify("a.db", 3, &some);
    assert_int_equal(some.n, 3);
    assert_int_equal(some.n_equal, 3);
    fb_verified_clear(&all);
    fb_verified_clear(&some);
}

static fb_status try_verify(const char *name, fb_verified *out, fb_text *problems)
{
    const fb_verify_options how = {
        .plan = s.plan, .ops = s.ops, .cells = 1, .memory = (int64_t)1 << 30};
    const fb_results *r = NULL;
    fb_store *store = NULL;
    fb_status status = fb_store_open_read(&store, test_path(folder, name));

    if (status == FB_OK) status = fb_store_read(store, NULL, &r);
    if (status == FB_OK) status = fb_verify_file(store, r, name, problems);
    if (status == FB_OK) status = fb_verify_cells(out, store, r, &how);
    fb_results_free(r);
    fb_store_close(store);
    return status;
}

/* It is never taken for a changed file. */
static void a_failing_allocation_is_said(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;
    size_t open;

    (void)state;
    small_open(&s, TEXT("rules: [full, knorm]\n"));
    run("a.db");
    open = fb_memory_now(FB_ACCOUNT_other);
    for (int64_t n = 1; status != FB_OK; n += long_or_short(1, 1 + n / 8)) {
        fb_verified found = {0};
        fb_text problems = {0};

        fb_memory_fail_at(n);
        status = try_verify("a.db", &found, &problems);
        fb_memory_fail_at(0);
        assert_string_equal(fb_text_string(&problems), "");
        if (status != FB_OK && status != FB_NO_MEMORY)
            fail_msg("allocation %lld: %s", (long long)n, fb_error_message());
        if (status == FB_OK) assert_int_equal(found.n_equal, 1);
        fb_verified_clear(&found);
        fb_text_clear(&problems);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), open);
    }
    small_close(&s);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

static void another_kernel_is_found(void **state)
{
    fb_verified found;

    (void)state;
    small_open(&s, TEXT(RULES));
    run("a.db");
    small_close(&s);
    open_with(TEXT(RULES), FB_OP_rms_norm, planted);
    verify("a.db", 4, &found);
    assert_int_equal(found.n, 4);
    assert_int_equal(found.n_equal, 0);
    assert_int_equal(found.n_near, 0); /* equal bits were promised */
    for (int i = 0; i < found.n; i++) {
        assert_non_null(strstr(found.cells[i].differs, "cell.cache_sha256"));
        assert_null(strstr(found.cells[i].differs, "cell.trace")); /* the same calls */
    }
    fb_verified_clear(&found);
}

/* On the native backend none of these would count. */
static void a_backend_that_promises_no_bits_has_a_tolerance(void **state)
{
    fb_verified found;

    (void)state;
    is_inexact = true;
    open_with(TEXT(RULES), FB_OP_rms_norm, fb_backend_native.kernels[FB_OP_rms_norm]);
    run("a.db");
    verify("a.db", 10, &found);
    assert_int_equal(found.n_equal, 10);
    fb_verified_clear(&found);
    small_close(&s);
    open_with(TEXT(RULES), FB_OP_rms_norm, barely);
    verify("a.db", 10, &found);
    assert_true(found.n_near > 0);
    assert_int_equal(found.n_equal + found.n_near, 10);
    fb_verified_clear(&found);
    small_close(&s);
    open_with(TEXT(RULES), FB_OP_rms_norm, far);
    verify("a.db", 10, &found);
    assert_int_equal(found.n_equal, 0);
    assert_true(found.n_near < 10);
    fb_verified_clear(&found);
}

/* Rules read a context together, and their traces of it are one. Each cell alone is not. */
static void a_second_path_in_one_rule_is_found_by_running_cells_alone(void **state)
{
    fb_verified found;

    (void)state;
    open_with(TEXT(RULES), FB_OP_sqrt, smuggled);
    run("a.db");
    verify("a.db", 10, &found);
    assert_int_equal(found.n, 10);
    assert_int_equal(found.n_equal, 4); /* those of knorm, which smuggles again */
    for (int i = 0; i < found.n; i++)
        if (!found.cells[i].is_equal)
            assert_non_null(strstr(found.cells[i].differs, "cell.trace_context"));
    fb_verified_clear(&found);
}

/* In a stream every cell reads for itself: the certificate shows it at once. */
static void a_second_path_in_one_rule_opens_the_class(void **state)
{
    const fb_results *r = NULL;
    fb_store *store = NULL;

    (void)state;
    open_with(TEXT(RULES
                   "protocol: {kind: stream, chunk: 4, protect: {sink: 1, recent: "
                   "2}}\n"),
              FB_OP_sqrt, smuggled);
    run("a.db");
    read_results("a.db", &store, &r);
    assert_string_equal(r->class_name, "open");
    assert_non_null(strstr(r->class_reasons, "traces differ"));
    assert_non_null(strstr(r->certificate, "\"trace_equal\": false"));
    assert_non_null(strstr(r->certificate, "\"kernel\": false"));
    assert_int_equal(r->n_notes, 1);
    assert_non_null(strstr(r->notes[0], "traces differ"));
    fb_results_free(r);
    fb_store_close(store);
}

static void the_class_follows_from_what_is_stored(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {TEXT(RULES), ""},
        {TEXT(RULES "compute: {mode: report}\n"),
         "extra work of rules is shown, not limited"},
        {TEXT(RULES "memory: {metadata: free}\n"),
         "the state of rules is not charged to the budget"},
        {TEXT(RULES "protocol: {protect: published}\n"), "published protection"},
        {TEXT("rules: [random, knorm]\n"), "full is not among the rules"},
        {TEXT("rules: [full, knorm]\n"), "random is not among the rules"},
        {TEXT("rules: [knorm]\n"), "full and random are not among the rules"},
        {TEXT(RULES "seeds: [1, 2]\n"), ""},
        {TEXT("rules: [full, random, oracle, knorm]\n"), ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fb_results *r = NULL;
        fb_store *store = NULL;
        char name[16];

        (void)snprintf(name, sizeof name, "%zu.db", i);
        small_open(&s, cases[i].text);
        run(name);
        read_results(name, &store, &r);
        assert_string_equal(r->class_name,
                            cases[i].reason[0] == '\0' ? "closed" : "open");
        assert_non_null(strstr(r->class_reasons, cases[i].reason));
        if (cases[i].reason[0] == '\0') assert_string_equal(r->class_reasons, "");
        assert_null(strstr(r->class_reasons, "; ")); /* one reason each */
        fb_results_free(r);
        fb_store_close(store);
        small_close(&s);
    }
}

/* --- conditions that no run of this program can break --- */

static bool judge(const fb_results *r, double use, bool trace, bool cache, fb_text *why)
{
    const fb_evidence evidence = {r, &s.spec.values, trace, cache, use};
    bool holds[FB_CONDITIONS];

    fb_text_clear(why);
    return fb_rulebook_judge(&evidence, why, holds);
}

#define DEPLOYED(name)                                                                 \
    {                                                                                  \
        .label = name, .expression = name, .deployable = true, .accounted = true       \
    }

/* An experiment of the closed class, whose parts a test may change. */
static fb_result_rule rules[3];
static fb_result_cell cells[4];

static fb_results closed_one(void)
{
    static const fb_result_rule good_rules[3] = {DEPLOYED("full"), DEPLOYED("random"),
                                                 DEPLOYED("mine")};
    static const fb_result_cell good_cells[4] = {{.rule = 0, .status = "done"},
                                                 {.rule = 1, .status = "done"},
                                                 {.rule = 2, .status = "done"},
                                                 {.rule = 2, .status = "failed"}};

    memcpy(rules, good_rules, sizeof rules);
    memcpy(cells, good_cells, sizeof cells);
    return (fb_results){.rules = rules,
                        .n_rules = 3,
                        .kernel = "native.f32.kv32",
                        .planned = 4,
                        .cells = cells,
                        .n_cells = 4};
}

static void every_condition_can_fail(void **state)
{
    fb_results r = closed_one();
    fb_text why = {0};

    (void)state;
    small_open(&s, TEXT(RULES));
    assert_true(judge(&r, 1, true, true, &why));
    assert_false(judge(&r, 1.0001, true, true, &why));
    assert_string_equal(fb_text_string(&why), "a cell used 1.0001 of its budget");
    assert_false(judge(&r, 1, false, false, &why));
    assert_non_null(strstr(fb_text_string(&why), "; rules of a sample began with"));
    r.n_cells = 3;
    assert_false(judge(&r, 1, true, true, &why));
    assert_string_equal(fb_text_string(&why), "1 of 4 cells are not there");
    r.n_cells = 4;
    r.planned = 3; /* rows that somebody has made two of */
    assert_false(judge(&r, 1, true, true, &why));
    assert_string_equal(fb_text_string(&why), "4 cells are there, and 3 were planned");
    r.planned = 4;
    r.kernel = "torch-2.13.0.cpu.f32.kv32";
    assert_false(judge(&r, 1, true, true, &why));
    assert_non_null(strstr(fb_text_string(&why), "within a tolerance"));
    fb_text_clear(&why);
}

static void conditions_on_rules_can_fail(void **state)
{
    const fb_results r = closed_one();
    fb_text why = {0};

    (void)state;
    small_open(&s, TEXT(RULES));
    rules[2].accounted = false;
    assert_false(judge(&r, 1, true, true, &why));
    assert_string_equal(fb_text_string(&why),
                        "what mine does beside operators is not counted");
    rules[2].accounted = true;
    rules[2].deployable = false;
    assert_false(judge(&r, 1, true, true, &why));
    assert_string_equal(fb_text_string(&why),
                        "mine sees what no deployed rule can, and is ranked");
    rules[2].is_reference = true;
    assert_true(judge(&r, 1, true, true, &why));
    cells[1].status = "failed";
    assert_false(judge(&r, 1, true, true, &why));
    assert_string_equal(fb_text_string(&why), "every cell of full or of random failed");
    fb_text_clear(&why);
}

static void the_document_has_every_condition(void **state)
{
    char *text = NULL;
    size_t n = 0;

    (void)state;
    assert_ok(fb_file_read(&text, &n, "docs/RULEBOOK.md", 1 << 20));
    for (int i = 0; i < FB_CONDITIONS; i++) {
        char row[512];

        (void)snprintf(row, sizeof row, "| `%s` | %s |", fb_rulebook[i].name,
                       fb_rulebook[i].sentence);
        if (strstr(text, row) == NULL) fail_msg("docs/RULEBOOK.md lacks: %s", row);
    }
    fb_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_run_is_run_again, begin, end),
        cmocka_unit_test_setup_teardown(a_failing_allocation_is_said, begin, end),
        cmocka_unit_test_setup_teardown(another_kernel_is_found, begin, end),
        cmocka_unit_test_setup_teardown(a_backend_that_promises_no_bits_has_a_tolerance,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            a_second_path_in_one_rule_is_found_by_running_cells_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_second_path_in_one_rule_opens_the_class,
                                        begin, end),
        cmocka_unit_test_setup_teardown(the_class_follows_from_what_is_stored, begin,
                                        end),
        cmocka_unit_test_setup_teardown(every_condition_can_fail, begin, end),
        cmocka_unit_test_setup_teardown(conditions_on_rules_can_fail, begin, end),
        cmocka_unit_test(the_document_has_every_condition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
