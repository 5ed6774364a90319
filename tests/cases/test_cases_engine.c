/* test_cases_engine.c - user cases about positions, masks and kernels, by id.
 *
 * D01, D02: what a token sees after an eviction. D04: rotations on rotations. D07: a text
 * at once and token by token. On the built-in model.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/rope.h"
#include "tests/support/rig.h"

#include <math.h>

enum { CONTEXT = 100, KEPT = 50, ANSWER = 4 };

static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static int32_t ids[CONTEXT + ANSWER];

/* NLL of the answer after an eviction to 50 entries per head, and the ids of a free one. */
static void answer(const fb_ops_options *ops, bool masked, fb_answer *out)
{
    const fb_question question = {ids + CONTEXT, ids + CONTEXT, 1, ANSWER};
    const fb_answer_options options = {.generate = true, .max_tokens = 8};
    fb_seeded_rule rule = {.seed = 3};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *variant;
    rig r;

    rig_open(&r, "builtin", ops, NULL);
    assert_ok(fb_rule_parse(&bound, "random"));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, ids, CONTEXT, &rule, 1, 0));
    assert_ok(
        (masked ? fb_evict_masked : fb_evict)(&variant, reading, 0, &none, 0, KEPT));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, out));
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

static void same(const fb_answer *a, const fb_answer *b)
{
    assert_memory_equal(a->nll, b->nll, ANSWER * sizeof *a->nll);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

/* The query is at position 100: the full cache with a mask, where nothing moved, gives the
 * very bits. */
static void D01_a_query_keeps_its_position_after_an_eviction(void **state)
{
    fb_answer cut, hidden;

    (void)state;
    answer(NULL, false, &cut);
    answer(NULL, true, &hidden);
    same(&cut, &hidden);
    fb_answer_clear(&cut);
    fb_answer_clear(&hidden);
}

/* The plain build is a loop over single numbers with an fma of its own. */
static void D02_the_naive_kernel_and_the_fast_one_agree(void **state)
{
    const fb_ops_options naive = {.isa = "plain", .threads = 1};
    fb_answer slow, fast;

    (void)state;
    answer(&naive, false, &slow);
    answer(NULL, false, &fast);
    same(&slow, &fast);
    fb_answer_clear(&slow);
    fb_answer_clear(&fast);
}

/* Keys turned back by one position 200 times against one fresh rotation. */
static void turn(fb_ops *ops, fb_kv *kv, const fb_rope *rope, int64_t by)
{
    fb_tensor cosine, sine;

    fb_scope_open(ops);
    assert_ok(fb_rope_tables(ops, rope, 16, 512, &by, 1, &cosine, &sine));
    fb_kv_turn(ops, kv, 0, cosine, sine);
    fb_scope_close(ops);
}

static void check_turns(const fb_rope *rope)
{
    enum { D = 32, STEPS = 200 };
    const int64_t slot = 0, at = 0, one = 1;
    float x[3 * D], many[D], once[D];
    fb_kv *steps, *fresh;
    double most = 0, size = 0;
    fb_ops *ops;

    for (int i = 0; i < 3 * D; i++)
        x[i] = (float)sin(i * 1.7 + 0.3);
    assert_ok(fb_ops_open(&ops, NULL));
    assert_ok(fb_kv_new(&steps, ops, FB_ACCOUNT_kv, FB_F32, D, 1, &one));
    assert_ok(fb_kv_new(&fresh, ops, FB_ACCOUNT_kv, FB_F32, D, 1, &one));
    fb_scope_open(ops);
    for (int k = 0; k < 2; k++)
        fb_kv_write(ops, k == 0 ? steps : fresh,
                    fb_from_host(ops, FB_F32, 2, (int64_t[]){1, 3 * D}, x), 1, 1, 1,
                    &slot, &at);
    for (int i = 0; i < STEPS; i++)
        turn(ops, steps, rope, -1);
    turn(ops, fresh, rope, -STEPS);
    assert_ok(
        fb_to_host(ops, fb_kv_read(ops, steps, false, 0, 1, 1), many, sizeof many));
    assert_ok(
        fb_to_host(ops, fb_kv_read(ops, fresh, false, 0, 1, 1), once, sizeof once));
    for (int i = 0; i < D; i++) {
        most = fmax(most, fabs((double)many[i] - (double)once[i]));
        size = fmax(size, fabs((double)once[i]));
    }
    assert_true(most / size < 1e-4);
    fb_scope_close(ops);
    fb_kv_free(steps);
    fb_kv_free(fresh);
    fb_ops_close(ops);
}

static void D04_rotations_on_rotations_stay_exact(void **state)
{
    const fb_rope plain = {.kind = FB_ROPE_PLAIN, .theta = 1e4, .factor = 1, .size = 1};
    const fb_rope scaled = {.kind = FB_ROPE_LLAMA3,
                            .theta = 5e5,
                            .factor = 8,
                            .first_length = 64,
                            .low = 1,
                            .high = 4,
                            .size = 1};

    (void)state;
    check_turns(&plain);
    check_turns(&scaled);
}

static void D07_a_text_at_once_and_token_by_token_give_one_result(void **state)
{
    enum { N = 64, VOCABULARY = 64 };
    static float at_once[N * VOCABULARY], one_by_one[N * VOCABULARY];
    const fb_engine_options single = {.chunk = 1};
    int64_t row[N];

    (void)state;
    for (int64_t i = 0; i < N; i++)
        row[i] = i;
    for (int k = 0; k < 2; k++) {
        rig r;

        rig_open(&r, "builtin", NULL, k == 0 ? NULL : &single);
        assert_int_equal(fb_model_get_facts(r.model)->vocabulary, VOCABULARY);
        assert_ok(fb_logits(r.engine, ids, N, row, N, k == 0 ? at_once : one_by_one));
        rig_close(&r);
    }
    assert_memory_equal(at_once, one_by_one, sizeof at_once);
}

static int make_text(void **state)
{
    (void)state;
    rig_text(ids, CONTEXT + ANSWER, 7);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D01_a_query_keeps_its_position_after_an_eviction),
        cmocka_unit_test(D02_the_naive_kernel_and_the_fast_one_agree),
        cmocka_unit_test(D04_rotations_on_rotations_stay_exact),
        cmocka_unit_test(D07_a_text_at_once_and_token_by_token_give_one_result),
    };

    return cmocka_run_group_tests(tests, make_text, NULL);
}
