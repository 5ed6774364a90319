/* test_report_html.c - what goes into the page is text, and numbers keep their digits.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/html.h"

#include "base/memory.h"
#include "tests/support/test.h"

#include <math.h>

static void expect(fb_text *text, const char *expected)
{
    assert_string_equal(fb_text_string(text), expected);
    fb_text_clear(text);
}

static void markup_in_words_is_escaped(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_text(&text, "</script><a b='c' d=\"e\">&");
    expect(&text, "&lt;/script&gt;&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    fb_html(&text, "<i>%s</i>%d%%", "<b>", 7);
    expect(&text, "<i>&lt;b&gt;</i>7%");
    fb_html_text(&text, NULL);
    expect(&text, "");
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_text(&text, "a\xFFz \xC0\xAF \xED\xA0\x80 \x01\x7F\n\xE2\x88\x92");
    expect(&text, "a\uFFFDz \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD \uFFFD\uFFFD\n\u2212");
    fb_html_text(&text, "cut \xE2\x88");
    expect(&text, "cut \uFFFD\uFFFD");
}

static void long_names_may_break_at_their_joints(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_breakable(&text, "a_b/c(d,e");
    expect(&text, "a_<wbr>b/<wbr>c(<wbr>d,<wbr>e");
}

static void numbers_stay_with_their_units(void **state)
{
    static const char prose[] = "KL 0.5 nat at 20 % (p < 0.001) of it";
    fb_text text = {0};

    (void)state;
    fb_html_prose(&text, prose, sizeof prose - 1);
    expect(&text, "KL 0.5\u00A0nat at 20\u00A0% (p\u00A0&lt;\u00A00.001) of it");
}

static void cells_show_few_digits_and_carry_all(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_cell(&text, 0.1, 2);
    expect(&text, "<td data-v=\"0.1\">0.10</td>");
    fb_html_signed_cell(&text, -1.68249, 2);
    expect(&text, "<td data-v=\"-1.68249\">\u22121.68</td>");
    fb_html_interval_cell(&text, (fb_interval){-0.001, 2.5}, 2, true);
    expect(&text, "<td data-v=\"-0.001 to 2.5\">0.00 to +2.50</td>");
    fb_html_p_cell(&text, 0.0005);
    expect(&text, "<td data-v=\"0.0005\">&lt;0.001</td>");
}

static void what_is_no_number_is_a_dash(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_cell(&text, (double)NAN, 2);
    expect(&text, "<td data-v=\"\">\u2013</td>");
    fb_html_interval_cell(&text, (fb_interval){(double)NAN, 1}, 2, false);
    expect(&text, "<td></td>");
    fb_html_bytes_cell(&text, (double)NAN);
    expect(&text, "<td data-v=\"\">\u2013</td>");
    fb_html_share_cell(&text, (double)NAN);
    expect(&text, "<td data-v=\"\">\u2013</td>");
}

static void shares_are_percents_and_days_have_names(void **state)
{
    fb_text text = {0};

    (void)state;
    fb_html_share_cell(&text, 0.125);
    expect(&text, "<td data-v=\"0.125\">12\u00a0%</td>");
    fb_html_share_cell(&text, 0.0625);
    expect(&text, "<td data-v=\"0.0625\">6.2\u00a0%</td>");
    fb_html_date(&text, "2026-11-29T17:14:04Z");
    expect(&text, "29 November 2026");
    fb_html_date(&text, "some <day>");
    expect(&text, "some &lt;day&gt;");
}

static void json_in_a_script_has_no_less_sign(void **state)
{
    static const char json[] = "{\"a\": \"</script><!--\"}";
    fb_text text = {0};

    (void)state;
    fb_html_json(&text, json, sizeof json - 1);
    expect(&text, "{\"a\": \"\\u003c/script>\\u003c!--\"}");
}

static void a_cut_never_parts_a_character(void **state)
{
    static const char text[] = "a\u2212b"; /* 1 + 3 + 1 bytes */

    (void)state;
    assert_int_equal(fb_utf8_cut(text, 5, 9), 5);
    assert_int_equal(fb_utf8_cut(text, 5, 4), 4);
    assert_int_equal(fb_utf8_cut(text, 5, 3), 1);
    assert_int_equal(fb_utf8_cut(text, 5, 2), 1);
    assert_int_equal(fb_utf8_cut(text, 5, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markup_in_words_is_escaped),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(long_names_may_break_at_their_joints),
        cmocka_unit_test(numbers_stay_with_their_units),
        cmocka_unit_test(cells_show_few_digits_and_carry_all),
        cmocka_unit_test(what_is_no_number_is_a_dash),
        cmocka_unit_test(shares_are_percents_and_days_have_names),
        cmocka_unit_test(json_in_a_script_has_no_less_sign),
        cmocka_unit_test(a_cut_never_parts_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
