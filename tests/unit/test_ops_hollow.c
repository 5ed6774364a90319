/* test_ops_hollow.c - operators without numbers: calls are checked and charged as ever, memory
 * is booked and not taken, and what is read back is 0 or a set. And the stack that both kinds
 * of operators work on.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/backend.h"
#include "ops/stack.h"
#include "tests/support/test.h"

enum { HUGE_ROWS = 1 << 20, HUGE_COLUMNS = 1 << 16 }; /* 256 GiB of f32 */

static fb_ops *ops;

static int open_ops(void **state)
{
    (void)state;
    assert_ok(fb_ops_open_hollow(&ops, 3));
    return 0;
}

static int close_ops(void **state)
{
    (void)state;
    fb_ops_close(ops);
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        assert_int_equal(fb_memory_now((fb_account)a), 0);
    return 0;
}

static fb_status never(void *context, int64_t begin, int64_t end, float *out)
{
    (void)context;
    (void)begin;
    (void)end;
    (void)out;
    return fb_fail(FB_DEFECT, "a number was asked for");
}

static void what_no_memory_could_hold_is_booked(void **state)
{
    const size_t bytes = (size_t)HUGE_ROWS * HUGE_COLUMNS * sizeof(float);
    const fb_weight_source source = {
        .rows = HUGE_ROWS, .columns = HUGE_COLUMNS, .unpack = never};
    const int64_t shape[] = {HUGE_ROWS, HUGE_COLUMNS};
    fb_ledger ledger = {0}, *payer = &ledger;
    fb_tensor weight, x;

    (void)state;
    assert_false(fb_ops_has_numbers(ops));
    assert_string_equal(fb_ops_backend(ops), "shape");
    weight = fb_weight(ops, &source);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), bytes);
    x = fb_new(ops, FB_ACCOUNT_signals, FB_F32, 2, shape);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_signals), bytes);
    fb_ops_charge(ops, &payer, 1);
    fb_scope_open(ops);
    x = fb_linear(ops, x, weight);
    assert_int_equal(fb_size(ops, x, 1), HUGE_ROWS);
    assert_true(fb_memory_now(FB_ACCOUNT_scratch) >=
                (size_t)HUGE_ROWS * HUGE_ROWS * sizeof(float));
    fb_scope_close(ops);
    fb_ops_charge(ops, NULL, 0);
    assert_ok(fb_ops_status(ops));
    assert_true(ledger.count[FB_PHASE_context][FB_SCOPE_model][FB_OP_linear].flops ==
                2.0 * HUGE_ROWS * HUGE_ROWS * HUGE_COLUMNS);
}

static void what_is_read_back_is_zero_or_a_set(void **state)
{
    const float one[6] = {1, 1, 1, 1, 1, 1};
    float numbers[6];
    int64_t places[4];
    int32_t best[2];
    fb_tensor x;

    (void)state;
    fb_scope_open(ops);
    x = fb_from_host(ops, FB_F32, 2, (int64_t[]){2, 3}, one);
    assert_ok(fb_to_host(ops, x, numbers, sizeof numbers));
    for (int i = 0; i < 6; i++)
        assert_true(numbers[i] == 0);
    assert_ok(fb_to_host(ops, fb_topk(ops, x, 2), places, sizeof places));
    assert_memory_equal(places, ((int64_t[]){0, 1, 0, 1}), sizeof places);
    assert_ok(fb_argmax(ops, x, best));
    assert_true(best[0] == 0 && best[1] == 0);
    fb_scope_close(ops);
}

static void wrong_calls_are_refused_as_ever(void **state)
{
    fb_tensor x;

    (void)state;
    fb_scope_open(ops);
    x = fb_full(ops, 2, (int64_t[]){2, 3}, 1);
    (void)fb_bmm(ops, x, false, x, false);
    assert_fails(fb_ops_status(ops), FB_DEFECT, "fb_bmm: shapes [2, 3] and [2, 3]");
    fb_ops_reset(ops);
}

/* A new operator has a row here, too. */
static void every_operator_is_there(void **state)
{
    (void)state;
    for (int op = 0; op < FB_OP_COUNT; op++)
        assert_non_null(fb_backend_shape.kernels[op]);
}

/* Of a text that grows each block is larger than the last; a few small ones come back. */
static void a_stack_keeps_no_block_that_is_too_small(void **state)
{
    const size_t mib = 1 << 20;
    size_t most = 0;

    for (int hollow = 0; hollow < 2; hollow++) {
        fb_stack stack = {.is_hollow = hollow == 1};

        for (size_t n = 65; n < 100; n++) {
            const size_t mark = fb_stack_mark(&stack);

            assert_non_null(fb_stack_take(&stack, 1000));
            assert_non_null(fb_stack_take(&stack, n * mib));
            fb_stack_cut(&stack, mark);
        }
        if (hollow == 0) most = fb_memory_now(FB_ACCOUNT_scratch);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_scratch), most);
        assert_true(most < 2 * 99 * mib);
        /* the next may fail, and then succeed */
        fb_memory_fail_at(hollow == 0);
        assert_true((fb_stack_take(&stack, 200 * mib) == NULL) == (hollow == 0));
        fb_memory_fail_at(0);
        assert_non_null(fb_stack_take(&stack, 200 * mib));
        assert_non_null(fb_stack_take(&stack, 100));
        fb_stack_clear(&stack);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_scratch), 0);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_no_memory_could_hold_is_booked, open_ops,
                                        close_ops),
        cmocka_unit_test_setup_teardown(what_is_read_back_is_zero_or_a_set, open_ops,
                                        close_ops),
        cmocka_unit_test_setup_teardown(wrong_calls_are_refused_as_ever, open_ops,
                                        close_ops),
        cmocka_unit_test(every_operator_is_there),
        cmocka_unit_test(a_stack_keeps_no_block_that_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
