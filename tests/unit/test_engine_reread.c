/* test_engine_reread.c - a context cut to the budget is that shorter context, to the bit.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

enum { CONTEXT = 90, LAST = 37, PROMPT = 2, ANSWER = 3 };

static int32_t context[CONTEXT];
static const int32_t prompt[PROMPT] = {2, 20}, answer[ANSWER] = {44, 5, 41};
static const fb_question question = {prompt, answer, PROMPT, ANSWER};
static const fb_answer_options options = {.generate = true, .max_tokens = 6};

static rig the;
static fb_reading *reading;

static void open_on(const char *model)
{
    rig_text(context, CONTEXT, 21);
    rig_open(&the, model, NULL, NULL);
    assert_ok(fb_read(&reading, the.engine, context, CONTEXT, NULL, 0, 1));
}

static void close_all(void)
{
    fb_reading_free(reading);
    rig_close(&the);
}

static void answer_by(fb_reading *of, fb_variant *variant, fb_answer *out)
{
    assert_ok(fb_answer_group(of, &variant, 1, &question, &options, out));
}

/* Its words and its likelihoods; KL is to another full cache. */
static void are_same(const fb_answer *a, const fb_answer *b)
{
    assert_memory_equal(a->nll, b->nll, ANSWER * sizeof *a->nll);
    assert_memory_equal(a->top1, b->top1, ANSWER * sizeof *a->top1);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

static void check_last(const char *model)
{
    fb_reading *shorter;
    fb_variant *cut, *whole;
    fb_answer a, b;

    open_on(model);
    assert_ok(
        fb_read(&shorter, the.engine, context + CONTEXT - LAST, LAST, NULL, 0, 1));
    assert_ok(fb_reread(&cut, reading, context, LAST));
    assert_ok(fb_keep_all(&whole, shorter));
    answer_by(reading, cut, &a);
    answer_by(shorter, whole, &b);
    are_same(&a, &b);
    fb_answer_clear(&a);
    fb_answer_clear(&b);
    fb_variant_free(cut);
    fb_variant_free(whole);
    fb_reading_free(shorter);
    close_all();
}

static void the_end_of_a_text_answers_as_if_it_were_all(void **state)
{
    (void)state;
    check_last("builtin");
}

static void so_it_does_where_layers_have_windows(void **state)
{
    (void)state;
    check_last("tests/golden/families/gemma3");
}

static void it_takes_its_budget_and_pays_for_its_own_pass(void **state)
{
    const fb_selection *selection;
    fb_variant *cut;
    int64_t slots;

    (void)state;
    open_on("builtin");
    assert_ok(fb_reread(&cut, reading, context, LAST));
    selection = fb_variant_selection(cut);
    slots = selection->kept.n_slots;
    assert_int_equal(fb_kept_total(&selection->kept), slots * LAST);
    assert_int_equal(selection->kept.position[0][0], CONTEXT - LAST);
    assert_int_equal(selection->kept.position[slots - 1][LAST - 1], CONTEXT - 1);
    assert_int_equal(fb_variant_bytes(cut) * CONTEXT,
                     fb_cache_bytes(fb_reading_cache(reading)) * LAST);
    assert_true(fb_variant_streamed(cut));
    assert_string_equal(fb_variant_trace(cut), "");
    assert_true(
        fb_ledger_total(fb_variant_ledger(cut), FB_PHASE_context, FB_SCOPE_model)
            .flops > 0);
    fb_variant_free(cut);
    close_all();
}

static void all_of_a_text_is_the_full_cache(void **state)
{
    fb_variant *variants[2];
    fb_answer out[2];

    (void)state;
    open_on("builtin");
    assert_ok(fb_reread(&variants[0], reading, context, 2 * CONTEXT));
    assert_ok(fb_keep_all(&variants[1], reading));
    assert_ok(fb_answer_group(reading, variants, 2, &question, &options, out));
    are_same(&out[0], &out[1]);
    for (int i = 0; i < ANSWER; i++)
        assert_true(out[0].kl[i] == 0);
    for (int i = 0; i < 2; i++) {
        fb_answer_clear(&out[i]);
        fb_variant_free(variants[i]);
    }
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_text_answers_as_if_it_were_all),
        cmocka_unit_test(so_it_does_where_layers_have_windows),
        cmocka_unit_test(it_takes_its_budget_and_pays_for_its_own_pass),
        cmocka_unit_test(all_of_a_text_is_the_full_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
