/* test_cases_protocol.c - user cases about how a text comes in and where entries stand, by id.
 *
 * D05: positions are renumbered in every family and type of cache. J06: chunks of any size give
 * the bytes of the full cache where nothing leaves; rules that say so keep the same entries
 * under them. And what a rule holds beside the entries is within the budget at every step.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/stream.h"
#include "engine/variant.h"
#include "tests/support/reference.h"
#include "tests/support/rig.h"

#include <math.h>

enum { N = 150, PROMPT = 5, ANSWER = 9, LAYERS = 2, HEADS = 2, SLOTS = LAYERS * HEADS };

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static const fb_answer_options free_too = {.generate = true, .max_tokens = 12};
static int32_t context[N], prompt[PROMPT], words[ANSWER];
static const fb_question question = {prompt, words, PROMPT, ANSWER};
static rig r;
static fb_reading *reading;

static int open_all(void **state)
{
    (void)state;
    rig_text(context, N, 31);
    rig_text(prompt, PROMPT, 32);
    rig_text(words, ANSWER, 33);
    prompt[0] = 2;
    words[0] = 7;
    rig_open(&r, "builtin", NULL, NULL);
    return fb_read(&reading, r.engine, context, N, NULL, 0, 1) == FB_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    fb_reading_free(reading);
    rig_close(&r);
    return 0;
}

static fb_bound_rule *parse(const char *text)
{
    fb_bound_rule *out;

    assert_ok(fb_rule_parse(&out, text));
    return out;
}

static fb_variant *stream_by(const fb_bound_rule *rule, const fb_pace *pace)
{
    const fb_seeded_rule seeded = {rule, 1};
    fb_variant *out;

    assert_ok(fb_stream_in(&out, reading, &seeded, context, &usual, pace));
    return out;
}

/* --- D05 --- */

static void check_renumbered(const char *model, fb_dtype type)
{
    enum { SHORT = 14, K = 8 }; /* mistral has a window of 20 */
    const fb_engine_options options = {.cache = type, .compact = true};
    const fb_answer_options forced = {.generate = false};
    fb_bound_rule *rule = parse("knorm");
    const fb_seeded_rule seeded = {rule, 1};
    int32_t ids[SHORT + 4];
    const fb_question asked = {ids + SHORT, ids + SHORT + 2, 2, 2};
    fb_reading *its;
    fb_variant *variant;
    fb_answer got;
    rig own;

    for (int32_t i = 0; i < SHORT + 4; i++)
        ids[i] = 3 + 7 * i % 23;
    rig_open(&own, model, NULL, &options);
    assert_ok(fb_read(&its, own.engine, ids, SHORT, NULL, 0, 0));
    assert_ok(fb_stream_in(&variant, its, &seeded, ids, &(fb_protect){0},
                           &(fb_pace){.k = K, .chunk = 3}));
    assert_int_equal(variant->next, K);
    assert_int_equal(variant->next_in_windows, SHORT);
    assert_ok(fb_answer_group(its, &variant, 1, &asked, &forced, &got));
    assert_true(isfinite(got.nll[0]) && isfinite(got.kl[1]) && got.kl[0] > 0);
    fb_answer_clear(&got);
    fb_variant_free(variant);
    fb_reading_free(its);
    rig_close(&own);
    fb_bound_rule_free(rule);
}

/* None of the families that can be opened, stretched or partial rotations, layers with a window
 * among them, and no type of cache is without it: there is nothing to refuse. */
static void D05_positions_are_renumbered_whatever_model_and_cache(void **state)
{
    static const char *const models[] = {
        "llama_untied", "llama_rope_llama3", "mistral",    "phi3", "qwen2", "qwen3",
        "gemma3",       "gemma3_sliding",    "qwen3_mixed"};
    static const fb_dtype types[] = {FB_F32, FB_F16, FB_BF16};

    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int t = 0; t < 3; t++) {
            char path[128];

            (void)snprintf(path, sizeof path, "tests/golden/families/%s", models[m]);
            check_renumbered(path, types[t]);
        }
}

/* --- J06 --- */

static void has_bytes_of_the_full_cache(const fb_variant *variant)
{
    const fb_cache *full = fb_reading_cache(reading);
    const size_t n = (size_t)(HEADS * N * 32) * sizeof(float);

    assert_int_equal(fb_cache_total(variant->arena), SLOTS * N);
    for (int64_t layer = 0; layer < LAYERS; layer++)
        for (int v = 0; v < 2; v++) {
            fb_tensor (*const get)(const fb_cache *, fb_ops *, int64_t) =
                v == 0 ? fb_cache_keys : fb_cache_values;
            float *want, *got;

            fb_scope_open(r.ops);
            want = reference_floats(r.ops, get(full, r.ops, layer));
            got = reference_floats(r.ops, get(variant->arena, r.ops, layer));
            assert_memory_equal(got, want, n);
            fb_free(want);
            fb_free(got);
            fb_scope_close(r.ops);
        }
}

static void is_same_answer(const fb_answer *a, const fb_answer *b)
{
    assert_memory_equal(a->nll, b->nll, ANSWER * sizeof *a->nll);
    assert_memory_equal(a->kl, b->kl, ANSWER * sizeof *a->kl);
    assert_memory_equal(a->top1, b->top1, ANSWER * sizeof *a->top1);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_int_equal(a->stop, b->stop);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
}

static void check_all_fits(const char *expression, const fb_answer *want)
{
    static const int64_t chunks[] = {1, 7, 64, N}, intervals[] = {0, 1, 16};
    fb_bound_rule *rule = parse(expression);
    fb_variant *variant;
    fb_answer got;

    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 3; i++) {
            variant = stream_by(rule, &(fb_pace){N + PROMPT + 12, chunks[c],
                                                 intervals[i], false, c % 2 == 0});
            has_bytes_of_the_full_cache(variant);
            assert_ok(
                fb_answer_group(reading, &variant, 1, &question, &free_too, &got));
            is_same_answer(&got, want);
            fb_answer_clear(&got);
            fb_variant_free(variant);
        }
    fb_bound_rule_free(rule);
}

static void J06_what_fits_has_the_bytes_of_the_full_cache_in_any_chunks(void **state)
{
    static const char *const expressions[] = {"full", "knorm", "h2o",
                                              "expected_attention", "rkv:window=4"};
    fb_variant *full;
    fb_answer want;

    (void)state;
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &free_too, &want));
    for (int i = 0; i < 5; i++)
        check_all_fits(expressions[i], &want);
    fb_answer_clear(&want);
    fb_variant_free(full);
}

/* Whether chunks of 1, 7 and 64 leave the same entries. */
static bool ignores_chunks(const fb_bound_rule *rule)
{
    static const int64_t chunks[] = {1, 7, 64};
    fb_variant *of[3];
    bool same = true;

    for (int c = 0; c < 3; c++) {
        of[c] = stream_by(rule, &(fb_pace){.k = 90, .chunk = chunks[c]});
        for (int s = 0; s < SLOTS; s++)
            same = same &&
                   fb_variant_selection(of[c])->kept.count[s] ==
                       fb_variant_selection(of[0])->kept.count[s] &&
                   memcmp(fb_variant_selection(of[c])->kept.position[s],
                          fb_variant_selection(of[0])->kept.position[s],
                          90 * sizeof(int32_t)) == 0;
    }
    for (int c = 0; c < 3; c++)
        fb_variant_free(of[c]);
    return same;
}

static void J06_rules_that_ignore_chunks_keep_the_same_entries(void **state)
{
    static const char *const inner[] = {"recency", "streaming_llm"};
    int n = 0, others = 0;

    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        const fb_rule *rule = fb_rule_at(i);
        fb_bound_rule *bound;
        char text[128];
        int at = snprintf(text, sizeof text, "%s", rule->name);

        for (int j = 0; j < rule->n_inner; j++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%c%s%s",
                           j == 0 ? '(' : ',', inner[j],
                           j + 1 == rule->n_inner ? ")" : "");
        if (fb_rule_parse(&bound, text) != FB_OK) continue;
        if (fb_bound_rule_ignores_chunks(bound)) {
            assert_true(ignores_chunks(bound));
            n++;
        } else if (fb_bound_rule_streams(bound) && fb_bound_rule_scores(bound)) {
            others += !ignores_chunks(bound);
        }
        fb_bound_rule_free(bound);
    }
    assert_true(n >= 5);
    assert_true(others > 20);
}

/* --- all that is held --- */

static size_t held_now(void)
{
    return fb_memory_now(FB_ACCOUNT_kv) + fb_memory_now(FB_ACCOUNT_signals) +
           fb_memory_now(FB_ACCOUNT_rule_state);
}

static size_t bytes_of(const fb_tensor *list)
{
    size_t bytes = 0;

    for (int l = 0; l < LAYERS; l++) {
        size_t n = list[l].id == 0 ? 0 : sizeof(float);

        for (int d = 0; list[l].id != 0 && d < fb_n_dims(r.ops, list[l]); d++)
            n *= (size_t)fb_size(r.ops, list[l], d);
        bytes += n;
    }
    return bytes;
}

/* Arena, state, statistics, queries and scores that are kept: as the allocator counts them
 * and as they are declared, after every eviction and every block. */
static void check_held(const fb_stream *s, size_t before, size_t budget)
{
    const size_t beside = bytes_of(s->queries) + bytes_of(s->state) +
                          bytes_of(s->learnt) + bytes_of(s->kept_scores);

    assert_int_equal(held_now() - before, fb_cache_bytes(s->cache) + beside);
    assert_true(fb_cache_bytes(s->cache) + beside <= budget);
}

static void check_every_step(const char *expression, bool keeps_scores)
{
    enum { K = 80, CHUNK = 5, ENTRY = 2 * 32 * 4 };
    const fb_model_facts *facts = fb_model_get_facts(r.model);
    fb_bound_rule *rule = parse(expression);
    const fb_stream like = {
        .view = {.engine = r.engine, .rule = rule, .seed = 1, .stream = 1},
        .protect = usual,
        .k = fb_stream_entries(facts, FB_F32, rule, K, keeps_scores),
        .chunk = CHUNK,
        .keeps_scores = keeps_scores,
        .length = N};
    const size_t before = held_now();
    fb_stream *s;

    assert_in_range(like.k, 4 * CHUNK, K - 1);
    assert_ok(fb_stream_open(&s, &like));
    for (int64_t i = 0; i < N; i += CHUNK) {
        const int64_t t = N - i < CHUNK ? N - i : CHUNK;

        assert_ok(fb_stream_begin(s, t));
        check_held(s, before, (size_t)(SLOTS * K * ENTRY));
        fb_scope_open(r.ops);
        assert_ok(fb_stream_piece(s, context + i, t, false));
        fb_scope_close(r.ops);
        check_held(s, before, (size_t)(SLOTS * K * ENTRY));
    }
    assert_true(s->events > 3);
    fb_stream_free(s);
    assert_int_equal(held_now(), before);
    fb_bound_rule_free(rule);
}

static void all_that_a_rule_holds_is_within_its_bytes_at_every_step(void **state)
{
    static const char *const expressions[] = {"rkv:window=4",
                                              "expected_attention:covariance=0",
                                              "h2o",
                                              "gkv:window=4",
                                              "trig",
                                              "cap",
                                              "blend(h2o,rkv:window=4)"};

    (void)state;
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        for (int keeps = 0; keeps < 2; keeps++)
            check_every_step(expressions[i], keeps != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(D05_positions_are_renumbered_whatever_model_and_cache),
        cmocka_unit_test(J06_what_fits_has_the_bytes_of_the_full_cache_in_any_chunks),
        cmocka_unit_test(J06_rules_that_ignore_chunks_keep_the_same_entries),
        cmocka_unit_test(all_that_a_rule_holds_is_within_its_bytes_at_every_step),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
