/* test_model_template.c - chat templates are known by hash or not at all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

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
    assert_non_null(strstr(fb_error_message(), "'model.template: none'"));
    assert_non_null(strstr(fb_error_message(), "'model.template: chatml'"));
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
    assert_non_null(strstr(fb_error_message(), "'llama9'; auto, raw, none or chatml"));
    assert_string_equal(t.family, "raw");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_a_template_has_none),
        cmocka_unit_test(the_built_in_models_template_adds_nothing),
        cmocka_unit_test(an_unknown_template_is_refused_with_the_way_out),
        cmocka_unit_test(a_chosen_family_replaces_the_files),
        cmocka_unit_test(an_unknown_family_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
