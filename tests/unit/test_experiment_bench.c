/* test_experiment_bench.c - what a bench does, notes and says; never how long it took.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/bench.h"

#include "base/memory.h"
#include "tests/support/test.h"

#include <math.h>

enum { CONTEXT = 200, ANSWER = 12 };

/* What one needs, on the built-in model. */
typedef struct rig {
    fb_spec spec;
    fb_ops *ops;
    fb_model *model;
    fb_bench bench;
} rig;

static const fb_bench_options usual = {
    .context = CONTEXT, .answer = ANSWER, .repetitions = 3, .warmup = 1};

static fb_status open_rig(rig *r, const char *rules, const char *budgets,
                          const fb_bench_options *options)
{
    const fb_ops_options alone = {.threads = 1};

    *r = (rig){0};
    FB_TRY(fb_spec_init(&r->spec));
    FB_TRY(fb_spec_assign(&r->spec, FB_SET_model, FB_FROM_COMMAND, "builtin"));
    FB_TRY(fb_spec_assign(&r->spec, FB_SET_rules, FB_FROM_COMMAND, rules));
    FB_TRY(fb_spec_assign(&r->spec, FB_SET_budgets, FB_FROM_COMMAND, budgets));
    FB_TRY(fb_spec_check_question(&r->spec, "there is none", NULL, NULL));
    FB_TRY(fb_ops_open(&r->ops, &alone));
    FB_TRY(fb_model_open(&r->model, r->ops, "builtin", NULL));
    return fb_bench_init(&r->bench, &r->spec, r->model, options);
}

static void close_rig(rig *r)
{
    fb_bench_clear(&r->bench);
    fb_model_close(r->model);
    fb_ops_close(r->ops);
    fb_spec_clear(&r->spec);
}

static void run(rig *r, const char *rules, const char *budgets,
                const fb_bench_options *options)
{
    assert_ok(open_rig(r, rules, budgets, options));
    assert_ok(fb_bench_run(&r->bench, r->ops));
}

static void collect(void *self, const char *sentence)
{
    fb_text_puts(self, sentence);
    fb_text_puts(self, "\n");
}

/* --- the measuring --- */

static void every_time_is_noted_by_itself(void **state)
{
    rig r;

    (void)state;
    run(&r, "full,snapkv,h2o", "20%,50%", &usual);
    assert_int_equal(r.bench.n_arms, 5);
    assert_int_equal(r.bench.n, 3);
    assert_int_equal(r.bench.warmups, 1);
    for (int i = 0; i < 5; i++)
        for (int n = 0; n < 3; n++) {
            const fb_bench_arm *arm = &r.bench.arms[i];
            double sum = 0;

            for (int w = 0; w < FB_BENCH_WHATS; w++)
                if (w != FB_BENCH_EVICT || arm->budget >= 0)
                    assert_true(arm->seconds[w][n] > 0);
            for (int t = 0; t < ANSWER - 1; t++)
                sum += arm->steps[n * (ANSWER - 1) + t];
            assert_true(fabs(sum / (ANSWER - 1) - arm->seconds[FB_BENCH_TOKEN][n]) <
                        1e-9);
        }
    close_rig(&r);
}

/* A rule's reading belongs to both of its budgets. */
static void rules_read_alone_and_once(void **state)
{
    rig r;

    (void)state;
    run(&r, "snapkv,h2o", "20%,50%", &usual);
    for (int n = 0; n < 3; n++) {
        assert_true(r.bench.arms[0].seconds[FB_BENCH_READ][n] ==
                    r.bench.arms[1].seconds[FB_BENCH_READ][n]);
        assert_true(r.bench.arms[1].seconds[FB_BENCH_READ][n] !=
                    r.bench.arms[2].seconds[FB_BENCH_READ][n]);
    }
    close_rig(&r);
}

static void orders_are_drawn_anew_and_again_the_same(void **state)
{
    fb_bench_options often = usual;
    rig a, b;
    int differ = 0;

    (void)state;
    often.repetitions = 8;
    run(&a, "full,snapkv,h2o,knorm", "20%,50%", &often);
    run(&b, "full,snapkv,h2o,knorm", "20%,50%", &often);
    for (int n = 0; n < 8; n++) {
        const int *order = a.bench.order + n * a.bench.n_arms;
        unsigned seen = 0;

        for (int i = 0; i < a.bench.n_arms; i++)
            seen |= 1u << order[i];
        assert_int_equal(seen, (1u << a.bench.n_arms) - 1);
        differ +=
            memcmp(order, a.bench.order, (size_t)a.bench.n_arms * sizeof *order) != 0;
    }
    assert_true(differ >= 6);
    assert_memory_equal(a.bench.order, b.bench.order,
                        8 * (size_t)a.bench.n_arms * sizeof(int));
    close_rig(&a);
    close_rig(&b);
}

/* --- bytes --- */

/* 2 layers x 2 kv heads x (32 + 32) numbers of 4 bytes for an entry of each head. */
static void what_is_held_is_measured_and_is_the_budget(void **state)
{
    const size_t entry = (size_t)2 * 2 * 64 * 4;
    rig r;

    (void)state;
    run(&r, "full,snapkv,adakv(snapkv)", "25%", &usual);
    for (int i = 0; i < 3; i++) {
        const fb_bench_arm *arm = &r.bench.arms[i];

        assert_int_equal(arm->kept_bytes, entry * (i == 0 ? CONTEXT : CONTEXT / 4));
        assert_int_equal(arm->tail_bytes, entry * (1 + ANSWER));
        assert_int_equal(arm->held_bytes, arm->kept_bytes + arm->tail_bytes);
    }
    close_rig(&r);
}

/* A smaller budget moves fewer bytes for a token: those of the entries that are gone. */
static void bytes_of_a_token_are_weights_and_what_is_kept(void **state)
{
    rig r;
    double full, quarter;

    (void)state;
    run(&r, "full,knorm", "25%", &usual);
    full = fb_bench_token_bytes(&r.bench, 0);
    quarter = fb_bench_token_bytes(&r.bench, 1);
    assert_true(full - quarter == (double)(CONTEXT - CONTEXT / 4) * 2 * 2 * 64 * 4);
    close_rig(&r);
}

/* --- modelled seconds: of a device with made-up rates --- */

static void modelled_times_follow_the_work(void **state)
{
    const fb_profile p = {.flops_per_s = 1e9, .bytes_per_s = 1e9};
    rig r;

    (void)state;
    run(&r, "full,knorm,h2o,expected_attention", "20%,50%", &usual);
    /* a budget of less is quicker, whatever the rule */
    for (int rule = 0; rule < 3; rule++) {
        const double small =
            fb_bench_modelled(&r.bench, &p, 1 + 2 * rule, FB_BENCH_TOKEN);
        const double large =
            fb_bench_modelled(&r.bench, &p, 2 + 2 * rule, FB_BENCH_TOKEN);

        assert_true(small < large);
        assert_true(large < fb_bench_modelled(&r.bench, &p, 0, FB_BENCH_TOKEN));
        assert_true(small == fb_bench_modelled(&r.bench, &p, 1, FB_BENCH_TOKEN));
    }
    /* sums of attention make reading dearer, formulas evicting */
    assert_true(fb_bench_modelled(&r.bench, &p, 3, FB_BENCH_READ) >
                fb_bench_modelled(&r.bench, &p, 1, FB_BENCH_READ));
    assert_true(fb_bench_modelled(&r.bench, &p, 5, FB_BENCH_EVICT) >
                fb_bench_modelled(&r.bench, &p, 1, FB_BENCH_EVICT));
    assert_true(fb_bench_modelled(&r.bench, &p, 0, FB_BENCH_EVICT) == 0);
    close_rig(&r);
}

/* --- ratios and warnings, on times that are made up --- */

static void a_ratio_is_paired_by_repetition(void **state)
{
    static const double base[] = {8, 4, 2}, own[] = {4, 2, 1};
    fb_bench_figure ratio;
    rig r;

    (void)state;
    run(&r, "knorm,full", "50%", &usual);
    assert_int_equal(r.bench.arms[0].versus, 1); /* full, though it stands second */
    assert_int_equal(r.bench.arms[1].versus, -1);
    memcpy(r.bench.arms[1].seconds[FB_BENCH_TOKEN], base, sizeof base);
    memcpy(r.bench.arms[0].seconds[FB_BENCH_TOKEN], own, sizeof own);
    assert_ok(fb_bench_ratio_of(&ratio, &r.bench, 0, FB_BENCH_TOKEN));
    assert_true(ratio.median == 2 && ratio.interval.low == 2 &&
                ratio.interval.high == 2);
    close_rig(&r);
}

static void outliers_are_named_and_stay(void **state)
{
    static const double x[] = {9, 1.00, 1.01, 0.99, 1.00, 1.02};
    fb_bench_options often = usual;
    fb_text said = {0};
    fb_bench_figure figure;
    rig r;

    (void)state;
    often.repetitions = 6;
    run(&r, "knorm", "50%", &often);
    for (int w = 0; w < FB_BENCH_WHATS; w++)
        for (int n = 0; n < 6; n++)
            r.bench.arms[0].seconds[w][n] = 1;
    memcpy(r.bench.arms[0].seconds[FB_BENCH_TOKEN], x, sizeof x);
    r.bench.disturbance.other_cpus = 0.5;
    r.bench.disturbance.cpus = 2;
    assert_ok(fb_bench_warn(&r.bench, 2, collect, &said));
    assert_non_null(
        strstr(fb_text_string(&said),
               "knorm at 50%, each token: 1 of 6 repetitions is an outlier"));
    assert_non_null(strstr(said.bytes, "the first run was slower"));
    assert_non_null(strstr(said.bytes, "other processes kept 0.5 of 2 CPUs busy"));
    assert_ok(fb_bench_figure_of(&figure, &r.bench, 0, FB_BENCH_TOKEN));
    assert_true(figure.median == 1.005);
    fb_text_clear(&said);
    r.bench.disturbance.other_cpus = 0.5;
    r.bench.disturbance.cpus = 8;
    r.bench.arms[0].seconds[FB_BENCH_TOKEN][0] = 1;
    assert_ok(fb_bench_warn(&r.bench, 2, collect, &said));
    assert_string_equal(fb_text_string(&said), "");
    fb_text_clear(&said);
    close_rig(&r);
}

/* --- ends --- */

static void without_time_one_repetition_is_made(void **state)
{
    fb_bench_options hasty = usual;
    fb_text said = {0};
    rig r;

    (void)state;
    hasty.warmup = 2;
    hasty.limit_ns = 1;
    run(&r, "full,knorm", "50%", &hasty);
    assert_int_equal(r.bench.n, 1);
    assert_int_equal(r.bench.warmups, 0);
    assert_ok(fb_bench_warn(&r.bench, 1, collect, &said));
    assert_non_null(
        strstr(fb_text_string(&said), "1 of 3 repetitions and 0 of 2 warm-ups"));
    fb_text_clear(&said);
    close_rig(&r);
}

static volatile sig_atomic_t stopped;

static void stop_third(void *self, int repetition, int of)
{
    (void)self;
    (void)of;
    if (repetition == 2) stopped = 1;
}

static void what_is_whole_stays_when_it_is_stopped(void **state)
{
    fb_bench_options stops = usual;
    rig r;

    (void)state;
    stops.stop = &stopped;
    stops.watch = stop_third;
    assert_ok(open_rig(&r, "full,knorm", "50%", &stops));
    assert_int_equal(fb_bench_run(&r.bench, r.ops), FB_STOPPED);
    assert_int_equal(r.bench.n, 1);
    close_rig(&r);
}

static void what_cannot_be_measured_is_refused(void **state)
{
    fb_bench_options wrong = usual;
    rig r;

    (void)state;
    wrong.context = 20000;
    assert_fails(open_rig(&r, "full", "50%", &wrong), FB_USAGE,
                 "the model takes 16,384");
    close_rig(&r);
    assert_fails(open_rig(&r, "knorm", "5%", &usual), FB_BUDGET,
                 "leaves a rule nothing to choose");
    close_rig(&r);
    assert_fails(open_rig(&r, "reread", "50%", &usual), FB_UNSUPPORTED, "is a row");
    close_rig(&r);
    wrong = usual;
    wrong.baseline = "h2o";
    assert_fails(open_rig(&r, "full,knorm", "50%", &wrong), FB_USAGE,
                 "'h2o' is not one of the rules");
    close_rig(&r);
    wrong = usual;
    wrong.memory = 1 << 20;
    assert_fails(open_rig(&r, "full", "50%", &wrong), FB_BUDGET,
                 "memory limit of 1.0 MiB");
    close_rig(&r);
}

static void failing_allocations_are_said_and_leave_nothing(void **state)
{
    fb_bench_options once = usual;
    bool is_done = false;

    (void)state;
    once.repetitions = 1;
    once.warmup = 0;
    for (int64_t n = 1; !is_done; n += long_or_short(1, 1 + n / 16)) {
        const size_t before = fb_memory_now(FB_ACCOUNT_other);
        fb_status status;
        rig r;

        assert_ok(open_rig(&r, "full,snapkv", "50%", &once));
        fb_memory_fail_at(n);
        status = fb_bench_run(&r.bench, r.ops);
        fb_memory_fail_at(0);
        is_done = status == FB_OK;
        if (!is_done) assert_int_equal(status, FB_NO_MEMORY);
        close_rig(&r);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_time_is_noted_by_itself),
        cmocka_unit_test(rules_read_alone_and_once),
        cmocka_unit_test(orders_are_drawn_anew_and_again_the_same),
        cmocka_unit_test(what_is_held_is_measured_and_is_the_budget),
        cmocka_unit_test(bytes_of_a_token_are_weights_and_what_is_kept),
        cmocka_unit_test(modelled_times_follow_the_work),
        cmocka_unit_test(a_ratio_is_paired_by_repetition),
        cmocka_unit_test(outliers_are_named_and_stay),
        cmocka_unit_test(without_time_one_repetition_is_made),
        cmocka_unit_test(what_is_whole_stays_when_it_is_stopped),
        cmocka_unit_test(what_cannot_be_measured_is_refused),
        cmocka_unit_test(failing_allocations_are_said_and_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
