/* test_engine_decode.c - question and answer under the budget of the context.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"
#include "tests/support/in_use.h"
#include "tests/support/rig.h"

enum {
    CONTEXT = 60,
    PROMPT = 7,
    ANSWER = 40,
    FREE = 50,
    LAYERS = 2,
    HEADS = 2,
    SLOTS = LAYERS * HEADS,
    CHUNK = 5,
};

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 2, 4};
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_answer_options free_too = {.generate = true, .max_tokens = FREE};
static const fb_answer_options forced = {.generate = false};

static const char *const expressions[] = {
    "random",
    "streaming_llm",
    "knorm",
    "tova",
    "snapkv:window=4",
    "h2o",
    "keydiff",
    "blend(h2o, observed_attention)",
    "morphkv:window=4",
    "rkv:window=4",
    "vase:window=4",
    "gkv:window=4",
    "a2sf",
    "keyformer",
    "lazyeviction",
    "blend(scissorhands, gkv:window=4)",
    "expected_attention",
    "cap",
    "blend(trig, expected_attention:stat_skip=9)",
};
enum { RULES = sizeof expressions / sizeof expressions[0] };

static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
static const fb_question open_question = {prompt, NULL, PROMPT, 0};
static rig r;
static fb_reading *reading;
static fb_bound_rule *rules[RULES];

static int open_all(void **state)
{
    (void)state;
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    prompt[0] = 2;
    answer_ids[0] = 9;
    rig_open(&r, "builtin", NULL, NULL);
    for (int i = 0; i < RULES; i++)
        assert_ok(fb_rule_parse(&rules[i], expressions[i]));
    return fb_read(&reading, r.engine, context, CONTEXT, NULL, 0, 1) == FB_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++)
        fb_bound_rule_free(rules[i]);
    fb_reading_free(reading);
    rig_close(&r);
    return 0;
}

static fb_variant *stream_by(const fb_bound_rule *rule, const fb_protect *protect,
                             int64_t k, int64_t chunk, int64_t interval)
{
    const fb_seeded_rule seeded = {rule, 1};
    fb_variant *variant;

    assert_ok(fb_stream_in(&variant, reading, &seeded, context, protect,
                           &(fb_pace){k, chunk, interval, true, false}));
    return variant;
}

static void answer(fb_variant *variant, const fb_question *asked,
                   const fb_answer_options *options, fb_answer *out)
{
    assert_ok(fb_answer_group(reading, &variant, 1, asked, options, out));
}

/* The first n ids of a free answer as the reference of the same question. */
static fb_question said(const fb_answer *answer)
{
    return (fb_question){prompt, answer->ids, PROMPT, answer->n_ids};
}

static void is_same_measure(const fb_answer *a, const fb_answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->nll, b->nll, (size_t)a->n * sizeof *a->nll);
    assert_memory_equal(a->kl, b->kl, (size_t)a->n * sizeof *a->kl);
    assert_memory_equal(a->top1, b->top1, (size_t)a->n * sizeof *a->top1);
}

static void is_same_text(const fb_answer *a, const fb_answer *b)
{
    assert_int_equal(a->n_ids, b->n_ids);
    assert_int_equal(a->stop, b->stop);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

static void a_budget_of_all_tokens_is_the_full_cache_to_the_bit(void **state)
{
    static const int64_t intervals[] = {1, 7, 64};
    fb_variant *full;
    fb_answer want;

    (void)state;
    assert_ok(fb_keep_all(&full, reading));
    answer(full, &question, &free_too, &want);
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < RULES; i++) {
            fb_variant *variant = stream_by(rules[i], &usual, CONTEXT + PROMPT + FREE,
                                            CHUNK, intervals[n]);
            fb_answer got;

            answer(variant, &question, &free_too, &got);
            is_same_measure(&got, &want);
            is_same_text(&got, &want);
            assert_int_equal(got.events, 0);
            assert_int_equal(got.tail_bytes, 0);
            assert_int_equal(got.held.kept.count[0], CONTEXT + PROMPT + ANSWER - 1);
            fb_answer_clear(&got);
            fb_variant_free(variant);
        }
    fb_answer_clear(&want);
    fb_variant_free(full);
}

/* Positions ascend, are of what was read, and the last read is there. */
static void check_held(const fb_answer *answer, int64_t k)
{
    const fb_kept *kept = &answer->held.kept;

    assert_int_equal(kept->n_slots, SLOTS);
    assert_int_equal(answer->n_read, CONTEXT + PROMPT + ANSWER - 1);
    for (int64_t s = 0; s < SLOTS; s++) {
        assert_true(kept->count[s] >= 1 && kept->count[s] <= k);
        for (int64_t j = 0; j < kept->count[s]; j++) {
            assert_in_range(kept->position[s][j], 0, answer->n_read - 1);
            if (j > 0) assert_true(kept->position[s][j] > kept->position[s][j - 1]);
        }
        assert_int_equal(kept->position[s][kept->count[s] - 1], answer->n_read - 1);
    }
}

static void holds_its_budget(const fb_bound_rule *rule, int64_t k, int64_t chunk,
                             int64_t interval)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    fb_variant *variant = stream_by(rule, &usual, k, chunk, interval);
    fb_answer got;

    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv) - before,
                     (size_t)(SLOTS * k) * 2 * 32 * sizeof(float));
    answer(variant, &question, &free_too, &got);
    check_held(&got, k);
    assert_true(got.events > 0);
    assert_int_equal(got.highest, k);
    assert_int_equal(got.held.budget_entries, SLOTS * k);
    fb_answer_clear(&got);
    fb_variant_free(variant);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
}

static void no_step_holds_more_than_the_budget(void **state)
{
    static const int64_t budgets[] = {30, 72, 90}, sizes[] = {1, 7, 64};

    (void)state;
    for (int b = 0; b < 3; b++)
        for (int c = 0; c < 3; c++)
            for (int n = 0; n < 3; n++)
                for (int i = 0; i < RULES; i++)
                    if (sizes[c] < budgets[b] && sizes[n] < budgets[b])
                        holds_its_budget(rules[i], budgets[b], sizes[c], sizes[n]);
}

/* A stream behind the context. */
static fb_stream *stream_behind(const fb_bound_rule *rule)
{
    const fb_stream like = {.view = {.engine = r.engine, .rule = rule, .seed = 1},
                            .protect = usual,
                            .k = 50,
                            .chunk = CHUNK,
                            .interval = 7,
                            .length = CONTEXT};
    fb_stream *stream;

    assert_ok(fb_stream_open(&stream, &like));
    assert_ok(fb_stream_read(stream, context, CONTEXT));
    return stream;
}

/* A block of 7 in pieces of t; what its last token becomes, [width]. */
static float *read_block(fb_stream *stream, const int32_t *ids, int64_t t)
{
    const size_t bytes = (size_t)fb_model_get_facts(r.model)->width * sizeof(float);
    float *out = fb_alloc(FB_ACCOUNT_other, bytes);

    assert_ok(fb_stream_begin(stream, 7));
    for (int64_t i = 0; i < 7; i += t) {
        fb_scope_open(r.ops);
        assert_ok(fb_stream_piece(stream, ids + i, t, true));
        assert_ok(
            fb_to_host(r.ops, fb_narrow(r.ops, stream->x, 0, t - 1, 1), out, bytes));
        fb_scope_close(r.ops);
    }
    return out;
}

static void a_block_gives_the_same_bits_in_one_piece_and_in_many(void **state)
{
    const size_t bytes = (size_t)fb_model_get_facts(r.model)->width * sizeof(float);

    (void)state;
    for (int i = 0; i < RULES; i++) {
        fb_stream *whole = stream_behind(rules[i]), *pieces;

        assert_ok(fb_stream_fork(&pieces, whole));
        for (int b = 0; b < 5; b++) {
            float *one = read_block(whole, answer_ids + (ptrdiff_t)7 * b, 7);
            float *many = read_block(pieces, answer_ids + (ptrdiff_t)7 * b, 1);

            assert_memory_equal(one, many, bytes);
            for (int64_t s = 0; s < SLOTS; s++)
                assert_memory_equal(whole->position[s], pieces->position[s],
                                    (size_t)whole->view.m * sizeof(int32_t));
            fb_free(one);
            fb_free(many);
        }
        assert_int_equal(pieces->events, whole->events);
        fb_stream_free(whole);
        fb_stream_free(pieces);
    }
}

/* A free answer is read token by token, a reference by the interval: the same words are
 * measured the same, and what greedy decoding says is the arg max at every place. */
static void a_free_answer_is_the_one_that_is_forced(void **state)
{
    static const int64_t intervals[] = {1, 7, 64};

    (void)state;
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < RULES; i++) {
            fb_variant *variant = stream_by(rules[i], &usual, 74, CHUNK, intervals[n]);
            fb_answer talk, again;
            fb_question same;

            answer(variant, &open_question, &free_too, &talk);
            assert_true(talk.n_ids > 20);
            same = said(&talk);
            answer(variant, &same, &free_too, &again);
            for (int64_t j = 0; j < talk.n_ids; j++)
                assert_int_equal(again.top1[j], talk.ids[j]);
            is_same_text(&talk, &again);
            assert_int_equal(again.highest, 74);
            if (talk.n_ids == FREE) assert_int_equal(talk.free_events, again.events);
            fb_answer_clear(&talk);
            fb_answer_clear(&again);
            fb_variant_free(variant);
        }
}

/* Where the reference and a free answer part, the free one has met the same evictions. */
static void a_free_answer_does_not_hang_on_the_reference(void **state)
{
    (void)state;
    for (int i = 0; i < RULES; i++) {
        fb_variant *variant = stream_by(rules[i], &usual, 74, CHUNK, 7);
        fb_answer alone, after;
        fb_question half;

        answer(variant, &open_question, &free_too, &alone);
        half = said(&alone);
        half.n_answer = 17; /* then 7 + 7 + 2 tokens are known, and the last is new */
        answer(variant, &half, &free_too, &after);
        is_same_text(&alone, &after);
        fb_answer_clear(&after);
        answer(variant, &question, &free_too, &after);
        is_same_text(&alone, &after);
        fb_answer_clear(&alone);
        fb_answer_clear(&after);
        fb_variant_free(variant);
    }
}

static void a_stream_is_the_same_alone_in_a_group_and_again(void **state)
{
    fb_variant *group[RULES];
    fb_answer together[RULES], alone;

    (void)state;
    for (int i = 0; i < RULES; i++)
        group[i] = stream_by(rules[i], &usual, 50, CHUNK, 7);
    assert_ok(fb_answer_group(reading, group, RULES, &question, &free_too, together));
    for (int i = 0; i < RULES; i++) {
        answer(group[i], &question, &free_too, &alone);
        assert_true(fb_answer_is_same(&alone, &together[i]));
        assert_int_equal(alone.events, together[i].events);
        /* one kernel for all rules */
        assert_string_equal(alone.trace_answer, together[0].trace_answer);
        assert_string_equal(alone.trace_decode, together[0].trace_decode);
        fb_answer_clear(&alone);
        fb_variant_free(group[i]);
    }
    for (int i = 0; i < RULES; i++)
        fb_answer_clear(&together[i]);
}

/* Room for 10 before tokens 0, 10, 20, 30 of an answer of 40, of which the last is not
 * read; nothing is evicted where they fit. */
static void evictions_come_before_every_interval_that_would_not_fit(void **state)
{
    fb_variant *variant = stream_by(rules[2], &none, 72, CONTEXT, 10);
    const fb_kept *kept;
    fb_answer got;

    (void)state;
    answer(variant, &question, &forced, &got);
    assert_int_equal(got.events, 4); /* 67 + 10, then 72 + 10, 72 + 10, 72 + 9 */
    assert_int_equal(got.highest, 72);
    kept = &got.held.kept;
    for (int64_t s = 0; s < SLOTS; s++) {
        assert_int_equal(kept->count[s], 72);
        /* the last block of the answer came after the last eviction */
        for (int64_t j = 0; j < 9; j++)
            assert_int_equal(kept->position[s][63 + j], got.n_read - 9 + j);
    }
    fb_answer_clear(&got);
    fb_variant_free(variant);
    variant = stream_by(rules[2], &none, 100, CONTEXT, 10);
    answer(variant, &question, &forced, &got);
    assert_int_equal(got.events, 1); /* 67, 77, 87, 97, then 97 + 9 would be too many */
    assert_int_equal(got.held.kept.count[0], 100);
    fb_answer_clear(&got);
    fb_variant_free(variant);
}

/* Attention sinks and the newest: known on paper at every step. */
static void recency_leaves_sinks_and_the_newest(void **state)
{
    fb_variant *variant = stream_by(rules[1], &usual, 20, CHUNK, 1);
    fb_answer got;

    (void)state;
    answer(variant, &question, &forced, &got);
    for (int64_t s = 0; s < SLOTS; s++)
        for (int64_t j = 0; j < 20; j++)
            assert_int_equal(got.held.kept.position[s][j],
                             j < 2 ? j : got.n_read - 20 + j);
    fb_answer_clear(&got);
    fb_variant_free(variant);
}

/* Queries, sums and states reach into the answer: the one eviction there, before which
 * nothing has left, chooses what one pass over all the text chooses. */
static void an_eviction_in_an_answer_sees_what_one_pass_sees(void **state)
{
    enum { READ = CONTEXT + PROMPT + 20, LEFT = 70 };
    fb_seeded_rule seeded[RULES];
    int32_t all[READ];
    fb_reading *once;

    (void)state;
    memcpy(all, context, sizeof context);
    memcpy(all + CONTEXT, prompt, sizeof prompt);
    memcpy(all + CONTEXT + PROMPT, answer_ids, 20 * sizeof *all);
    for (int i = 0; i < RULES; i++)
        seeded[i] = (fb_seeded_rule){rules[i], 1};
    assert_ok(fb_read(&once, r.engine, all, READ, seeded, RULES, 1));
    for (int i = 0; i < RULES; i++) {
        /* before tokens 20 to 38 */
        fb_variant *variant = stream_by(rules[i], &none, LEFT + 19, CHUNK, 20), *other;
        fb_answer got;

        assert_ok(fb_evict(&other, once, i, &none, 0, LEFT));
        answer(variant, &question, &forced, &got);
        assert_int_equal(got.events, 1);
        for (int64_t s = 0; s < SLOTS; s++)
            assert_memory_equal(got.held.kept.position[s],
                                fb_variant_selection(other)->kept.position[s],
                                LEFT * sizeof(int32_t));
        fb_answer_clear(&got);
        fb_variant_free(variant);
        fb_variant_free(other);
    }
    fb_reading_free(once);
}

/* What two passes repeat is paid once: a free answer that a reference foretold costs no more
 * than the reference. */
static void what_is_repeated_is_charged_to_nobody(void **state)
{
    fb_variant *variant = stream_by(rules[5], &usual, 74, CHUNK, 7);
    fb_answer talk, measured, both;
    fb_question same;

    (void)state;
    answer(variant, &open_question, &free_too, &talk);
    same = said(&talk);
    answer(variant, &same, &forced, &measured);
    answer(variant, &same, &free_too, &both);
    assert_int_equal(both.n_ids, same.n_answer);
    if (talk.stop == FB_STOP_length)
        assert_true(fb_ledger_equal(&measured.ledger, &both.ledger));
    fb_answer_clear(&talk);
    fb_answer_clear(&measured);
    fb_answer_clear(&both);
    fb_variant_free(variant);
}

static void a_block_that_does_not_fit_says_so(void **state)
{
    fb_variant *variant = stream_by(rules[2], &none, 20, CHUNK, 30);
    fb_answer got;

    (void)state;
    assert_fails(fb_answer_group(reading, &variant, 1, &question, &forced, &got),
                 FB_BUDGET,
                 "30 tokens at a time do not fit a budget of 20 entries a head");
    fb_ops_reset(r.ops);
    fb_variant_free(variant);
}

/* A whole cell; the n-th allocation fails. */
static fb_status try_cell(const fb_bound_rule *rule, int64_t n)
{
    const fb_seeded_rule seeded = {rule, 1};
    fb_variant *variant = NULL;
    fb_answer got;
    fb_status status;

    fb_memory_fail_at(n);
    status = fb_stream_in(&variant, reading, &seeded, context, &usual,
                          &(fb_pace){40, CHUNK, 7, true, false});
    if (status == FB_OK) {
        status = fb_answer_group(reading, &variant, 1, &question, &free_too, &got);
        if (status == FB_OK) fb_answer_clear(&got);
    }
    fb_memory_fail_at(0);
    fb_variant_free(variant);
    if (status != FB_OK) fb_ops_reset(r.ops);
    return status;
}

static void a_failing_allocation_is_said_and_leaks_nothing(void **state)
{
    static const int chosen[] = {7, RULES - 1};

    (void)state;
    for (int i = 0; i < 2; i++) {
        fb_status status = FB_NO_MEMORY;
        int64_t tried = 0;
        size_t before;

        assert_ok(try_cell(rules[chosen[i]], 0)); /* warms up */
        before = bytes_in_use();
        for (int64_t n = 1; status != FB_OK; n += long_or_short(1, 1 + n / 12)) {
            status = try_cell(rules[chosen[i]], n);
            if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
            assert_int_equal(bytes_in_use(), before);
            tried++;
        }
        assert_true(tried > 30);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_of_all_tokens_is_the_full_cache_to_the_bit),
        cmocka_unit_test(no_step_holds_more_than_the_budget),
        cmocka_unit_test(a_block_gives_the_same_bits_in_one_piece_and_in_many),
        cmocka_unit_test(a_free_answer_is_the_one_that_is_forced),
        cmocka_unit_test(a_free_answer_does_not_hang_on_the_reference),
        cmocka_unit_test(a_stream_is_the_same_alone_in_a_group_and_again),
        cmocka_unit_test(evictions_come_before_every_interval_that_would_not_fit),
        cmocka_unit_test(recency_leaves_sinks_and_the_newest),
        cmocka_unit_test(an_eviction_in_an_answer_sees_what_one_pass_sees),
        cmocka_unit_test(what_is_repeated_is_charged_to_nobody),
        cmocka_unit_test(a_block_that_does_not_fit_says_so),
        cmocka_unit_test(a_failing_allocation_is_said_and_leaks_nothing),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
