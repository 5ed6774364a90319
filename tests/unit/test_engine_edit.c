/* test_engine_edit.c - what an edit changes: values that are kept, and nothing else.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"

#include <math.h>

enum { CONTEXT = 90, K = 30, D = 32, SLOTS = 4, PROMPT = 2, ANSWER = 3 };

static int32_t context[CONTEXT];
static const int32_t prompt[PROMPT] = {2, 20}, answer[ANSWER] = {44, 5, 41};
static const fb_question question = {prompt, answer, PROMPT, ANSWER};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};

enum { BASE, MERGING, NONE_ALIKE, SHARED, MERGING_SHARED, CONTROL, RULES };
static const char *const expressions[RULES] = {
    "knorm",         "merging(knorm)",         "merging(knorm,threshold=1)",
    "adakv(random)", "merging(adakv(random))", "control(merging(knorm))"};
static rig the;
static fb_bound_rule *rules[RULES];
static fb_reading *reading;

static int open_reading(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 21);
    rig_open(&the, "tests/golden/families/qwen3", NULL, NULL);
    rig_read(&the, &reading, rules, expressions, RULES, context, CONTEXT);
    return 0;
}

static int close_reading(void **state)
{
    (void)state;
    rig_forget(reading, rules, RULES);
    rig_close(&the);
    return 0;
}

static fb_variant *evict(int rule)
{
    fb_variant *out;

    assert_ok(fb_evict(&out, reading, rule, &usual, 0, K));
    return out;
}

/* Keys or values of a slot of a cache. */
static void read_slot(const fb_cache *cache, bool values, int64_t slot, int64_t n,
                      float out[CONTEXT * D])
{
    fb_tensor x[2];

    fb_scope_open(the.ops);
    fb_cache_read_slot(cache, the.ops, slot, &x[0], &x[1]);
    assert_ok(fb_to_host(the.ops, x[values], out, (size_t)(n * D) * sizeof *out));
    fb_scope_close(the.ops);
}

static float length(const float *row)
{
    float sum = 0;

    for (int i = 0; i < D; i++)
        sum += row[i] * row[i];
    return sqrtf(sum);
}

static void are_kept_alike(const fb_variant *a, const fb_variant *b)
{
    const fb_kept *x = &fb_variant_selection(a)->kept;
    const fb_kept *y = &fb_variant_selection(b)->kept;

    for (int64_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(x->count[slot], y->count[slot]);
        assert_memory_equal(x->position[slot], y->position[slot],
                            (size_t)x->count[slot] * sizeof(int32_t));
    }
}

/* Entries and keys of both are the same; how many of all numbers of values are not. */
static int64_t n_changed(const fb_variant *base, const fb_variant *edited)
{
    static float a[CONTEXT * D], b[CONTEXT * D];
    int64_t changed = 0;

    are_kept_alike(base, edited);
    assert_int_equal(fb_variant_bytes(base), fb_variant_bytes(edited));
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        const int64_t k = fb_variant_selection(base)->kept.count[slot];

        read_slot(base->arena, false, slot, k, a);
        read_slot(edited->arena, false, slot, k, b);
        assert_memory_equal(a, b, (size_t)(k * D) * sizeof *a);
        read_slot(base->arena, true, slot, k, a);
        read_slot(edited->arena, true, slot, k, b);
        for (int64_t i = 0; i < k * D; i++)
            changed += memcmp(&a[i], &b[i], sizeof *a) != 0;
    }
    return changed;
}

static void merging_changes_values_and_nothing_else(void **state)
{
    static const int pairs[][2] = {{BASE, MERGING}, {SHARED, MERGING_SHARED}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fb_variant *base = evict(pairs[i][0]), *edited = evict(pairs[i][1]);

        assert_true(n_changed(base, edited) > 0);
        fb_variant_free(base);
        fb_variant_free(edited);
    }
}

/* Merged values are averages: no longer than the longest of the context. */
static void no_merged_value_is_longer_than_all_that_went_into_it(void **state)
{
    static float values[CONTEXT * D];
    fb_variant *edited = evict(MERGING);

    (void)state;
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        float longest = 0;

        read_slot(fb_reading_cache(reading), true, slot, CONTEXT, values);
        for (int64_t j = 0; j < CONTEXT; j++)
            longest = fmaxf(longest, length(values + j * D));
        read_slot(edited->arena, true, slot, K, values);
        for (int64_t j = 0; j < K; j++)
            assert_true(length(values + j * D) <= longest * (1 + 1e-6f));
    }
    fb_variant_free(edited);
}

static void answer_all(fb_variant *const *variants, int n, fb_answer *out)
{
    assert_ok(fb_answer_group(reading, variants, n, &question,
                              &(fb_answer_options){.generate = true, .max_tokens = 4},
                              out));
}

static void where_no_keys_are_alike_enough_the_rule_itself_is_left(void **state)
{
    fb_variant *variants[] = {evict(BASE), evict(NONE_ALIKE)};
    fb_answer out[2];

    (void)state;
    assert_int_equal(n_changed(variants[0], variants[1]), 0);
    answer_all(variants, 2, out);
    for (int i = 0; i < ANSWER; i++)
        assert_memory_equal(&out[0].nll[i], &out[1].nll[i], sizeof(double));
    for (int i = 0; i < 2; i++) {
        fb_answer_clear(&out[i]);
        fb_variant_free(variants[i]);
    }
}

static void a_mask_gives_way_to_edited_values(void **state)
{
    fb_variant *variants[2] = {evict(MERGING), NULL};
    fb_answer out[2];

    (void)state;
    assert_ok(fb_evict_masked(&variants[1], reading, MERGING, &usual, 0, K));
    answer_all(variants, 2, out);
    assert_true(fb_answer_is_same(&out[0], &out[1]));
    assert_true(fb_ledger_equal(fb_variant_ledger(variants[0]),
                                fb_variant_ledger(variants[1])));
    for (int i = 0; i < 2; i++) {
        fb_answer_clear(&out[i]);
        fb_variant_free(variants[i]);
    }
}

static void a_control_merges_too(void **state)
{
    fb_variant *control = evict(CONTROL), *plain;

    (void)state;
    assert_ok(fb_evict_given(&plain, reading, &fb_variant_selection(control)->kept,
                             SLOTS * K));
    assert_true(n_changed(plain, control) > 0);
    fb_variant_free(plain);
    fb_variant_free(control);
}

static void nothing_is_edited_where_nothing_leaves(void **state)
{
    fb_variant *all;

    (void)state;
    assert_ok(fb_evict(&all, reading, MERGING, &usual, 0, CONTEXT));
    assert_int_equal(fb_kept_total(&fb_variant_selection(all)->kept), SLOTS * CONTEXT);
    fb_variant_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_changes_values_and_nothing_else),
        cmocka_unit_test(no_merged_value_is_longer_than_all_that_went_into_it),
        cmocka_unit_test(where_no_keys_are_alike_enough_the_rule_itself_is_left),
        cmocka_unit_test(a_mask_gives_way_to_edited_values),
        cmocka_unit_test(a_control_merges_too),
        cmocka_unit_test(nothing_is_edited_where_nothing_leaves),
    };
    return cmocka_run_group_tests(tests, open_reading, close_reading);
}
