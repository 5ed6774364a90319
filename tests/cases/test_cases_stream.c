/* test_cases_stream.c - user cases about eviction while text comes in, by id.
 *
 * A02: schedules over layers on tiny inputs. B06, I05, K01: the budget as a maximum at every
 * step, whatever fills it. I06: entries that move change no bit. J06: chunks. On the
 * built-in model.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

enum {
    CONTEXT = 500,
    PROMPT = 6,
    FREE = 200,
    BUDGET = 64,
    LAYERS = 2,
    KV_HEADS = 2,
    SLOTS = LAYERS * KV_HEADS
};

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static int32_t context[CONTEXT], prompt[PROMPT], words[FREE];
static rig r;

static int open_all(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 3);
    rig_text(prompt, PROMPT, 4);
    rig_text(words, FREE, 5);
    prompt[0] = 2;
    words[0] = 7;
    rig_open(&r, "builtin", NULL, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&r);
    return 0;
}

/* --- A02 --- */

static void check_counts(const fb_selection *s, int64_t k)
{
    for (int64_t slot = 0; slot < s->kept.n_slots; slot++)
        assert_true(s->kept.count[slot] >= 1);
    assert_int_equal(fb_kept_total(&s->kept), s->kept.n_slots * k);
}

/* Scores of `layers` layers of ten entries, chosen under 4 % of them. */
static void choose_of_ten(const char *expression, int64_t layers)
{
    const fb_budget budget = {FB_BUDGET_RATIO, 4, 100, 0};
    const fb_cache_shape shape = {layers, KV_HEADS, 32, FB_F32};
    const int64_t k = fb_budget_entries(&budget, &shape, 10, FB_ROUND_EXACT);
    fb_tensor scores[3];
    fb_bound_rule *rule;
    fb_selection s;

    assert_true(layers <= 3);
    assert_int_equal(k, 1);
    assert_ok(fb_rule_parse(&rule, expression));
    fb_scope_open(r.ops);
    for (int64_t l = 0; l < layers; l++)
        scores[l] = fb_cumsum(
            r.ops, fb_full(r.ops, 2, (int64_t[]){KV_HEADS, 10}, l % 2 == 0 ? 1 : -1));
    assert_ok(fb_select(&s, r.ops,
                        &(fb_selector){.rule = rule,
                                       .protect = none,
                                       .layers = layers,
                                       .kv_heads = KV_HEADS,
                                       .n = 10,
                                       .scores = scores},
                        k));
    check_counts(&s, k);
    fb_selection_clear(&s);
    fb_scope_close(r.ops);
    fb_bound_rule_free(rule);
}

static void A02_no_layer_is_left_with_nothing(void **state)
{
    (void)state;
    choose_of_ten("pyramid(knorm)", 3);
    choose_of_ten("pyramid(knorm)", 1);
    choose_of_ten("pyramid(knorm,form=kvpress)", 1);
}

/* --- budgets as a maximum --- */

/* A context of n tokens, and what a rule says of it under 64 entries. */
static void answer(const char *expression, int64_t n, int64_t n_words,
                   const fb_answer_options *options, int64_t interval, fb_answer *out)
{
    const fb_question question = {prompt, words, PROMPT, n_words};
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *variant;

    assert_ok(fb_rule_parse(&bound, expression));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, context, n, NULL, 0, 0));
    assert_ok(fb_stream_in(&variant, reading, &rule, context, &usual,
                           &(fb_pace){BUDGET, 16, interval, true, false}));
    assert_int_equal(fb_variant_bytes(variant), (size_t)SLOTS * BUDGET * 2 * 32 * 4);
    assert_ok(fb_answer_group(reading, &variant, 1, &question, options, out));
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
}

/* Of a prompt of 500 and an answer of 200; a rule that needs the whole text is refused. */
static void B06_a_rule_for_decoding_holds_its_budget_at_each_step(void **state)
{
    static const char *const expressions[] = {"knorm", "random", "keydiff",
                                              "streaming_llm"};
    const fb_answer_options options = {.generate = true, .max_tokens = FREE};
    fb_bound_rule *rule;

    (void)state;
    for (int i = 0; i < 4; i++) {
        fb_answer got;

        answer(expressions[i], CONTEXT, FREE, &options, 16, &got);
        assert_int_equal(got.highest, BUDGET);
        assert_true(fb_kept_total(&got.held.kept) <= (int64_t)SLOTS * BUDGET);
        assert_int_equal(got.tail_bytes, 0);
        fb_answer_clear(&got);
    }
    assert_ok(fb_rule_parse(&rule, "noncausal"));
    assert_false(fb_bound_rule_streams(rule));
    fb_bound_rule_free(rule);
}

static void I05_a_budget_is_the_same_for_a_prompt_and_for_an_answer(void **state)
{
    const fb_answer_options options = {.generate = false};
    fb_answer by_prompt, by_answer;

    (void)state;
    answer("knorm", CONTEXT, 40, &options, 16, &by_prompt);
    answer("knorm", 20, FREE, &options, 16, &by_answer);
    assert_int_equal(by_prompt.highest, BUDGET);
    assert_int_equal(by_answer.highest, BUDGET);
    assert_int_equal(by_prompt.held.budget_entries, by_answer.held.budget_entries);
    fb_answer_clear(&by_prompt);
    fb_answer_clear(&by_answer);
}

/* Evictions before tokens 48, 64, 80 and 96 of 100 behind a text of 10 + 6. */
static void K01_the_room_for_an_interval_is_inside_the_budget(void **state)
{
    const fb_answer_options options = {.generate = true, .max_tokens = 100};
    fb_answer got;

    (void)state;
    answer("knorm", 10, 100, &options, 16, &got);
    assert_int_equal(got.highest, BUDGET);
    assert_int_equal(got.events, 4);
    assert_int_equal(got.n_read, 10 + PROMPT + 99);
    fb_answer_clear(&got);
}

/* --- J06 --- */

/* What is left of the context in chunks of so many tokens, and what is said then. */
static void read_in(const char *expression, int64_t k, int64_t chunk, fb_kept *kept,
                    fb_answer *out)
{
    enum { N = 150 };
    const fb_question question = {prompt, words, PROMPT, 9};
    const fb_answer_options options = {.generate = false};
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *variant;

    assert_ok(fb_rule_parse(&bound, expression));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, context, N, NULL, 0, 0));
    assert_ok(fb_stream_in(&variant, reading, &rule, context, &usual,
                           &(fb_pace){k, chunk, 4, true, false}));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, out));
    *kept = out->held.kept;
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
}

/* The same bits where nothing is evicted, the same set for a rule that does not look back;
 * others depend on the chunk, which every result says (stream.chunk7...). */
static void J06_chunks_change_no_bit_of_a_full_cache(void **state)
{
    static const int64_t chunks[] = {1, 7, 64, 150};
    fb_answer want, got;
    fb_kept a, b;

    (void)state;
    read_in("h2o", 200, 150, &a, &want);
    for (int c = 0; c < 4; c++) {
        read_in("h2o", 200, chunks[c], &b, &got);
        assert_memory_equal(got.nll, want.nll, 9 * sizeof *got.nll);
        fb_answer_clear(&got);
    }
    fb_answer_clear(&want);
    read_in("recency", 80, 1, &a, &want);
    for (int c = 1; c < 3; c++) {
        read_in("recency", 80, chunks[c], &b, &got);
        for (int s = 0; s < SLOTS; s++)
            assert_memory_equal(a.position[s], b.position[s], 80 * sizeof(int32_t));
        fb_answer_clear(&got);
    }
    fb_answer_clear(&want);
}

/* --- I06 --- */

/* Nothing is evicted before the answer: what its first tokens see then is what they see of the
 * same set, chosen elsewhere, through a mask on the full cache. */
static void I06_entries_that_move_change_no_bit(void **state)
{
    enum { SHORT = 60, READ = SHORT + PROMPT, N = 8 };
    const fb_answer_options options = {.generate = false};
    const fb_question whole = {prompt, words, PROMPT, N + 1},
                      rest = {words, words + 1, 1, N};
    fb_seeded_rule rule = {.seed = 1};
    int32_t all[READ];
    fb_bound_rule *bound;
    fb_reading *reading, *once;
    fb_variant *stream, *masked;
    fb_answer moved, hidden;

    (void)state;
    memcpy(all, context, SHORT * sizeof *all);
    memcpy(all + SHORT, prompt, sizeof prompt);
    assert_ok(fb_rule_parse(&bound, "keydiff"));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, context, SHORT, NULL, 0, 0));
    assert_ok(fb_read(&once, r.engine, all, READ, &rule, 1, 0));
    /* READ fit; with the block of the answer they would be one too many */
    assert_ok(fb_stream_in(&stream, reading, &rule, context, &none,
                           &(fb_pace){READ + N - 1, SHORT, N, true, false}));
    assert_ok(fb_answer_group(reading, &stream, 1, &whole, &options, &moved));
    assert_int_equal(moved.events, 1);
    assert_ok(fb_evict_masked(&masked, once, 0, &none, 0, READ - 1));
    assert_ok(fb_answer_group(once, &masked, 1, &rest, &options, &hidden));
    assert_memory_equal(moved.nll + 1, hidden.nll, N * sizeof *hidden.nll);
    fb_answer_clear(&moved);
    fb_answer_clear(&hidden);
    fb_variant_free(stream);
    fb_variant_free(masked);
    fb_reading_free(once);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A02_no_layer_is_left_with_nothing),
        cmocka_unit_test(B06_a_rule_for_decoding_holds_its_budget_at_each_step),
        cmocka_unit_test(I05_a_budget_is_the_same_for_a_prompt_and_for_an_answer),
        cmocka_unit_test(K01_the_room_for_an_interval_is_inside_the_budget),
        cmocka_unit_test(J06_chunks_change_no_bit_of_a_full_cache),
        cmocka_unit_test(I06_entries_that_move_change_no_bit),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
