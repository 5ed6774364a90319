/* test_analysis_print.c - tables as text, as JSON and as CSV.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/analysed.h"
#include "tests/support/golden.h"

#define MINUS "\xe2\x88\x92"

static int width_of(const char *line, size_t n)
{
    int width = 0;

    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)line[i] & 0xc0) != 0x80;
    return width;
}

static void columns_are_aligned_by_characters(void **state)
{
    static const char *const names[] = {"full", "random", "snapkv", "adakv(\xc3\xa9)"};
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char *text;
    int n_lines = 0, width = 0;

    trial.rules = names;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (const char *line = text; *line != 0; line += strcspn(line, "\n") + 1) {
        const size_t n = strcspn(line, "\n");

        if (n == 0) width = 0;
        for (int r = -1; r < 4; r++) {
            const char *name = r < 0 ? "rule " : names[r];

            if (strncmp(line, name, strlen(name)) != 0) continue;
            if (r >= 0 && width == 0) continue; /* of the paragraph */
            if (r < 0) width = width_of(line, n);
            n_lines++;
            assert_int_equal(width_of(line, n), width);
            assert_true(line[n - 1] != ' ');
        }
    }
    assert_int_equal(n_lines, 4 * 5);
    fb_free(text);
}

static void the_text_says_what_a_person_needs(void **state)
{
    static const char *const words[] = {
        "closed class · prefill, question not seen · tiny",
        "\nneedle · 20 % = 50.0 KiB of 250 KiB (mean) · 8 samples, 8 documents · KL in "
        "nat, lower is better\n",
        "rule ",
        "95 % interval",
        "vs random",
        "p (Holm)",
        "\nkeys and values      context    evict   answer  resident   peak\n",
        " and 2 more  250 KiB  300 KiB  50.0 KiB      20 %  120 %\n",
        "\nresident 20 %, peak 120 % of the full cache: the budget bounds what stays, "
        "not "
        "the peak",
        "\n8 documents: intervals of so few are too narrow; p is exact (sign flips)\n",
        "\nsame letter: not distinguishable at 95 %",
        "\nfb1|m:3f2a9c|h:?.?|k:native.f32.kv32|p:prefill.agnostic.original|g:4+16|b:"
        "20%,50%|"
        "c:cap5|t:continuation.1,needle.1|n:16|s:1|v:0.1.0\n",
        MINUS "0.30",
        "+0.2 %",
        "0.016",
        "100 %"};
    struct fixture *f = *state;
    char *text;

    analyse_plain(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) == NULL) fail_msg("no '%s' in:\n%s", words[i], text);
    fb_free(text);
}

/* Of `n` documents: tables with the caveat. */
static int count_caveats(struct fixture *f, int n)
{
    struct results_trial trial = plain;
    char *text;
    int found = 0;

    trial.n_documents = n;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (const char *at = text;
         (at = strstr(at, "documents: intervals of so few are too "
                          "narrow; ")) != NULL;
         at++)
        found++;
    fb_free(text);
    return found;
}

static void intervals_of_few_documents_have_a_caveat(void **state)
{
    assert_int_equal(count_caveats(*state, 9), 4); /* one for each table */
}

static void those_of_ten_have_none(void **state)
{
    assert_int_equal(count_caveats(*state, 10), 0);
}

static void check_json_row(json_t *got, const struct fixture *f, const fb_row *row)
{
    assert_string_equal(json_string_value(golden_at(got, "rule")),
                        f->results->rules[row->rule].label);
    assert_string_equal(json_string_value(golden_at(got, "group")), row->letters);
    assert_near(golden_number(got, "mean"), row->mean, 0);
    assert_near(golden_number(got, "low"), row->mean_interval.low, 0);
    assert_near(golden_number(got, "difference_high"), row->difference_interval.high,
                0);
    if (row->verdict == FB_VERDICT_reference) {
        assert_true(json_is_null(golden_at(got, "p")));
        assert_true(json_is_null(golden_at(got, "p_holm")));
    } else {
        assert_near(golden_number(got, "p_holm"), row->p_holm, 0);
    }
    assert_near(golden_number(got, "extra_flops"), row->extra_flops, 0);
    assert_int_equal(golden_number(got, "n"), 8);
    assert_true(json_is_null(golden_at(got, "em")));
}

/* Names come from files: a terminal must not be told to do anything by them. */
static void names_cannot_reach_the_terminal(void **state)
{
    static const char *const names[] = {"full", "random", "x\x1b[31m\r\ny", "z"};
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char *text;

    trial.rules = names;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_TEXT, &text));
    for (const char *c = text; *c != 0; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_non_null(strstr(text, "\nx?[31m??y "));
    assert_non_null(strstr(f->analysis->paragraph, "x?[31m??y"));
    fb_free(text);
}

static void json_holds_every_number_in_full(void **state)
{
    struct fixture *f = *state;
    json_t *root, *table, *row;
    size_t t, r;
    char *text;

    analyse_plain(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_JSON, &text));
    root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(golden_number(root, "format"), 1);
    assert_string_equal(json_string_value(golden_at(root, "headline")),
                        f->analysis->headline);
    assert_string_equal(json_string_value(golden_at(root, "digest")),
                        f->results->digest);
    assert_string_equal(json_string_value(golden_at(root, "baseline")), "random");
    assert_int_equal(json_array_size(golden_at(root, "tables")), 4);
    json_array_foreach(golden_at(root, "tables"), t, table)
    {
        assert_int_equal(json_array_size(golden_at(table, "rows")), 4);
        json_array_foreach(golden_at(table, "rows"), r, row)
            check_json_row(row, f, &f->analysis->tables[t].rows[r]);
    }
    json_decref(root);
    fb_free(text);
}

/* The next field of RFC 4180 text into `out`; what ends it is returned. */
static char next_field(const char **at, char out[256])
{
    size_t n = 0;
    bool is_quoted = **at == '"';
    char end;

    if (is_quoted) (*at)++;
    while (**at != 0) {
        if (is_quoted && **at == '"') {
            (*at)++;
            if (**at != '"') is_quoted = false;
        }
        if (!is_quoted && (**at == ',' || **at == '\r')) break;
        assert_true(n < 255);
        out[n++] = *(*at)++;
    }
    out[n] = 0;
    end = **at;
    if (end == '\r') assert_int_equal((*at)[1], '\n');
    *at += end == '\r' ? 2 : 1;
    return end;
}

static void csv_has_one_line_per_row_and_its_numbers(void **state)
{
    struct fixture *f = *state;
    char field[64][256], *text;
    const char *at;
    int n_columns = 0, mean = -1, bytes = -1, top1 = -1;

    analyse_plain(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_CSV, &text));
    at = text;
    while (next_field(&at, field[n_columns++]) == ',') {
        if (strcmp(field[n_columns - 1], "mean") == 0) mean = n_columns - 1;
        if (strcmp(field[n_columns - 1], "full_bytes") == 0) bytes = n_columns - 1;
        if (strcmp(field[n_columns - 1], "top1") == 0) top1 = n_columns - 1;
    }
    assert_string_equal(field[2], "rule");
    assert_true(mean > 0 && bytes > 0 && top1 > 0);
    for (int t = 0; t < 4; t++)
        for (int r = 0; r < 4; r++) {
            const fb_row *row = &f->analysis->tables[t].rows[r];

            for (int c = 0; c < n_columns; c++)
                assert_int_equal(next_field(&at, field[c]),
                                 c == n_columns - 1 ? '\r' : ',');
            assert_string_equal(field[2], f->results->rules[row->rule].label);
            assert_near(strtod(field[mean], NULL), row->mean, 0);
            assert_string_equal(field[bytes], "256000");
            assert_string_equal(field[top1], ""); /* not measured */
            assert_string_equal(field[n_columns - 3], "closed");
            assert_string_equal(field[n_columns - 2], "prefill.agnostic.original");
            assert_string_equal(field[n_columns - 1], f->analysis->signature);
        }
    assert_int_equal(*at, 0);
    fb_free(text);
}

/* A spreadsheet takes what begins like this for a formula; of our own texts none does,
 * and numbers must stay numbers. */
static void only_texts_of_users_are_kept_from_being_formulas(void **state)
{
    static const char *const names[] = {"full", "random", "=1+1,\"2\"", "-x"};
    static const char *const wanted[] = {"full", "random", "'=1+1,\"2\"", "'-x"};
    struct fixture *f = *state;
    struct results_trial trial = plain;
    char field[256], *text;
    int n_below = 0;
    const char *at;

    trial.rules = names;
    results_put_trial(f->store, &trial);
    analyse(f);
    assert_ok(fb_analysis_print(f->analysis, FB_FORMAT_CSV, &text));
    at = strstr(text, "\r\n") + 2;
    for (int r = 0; r < f->analysis->tables[0].n_rows; r++)
        for (int c = 0; c == 0 || at[-1] != '\n'; c++) {
            (void)next_field(&at, field);
            if (c == 2)
                assert_string_equal(field, wanted[f->analysis->tables[0].rows[r].rule]);
            else if (c != 3) /* the expression: here the label once more */
                assert_true(field[0] != '\'');
            n_below += field[0] == '-';
        }
    assert_true(n_below > 0);
    fb_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(columns_are_aligned_by_characters),
        test(the_text_says_what_a_person_needs),
        test(intervals_of_few_documents_have_a_caveat),
        test(those_of_ten_have_none),
        test(names_cannot_reach_the_terminal),
        test(json_holds_every_number_in_full),
        test(csv_has_one_line_per_row_and_its_numbers),
        test(only_texts_of_users_are_kept_from_being_formulas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
