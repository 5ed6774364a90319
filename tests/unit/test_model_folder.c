/* test_model_folder.c - a folder of Hugging Face's becomes a model with tokenizer and
 * template.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/folder.h"
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
static void put_weights(const char *file_name)
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
    assert_ok(fb_file_write(test_path(folder, file_name), file.bytes, file.n));
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
    put_weights("model.safetensors");
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

/* Its config.json alone knows what all of it takes. */
static void its_config_alone_has_the_same_numbers(void **state)
{
    const fb_model_facts *whole, *alone;
    fb_model *m = NULL, *config = NULL;

    (void)state;
    test_folder(folder);
    put_model();
    assert_ok(fb_model_open(&m, NULL, folder, NULL));
    assert_ok(fb_model_open_config(&config, test_path(folder, "config.json"), NULL));
    whole = fb_model_get_facts(m);
    alone = fb_model_get_facts(config);
    assert_int_equal(alone->weight_bytes, whole->weight_bytes);
    assert_int_equal(alone->vocabulary, whole->vocabulary);
    assert_int_equal(alone->head_dim, whole->head_dim);
    assert_string_equal(alone->name, whole->name);
    assert_string_equal(alone->weight_types, whole->weight_types);
    fb_model_close(config);
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

/* Opens the folder, replaces or makes a file of it, and looks. */
static void assert_guarded(const char *name)
{
    char sentence[128];
    fb_guard guard = {0};
    fb_folder *opened;

    assert_ok(fb_folder_open(&opened, folder, &guard));
    assert_ok(fb_guard_check(&guard));
    put("of another program", "x");
    assert_ok(fb_guard_check(&guard));
    put(name, "{}");
    (void)snprintf(sentence, sizeof sentence, "'%s' changed while it was read", name);
    assert_fails(fb_guard_check(&guard), FB_IO, sentence);
    fb_folder_close(opened);
    fb_guard_clear(&guard);
    put_model();
}

static void every_file_of_a_model_is_guarded(void **state)
{
    static const char *const names[] = {
        "config.json",           "tokenizer.json",
        "tokenizer_config.json", "model.safetensors",
        "tokenizer.model",       "generation_config.json",
        "chat_template.jinja",   "model.safetensors.index.json"};

    (void)state;
    test_folder(folder);
    put_model();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_guarded(names[i]);
    test_folder_remove(folder);
}

static void every_shard_is_guarded(void **state)
{
    fb_guard guard = {0};
    fb_folder *opened;

    (void)state;
    test_folder(folder);
    put_model();
    assert_int_equal(unlink(test_path(folder, "model.safetensors")), 0);
    put_weights("one.safetensors");
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"model.norm.weight\": \"one.safetensors\"}}");
    assert_ok(fb_folder_open(&opened, folder, &guard));
    assert_ok(fb_guard_check(&guard));
    put_weights("one.safetensors"); /* the same bytes in a new file */
    assert_fails(fb_guard_check(&guard), FB_IO, "'one.safetensors' changed");
    fb_folder_close(opened);
    fb_guard_clear(&guard);
    test_folder_remove(folder);
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;
    fb_model *m = NULL;

    (void)state;
    test_folder(folder);
    put_model();
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 3000);
        fb_memory_fail_at(n);
        status = fb_model_open(&m, NULL, folder, NULL);
        fb_memory_fail_at(0);
        if (status != FB_OK && status != FB_NO_MEMORY)
            fail_msg("allocation %d: %s", (int)n, fb_error_message());
    }
    fb_model_close(m);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_has_tokenizer_and_template),
        cmocka_unit_test(its_config_alone_has_the_same_numbers),
        cmocka_unit_test(the_tokenizer_has_a_hash_of_its_tables),
        cmocka_unit_test(what_is_wrong_names_folder_and_file),
        cmocka_unit_test(every_file_of_a_model_is_guarded),
        cmocka_unit_test(every_shard_is_guarded),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
