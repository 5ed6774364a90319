/* test_base_json_scan.c - JSON walked over in place, as strictly as its use needs.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json_scan.h"
#include "tests/support/test.h"

static char text[1 << 12];

static fb_json_scan scan_of(const char *json)
{
    fb_json_scan s;

    (void)snprintf(text, sizeof text, "%s", json);
    fb_json_scan_init(&s, text, strlen(text));
    return s;
}

static void members_and_elements_come_in_order(void **state)
{
    fb_json_scan s =
        scan_of(" {\"a\" : [1, -2,\n3], \"b\": \"x\", \"c\": {\"d\": [true]} } ");
    fb_span key;
    int64_t sum = 0;

    (void)state;
    fb_json_scan_enter(&s, '{');
    assert_true(fb_json_scan_member(&s, &key) && fb_span_is(key, "a"));
    fb_json_scan_enter(&s, '[');
    while (fb_json_scan_element(&s))
        sum = 10 * sum + fb_json_scan_int(&s);
    assert_int_equal(sum, 83);
    assert_true(fb_json_scan_member(&s, &key) && fb_span_is(key, "b"));
    assert_true(fb_span_is(fb_json_scan_string(&s), "x"));
    assert_true(fb_json_scan_member(&s, &key) && fb_span_is(key, "c"));
    assert_int_equal(fb_json_scan_peek(&s), '{');
    assert_true(fb_span_is(fb_json_scan_raw(&s), "{\"d\": [true]}"));
    assert_false(fb_json_scan_member(&s, &key));
    fb_json_scan_finish(&s);
    assert_ok(fb_json_scan_status(&s));
}

static void strings_are_decoded_in_place(void **state)
{
    static const char *const rows[][2] = {
        {"\"\"", ""},
        {"\"a\\n\\\"\\\\\\/\\t\\u0041\"", "a\n\"\\/\tA"},
        {"\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\xc3\xa9\"", "\xc3\xa9"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fb_json_scan s = scan_of(rows[i][0]);

        assert_true(fb_span_is(fb_json_scan_string(&s), rows[i][1]));
        fb_json_scan_finish(&s);
        assert_ok(fb_json_scan_status(&s));
    }
}

static void broken_strings_are_refused(void **state)
{
    static const char *const rows[] = {
        "\"a",         "\"\\",        "\"\\x\"",     "\"\\u12",
        "\"\\u12g4\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83d\\u0041\"",
        "\"\xff\"",    "\"\n\"",      "5",           "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fb_json_scan s = scan_of(rows[i]);

        assert_int_equal(fb_json_scan_string(&s).n, 0);
        assert_int_equal(fb_json_scan_status(&s), FB_FORMAT);
    }
}

static void whole_numbers_are_whole(void **state)
{
    static const char *const rows[] = {"1.5",
                                       "1e3",
                                       "-",
                                       "99999999999999999999",
                                       "x",
                                       "\"1\"",
                                       "000000000000000000000000001"};
    fb_json_scan s = scan_of("-9223372036854775808");

    (void)state;
    assert_int_equal(fb_json_scan_int(&s), INT64_MIN);
    assert_ok(fb_json_scan_status(&s));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s = scan_of(rows[i]);
        (void)fb_json_scan_int(&s);
        assert_fails(fb_json_scan_status(&s), FB_FORMAT,
                     "a whole number would be right");
    }
}

/* The first failure stays, with its place. */
static void a_failure_is_kept_with_its_place(void **state)
{
    fb_json_scan s = scan_of("{\"a\": 1,\n  \"b\" 2}");
    fb_span key;

    (void)state;
    fb_json_scan_enter(&s, '{');
    assert_true(fb_json_scan_member(&s, &key));
    assert_int_equal(fb_json_scan_int(&s), 1);
    assert_false(fb_json_scan_member(&s, &key));
    assert_false(fb_json_scan_member(&s, &key));
    assert_int_equal(fb_json_scan_peek(&s), 0);
    assert_int_equal(fb_json_scan_raw(&s).n, 0);
    assert_fails(fb_json_scan_status(&s), FB_FORMAT,
                 "line 2, column 7: ':' would be right");
}

static void brackets_must_match_in_what_is_stepped_over(void **state)
{
    static const char *const good[] = {"{}", "[[], {\"]\": \"}\\\"\"}]", "null",
                                       "-1.5e3", "\"a\\\\\""};
    static const char *const bad[] = {"[}", "[", "{\"a\": [1, 2}", "]",
                                      ",",  "",  "[\"a]",          "\"\\"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fb_json_scan s = scan_of(good[i]);

        assert_true(fb_span_is(fb_json_scan_raw(&s), good[i]));
        fb_json_scan_finish(&s);
        assert_ok(fb_json_scan_status(&s));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fb_json_scan s = scan_of(bad[i]);

        (void)fb_json_scan_raw(&s);
        assert_int_equal(fb_json_scan_status(&s), FB_FORMAT);
    }
}

static void depth_is_limited(void **state)
{
    char deep[2 * FB_JSON_DEPTH + 8] = "";
    fb_json_scan s;

    (void)state;
    memset(deep, '[', FB_JSON_DEPTH + 1);
    s = scan_of(deep);
    (void)fb_json_scan_raw(&s);
    assert_fails(fb_json_scan_status(&s), FB_FORMAT, "less depth would be right");
    s = scan_of(deep);
    for (int i = 0; i <= FB_JSON_DEPTH; i++) {
        fb_json_scan_enter(&s, '[');
        (void)fb_json_scan_element(&s);
    }
    assert_fails(fb_json_scan_status(&s), FB_FORMAT, "less depth would be right");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_and_elements_come_in_order),
        cmocka_unit_test(strings_are_decoded_in_place),
        cmocka_unit_test(broken_strings_are_refused),
        cmocka_unit_test(whole_numbers_are_whole),
        cmocka_unit_test(a_failure_is_kept_with_its_place),
        cmocka_unit_test(brackets_must_match_in_what_is_stepped_over),
        cmocka_unit_test(depth_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
