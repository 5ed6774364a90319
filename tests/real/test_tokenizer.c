/* test_tokenizer.c - ids of the default model's tokenizer equal the reference.
 *
 * tests/golden/tokenizer/tokenization.json: 77 strings through Hugging Face tokenizers
 * built from the file's own vocabulary, merges and pre-tokenizer rules. The contexts of
 * tests/golden/reference/example_prompts.jsonl were made with the tokenizer that
 * transformers builds from the file; it lacks the digit rule, but none of the 16 texts
 * shows that.
 *
 * The model is named by FLEXBUDGET_TEST_MODEL; without it the tests fail.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/gguf.h"
#include "model/model.h"
#include "tests/support/open_tokenizer.h"
#include "tests/support/reference.h"

#include <string.h>

enum { MOST_BYTES = 1 << 16, N_STRINGS = 77, N_PROMPTS = 16 };

static fb_tokenizer *the;

static int open_tokenizer(void **state)
{
    const char *path = getenv("FLEXBUDGET_TEST_MODEL");
    fb_gguf *gguf = NULL;

    (void)state;
    if (path == NULL) {
        print_error("FLEXBUDGET_TEST_MODEL does not name the default model\n");
        return 1;
    }
    if (fb_gguf_open(&gguf, path) != FB_OK || tokenizer_of_gguf(&the, gguf) != FB_OK) {
        print_error("%s: %s\n", path, fb_error_message());
        return 1;
    }
    fb_gguf_close(gguf);
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    fb_tokenizer_free(the);
    return 0;
}

static size_t from_hex(const json_t *hex, char *out)
{
    const char *digits = json_string_value(hex);
    const size_t n = strlen(digits) / 2;

    assert_true(n <= MOST_BYTES);
    for (size_t i = 0; i < n; i++) {
        unsigned byte;

        assert_int_equal(sscanf(digits + 2 * i, "%2x", &byte), 1);
        out[i] = (char)byte;
    }
    return n;
}

static void assert_ids(const json_t *row, const char *key, const fb_ids *ids)
{
    id_list wanted = reference_ids(json_object_get(row, key));
    const char *text = json_string_value(json_object_get(row, "text"));
    bool is_equal = ids->n == wanted.n;

    for (int64_t i = 0; is_equal && i < ids->n; i++)
        is_equal = ids->ids[i] == wanted.ids[i];
    if (!is_equal) fail_msg("other ids than the reference for '%.60s'", text);
    fb_free(wanted.ids);
}

static void encodes_as_the_reference(const json_t *row, const char *key, bool special)
{
    static char bytes[MOST_BYTES];
    const fb_piece piece = {bytes, from_hex(json_object_get(row, "utf8_hex"), bytes),
                            special};
    fb_ids ids = {0};

    assert_int_equal(fb_tokenizer_encode(the, &piece, 1, &ids), FB_OK);
    assert_ids(row, key, &ids);
    fb_ids_clear(&ids);
}

static void decodes_as_the_reference(const json_t *row)
{
    static char bytes[MOST_BYTES];
    const size_t n_wanted = from_hex(json_object_get(row, "decoded_bytes_hex"), bytes);
    id_list ids = reference_ids(json_object_get(row, "ids"));
    char *text = NULL;
    size_t n;

    assert_int_equal(fb_tokenizer_decode(the, ids.ids, ids.n, false, &text, &n), FB_OK);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(text, bytes, n);
    fb_free(text);
    if (strstr(json_string_value(json_object_get(row, "decoded")), "\xef\xbf\xbd") ==
        NULL) { /* elsewhere the reference shows broken bytes as U+FFFD */
        const json_t *plain = json_object_get(row, "decoded_skip_special");

        assert_int_equal(fb_tokenizer_decode(the, ids.ids, ids.n, true, &text, &n),
                         FB_OK);
        assert_int_equal(n, json_string_length(plain));
        assert_memory_equal(text, json_string_value(plain), n);
        fb_free(text);
    }
    fb_free(ids.ids);
}

static void all_strings_have_the_ids_of_the_reference(void **state)
{
    json_t *root = json_load_file("tests/golden/tokenizer/tokenization.json",
                                  JSON_ALLOW_NUL, NULL);
    const json_t *strings = json_object_get(root, "strings");

    (void)state;
    assert_int_equal(json_array_size(strings), N_STRINGS);
    for (size_t i = 0; i < N_STRINGS; i++) {
        const json_t *row = json_array_get(strings, i);

        encodes_as_the_reference(row, "ids", true);
        encodes_as_the_reference(row, "ids_no_special_parsing", false);
        decodes_as_the_reference(row);
    }
    json_decref(root);
}

static void check_document(const json_t *row)
{
    const json_t *context = json_object_get(row, "context");
    const fb_piece piece = {json_string_value(context), json_string_length(context),
                            true};
    fb_ids ids = {0};

    assert_int_equal(fb_tokenizer_encode(the, &piece, 1, &ids), FB_OK);
    assert_ids(row, "context_ids", &ids);
    fb_ids_clear(&ids);
}

static void example_contexts_have_the_ids_of_the_reference(void **state)
{
    static char line[1 << 17];
    FILE *file = fopen(REFERENCE "example_prompts.jsonl", "rb");
    int n = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        json_t *row = json_loads(line, 0, NULL);

        assert_non_null(row);
        check_document(row);
        n++;
        json_decref(row);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(n, N_PROMPTS);
}

/* Tokens of the prompts re-encode to themselves. */
static void prompts_encode_to_their_ids(void **state)
{
    static const char *const names[] = {"p32", "p300", "p1500"};
    json_t *prompts = golden_load(REFERENCE "prompts.json");

    (void)state;
    for (size_t p = 0; p < sizeof names / sizeof *names; p++) {
        const json_t *row = json_object_get(prompts, names[p]);
        const json_t *text = json_object_get(row, "text");
        const fb_piece piece = {json_string_value(text), json_string_length(text),
                                false};
        fb_ids ids = {0};

        assert_int_equal(fb_tokenizer_encode(the, &piece, 1, &ids), FB_OK);
        assert_ids(row, "ids", &ids);
        fb_ids_clear(&ids);
    }
    json_decref(prompts);
}

/* G01: the template of the file itself, around a question of two parts. */
static void G01_the_files_template_has_its_bos_once(void **state)
{
    fb_model *model = NULL;
    const fb_template *chat;
    fb_piece parts[3];
    fb_ids ids = {0};
    int n_bos = 0;

    (void)state;
    assert_int_equal(fb_model_open(&model, NULL, getenv("FLEXBUDGET_TEST_MODEL"), NULL),
                     FB_OK);
    chat = fb_model_template(model);
    assert_string_equal(chat->family, "chatml");
    assert_true(chat->has_bos);
    parts[0] = (fb_piece){chat->before, strlen(chat->before), true};
    parts[1] = (fb_piece){"text <|im_start|> text", 22, false};
    parts[2] = (fb_piece){chat->after, strlen(chat->after), true};
    assert_int_equal(fb_tokenizer_encode(the, parts, 2, &ids), FB_OK);
    for (int64_t i = 0; i < ids.n; i++)
        n_bos += ids.ids[i] == 1;
    assert_int_equal(ids.ids[0], 1);
    assert_int_equal(n_bos, 2); /* the system's turn and the user's, none from data */
    assert_int_equal(fb_tokenizer_bos(the), -1); /* and nobody adds another */
    assert_true(fb_tokenizer_is_end(the, 2));
    fb_ids_clear(&ids);
    fb_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_strings_have_the_ids_of_the_reference),
        cmocka_unit_test(example_contexts_have_the_ids_of_the_reference),
        cmocka_unit_test(prompts_encode_to_their_ids),
        cmocka_unit_test(G01_the_files_template_has_its_bos_once),
    };

    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
