/* test_edits.c - rules that look again, block by block, or change what stays: invariants 19
 * and 32, of `block` and `merging`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"
#include "tests/support/small_rules.h"

enum { MOST = 96, PROMPT = 2, ANSWER = 3, VALUES = 2 * MOST * 32 };

static rig the;
static int32_t ids[MOST + PROMPT + ANSWER];
static int64_t n;

static int open_all(void **state)
{
    (void)state;
    rig_open(&the, "builtin", &(fb_ops_options){.threads = 1}, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

/* Two rules on one text, at one budget. */
struct both {
    fb_bound_rule *rule[2];
    fb_reading *reading;
    fb_variant *variant[2];
};

static void open_both(struct both *b, const char *first, const char *second, numbers *r,
                      int64_t k)
{
    const fb_question question = {ids + MOST, ids + MOST + PROMPT, PROMPT, ANSWER};
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, number_int(r, 0, 3),
                                number_int(r, 0, 3)};
    fb_seeded_rule seeded[2];

    b->rule[0] = small_parse(first);
    b->rule[1] = small_parse(second);
    of_rule(second);
    for (int i = 0; i < 2; i++)
        seeded[i] = (fb_seeded_rule){b->rule[i], 1};
    assert_ok(fb_read(&b->reading, the.engine, ids, n, seeded, 2, 1));
    assert_ok(fb_foresee(b->reading, &question));
    for (int i = 0; i < 2; i++)
        assert_ok(fb_evict(&b->variant[i], b->reading, i, &protect, 0, k));
}

static void close_both(struct both *b)
{
    for (int i = 0; i < 2; i++)
        fb_variant_free(b->variant[i]);
    fb_reading_free(b->reading);
    for (int i = 0; i < 2; i++)
        fb_bound_rule_free(b->rule[i]);
}

static const fb_kept *kept_of(const struct both *b, int i)
{
    return &fb_variant_selection(b->variant[i])->kept;
}

static void draw_text(numbers *r)
{
    n = number_int(r, 30, MOST);
    rig_text(ids, n, number_bits(r));
    rig_text(ids + MOST, PROMPT + ANSWER, number_bits(r));
}

/* --- 19 --- */

/* Rules that look at their entries one by one, at any size; others once. */
static void check_blocks(numbers *r)
{
    static const char *const alone[] = {"knorm", "vnorm", "random", "paged"};
    static const char *const others[] = {"keydiff",       "manifold",
                                         "cur",           "lagkv:lag=4",
                                         "vatp(keydiff)", "blend(keydiff,recency)"};
    enum { ALONE = 4, OTHERS = 6 };
    const int64_t k = (draw_text(r), number_int(r, 12, n - 1));
    char block[SMALL_TEXT];
    struct both b;

    for (int i = 0; i < ALONE + OTHERS; i++) {
        const char *inner = i < ALONE ? alone[i] : others[i - ALONE];
        const int64_t size = number_int(r, i < ALONE ? 1 : n - k, n);

        (void)snprintf(block, sizeof block, "block(size=%d,%s)", (int)size, inner);
        open_both(&b, inner, block, r, k);
        holds(shown_is_same(kept_of(&b, 0), kept_of(&b, 1)));
        close_both(&b);
    }
}

static void one_block_of_all_that_leaves_is_the_rule_itself(void **state)
{
    (void)state;
    try_cases(20, check_blocks);
}

/* --- 32 --- */

static double longest(const float *x, int64_t rows)
{
    double most = 0;

    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;

        for (int c = 0; c < 32; c++)
            sum += (double)x[i * 32 + c] * (double)x[i * 32 + c];
        most = fmax(most, sqrt(sum));
    }
    return most;
}

static int64_t values_of(const fb_cache *cache, int64_t layer, float *out)
{
    const fb_tensor values = fb_cache_values(cache, the.ops, layer);
    const int64_t all = 2 * fb_size(the.ops, values, 1);

    assert_ok(fb_to_host(the.ops, values, out, (size_t)(all * 32) * sizeof *out));
    return all;
}

/* The same entries stay, and no value is longer than the longest was. */
static void check_merged(numbers *r)
{
    static const char *const inner[] = {"knorm", "snapkv:window=4", "random", "h2o"};
    static float before[VALUES], after[VALUES];
    const int64_t k = (draw_text(r), number_int(r, 12, n - 1)), i = number_int(r, 0, 3);
    char merging[SMALL_TEXT];
    struct both b;

    (void)snprintf(merging, sizeof merging, "merging(%s)", inner[i]);
    open_both(&b, inner[i], merging, r, k);
    holds(shown_is_same(kept_of(&b, 0), kept_of(&b, 1)));
    for (int64_t l = 0; l < 2; l++) {
        fb_scope_open(the.ops);
        holds(longest(after, values_of(b.variant[1]->arena, l, after)) <=
              longest(before, values_of(fb_reading_cache(b.reading), l, before)) *
                  (1 + 1e-5));
        fb_scope_close(the.ops);
    }
    close_both(&b);
}

static void merging_keeps_the_set_and_lengthens_no_value(void **state)
{
    (void)state;
    try_cases(20, check_merged);
}

/* No two keys have a cosine of 1 or more: nothing is merged. */
static void check_unmerged(numbers *r)
{
    const fb_question question = {ids + MOST, ids + MOST + PROMPT, PROMPT, ANSWER};
    const fb_answer_options options = {.generate = true, .max_tokens = 4};
    const int64_t k = (draw_text(r), number_int(r, 12, n - 1));
    fb_answer out[2];
    struct both b;

    open_both(&b, "keydiff", "merging(threshold=1,keydiff)", r, k);
    assert_ok(fb_answer_group(b.reading, b.variant, 2, &question, &options, out));
    holds(fb_answer_is_same(&out[0], &out[1]));
    for (int i = 0; i < 2; i++)
        fb_answer_clear(&out[i]);
    close_both(&b);
}

static void merging_of_nothing_alike_is_the_rule_itself(void **state)
{
    (void)state;
    try_cases(20, check_unmerged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_block_of_all_that_leaves_is_the_rule_itself),
        cmocka_unit_test(merging_keeps_the_set_and_lengthens_no_value),
        cmocka_unit_test(merging_of_nothing_alike_is_the_rule_itself),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
