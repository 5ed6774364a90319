/* test_base_shown.c - whatever a model says, a terminal obeys none of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/shown.h"
#include "tests/support/test.h"

#include <flexbudget/task.h>

static const char *lines_of(const char *bytes, size_t n, int indent)
{
    static fb_text text;

    fb_text_clear(&text);
    fb_show_lines(bytes, n, indent, &text);
    assert_ok(fb_text_status(&text));
    return fb_text_string(&text);
}

static const char *wrapped(const char *bytes, bool grows, int width, int *n_out)
{
    static fb_text text;
    int n;

    fb_text_clear(&text);
    n = fb_show_wrapped(bytes, strlen(bytes), grows, 2, width, &text);
    if (n_out != NULL) *n_out = n;
    assert_ok(fb_text_status(&text));
    return fb_text_string(&text);
}

static void what_a_terminal_would_obey_is_spelled_out(void **state)
{
    static const struct {
        const char *said, *shown;
    } known[] = {
        {"plain", "plain\n"},
        {"a\tb", "a    b\n"},
        {"\033[2J\a", "\\x1b[2J\\x07\n"},
        {"a\r\nb\x7f", "a\\x0d\nb\\x7f\n"},
        {"\xc2\x9b"
         "31m",
         "\\u009b31m\n"},                          /* the CSI of eight bits */
        {"\xe2\x80\xae lived", "\\u202e lived\n"}, /* right to left */
        {"\xe2\x80\xa8", "\\u2028\n"},             /* a line separator */
        {"\xff\xc3(", "\\xff\\xc3(\n"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n"},
        {"", ""},
        {"\n\na", "\n\na\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_string_equal(lines_of(known[i].said, strlen(known[i].said), 0),
                            known[i].shown);
    assert_string_equal(lines_of("a\0b", 3, 2), "  a\\x00b\n");
}

static void a_character_is_held_back_until_it_is_whole(void **state)
{
    static const char euro[] = "5 \xe2\x82\xac";
    fb_glyph glyph;

    (void)state;
    assert_int_equal(fb_show_next(euro + 2, 0, true, &glyph), 0);
    assert_int_equal(fb_show_next(euro + 2, 1, true, &glyph), 0);
    assert_int_equal(fb_show_next(euro + 2, 2, true, &glyph), 0);
    assert_int_equal(fb_show_next(euro + 2, 3, true, &glyph), 3);
    assert_string_equal(glyph.text, "\xe2\x82\xac");
    assert_int_equal(glyph.width, 1);
    assert_int_equal(fb_show_next(euro + 2, 2, false, &glyph),
                     1); /* it never will be */
    assert_string_equal(glyph.text, "\\xe2");
    assert_int_equal(fb_show_next("\xe2(", 2, true, &glyph), 1);
    assert_string_equal(wrapped("5 \xe2\x82", true, 40, NULL), "  5\n");
    assert_string_equal(wrapped("5 \xe2\x82", false, 40, NULL), "  5 \\xe2\\x82\n");
}

static void lines_are_broken_between_words(void **state)
{
    int n;

    (void)state;
    assert_string_equal(wrapped("one two three", false, 10, &n),
                        "  one two\n  three\n");
    assert_int_equal(n, 2);
    assert_string_equal(wrapped("one  two\n\n  four", false, 40, &n),
                        "  one  two\n\n    four\n");
    assert_int_equal(n, 3);
    assert_string_equal(wrapped("abcdefghijklm", false, 10, &n),
                        "  abcdefg\n  hijklm\n");
    assert_int_equal(n, 2);
    /* two columns each */
    assert_string_equal(wrapped("\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97", false, 8, &n),
                        "  \xe5\xad\x97\xe5\xad\x97\n  \xe5\xad\x97\n");
    assert_int_equal(n, 2);
    assert_string_equal(wrapped("", false, 10, &n), "");
    assert_int_equal(n, 0);
}

/* No control character, no byte that is not UTF-8, no line that reaches the width, and as
 * many lines as are told. */
static void check_shown(const char *text, int width, int n)
{
    size_t left = strlen(text);
    int column = 0;

    while (left > 0) {
        fb_glyph glyph;
        const size_t taken = fb_show_next(text, left, false, &glyph);

        assert_true(taken > 0);
        if (!glyph.ends_line) {
            assert_memory_equal(glyph.text, text, taken); /* shown as it is */
            assert_int_equal(strlen(glyph.text), taken);
        }
        column = glyph.ends_line ? 0 : column + glyph.width;
        assert_true(width == 0 || column < width);
        n -= glyph.ends_line;
        text += taken;
        left -= taken;
    }
    assert_int_equal(column, 0);
    assert_int_equal(n, 0);
}

/* Half of the bytes are those that make trouble. */
static void any_bytes_are_shown(void **state)
{
    static const char often[] = "\n  \t\033\xe2\x80\xae\xc2\xf0\x9f\x98\x80\xcc\x81";
    fb_random random;
    char bytes[300];

    (void)state;
    fb_random_seed(&random, 5, 1);
    for (int64_t i = 0; i < long_or_short(100000, 3000); i++) {
        const size_t n = (size_t)fb_random_below(&random, sizeof bytes);
        const int width = 12 + (int)fb_random_below(&random, 60);
        fb_text text = {0};
        int lines;

        for (size_t b = 0; b < n; b++)
            bytes[b] = fb_random_below(&random, 2) == 0
                           ? often[fb_random_below(&random, sizeof often - 1)]
                           : (char)fb_random_below(&random, 256);
        lines = fb_show_wrapped(bytes, n, i % 2 == 0, 2, width, &text);
        assert_ok(fb_text_status(&text));
        check_shown(fb_text_string(&text), width, lines);
        fb_text_clear(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_terminal_would_obey_is_spelled_out),
        cmocka_unit_test(a_character_is_held_back_until_it_is_whole),
        cmocka_unit_test(lines_are_broken_between_words),
        cmocka_unit_test(any_bytes_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
