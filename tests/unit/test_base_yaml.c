/* test_base_yaml.c - a text becomes a tree with places; what invites mistakes does not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/yaml.h"
#include "tests/support/test.h"

static fb_status parse(fb_yaml **out, const char *text)
{
    return fb_yaml_parse(out, "x.yaml", text, strlen(text));
}

static void maps_lists_and_scalars_keep_order_and_place(void **state)
{
    const fb_yaml_node *root, *rules, *item;
    fb_yaml *yaml;

    (void)state;
    assert_ok(parse(&yaml, "name: quick\n"
                           "rules: [snapkv, 'h2o']\n"
                           "# a remark\n"
                           "protocol:\n"
                           "  query: on\n"));
    root = fb_yaml_root(yaml);
    assert_int_equal(root->kind, FB_YAML_MAP);
    assert_int_equal(root->n, 3);
    rules = fb_yaml_get(root, "rules");
    assert_int_equal(rules->kind, FB_YAML_LIST);
    assert_int_equal(rules->n, 2);
    assert_int_equal(rules->key_place.line, 2);
    assert_int_equal(rules->key_place.column, 1);
    assert_int_equal(rules->key_place.width, 5);
    item = rules->first;
    assert_string_equal(item->text, "snapkv");
    assert_false(item->is_quoted);
    assert_int_equal(item->place.column, 9);
    assert_string_equal(item->next->text, "h2o");
    assert_true(item->next->is_quoted);
    assert_null(item->next->next);
    assert_string_equal(fb_yaml_get(fb_yaml_get(root, "protocol"), "query")->text,
                        "on");
    assert_null(fb_yaml_get(root, "none"));
    assert_null(fb_yaml_get(rules, "snapkv"));
    fb_yaml_free(yaml);
}

static void scalars_stay_text(void **state)
{
    const char *const scalars[] = {"on",   "no",         "012", "1e3",
                                   "0x10", "2026-11-29", "yes"};

    (void)state;
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        fb_yaml *yaml;

        assert_ok(parse(&yaml, scalars[i]));
        assert_string_equal(fb_yaml_root(yaml)->text, scalars[i]);
        assert_false(fb_yaml_is_null(fb_yaml_root(yaml)));
        fb_yaml_free(yaml);
    }
}

static void null_is_plain_and_empty(void **state)
{
    fb_yaml *yaml;
    const fb_yaml_node *root;

    (void)state;
    assert_ok(parse(&yaml, "a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: []\n"));
    root = fb_yaml_root(yaml);
    assert_true(fb_yaml_is_null(fb_yaml_get(root, "a")));
    assert_true(fb_yaml_is_null(fb_yaml_get(root, "b")));
    assert_true(fb_yaml_is_null(fb_yaml_get(root, "c")));
    assert_false(fb_yaml_is_null(fb_yaml_get(root, "d")));
    assert_false(fb_yaml_is_null(fb_yaml_get(root, "e")));
    assert_false(fb_yaml_is_null(fb_yaml_get(root, "f")));
    fb_yaml_free(yaml);
}

static void what_invites_mistakes_is_refused_at_its_place(void **state)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        {"a: 1\na: 2\n", "x.yaml:2:1: key 'a' is already on line 1"},
        {"a: &x 1\n", "x.yaml:1:4: anchors"},
        {"a: &x [1]\n", "x.yaml:1:4: anchors"},
        {"a: &x {b: 1}\n", "x.yaml:1:4: anchors"},
        {"a: *x\n", "x.yaml:1:4: aliases"},
        {"a: !!str 1\n", "x.yaml:1:4: tags"},
        {"a: ! 1\n", "x.yaml:1:4: tags"},
        {"a: !x [1]\n", "x.yaml:1:4: tags"},
        {"a: !x {b: 1}\n", "x.yaml:1:4: tags"},
        {"<<: {a: 1}\n", "x.yaml:1:1: merging"},
        {"a: 1\n---\nb: 2\n", "x.yaml:2:1: a second document"},
        {"%YAML 1.1\n---\na: 1\n", "x.yaml:1:1: directives"},
        {"? [a]\n: 1\n", "x.yaml:1:3: a key must be a plain word"},
        {"a: \"\\0\"\n", "x.yaml:1:4: a text with a zero byte"},
        {"\"\\0\": 1\n", "x.yaml:1:1: a text with a zero byte"},
        {"a:\n\tb: 1\n", "x.yaml:2:1: a tab cannot indent"},
        {"a: b: c\n", "x.yaml:1:5: mapping values are not allowed"},
        {"a: [1, 2\n", "x.yaml:2:1: did not find expected ',' or ']'"},
        {"a: \xff\n", "x.yaml: byte 3: invalid leading UTF-8 octet"},
        {"a: \x01\n", "x.yaml: byte 3: control characters are not allowed"},
        {"", "x.yaml: the file is empty"},
        {"# only a remark\n", "x.yaml: the file is empty"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fb_yaml *yaml;

        assert_fails(parse(&yaml, bad[i].text), FB_FORMAT, bad[i].sentence);
        assert_null(yaml);
    }
}

static void thirty_two_levels_are_enough(void **state)
{
    char text[80];
    fb_yaml *yaml;

    (void)state;
    memset(text, '[', 31);
    memcpy(text + 31, "x", 1);
    memset(text + 32, ']', 31);
    assert_ok(fb_yaml_parse(&yaml, "x.yaml", text, 63));
    fb_yaml_free(yaml);
    memset(text, '[', 32);
    memcpy(text + 32, "x", 1);
    memset(text + 33, ']', 32);
    assert_fails(fb_yaml_parse(&yaml, "x.yaml", text, 65), FB_FORMAT,
                 "x.yaml:1:33: more than 32 levels");
}

static void a_mebibyte_is_enough(void **state)
{
    const size_t n = 1 << 20;
    char *text = fb_alloc(FB_ACCOUNT_other, n + 1);
    fb_yaml *yaml;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n + 1);
    assert_ok(fb_yaml_parse(&yaml, "x.yaml", text, n));
    assert_int_equal(strlen(fb_yaml_root(yaml)->text), n);
    fb_yaml_free(yaml);
    assert_fails(fb_yaml_parse(&yaml, "x.yaml", text, n + 1), FB_FORMAT, "1048576");
    fb_free(text);
}

static void a_failure_shows_the_line_and_a_caret(void **state)
{
    fb_yaml *yaml;
    const fb_yaml_node *node;

    (void)state;
    assert_ok(parse(&yaml, "a: 1\nbugets: [10%, 20%]\n"));
    node = fb_yaml_get(fb_yaml_root(yaml), "bugets");
    assert_int_equal(fb_yaml_fail(FB_USAGE, yaml, &node->key_place,
                                  "unknown key '%s'; did you mean '%s'?", "bugets",
                                  "budgets"),
                     FB_USAGE);
    assert_string_equal(fb_error_message(),
                        "x.yaml:2:1: unknown key 'bugets'; did you mean 'budgets'?\n"
                        "    2 | bugets: [10%, 20%]\n"
                        "      | ^~~~~~");
    fb_yaml_free(yaml);
}

static void long_and_strange_lines_are_shown_in_part(void **state)
{
    const fb_yaml_place far = {.line = 1, .column = 201, .width = 5};
    const fb_yaml_place nowhere = {.line = 99, .column = 99, .width = 99};
    char text[400];
    fb_yaml *yaml;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text + 200, "fault", 5);
    assert_ok(fb_yaml_parse(&yaml, "x.yaml", text, sizeof text));
    (void)fb_yaml_fail(FB_USAGE, yaml, &far, "here");
    assert_non_null(strstr(fb_error_message(), "| xxxxxxxxfaultxxx"));
    assert_non_null(strstr(fb_error_message(), "|         ^~~~~"));
    (void)fb_yaml_fail(FB_USAGE, yaml, &nowhere, "there");
    assert_non_null(strstr(fb_error_message(), "x.yaml:99:99: there"));
    fb_yaml_free(yaml);
    assert_ok(parse(&yaml, "\xc3\xa9\xc3\xa9: [\xe2\x82\xac, x]"));
    (void)fb_yaml_fail(FB_USAGE, yaml, &fb_yaml_root(yaml)->first->first->next->place,
                       "a letter");
    assert_string_equal(fb_error_message(),
                        "x.yaml:1:9: a letter\n"
                        "    1 | \xc3\xa9\xc3\xa9: [\xe2\x82\xac, x]\n"
                        "      |         ^");
    fb_yaml_free(yaml);
}

static void every_allocation_may_fail_and_nothing_leaks(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;

    (void)state;
    for (int64_t n = 1; status != FB_OK; n++) {
        fb_yaml *yaml;

        assert_true(n < 100);
        fb_memory_fail_at(n);
        status = parse(&yaml, "a: [1, {b: c}]\nd: e\n");
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        fb_yaml_free(yaml);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    fb_memory_fail_at(0);
}

static void files_are_read_and_named(void **state)
{
    char folder[TEST_PATH];
    fb_yaml *yaml;

    (void)state;
    test_folder(folder);
    test_write(test_path(folder, "x.yaml"), "a: 1\r\nb: 2\r\n");
    assert_ok(fb_yaml_read(&yaml, test_path(folder, "x.yaml")));
    assert_string_equal(fb_yaml_get(fb_yaml_root(yaml), "b")->text, "2");
    fb_yaml_free(yaml);
    test_write(test_path(folder, "x.yaml"), "\xef\xbb\xbf"
                                            "a: 1\nb: 3\n");
    assert_ok(fb_yaml_read(&yaml, test_path(folder, "x.yaml")));
    assert_string_equal(fb_yaml_get(fb_yaml_root(yaml), "a")->text, "1");
    assert_string_equal(fb_yaml_get(fb_yaml_root(yaml), "b")->text, "3");
    fb_yaml_free(yaml);
    assert_fails(fb_yaml_read(&yaml, test_path(folder, "none.yaml")), FB_NOT_FOUND,
                 "none.yaml: cannot open");
    assert_null(yaml);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_lists_and_scalars_keep_order_and_place),
        cmocka_unit_test(scalars_stay_text),
        cmocka_unit_test(null_is_plain_and_empty),
        cmocka_unit_test(what_invites_mistakes_is_refused_at_its_place),
        cmocka_unit_test(thirty_two_levels_are_enough),
        cmocka_unit_test(a_mebibyte_is_enough),
        cmocka_unit_test(a_failure_shows_the_line_and_a_caret),
        cmocka_unit_test(long_and_strange_lines_are_shown_in_part),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
        cmocka_unit_test(files_are_read_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
