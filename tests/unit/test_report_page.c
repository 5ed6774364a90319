/* test_report_page.c - the page as a text: its policy, its parts, what it leaves out.
 *
 * How it looks and behaves in a browser is tested in tests/page.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/report.h"

#include "base/file.h"
#include "base/hash.h"
#include "report/page.h"
#include "tests/support/fake_results.h"
#include "tests/support/test.h"

#include <unistd.h>

static const fake_shape usual = {.rules = 10, .budgets = 2, .tasks = 2, .samples = 8};

static void make_page(char **out, fake_shape shape, const fb_report_options *options)
{
    fake *f = fake_new(shape);
    const fb_analysis *analysis = &f->analysis;

    assert_non_null(f);
    assert_ok(fb_report_html(out, &analysis, 1, options));
    assert_non_null(*out);
    fake_free(f);
}

static int count(const char *text, const char *end, const char *word)
{
    int n = 0;

    while ((text = strstr(text, word)) != NULL && text < end) {
        n++;
        text += strlen(word);
    }
    return n;
}

/* The part before the data and the scripts. */
static const char *end_of_body(const char *html)
{
    const char *end = strstr(html, "<script type=\"application/json\"");

    assert_non_null(end);
    return end;
}

static int digit(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    assert_non_null(strchr(digits, c));
    return (int)(strchr(digits, c) - digits);
}

/* "'sha256-...'" of 43 digits and '=' as 64 hexadecimal digits. */
static void hex_of_base64(const char *from, char out[FB_HASH_HEX])
{
    uint32_t bits = 0;
    int n_bits = 0, n = 0;

    for (int i = 0; i < 43; i++) {
        bits = bits << 6 | (uint32_t)digit(from[i]);
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        (void)snprintf(out + n, 3, "%02x", bits >> n_bits & 255);
        n += 2;
    }
    assert_int_equal(from[43], '=');
    assert_int_equal(n, 64);
}

static void the_policy_names_both_scripts_by_their_hash(void **state)
{
    char *html;
    const char *hash, *script;

    (void)state;
    make_page(&html, usual, NULL);
    hash = script = html;
    for (int i = 0; i < 2; i++) {
        char named[FB_HASH_HEX], real[FB_HASH_HEX];
        const char *end;

        hash = strstr(hash, "'sha256-");
        script = strstr(script, "<script>");
        assert_non_null(hash);
        assert_non_null(script);
        hash += strlen("'sha256-");
        script += strlen("<script>");
        end = strstr(script, "</script>");
        assert_non_null(end);
        hex_of_base64(hash, named);
        fb_hash_bytes(script, (size_t)(end - script), real);
        assert_string_equal(named, real);
    }
    assert_null(strstr(hash, "'sha256-"));
    assert_non_null(strstr(html, "default-src 'none'"));
    fb_free(html);
}

static void hostile_words_never_become_markup(void **state)
{
    fake_shape shape = usual;
    char *html = NULL;
    const char *body, *end, *data;

    (void)state;
    shape.hostile = true;
    make_page(&html, shape, NULL);
    body = strstr(html, "<body>");
    end = end_of_body(html);
    assert_int_equal(count(body, end, "<img"), 0);
    assert_int_equal(count(body, end, "<script"), 0);
    assert_true(count(body, end, "&lt;img src=x") > 100);
    assert_int_equal(count(html, html + strlen(html), "<script"), 3);
    assert_int_equal(count(html, html + strlen(html), "</script>"), 3);
    data = strchr(end, '>') + 1;
    assert_true(strstr(data, "</script>") == strchr(data, '<')); /* none inside */
    fb_free(html);
}

static void every_part_is_there_without_a_script(void **state)
{
    static const char *const parts[] = {
        "id=\"e1-answer\"",
        "id=\"e1-quality\"",
        "id=\"e1-differences\"",
        "id=\"e1-tasks\"",
        "id=\"e1-samples\"",
        "id=\"e1-all\"",
        "id=\"e1-t-means-1\"",
        "id=\"e1-t-samples-1\"",
        "id=\"e1-t-differences-0\"",
        "id=\"e1-t-bytes-0\"",
        "observed_<wbr>attention",
        "fb1|<wbr>m:3f2a9c",
        "data-chart=\"order\"",
        "data-chart=\"quality\"",
        "data-chart=\"forest\"",
        "prefill, question not",
        "id=\"e1-memory\"",
        "id=\"e1-t-memory-0\"",
        "id=\"e1-t-accounts-1\"",
        "of the full cache: the budget bounds what stays",
        "Mean KL to the full cache, nat (task_0); f1, points (task_1); best",
    };
    char *html;
    const char *end;

    (void)state;
    make_page(&html, usual, NULL);
    end = end_of_body(html);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (count(html, end, parts[i]) == 0) fail_msg("the page has no %s", parts[i]);
    fb_free(html);
}

/* Beside the full cache all rules hold the same, and then one holds a byte more. */
static void rules_that_hold_the_same_stand_in_one_row(void **state)
{
    fake *f = fake_new(usual);
    const fb_analysis *analysis = &f->analysis;

    (void)state;
    for (int n_odd = 0; n_odd < 2; n_odd++) {
        char *html;
        const char *table, *end;

        for (int t = 0; t < f->analysis.n_tables; t++)
            for (int r = 0; r < f->tables[t].n_rows; r++)
                if (f->tables[t].rows[r].rule == 5)
                    f->tables[t].rows[r].memory[0][FB_ACCOUNT_kv] += n_odd;
        assert_ok(fb_report_html(&html, &analysis, 1, NULL));
        table = strstr(html, "id=\"e1-t-memory-0\"");
        assert_non_null(table);
        end = strstr(table, "</table>");
        assert_int_equal(count(table, end, "<th scope=\"row\">"), 2 + n_odd);
        assert_int_equal(count(table, end, "</span>, <span"), 8 - n_odd);
        fb_free(html);
    }
    fake_free(f);
}

/* What bounds both tasks alike is said below them, not below each. */
static void what_the_budget_bounds_is_said_once(void **state)
{
    char *html;

    (void)state;
    make_page(&html, usual, NULL);
    assert_int_equal(count(html, end_of_body(html), "the budget bounds what stays"), 1);
    fb_free(html);
}

/* Below the numbers of quality and of differences, for each task. */
static void intervals_of_few_documents_have_a_caveat(void **state)
{
    static const char words[] = "<p class=\"cap\">9 documents: intervals of so few are";
    fake_shape shape = usual;
    char *html;

    (void)state;
    shape.samples = 9;
    make_page(&html, shape, NULL);
    assert_int_equal(count(html, end_of_body(html), words), 2 * 2);
    fb_free(html);
    shape.samples = 10;
    make_page(&html, shape, NULL);
    assert_int_equal(count(html, end_of_body(html), "intervals of so few"), 0);
    fb_free(html);
}

/* The first rule of each task is made one that does not differ from the baseline. */
static void a_rule_is_called_first_only_if_it_beats_the_baseline(void **state)
{
    fake *f = fake_new(usual);
    const fb_analysis *analysis = &f->analysis;
    char *html;

    (void)state;
    assert_ok(fb_report_html(&html, &analysis, 1, NULL));
    assert_int_equal(count(html, end_of_body(html), "First of the rules"), 2);
    fb_free(html);
    for (int t = 0; t < f->analysis.n_tables; t++)
        for (int r = 0; r < f->tables[t].n_rows; r++)
            if (f->tables[t].rows[r].verdict == FB_VERDICT_better)
                f->tables[t].rows[r].verdict = FB_VERDICT_open;
    assert_ok(fb_report_html(&html, &analysis, 1, NULL));
    assert_int_equal(count(html, end_of_body(html), "First of the rules"), 0);
    assert_int_equal(count(html, end_of_body(html), "t is not distinguishable from"),
                     2);
    fb_free(html);
    fake_free(f);
}

static void as_many_samples_as_asked_for_are_shown(void **state)
{
    const fb_report_options two = {.samples = 2}, all = {.samples = 0};
    char *html;

    (void)state;
    make_page(&html, usual, NULL);
    assert_int_equal(count(html, end_of_body(html), "<tr class=\"d\">"), 2 * 5);
    fb_free(html);
    make_page(&html, usual, &two);
    assert_int_equal(count(html, end_of_body(html), "<tr class=\"d\">"), 2 * 2);
    fb_free(html);
    make_page(&html, usual, &all);
    assert_int_equal(count(html, end_of_body(html), "<tr class=\"d\">"), 2 * 8);
    fb_free(html);
}

static void texts_stay_out_when_asked(void **state)
{
    const fb_report_options options = {.samples = 0, .no_text = true};
    char *html;
    char *without;

    (void)state;
    make_page(&html, usual, NULL);
    make_page(&without, usual, &options);
    assert_true(count(html, end_of_body(html), "What is it") > 0);
    assert_true(count(html, end_of_body(html), "Once upon a time") > 0);
    assert_true(count(html, end_of_body(html), "open sesame") > 0);
    assert_null(strstr(without, "What is it"));
    assert_null(strstr(without, "Once upon a time"));
    assert_null(strstr(without, "open sesame"));
    fb_free(html);
    fb_free(without);
}

static void the_title_is_the_experiments_or_as_asked(void **state)
{
    const fb_report_options options = {.title = "Mine & <yours>"};
    char *html;

    (void)state;
    make_page(&html, usual, NULL);
    assert_non_null(strstr(html, "<title>experiment_1"));
    fb_free(html);
    make_page(&html, usual, &options);
    assert_non_null(strstr(html, "<title>Mine &amp; &lt;yours&gt;"));
    fb_free(html);
}

static void looks_differ_inside_a_family(void **state)
{
    fb_result_rule rules[16];
    const fb_results results = {.rules = rules, .n_rules = 16};

    (void)state;
    for (int r = 0; r < 16; r++)
        rules[r] = (fb_result_rule){.family = "attention", .deployable = true};
    for (int a = 0; a < 16; a++)
        for (int b = 0; b < a; b++) {
            const fb_look x = fb_rule_look(&results, a), y = fb_rule_look(&results, b);

            assert_string_equal(x.color, "attn");
            assert_true(strcmp(x.shape, y.shape) != 0 || strcmp(x.dash, y.dash) != 0);
        }
    rules[3].family = "of its own";
    assert_string_equal(fb_rule_look(&results, 3).color, "mix");
}

static void odd_experiments_make_a_page(void **state)
{
    fake_shape shapes[] = {
        {.rules = 1, .budgets = 1, .tasks = 1, .samples = 0},
        {.rules = 2, .budgets = 1, .tasks = 1, .samples = 1},
        {.rules = 20, .budgets = 5, .tasks = 5, .samples = 2, .holes = true},
        {.rules = 10, .budgets = 1, .tasks = 2, .samples = 3, .twins = true},
        {.rules = 10, .budgets = 2, .tasks = 1, .samples = 3, .long_labels = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char *html;

        make_page(&html, shapes[i], NULL);
        assert_non_null(strstr(html, "</html>"));
        fb_free(html);
    }
}

static void a_failed_allocation_is_reported(void **state)
{
    const fake_shape small = {.rules = 5, .budgets = 2, .tasks = 2, .samples = 2};
    fake *f = fake_new(small);
    const fb_analysis *analysis = &f->analysis;
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    char *html = NULL;
    int n_failed = 0;

    (void)state;
    for (int n = 1; html == NULL; n += 1 + n / 8) {
        fb_memory_fail_at(n);
        if (fb_report_html(&html, &analysis, 1, NULL) == FB_OK) break;
        assert_null(html);
        assert_non_null(strstr(fb_error_message(), "report"));
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
        n_failed++;
    }
    fb_memory_fail_at(0);
    assert_true(n_failed > 20);
    fb_free(html);
    fake_free(f);
}

static void a_page_goes_to_a_file_or_says_why_not(void **state)
{
    char path[] = "/tmp/fb_report_XXXXXX";
    fake *f = fake_new(usual);
    const fb_analysis *analysis = &f->analysis;
    size_t n;
    char *html = NULL;

    (void)state;
    assert_true(close(mkstemp(path)) == 0);
    assert_int_equal(fb_report_write(path, &analysis, 1, NULL), FB_OK);
    assert_int_equal(fb_file_read(&html, &n, path, 1 << 24), FB_OK);
    assert_non_null(strstr(html, "</html>"));
    fb_free(html);
    assert_int_equal(unlink(path), 0);
    assert_true(fb_report_write("/nowhere/x.html", &analysis, 1, NULL) != FB_OK);
    assert_non_null(strstr(fb_error_message(), "/nowhere/x.html"));
    assert_int_equal(fb_report_html(&html, &analysis, 0, NULL), FB_USAGE);
    assert_null(html);
    fake_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_names_both_scripts_by_their_hash),
        cmocka_unit_test(hostile_words_never_become_markup),
        cmocka_unit_test(every_part_is_there_without_a_script),
        cmocka_unit_test(rules_that_hold_the_same_stand_in_one_row),
        cmocka_unit_test(what_the_budget_bounds_is_said_once),
        cmocka_unit_test(intervals_of_few_documents_have_a_caveat),
        cmocka_unit_test(a_rule_is_called_first_only_if_it_beats_the_baseline),
        cmocka_unit_test(as_many_samples_as_asked_for_are_shown),
        cmocka_unit_test(texts_stay_out_when_asked),
        cmocka_unit_test(the_title_is_the_experiments_or_as_asked),
        cmocka_unit_test(looks_differ_inside_a_family),
        cmocka_unit_test(odd_experiments_make_a_page),
        cmocka_unit_test(a_failed_allocation_is_reported),
        cmocka_unit_test(a_page_goes_to_a_file_or_says_why_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
