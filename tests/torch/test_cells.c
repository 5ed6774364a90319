/* test_cells.c - a cell has the same bits alone and in a sweep, on the torch backend too.
 *
 * Ninety cells, of every rule of the table at several budgets, ragged ones and uniform ones:
 * answered all in one batch, alone, and in groups of 2, 7 and 32, with 1 thread and with 2;
 * with 2 through masks as well.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/every_rule.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"
#include "tests/support/torch_threads.h"

enum { CELLS = 90, N = 90, PROMPT = 3, ANSWER = 5, FREE = 5 };

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 8};
static const int64_t groups[] = {1, 2, 7, 32};

static char folder[TEST_PATH];
static every_rule rules;
static int32_t ids[N + PROMPT + ANSWER];
static const fb_question question = {ids + N, ids + N + PROMPT, PROMPT, ANSWER};
static const fb_answer_options free_too = {.generate = true, .max_tokens = FREE};

/* Each rule at the next budget; `masked`: through the reading's own cache. */
static void evict(fb_reading *reading, fb_variant **variants, bool masked)
{
    assert_true(rules.n <= CELLS);
    for (int n = 0; n < CELLS; n++)
        assert_ok((masked ? fb_evict_masked : fb_evict)(
            &variants[n], reading, 1 + n % (rules.n - 1), &usual, 0, 13 + n % 4 * 17));
}

static void check_groups(fb_reading *reading, fb_variant *const *variants)
{
    static fb_answer all[CELLS], part[CELLS];

    assert_ok(fb_answer_group(reading, variants, CELLS, &question, &free_too, all));
    assert_false(fb_answer_is_same(&all[0], &all[CELLS - 1])); /* they do differ */
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (int at = 0; at < CELLS; at += (int)groups[g])
            assert_ok(
                fb_answer_group(reading, variants + at,
                                CELLS - at < groups[g] ? CELLS - at : (int)groups[g],
                                &question, &free_too, part + at));
        for (int i = 0; i < CELLS; i++) {
            if (!fb_answer_is_same(&all[i], &part[i]))
                fail_msg("cell %d is another in groups of %d", i, (int)groups[g]);
            fb_answer_clear(&part[i]);
        }
    }
    for (int i = 0; i < CELLS; i++)
        fb_answer_clear(&all[i]);
}

static void check_model(const char *path, int threads)
{
    const fb_ops_options options = {.device = test_device(), .threads = threads};
    fb_variant *variants[CELLS];
    fb_reading *reading;
    rig r;

    rig_open(&r, path, &options, NULL);
    assert_ok(fb_read(&reading, r.engine, ids, N, rules.seeded, rules.n, 3));
    assert_ok(fb_foresee_document(reading, &question, 1));
    assert_ok(fb_foresee(reading, &question));
    for (int masked = 0; masked < threads; masked++) {
        evict(reading, variants, masked);
        check_groups(reading, variants);
        for (int i = 0; i < CELLS; i++)
            fb_variant_free(variants[i]);
    }
    fb_reading_free(reading);
    rig_close(&r);
}

static void check_models(int threads)
{
    torch_set_threads(threads);
    rig_text(ids, N + PROMPT + ANSWER, 8);
    check_model(test_path(folder, "random.gguf"), threads);
    if (threads > 1) check_model("builtin", threads);
}

static void ninety_cells_are_the_same_alone_and_together(void **state)
{
    (void)state;
    check_models(2);
    check_models(1);
}

static int open_all(void **state)
{
    (void)state;
    test_folder(folder);
    random_llama(test_path(folder, "random.gguf"), RANDOM_NO_END);
    every_rule_open(&rules);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    every_rule_close(&rules);
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ninety_cells_are_the_same_alone_and_together),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
