/* test_model_config.c - a model of which there is nothing but a config.json: what it would
 * take, against arithmetic by hand; and what of such files is refused.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/foretell.h"
#include "tests/support/test.h"

/* Llama 3 70B. */
enum {
    LAYERS = 80,
    WIDTH = 8192,
    FFN = 28672,
    HEADS = 64,
    KV_HEADS = 8,
    HEAD_DIM = 128,
    VOCABULARY = 128256,
    TOKENS = 32768,
    KEPT = 6553, /* 20 % */
    PROMPT = 32,
    ANSWER = 128,
    TOKEN_BYTES = LAYERS * KV_HEADS * 2 * HEAD_DIM * 2, /* f16 */
};

static const char start[] = "{\"model_type\": \"llama\", \"hidden_size\": 8192, "
                            "\"intermediate_size\": 28672, \"num_hidden_layers\": 80, "
                            "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, "
                            "\"max_position_embeddings\": 131072, \"rms_norm_eps\": "
                            "1e-5, \"rope_theta\": 500000.0";
static const char rest[] = ", \"vocab_size\": 128256, \"torch_dtype\": \"bfloat16\"";

static char folder[TEST_PATH];

static const char *put(const char *name, const char *more)
{
    char text[1024];

    (void)snprintf(text, sizeof text, "%s%s}", start, more);
    test_write(test_path(folder, name), text);
    return test_path(folder, name);
}

/* Numbers of the matrices of a layer, and of all there are. */
static const double qkv = (double)WIDTH * (HEADS + 2 * KV_HEADS) * HEAD_DIM;
static const double behind = (double)WIDTH * HEADS * HEAD_DIM + 3.0 * WIDTH * FFN;

static double all_numbers(int heads_of_its_own)
{
    return LAYERS * (qkv + behind + 2 * WIDTH) + WIDTH +
           (1.0 + heads_of_its_own) * VOCABULARY * WIDTH;
}

static void bytes_of_weights_follow_from_the_numbers(void **state)
{
    const fb_model_options resident = {.weights = FB_WEIGHTS_RESIDENT};
    const fb_model_facts *facts;
    fb_model *model;

    (void)state;
    assert_true(all_numbers(1) == 70553706496.0);
    assert_ok(fb_model_open_config(&model, put("llama.json", rest), NULL));
    facts = fb_model_get_facts(model);
    assert_string_equal(facts->name, "llama");
    assert_string_equal(facts->weight_types, "BF16");
    assert_null(fb_model_tokenizer(model));
    assert_true((double)facts->file_bytes == 2 * all_numbers(1));
    assert_true((double)facts->weight_bytes == 4 * all_numbers(1));
    fb_model_close(model);

    /* half the bytes of its matrices; what norms multiply by is f32 always */
    assert_ok(fb_model_open_config(&model, put("llama.json", rest), &resident));
    assert_true((double)fb_model_get_facts(model)->weight_bytes ==
                2 * all_numbers(1) + 2 * (2 * LAYERS + 1) * (double)WIDTH);
    fb_model_close(model);

    assert_ok(fb_model_open_config(
        &model,
        put("tied.json", ", \"vocab_size\": 128256, \"tie_word_embeddings\": true"),
        NULL));
    assert_true((double)fb_model_get_facts(model)->weight_bytes == 4 * all_numbers(0));
    assert_true((double)fb_model_get_facts(model)->file_bytes == 4 * all_numbers(0));
    fb_model_close(model);
}

/* Multiplications and additions of all products with weights: the last layer of a context
 * ends with its attention. */
static double product_flops(void)
{
    return 2.0 * TOKENS * (LAYERS * qkv + (LAYERS - 1) * behind);
}

static void a_cell_of_it_is_foretold(void **state)
{
    static fb_foretold told;
    const fb_foretell cell = {.n_tokens = TOKENS,
                              .k = KEPT,
                              .engine = {.cache = FB_F16},
                              .protect = {FB_PROTECT_EXPERIMENT, 4, 16},
                              .n_prompt = PROMPT,
                              .max_tokens = ANSWER,
                              .threads = 2};
    fb_foretell own = cell;
    fb_bound_rule *rule;
    fb_model *model;

    (void)state;
    assert_ok(fb_model_open_config(&model, put("llama.json", rest), NULL));
    assert_ok(fb_rule_parse(&rule, "streaming_llm"));
    own.model = model;
    own.rule = rule;
    assert_ok(fb_foretell_cell(&told, &own));
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        assert_true((double)told.peak[p][FB_ACCOUNT_weights] == 4 * all_numbers(1));
    assert_int_equal(told.peak[FB_PHASE_context][FB_ACCOUNT_kv],
                     (int64_t)TOKENS * TOKEN_BYTES); /* 10 GiB */
    assert_int_equal(told.peak[FB_PHASE_evict][FB_ACCOUNT_kv],
                     (int64_t)(TOKENS + KEPT) * TOKEN_BYTES);
    assert_int_equal(told.kept_bytes, (int64_t)KEPT * TOKEN_BYTES);
    assert_int_equal(told.tail_bytes, (int64_t)(PROMPT + ANSWER) * TOKEN_BYTES);
    assert_int_equal(told.peak[FB_PHASE_decode][FB_ACCOUNT_kv],
                     told.kept_bytes + told.tail_bytes);
    assert_true(
        told.ledger.count[FB_PHASE_context][FB_SCOPE_model][FB_OP_linear].flops ==
        product_flops());
    assert_true(told.plain_flops > product_flops());
    fb_bound_rule_free(rule);
    fb_model_close(model);
}

static void assert_refused(const char *more, fb_status status, const char *words)
{
    fb_model *model;

    assert_fails(fb_model_open_config(&model, put("bad.json", more), NULL), status,
                 words);
    assert_null(strchr(fb_error_message(), '\n'));
    assert_non_null(strstr(fb_error_message(), "bad.json"));
}

static void what_is_wrong_with_it_is_one_sentence(void **state)
{
    fb_model *model;

    (void)state;
    assert_refused(", \"torch_dtype\": \"bfloat16\"", FB_FORMAT, "'vocab_size'");
    assert_refused(", \"vocab_size\": 0", FB_FORMAT, "'vocab_size'");
    assert_refused(", \"vocab_size\": 9, \"torch_dtype\": \"int4\"", FB_UNSUPPORTED,
                   "'torch_dtype' is 'int4'");
    assert_refused(", \"vocab_size\": 9, \"torch_dtype\": 16", FB_UNSUPPORTED,
                   "'torch_dtype'");
    assert_refused(", \"vocab_size\": 9, \"quantization_config\": {}", FB_UNSUPPORTED,
                   "'quantization_config'");
    assert_refused(", \"vocab_size\": 9, \"head_dim\": 7", FB_FORMAT,
                   "heads of size 7");
    assert_refused(", \"vocab_size\": 9, \"vocab_size\": 9", FB_FORMAT, "vocab_size");
    assert_refused(", ", FB_FORMAT, "bad.json");
    test_write(test_path(folder, "list.json"), "[1]");
    assert_fails(fb_model_open_config(&model, test_path(folder, "list.json"), NULL),
                 FB_FORMAT, "not a JSON object");
    test_write(test_path(folder, "other.json"), "{\"model_type\": \"mamba\"}");
    assert_fails(fb_model_open_config(&model, test_path(folder, "other.json"), NULL),
                 FB_UNSUPPORTED, "'model_type' is 'mamba'");
    assert_fails(fb_model_open_config(&model, test_path(folder, "no.json"), NULL),
                 FB_NOT_FOUND, "no.json");
}

static int open_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_weights_follow_from_the_numbers),
        cmocka_unit_test(a_cell_of_it_is_foretold),
        cmocka_unit_test(what_is_wrong_with_it_is_one_sentence),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
