/* test_ops_ledger.c - who is charged for what, and what the trace sees.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/test.h"

#include <math.h>

enum { H = 4, G = 2, D = 8, WIDTH = (H + 2 * G) * D };

static fb_ops *ops;

static int open_ops(void **state)
{
    (void)state;
    return (int)fb_ops_open(&ops, &(fb_ops_options){.threads = 1});
}

static int close_ops(void **state)
{
    (void)state;
    fb_ops_close(ops);
    return 0;
}

static fb_tensor filled(int64_t rows, int64_t columns)
{
    return fb_full(ops, 2, (int64_t[]){rows, columns}, 0.5);
}

static fb_status zeros(void *context, int64_t begin, int64_t end, float *out)
{
    memset(out, 0, (size_t)((end - begin) * *(int64_t *)context) * sizeof *out);
    return FB_OK;
}

static fb_tensor zero_weight(int64_t rows, int64_t columns)
{
    return fb_weight(ops, &(fb_weight_source){.rows = rows,
                                              .columns = columns,
                                              .unpack = zeros,
                                              .context = &columns});
}

static void assert_count(const fb_count *count, int64_t calls, double flops,
                         double bytes)
{
    assert_int_equal(count->calls, calls);
    assert_true(fabs(count->flops - flops) < 1e-6);
    assert_true(fabs(count->bytes - bytes) < 1e-6);
}

static void work_goes_to_its_phase_scope_and_operator(void **state)
{
    fb_ledger ledger = {0}, *one[] = {&ledger}, both = {0};
    fb_tensor a = filled(3, 5), weight = zero_weight(40, 5);
    fb_tensor unit = fb_from_host(ops, FB_F32, 3, (int64_t[]){1, 3, 3},
                                  (float[]){1, 0, 0, 0, 1, 0, 0, 0, 1});

    (void)state;
    fb_ops_charge(ops, one, 1);
    fb_ops_move(ops, (fb_place){FB_PHASE_evict, FB_SCOPE_score});
    (void)fb_add(ops, a, a, 1);
    (void)fb_mean(ops, a, 1);
    (void)fb_bmm(ops, fb_reshape(ops, a, 3, (int64_t[]){1, 3, 5}), false,
                 fb_reshape(ops, a, 3, (int64_t[]){1, 3, 5}), true);
    (void)fb_cholesky_solve(ops, unit, fb_reshape(ops, a, 3, (int64_t[]){1, 3, 5}));
    fb_ops_move(ops, (fb_place){FB_PHASE_decode, FB_SCOPE_model});
    assert_int_equal(fb_ops_place(ops).phase, FB_PHASE_decode);
    (void)fb_linear(ops, a, weight);
    (void)fb_linear(ops, a, weight);
    fb_ops_charge(ops, NULL, 0);
    (void)fb_linear(ops, a, weight); /* nobody pays */
    assert_ok(fb_ops_status(ops));
    assert_count(&ledger.count[FB_PHASE_evict][FB_SCOPE_score][FB_OP_add], 1, 2 * 15,
                 3 * 15 * 4);
    assert_count(&ledger.count[FB_PHASE_evict][FB_SCOPE_score][FB_OP_mean], 1, 15,
                 (15 + 3) * 4);
    assert_count(&ledger.count[FB_PHASE_evict][FB_SCOPE_score][FB_OP_bmm], 1,
                 2 * 3 * 3 * 5, (15 + 15 + 9) * 4);
    assert_count(&ledger.count[FB_PHASE_evict][FB_SCOPE_score][FB_OP_cholesky_solve], 1,
                 2 * (1 + 3 + 3 * 3 * 5), (9 + 15 + 15) * 4);
    assert_count(&ledger.count[FB_PHASE_decode][FB_SCOPE_model][FB_OP_linear], 2,
                 2 * 2 * 3 * 5 * 40, 2 * (15 + 200 + 120) * 4);
    fb_ledger_add(&both, &ledger);
    fb_ledger_add(&both, &ledger);
    assert_int_equal(fb_ledger_total(&both, FB_PHASE_evict, FB_SCOPE_score).calls, 8);
    assert_int_equal(fb_ledger_total(&both, FB_PHASE_answer, FB_SCOPE_score).calls, 0);
    fb_release(ops, weight);
}

static void a_batch_shares_evenly(void **state)
{
    fb_ledger a = {0}, b = {0}, *two[] = {&a, &b};
    const fb_count *count = &b.count[FB_PHASE_context][FB_SCOPE_model][FB_OP_scale];

    (void)state;
    fb_ops_move(ops, (fb_place){FB_PHASE_context, FB_SCOPE_model});
    fb_ops_charge(ops, two, 2);
    (void)fb_scale(ops, filled(6, 7), 2);
    assert_count(count, 1, 21, 42 * 4);
    assert_memory_equal(&a, &b, sizeof a);
    fb_ops_charge(ops, NULL, 0);
}

/* Two sequences of three rows: each alone would have read all of the weight. */
static void each_of_a_batch_pays_for_all_of_a_weight(void **state)
{
    fb_ledger a = {0}, b = {0}, *two[] = {&a, &b};
    const fb_place place = {FB_PHASE_answer, FB_SCOPE_measure};
    const fb_count *count = b.count[FB_PHASE_answer][FB_SCOPE_measure];
    fb_tensor x = filled(6, 5), p = filled(3, 5), weight = zero_weight(40, 5);
    double kl[6];

    (void)state;
    fb_ops_move(ops, place);
    fb_ops_charge(ops, two, 2);
    (void)fb_linear(ops, x, weight);
    assert_ok(fb_kl(ops, p, x, kl)); /* both are compared with the same three rows */
    assert_count(&count[FB_OP_linear], 1, 2 * 3 * 5 * 40, (15 + 200 + 120) * 4);
    assert_count(&count[FB_OP_kl], 1, 20 * 15, (15 + 15) * 4);
    assert_memory_equal(&a, &b, sizeof a);
    fb_ops_charge(ops, NULL, 0);
    fb_release(ops, weight);
}

/* Sequence v has n[v] entries of context and t tokens. */
static void attend(fb_dtype dtype, const int64_t *n, int64_t n_sequences, int64_t t,
                   fb_tensor sum)
{
    const fb_place place = fb_ops_place(ops);
    fb_segment segments[8];
    fb_kv *kv;

    fb_ops_move(ops, (fb_place){FB_PHASE_evict, FB_SCOPE_measure});
    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, dtype, D, 2, (int64_t[]){64, 64}));
    fb_kv_write(ops, kv, filled(64, WIDTH), 1, H, G, (int64_t[]){0, 1}, (int64_t[]){0});
    fb_ops_move(ops, place);
    for (int64_t i = 0; i < n_sequences * G; i++)
        segments[i] = (fb_segment){.context = {kv, i % G, n[i / G], NULL, 0},
                                   .tail = {kv, i % G, t, NULL, 0}};
    if (sum.id != 0)
        for (int64_t i = 0; i < G; i++)
            segments[i].tail = (fb_part){.n = 0};
    (void)fb_attention(ops, &(fb_attend){.x = filled(n_sequences * t, WIDTH),
                                         .segments = segments,
                                         .n_sequences = n_sequences,
                                         .heads = H,
                                         .kv_heads = G,
                                         .head_dim = D,
                                         .scale = 1,
                                         .sum = sum});
    assert_ok(fb_ops_status(ops));
    fb_kv_free(kv);
}

static void each_sequence_pays_for_the_entries_it_sees(void **state)
{
    static const int64_t n[] = {10, 40};
    fb_ledger a = {0}, b = {0}, alone = {0}, *two[] = {&a, &b}, *one[] = {&alone};
    const fb_place place = {FB_PHASE_answer, FB_SCOPE_attention};
    const fb_count *count =
        &a.count[FB_PHASE_answer][FB_SCOPE_attention][FB_OP_attention];
    const double scores = (10 + 1 + 10 + 2 + 10 + 3) * H;

    (void)state;
    fb_ops_move(ops, place);
    fb_ops_charge(ops, two, 2);
    attend(FB_F32, n, 2, 3, FB_NONE);
    fb_ops_charge(ops, one, 1);
    attend(FB_F32, n, 1, 3, FB_NONE);
    assert_count(count, 1, scores * (4 * D + 11),
                 2 * 3 * H * D * 4 + G * 13 * 2 * D * 4);
    assert_count(&alone.count[FB_PHASE_answer][FB_SCOPE_attention][FB_OP_attention], 1,
                 count->flops, count->bytes);
    assert_true(b.count[FB_PHASE_answer][FB_SCOPE_attention][FB_OP_attention].flops >
                3 * count->flops);
    fb_ops_charge(ops, NULL, 0);
}

static void a_smaller_type_is_read_for_less(void **state)
{
    static const int64_t n[] = {10};
    fb_ledger ledger = {0}, *one[] = {&ledger};

    (void)state;
    fb_ops_move(ops, (fb_place){FB_PHASE_answer, FB_SCOPE_attention});
    fb_ops_charge(ops, one, 1);
    attend(FB_F16, n, 1, 3, FB_NONE);
    assert_count(&ledger.count[FB_PHASE_answer][FB_SCOPE_attention][FB_OP_attention], 1,
                 (10 + 1 + 10 + 2 + 10 + 3) * H * (4 * D + 11),
                 2 * 3 * H * D * 4 + G * 13 * 2 * D * 2);
    assert_count(&ledger.count[FB_PHASE_evict][FB_SCOPE_measure][FB_OP_kv_write], 1, 0,
                 64 * WIDTH * 4 + 64 * 2 * G * D * 2);
    fb_ops_charge(ops, NULL, 0);
}

static void signals_are_charged_apart(void **state)
{
    static const int64_t n[] = {20};
    fb_ledger ledger = {0}, *one[] = {&ledger};
    fb_tensor sum = fb_full(ops, 2, (int64_t[]){H, 20}, 0);

    (void)state;
    fb_ops_move(ops, (fb_place){FB_PHASE_context, FB_SCOPE_attention});
    fb_ops_charge(ops, one, 1);
    attend(FB_F32, n, 1, 4, sum);
    assert_count(&ledger.count[FB_PHASE_context][FB_SCOPE_signal][FB_OP_attention_sum],
                 1, 2.0 * H * (17 + 18 + 19 + 20), 4.0 * H * (17 + 18 + 19 + 20));
    assert_int_equal(
        ledger.count[FB_PHASE_context][FB_SCOPE_attention][FB_OP_attention_sum].calls,
        0);
    fb_ops_charge(ops, NULL, 0);
}

static void names_come_from_the_list(void **state)
{
    (void)state;
    assert_string_equal(fb_op_name(FB_OP_topk), "topk");
    assert_string_equal(fb_op_aten(FB_OP_gather), "aten::gather");
    assert_true(fb_op_flops(FB_OP_linear) > 1.9);
    for (int s = 0; s < FB_SCOPE_COUNT; s++)
        assert_true(strlen(fb_scope_name((fb_scope)s)) > 3);
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        assert_true(strlen(fb_phase_name((fb_phase)p)) > 3);
}

/* --- trace */

struct traced {
    int64_t sequences, t, entries;
    double scale;
    bool signal, scores;
    int weight;    /* which of the two */
    int64_t start; /* of the columns that are read on */
};

static fb_tensor weights[2];

/* The hash of a small pass of the model with these properties. */
static void trace(const struct traced *how, char hex[65])
{
    const int64_t rows = how->sequences * how->t;
    const int64_t n[] = {how->entries, how->entries};
    const fb_tensor weight = weights[how->weight];
    fb_tensor sum = FB_NONE, out;

    fb_scope_open(ops);
    fb_ops_move(ops, (fb_place){FB_PHASE_answer, FB_SCOPE_model});
    fb_trace_begin(ops, how->sequences);
    out = fb_scale(ops, fb_linear(ops, filled(rows, WIDTH), weight), how->scale);
    (void)fb_narrow(ops, out, 1, how->start, 2);
    if (how->signal) sum = fb_full(ops, 2, (int64_t[]){H, how->entries}, 0);
    fb_ops_move(ops, (fb_place){FB_PHASE_answer, FB_SCOPE_score});
    if (how->scores) (void)fb_exp(ops, filled(3, 3));
    fb_ops_move(ops, (fb_place){FB_PHASE_answer, FB_SCOPE_attention});
    attend(FB_F32, n, how->sequences, how->t, sum);
    fb_trace_end(ops, hex);
    fb_scope_close(ops);
}

static int make_weights(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        weights[i] = zero_weight(WIDTH, WIDTH);
    return 0;
}

static int release_weights(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        fb_release(ops, weights[i]);
    return 0;
}

static void the_trace_sees_the_model_and_not_the_rule(void **state)
{
    static const struct traced base = {1, 2, 30, 0.125, false, false, 0, 1};
    struct traced how = base;
    char first[65], other[65];

    (void)state;
    trace(&base, first);
    assert_int_equal(strlen(first), 64);
    how.entries = 17;
    trace(&how, other);
    assert_string_equal(first, other);
    how.scores = true;
    trace(&how, other);
    assert_string_equal(first, other);
    how.t = 3;
    trace(&how, other);
    assert_string_not_equal(first, other);
    how = base;
    how.scale = 0.126;
    trace(&how, other);
    assert_string_not_equal(first, other);
    how = base;
    how.weight = 1; /* of the same shape and the same numbers */
    trace(&how, other);
    assert_string_not_equal(first, other);
    how = base;
    how.start = 0; /* other columns, as many */
    trace(&how, other);
    assert_string_not_equal(first, other);
    fb_trace_end(ops, other);
    assert_string_equal(other, "");
}

/* A model that is opened once more gives the same traces. */
static void weights_made_again_have_their_numbers_again(void **state)
{
    static const struct traced base = {1, 2, 30, 0.125, false, false, 1, 1};
    char before[65], after[65];

    trace(&base, before);
    (void)release_weights(state);
    (void)make_weights(state);
    trace(&base, after);
    assert_string_equal(before, after);
}

static void the_trace_of_a_batch_is_that_of_one(void **state)
{
    struct traced how = {1, 2, 30, 0.125, false, false, 0, 1};
    char one[65], two[65];

    (void)state;
    trace(&how, one);
    how.sequences = 2;
    trace(&how, two);
    assert_string_equal(one, two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_goes_to_its_phase_scope_and_operator),
        cmocka_unit_test(a_batch_shares_evenly),
        cmocka_unit_test(each_of_a_batch_pays_for_all_of_a_weight),
        cmocka_unit_test(each_sequence_pays_for_the_entries_it_sees),
        cmocka_unit_test(a_smaller_type_is_read_for_less),
        cmocka_unit_test(signals_are_charged_apart),
        cmocka_unit_test(names_come_from_the_list),
        cmocka_unit_test_setup_teardown(the_trace_sees_the_model_and_not_the_rule,
                                        make_weights, release_weights),
        cmocka_unit_test_setup_teardown(weights_made_again_have_their_numbers_again,
                                        make_weights, release_weights),
        cmocka_unit_test_setup_teardown(the_trace_of_a_batch_is_that_of_one,
                                        make_weights, release_weights),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
