/* test_engine_stream.c - a context that is read under the budget.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

enum {
    CONTEXT = 150,
    PROMPT = 3,
    ANSWER = 5,
    LAYERS = 2,
    HEADS = 2,
    SLOTS = LAYERS * HEADS
};

static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static const fb_answer_options free_too = {.generate = true, .max_tokens = 12};

static const char *const expressions[] = {
    "random",
    "recency",
    "streaming_llm",
    "knorm",
    "tova",
    "snapkv:window=16",
    "h2o",
    "observed_attention",
    "keydiff",
    "blend(h2o, recency)",
    "blend(observed_attention, h2o)",
    "a2sf",
    "roco",
    "scissorhands:history=64",
    "keyformer",
    "raas",
    "lazyeviction",
    "blend(scissorhands, h2o)",
    "expected_attention:stat_skip=20,covariance=0",
    "blend(trig, h2o)",
};
enum { RULES = sizeof expressions / sizeof expressions[0] };

static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
static rig r;
static fb_reading *reading;

static int open_all(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    prompt[0] = 2;
    rig_open(&r, "builtin", NULL, NULL);
    return fb_read(&reading, r.engine, context, CONTEXT, NULL, 0, 1) == FB_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    fb_reading_free(reading);
    rig_close(&r);
    return 0;
}

static fb_status stream_by(const char *expression, const fb_protect *protect, int64_t k,
                           int64_t chunk, fb_variant **out)
{
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_status status;

    assert_ok(fb_rule_parse(&bound, expression));
    rule.rule = bound;
    status = fb_stream_in(out, reading, &rule, context, protect,
                          &(fb_pace){k, chunk, 0, true, false});
    if (status != FB_OK) fb_ops_reset(r.ops);
    fb_bound_rule_free(bound);
    return status;
}

static void answer(fb_variant *variant, fb_answer *out)
{
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &free_too, out));
}

static void is_same_answer(const fb_answer *a, const fb_answer *b)
{
    assert_memory_equal(a->nll, b->nll, (size_t)a->n * sizeof *a->nll);
    assert_memory_equal(a->kl, b->kl, (size_t)a->n * sizeof *a->kl);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

static void a_budget_of_the_whole_text_is_the_full_cache_to_the_bit(void **state)
{
    static const int64_t chunks[] = {1, 7, 64, CONTEXT};
    fb_variant *full;
    fb_answer want;

    (void)state;
    assert_ok(fb_keep_all(&full, reading));
    answer(full, &want);
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < RULES; i++) {
            fb_variant *variant;
            fb_answer got;

            assert_ok(stream_by(expressions[i], &usual, CONTEXT, chunks[c], &variant));
            answer(variant, &got);
            is_same_answer(&got, &want);
            assert_true(got.kl[0] <= 0);
            assert_int_equal(fb_variant_selection(variant)->kept.count[0], CONTEXT);
            fb_answer_clear(&got);
            fb_variant_free(variant);
        }
    fb_answer_clear(&want);
    fb_variant_free(full);
}

/* Positions ascend, are of the text, and are no more than the budget in any slot. */
static void check_kept(const fb_kept *kept, int64_t k)
{
    assert_int_equal(kept->n_slots, SLOTS);
    for (int64_t s = 0; s < SLOTS; s++) {
        assert_true(kept->count[s] >= 1 && kept->count[s] <= k);
        for (int64_t j = 0; j < kept->count[s]; j++) {
            assert_in_range(kept->position[s][j], 0, CONTEXT - 1);
            if (j > 0) assert_true(kept->position[s][j] > kept->position[s][j - 1]);
        }
        assert_int_equal(kept->position[s][kept->count[s] - 1], CONTEXT - 1);
    }
}

static void no_rule_ever_holds_more_than_the_budget(void **state)
{
    static const int64_t budgets[] = {40, 61, 100, 149};

    (void)state;
    for (int b = 0; b < 4; b++)
        for (int i = 0; i < RULES; i++) {
            const size_t before = fb_memory_now(FB_ACCOUNT_kv);
            fb_variant *variant;
            fb_answer got;

            fb_memory_reset_peaks();
            assert_ok(stream_by(expressions[i], &usual, budgets[b], 9, &variant));
            assert_true(fb_memory_peak(FB_ACCOUNT_kv) - before <=
                        (size_t)(SLOTS * budgets[b]) * 2 * 32 * sizeof(float));
            check_kept(&fb_variant_selection(variant)->kept, budgets[b]);
            answer(variant, &got);
            fb_answer_clear(&got);
            fb_variant_free(variant);
            assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
        }
}

/* `name`, or with plain inner rules between its brackets. */
static void expression_of(const fb_rule *rule, char *out, size_t n)
{
    static const char *const inner[] = {"knorm", "recency"};
    int at = snprintf(out, n, "%s", rule->name);

    for (int i = 0; i < rule->n_inner; i++)
        at += snprintf(out + at, n - (size_t)at, "%c%s", i == 0 ? '(' : ',', inner[i]);
    if (rule->n_inner > 0) (void)snprintf(out + at, n - (size_t)at, ")");
}

static void every_rule_that_says_so_streams(void **state)
{
    int n = 0;

    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        const fb_rule *rule = fb_rule_at(i);
        char text[128];
        fb_variant *variant;

        if ((rule->runs & FB_RUNS_STREAMING) == 0 || strcmp(rule->name, "full") == 0)
            continue;
        expression_of(rule, text, sizeof text);
        assert_ok(stream_by(text, &usual, 100, 9, &variant));
        check_kept(&fb_variant_selection(variant)->kept, 100);
        fb_variant_free(variant);
        n++;
    }
    assert_true(n > 12);
}

static void recency_leaves_sinks_and_the_newest(void **state)
{
    enum { K = 50, CHUNK = 8 };
    fb_variant *variant;
    const fb_kept *kept;
    int64_t m;

    (void)state;
    assert_ok(stream_by("recency", &usual, K, CHUNK, &variant));
    kept = &fb_variant_selection(variant)->kept;
    m = kept->count[0];
    assert_int_equal(m, K);
    for (int64_t s = 0; s < SLOTS; s++)
        for (int64_t j = 0; j < m; j++)
            assert_int_equal(kept->position[s][j], j < 4 ? j : CONTEXT - m + j);
    fb_variant_free(variant);
}

/* Each entry has one number for good, so what is left is what has the largest of all. */
static void random_numbers_stay_with_their_entries(void **state)
{
    fb_bound_rule *rule;
    fb_seeded_rule seeded;
    fb_reading *once;
    fb_variant *variant, *other;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "random"));
    seeded = (fb_seeded_rule){rule, 1};
    assert_ok(fb_read(&once, r.engine, context, CONTEXT, &seeded, 1, 1));
    /* the last token comes alone: before it 39 are left, and it is one of the 40 */
    assert_ok(stream_by("random", &none, 40, 1, &variant));
    assert_ok(fb_evict(&other, once, 0, &none, 0, 40));
    for (int64_t s = 0; s < SLOTS; s++) {
        const fb_kept *a = &fb_variant_selection(variant)->kept,
                      *b = &fb_variant_selection(other)->kept;
        int64_t common = 0;

        for (int64_t i = 0, j = 0; i < a->count[s] && j < b->count[s];) {
            const int32_t x = a->position[s][i], y = b->position[s][j];

            common += x == y;
            i += x <= y;
            j += y <= x;
        }
        assert_true(common >= 39);
    }
    fb_variant_free(variant);
    fb_variant_free(other);
    fb_reading_free(once);
    fb_bound_rule_free(rule);
}

/* What a rule carries after many chunks is what one pass makes, as long as nothing leaves. */
static void check_one_pass(const char *expression)
{
    fb_bound_rule *rule;
    fb_seeded_rule seeded;
    fb_reading *once;
    fb_variant *variant, *other;

    assert_ok(fb_rule_parse(&rule, expression));
    seeded = (fb_seeded_rule){rule, 0};
    /* the only eviction comes before the last chunk of 50: the first 100 tokens are there */
    assert_ok(stream_by(expression, &none, 120, 50, &variant));
    assert_int_equal(fb_variant_selection(variant)->kept.count[0], 120);
    assert_ok(fb_read(&once, r.engine, context, 100, &seeded, 1, 1));
    assert_ok(fb_evict(&other, once, 0, &none, 0, 70));
    for (int64_t s = 0; s < SLOTS; s++)
        assert_memory_equal(fb_variant_selection(variant)->kept.position[s],
                            fb_variant_selection(other)->kept.position[s],
                            70 * sizeof(int32_t));
    fb_variant_free(variant);
    fb_variant_free(other);
    fb_reading_free(once);
    fb_bound_rule_free(rule);
}

static void what_is_carried_is_that_of_one_pass(void **state)
{
    (void)state;
    check_one_pass("h2o:recent=0");
    check_one_pass("expected_attention");
    check_one_pass("expected_attention:stat_skip=60,epsilon=0.01");
    check_one_pass("cap");
    check_one_pass("trig");
    check_one_pass("blend(trig,expected_attention)");
}

static void a_stream_repeats_to_the_bit_alone_and_in_a_group(void **state)
{
    fb_variant *group[RULES], *again;
    fb_answer together[RULES], alone;

    (void)state;
    for (int i = 0; i < RULES; i++)
        assert_ok(stream_by(expressions[i], &usual, 60, 16, &group[i]));
    for (int i = 1; i < RULES; i++) /* one kernel for all rules */
        assert_string_equal(fb_variant_trace(group[i]), fb_variant_trace(group[0]));
    assert_ok(fb_answer_group(reading, group, RULES, &question, &free_too, together));
    for (int i = 0; i < RULES; i++) {
        assert_ok(stream_by(expressions[i], &usual, 60, 16, &again));
        assert_string_equal(fb_variant_trace(again), fb_variant_trace(group[i]));
        assert_true(
            fb_ledger_equal(fb_variant_ledger(again), fb_variant_ledger(group[i])));
        answer(again, &alone);
        assert_true(fb_answer_is_same(&alone, &together[i]));
        fb_answer_clear(&alone);
        fb_answer_clear(&together[i]);
        fb_variant_free(again);
        fb_variant_free(group[i]);
    }
}

static void what_a_rule_holds_is_paid_from_the_budget(void **state)
{
    const fb_model_facts *facts = fb_model_get_facts(r.model);
    const int64_t entry = 2 * 32 * 4, k = 100;
    fb_bound_rule *rule;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "knorm"));
    assert_int_equal(fb_stream_entries(facts, FB_F32, rule, k, false), k);
    fb_bound_rule_free(rule);
    assert_ok(fb_rule_parse(&rule, "h2o"));
    assert_int_equal(fb_stream_entries(facts, FB_F32, rule, k, false),
                     k * entry / (entry + 4));
    fb_bound_rule_free(rule);
    assert_ok(fb_rule_parse(&rule, "snapkv:window=16"));
    assert_int_equal(fb_stream_entries(facts, FB_F32, rule, k, false),
                     (HEADS * k * entry - 16 * facts->heads * 32 * 4) /
                         (HEADS * entry));
    fb_bound_rule_free(rule);
}

static void what_cannot_stream_says_why(void **state)
{
    fb_variant *variant;

    (void)state;
    assert_fails(stream_by("oracle", &usual, 60, 16, &variant), FB_UNSUPPORTED,
                 "cannot evict while a text comes in");
    assert_fails(stream_by("adakv(keydiff)", &usual, 60, 16, &variant), FB_UNSUPPORTED,
                 "cannot evict while a text comes in");
    assert_fails(stream_by("full", &usual, 60, 16, &variant), FB_BUDGET,
                 "'full' keeps all");
    assert_fails(stream_by("knorm", &usual, 16, 16, &variant), FB_BUDGET,
                 "chunks of 16 tokens do not fit a budget of 16 entries a head");
    assert_ok(stream_by("full", &usual, CONTEXT, 16, &variant));
    fb_variant_free(variant);
}

/* --- a rule that is at fault --- */

static fb_tensor too_much(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_full(ops, 3, (int64_t[]){see->kv_heads, 2, see->m}, 0);
}

static fb_tensor first_row(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
}

static void one_row(const void *params, fb_choices *choices)
{
    (void)params;
    choices->state_rows = 1;
}

static void more_state_than_declared_is_over_the_budget(void **state)
{
    const fb_rule greedy = {FB_RULE_HEAD,
                            .name = "greedy",
                            .summary = "returns more state than it said",
                            .family = "mixed",
                            .source = "test",
                            .runs = FB_RUNS_STREAMING,
                            .choose = one_row,
                            .update = too_much,
                            .score = first_row};
    fb_seeded_rule rule = {.seed = 0};
    fb_bound_rule *bound;
    fb_variant *variant;

    (void)state;
    assert_ok(fb_rule_bind(&bound, &greedy));
    rule.rule = bound;
    assert_fails(fb_stream_in(&variant, reading, &rule, context, &usual,
                              &(fb_pace){60, 16, 0, true, false}),
                 FB_BUDGET, "'greedy' has declared 1 numbers of state");
    fb_ops_reset(r.ops);
    fb_bound_rule_free(bound);
}

static void one_vector(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_QUERIES | FB_READS_KEYS;
    choices->layer_rows = 1;
}

static fb_tensor two_vectors(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_full(ops, 3, (int64_t[]){see->heads, 2, see->head_dim}, 0);
}

static fb_tensor looks_at_keys(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_mean(ops, see->keys, 2);
}

static void more_learnt_than_declared_is_over_the_budget(void **state)
{
    const fb_rule greedy = {FB_RULE_HEAD,
                            .name = "greedy",
                            .summary = "learns more than it said",
                            .family = "mixed",
                            .source = "test",
                            .runs = FB_RUNS_STREAMING,
                            .choose = one_vector,
                            .learn = two_vectors,
                            .score = looks_at_keys};
    fb_seeded_rule rule = {.seed = 0};
    fb_bound_rule *bound;
    fb_variant *variant;

    (void)state;
    assert_ok(fb_rule_bind(&bound, &greedy));
    rule.rule = bound;
    assert_fails(fb_stream_in(&variant, reading, &rule, context, &usual,
                              &(fb_pace){60, 16, 0, true, false}),
                 FB_BUDGET, "'greedy' has declared 1 rows of state a query head");
    fb_ops_reset(r.ops);
    fb_bound_rule_free(bound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_of_the_whole_text_is_the_full_cache_to_the_bit),
        cmocka_unit_test(no_rule_ever_holds_more_than_the_budget),
        cmocka_unit_test(every_rule_that_says_so_streams),
        cmocka_unit_test(recency_leaves_sinks_and_the_newest),
        cmocka_unit_test(random_numbers_stay_with_their_entries),
        cmocka_unit_test(what_is_carried_is_that_of_one_pass),
        cmocka_unit_test(a_stream_repeats_to_the_bit_alone_and_in_a_group),
        cmocka_unit_test(what_a_rule_holds_is_paid_from_the_budget),
        cmocka_unit_test(what_cannot_stream_says_why),
        cmocka_unit_test(more_state_than_declared_is_over_the_budget),
        cmocka_unit_test(more_learnt_than_declared_is_over_the_budget),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
