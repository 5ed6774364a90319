/* test_cases_sliding.c - E02, E05: a model with heads of a size of their own, five of six
 * layers with a window.
 *
 * A Gemma 3 with random weights. What it computes is compared with transformers elsewhere
 * (tests/golden, tests/real); here: what is held, what is evicted from, and that reading,
 * evicting and answering give what a plain pass gives.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "tests/support/make_vocabulary.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>

enum {
    LAYERS = 6,
    WIDTH = 40,
    HEADS = 2,
    HEAD = 32, /* more than width by heads */
    FFN = 48,
    VOCABULARY = 256,
    WINDOW = 512,
    CONTEXT = 1200,
    ANSWER = 5,
    KEPT = 120
};

static make_gguf file;
static char folder[TEST_PATH], path[2 * TEST_PATH];
static int32_t ids[CONTEXT + ANSWER];
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};

static void number(const char *key, int64_t value)
{
    char full[96];

    (void)snprintf(full, sizeof full, "gemma3.%s", key);
    make_u32(&file, full, (uint32_t)value);
}

static void layer_tensors(int layer)
{
    static const struct {
        const char *name;
        int columns, rows;
    } all[] = {
        {"attn_norm", WIDTH, 0},
        {"attn_q", WIDTH, HEADS * HEAD},
        {"attn_k", WIDTH, HEAD},
        {"attn_v", WIDTH, HEAD},
        {"attn_q_norm", HEAD, 0},
        {"attn_k_norm", HEAD, 0},
        {"post_attention_norm", WIDTH, 0},
        {"attn_output", HEADS * HEAD, WIDTH},
        {"ffn_norm", WIDTH, 0},
        {"ffn_gate", WIDTH, FFN},
        {"ffn_up", WIDTH, FFN},
        {"ffn_down", FFN, WIDTH},
        {"post_ffw_norm", WIDTH, 0},
    };
    char name[64];

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        (void)snprintf(name, sizeof name, "blk.%d.%s.weight", layer, all[i].name);
        make_f32_tensor(&file, name, (uint64_t)all[i].columns, (uint64_t)all[i].rows);
    }
}

/* Numbers between -1/2 and 1/2. */
static void fill(uint8_t *to, size_t n)
{
    uint64_t seed = 7;

    for (size_t i = 0; i + 4 <= n; i += 4) {
        float value;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        value = (float)(seed >> 40) / (float)(1 << 24) - 0.5f;
        memcpy(to + i, &value, 4);
    }
}

static void write_model(void)
{
    static make_vocabulary vocabulary;
    size_t begin;

    make_begin(&file);
    make_text(&file, "general.architecture", "gemma3");
    number("block_count", LAYERS);
    number("context_length", 2048);
    number("embedding_length", WIDTH);
    number("feed_forward_length", FFN);
    number("attention.head_count", HEADS);
    number("attention.head_count_kv", 1);
    number("attention.key_length", HEAD);
    number("attention.value_length", HEAD);
    number("attention.sliding_window", WINDOW);
    number("attention.sliding_window_pattern", 6); /* what a Gemma 3 has anyway */
    make_f32(&file, "gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
    make_f32(&file, "gemma3.rope.freq_base", 1e6f);
    vocabulary_begin(&vocabulary);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    make_f32_tensor(&file, "token_embd.weight", WIDTH, VOCABULARY);
    make_f32_tensor(&file, "output_norm.weight", WIDTH, 0);
    for (int i = 0; i < LAYERS; i++)
        layer_tensors(i);
    begin = make_data(&file);
    fill(file.bytes + begin, file.n - begin);
    assert_ok(fb_file_write(path, file.bytes, file.n));
}

static void E02_heads_have_a_size_of_their_own(void **state)
{
    const fb_model_facts *f;
    rig r;

    (void)state;
    rig_open(&r, path, NULL, NULL);
    f = fb_model_get_facts(r.model);
    assert_int_equal(f->head_dim, HEAD);
    assert_int_equal(f->width, WIDTH);
    assert_true(fabs(f->attention_scale * f->attention_scale * HEAD - 1) < 1e-12);
    assert_true(fabs(f->embedding_scale * f->embedding_scale - WIDTH) < 1e-9);
    rig_close(&r);
}

static void E05_global_layers_hold_all_and_sliding_ones_their_window(void **state)
{
    const size_t entry = 2 * HEAD * sizeof(float);
    const fb_model_facts *f;
    fb_reading *reading;
    rig r;

    (void)state;
    rig_open(&r, path, NULL, NULL);
    f = fb_model_get_facts(r.model);
    for (int64_t i = 0; i < LAYERS; i++) {
        assert_int_equal(f->layer[i].slides, i != LAYERS - 1);
        assert_int_equal(f->layer[i].window, i == LAYERS - 1 ? 0 : WINDOW);
        assert_int_equal(f->layer[i].rope,
                         i == LAYERS - 1 ? FB_ROPE_GLOBAL : FB_ROPE_LOCAL);
    }
    assert_true(f->rope[FB_ROPE_LOCAL].theta == 10000);
    assert_true(f->rope[FB_ROPE_GLOBAL].theta == 1e6);
    assert_ok(fb_read(&reading, r.engine, ids, CONTEXT, NULL, 0, 0));
    assert_int_equal(fb_cache_bytes(fb_reading_cache(reading)), CONTEXT * entry);
    assert_int_equal(fb_window_bytes(f, FB_F32, CONTEXT),
                     (LAYERS - 1) * WINDOW * entry);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv),
                     (CONTEXT + (LAYERS - 1) * WINDOW) * entry);
    fb_reading_free(reading);
    rig_close(&r);
}

static void E05_rules_evict_from_the_global_layers_alone(void **state)
{
    const size_t entry = 2 * HEAD * sizeof(float);
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_variant *variant;
    fb_reading *reading;
    rig r;

    (void)state;
    rig_open(&r, path, NULL, NULL);
    assert_ok(fb_rule_parse(&bound, "observed_attention"));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, ids, CONTEXT, &rule, 1, 0));
    assert_ok(fb_evict(&variant, reading, 0, &none, 0, KEPT));
    assert_int_equal(fb_variant_selection(variant)->kept.n_slots, 1);
    assert_int_equal(fb_variant_bytes(variant), KEPT * entry);
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

/* log softmax of a row at `id`, in double. */
static double nll_of(const float *row, int32_t id)
{
    double most = (double)row[0], sum = 0;

    for (int i = 1; i < VOCABULARY; i++)
        most = fmax(most, (double)row[i]);
    for (int i = 0; i < VOCABULARY; i++)
        sum += exp((double)row[i] - most);
    return most + log(sum) - (double)row[id];
}

/* Windows that were cut out and go on in a tail, against a pass over everything. */
static void E05_answers_from_windows_are_those_of_a_plain_pass(void **state)
{
    enum { N = CONTEXT + ANSWER };
    static float logits[N * VOCABULARY], chunked[N * VOCABULARY];
    const fb_question question = {ids + CONTEXT, ids + CONTEXT + 1, 1, ANSWER - 1};
    const fb_answer_options options = {.generate = false};
    const fb_engine_options small = {.chunk = 7};
    fb_engine *engine;
    fb_reading *reading;
    fb_variant *full;
    fb_answer answer;
    int64_t row[N];
    rig r;

    (void)state;
    for (int64_t i = 0; i < N; i++)
        row[i] = i;
    rig_open(&r, path, NULL, NULL);
    assert_ok(fb_logits(r.engine, ids, N, row, N, logits));
    assert_ok(fb_engine_open(&engine, r.ops, r.model, &small));
    assert_ok(fb_logits(engine, ids, N, row, N, chunked));
    assert_memory_equal(logits, chunked, sizeof logits);
    fb_engine_close(engine);
    assert_ok(fb_read(&reading, r.engine, ids, CONTEXT, NULL, 0, 0));
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    for (int i = 0; i < ANSWER - 1; i++)
        assert_true(fabs(answer.nll[i] - nll_of(logits + (CONTEXT + i) * VOCABULARY,
                                                ids[CONTEXT + i + 1])) < 1e-9);
    fb_answer_clear(&answer);
    fb_variant_free(full);
    fb_reading_free(reading);
    rig_close(&r);
}

/* The windows go on from chunk to chunk and from word to word; nothing evicts from them. */
static void E05_a_stream_keeps_its_windows_beside_the_budget(void **state)
{
    enum { FREE = 20, ALL = CONTEXT + 1 + FREE };
    const fb_question question = {ids + CONTEXT, ids + CONTEXT + 1, 1, ANSWER - 1};
    const fb_answer_options options = {.generate = true, .max_tokens = FREE};
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *full, *stream;
    fb_answer want, got;
    rig r;

    (void)state;
    rig_open(&r, path, NULL, NULL);
    assert_ok(fb_rule_parse(&bound, "tova"));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, ids, CONTEXT, NULL, 0, 0));
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &want));
    for (int64_t interval = 0; interval < 6; interval += 3) {
        assert_ok(fb_stream_in(&stream, reading, &rule, ids, &none,
                               &(fb_pace){ALL, 100, interval, true, false}));
        assert_ok(fb_answer_group(reading, &stream, 1, &question, &options, &got));
        assert_memory_equal(got.nll, want.nll, (ANSWER - 1) * sizeof *got.nll);
        assert_int_equal(got.n_ids, want.n_ids);
        assert_memory_equal(got.ids, want.ids, (size_t)got.n_ids * sizeof *got.ids);
        fb_answer_clear(&got);
        fb_variant_free(stream);
    }
    assert_ok(fb_stream_in(&stream, reading, &rule, ids, &none,
                           &(fb_pace){KEPT, 100, 3, true, false}));
    assert_ok(fb_answer_group(reading, &stream, 1, &question, &options, &got));
    assert_int_equal(got.held.kept.n_slots, 1);
    assert_int_equal(got.highest, KEPT);
    fb_answer_clear(&got);
    fb_answer_clear(&want);
    fb_variant_free(stream);
    fb_variant_free(full);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

static int make_all(void **state)
{
    (void)state;
    test_folder(folder);
    (void)snprintf(path, sizeof path, "%s", test_path(folder, "gemma.gguf"));
    write_model();
    for (int i = 0; i < CONTEXT + ANSWER; i++)
        ids[i] = (int32_t)((uint64_t)i * 2654435761u >> 7) & (VOCABULARY - 1);
    return 0;
}

static int remove_all(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E02_heads_have_a_size_of_their_own),
        cmocka_unit_test(E05_global_layers_hold_all_and_sliding_ones_their_window),
        cmocka_unit_test(E05_rules_evict_from_the_global_layers_alone),
        cmocka_unit_test(E05_answers_from_windows_are_those_of_a_plain_pass),
        cmocka_unit_test(E05_a_stream_keeps_its_windows_beside_the_budget),
    };

    return cmocka_run_group_tests(tests, make_all, remove_all);
}
