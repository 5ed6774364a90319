/* test_engine_block.c - a choice block by block: against the same loop in double, and where it
 * must be the rule itself.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"

#include <math.h>

enum { CONTEXT = 150, D = 32, LAYERS = 2, HEADS = 2, K = 40 };

static int32_t context[CONTEXT];
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};

enum {
    KEYDIFF,
    KEYDIFF_7,
    KEYDIFF_64,
    KNORM,
    KNORM_1,
    KNORM_13,
    RANDOM,
    RANDOM_9,
    CONTROL,
    LAGKV_20,
    RULES
};
static const char *const expressions[RULES] = {
    "keydiff",
    "block(keydiff,size=7)",
    "block(keydiff,size=64)",
    "knorm",
    "block(knorm,size=1)",
    "block(knorm,size=13)",
    "random",
    "block(random,size=9)",
    "control(block(keydiff,size=7))",
    "block(lagkv,size=20)",
};
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

static fb_variant *evict(int rule, const fb_protect *protect)
{
    fb_variant *out;

    assert_ok(fb_evict(&out, reading, rule, protect, 0, K));
    return out;
}

/* --- the same loop -------------------------------------------------------------- */

/* keydiff of the entries `at` [m] of keys [n, D]: minus the cosine to the mean of the unit
 * keys. */
static void keydiff(const float *keys, const int *at, int m, double *out)
{
    static double unit[CONTEXT][D];
    double mean[D] = {0}, length = 0;

    for (int i = 0; i < m; i++) {
        const float *key = keys + at[i] * D;
        double square = 0;

        for (int c = 0; c < D; c++)
            square += (double)key[c] * (double)key[c];
        for (int c = 0; c < D; c++) {
            unit[i][c] = (double)key[c] / sqrt(square);
            mean[c] += unit[i][c] / m;
        }
    }
    for (int c = 0; c < D; c++)
        length += mean[c] * mean[c];
    for (int i = 0; i < m; i++) {
        out[i] = 0;
        for (int c = 0; c < D; c++)
            out[i] -= unit[i][c] * mean[c] / sqrt(length);
    }
}

/* Leaves the `k` best of `at` [m], in their order. */
static void keep_best(int *at, int m, const double *score, int k)
{
    int n = 0;

    for (int i = 0; i < m; i++) {
        int before = 0;

        for (int j = 0; j < m; j++)
            before += score[j] > score[i];
        if (before < k) at[n++] = at[i];
    }
    assert_int_equal(n, k); /* no ties */
}

static void choose(const float *keys, int size, int *at)
{
    double score[CONTEXT];

    for (int i = 0; i < K; i++)
        at[i] = i;
    for (int read = K; read < CONTEXT; read += size) {
        int m = K;

        for (int j = read; j < read + size && j < CONTEXT; j++)
            at[m++] = j;
        keydiff(keys, at, m, score);
        keep_best(at, m, score, K);
    }
}

static void check_keydiff(int rule, int size)
{
    static float keys[HEADS][CONTEXT * D];
    fb_variant *variant = evict(rule, &none);
    const fb_kept *kept = &fb_variant_selection(variant)->kept;

    for (int64_t l = 0; l < LAYERS; l++) {
        const fb_tensor x = fb_cache_keys(fb_reading_cache(reading), the.ops, l);

        assert_ok(fb_to_host(the.ops, x, keys, sizeof keys));
        for (int g = 0; g < HEADS; g++) {
            const int64_t slot = l * HEADS + g;
            int wanted[CONTEXT];

            choose(keys[g], size, wanted);
            assert_int_equal(kept->count[slot], K);
            for (int i = 0; i < K; i++)
                assert_int_equal(kept->position[slot][i], wanted[i]);
        }
    }
    fb_variant_free(variant);
}

static void each_block_is_scored_among_what_is_left(void **state)
{
    (void)state;
    check_keydiff(KEYDIFF_7, 7);
    check_keydiff(KEYDIFF_64, 64);
}

/* --- where it is the rule itself ------------------------------------------------ */

static bool is_kept_alike(const fb_variant *a, const fb_variant *b)
{
    const fb_kept *x = &fb_variant_selection(a)->kept;
    const fb_kept *y = &fb_variant_selection(b)->kept;

    for (int64_t slot = 0; slot < x->n_slots; slot++)
        if (x->count[slot] != y->count[slot] ||
            memcmp(x->position[slot], y->position[slot],
                   (size_t)x->count[slot] * sizeof(int32_t)) != 0)
            return false;
    return true;
}

static bool keep_alike(int a, int b, const fb_protect *protect)
{
    fb_variant *x = evict(a, protect), *y = evict(b, protect);
    const bool alike = is_kept_alike(x, y);

    fb_variant_free(x);
    fb_variant_free(y);
    return alike;
}

static void a_score_that_ignores_other_entries_keeps_the_same_by_any_block(void **state)
{
    (void)state;
    assert_true(keep_alike(KNORM, KNORM_1, &none));
    assert_true(keep_alike(KNORM, KNORM_13, &none));
    assert_true(keep_alike(RANDOM, RANDOM_9, &none));
    assert_false(keep_alike(KEYDIFF, KEYDIFF_7, &none));
}

/* The last block, of which all else is the first K, is that of the whole text. */
static void one_block_of_all_is_the_rule_itself(void **state)
{
    fb_bound_rule *rule;
    fb_scored_rule scored = {.seed = 1};
    const fb_selector in = {
        .protect = usual, .layers = LAYERS, .kv_heads = HEADS, .n = CONTEXT};
    fb_selector own = in;
    fb_variant *base = evict(KEYDIFF, &usual);
    const fb_kept *kept = &fb_variant_selection(base)->kept;
    fb_selection out;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "block(keydiff,size=110)"));
    scored.rule = own.rule = rule;
    assert_ok(fb_choose_by_blocks(&out, reading, &scored, &own, K));
    assert_int_equal(out.free_choices, fb_variant_selection(base)->free_choices);
    for (int64_t slot = 0; slot < kept->n_slots; slot++)
        assert_memory_equal(kept->position[slot], out.kept.position[slot],
                            K * sizeof(int32_t));
    fb_selection_clear(&out);
    fb_bound_rule_free(rule);
    fb_variant_free(base);
}

/* --- what holds for every rule -------------------------------------------------- */

static void what_is_protected_stays(void **state)
{
    static const int all[] = {KEYDIFF_7, KNORM_1, LAGKV_20, CONTROL};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fb_variant *variant = evict(all[i], &usual);
        const fb_selection *s = fb_variant_selection(variant);

        assert_int_equal(fb_kept_total(&s->kept), s->budget_entries);
        for (int64_t slot = 0; slot < s->kept.n_slots; slot++) {
            assert_int_equal(s->kept.position[slot][3], 3);
            assert_int_equal(s->kept.position[slot][K - 16], CONTEXT - 16);
        }
        fb_variant_free(variant);
    }
}

static void scores_are_paid_for(void **state)
{
    fb_variant *variant = evict(KEYDIFF_7, &usual);
    const fb_ledger *ledger = fb_variant_ledger(variant);

    (void)state;
    assert_true(fb_ledger_total(ledger, FB_PHASE_evict, FB_SCOPE_score).flops > 0);
    fb_variant_free(variant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_is_scored_among_what_is_left),
        cmocka_unit_test(
            a_score_that_ignores_other_entries_keeps_the_same_by_any_block),
        cmocka_unit_test(one_block_of_all_is_the_rule_itself),
        cmocka_unit_test(what_is_protected_stays),
        cmocka_unit_test(scores_are_paid_for),
    };
    return cmocka_run_group_tests(tests, open_reading, close_reading);
}
