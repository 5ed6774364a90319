/* test_engine_compact.c - entries that are renumbered while a text comes in.
 *
 * Keys and queries of the first layer depend on their token and their position alone: what a
 * stream holds of them is what one pass made, turned from the token's position to its place.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/near.h"
#include "tests/support/reference.h"

#include <math.h>

#define MODEL "tests/golden/families/llama_untied"

enum { N = 90, PROMPT = 3, ANSWER = 4, K = 30, CHUNK = 7, MOST = 4096 };

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 2, 4};
static int32_t ids[N + PROMPT + ANSWER];
static const fb_question question = {ids + N, ids + N + PROMPT, PROMPT, ANSWER};

/* One engine, and its full reading of the text. */
typedef struct side {
    rig r;
    fb_reading *reading;
} side;

static void open_side(side *s, bool compact, fb_seeded_rule *rules, int n_rules)
{
    rig_open(&s->r, MODEL, NULL, &(fb_engine_options){.compact = compact});
    assert_ok(fb_read(&s->reading, s->r.engine, ids, N, rules, n_rules, 1));
}

static void close_side(side *s)
{
    fb_reading_free(s->reading);
    rig_close(&s->r);
}

static fb_variant *stream_by(side *s, const fb_bound_rule *rule, int64_t k)
{
    const fb_seeded_rule seeded = {rule, 1};
    fb_variant *out;

    assert_ok(fb_stream_in(&out, s->reading, &seeded, ids, &usual,
                           &(fb_pace){.k = k, .chunk = CHUNK}));
    return out;
}

static fb_bound_rule *parse(const char *text)
{
    fb_bound_rule *out;

    assert_ok(fb_rule_parse(&out, text));
    return out;
}

/* `from` turned by so many positions is `to`, but for rounding; [d]. */
static void is_turned(const side *s, const float *from, const float *to, double by)
{
    const fb_model_facts *facts = fb_model_get_facts(s->r.model);
    const int64_t half = facts->rotary_dim / 2;
    float frequency[MOST];

    fb_rope_frequencies(&facts->rope[FB_ROPE_GLOBAL], half, K, frequency);
    for (int64_t f = 0; f < half; f++) {
        const double angle = by * (double)frequency[f];
        const double x = (double)from[f], y = (double)from[half + f];

        assert_near((double)to[f], x * cos(angle) - y * sin(angle), 2e-5);
        assert_near((double)to[half + f], y * cos(angle) + x * sin(angle), 2e-5);
    }
}

static void keys_stand_where_they_are_numbered(void **state)
{
    fb_bound_rule *rule = parse("knorm");
    const fb_model_facts *facts;
    fb_variant *variant;
    const fb_kept *kept;
    float *full, *ours;
    int64_t moved = 0;
    side s;

    (void)state;
    open_side(&s, true, NULL, 0);
    facts = fb_model_get_facts(s.r.model);
    variant = stream_by(&s, rule, K);
    kept = &fb_variant_selection(variant)->kept;
    fb_scope_open(s.r.ops);
    full = reference_floats(s.r.ops,
                            fb_cache_keys(fb_reading_cache(s.reading), s.r.ops, 0));
    ours = reference_floats(s.r.ops, fb_cache_keys(variant->arena, s.r.ops, 0));
    for (int64_t g = 0; g < facts->kv_heads; g++)
        for (int64_t j = 0; j < kept->count[g]; j++) {
            const int64_t from = kept->position[g][j], d = facts->head_dim;

            is_turned(&s, full + (g * N + from) * d,
                      ours + (g * kept->count[g] + j) * d, (double)(j - from));
            moved += from != j;
        }
    assert_true(moved > K);
    assert_int_equal(variant->next, kept->count[0]);
    assert_int_equal(variant->next_in_windows, N);
    fb_free(full);
    fb_free(ours);
    fb_scope_close(s.r.ops);
    fb_variant_free(variant);
    close_side(&s);
    fb_bound_rule_free(rule);
}

/* --- queries --- */

enum { WINDOW = 5 };
static float *all_queries; /* [heads, N, d] of the first layer, by a rule of one pass */
static const side *looking;
static int n_events;

static void choose_all(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_QUERIES;
    choices->queries = INT64_MAX;
}

static fb_tensor keep_all(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    if (see->layer == 0) all_queries = reference_floats(ops, see->queries);
    return fb_full(ops, 2, (int64_t[]){1, see->m}, 0);
}

static void choose_last(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_QUERIES | FB_READS_POSITION;
    choices->queries = WINDOW;
}

/* The newest query stands at place m - 1, the token that it was at n - 1. */
static fb_tensor look_at_last(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t d = see->head_dim;
    float *last;

    (void)params;
    if (see->layer == 0) {
        last = reference_floats(ops, see->queries);
        for (int64_t h = 0; h < see->heads; h++)
            for (int64_t i = 0; i < WINDOW; i++)
                is_turned(looking, all_queries + (h * N + see->n - WINDOW + i) * d,
                          last + (h * WINDOW + i) * d, (double)(see->m - see->n));
        fb_free(last);
        n_events++;
    }
    return see->position; /* the newest stay */
}

static void held_queries_move_with_the_newest_entries(void **state)
{
    const fb_rule all = {FB_RULE_HEAD, .name = "all", .choose = choose_all,
                         .score = keep_all};
    const fb_rule last = {FB_RULE_HEAD, .name = "last", .choose = choose_last,
                          .score = look_at_last,
                          .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING};
    fb_bound_rule *of_pass, *of_stream;
    side s;

    (void)state;
    assert_ok(fb_rule_bind(&of_pass, &all));
    assert_ok(fb_rule_bind(&of_stream, &last));
    open_side(&s, true, &(fb_seeded_rule){of_pass, 1}, 1);
    looking = &s;
    n_events = 0;
    fb_variant_free(stream_by(&s, of_stream, K));
    assert_true(n_events > 5);
    fb_free(all_queries);
    close_side(&s);
    fb_bound_rule_free(of_pass);
    fb_bound_rule_free(of_stream);
}

/* --- queries before rotation --- */

static float learnt[MOST]; /* [heads, d] the mean in the first layer, as of last */

static void choose_mean(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS | FB_READS_QUERIES | FB_READS_ROTATION;
    choices->layer_rows = 1;
}

static fb_tensor learn_mean(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t shape[] = {see->heads, 1, see->head_dim};
    const fb_tensor queries = fb_block_queries(ops, see, 0);
    fb_tensor mean = fb_reshape(ops, fb_mean(ops, queries, 1), 3, shape);

    (void)params;
    mean =
        fb_mean_so_far(ops, see, 0, see->layer_state, mean, fb_size(ops, queries, 1));
    if (see->layer == 0)
        assert_ok(fb_to_host(ops, mean, learnt,
                             (size_t)(see->heads * see->head_dim) * sizeof *learnt));
    return mean;
}

static fb_tensor score_keys(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_mean(ops, see->keys, 2);
}

static void check_learnt(bool compact, const fb_bound_rule *rule, bool is_dynamic)
{
    const fb_seeded_rule seeded = {rule, 1};
    float once[MOST];
    double most = 0;
    side s;
    fb_rope *rope;

    rig_open(&s.r, MODEL, NULL, &(fb_engine_options){.compact = compact});
    rope = &((fb_model_facts *)(uintptr_t)s.r.engine->facts)->rope[FB_ROPE_GLOBAL];
    if (is_dynamic) {
        rope->kind = FB_ROPE_DYNAMIC;
        rope->factor = 4;
        rope->first_length = 20;
    }
    assert_ok(fb_read(&s.reading, s.r.engine, ids, N, &seeded, 1, 1));
    memcpy(once, learnt, sizeof once);
    for (int i = 0; i < MOST; i++)
        most = fmax(most, fabs((double)once[i]));
    assert_true(most > 0);
    for (int64_t k = K; k <= N; k += N - K) {
        memset(learnt, 0, sizeof learnt);
        fb_variant_free(stream_by(&s, rule, k));
        for (int i = 0; i < MOST; i++)
            assert_true(fabs((double)learnt[i] - (double)once[i]) <= 2e-6 * most);
    }
    close_side(&s);
}

/* Also where frequencies hang on how long the text is (dynamic). */
static void queries_before_rotation_are_those_of_one_pass(void **state)
{
    const fb_rule mean = {
        FB_RULE_HEAD,          .name = "mean",
        .choose = choose_mean, .learn = learn_mean,
        .score = score_keys,   .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING};
    fb_bound_rule *rule;

    (void)state;
    assert_ok(fb_rule_bind(&rule, &mean));
    for (int i = 0; i < 4; i++)
        check_learnt(i % 2 == 1, rule, i / 2 == 1);
    fb_bound_rule_free(rule);
}

/* --- what does not change --- */

static void a_budget_of_the_text_moves_nothing(void **state)
{
    static const char *const rules[] = {"h2o", "snapkv:window=4", "expected_attention"};
    fb_answer answer[2];
    side s[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        open_side(&s[i], i == 1, NULL, 0);
    for (int r = 0; r < 3; r++) {
        fb_bound_rule *rule = parse(rules[r]);

        for (int i = 0; i < 2; i++) {
            fb_variant *variant = stream_by(&s[i], rule, N);

            assert_ok(fb_answer_group(s[i].reading, &variant, 1, &question,
                                      &(fb_answer_options){0}, &answer[i]));
            fb_variant_free(variant);
        }
        assert_true(fb_answer_is_same(&answer[0], &answer[1]));
        for (int i = 0; i < 2; i++)
            fb_answer_clear(&answer[i]);
        fb_bound_rule_free(rule);
    }
    for (int i = 0; i < 2; i++)
        close_side(&s[i]);
}

/* What is chosen by the order of the text alone. */
static void positions_choose_the_same_entries(void **state)
{
    static const char *const rules[] = {"streaming_llm", "recency", "random"};
    side s[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        open_side(&s[i], i == 1, NULL, 0);
    for (int r = 0; r < 3; r++) {
        fb_bound_rule *rule = parse(rules[r]);
        fb_variant *a = stream_by(&s[0], rule, K), *b = stream_by(&s[1], rule, K);
        const fb_kept *first = &fb_variant_selection(a)->kept;
        const fb_kept *second = &fb_variant_selection(b)->kept;

        for (int64_t slot = 0; slot < first->n_slots; slot++) {
            assert_int_equal(first->count[slot], second->count[slot]);
            assert_memory_equal(first->position[slot], second->position[slot],
                                (size_t)first->count[slot] * sizeof(int32_t));
        }
        fb_variant_free(a);
        fb_variant_free(b);
        fb_bound_rule_free(rule);
    }
    for (int i = 0; i < 2; i++)
        close_side(&s[i]);
}

static int open_text(void **state)
{
    (void)state;
    rig_text(ids, N + PROMPT + ANSWER, 17);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_stand_where_they_are_numbered),
        cmocka_unit_test(queries_before_rotation_are_those_of_one_pass),
        cmocka_unit_test(held_queries_move_with_the_newest_entries),
        cmocka_unit_test(a_budget_of_the_text_moves_nothing),
        cmocka_unit_test(positions_choose_the_same_entries),
    };
    return cmocka_run_group_tests(tests, open_text, NULL);
}
