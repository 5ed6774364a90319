/* test_select.c - scores and a budget become kept sets, by hand-made scores.
 *
 * SPDX-License-Identifier: MIT
 */
#include "select/select.h"
#include "tests/support/test.h"
#include "tests/support/use_ops.h"

#include <stdio.h>

enum { LAYERS = 2, HEADS = 2, N = 10 };

static uint64_t seed = 1, stream = 0; /* of what follows */

/* Selects with `expression` from scores that are the same in both layers. */
static fb_status select_by(fb_selection *out, const char *expression,
                           const float *score, int64_t columns, fb_protect protect,
                           int64_t k)
{
    fb_tensor scores[LAYERS];
    fb_bound_rule *rule;
    fb_status status;

    assert_ok(fb_rule_parse(&rule, expression));
    fb_scope_open(ops);
    for (int l = 0; l < LAYERS; l++)
        scores[l] = fb_from_host(ops, FB_F32, 2, (int64_t[]){HEADS, columns}, score);
    status = fb_select(out, ops,
                       &(fb_selector){.rule = rule,
                                      .protect = protect,
                                      .layers = LAYERS,
                                      .kv_heads = HEADS,
                                      .n = N,
                                      .seed = seed,
                                      .stream = stream,
                                      .scores = scores},
                       k);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
    return status;
}

static void kept_is(const fb_selection *s, int64_t slot, const char *wanted)
{
    char text[128] = "";

    for (int64_t i = 0; i < s->kept.count[slot]; i++) {
        char one[16];

        (void)snprintf(one, sizeof one, "%s%d", i > 0 ? " " : "",
                       s->kept.position[slot][i]);
        strcat(text, one);
    }
    assert_string_equal(text, wanted);
}

static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect two_and_one = {FB_PROTECT_EXPERIMENT, 2, 1};

static const float scores[HEADS * N] = {
    0, 9, 1, 8, 2, 7, 3, 6, 4, 5, /* head 0 */
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, /* head 1: all equal */
};

static void higher_scores_stay_and_equal_ones_by_lower_position(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "knorm", scores, N, none, 4));
    kept_is(&s, 0, "1 3 5 7");
    kept_is(&s, 1, "0 1 2 3");
    kept_is(&s, 2, "1 3 5 7"); /* layer 1 */
    assert_int_equal(fb_kept_total(&s.kept), LAYERS * HEADS * 4);
    assert_int_equal(s.free_choices, LAYERS * HEADS * 4);
    assert_false(s.fallback || s.shrunk);
    fb_selection_clear(&s);
}

static void protected_entries_stay_and_count(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "knorm", scores, N, two_and_one, 5));
    kept_is(&s, 0, "0 1 3 5 9");
    kept_is(&s, 1, "0 1 2 3 9");
    assert_int_equal(s.n_protected, 3);
    assert_int_equal(s.free_choices, LAYERS * HEADS * 2);
    fb_selection_clear(&s);
}

static void a_head_smaller_than_its_protection_shrinks_in_order(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "knorm", scores, N,
                        (fb_protect){FB_PROTECT_EXPERIMENT, 2, 4}, 5));
    kept_is(&s, 0, "0 1 7 8 9"); /* newest, sinks, then other recents newest first */
    assert_true(s.shrunk);
    assert_int_equal(s.free_choices, 0);
    fb_selection_clear(&s);
    assert_ok(select_by(&s, "knorm", scores, N,
                        (fb_protect){FB_PROTECT_EXPERIMENT, 2, 4}, 2));
    kept_is(&s, 0, "0 9");
    fb_selection_clear(&s);
    assert_ok(select_by(&s, "knorm", scores, N,
                        (fb_protect){FB_PROTECT_EXPERIMENT, 2, 4}, 1));
    kept_is(&s, 0, "9");
    fb_selection_clear(&s);
}

static void a_head_as_large_as_its_protection_keeps_just_that(void **state)
{
    fb_selection s;

    (void)state; /* the newest is none of them */
    assert_ok(select_by(&s, "knorm", scores, N,
                        (fb_protect){FB_PROTECT_EXPERIMENT, 3, 0}, 3));
    kept_is(&s, 0, "0 1 2");
    assert_false(s.shrunk);
    fb_selection_clear(&s);
}

static void a_budget_of_the_whole_context_keeps_everything(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "knorm", scores, N, two_and_one, N));
    kept_is(&s, 0, "0 1 2 3 4 5 6 7 8 9");
    assert_int_equal(fb_kept_total(&s.kept), s.budget_entries);
    fb_selection_clear(&s);
}

static void a_window_rule_keeps_its_window_and_chooses_before_it(void **state)
{
    fb_selection s;

    (void)state; /* scores of the first 7 entries only */
    assert_ok(select_by(&s, "snapkv:window=3,kernel=1", scores, N - 3, none, 5));
    kept_is(&s, 0, "1 3 7 8 9");
    kept_is(&s, 1, "0 2 7 8 9"); /* the next 7 numbers: 6 4 5 1 1 1 1 */
    fb_selection_clear(&s);
}

static void a_context_inside_the_window_falls_back_to_sinks_and_recents(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "snapkv:window=10", scores, N, two_and_one, 5));
    assert_true(s.fallback);
    kept_is(&s, 0, "0 1 7 8 9");
    fb_selection_clear(&s);
    assert_ok(select_by(&s, "snapkv:window=64", scores, N, none, 3));
    assert_true(s.fallback);
    kept_is(&s, 3, "7 8 9");
    fb_selection_clear(&s);
}

static void the_recent_half_of_h2o_is_not_protection(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "h2o", scores, N, none, 6));
    kept_is(&s, 0, "1 3 5 7 8 9"); /* newest 3, then the best 3 of the others */
    fb_selection_clear(&s);
    assert_ok(select_by(&s, "h2o", scores, N, two_and_one, 7));
    kept_is(&s, 0, "0 1 3 5 7 8 9");
    fb_selection_clear(&s);
}

static void published_protection_is_the_rules_own(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "streaming_llm:sink=1", scores, N,
                        (fb_protect){FB_PROTECT_PUBLISHED, 7, 7}, 4));
    kept_is(&s, 0, "0 1 3 5"); /* the scores given stand for positions */
    assert_int_equal(s.n_protected, 1);
    fb_selection_clear(&s);
}

static void adakv_shares_a_layer_by_where_the_scores_are(void **state)
{
    fb_selection s;

    (void)
        state; /* k = 5: 10 in the layer; each head is sure of 1; head 0 wins the rest */
    assert_ok(select_by(&s, "adakv(random)", scores, N, none, 5));
    assert_int_equal(s.kept.count[0] + s.kept.count[1], 10);
    kept_is(&s, 0, "1 2 3 4 5 6 7 8 9"); /* of the ties at 1, head 0's comes first */
    kept_is(&s, 1, "0");
    fb_selection_clear(&s);
    assert_ok(select_by(&s, "adakv(random, safeguard=1)", scores, N, none, 5));
    assert_int_equal(s.kept.count[0], 5); /* nothing to share */
    assert_int_equal(s.kept.count[1], 5);
    fb_selection_clear(&s);
}

static void no_allocation_exceeds_its_budget(void **state)
{
    uint64_t number = 3;

    (void)state;
    for (int i = 0; i < 300; i++) {
        float random[HEADS * N];
        const int64_t k = 1 + i % (N - 1);
        const fb_protect protect = {FB_PROTECT_EXPERIMENT, i % 3, i % 4};
        fb_selection s;

        for (int j = 0; j < HEADS * N; j++) {
            number = number * 6364136223846793005u + 1442695040888963407u;
            random[j] = (float)(number >> 60); /* many ties */
        }
        assert_ok(
            select_by(&s, i % 2 ? "adakv(random)" : "knorm", random, N, protect, k));
        assert_int_equal(fb_kept_total(&s.kept), s.budget_entries);
        for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
            assert_in_range(s.kept.count[slot], 1, N);
            assert_int_equal(s.kept.position[slot][s.kept.count[slot] - 1] == N - 1 ||
                                 protect.recent == 0,
                             1);
        }
        fb_selection_clear(&s);
    }
}

static fb_status greedy(fb_ops *o, const fb_share_input *in, const void *params,
                        int64_t *k_out)
{
    (void)o;
    (void)params;
    k_out[0] = in->k + 1; /* one more than there is */
    for (int64_t g = 1; g < in->kv_heads; g++)
        k_out[g] = in->k;
    return FB_OK;
}

static void an_allocation_of_one_entry_more_is_refused(void **state)
{
    fb_rule rule = *fb_rule_find("adakv");
    fb_bound_rule *bound;
    fb_selection s;

    (void)state;
    rule.share = greedy;
    rule.kind = FB_KIND_ALLOCATION;
    rule.n_inner = 1;
    assert_fails(fb_rule_bind(&bound, &rule), FB_USAGE, "needs 1 rule");
    assert_ok(fb_rule_bind_around(&bound, &rule, "random"));
    fb_scope_open(ops);
    {
        fb_tensor layer[LAYERS];

        for (int l = 0; l < LAYERS; l++)
            layer[l] = fb_from_host(ops, FB_F32, 2, (int64_t[]){HEADS, N}, scores);
        assert_fails(fb_select(&s, ops,
                               &(fb_selector){.rule = bound,
                                              .protect = none,
                                              .layers = LAYERS,
                                              .kv_heads = HEADS,
                                              .n = N,
                                              .scores = layer},
                               4),
                     FB_BUDGET, "shares 9 entries in layer 0; the budget has 8");
    }
    fb_scope_close(ops);
    fb_bound_rule_free(bound);
}

/* --- controls --------------------------------------------------------------------- */

static bool is_kept(const fb_selection *s, int64_t slot, int32_t position)
{
    for (int64_t i = 0; i < s->kept.count[slot]; i++)
        if (s->kept.position[slot][i] == position) return true;
    return false;
}

static void a_control_keeps_as_many_of_each_head_as_an_allocation_gave_it(void **state)
{
    fb_selection s;

    (void)state;
    assert_ok(select_by(&s, "control(adakv(random))", scores, N, none, 5));
    assert_int_equal(s.kept.count[0], 9); /* as adakv(random), above */
    assert_int_equal(s.kept.count[1], 1);
    fb_selection_clear(&s);
}

static void a_control_keeps_as_few_as_a_rule_that_leaves_room(void **state)
{
    fb_selection rule, control;

    (void)state; /* whole pieces of 4 from 6 entries: one of them, and what is cut */
    assert_ok(select_by(&rule, "chunk(knorm,size=4,fill=none)", scores, N, none, 6));
    assert_ok(select_by(&control, "control(chunk(knorm,size=4,fill=none))", scores, N,
                        none, 6));
    assert_true(fb_kept_total(&rule.kept) < rule.budget_entries);
    for (int64_t slot = 0; slot < rule.kept.n_slots; slot++)
        assert_int_equal(control.kept.count[slot], rule.kept.count[slot]);
    fb_selection_clear(&rule);
    fb_selection_clear(&control);
}

/* Each of 1000 draws keeps an entry with probability (k - p)/(n - p) = 2/7: within five
 * deviations (14.3 each) of 285.7. */
static void a_control_draws_every_entry_that_can_be_chosen_alike(void **state)
{
    int64_t kept[LAYERS * HEADS][N] = {{0}}, both = 0;

    (void)state;
    for (seed = 1; seed <= 1000; seed++) {
        fb_selection s;

        assert_ok(select_by(&s, "control(knorm)", scores, N, two_and_one, 5));
        for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
            for (int32_t j = 0; j < N; j++)
                kept[slot][j] += is_kept(&s, slot, j);
        both += is_kept(&s, 0, 4) && is_kept(&s, 1, 4);
        fb_selection_clear(&s);
    }
    seed = 1;
    for (int64_t slot = 0; slot < LAYERS * HEADS; slot++)
        for (int32_t j = 0; j < N; j++) {
            if (j < 2 || j == N - 1)
                assert_int_equal(kept[slot][j], 1000);
            else
                assert_in_range(kept[slot][j], 214, 357);
        }
    assert_in_range(both, 40, 124); /* independent heads: 81.6, deviation 8.7 */
}

static void a_control_depends_on_seed_and_document_alone(void **state)
{
    static float other[HEADS * N];
    fb_selection a, b;

    (void)state;
    for (int i = 0; i < HEADS * N; i++)
        other[i] = -scores[i];
    assert_ok(select_by(&a, "control(knorm)", scores, N, none, 5));
    assert_ok(select_by(&b, "control(keydiff)", other, N, none, 5));
    for (int64_t slot = 0; slot < a.kept.n_slots; slot++)
        assert_memory_equal(a.kept.position[slot], b.kept.position[slot],
                            5 * sizeof(int32_t));
    fb_selection_clear(&b);
    stream = 9;
    assert_ok(select_by(&b, "control(knorm)", scores, N, none, 5));
    stream = 0;
    assert_true(
        memcmp(a.kept.position[0], b.kept.position[0], 5 * sizeof(int32_t)) != 0 ||
        memcmp(a.kept.position[1], b.kept.position[1], 5 * sizeof(int32_t)) != 0);
    fb_selection_clear(&a);
    fb_selection_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(higher_scores_stay_and_equal_ones_by_lower_position),
        cmocka_unit_test(protected_entries_stay_and_count),
        cmocka_unit_test(a_head_smaller_than_its_protection_shrinks_in_order),
        cmocka_unit_test(a_head_as_large_as_its_protection_keeps_just_that),
        cmocka_unit_test(a_budget_of_the_whole_context_keeps_everything),
        cmocka_unit_test(a_window_rule_keeps_its_window_and_chooses_before_it),
        cmocka_unit_test(a_context_inside_the_window_falls_back_to_sinks_and_recents),
        cmocka_unit_test(the_recent_half_of_h2o_is_not_protection),
        cmocka_unit_test(published_protection_is_the_rules_own),
        cmocka_unit_test(adakv_shares_a_layer_by_where_the_scores_are),
        cmocka_unit_test(no_allocation_exceeds_its_budget),
        cmocka_unit_test(an_allocation_of_one_entry_more_is_refused),
        cmocka_unit_test(a_control_keeps_as_many_of_each_head_as_an_allocation_gave_it),
        cmocka_unit_test(a_control_keeps_as_few_as_a_rule_that_leaves_room),
        cmocka_unit_test(a_control_draws_every_entry_that_can_be_chosen_alike),
        cmocka_unit_test(a_control_depends_on_seed_and_document_alone),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
