/* test_engine_prices.c - two prices of a signal, and what a step of an answer takes.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/near.h"
#include "tests/support/rig.h"

enum { CONTEXT = 300, PROMPT = 17, KEPT = 75, MOST = 2 };

static int32_t context[CONTEXT], prompt[PROMPT];
static rig the;

static int open_all(void **state)
{
    (void)state;
    rig_open(&the, "builtin", NULL, &(fb_engine_options){.chunk = 64});
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

/* --- the price of a kernel that keeps no attention --- */

/* What a rule costs for the context: both prices. */
static void price(const char *expression, double *open, double *fused)
{
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;

    assert_ok(fb_rule_parse(&bound, expression));
    rule.rule = bound;
    assert_ok(fb_read(&reading, the.engine, context, CONTEXT, &rule, 1, 1));
    *open = fb_ledger_open(fb_reading_ledger(reading, 0));
    *fused = fb_ledger_fused(fb_reading_ledger(reading, 0));
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
}

/* Products of d numbers and a softmax for each element that is read; queries see what is
 * before them. */
static void whoever_reads_attention_would_pay_for_it_again(void **state)
{
    const fb_model_facts *f = fb_model_get_facts(the.model);
    const double element = 2 * (double)f->head_dim + 11,
                 heads = (double)(f->heads * f->layers), n = CONTEXT, w = 24;
    const double last = heads * w * (n - (w - 1) / 2), all = heads * n * (n + 1) / 2;
    const struct {
        const char *rule;
        double elements;
    } rules[] = {
        {"knorm", 0},
        {"noncausal", 0}, /* its products are its own, and counted as such */
        {"tova", heads * n},
        {"snapkv:window=24", last},
        {"h2o", all},
        {"a2sf", all},
        {"blend(h2o, snapkv:window=24)", all}, /* rows are among those of the sums */
        {"blend(tova, snapkv:window=24)", last},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        double open, fused;

        price(rules[i].rule, &open, &fused);
        assert_near(fused - open, rules[i].elements * element, 0);
    }
}

/* A pass of its own whose attention nobody else pays for has made it already. */
static void attention_that_a_rule_pays_for_itself_is_not_paid_twice(void **state)
{
    double open, fused;

    (void)state;
    price("kvzip:piece=60", &open, &fused);
    assert_near(fused, open, 0);
    price("kvcompose", &open, &fused); /* reduces the attention of its second pass */
    assert_true(fused > open);
}

/* Sums over `n` queries, of heads of `d` numbers. */
static double again_over_open(int64_t d)
{
    enum { N = 256 };
    const fb_place before = fb_ops_place(the.ops);
    static fb_ledger ledger;
    fb_ledger *payer = &ledger;
    fb_segment segment;
    fb_kv *kv;
    fb_tensor x;

    memset(&ledger, 0, sizeof ledger);
    fb_scope_open(the.ops);
    assert_ok(fb_kv_new(&kv, the.ops, FB_ACCOUNT_kv, FB_F32, d, 1, (int64_t[]){N}));
    x = fb_full(the.ops, 2, (int64_t[]){N, 3 * d}, 0.5);
    fb_kv_write(the.ops, kv, x, 1, 1, 1, (int64_t[]){0}, (int64_t[]){0});
    segment = (fb_segment){.context = {kv, 0, N, NULL, 0}};
    fb_ops_charge(the.ops, &payer, 1);
    fb_ops_move(the.ops, (fb_place){FB_PHASE_context, FB_SCOPE_attention});
    (void)fb_attention(the.ops,
                       &(fb_attend){.x = x,
                                    .segments = &segment,
                                    .n_sequences = 1,
                                    .heads = 1,
                                    .kv_heads = 1,
                                    .head_dim = d,
                                    .scale = 1,
                                    .sum = fb_full(the.ops, 2, (int64_t[]){1, N}, 0)});
    fb_ops_charge(the.ops, NULL, 0);
    fb_ops_move(the.ops, before);
    assert_ok(fb_ops_status(the.ops));
    fb_scope_close(the.ops);
    fb_kv_free(kv);
    return fb_ledger_fused(&ledger) / fb_ledger_open(&ledger);
}

/* An addition with a factor is 2 FLOPs, what it adds is 2 d + 11: the ratio grows with d. */
static void
a_sum_of_attention_costs_a_hundred_times_more_with_a_fused_kernel(void **state)
{
    (void)state;
    assert_near(again_over_open(32), 38.5, 1e-12);
    assert_near(again_over_open(64), 70.5, 1e-12);
    assert_near(again_over_open(128), 134.5, 1e-12);
}

/* --- a step of an answer --- */

typedef fb_status make(fb_variant **out, fb_reading *reading);

static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 4, 16};

static fb_status evict(fb_variant **out, fb_reading *reading)
{
    return fb_evict(out, reading, 0, &protect, 0, KEPT);
}

static fb_status hide(fb_variant **out, fb_reading *reading)
{
    return fb_evict_masked(out, reading, 0, &protect, 0, KEPT);
}

static fb_status cut(fb_variant **out, fb_reading *reading)
{
    return fb_reread(out, reading, context, KEPT);
}

static fb_status quantise(fb_variant **out, fb_reading *reading)
{
    return fb_keep_quantised(out, reading, 4);
}

/* The ledger of the first step of decoding, and fb_step_work. */
static void compare(fb_reading *reading, make *how)
{
    const fb_question question = {.prompt = prompt, .n_prompt = PROMPT};
    const fb_answer_options options = {.generate = true, .max_tokens = MOST};
    double flops, bytes, packed = 0;
    fb_variant *variant;
    fb_answer answer;
    fb_count model, attention;

    assert_ok(how(&variant, reading));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    assert_int_equal(answer.n_ids, MOST); /* one by the question, one by a step */
    model = fb_ledger_total(&answer.ledger, FB_PHASE_decode, FB_SCOPE_model);
    attention = fb_ledger_total(&answer.ledger, FB_PHASE_decode, FB_SCOPE_attention);
    assert_ok(fb_step_work(reading, variant, PROMPT, &answer, &flops, &bytes));
    if (how == quantise)
        packed = (double)fb_cache_bytes(fb_reading_cache(reading)) -
                 (double)fb_variant_bytes(variant);
    assert_near(flops, model.flops + attention.flops, 0);
    assert_near(bytes + packed, model.bytes + attention.bytes, 0);
    fb_answer_clear(&answer);
    fb_variant_free(variant);
}

static void a_step_takes_what_decoding_is_charged(void **state)
{
    static make *const all[] = {fb_keep_all, evict, hide, cut, quantise};
    static const char *const expressions[] = {"knorm", "adakv(snapkv:window=8)"};

    (void)state;
    for (int r = 0; r < 2; r++) {
        fb_seeded_rule rule = {.seed = 1};
        fb_bound_rule *bound;
        fb_reading *reading;

        assert_ok(fb_rule_parse(&bound, expressions[r]));
        rule.rule = bound;
        assert_ok(fb_read(&reading, the.engine, context, CONTEXT, &rule, 1, 1));
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            compare(reading, all[i]);
        fb_reading_free(reading);
        fb_bound_rule_free(bound);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_reads_attention_would_pay_for_it_again),
        cmocka_unit_test(attention_that_a_rule_pays_for_itself_is_not_paid_twice),
        cmocka_unit_test(
            a_sum_of_attention_costs_a_hundred_times_more_with_a_fused_kernel),
        cmocka_unit_test(a_step_takes_what_decoding_is_charged),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
