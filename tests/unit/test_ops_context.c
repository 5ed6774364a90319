/* test_ops_context.c - handles, scopes, first failures, and memory that is not taken
 * twice.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/test.h"

static fb_ops *open_ops(void)
{
    fb_ops *ops;

    assert_ok(fb_ops_open(&ops, &(fb_ops_options){.threads = 2}));
    return ops;
}

static fb_tensor filled(fb_ops *ops, int64_t n, double value)
{
    return fb_full(ops, 1, &n, value);
}

static float first_of(fb_ops *ops, fb_tensor a)
{
    float x = -1;

    assert_ok(fb_to_host(ops, fb_narrow(ops, a, 0, 0, 1), &x, sizeof x));
    return x;
}

static void an_unknown_device_or_isa_is_named(void **state)
{
    fb_ops *ops = (fb_ops *)state;

    assert_fails(fb_ops_open(&ops, &(fb_ops_options){.device = "tpu"}), FB_UNSUPPORTED,
                 "'tpu'");
    assert_null(ops);
    assert_fails(fb_ops_open(&ops, &(fb_ops_options){.isa = "sse9"}), FB_UNSUPPORTED,
                 "'sse9'");
    assert_null(ops);
    assert_fails(fb_ops_open(&ops, &(fb_ops_options){.threads = -1}), FB_USAGE,
                 "threads");
    assert_null(ops);
}

static void it_says_what_it_runs_on(void **state)
{
    fb_ops *ops = open_ops();

    (void)state;
    assert_string_equal(fb_ops_backend(ops), "native");
    assert_true(strlen(fb_ops_isa(ops)) > 3);
    assert_int_equal(fb_threads_count(fb_ops_threads(ops)), 2);
    fb_ops_close(ops);
    fb_ops_close(NULL);
}

static void the_first_failure_is_kept_and_the_rest_does_nothing(void **state)
{
    fb_ops *ops = open_ops();
    fb_tensor a = filled(ops, 2, 1), b = filled(ops, 3, 1), c;

    (void)state;
    c = fb_mul(ops, a, b);
    assert_int_equal(c.id, 0);
    assert_int_equal(fb_add(ops, a, a, 1).id, 0);
    fb_rotary(ops, c, 1, 2, c, c);
    (void)fb_fail(FB_IO, "something else");
    assert_fails(fb_ops_status(ops), FB_DEFECT, "fb_mul: shapes [2] and [3]");
    fb_ops_refuse(ops, fb_fail(FB_IO, "too late"));
    assert_fails(fb_ops_status(ops), FB_DEFECT, "fb_mul");
    fb_ops_reset(ops);
    assert_ok(fb_ops_status(ops));
    fb_ops_refuse(ops, fb_fail(FB_IO, "a caller's own"));
    assert_fails(fb_ops_status(ops), FB_IO, "a caller's own");
    fb_ops_close(ops);
}

static void a_tensor_used_after_its_scope_is_noticed(void **state)
{
    fb_ops *ops = open_ops();
    fb_tensor a;

    (void)state;
    fb_scope_open(ops);
    a = filled(ops, 4, 1);
    fb_scope_close(ops);
    (void)filled(ops, 4, 2); /* has its place now */
    assert_int_equal(fb_n_dims(ops, a), 0);
    (void)fb_exp(ops, a);
    assert_fails(fb_ops_status(ops), FB_DEFECT, "after its scope");
    fb_ops_reset(ops);
    (void)fb_exp(ops, FB_NONE);
    assert_fails(fb_ops_status(ops), FB_DEFECT, "FB_NONE");
    fb_ops_close(ops);
}

static void a_returned_tensor_outlives_its_scope(void **state)
{
    fb_ops *ops = open_ops();
    fb_tensor outer = filled(ops, 1000, 3), a, view, kept;

    (void)state;
    fb_scope_open(ops);
    (void)filled(ops, 5000, 9);
    a = fb_narrow(ops, filled(ops, 5000, 4), 0, 100, 4000);
    a = fb_scope_return(ops, a);
    assert_int_equal(fb_size(ops, a, 0), 4000);
    (void)filled(ops, 9000, 7);
    assert_true(first_of(ops, a) == 4.0f);
    fb_scope_open(ops);
    view =
        fb_scope_return(ops, fb_narrow(ops, outer, 0, 5, 7)); /* of what is outside */
    assert_int_equal(fb_size(ops, view, 0), 7);
    assert_true(first_of(ops, view) == 3.0f);
    fb_scope_open(ops);
    kept = fb_persist(ops, FB_ACCOUNT_signals, a);
    assert_int_equal(fb_scope_return(ops, kept).id, kept.id);
    assert_true(first_of(ops, kept) == 4.0f);
    fb_release(ops, kept);
    fb_ops_close(ops);
}

static void a_view_shows_later_changes_and_a_copy_does_not(void **state)
{
    fb_ops *ops = open_ops();
    fb_tensor a = filled(ops, 6, 1), view = fb_narrow(ops, a, 0, 2, 3);
    fb_tensor copy = fb_persist(ops, FB_ACCOUNT_other, view);
    fb_tensor turned = fb_reshape(ops, view, 2, (int64_t[]){3, 1});

    (void)state;
    fb_add_(ops, view, filled(ops, 3, 5));
    assert_true(first_of(ops, a) == 1.0f && first_of(ops, view) == 6.0f);
    assert_true(first_of(ops, turned) == 6.0f && first_of(ops, copy) == 1.0f);
    fb_release(ops, copy);
    fb_ops_close(ops);
}

/* Never room for both, but where the new one is a part of the old one. */
static void what_takes_the_place_of_another_takes_no_more_room(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_rule_state), bytes = 400;
    fb_ops *ops = open_ops();
    fb_tensor a;

    (void)state;
    a = fb_persist_over(ops, FB_ACCOUNT_rule_state, FB_NONE, filled(ops, 100, 3));
    fb_memory_reset_peaks();
    a = fb_persist_over(ops, FB_ACCOUNT_rule_state, a, filled(ops, 100, 4));
    assert_true(first_of(ops, a) == 4.0f);
    assert_int_equal(fb_memory_peak(FB_ACCOUNT_rule_state), before + bytes);
    a = fb_persist_over(ops, FB_ACCOUNT_rule_state, a, fb_narrow(ops, a, 0, 50, 50));
    assert_true(first_of(ops, a) == 4.0f && fb_size(ops, a, 0) == 50);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_rule_state), before + bytes / 2);
    fb_release(ops, a);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_rule_state), before);
    fb_ops_close(ops);
}

static void persistent_memory_is_charged_and_given_back(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_signals);
    fb_ops *ops = open_ops();
    fb_tensor a = fb_new(ops, FB_ACCOUNT_signals, FB_F64, 2, (int64_t[]){10, 10});
    double x[100];

    (void)state;
    assert_int_equal(fb_memory_now(FB_ACCOUNT_signals) - before, 800);
    memset(x, 1, sizeof x);
    assert_ok(fb_to_host(ops, a, x, sizeof x));
    for (int i = 0; i < 100; i++)
        assert_true(x[i] >= 0 && x[i] <= 0);
    fb_release(ops, a);
    fb_release(ops, FB_NONE);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_signals), before);
    (void)fb_new(ops, FB_ACCOUNT_signals, FB_F32, 1, (int64_t[]){7});
    fb_ops_close(ops); /* releases what is left */
    assert_int_equal(fb_memory_now(FB_ACCOUNT_signals), before);
}

/* After the first token nothing is allocated any more: every allocation would fail. */
static void a_second_token_takes_no_memory(void **state)
{
    fb_ops *ops = open_ops();

    (void)state;
    for (int token = 0; token < 20; token++) {
        fb_tensor a, b = FB_NONE;

        fb_memory_fail_at(token == 0 ? 0 : 1);
        fb_scope_open(ops);
        for (int i = 0; i < 100; i++) {
            fb_scope_open(ops);
            a = fb_softmax(ops, filled(ops, 3000 + 100 * i, 1));
            b = fb_scope_return(ops, fb_exp(ops, a));
        }
        (void)fb_topk(ops, b, 5);
        assert_ok(fb_ops_status(ops));
        fb_scope_close(ops);
        fb_memory_fail_at(0);
    }
    fb_ops_close(ops);
}

static void a_failed_allocation_is_a_status(void **state)
{
    fb_ops *ops = open_ops();
    fb_kv *kv = (fb_kv *)state;

    fb_memory_fail_at(1);
    (void)filled(ops, 10, 0);
    fb_memory_fail_at(0);
    assert_fails(fb_ops_status(ops), FB_NO_MEMORY, "no memory");
    fb_ops_reset(ops);
    for (int n = 1; n <= 3; n++) {
        fb_memory_fail_at(n);
        assert_fails(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, 4, 1, (int64_t[]){3}),
                     FB_NO_MEMORY, "no memory");
        fb_memory_fail_at(0);
        assert_null(kv);
    }
    fb_ops_close(ops);
    for (int n = 1; n < 20; n++) {
        fb_memory_fail_at(n);
        if (fb_ops_open(&ops, NULL) != FB_OK) {
            assert_null(ops);
            continue;
        }
        fb_memory_fail_at(0);
        fb_ops_close(ops);
        return; /* past the last allocation */
    }
    fail_msg("opening allocates without end");
}

static void impossible_shapes_are_refused(void **state)
{
    static const struct {
        int n_dims;
        int64_t shape[4];
    } bad[] = {
        {5, {1}}, {-1, {1}}, {1, {-1}}, {2, {INT64_MAX, INT64_MAX}}, {1, {INT64_MAX}}};
    fb_ops *ops = open_ops();

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)fb_full(ops, bad[i].n_dims, bad[i].shape, 0);
        assert_int_equal(fb_ops_status(ops), FB_DEFECT);
        fb_ops_reset(ops);
    }
    fb_ops_close(ops);
}

static void wrong_arguments_are_refused_by_name(void **state)
{
    fb_ops *ops = open_ops();
    fb_tensor a, i64;

#define REFUSED(call, words)                                                           \
    do {                                                                               \
        a = fb_full(ops, 2, (int64_t[]){2, 4}, 1);                                     \
        i64 = fb_from_host(ops, FB_I64, 1, (int64_t[]){1}, (int64_t[]){0});            \
        assert_int_equal((call).id, 0);                                                \
        assert_fails(fb_ops_status(ops), FB_DEFECT, words);                            \
        fb_ops_reset(ops);                                                             \
    } while (0)
    (void)state;
    REFUSED(fb_exp(ops, i64), "fb_exp: takes f32");
    REFUSED(fb_sum(ops, a, 2), "fb_sum: no dimension 2");
    REFUSED(fb_narrow(ops, a, 1, 2, 3), "fb_narrow: 3 elements from 2");
    REFUSED(fb_reshape(ops, a, 1, (int64_t[]){7}), "fb_reshape: 8 elements for 7");
    REFUSED(fb_cat(ops, a, a, 2), "fb_cat: no dimension 2");
    REFUSED(fb_cat(ops, a, i64, 0), "fb_cat: takes two plain tensors of one type");
    REFUSED(fb_cat(ops, a, fb_full(ops, 2, (int64_t[]){2, 3}, 1), 0),
            "fb_cat: shapes [2, 4] and [2, 3]");
    REFUSED(fb_transpose(ops, a, 0, -3), "fb_transpose: no dimension -3");
    REFUSED(fb_less(ops, a, i64), "fb_less: takes f32");
    REFUSED(fb_where(ops, a, a, fb_full(ops, 1, (int64_t[]){3}, 1)),
            "fb_where: shapes [2, 4] and [3]");
    REFUSED(fb_where(ops, fb_full(ops, 1, (int64_t[]){3}, 1), a, a),
            "fb_where: shapes [3] and [2, 4]");
    REFUSED(fb_avg_pool1d(ops, a, 2), "fb_avg_pool1d: kernel 2");
    REFUSED(fb_topk(ops, a, 5), "fb_topk: 5 of 4");
    REFUSED(fb_rank(ops, fb_full(ops, 2, (int64_t[]){0, (1 << 24) + 1}, 0)),
            "fb_rank: 16777217 elements");
    REFUSED(fb_cumsum(ops, fb_full(ops, 0, NULL, 1)), "fb_cumsum: takes tensors of");
    REFUSED(fb_bmm(ops, a, false, a, false), "fb_bmm: shapes");
    REFUSED(fb_cholesky_solve(ops, fb_reshape(ops, a, 3, (int64_t[]){1, 2, 4}),
                              fb_reshape(ops, a, 3, (int64_t[]){1, 2, 4})),
            "fb_cholesky_solve: shapes [1, 2, 4] and [1, 2, 4]");
    REFUSED(fb_gather(ops, a, a), "fb_gather: picks by i64");
    REFUSED(fb_linear(ops, a, a), "fb_linear: takes a weight");
    REFUSED(fb_amax(ops, fb_full(ops, 1, (int64_t[]){0}, 0), 0),
            "fb_amax: the largest");
    REFUSED(fb_swiglu(ops, fb_full(ops, 2, (int64_t[]){1, 3}, 0)), "fb_swiglu");
    REFUSED(fb_geglu(ops, fb_full(ops, 2, (int64_t[]){1, 3}, 0)), "fb_geglu");
    REFUSED(fb_rms_norm(ops, a, a, 0), "fb_rms_norm: 4 columns");
    REFUSED(
        (fb_head_norm_(ops, a, 1, 2, fb_full(ops, 1, (int64_t[]){2}, 1), 0), FB_NONE),
        "fb_head_norm_: heads 1 to 3 of 2");
    REFUSED((fb_add_(ops, a, fb_full(ops, 1, (int64_t[]){3}, 1)), FB_NONE), "fb_add_");
#undef REFUSED
    (void)i64;
    fb_ops_close(ops);
}

static void wrong_measures_are_refused_by_name(void **state)
{
    fb_ops *ops = open_ops();
    const int64_t shape[] = {2, 4};
    double out[2];

    (void)state;
    assert_fails(fb_to_host(ops, fb_full(ops, 2, shape, 1), out, 8), FB_DEFECT,
                 "fb_to_host: 8 bytes of room for 32");
    fb_ops_reset(ops);
    assert_fails(fb_nll(ops, fb_full(ops, 2, shape, 1), (int32_t[]){0, 4}, out),
                 FB_DEFECT, "fb_nll: number 4 at place 1; 0 to 3");
    fb_ops_reset(ops);
    assert_fails(fb_kl(ops, filled(ops, 4, 0), fb_full(ops, 2, shape, 1), out),
                 FB_DEFECT, "fb_kl: takes a matrix of 4");
    fb_ops_close(ops);
}

/* --- weights */

static fb_status broken_rows(void *context, int64_t begin, int64_t end, float *out)
{
    (void)out;
    if (*(int64_t *)context < begin || *(int64_t *)context >= end) return FB_OK;
    return fb_fail(FB_FORMAT, "row %lld is broken", (long long)begin);
}

static void what_a_thread_says_about_a_weight_reaches_the_caller(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_weights);
    fb_ops *ops = open_ops();
    int64_t row = 900;

    (void)state;
    assert_int_equal(fb_weight(ops, &(fb_weight_source){.rows = 1000,
                                                        .columns = 64,
                                                        .unpack = broken_rows,
                                                        .context = &row})
                         .id,
                     0);
    assert_fails(fb_ops_status(ops), FB_FORMAT, "row 896 is broken");
    assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_device_or_isa_is_named),
        cmocka_unit_test(it_says_what_it_runs_on),
        cmocka_unit_test(the_first_failure_is_kept_and_the_rest_does_nothing),
        cmocka_unit_test(a_tensor_used_after_its_scope_is_noticed),
        cmocka_unit_test(a_returned_tensor_outlives_its_scope),
        cmocka_unit_test(a_view_shows_later_changes_and_a_copy_does_not),
        cmocka_unit_test(what_takes_the_place_of_another_takes_no_more_room),
        cmocka_unit_test(persistent_memory_is_charged_and_given_back),
        cmocka_unit_test(a_second_token_takes_no_memory),
        cmocka_unit_test(a_failed_allocation_is_a_status),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused_by_name),
        cmocka_unit_test(wrong_measures_are_refused_by_name),
        cmocka_unit_test(what_a_thread_says_about_a_weight_reaches_the_caller),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
