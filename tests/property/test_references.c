/* test_references.c - the ceiling, the floor, and a rule against itself: invariants 28 and 31.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"
#include "tests/support/small_rules.h"

enum { MOST = 96, PROMPT = 2, ANSWER = 3, SEEDS = 1000 };

static rig the;
static shown text;
static int32_t ids[MOST + PROMPT + ANSWER];

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

/* --- 28 --- */

/* Of what question and answer look at, the part that a slot keeps. */
static double mass(const fb_kept *kept, int64_t slot)
{
    const int64_t g = slot % text.kv_heads, group = text.heads / text.kv_heads;
    const float *future = text.layer[slot / text.kv_heads].future;
    double sum = 0;

    for (int64_t i = 0; i < kept->count[slot]; i++)
        for (int64_t h = g * group; h < (g + 1) * group; h++)
            sum += (double)future[h * text.n + kept->position[slot][i]];
    return sum / (double)group;
}

static void check_below(const fb_kept *ceiling, const fb_bound_rule *rule,
                        fb_protect protect, int64_t k)
{
    shown_scores scores = {0};
    fb_selection s;

    fb_scope_open(the.ops);
    shown_read(&scores, &text, rule);
    shown_select(&s, &text, rule, &scores, protect, k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
        holds(mass(&s.kept, slot) <= mass(ceiling, slot) + 1e-6);
    fb_selection_clear(&s);
    fb_scope_close(the.ops);
}

static void check_ceiling(numbers *r)
{
    const int64_t n = (shown_draw(&text, the.ops, r, 22, 64), text.n);
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, number_int(r, 0, 4),
                                number_int(r, 0, 4)};
    const int64_t k = number_int(r, protect.sink + protect.recent + 1, n - 1);
    fb_selection ceiling;

    small_select(&ceiling, &text, "oracle", protect, k);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_is_shown(rule) && !small_shares(rule))
            check_below(&ceiling.kept, rule, protect, k);
        fb_bound_rule_free(rule);
    }
    fb_selection_clear(&ceiling);
}

static void no_rule_keeps_more_of_the_future_than_the_oracle(void **state)
{
    (void)state;
    try_cases(80, check_ceiling);
}

static void chance_keeps_its_share_of_the_future(void **state)
{
    numbers r = {7};
    double all = 0, sum = 0, squares = 0, mean, deviation;
    int64_t k;

    (void)state;
    shown_draw(&text, the.ops, &r, 40, 40);
    k = text.n / 4;
    for (int64_t h = 0; h < text.heads; h++)
        for (int64_t j = 0; j < text.n; j++)
            all += (double)text.layer[0].future[h * text.n + j] /
                   ((double)text.heads / (double)text.kv_heads);
    for (text.seed = 0; text.seed < SEEDS; text.seed++) {
        double kept = 0;
        fb_selection s;

        small_select(&s, &text, "random", (fb_protect){FB_PROTECT_NONE, 0, 0}, k);
        for (int64_t g = 0; g < text.kv_heads; g++)
            kept += mass(&s.kept, g);
        sum += kept;
        squares += kept * kept;
        fb_selection_clear(&s);
    }
    mean = sum / SEEDS;
    deviation = sqrt((squares / SEEDS - mean * mean) / SEEDS); /* of the mean */
    assert_true(fabs(mean - all * (double)k / (double)text.n) < 4 * deviation);
}

/* --- 31 --- */

static void say_the_same(fb_reading *reading, numbers *r, int64_t n)
{
    const fb_question question = {ids + MOST, ids + MOST + PROMPT, PROMPT, ANSWER};
    const fb_answer_options options = {.generate = true, .max_tokens = 4};
    const fb_protect protect = small_protect(r, n);
    const int64_t k = number_int(r, 1, n);
    fb_variant *variants[2];
    fb_answer out[2];

    assert_ok(fb_foresee_document(reading, &question, 1));
    assert_ok(fb_foresee(reading, &question));
    for (int i = 0; i < 2; i++)
        assert_ok(fb_evict(&variants[i], reading, i, &protect, 0, k));
    assert_ok(fb_answer_group(reading, variants, 2, &question, &options, out));
    holds(shown_is_same(&variants[0]->selection.kept, &variants[1]->selection.kept));
    holds(fb_answer_is_same(&out[0], &out[1]));
    for (int i = 0; i < 2; i++) {
        fb_answer_clear(&out[i]);
        fb_variant_free(variants[i]);
    }
}

static void check_twins(numbers *r)
{
    static const char inner[] = "normalise(knorm)"; /* goes into all */
    const int64_t n = number_int(r, 24, MOST);

    rig_text(ids, n, number_bits(r));
    rig_text(ids + MOST, PROMPT + ANSWER, number_bits(r));
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_rule copy = *fb_rule_at(i);
        fb_bound_rule *one, *two;
        fb_seeded_rule rules[2];
        fb_reading *reading;

        if (copy.n_inner > 1) continue;
        copy.name = "another";
        if (copy.n_inner == 1) {
            assert_ok(fb_rule_bind_around(&one, fb_rule_at(i), inner));
            assert_ok(fb_rule_bind_around(&two, &copy, inner));
        } else {
            assert_ok(fb_rule_bind(&one, fb_rule_at(i)));
            assert_ok(fb_rule_bind(&two, &copy));
        }
        of_rule(fb_bound_rule_text(one));
        rules[0] = (fb_seeded_rule){one, 5};
        rules[1] = (fb_seeded_rule){two, 5};
        assert_ok(fb_read(&reading, the.engine, ids, n, rules, 2, 1));
        if (small_evicts(one)) say_the_same(reading, r, n);
        fb_reading_free(reading);
        fb_bound_rule_free(one);
        fb_bound_rule_free(two);
    }
}

static void a_rule_under_two_names_gives_the_same_bytes(void **state)
{
    (void)state;
    try_cases(10, check_twins);
}

static void a_name_for_an_expression_is_the_expression(void **state)
{
    (void)state;
    for (int i = 0; i < fb_preset_count(); i++) {
        fb_bound_rule *name = small_parse(fb_preset_at(i)->name);
        fb_bound_rule *written = small_parse(fb_preset_at(i)->expression);

        holds(strcmp(fb_bound_rule_text(name), fb_bound_rule_text(written)) == 0);
        fb_bound_rule_free(name);
        fb_bound_rule_free(written);
    }
}

/* The text that is stored. */
static void check_texts(numbers *r)
{
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);
        fb_bound_rule *again = small_parse(fb_bound_rule_text(rule));

        holds(strcmp(fb_bound_rule_text(rule), fb_bound_rule_text(again)) == 0);
        fb_bound_rule_free(again);
        fb_bound_rule_free(rule);
    }
}

static void what_a_rule_is_written_out_as_is_the_rule(void **state)
{
    (void)state;
    try_cases(50, check_texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rule_keeps_more_of_the_future_than_the_oracle),
        cmocka_unit_test(chance_keeps_its_share_of_the_future),
        cmocka_unit_test(a_rule_under_two_names_gives_the_same_bytes),
        cmocka_unit_test(a_name_for_an_expression_is_the_expression),
        cmocka_unit_test(what_a_rule_is_written_out_as_is_the_rule),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
