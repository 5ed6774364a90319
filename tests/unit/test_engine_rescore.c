/* test_engine_rescore.c - scores that stay with the entries that survived an eviction.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"
#include "tests/support/rig.h"

enum {
    CONTEXT = 150,
    PROMPT = 5,
    ANSWER = 30,
    ALL = CONTEXT + PROMPT + ANSWER,
    HEADS = 2,
    SLOTS = 2 * HEADS,
    UNSCORED = 3, /* newest entries of the hand-made rule */
};

static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect few = {FB_PROTECT_EXPERIMENT, 2, 4};
static const fb_answer_options forced = {.generate = false};
static const fb_answer_options free_too = {.generate = true, .max_tokens = ANSWER};

static int32_t context[CONTEXT], prompt[PROMPT], words[ANSWER];
static const fb_question question = {prompt, words, PROMPT, ANSWER};
static rig r;
static fb_reading *reading;

static int open_all(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 21);
    rig_text(prompt, PROMPT, 22);
    rig_text(words, ANSWER, 23);
    prompt[0] = 2;
    words[0] = 9;
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

static fb_status stream_by(const fb_bound_rule *rule, const fb_protect *protect,
                           const fb_pace *pace, fb_variant **out)
{
    const fb_seeded_rule seeded = {rule, 1};
    const fb_status status =
        fb_stream_in(out, reading, &seeded, context, protect, pace);

    if (status != FB_OK) fb_ops_reset(r.ops);
    return status;
}

static void answer(fb_variant *variant, const fb_answer_options *options,
                   fb_answer *out)
{
    assert_ok(fb_answer_group(reading, &variant, 1, &question, options, out));
}

/* What is left when context, question and reference were read. */
static void held(const char *expression, bool keeps_scores, fb_answer *out)
{
    const fb_pace pace = {60, 9, 7, true, keeps_scores};
    fb_bound_rule *rule;
    fb_variant *variant;

    assert_ok(fb_rule_parse(&rule, expression));
    assert_ok(stream_by(rule, &few, &pace, &variant));
    answer(variant, &forced, out);
    fb_variant_free(variant);
    fb_bound_rule_free(rule);
}

static bool is_same_set(const fb_kept *a, const fb_kept *b)
{
    for (int s = 0; s < SLOTS; s++)
        if (a->count[s] != b->count[s] ||
            memcmp(a->position[s], b->position[s],
                   (size_t)a->count[s] * sizeof(int32_t)) != 0)
            return false;
    return true;
}

static bool changes_the_set(const char *expression)
{
    fb_answer all, kept;
    bool same;

    held(expression, false, &all);
    held(expression, true, &kept);
    same = is_same_set(&all.held.kept, &kept.held.kept);
    if (same) assert_memory_equal(all.nll, kept.nll, ANSWER * sizeof *all.nll);
    fb_answer_clear(&all);
    fb_answer_clear(&kept);
    return !same;
}

static void a_score_of_the_entry_alone_is_the_same_kept_or_made_anew(void **state)
{
    static const char *const alone[] = {
        "knorm",     "vnorm",         "random",         "recency",
        "vnorm:p=1", "streaming_llm", "control(knorm)", "shared(knorm)"};

    (void)state;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        assert_false(changes_the_set(alone[i]));
}

static void a_score_among_others_is_another_when_it_is_kept(void **state)
{
    static const char *const among[] = {"keydiff",         "manifold",
                                        "snapkv:window=4", "h2o",
                                        "rkv:window=4",    "expected_attention"};

    (void)state;
    for (size_t i = 0; i < sizeof among / sizeof *among; i++)
        assert_true(changes_the_set(among[i]));
}

/* --- by hand: a score that is another at every eviction --- */

static int64_t event; /* of the rule, counted by its first layer */

/* In [0, 1), of position and event. */
static double lot(int64_t position, int64_t at)
{
    const uint64_t mixed = ((uint64_t)position * 2654435761u) ^ (uint64_t)at * 40503u;

    return (double)(mixed * 0x9E3779B97F4A7C15u >> 40) / (double)(1 << 24);
}

static void choose_fickle(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_POSITION;
    choices->unscored_last = UNSCORED;
}

static fb_tensor score_fickle(fb_ops *ops, const fb_signals *see, const void *params)
{
    static float place[HEADS * ALL], score[HEADS * ALL];
    const int64_t n = HEADS * see->m;

    (void)params;
    if (see->layer == 0) event++;
    assert_ok(fb_to_host(ops, see->position, place, (size_t)n * sizeof *place));
    for (int64_t i = 0; i < n; i++)
        score[i] = (float)lot((int64_t)place[i], event);
    return fb_from_host(ops, FB_F32, 2, (int64_t[]){HEADS, see->m}, score);
}

static const fb_rule fickle = {FB_RULE_HEAD,
                               .name = "fickle",
                               .summary = "another score at every eviction",
                               .family = "position",
                               .source = "test",
                               .runs = FB_RUNS_STREAMING,
                               .choose = choose_fickle,
                               .score = score_fickle};

/* What should be left, with plain lists. */
typedef struct model {
    int64_t position[ALL], m, n, k, events;
    double score[ALL];
    bool has_score[ALL];
    bool keeps;
} model;

static void drop(model *s, int64_t j)
{
    s->m--;
    for (; j < s->m; j++) {
        s->position[j] = s->position[j + 1];
        s->score[j] = s->score[j + 1];
        s->has_score[j] = s->has_score[j + 1];
    }
}

static void evict(model *s, int64_t most)
{
    s->events++;
    for (int64_t j = 0; j < s->m - UNSCORED; j++)
        if (!s->has_score[j] || !s->keeps) {
            s->score[j] = (double)(float)lot(s->position[j], s->events);
            s->has_score[j] = true;
        }
    while (s->m > most) {
        int64_t worst = 0;

        for (int64_t j = 1; j < s->m - UNSCORED; j++)
            if (s->score[j] <= s->score[worst]) worst = j; /* of equals the newest */
        drop(s, worst);
    }
}

static void take(model *s, int64_t n, int64_t t)
{
    for (int64_t i = 0; i < n; i += t) {
        const int64_t block = n - i < t ? n - i : t;

        if (s->m + block > s->k) evict(s, s->k - block);
        for (int64_t j = 0; j < block; j++) {
            s->has_score[s->m] = false;
            s->position[s->m++] = s->n++;
        }
    }
}

static void check_by_hand(bool keeps, int64_t k, int64_t chunk, int64_t interval)
{
    model want = {.k = k, .keeps = keeps};
    const fb_pace pace = {k, chunk, interval, true, keeps};
    fb_bound_rule *rule;
    fb_variant *variant;
    fb_answer got;

    take(&want, CONTEXT, chunk);
    take(&want, PROMPT, chunk);
    take(&want, ANSWER - 1, interval); /* its last token is never read */
    event = 0;
    assert_ok(fb_rule_bind(&rule, &fickle));
    assert_ok(stream_by(rule, &none, &pace, &variant));
    answer(variant, &forced, &got);
    assert_int_equal(event, want.events);
    for (int s = 0; s < SLOTS; s++) {
        assert_int_equal(got.held.kept.count[s], want.m);
        for (int64_t j = 0; j < want.m; j++)
            assert_int_equal(got.held.kept.position[s][j], want.position[j]);
    }
    fb_answer_clear(&got);
    fb_variant_free(variant);
    fb_bound_rule_free(rule);
}

static void entries_compete_with_the_score_that_they_had(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++) {
        check_by_hand(keeps, 60, 9, 7);
        check_by_hand(keeps, 20, 1, 1);
        check_by_hand(keeps, 100, 64, 29);
        check_by_hand(keeps, 12, 5, 8);
    }
}

static void check_filled(const char *expression, const fb_protect *protect,
                         const fb_pace *pace)
{
    fb_bound_rule *rule;
    fb_variant *variant;
    fb_answer got;

    assert_ok(fb_rule_parse(&rule, expression));
    assert_ok(stream_by(rule, protect, pace, &variant));
    answer(variant, &forced, &got);
    assert_int_equal(got.highest, pace->k);
    assert_int_equal(fb_kept_total(&got.held.kept), SLOTS * pace->k);
    fb_answer_clear(&got);
    fb_variant_free(variant);
    fb_bound_rule_free(rule);
}

/* Of a budget below the window nothing is ever scored; of one where a window fits and what is
 * protected does not, first entries have scores and newer ones leave without. */
static void budgets_near_the_window_leave_scores_for_later(void **state)
{
    static const char *const expressions[] = {"snapkv:window=16", "tova",
                                              "h2o:recent=0", "keydiff"};
    const fb_protect ends = {FB_PROTECT_EXPERIMENT, 4, 9};

    (void)state;
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        check_filled(expressions[i], &none, &(fb_pace){14, 3, 5, true, true});
        check_filled(expressions[i], &ends, &(fb_pace){20, 10, 9, true, true});
        check_filled(expressions[i], &ends, &(fb_pace){24, 3, 10, true, true});
    }
}

/* --- every rule --- */

/* `name`, or with plain inner rules between its brackets. */
static void expression_of(const fb_rule *rule, char *out, size_t n)
{
    static const char *const inner[] = {"knorm", "keydiff"};
    int at = snprintf(out, n, "%s", rule->name);

    for (int i = 0; i < rule->n_inner; i++)
        at += snprintf(out + at, n - (size_t)at, "%c%s", i == 0 ? '(' : ',', inner[i]);
    if (rule->n_inner > 0) (void)snprintf(out + at, n - (size_t)at, ")");
}

/* In the budget with its scores paid, and the same twice, alone and among others. */
static void check_rule(const fb_bound_rule *rule)
{
    enum { K = 100 };
    const fb_model_facts *facts = fb_model_get_facts(r.model);
    const int64_t entries = fb_stream_entries(facts, FB_F32, rule, K, true);
    const fb_pace pace = {entries, 9, 7, true, true};
    fb_variant *first, *again;
    fb_answer a, both[2];

    assert_true(entries < K);
    assert_true(entries <= fb_stream_entries(facts, FB_F32, rule, K, false));
    assert_ok(stream_by(rule, &few, &pace, &first));
    assert_ok(stream_by(rule, &few, &pace, &again));
    assert_true(fb_variant_bytes(first) <= (size_t)SLOTS * K * 2 * 32 * 4);
    assert_true(fb_variant_bytes(first) >=
                (size_t)(SLOTS * entries * (2 * 32 + 1) * 4));
    answer(first, &free_too, &a);
    assert_ok(fb_answer_group(reading, (fb_variant *[]){first, again}, 2, &question,
                              &free_too, both));
    for (int i = 0; i < 2; i++) {
        assert_true(fb_answer_is_same(&a, &both[i]));
        assert_true(is_same_set(&a.held.kept, &both[i].held.kept));
        assert_true(both[i].highest <= entries);
        fb_answer_clear(&both[i]);
    }
    fb_answer_clear(&a);
    fb_variant_free(first);
    fb_variant_free(again);
}

static void every_rule_with_a_score_keeps_it_or_says_why(void **state)
{
    int kept = 0, refused = 0;

    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        char text[128];
        fb_bound_rule *rule;
        fb_variant *variant;

        expression_of(fb_rule_at(i), text, sizeof text);
        if (fb_rule_parse(&rule, text) != FB_OK) continue;
        if (fb_bound_rule_streams(rule) && fb_bound_rule_chooses(rule)) {
            refused++;
            assert_fails(
                stream_by(rule, &few, &(fb_pace){60, 9, 7, true, true}, &variant),
                FB_UNSUPPORTED, "has no one score an entry to keep");
        } else if (fb_bound_rule_streams(rule) && fb_bound_rule_scores(rule)) {
            kept++;
            check_rule(rule);
        }
        fb_bound_rule_free(rule);
    }
    assert_true(kept > 25 && refused >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_score_of_the_entry_alone_is_the_same_kept_or_made_anew),
        cmocka_unit_test(a_score_among_others_is_another_when_it_is_kept),
        cmocka_unit_test(entries_compete_with_the_score_that_they_had),
        cmocka_unit_test(budgets_near_the_window_leave_scores_for_later),
        cmocka_unit_test(every_rule_with_a_score_keeps_it_or_says_why),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
