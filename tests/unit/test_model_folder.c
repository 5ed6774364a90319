/* test_model_folder.c - a folder of Hugging Face's becomes a model with tokenizer and
 * template.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/model.h"
#include "tests/support/test.h"

enum { ROWS = 16, WIDTH = 8 };

static char folder[TEST_PATH];

static void put(const char *name, const char *text)
{
    assert_ok(fb_file_write(test_path(folder, name), text, strlen(text)));
}

/* One tensor of zeros behind the earlier ones. */
static void add_tensor(fb_text *header, size_t *n_data, const char *name, int rows,
                       int columns)
{
    const size_t n = 4 * (size_t)columns * (size_t)(rows > 0 ? rows : 1);

    fb_text_printf(header, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [",
                   header->n > 1 ? ", " : "", name);
    if (rows > 0) fb_text_printf(header, "%d, ", rows);
    fb_text_printf(header, "%d], \"data_offsets\": [%zu, %zu]}", columns, *n_data,
                   *n_data + n);
    *n_data += n;
}

/* A Llama of one layer, width 8, one head. */
static void put_weights(void)
{
    static const char *const squares[] = {
        "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    fb_text header = {0}, file = {0};
    size_t n_data = 0;
    char name[96];

    fb_text_puts(&header, "{");
    add_tensor(&header, &n_data, "model.embed_tokens.weight", ROWS, WIDTH);
    add_tensor(&header, &n_data, "model.norm.weight", 0, WIDTH);
    add_tensor(&header, &n_data, "model.layers.0.input_layernorm.weight", 0, WIDTH);
    add_tensor(&header, &n_data, "model.layers.0.post_attention_layernorm.weight", 0,
               WIDTH);
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
        (void)snprintf(name, sizeof name, "model.layers.0.%s.weight", squares[i]);
        add_tensor(&header, &n_data, name, WIDTH, WIDTH);
    }
    fb_text_puts(&header, "}");
    for (int i = 0; i < 8; i++)
        fb_text_add(&file, &(char){(char)(header.n >> (8 * i))}, 1);
    fb_text_add(&file, header.bytes, header.n);
    for (size_t i = 0; i < n_data; i++)
        fb_text_add(&file, "", 1);
    assert_ok(fb_text_status(&file));
    assert_ok(
        fb_file_write(test_path(folder, "model.safetensors"), file.bytes, file.n));
    fb_text_clear(&header);
    fb_text_clear(&file);
}

static void put_tokenizer(const char *more)
{
    static const char bytes[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}";
    fb_text text = {0};

    fb_text_printf(&text,
                   "{\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": "
                   "true}], \"pre_tokenizer\": %s, \"decoder\": %s, \"model\": "
                   "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2%s}, "
                   "\"merges\": [\"a b\"]}}",
                   bytes, bytes, more);
    put("tokenizer.json", fb_text_string(&text));
    fb_text_clear(&text);
}

static void put_model(void)
{
    put("config.json", "{\"model_type\": \"llama\", \"hidden_size\": 8, "
                       "\"intermediate_size\": 8, \"num_hidden_layers\": 1, "
                       "\"num_attention_heads\": 1, \"max_position_embeddings\": 64, "
                       "\"rms_norm_eps\": 1e-5, \"vocab_size\": 16, "
                       "\"tie_word_embeddings\": true, \"eos_token_id\": 1}");
    put("tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"add_bos_token\": true, "
        "\"chat_template\": \"{{ messages[0]['content'] }}\"}");
    put_weights();
    put_tokenizer("");
}

static void a_folder_has_tokenizer_and_template(void **state)
{
    const fb_piece piece = {"<s>aab", 6, true};
    fb_ids ids = {0};
    fb_model *m = NULL;

    (void)state;
    test_folder(folder);
    put_model();
    assert_ok(fb_model_open(&m, NULL, folder, NULL));
    assert_int_equal(fb_tokenizer_size(fb_model_tokenizer(m)), ROWS);
    assert_int_equal(fb_tokenizer_bos(fb_model_tokenizer(m)), 9);
    assert_true(fb_tokenizer_is_end(fb_model_tokenizer(m), 1));
    assert_string_equal(fb_model_template(m)->family, "raw");
    assert_ok(fb_tokenizer_encode(fb_model_tokenizer(m), &piece, 1, &ids));
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[0], 9);
    assert_int_equal(ids.ids[2], 2);
    fb_ids_clear(&ids);
    fb_model_close(m);
    test_folder_remove(folder);
}

/* The same tables give the same hash, other tables another; the model's own hash sees
 * every file. */
static void the_tokenizer_has_a_hash_of_its_tables(void **state)
{
    char first[FB_HASH_HEX];
    fb_model *m = NULL;

    (void)state;
    test_folder(folder);
    put_model();
    assert_ok(fb_model_open(&m, NULL, folder, NULL));
    memcpy(first, fb_model_get_facts(m)->tokenizer_sha256, sizeof first);
    assert_int_equal(strlen(first), 64);
    fb_model_close(m);
    put_tokenizer("  "); /* the same, written otherwise */
    assert_ok(fb_model_open(&m, NULL, folder, NULL));
    assert_string_equal(fb_model_get_facts(m)->tokenizer_sha256, first);
    fb_model_close(m);
    put_tokenizer(", \"c\": 3");
    assert_ok(fb_model_open(&m, NULL, folder, NULL));
    assert_string_not_equal(fb_model_get_facts(m)->tokenizer_sha256, first);
    fb_model_close(m);
    test_folder_remove(folder);
}

static void what_is_wrong_names_folder_and_file(void **state)
{
    fb_model *m = NULL;

    (void)state;
    test_folder(folder);
    put_model();
    put_tokenizer(", \"far\": 16");
    assert_fails(
        fb_model_open(&m, NULL, folder, NULL), FB_FORMAT,
        "tokenizer.json: 'model': token 'far' has the id 16, but the embedding "
        "has 16 rows");
    assert_non_null(strstr(fb_error_message(), folder));
    assert_null(m);
    put("tokenizer.json", "{}");
    assert_fails(fb_model_open(&m, NULL, folder, NULL), FB_FORMAT,
                 "'model' is missing");
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_has_tokenizer_and_template),
        cmocka_unit_test(the_tokenizer_has_a_hash_of_its_tables),
        cmocka_unit_test(what_is_wrong_names_folder_and_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
