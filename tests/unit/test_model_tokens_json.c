/* test_model_tokens_json.c - tokenizer.json and the files beside it: what is read, what
 * is refused, by name.
 *
 * That ids are right is tests/golden's to prove.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/open_tokenizer.h"
#include "tests/support/test.h"

enum { ROWS = 12 };

/* A tokenizer of bytes; parts can be replaced. */
typedef struct made {
    const char *added, *normalizer, *pre, *post, *decoder, *model;
} made;

#define BYTES      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define VOCABULARY "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"c\": 4}"
#define MODEL(rest)                                                                    \
    "{\"type\": \"BPE\", \"vocab\": " VOCABULARY ", \"merges\": [\"a b\"]" rest "}"
#define REPLACE                                                                        \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "          \
    "\"\\u2581\"}"
#define SPACES                                                                         \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\\u2581\"}, \"content\": \" " \
    "\"}"

static const made plain = {"[]", "null", BYTES, "null", BYTES, MODEL("")};

static fb_status read_made(fb_tokenizer **out, made m)
{
    fb_text text = {0};
    fb_tokens tokens;
    char *copy;
    fb_status status;

    fb_text_printf(&text,
                   "{\"version\": \"1.0\", \"truncation\": null, \"added_tokens\": %s, "
                   "\"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": %s, "
                   "\"decoder\": %s, \"model\": %s}",
                   m.added, m.normalizer, m.pre, m.post, m.decoder, m.model);
    copy = fb_strdup(fb_text_string(&text));
    assert_non_null(copy);
    status = fb_tokens_read_json(&tokens, copy, text.n, ROWS);
    fb_text_clear(&text);
    return tokenizer_of_tokens(out, &tokens, status);
}

static void refused(made m, fb_status wanted, const char *words)
{
    fb_tokenizer *t = NULL;

    assert_fails(read_made(&t, m), wanted, words);
    assert_null(t);
}

static const char *ids_of(made m, const char *text, bool special)
{
    static char out[256];
    const fb_piece piece = {text, strlen(text), special};
    fb_tokenizer *t = NULL;
    fb_ids ids = {0};
    size_t at = 0;

    out[0] = '\0';
    assert_ok(read_made(&t, m));
    assert_ok(fb_tokenizer_encode(t, &piece, 1, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, i == 0 ? "%d" : " %d",
                               ids.ids[i]);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
    return out;
}

/* --- what is read --------------------------------------------------------------- */

static void rows_without_a_token_are_unused(void **state)
{
    fb_tokenizer *t = NULL;
    size_t n;

    (void)state;
    assert_ok(read_made(&t, plain));
    assert_int_equal(fb_tokenizer_size(t), ROWS);
    (void)fb_tokenizer_bytes(t, ROWS - 1, false, &n);
    assert_int_equal(n, 0);
    assert_int_equal(fb_tokenizer_bos(t), -1);
    assert_string_equal(fb_tokenizer_pre(t), "tokenizer.json");
    fb_tokenizer_free(t);
    assert_string_equal(ids_of(plain, "ab ca", false), "2 3 4 0");
}

static void merges_are_texts_or_pairs(void **state)
{
    made m = plain;

    (void)state;
    m.model = "{\"vocab\": " VOCABULARY ", \"merges\": [[\"a\", \"b\"]]}";
    assert_string_equal(ids_of(m, "ab", false), "2");
    m.model = "{\"vocab\": " VOCABULARY ", \"merges\": [[\"a\", \"b\", \"c\"]]}";
    refused(m, FB_FORMAT, "'model': merge 0 is no pair of tokens");
    m.model = "{\"vocab\": " VOCABULARY ", \"merges\": [\"a b c\"]}";
    refused(m, FB_FORMAT, "'model': merge 0 is no pair of tokens");
    m.model = "{\"vocab\": " VOCABULARY ", \"merges\": [\"ab\"]}";
    refused(m, FB_FORMAT, "'model': merge 0 is no pair of tokens");
    m.model = "{\"vocab\": " VOCABULARY ", \"merges\": [\"a c\"]}";
    refused(m, FB_FORMAT, "merge 0, 'a c', is not two tokens that make a third one");
}

static void added_tokens_stand_for_themselves(void **state)
{
    made m = plain;

    (void)state;
    m.added = "[{\"id\": 5, \"content\": \"<s>\", \"special\": true},"
              " {\"id\": 6, \"content\": \"c a\", \"special\": false, "
              "\"normalized\": false},"
              " {\"id\": 99, \"content\": \"<far>\", \"special\": true}]";
    assert_string_equal(ids_of(m, "a<s>c a", true), "0 5 6");
    assert_string_equal(ids_of(m, "ac aa", false), "0 6 0");
    assert_string_equal(ids_of(m, "<s>", false), ""); /* no bytes for these */
    m.added = "[{\"id\": 99, \"content\": \"far\", \"special\": false}]";
    refused(m, FB_FORMAT, "'far' is added as 99, but the embedding has 12 rows");
    m.added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true}]";
    refused(m, FB_FORMAT, "'<s>' is added as 1, which is 'b' already");
    m.added = "[{\"id\": 5, \"content\": \"<s>\", \"single_word\": true}]";
    refused(m, FB_UNSUPPORTED, "'single_word' of the token '<s>' is true");
    m.added = "[{\"id\": 5, \"content\": \"\"}]";
    refused(m, FB_FORMAT, "token 5 has 0 bytes");
    m.added = "[{\"content\": \"<s>\"}]";
    refused(m, FB_FORMAT, "'added_tokens'");
    m.added = "[[5]]";
    refused(m, FB_FORMAT, "an element is no object");
}

/* Escapes in added tokens: the text that is parsed is not the text that is decoded. */
static void added_tokens_may_be_escaped(void **state)
{
    made m = plain;

    (void)state;
    m.added = "[{\"content\": \"<\\u0073\\\">\", \"id\": 5, \"special\": true}]";
    assert_string_equal(ids_of(m, "a<s\">b", true), "0 5 1");
}

static void bos_is_the_post_processors(void **state)
{
    static const char begin[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<s>\": "
        "{\"id\": \"<s>\", \"ids\": [5]}}}";
    made m = plain;
    fb_tokenizer *t = NULL;
    fb_text twice = {0};

    (void)state;
    m.added = "[{\"id\": 5, \"content\": \"<s>\", \"special\": true}]";
    m.post = begin;
    assert_ok(read_made(&t, m));
    assert_int_equal(fb_tokenizer_bos(t), 5);
    fb_tokenizer_free(t);
    fb_text_printf(&twice,
                   "{\"type\": \"Sequence\", \"processors\": [{\"type\": "
                   "\"ByteLevel\"}, %s, %s]}",
                   begin, begin);
    m.post = fb_text_string(&twice);
    refused(m, FB_UNSUPPORTED, "a text begins with more than one token");
    fb_text_clear(&twice);
    m.post =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
        "\"<s>\"}}], \"special_tokens\": {}}";
    refused(m, FB_FORMAT, "the token '<s>' of the template has no id");
    m.post = "{\"type\": \"TemplateProcessing\", \"single\": []}";
    refused(m, FB_FORMAT, "no place for a text");
    m.post = "{\"type\": \"BertProcessing\"}";
    refused(m, FB_UNSUPPORTED, "'post_processor': 'BertProcessing' is not understood");
}

/* Ids are those of `tokenizers` 0.22.2. */
static void a_byte_without_a_token_is_unknown_where_that_is_declared(void **state)
{
    static const char vocabulary[] =
        "{\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<unk>\": 3}, \"merges\": "
        "[\"a b\"], \"unk_token\": %s, \"fuse_unk\": %s}";
    char model[256];
    made m = plain;

    (void)state;
    m.model = model;
    (void)snprintf(model, sizeof model, vocabulary, "\"<unk>\"", "false");
    assert_string_equal(ids_of(m, "ab cab\xc3\xa9 b", false), "2 3 3 2 3 3 3 1");
    (void)snprintf(model, sizeof model, vocabulary, "\"<unk>\"", "true");
    assert_string_equal(ids_of(m, "ab cab\xc3\xa9 b", false), "2 3 2 3 3 1");
    (void)snprintf(model, sizeof model, vocabulary, "\"a\"", "true");
    assert_string_equal(ids_of(m, "accab", false), "0 0 2");
    assert_string_equal(ids_of(m, "ab cab\xc3\xa9 b", false), "2 0 2 0 2");
    (void)snprintf(model, sizeof model, vocabulary, "null", "false");
    assert_string_equal(ids_of(m, "ab cab\xc3\xa9 b", false), "2 2 1");
}

/* --- what is refused ------------------------------------------------------------ */

static void steps_that_are_not_understood_are_refused_by_name(void **state)
{
    static const char *const normalizers[] = {"Lowercase", "NFD", "StripAccents",
                                              "Precompiled"};
    static const char *const pre[] = {"Whitespace", "BertPreTokenizer", "Punctuation",
                                      "UnicodeScripts"};
    char step[64];
    made m = plain;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(step, sizeof step, "{\"type\": \"%s\"}", normalizers[i]);
        m = plain;
        m.normalizer = step;
        refused(m, FB_UNSUPPORTED, "'normalizer': '");
        refused(m, FB_UNSUPPORTED, normalizers[i]);
        (void)snprintf(step, sizeof step, "{\"type\": \"%s\"}", pre[i]);
        m = plain;
        m.pre = step;
        refused(m, FB_UNSUPPORTED, "'pre_tokenizer': '");
        refused(m, FB_UNSUPPORTED, pre[i]);
    }
    m = plain;
    m.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" +\"}, "
                   "\"content\": \" \"}";
    refused(m, FB_UNSUPPORTED, "the pattern of 'Replace' is no plain text");
    m.normalizer = "{\"type\": \"Prepend\", \"prepend\": \"12345678901234567\"}";
    refused(m, FB_UNSUPPORTED, "more than 16 bytes");
    m.normalizer = "{}";
    refused(m, FB_FORMAT, "'normalizer': ");
    m.normalizer = "5";
    refused(m, FB_FORMAT, "'normalizer' is no object");
}

static void other_models_are_refused(void **state)
{
    static const char *const rows[][2] = {
        {"{\"type\": \"Unigram\", \"vocab\": []}", "the model is 'Unigram'"},
        {"{\"type\": \"WordPiece\"}", "the model is 'WordPiece'"},
        {MODEL(", \"dropout\": 0.1"), "'dropout' is 0.1"},
        {MODEL(", \"continuing_subword_prefix\": \"##\""),
         "'continuing_subword_prefix' is \"##\""},
        {MODEL(", \"end_of_word_suffix\": \"</w>\""), "'end_of_word_suffix'"},
        {MODEL(", \"byte_fallback\": true"), "no token for byte 0"},
    };
    made m = plain;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        m.model = rows[i][0];
        refused(m, FB_UNSUPPORTED, rows[i][1]);
    }
    m.model = MODEL(", \"dropout\": null, \"end_of_word_suffix\": \"\"");
    assert_string_equal(ids_of(m, "ab", false), "2");
}

static void broken_models_are_refused(void **state)
{
    static const char *const rows[][2] = {
        {"{\"vocab\": {\"a\": 0}}", "'vocab' or 'merges' is missing"},
        {"{\"vocab\": {\"a\": 12}, \"merges\": []}", "the embedding has 12 rows"},
        {"{\"vocab\": {\"a\": -1}, \"merges\": []}", "token 'a' has the id -1"},
        {"{\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}",
         "two tokens have the id 0"},
        {"{\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []}", "have the same text"},
        {"{\"vocab\": {\"a\": 0.5}, \"merges\": []}", "a whole number would be right"},
        {"{\"vocab\": [], \"merges\": []}", "an object would be right"},
        {"{\"vocab\": {}, \"merges\": {}}", "an array would be right"},
        {"{\"vocab\": {}, \"vocab\": {}, \"merges\": []}", "'vocab' is there twice"},
        {MODEL(", \"unk_token\": \"<unk>\""), "the unknown token '<unk>' is not in"},
        {MODEL(", \"byte_fallback\": 1"), "'byte_fallback' is 1"},
        {"5", "an object would be right"},
    };
    made m = plain;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        m.model = rows[i][0];
        refused(m, FB_FORMAT, rows[i][1]);
    }
}

static void decoders_must_fit(void **state)
{
    static const char meta[] =
        "{\"type\": \"Metaspace\", \"replacement\": \"\\u2581\"}";
    made m = plain;

    (void)state;
    m.decoder = "null";
    refused(m, FB_UNSUPPORTED, "'decoder': it is missing");
    m.decoder = meta;
    refused(m, FB_UNSUPPORTED,
            "'Metaspace' does not go with a pre_tokenizer that is a");
    m = plain;
    m.normalizer = REPLACE;
    m.pre = "null";
    refused(m, FB_UNSUPPORTED,
            "'ByteLevel' does not go with a pre_tokenizer that is no");
    m.decoder = "{\"type\": \"WordPiece\"}";
    refused(m, FB_UNSUPPORTED, "'WordPiece' is not understood");
    m.decoder = "{\"type\": \"Strip\", \"content\": \" \", \"start\": 2, \"stop\": 0}";
    refused(m, FB_UNSUPPORTED, "a 'Strip' of something else");
    m.normalizer = "null";
    m.decoder = SPACES;
    refused(m, FB_UNSUPPORTED, "neither 'ByteLevel' nor a step that writes U+2581");
}

static void expressions_are_understood_or_refused(void **state)
{
    static const char *const bad[][2] = {
        {"(a+)+", "')+'"},
        {"(a|b){2}", "'){2}'"},
        {"\\\\w+", "'\\w+'"},
        {"^a", "'^a'"},
        {"[[:alpha:]]", "'[:alpha:]]'"},
        {"a{2}+", "'{2}+'"},
        {"a{,3}", "'{,3}'"},
        {"a{1,2,3}", "'{1,2,3}'"},
        {"a{}", "'{}'"},
        {"a{2}?", "'{2}?'"},
        {"[a&&b]", "'&&b]'"},
        {"(?i)a", "'(?i)a'"},
        {"a*", "can match nothing at all"},
        {"(a", "does not compile"},
    };
    static const char *const good[] = {"\\\\s+",        "[^\\\\s\\\\p{L}]+",
                                       "(?i:a|b)",      "a?+b",
                                       "\\\\p{N}{1,3}", "\\\\d",
                                       "a{2}",          "a{2,}?",
                                       "(?<!a)b",       "\xc3\xa9"};
    char step[256];
    made m = plain;

    (void)state;
    m.pre = step;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        (void)snprintf(step, sizeof step,
                       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
                       "\"Split\", \"pattern\": {\"Regex\": \"%s\"}, \"behavior\": "
                       "\"Isolated\"}, " BYTES "]}",
                       bad[i][0]);
        refused(m, FB_UNSUPPORTED, bad[i][1]);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)snprintf(step, sizeof step,
                       "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
                       "\"Split\", \"pattern\": {\"Regex\": \"%s\"}, \"behavior\": "
                       "\"Isolated\"}, " BYTES "]}",
                       good[i]);
        assert_string_equal(ids_of(m, "", false), "");
    }
}

static void splits_are_of_three_kinds(void **state)
{
    static const char form[] =
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
        "\"pattern\": "
        "{\"String\": \"b\"}, \"behavior\": \"%s\", \"invert\": %s}, " BYTES "]}";
    char step[256];
    made m = plain;

    (void)state;
    m.pre = step;
    (void)snprintf(step, sizeof step, form, "Isolated", "false");
    assert_string_equal(ids_of(m, "abc", false), "0 1 4");
    (void)snprintf(step, sizeof step, form, "Removed", "false");
    assert_string_equal(ids_of(m, "abc", false), "0 4");
    (void)snprintf(step, sizeof step, form, "Removed", "true");
    assert_string_equal(ids_of(m, "abc", false), "1");
    (void)snprintf(step, sizeof step, form, "MergedWithPrevious", "false");
    assert_string_equal(ids_of(m, "abc", false), "2 4");
    (void)snprintf(step, sizeof step, form, "MergedWithNext", "false");
    refused(m, FB_UNSUPPORTED, "a 'Split' that is 'MergedWithNext'");
    m.pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" BYTES ", " BYTES "]}";
    refused(m, FB_UNSUPPORTED, "a 'ByteLevel' behind 'ByteLevel'");
}

/* --- files of a folder ---------------------------------------------------------- */

static char folder[TEST_PATH];

static void put(const char *name, const char *text)
{
    assert_ok(fb_file_write(test_path(folder, name), text, strlen(text)));
}

static void put_tokenizer(void)
{
    put("tokenizer.json",
        "{\"added_tokens\": [{\"id\": 5, \"content\": \"<s>\", \"special\": true},"
        "{\"id\": 6, \"content\": \"</s>\", \"special\": true},"
        "{\"id\": 7, \"content\": \"<|im_end|>\", \"special\": true}],"
        "\"pre_tokenizer\": " BYTES ", \"decoder\": " BYTES
        ", \"model\": " MODEL("") "}");
}

static void marks_are_those_of_the_files_beside_it(void **state)
{
    fb_tokenizer *t = NULL;

    (void)state;
    test_folder(folder);
    assert_fails(tokenizer_of_folder(&t, folder, ROWS), FB_NOT_FOUND,
                 "neither 'tokenizer.json' nor 'tokenizer.model' is in the folder");
    put_tokenizer();
    put("tokenizer_config.json",
        "{\"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": "
        "\"<\\/s>\", \"add_bos_token\": true}");
    put("generation_config.json", "{\"eos_token_id\": [4, 6]}");
    put("config.json", "{\"eos_token_id\": 3}");
    assert_ok(tokenizer_of_folder(&t, folder, ROWS));
    assert_int_equal(fb_tokenizer_bos(t), 5);
    for (int32_t id = 0; id < ROWS; id++)
        assert_int_equal(fb_tokenizer_is_end(t, id),
                         id == 3 || id == 4 || id == 6 || id == 7);
    fb_tokenizer_free(t);
    put("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"add_bos_token\": false}");
    assert_ok(tokenizer_of_folder(&t, folder, ROWS));
    assert_int_equal(fb_tokenizer_bos(t), -1);
    fb_tokenizer_free(t);
    put("tokenizer_config.json", "{\"bos_token\": \"<b>\", \"add_bos_token\": true}");
    assert_fails(
        tokenizer_of_folder(&t, folder, ROWS), FB_FORMAT,
        "tokenizer_config.json: 'add_bos_token' is true, but '<b>' is no such");
    put("tokenizer_config.json", "{}");
    put("generation_config.json", "{\"eos_token_id\": [12]}");
    assert_fails(tokenizer_of_folder(&t, folder, ROWS), FB_FORMAT,
                 "generation_config.json: an answer ends with token 12; 0 to 11 would");
    put("generation_config.json", "{\"eos_token_id\": \"x\"}");
    assert_fails(tokenizer_of_folder(&t, folder, ROWS), FB_FORMAT,
                 "'eos_token_id' is a string");
    put("tokenizer.json", "{\"model\": 5");
    assert_fails(tokenizer_of_folder(&t, folder, ROWS), FB_FORMAT,
                 "tokenizer.json: line 1, column 12: ',' or '}' would be right");
    test_folder_remove(folder);
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_tokenizer *t = NULL;
    fb_status status = FB_NO_MEMORY;

    (void)state;
    test_folder(folder);
    put_tokenizer();
    put("tokenizer_config.json", "{\"bos_token\": {\"content\": \"<s>\"}, "
                                 "\"add_bos_token\": true}");
    put("generation_config.json", "{\"eos_token_id\": [4, 6]}");
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = tokenizer_of_folder(&t, folder, ROWS);
        fb_memory_fail_at(0);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
    }
    fb_tokenizer_free(t);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_without_a_token_are_unused),
        cmocka_unit_test(merges_are_texts_or_pairs),
        cmocka_unit_test(added_tokens_stand_for_themselves),
        cmocka_unit_test(added_tokens_may_be_escaped),
        cmocka_unit_test(bos_is_the_post_processors),
        cmocka_unit_test(a_byte_without_a_token_is_unknown_where_that_is_declared),
        cmocka_unit_test(steps_that_are_not_understood_are_refused_by_name),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(broken_models_are_refused),
        cmocka_unit_test(decoders_must_fit),
        cmocka_unit_test(expressions_are_understood_or_refused),
        cmocka_unit_test(splits_are_of_three_kinds),
        cmocka_unit_test(marks_are_those_of_the_files_beside_it),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
