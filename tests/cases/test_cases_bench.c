/* test_cases_bench.c - L02: 100 tokens are decoded without an allocation for each.
 *
 * From the tenth token on the next allocation would fail: there is none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

#include "base/memory.h"

enum { CONTEXT = 300, TOKENS = 100, WARM = 10 };

static int32_t context[CONTEXT];
static const int32_t prompt[] = {5};
static rig r;

static int open_all(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 3);
    rig_open(&r, "builtin", NULL, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

static fb_status arm(void *self, const fb_growth *growth)
{
    (void)self;
    if (growth->n == WARM) fb_memory_fail_at(1);
    if (growth->n == TOKENS) fb_memory_fail_at(0);
    return FB_OK;
}

/* `at`: the token at which an allocation is asked for, to see that it would show. */
static fb_status arm_and_take(void *self, const fb_growth *growth)
{
    void *block = NULL;

    (void)arm(NULL, growth);
    if (growth->n < *(const int64_t *)self) return FB_OK;
    block = fb_alloc(FB_ACCOUNT_other, 1);
    fb_free(block);
    return block != NULL ? FB_OK : fb_fail(FB_NO_MEMORY, "an allocation");
}

static fb_status decode(fb_variant *variant, fb_reading *reading,
                        fb_status (*watch)(void *, const fb_growth *), void *self)
{
    const fb_question question = {.prompt = prompt, .n_prompt = 1};
    const fb_answer_options how = {.generate = true,
                                   .max_tokens = TOKENS,
                                   .goes_past_end = true,
                                   .watch = watch,
                                   .self = self};
    fb_answer answer = {0};
    const fb_status status =
        fb_answer_group(reading, &variant, 1, &question, &how, &answer);

    fb_memory_fail_at(0);
    if (status == FB_OK) assert_int_equal(answer.n_ids, TOKENS);
    fb_answer_clear(&answer);
    return status;
}

static void L02_no_allocation_for_each_token(void **state)
{
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, 4, 16};
    fb_bound_rule *rule;
    fb_reading *reading;
    fb_variant *full, *quarter;
    int64_t at = 50;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "adakv(snapkv)"));
    assert_ok(fb_read(&reading, r.engine, context, CONTEXT, &(fb_seeded_rule){rule, 1},
                      1, 1));
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_evict(&quarter, reading, 0, &protect, 0, CONTEXT / 4));
    assert_ok(decode(full, reading, arm, NULL));
    assert_ok(decode(quarter, reading, arm, NULL));
    assert_int_equal(decode(quarter, reading, arm_and_take, &at), FB_NO_MEMORY);
    fb_variant_free(quarter);
    fb_variant_free(full);
    fb_reading_free(reading);
    fb_bound_rule_free(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(L02_no_allocation_for_each_token),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
