/* test_experiment_foretell.c - what a cell will take, without its numbers, against what it
 * took with them: every rule on the built-in model and on a random one whose every place matters,
 * read at once and as a stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/every_rule.h"
#include "tests/support/foretold.h"
#include "tests/support/in_use.h"
#include "tests/support/random_llama.h"

enum { CONTEXT = 300, PROMPT = 20, ANSWER = 10, MOST = 6, KEPT = 120, CHUNK = 32 };

static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static every_rule all;
static foretold_rig the;
static const foretold_text text = {context, prompt, answer_ids};
static const char *model_path;
static char folder[TEST_PATH];

static fb_foretell cell_of(const fb_bound_rule *rule, fb_dtype cache)
{
    return (fb_foretell){.rule = rule,
                         .n_tokens = CONTEXT,
                         .k = KEPT,
                         .protect = {FB_PROTECT_EXPERIMENT, 4, 16},
                         .engine = {.chunk = 64, .cache = cache},
                         .n_prompt = PROMPT,
                         .n_answer = ANSWER,
                         .max_tokens = MOST,
                         .threads = 2};
}

static int prefill_differs(fb_dtype cache)
{
    int n = 0;

    for (int r = 0; r < all.n; r++) {
        fb_foretell cell = cell_of(all.rule[r], cache);

        foretold_open(&the, model_path, &cell);
        n += foretold_differs(&the, &cell, &text);
        rig_close(&the.rig);
    }
    return n;
}

static int stream_differs(const fb_pace *pace)
{
    int n = 0, streamed = 0;

    for (int r = 0; r < all.n; r++) {
        fb_foretell cell = cell_of(all.rule[r], FB_F16);

        if (!fb_bound_rule_streams(all.rule[r]) ||
            fb_bound_rule_choices(all.rule[r])->keeps_all)
            continue;
        foretold_open(&the, model_path, &cell);
        cell.streams = true;
        cell.pace = *pace;
        if (fb_stream_entries(fb_model_get_facts(cell.model), FB_F16, cell.rule, KEPT,
                              pace->keeps_scores) > CHUNK) {
            n += foretold_differs(&the, &cell, &text);
            streamed++;
        }
        rig_close(&the.rig);
    }
    assert_true(streamed > 8);
    return n;
}

/* --- the tests --- */

static void a_cell_of_every_rule_is_foretold(void **state)
{
    model_path = "builtin";
    assert_int_equal(prefill_differs(FB_F32), 0);
    model_path = test_path(*state, "random.gguf");
    assert_int_equal(prefill_differs(FB_F16), 0);
}

static void so_is_a_stream(void **state)
{
    model_path = "builtin";
    assert_int_equal(stream_differs(&(fb_pace){.chunk = CHUNK, .pays_state = true}), 0);
    model_path = test_path(*state, "random.gguf");
    assert_int_equal(stream_differs(&(fb_pace){.chunk = CHUNK, .interval = 4}), 0);
}

/* Whatever fails, nothing stays booked. */
static void a_failure_leaves_nothing_booked(void **state)
{
    fb_foretell cell = cell_of(all.rule[0], FB_F32);
    fb_foretold told;
    fb_status status = FB_NO_MEMORY;
    fb_bound_rule *rule;
    fb_model *model;
    size_t before;

    (void)state;
    assert_ok(fb_model_open(&model, NULL, "builtin", NULL));
    assert_ok(fb_rule_parse(&rule, "adakv(snapkv)"));
    cell.model = model;
    cell.rule = rule;
    before = bytes_in_use();
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 10000);
        fb_memory_fail_at(n);
        status = fb_foretell_cell(&told, &cell);
        fb_memory_fail_at(0);
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        assert_int_equal(bytes_in_use(), before);
    }
    cell.k = 3 * CONTEXT; /* more than there are: all stay */
    assert_ok(fb_foretell_cell(&told, &cell));
    cell.n_tokens = 0;
    assert_fails(fb_foretell_cell(&told, &cell), FB_USAGE, "a context of 0 tokens");
    cell.n_tokens = CONTEXT;
    cell.streams = true;
    cell.pace.chunk = CHUNK;
    cell.k = CHUNK;
    assert_fails(fb_foretell_cell(&told, &cell), FB_UNSUPPORTED, "cannot evict while");
    assert_int_equal(bytes_in_use(), before);
    fb_bound_rule_free(rule);
    fb_model_close(model);
}

static int open_all(void **state)
{
    test_folder(folder);
    every_rule_open(&all);
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    answer_ids[0] =
        3; /* nobody says so: the free answer is decoded from its first word */
    random_llama(test_path(folder, "random.gguf"), RANDOM_NO_END);
    *state = folder;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    every_rule_close(&all);
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_of_every_rule_is_foretold),
        cmocka_unit_test(so_is_a_stream),
        cmocka_unit_test(a_failure_leaves_nothing_booked),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
