/* test_fair.c - on the real model: evicting gives the bits of masking, and the budget is exact.
 *
 * A uniform and a head-wise split, each as an arena of exactly the kept entries (the rest is
 * not there to be read) and as a mask on the full cache; 32 steps under teacher forcing and 32
 * free ones. NLL and KL are made of every logit of a row, in double: one other bit shows.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/reference.h"

enum { STEPS = 32, RULES = 3 };

static const char *const expressions[RULES] = {"snapkv", "adakv(snapkv)", "keydiff"};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};

static rig the;
static fb_bound_rule *rules[RULES];

static int open_rig(void **state)
{
    (void)state;
    reference_open(&the);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

static fb_reading *read_prompt(const id_list *prompt)
{
    fb_seeded_rule seeded[RULES];
    fb_reading *reading;

    for (int r = 0; r < RULES; r++) {
        assert_ok(fb_rule_parse(&rules[r], expressions[r]));
        seeded[r] = (fb_seeded_rule){.rule = rules[r]};
    }
    assert_ok(fb_read(&reading, the.engine, prompt->ids, prompt->n, seeded, RULES, 1));
    return reading;
}

static void close_prompt(fb_reading *reading, id_list *prompt)
{
    fb_reading_free(reading);
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    fb_free(prompt->ids);
}

static void same_bits(const fb_answer *a, const fb_answer *b)
{
    assert_int_equal(a->n, STEPS);
    assert_memory_equal(a->nll, b->nll, STEPS * sizeof *a->nll);
    assert_memory_equal(a->kl, b->kl, STEPS * sizeof *a->kl);
    assert_memory_equal(a->top1, b->top1, STEPS * sizeof *a->top1);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

static void evicting_gives_the_bits_of_masking(void **state)
{
    id_list prompt = reference_prompt("p300");
    fb_reading *reading = read_prompt(&prompt);
    const fb_question question = {prompt.ids, prompt.ids + 8, 8, STEPS};
    const fb_answer_options options = {.generate = true, .max_tokens = STEPS};
    fb_variant *variant[2 * RULES + 1];
    fb_answer out[2 * RULES + 1];

    (void)state;
    for (int r = 0; r < RULES; r++) {
        assert_ok(fb_evict(&variant[2 * r], reading, r, &usual, 0, 60));
        assert_ok(fb_evict_masked(&variant[2 * r + 1], reading, r, &usual, 0, 60));
        assert_int_equal(fb_variant_bytes(variant[2 * r]), 30 * 3 * 60 * 512);
    }
    assert_ok(fb_evict(&variant[2 * RULES], reading, 0, &usual, 0, prompt.n));
    assert_ok(
        fb_answer_group(reading, variant, 2 * RULES + 1, &question, &options, out));
    for (int r = 0; r < RULES; r++)
        same_bits(&out[2 * r], &out[2 * r + 1]);
    for (int i = 0; i < STEPS; i++) {
        assert_true(out[2 * RULES].kl[i] ==
                    0); /* a budget of the whole context is full */
        assert_true(out[0].kl[i] > 0);
    }
    for (int v = 0; v <= 2 * RULES; v++) {
        fb_answer_clear(&out[v]);
        fb_variant_free(variant[v]);
    }
    close_prompt(reading, &prompt);
}

static void many_small_caches_take_less_memory_than_full_ones(void **state)
{
    enum { VARIANTS = 32 };
    id_list prompt = reference_prompt("p300");
    fb_reading *reading = read_prompt(&prompt);
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    const size_t full = fb_cache_bytes(fb_reading_cache(reading));
    fb_variant *variant[VARIANTS];
    size_t taken;

    (void)state;
    for (int v = 0; v < VARIANTS; v++)
        assert_ok(fb_evict(&variant[v], reading, v % RULES, &usual, 0, prompt.n / 10));
    taken = fb_memory_now(FB_ACCOUNT_kv) - before;
    print_message("32 variants at 10 %%: %.1f MiB; 32 full caches: %.1f MiB\n",
                  (double)taken / (1 << 20), VARIANTS * (double)full / (1 << 20));
    assert_true(taken * 10 <= VARIANTS * full);
    for (int v = 0; v < VARIANTS; v++)
        fb_variant_free(variant[v]);
    close_prompt(reading, &prompt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evicting_gives_the_bits_of_masking),
        cmocka_unit_test(many_small_caches_take_less_memory_than_full_ones),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
