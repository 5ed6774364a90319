/* test_cases_memory.c - user cases about memory that is really saved, by id.
 *
 * C01: what the allocator has counted falls to the budget, for rules that share it evenly
 * and for such that do not. C04: logits of a large vocabulary.
 *
 * SPDX-License-Identifier: MIT
 */
#define MAKE_ROOM (48 << 20)

#include "base/memory.h"
#include "tests/support/make_vocabulary.h"
#include "tests/support/rig.h"

#include <math.h>

enum {
    CONTEXT = 1000,
    KEPT = CONTEXT / 4,
    SLOTS = 2 * 2,
    ENTRY = 2 * 32 * 4,
    PROMPT = 4,
    MOST_WORDS = 400,
    FREE = 12,
};

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static char folder[TEST_PATH];
static int32_t context[CONTEXT], prompt[PROMPT], words[MOST_WORDS];

static int open_all(void **state)
{
    (void)state;
    test_folder(folder);
    rig_text(context, CONTEXT, 3);
    rig_text(prompt, PROMPT, 4);
    rig_text(words, MOST_WORDS, 5);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* --- C01 --- */

static size_t kv_now(void)
{
    return fb_memory_now(FB_ACCOUNT_kv);
}

/* Keys and values that are there while a variant answers, without the tail. */
static size_t answer_alone(fb_reading *reading, fb_variant *variant,
                           const fb_question *question)
{
    const fb_answer_options options = {.generate = true, .max_tokens = FREE};
    fb_answer answer;
    size_t peak;

    fb_memory_reset_peaks();
    assert_ok(fb_answer_group(reading, &variant, 1, question, &options, &answer));
    peak = fb_memory_peak(FB_ACCOUNT_kv) - answer.tail_bytes;
    assert_true(answer.tail_bytes > 0 && answer.n_ids > 0);
    fb_answer_clear(&answer);
    return peak;
}

static void keeps_a_quarter(rig *r, const char *expression, bool is_even)
{
    const fb_question question = {prompt, words, PROMPT, 6};
    const size_t before = kv_now();
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *variant;
    size_t full;
    bool is_equal = true;

    assert_ok(fb_rule_parse(&bound, expression));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r->engine, context, CONTEXT, &rule, 1, 0));
    full = kv_now() - before;
    assert_int_equal(full, (size_t)SLOTS * CONTEXT * ENTRY);
    assert_ok(fb_evict(&variant, reading, 0, &usual, 0, KEPT));
    assert_ok(fb_meet(reading, &question));
    assert_int_equal(kv_now() - before, full + full / 4);
    assert_ok(fb_reading_let_go(reading));
    assert_null(fb_reading_cache(reading));
    assert_int_equal(kv_now() - before, full / 4); /* measured, and what was declared */
    assert_int_equal(kv_now() - before, fb_variant_bytes(variant));
    assert_int_equal(answer_alone(reading, variant, &question) - before, full / 4);
    for (int64_t s = 0; s < SLOTS; s++)
        is_equal &= fb_variant_selection(variant)->kept.count[s] == KEPT;
    assert_int_equal(is_equal, is_even);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_rule_state), 0);
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    assert_int_equal(kv_now(), before);
}

static void C01_a_quarter_of_the_entries_is_a_quarter_of_the_bytes(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, "builtin", NULL, NULL);
    keeps_a_quarter(&r, "snapkv:window=16", true);
    keeps_a_quarter(&r, "h2o", true);
    keeps_a_quarter(&r, "adakv(snapkv:window=16)", false);
    keeps_a_quarter(&r, "flat(snapkv:window=16)", false);
    keeps_a_quarter(&r, "pyramid(adakv(snapkv:window=16))", false);
    rig_close(&r);
}

/* The same bits as with the full cache still there. */
static void C01_what_was_given_back_is_not_missed(void **state)
{
    const fb_question question = {prompt, words, PROMPT, 6};
    const fb_answer_options options = {.generate = true, .max_tokens = FREE};
    fb_seeded_rule rule = {.seed = 1};
    fb_bound_rule *bound;
    fb_reading *reading;
    fb_variant *variant;
    fb_answer before, after;
    rig r;

    (void)state;
    rig_open(&r, "builtin", NULL, NULL);
    assert_ok(fb_rule_parse(&bound, "adakv(snapkv:window=16)"));
    rule.rule = bound;
    assert_ok(fb_read(&reading, r.engine, context, CONTEXT, &rule, 1, 0));
    assert_ok(fb_evict(&variant, reading, 0, &usual, 0, KEPT));
    assert_true(fb_variant_is_alone(variant));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &before));
    assert_ok(fb_reading_let_go(reading));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &after));
    assert_true(fb_answer_is_same(&before, &after));
    fb_answer_clear(&before);
    fb_answer_clear(&after);
    assert_fails(fb_answer_group(reading, &variant, 1,
                                 &(fb_question){words, prompt, 5, 2}, &options, &after),
                 FB_DEFECT, "let go");
    fb_variant_free(variant);
    fb_reading_free(reading);
    fb_bound_rule_free(bound);
    rig_close(&r);
}

/* --- C04 --- */

enum { VOCABULARY = 262144, ROW = VOCABULARY * 4, F16 = 1, FEW_ROWS = 32 };

/* The bytes, and words behind them. */
static void put_vocabulary(make_gguf *m)
{
    static make_vocabulary bytes;
    static const char *texts[VOCABULARY];
    static char text[VOCABULARY][8];
    static int32_t kinds[VOCABULARY];

    vocabulary_begin(&bytes);
    for (int i = 0; i < VOCABULARY; i++) {
        (void)snprintf(text[i], sizeof text[i], "w%d", i);
        texts[i] = i < bytes.n ? bytes.token[i] : text[i];
        kinds[i] = 1;
    }
    make_text(m, "tokenizer.ggml.model", "gpt2");
    make_text(m, "tokenizer.ggml.pre", "gpt-2");
    make_texts(m, "tokenizer.ggml.tokens", texts, VOCABULARY);
    make_ints(m, "tokenizer.ggml.token_type", kinds, VOCABULARY);
    make_texts(m, "tokenizer.ggml.merges", texts, 0);
}

/* A Llama of one layer, 32 wide, with tied weights; all of them 0. */
static void write_model(const char *path)
{
    static const struct {
        const char *name;
        uint64_t rows;
    } tensors[] = {
        {"output_norm.weight", 0},    {"blk.0.attn_norm.weight", 0},
        {"blk.0.attn_q.weight", 32},  {"blk.0.attn_k.weight", 16},
        {"blk.0.attn_v.weight", 16},  {"blk.0.attn_output.weight", 32},
        {"blk.0.ffn_norm.weight", 0}, {"blk.0.ffn_gate.weight", 32},
        {"blk.0.ffn_up.weight", 32},  {"blk.0.ffn_down.weight", 32},
    };
    static make_gguf file;

    make_begin(&file);
    make_text(&file, "general.architecture", "llama");
    make_u32(&file, "llama.block_count", 1);
    make_u32(&file, "llama.context_length", 8192);
    make_u32(&file, "llama.embedding_length", 32);
    make_u32(&file, "llama.feed_forward_length", 32);
    make_u32(&file, "llama.attention.head_count", 2);
    make_u32(&file, "llama.attention.head_count_kv", 1);
    make_f32(&file, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_vocabulary(&file);
    make_tensor(&file, "token_embd.weight", 32, VOCABULARY, F16, 64 * VOCABULARY);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        make_f32_tensor(&file, tensors[i].name, 32, tensors[i].rows);
    (void)make_data(&file);
    assert_ok(fb_file_write(path, file.bytes, file.n));
}

/* What temporaries took of memory for a reference of n tokens. */
static size_t measure(rig *r, fb_reading *reading, int64_t n)
{
    const fb_question question = {prompt, words, PROMPT, n};
    const fb_answer_options options = {.generate = false};
    fb_variant *variant;
    fb_answer answer;
    size_t peak;

    (void)r;
    fb_memory_reset_peaks();
    assert_ok(fb_keep_all(&variant, reading));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    peak = fb_memory_peak(FB_ACCOUNT_scratch) + fb_memory_peak(FB_ACCOUNT_other);
    assert_true(answer.n == n && fabs(answer.nll[n - 1] - log(VOCABULARY)) < 1e-3);
    fb_answer_clear(&answer);
    fb_variant_free(variant);
    return peak;
}

static void C04_logits_of_a_large_vocabulary_are_never_many_rows(void **state)
{
    const char *path = test_path(folder, "large.gguf");
    size_t few, many;
    fb_reading *reading;
    size_t before;
    rig r;

    (void)state;
    write_model(path);
    rig_open(&r, path, NULL, NULL);
    before = fb_memory_now(FB_ACCOUNT_scratch) + fb_memory_now(FB_ACCOUNT_other);
    assert_ok(fb_read(&reading, r.engine, context, CONTEXT, NULL, 0, 0));
    few = measure(&r, reading, 100);
    many = measure(&r, reading, MOST_WORDS);
    print_message("%d tokens: %.1f rows of logits, %d: %.1f\n", 100,
                  (double)(few - before) / ROW, MOST_WORDS,
                  (double)(many - before) / ROW);
    assert_true(many - before < (size_t)FEW_ROWS * ROW);
    assert_true(many - few < (size_t)2 * ROW);
    fb_reading_free(reading);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(C01_a_quarter_of_the_entries_is_a_quarter_of_the_bytes),
        cmocka_unit_test(C01_what_was_given_back_is_not_missed),
        cmocka_unit_test(C04_logits_of_a_large_vocabulary_are_never_many_rows),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
