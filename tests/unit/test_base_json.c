/* test_base_json.c - JSON is read strictly and written so that it reads back.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "tests/support/test.h"

#include <math.h>

static fb_status parse(fb_json **out, const char *text)
{
    return fb_json_parse(out, text, strlen(text));
}

static void values_come_back_with_their_types(void **state)
{
    fb_json *root;
    int64_t i;
    double x;
    bool yes;

    (void)state;
    assert_ok(parse(&root, "{\"s\": \"a\\u00e9\", \"i\": 9007199254740993, \"x\": 0.5,"
                           " \"t\": true, \"n\": null, \"a\": [1, 2, 3]}"));
    assert_string_equal(fb_json_string(fb_json_get(root, "s")), "a\xc3\xa9");
    assert_true(fb_json_int(fb_json_get(root, "i"), &i) && i == 9007199254740993);
    assert_true(fb_json_real(fb_json_get(root, "x"), &x) && x == 0.5);
    assert_true(fb_json_bool(fb_json_get(root, "t"), &yes) && yes);
    assert_true(fb_json_is_null(fb_json_get(root, "n")));
    assert_int_equal(fb_json_count(fb_json_get(root, "a")), 3);
    assert_true(fb_json_int(fb_json_at(fb_json_get(root, "a"), 2), &i) && i == 3);
    assert_null(fb_json_at(fb_json_get(root, "a"), 3));
    assert_null(fb_json_get(root, "none"));
    assert_false(fb_json_int(fb_json_get(root, "x"), &i));
    assert_false(fb_json_bool(fb_json_get(root, "i"), &yes));
    assert_null(fb_json_string(fb_json_get(root, "i")));
    fb_json_free(root);
}

static void nothing_is_of_no_type(void **state)
{
    int64_t i;
    double x;
    bool yes;

    (void)state;
    assert_false(fb_json_is_object(NULL) || fb_json_is_array(NULL) ||
                 fb_json_is_null(NULL));
    assert_null(fb_json_string(NULL));
    assert_false(fb_json_int(NULL, &i) || fb_json_real(NULL, &x) ||
                 fb_json_bool(NULL, &yes));
    assert_int_equal(fb_json_count(NULL), 0);
    assert_null(fb_json_at(NULL, 0));
    assert_null(fb_json_get(NULL, "key"));
    assert_null(fb_json_first(NULL));
    assert_string_equal(fb_json_type(NULL), "nothing");
    fb_json_free(NULL);
}

static void members_keep_the_order_of_the_text(void **state)
{
    fb_json *root;
    char keys[8] = "";

    (void)state;
    assert_ok(parse(&root, "{\"z\": 1, \"a\": 2, \"m\": 3}"));
    for (void *m = fb_json_first(root); m != NULL; m = fb_json_next(root, m)) {
        int64_t value;

        strcat(keys, fb_json_key(m));
        assert_true(fb_json_int(fb_json_value(m), &value));
        assert_int_equal(value, strlen(keys));
    }
    assert_string_equal(keys, "zam");
    fb_json_free(root);
}

static void what_is_not_strict_json_is_refused(void **state)
{
    const char *const bad[] = {
        "",
        "3",
        "{\"a\": 1,}",
        "{'a': 1}",
        "[1] 2",
        "[NaN]",
        "[1e400]",
        "[\"\\u0000\"]",
        "[01]",
        "[\"\xff\"]",
        "[\"\\ud800\"]",
        "{\"a\": 1",
        "[9223372036854775808]",
        "[+1]",
        "// x\n[]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fb_json *root = NULL;

        assert_fails(parse(&root, bad[i]), FB_FORMAT, "column");
        assert_null(root);
    }
}

static void duplicate_keys_are_refused_with_their_place(void **state)
{
    fb_json *root;

    (void)state;
    assert_fails(parse(&root, "{\"a\": 1, \"a\": 2}"), FB_FORMAT,
                 "duplicate object key near '\"a\"' (column 12)");
    assert_fails(parse(&root, "{\"a\": 1,\n \"a\": 2}"), FB_FORMAT, "line 2, column 4");
}

static void deep_nesting_is_refused_without_harm(void **state)
{
    enum { DEPTH = 100000 };
    char *text = fb_alloc(FB_ACCOUNT_other, DEPTH);
    fb_json *root;

    (void)state;
    assert_non_null(text);
    memset(text, '[', DEPTH);
    assert_fails(fb_json_parse(&root, text, DEPTH), FB_FORMAT, "depth");
    fb_free(text);
}

static void missing_members_are_named_with_what_they_must_be(void **state)
{
    const char *string;
    int64_t i;
    double x;
    fb_json *root, *value;

    (void)state;
    assert_ok(parse(&root, "{\"s\": \"x\", \"i\": 3, \"o\": {}, \"a\": []}"));
    assert_ok(fb_json_want_string(&string, root, "s"));
    assert_string_equal(string, "x");
    assert_ok(fb_json_want_int(&i, root, "i"));
    assert_int_equal(i, 3);
    assert_ok(fb_json_want_real(&x, root, "i"));
    assert_true(x == 3);
    assert_ok(fb_json_want_object(&value, root, "o"));
    assert_ok(fb_json_want_array(&value, root, "a"));
    assert_fails(fb_json_want_string(&string, root, "none"), FB_FORMAT,
                 "'none' is missing; a string is needed");
    assert_fails(fb_json_want_int(&i, root, "s"), FB_FORMAT,
                 "'s' is a string; an integer is needed");
    assert_fails(fb_json_want_real(&x, root, "o"), FB_FORMAT,
                 "'o' is an object; a number is needed");
    assert_fails(fb_json_want_object(&value, root, "a"), FB_FORMAT,
                 "'a' is an array; an object is needed");
    assert_fails(fb_json_want_array(&value, root, "i"), FB_FORMAT,
                 "'i' is an integer; an array is needed");
    fb_json_free(root);
}

static void every_allocation_is_ours_and_may_fail(void **state)
{
    const char *text = "{\"a\": [1, 2.5, \"three\"], \"b\": {\"c\": null}, "
                       "\"a key of many bytes\": true}";
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;

    (void)state;
    for (int64_t n = 1; status != FB_OK; n++) {
        fb_json *root;

        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = parse(&root, text);
        assert_true(status == FB_OK || (root == NULL && status != FB_OK));
        if (status == FB_OK) assert_true(fb_memory_now(FB_ACCOUNT_other) > before);
        if (status == FB_OK) assert_non_null(fb_json_get(root, "a key of many bytes"));
        fb_json_free(root);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    fb_memory_fail_at(0);
}

static void written_strings_read_back(void **state)
{
    const char *const strings[] = {"",
                                   "plain",
                                   "a\"b\\c/d",
                                   "\b\f\n\r\t\x01\x7f",
                                   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                                   "</script>"};

    (void)state;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        fb_text text = {0};
        fb_json *root;

        fb_text_puts(&text, "[");
        fb_json_add_string(&text, strings[i]);
        fb_text_puts(&text, "]");
        assert_ok(fb_text_status(&text));
        assert_ok(parse(&root, fb_text_string(&text)));
        assert_string_equal(fb_json_string(fb_json_at(root, 0)), strings[i]);
        fb_json_free(root);
        fb_text_clear(&text);
    }
}

static void bytes_that_are_not_utf8_are_replaced(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_json_add_bytes(&text, "a\xff\xc3z\0b", 6);
    assert_string_equal(fb_text_string(&text),
                        "\"a\xef\xbf\xbd\xef\xbf\xbdz\\u0000b\"");
    fb_text_clear(&text);
}

static void numbers_that_json_cannot_say_are_null(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_json_add_real(&text, (double)NAN);
    fb_text_puts(&text, ",");
    fb_json_add_real(&text, (double)-INFINITY);
    fb_text_puts(&text, ",");
    fb_json_add_real(&text, 0.1);
    assert_string_equal(fb_text_string(&text), "null,null,0.1");
    fb_text_clear(&text);
}

static void files_are_read_up_to_a_size(void **state)
{
    char folder[TEST_PATH];
    fb_json *root;

    (void)state;
    test_folder(folder);
    test_write(test_path(folder, "x.json"), "{\"a\": 1}");
    assert_ok(fb_json_read(&root, test_path(folder, "x.json"), 8));
    assert_int_equal(fb_json_count(root), 1);
    fb_json_free(root);
    assert_fails(fb_json_read(&root, test_path(folder, "x.json"), 7), FB_FORMAT,
                 "larger than 7 bytes");
    assert_null(root);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_with_their_types),
        cmocka_unit_test(nothing_is_of_no_type),
        cmocka_unit_test(members_keep_the_order_of_the_text),
        cmocka_unit_test(what_is_not_strict_json_is_refused),
        cmocka_unit_test(duplicate_keys_are_refused_with_their_place),
        cmocka_unit_test(deep_nesting_is_refused_without_harm),
        cmocka_unit_test(missing_members_are_named_with_what_they_must_be),
        cmocka_unit_test(every_allocation_is_ours_and_may_fail),
        cmocka_unit_test(written_strings_read_back),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(numbers_that_json_cannot_say_are_null),
        cmocka_unit_test(files_are_read_up_to_a_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
