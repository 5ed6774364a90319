/* test_foretold.c - ledger and memory of cells of the default model, with heads in groups of
 * three and weights of several formats, are what was foretold without computing.
 *
 * The model is named by FLEXBUDGET_TEST_MODEL; without it the test fails.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/foretold.h"

enum { CONTEXT = 300, PROMPT = 12, ANSWER = 9, MOST = 3, KEPT = 90 };

static const struct {
    const char *rule;
    bool streams;
    fb_dtype cache;
} cells[] = {
    {"adakv(snapkv:window=16)", false, FB_F16},
    {"rkv", false, FB_F32},
    {"kvzip:piece=200", false, FB_F32},
    {"h2o", true, FB_F32},
};

static void cells_of_the_default_model_are_foretold(void **state)
{
    const char *path = getenv("FLEXBUDGET_TEST_MODEL");
    static int32_t context[CONTEXT], prompt[PROMPT], answer[ANSWER];
    const foretold_text text = {context, prompt, answer};
    foretold_rig the;

    (void)state;
    assert_non_null(path);
    for (int i = 0; i < CONTEXT; i++)
        context[i] = 1000 + 97 * i % 30000;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 500 + i;
    for (int i = 0; i < ANSWER; i++)
        answer[i] = 40000 + i;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        fb_foretell cell = {.n_tokens = CONTEXT,
                            .k = KEPT,
                            .engine = {.chunk = 128, .cache = cells[i].cache},
                            .protect = {FB_PROTECT_EXPERIMENT, 4, 16},
                            .streams = cells[i].streams,
                            .pace = {.chunk = 32, .interval = 8},
                            .n_prompt = PROMPT,
                            .n_answer = ANSWER,
                            .max_tokens = MOST,
                            .threads = 2};
        fb_bound_rule *rule;

        assert_ok(fb_rule_parse(&rule, cells[i].rule));
        foretold_open(&the, path, &cell);
        cell.rule = rule;
        assert_int_equal(foretold_differs(&the, &cell, &text), 0);
        rig_close(&the.rig);
        fb_bound_rule_free(rule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_of_the_default_model_are_foretold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
