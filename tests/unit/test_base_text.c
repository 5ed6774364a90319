/* test_base_text.c - growing strings, near words, numbers in text, UTF-8.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/test.h"

#include <limits.h>
#include <locale.h>
#include <math.h>

static void a_text_grows_and_always_ends_in_a_zero(void **state)
{
    fb_text text;

    (void)state;
    fb_text_init(&text, 0);
    assert_string_equal(fb_text_string(&text), "");
    for (int i = 0; i < 1000; i++)
        fb_text_printf(&text, "%03d,", i);
    assert_ok(fb_text_status(&text));
    assert_int_equal(text.n, 4000);
    assert_int_equal(strlen(fb_text_string(&text)), 4000);
    assert_memory_equal(fb_text_string(&text) + 3996, "999,", 5);
    fb_text_clear(&text);
    assert_string_equal(fb_text_string(&text), "");
    fb_text_add(&text, NULL, 0);
    assert_string_equal(fb_text_string(&text), "");
    fb_text_clear(&text);
}

static void a_text_stops_at_its_largest_size_and_says_so_once(void **state)
{
    fb_text text;

    (void)state;
    fb_text_init(&text, 5);
    fb_text_puts(&text, "abc");
    fb_text_puts(&text, "def");
    fb_text_puts(&text, "g"); /* would fit, but comes after a failure */
    assert_string_equal(fb_text_string(&text), "abc");
    assert_fails(fb_text_status(&text), FB_NO_MEMORY, "5 bytes");
    fb_text_clear(&text);
    fb_text_puts(&text, "abcde");
    assert_ok(fb_text_status(&text));
    fb_text_printf(&text, "%s", "f");
    assert_int_equal(text.n, 5);
    assert_fails(fb_text_status(&text), FB_NO_MEMORY, "5 bytes");
    fb_text_clear(&text);
}

static void a_text_survives_a_lack_of_memory(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_text_puts(&text, "kept");
    fb_memory_fail_at(1);
    for (int i = 0; i < 100; i++)
        fb_text_puts(&text, "more than fits at first");
    assert_memory_equal(fb_text_string(&text), "kept", 4);
    assert_fails(fb_text_status(&text), FB_NO_MEMORY, "memory");
    fb_text_clear(&text);
    fb_memory_fail_at(0);
}

static void distances_of_words_are_the_fewest_edits(void **state)
{
    static const struct {
        const char *a, *b;
        int distance;
    } known[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"snapkv", "snapkv", 0},
        {"snapvk", "snapkv", 1},
        {"kitten", "sitting", 3},
        {"ca", "abc", 3},
        {"h2o", "h20", 1},
        {"tova", "toa", 1},
        {"ab", "ba", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(fb_word_distance(known[i].a, known[i].b), known[i].distance);
        assert_int_equal(fb_word_distance(known[i].b, known[i].a), known[i].distance);
    }
    assert_int_equal(fb_word_distance("x", "a word of more than sixty-three bytes is "
                                           "infinitely far from all others"),
                     INT_MAX);
}

static void only_a_word_that_may_be_meant_is_suggested(void **state)
{
    const char *const words[] = {"snapkv", "h2o", "tova", "streaming_llm", "knorm"};

    (void)state;
    assert_string_equal(fb_nearest_word("snapvk", words, 5), "snapkv");
    assert_string_equal(fb_nearest_word("h20", words, 5), "h2o");
    assert_string_equal(fb_nearest_word("streamingllm", words, 5), "streaming_llm");
    assert_null(fb_nearest_word("pizza", words, 5));
    assert_null(fb_nearest_word("x", words, 5));
    assert_null(fb_nearest_word("", words, 5));
    assert_null(fb_nearest_word("snapkv", words, 0));
}

static void integers_are_whole_strings_that_fit(void **state)
{
    const char *const bad[] = {"",     "-",   " 1",  "1 ",  "1.0",
                               "0x10", "1e3", "--1", "1,2", "9223372036854775808",
                               "on"};
    int64_t value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(fb_parse_int(bad[i], &value));
    assert_int_equal(value, 7);
    assert_true(fb_parse_int("012", &value) && value == 12);
    assert_true(fb_parse_int("+5", &value) && value == 5);
    assert_true(fb_parse_int("-9223372036854775808", &value) && value == INT64_MIN);
}

static void reals_are_whole_finite_strings(void **state)
{
    const char *const bad[] = {"",    "-",     " 1", "1 ", "1,5",   "0x1p3", "nan",
                               "inf", "1e999", ".",  "e5", "1.2.3", "1-2"};
    double value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(fb_parse_real(bad[i], &value));
    assert_true(value == 7);
    assert_true(fb_parse_real("0.2", &value) && value == 0.2);
    assert_true(fb_parse_real("-1e-3", &value) && value == -0.001);
    assert_true(fb_parse_real(".5", &value) && value == 0.5);
}

static void written_reals_are_the_shortest_that_read_back(void **state)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0, "0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e22, "1e+22"},
        {5e-324, "5e-324"},
        {-2.5, "-2.5"},
        {0.1 + 0.2, "0.30000000000000004"},
        {123456789, "123456789"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fb_text text = {0};
        double back;

        fb_text_add_real(&text, known[i].value);
        assert_string_equal(fb_text_string(&text), known[i].text);
        assert_true(fb_parse_real(fb_text_string(&text), &back));
        assert_true(back == known[i].value);
        fb_text_clear(&text);
    }
}

static void plain_numbers_have_no_exponent(void **state)
{
    static const struct {
        double value;
        const char *text;
    } known[] = {
        {0, "0"},
        {23500000, "23500000"},
        {4718592.5, "4718592.5"},
        {11781120.0 / 7, "1683017.142857143"},
        {-1e6, "-1000000"},
        {9007199254740994, "9007199254740994"},
        {1e22, "10000000000000000000000"},
        {(double)NAN, "nan"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fb_text text = {0};

        fb_text_add_plain(&text, known[i].value);
        assert_string_equal(fb_text_string(&text), known[i].text);
        fb_text_clear(&text);
    }
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    fb_text text = {0};
    double value;

    (void)state;
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
        skip_because("no locale with a decimal comma is installed");
    fb_text_add_real(&text, 0.5);
    fb_text_add_plain(&text, 1.5);
    assert_string_equal(fb_text_string(&text), "0.51.5");
    assert_true(fb_parse_real("0.5", &value) && value == 0.5);
    assert_false(fb_parse_real("0,5", &value));
    fb_text_clear(&text);
    (void)setlocale(LC_ALL, "C");
}

static void utf8_is_what_the_unicode_standard_says(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
        bool is_cut;
    } known[] = {
        {"a", 1, false},
        {"\x7f", 1, false},
        {"\xc3\xa9", 2, false},
        {"\xe2\x82\xac", 3, false},
        {"\xf0\x9f\x98\x80", 4, false},
        {"\xf4\x8f\xbf\xbf", 4, false},
        {"\x80", 0, false},
        {"\xc0\x80", 0, false},
        {"\xc1\xbf", 0, false},
        {"\xc3", 0, true},
        {"\xc3(", 0, false},
        {"\xe0\x9f\xbf", 0, false},
        {"\xed\xa0\x80", 0, false},
        {"\xf0\x8f\xbf\xbf", 0, false},
        {"\xf4\x90\x80\x80", 0, false},
        {"\xf5\x80\x80\x80", 0, false},
        {"\xff", 0, false},
        {"\xe2\x82", 0, true},
        {"\xf0\x9f\x98", 0, true},
        {"\xf0\x9f", 0, true},
        {"\xf0\x8f", 0, false},
        {"\xed\xa0", 0, false},
        {"\xe2\x82(", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const size_t n = strlen(known[i].bytes);

        assert_int_equal(fb_utf8_length(known[i].bytes, n), known[i].length);
        assert_int_equal(fb_utf8_is_cut(known[i].bytes, n), known[i].is_cut);
    }
    assert_false(fb_utf8_is_cut("", 0));
    assert_int_equal(fb_utf8_length("", 0), 0);
    assert_int_equal(fb_utf8_length("", 1), 1); /* the zero byte is a character */
}

static void one_is_singular(void **state)
{
    (void)state;
    assert_string_equal(fb_plural(1, "entry", "entries"), "entry");
    assert_string_equal(fb_plural(0, "entry", "entries"), "entries");
    assert_string_equal(fb_plural(2, "entry", "entries"), "entries");
    assert_string_equal(fb_plural((int64_t)1 << 32, "entry", "entries"), "entries");
}

/* What a shell makes of the quoted word, into `out`. */
static void ask_shell(const char *word, char out[256])
{
    fb_text command = {0};
    FILE *shell;
    size_t n;

    fb_text_puts(&command, "printf %s ");
    fb_text_add_quoted(&command, word);
    shell = popen(fb_text_string(&command), "r"); /* NOLINT: that is the test */
    assert_non_null(shell);
    n = fread(out, 1, 255, shell);
    out[n] = 0;
    assert_int_equal(pclose(shell), 0);
    fb_text_clear(&command);
}

static void a_shell_reads_a_quoted_word_back(void **state)
{
    static const char *const words[] = {"",
                                        "a b",
                                        "it's",
                                        "''",
                                        "$HOME",
                                        "`id`",
                                        "a;b&c|d",
                                        "*?[x]",
                                        "~",
                                        "#a",
                                        "!a",
                                        "a\\b",
                                        "\"q\"",
                                        "a\nb",
                                        "\xc3\xa9t\xc3\xa9",
                                        "rule=f(x),sample=a/b",
                                        "{a,b}",
                                        "<>"};
    fb_text text = {0};
    char back[256];

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ask_shell(words[i], back);
        assert_string_equal(back, words[i]);
    }
    fb_text_add_quoted(&text, "out/results-1.db");
    assert_string_equal(fb_text_string(&text), "out/results-1.db");
    fb_text_clear(&text);
    fb_text_add_quoted(&text, "it's");
    assert_string_equal(fb_text_string(&text), "'it'\\''s'");
    fb_text_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_grows_and_always_ends_in_a_zero),
        cmocka_unit_test(a_text_stops_at_its_largest_size_and_says_so_once),
        cmocka_unit_test(a_text_survives_a_lack_of_memory),
        cmocka_unit_test(distances_of_words_are_the_fewest_edits),
        cmocka_unit_test(only_a_word_that_may_be_meant_is_suggested),
        cmocka_unit_test(integers_are_whole_strings_that_fit),
        cmocka_unit_test(reals_are_whole_finite_strings),
        cmocka_unit_test(written_reals_are_the_shortest_that_read_back),
        cmocka_unit_test(plain_numbers_have_no_exponent),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(utf8_is_what_the_unicode_standard_says),
        cmocka_unit_test(one_is_singular),
        cmocka_unit_test(a_shell_reads_a_quoted_word_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
