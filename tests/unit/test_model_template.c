/* test_model_template.c - chat templates are known by hash or not at all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "model/template.h"
#include "tests/support/test.h"

static const char raw[] = "{{ messages[0]['content'] }}";

static void a_file_without_a_template_has_none(void **state)
{
    fb_template t;

    (void)state;
    fb_template_find(&t, NULL);
    assert_string_equal(t.family, "none");
    assert_string_equal(t.before, "");
    assert_string_equal(t.after, "\n");
    assert_string_equal(t.sha256, "");
    assert_false(t.has_bos);
    assert_int_equal(fb_template_check(&t), FB_OK);
}

static void the_built_in_models_template_adds_nothing(void **state)
{
    fb_template t;

    (void)state;
    fb_template_find(&t, raw);
    assert_string_equal(t.family, "raw");
    assert_string_equal(t.before, "");
    assert_string_equal(t.after, "");
    assert_int_equal(strlen(t.sha256), 64);
    assert_int_equal(fb_template_check(&t), FB_OK);
}

static void an_unknown_template_is_refused_with_the_way_out(void **state)
{
    fb_template t;

    (void)state;
    fb_template_find(&t, "{{ messages[0]['content'] }} ");
    assert_null(t.family);
    assert_int_equal(fb_template_check(&t), FB_UNSUPPORTED);
    assert_non_null(strstr(fb_error_message(), t.sha256));
    assert_non_null(strstr(fb_error_message(),
                           "'model.template: FAMILY', where FAMILY "
                           "is one of none, chatml, gemma, llama2"));
}

static void a_chosen_family_replaces_the_files(void **state)
{
    char sha256[FB_HASH_HEX];
    fb_template t;

    (void)state;
    fb_template_find(&t, "{# other #}");
    memcpy(sha256, t.sha256, sizeof sha256);
    assert_int_equal(fb_template_choose(&t, "chatml"), FB_OK);
    assert_string_equal(t.family, "chatml");
    assert_string_equal(t.before, "<|im_start|>user\n");
    assert_string_equal(t.after, "<|im_end|>\n<|im_start|>assistant\n");
    assert_string_equal(t.sha256, sha256); /* still says what the file has */
    assert_int_equal(fb_template_choose(&t, "none"), FB_OK);
    assert_string_equal(t.family, "none");
    assert_int_equal(fb_template_check(&t), FB_OK);
}

static void an_unknown_family_changes_nothing(void **state)
{
    fb_template t;

    (void)state;
    fb_template_find(&t, raw);
    assert_int_equal(fb_template_choose(&t, "llama9"), FB_USAGE);
    assert_non_null(
        strstr(fb_error_message(), "'llama9'; auto, raw, none, chatml, gemma"));
    assert_string_equal(t.family, "raw");
}

/* Jinja drops a newline at the end, so files with and without one are the same. */
static void a_newline_at_the_end_does_not_count(void **state)
{
    fb_template with, without, twice;

    (void)state;
    fb_template_find(&without, raw);
    fb_template_find(&with, "{{ messages[0]['content'] }}\n");
    fb_template_find(&twice, "{{ messages[0]['content'] }}\n\n");
    assert_string_equal(with.family, "raw");
    assert_string_not_equal(with.sha256, without.sha256); /* of the file's own text */
    assert_null(twice.family);
}

/* --- folders -------------------------------------------------------------------- */

static char folder[TEST_PATH];

static void put(const char *name, const char *text)
{
    assert_ok(fb_file_write(test_path(folder, name), text, strlen(text)));
}

/* The text that is found; NULL: none. */
static void found(const char *wanted)
{
    fb_text text = {0};
    bool is_there;

    assert_ok(fb_template_read(&text, &is_there, folder));
    assert_int_equal(is_there, wanted != NULL);
    if (wanted != NULL) assert_string_equal(fb_text_string(&text), wanted);
    fb_text_clear(&text);
}

static void not_read(fb_status wanted, const char *words)
{
    fb_text text = {0};
    bool is_there;

    assert_fails(fb_template_read(&text, &is_there, folder), wanted, words);
    fb_text_clear(&text);
}

static void a_folders_template_is_in_one_of_two_files(void **state)
{
    static const char config[] = "tokenizer_config.json";

    (void)state;
    test_folder(folder);
    found(NULL);
    put(config, "{\"eos_token\": \"</s>\", \"chat_template\": null}");
    found(NULL);
    put(config, "{\"chat_template\": \"{{ a }}\\n\\u00e9\", \"x\": [1]}");
    found("{{ a }}\n\xc3\xa9");
    put(config, "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"}, "
                "{\"template\": \"d\", \"name\": \"default\"}]}");
    found("d");
    put(config, "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"t\"}]}");
    not_read(FB_UNSUPPORTED,
             "tokenizer_config.json: none of its chat templates is called "
             "'default'");
    put(config, "{\"chat_template\": 5}");
    not_read(FB_FORMAT, "tokenizer_config.json: line 1, column 19: a string would be");
    put(config, "{\"chat_template\": \"a\\u0000b\"}");
    not_read(FB_FORMAT, "the chat template holds a zero byte");
    put("chat_template.jinja", "{{ file }}"); /* comes first */
    found("{{ file }}");
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_a_template_has_none),
        cmocka_unit_test(the_built_in_models_template_adds_nothing),
        cmocka_unit_test(an_unknown_template_is_refused_with_the_way_out),
        cmocka_unit_test(a_chosen_family_replaces_the_files),
        cmocka_unit_test(an_unknown_family_changes_nothing),
        cmocka_unit_test(a_newline_at_the_end_does_not_count),
        cmocka_unit_test(a_folders_template_is_in_one_of_two_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
