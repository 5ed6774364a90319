/* test_memory.c - decoding on the torch backend takes no more memory the longer it goes on.
 *
 * Ten thousand steps of the engine (a thousand unless tests are long): groups of answers on
 * one reading, alone and in a batch of four. After the first tenth neither what malloc has
 * given out nor what the process holds grows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/every_rule.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"

#include <malloc.h>

enum { N = 60, PROMPT = 3, FREE = 50, CELLS = 4 };

#define MOST_MALLOC   (96 << 10)
#define MOST_RESIDENT (4 << 20)

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 8};
static int32_t ids[N + PROMPT];
static const fb_question question = {ids + N, NULL, PROMPT, 0};
static const fb_answer_options free_only = {.generate = true, .max_tokens = FREE};

static int64_t bytes_given_out(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (int64_t)(info.uordblks + info.hblkhd);
}

static int64_t bytes_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long long pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %lld", &pages), 1);
    assert_int_equal(fclose(file), 0);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Steps of one group. */
static int64_t answer(fb_reading *reading, fb_variant **variants, int n)
{
    fb_answer out[CELLS];
    int64_t most = 0;

    assert_ok(fb_answer_group(reading, variants, n, &question, &free_only, out));
    for (int i = 0; i < n; i++) {
        if (out[i].n_ids > most) most = out[i].n_ids;
        fb_answer_clear(&out[i]);
    }
    return most;
}

static void ten_thousand_steps_take_the_memory_of_the_first(void **state)
{
    const fb_ops_options options = {.device = test_device(), .threads = 2};
    const int64_t steps = long_or_short(10000, 1000);
    int64_t done = 0, given_out = 0, resident = 0;
    fb_variant *variants[CELLS];
    bool is_batch = true;
    fb_reading *reading;
    char folder[TEST_PATH];
    every_rule rules;
    rig r;

    (void)state;
    test_folder(folder);
    random_llama(test_path(folder, "random.gguf"), RANDOM_NO_END);
    every_rule_open(&rules);
    rig_text(ids, N + PROMPT, 4);
    rig_open(&r, test_path(folder, "random.gguf"), &options, NULL);
    assert_ok(fb_read(&reading, r.engine, ids, N, rules.seeded, rules.n, 1));
    for (int i = 0, rule = 0; i < CELLS; rule++)
        if (!fb_bound_rule_choices(rules.rule[rule])->keeps_all &&
            fb_bound_rule_is_deployable(rules.rule[rule]))
            assert_ok(fb_evict(&variants[i++], reading, rule, &usual, 0, 30));
    while (done < steps) {
        done += answer(reading, variants, is_batch ? CELLS : 1);
        is_batch = !is_batch;
        if (done > steps / 10 && resident == 0) {
            given_out = bytes_given_out();
            resident = bytes_resident();
        }
    }
    given_out = bytes_given_out() - given_out;
    resident = bytes_resident() - resident;
    print_message("%lld steps; after the first tenth %lld bytes more of malloc, %lld "
                  "resident\n",
                  (long long)done, (long long)given_out, (long long)resident);
    assert_true(given_out < MOST_MALLOC);
    assert_true(resident < MOST_RESIDENT);
    for (int i = 0; i < CELLS; i++)
        fb_variant_free(variants[i]);
    fb_reading_free(reading);
    rig_close(&r);
    every_rule_close(&rules);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_steps_take_the_memory_of_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
