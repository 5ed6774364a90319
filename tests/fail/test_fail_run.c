/* test_fail_run.c - the n-th allocation of a whole run fails: it is said, nothing leaks,
 * and the same file goes on to the same digest.
 *
 * Small n one by one, where most of the ways lead; then in growing steps. Every n with
 * FLEXBUDGET_TEST_LONG.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/match.h"
#include "tests/support/in_use.h"
#include "tests/support/small_experiment.h"

/* Every way of making a variant. */
#define ALL_WAYS                                                                       \
    "name: ways\nmodel: builtin\n"                                                     \
    "tasks: [{recall: {tokens: 32, pairs: 4, samples: 1}}]\n"                          \
    "rules: [full, knorm, oracle_document, drop_evidence, evidence_only, quantised, "  \
    "reread, \"merging(knorm)\", \"block(keydiff, size=5)\", "                         \
    "\"control(adakv(keydiff))\"]\n"                                                   \
    "budgets: [50%]\n"                                                                 \
    "protocol: {protect: {sink: 1, recent: 2}}\n"

/* One whose rules are lowered first. */
#define MATCHED                                                                        \
    "name: matched\nmodel: builtin\n"                                                  \
    "tasks: [{recall: {tokens: 32, pairs: 4, samples: 1}}]\n"                          \
    "rules: [full, random, 'adakv(snapkv:window=8)', rkv]\n"                           \
    "budgets: [50%]\ncompute: {mode: matched, quota: 0.1%}\n"                          \
    "protocol: {protect: {sink: 1, recent: 2}}\n"

static char folder[TEST_PATH];

/* A whole run with the n-th allocation failing; n = 0: none. */
static fb_status run(const char *text, const char *name, int64_t n,
                     char digest[FB_HASH_HEX])
{
    const fb_run_options options = {.path = test_path(folder, name),
                                    .memory = (int64_t)1 << 30};
    fb_run_result result = {0};
    small s;
    fb_status status;

    fb_memory_fail_at(n);
    status = small_try(&s, text);
    if (status == FB_OK) status = fb_match(s.plan, &s.spec);
    if (status == FB_OK) status = fb_run(s.plan, s.ops, &options, &result);
    fb_memory_fail_at(0);
    memcpy(digest, result.digest, FB_HASH_HEX);
    small_close(&s);
    return status;
}

static void fail_everywhere(const char *text)
{
    char want[FB_HASH_HEX], got[FB_HASH_HEX];
    const size_t before = bytes_in_use();
    fb_status status = FB_NO_MEMORY;
    int64_t n = 1, tried = 0;

    assert_ok(run(text, "whole.db", 0, want));
    for (; status != FB_OK && n < 1000000; n += long_or_short(1, 1 + n / 12)) {
        char name[64];

        (void)snprintf(name, sizeof name, "%lld.db", (long long)n);
        status = run(text, name, n, got);
        if (status != FB_OK && status != FB_NO_MEMORY)
            fail_msg("allocation %lld: %s", (long long)n, fb_error_message());
        assert_int_equal(bytes_in_use(), before);
        if (tried++ % 5 == 0) assert_ok(run(text, name, 0, got));
        if (tried % 5 == 1) assert_string_equal(got, want);
        (void)unlink(test_path(folder, name));
    }
    assert_int_equal(status, FB_OK);
    assert_true(tried > 30);
    (void)unlink(test_path(folder, "whole.db"));
}

static void a_failing_allocation_is_said_and_leaks_nothing(void **state)
{
    (void)state;
    fail_everywhere(SMALL_TEXT);
}

static void nor_do_other_ways_to_keep_entries(void **state)
{
    (void)state;
    fail_everywhere(ALL_WAYS);
}

static void nor_does_lowering_what_rules_take(void **state)
{
    (void)state;
    fail_everywhere(MATCHED);
}

/* Two questions on one context, of variants that they share, and of some that they do not, while
 * it comes in and entries keep their scores. */
static void nor_do_questions_that_share_a_stream(void **state)
{
    static const char record[] =
        "{\"key\": \"a\", \"context\": \"A0B1C2D3E4F5G6H7abcdefgh\", \"turns\": "
        "[{\"question\": \"?A\", \"answers\": [\"0\"]}, "
        "{\"question\": \"?F?\", \"answers\": [\"5\"]}]}\n";
    char text[4 * TEST_PATH];

    (void)state;
    test_write(test_path(folder, "d.jsonl"), record);
    (void)snprintf(text, sizeof text,
                   "name: questions\nmodel: builtin\n"
                   "tasks: [{jsonl: {data: \"%s\", metric: nll}}]\n"
                   "rules: [full, keydiff, h2o]\nbudgets: [16t, 50%%]\n"
                   "protocol: {kind: stream, chunk: 4, interval: 4, rescore: new, "
                   "protect: {sink: 1, recent: 2}}\n",
                   test_path(folder, "d.jsonl"));
    fail_everywhere(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failing_allocation_is_said_and_leaks_nothing),
        cmocka_unit_test(nor_do_other_ways_to_keep_entries),
        cmocka_unit_test(nor_does_lowering_what_rules_take),
        cmocka_unit_test(nor_do_questions_that_share_a_stream),
    };
    int failed;

    test_folder(folder);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
