/* test_experiment_option.c - rows, values, origins, lists.
 *
 * SPDX-License-Identifier: MIT
 */
#include "spec/option.h"
#include "spec/spec.h"
#include "tests/support/test.h"

#include <ctype.h>

enum { FLAG, COUNT, SHARE, SIZE, TIME, WORD, PROTECT, SEEDS, NAMES, LATER };

static const fb_option rows[] = {
    [FLAG] = {.key = "a.flag",
              .name = "flag",
              .letter = 'f',
              .type = FB_TYPE_FLAG,
              .initial = "off"},
    [COUNT] = {.key = "a.count",
               .name = "count",
               .type = FB_TYPE_INT,
               .initial = "all",
               .low = 1,
               .high = 10,
               .words = "all"},
    [SHARE] = {.name = "share", .type = FB_TYPE_PERCENT, .initial = "5%", .high = 100},
    [SIZE] = {.name = "size",
              .type = FB_TYPE_SIZE,
              .initial = "auto",
              .low = 1024,
              .words = "auto"},
    [TIME] = {.name = "time", .type = FB_TYPE_TIME, .initial = ""},
    [WORD] = {.name = "word",
              .type = FB_TYPE_WORD,
              .initial = "x",
              .words = "x|y",
              .later = "z"},
    [PROTECT] = {.name = "protect", .type = FB_TYPE_PROTECT, .initial = "4+16"},
    [SEEDS] = {.name = "seeds", .type = FB_TYPE_INTS, .initial = "1", .high = 9e15},
    [NAMES] = {.name = "names", .type = FB_TYPE_TEXTS, .initial = ""},
    [LATER] = {.key = "later", .type = FB_TYPE_LATER, .initial = "", .help = "not yet"},
    FB_OPTION_END,
};

static fb_values values;

static int open_values(void **state)
{
    (void)state;
    return fb_values_init(&values, rows) == FB_OK ? 0 : -1;
}

static int close_values(void **state)
{
    (void)state;
    fb_values_clear(&values);
    return 0;
}

static fb_status set(int row, const char *text)
{
    return fb_values_set(&values, row, FB_FROM_COMMAND, text);
}

static void becomes(int row, const char *text, const char *canonical)
{
    assert_ok(set(row, text));
    assert_string_equal(fb_values_text(&values, row), canonical);
}

static void values_take_one_canonical_form(void **state)
{
    (void)state;
    becomes(FLAG, "yes", "on");
    becomes(FLAG, "false", "off");
    becomes(COUNT, "7", "7");
    becomes(COUNT, "all", "all");
    becomes(SHARE, "12.50 %", "12.5%");
    becomes(SHARE, "0", "0%");
    becomes(SIZE, "2KiB", "2048B");
    becomes(SIZE, "1.5 MB", "1500000B");
    becomes(TIME, "2h", "7200s");
    becomes(PROTECT, "04+8", "4+8");
    becomes(PROTECT, "published", "published");
}

static void typed_access_reads_the_canonical_form(void **state)
{
    (void)state;
    assert_int_equal(fb_values_int(&values, COUNT), -1);
    assert_ok(set(COUNT, "3"));
    assert_int_equal(fb_values_int(&values, COUNT), 3);
    assert_true(fb_values_real(&values, SHARE) > 4.99 &&
                fb_values_real(&values, SHARE) < 5.01);
    assert_ok(set(SIZE, "1GiB"));
    assert_int_equal(fb_values_int(&values, SIZE), (int64_t)1 << 30);
    assert_ok(set(TIME, "15m"));
    assert_int_equal(fb_values_int(&values, TIME), 900);
    assert_false(fb_values_flag(&values, FLAG));
    assert_true(fb_values_is(&values, WORD, "x"));
}

static void what_makes_no_sense_is_refused_with_what_would(void **state)
{
    (void)state;
    assert_fails(set(COUNT, "0"), FB_USAGE, "out of range; 1 to 10, or all");
    assert_fails(set(COUNT, "1.5"), FB_USAGE, "not a whole number");
    assert_fails(set(COUNT, ""), FB_USAGE, "not a whole number");
    assert_fails(set(COUNT, "99999999999999999999"), FB_USAGE, "not a whole number");
    assert_fails(set(FLAG, "maybe"), FB_USAGE, "on or off");
    assert_fails(set(SHARE, "101%"), FB_USAGE, "0 to 100 %");
    assert_fails(set(SHARE, "nan"), FB_USAGE, "not a percentage");
    assert_fails(set(SIZE, "12"), FB_USAGE, "too small; at least 1.0 KiB");
    assert_fails(set(SIZE, "1e9GiB"), FB_USAGE, "not a size");
    assert_fails(set(SIZE, "999999999999GiB"), FB_USAGE, "not a size");
    assert_fails(set(SIZE, "80%"), FB_USAGE, "a size as 1.5GiB");
    assert_fails(set(TIME, "0s"), FB_USAGE, "not a time");
    assert_fails(set(WORD, "w"), FB_USAGE, "x or y");
    assert_fails(set(WORD, "z"), FB_UNSUPPORTED, "known but not built yet");
    assert_fails(set(PROTECT, "4"), FB_USAGE, "SINK+RECENT");
    assert_fails(set(PROTECT, "-1+2"), FB_USAGE, "SINK+RECENT");
    assert_fails(set(LATER, "1"), FB_UNSUPPORTED, "not yet");
    assert_string_equal(fb_values_text(&values, COUNT), "all"); /* nothing changed */
}

static void sizes_have_units_up_to_tebibytes(void **state)
{
    (void)state;
    assert_ok(set(SIZE, "1.5GiB"));
    assert_int_equal(fb_values_int(&values, SIZE), (int64_t)3 << 29);
    assert_ok(set(SIZE, "1TiB"));
    assert_int_equal(fb_values_int(&values, SIZE), (int64_t)1 << 40);
    assert_ok(set(SIZE, "2TB"));
    assert_int_equal(fb_values_int(&values, SIZE), 2000000000000);
}

/* Each word between two characters that belong to none. */
static bool names_word(const char *help, const char *word, size_t n)
{
    for (const char *at = help; (at = memmem(at, strlen(at), word, n)) != NULL; at++)
        if ((at == help || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[n]))
            return true;
    return false;
}

static void the_help_of_a_setting_names_its_words(void **state)
{
    (void)state;
    for (const fb_option *row = fb_settings(); !fb_option_is_end(row); row++) {
        if (row->type != FB_TYPE_WORD) continue;
        for (const char *word = row->words; *word != '\0';) {
            const size_t n = strcspn(word, "|");

            if (!names_word(row->help, word, n))
                fail_msg("%s: '%.*s' not in '%s'", row->key, (int)n, word, row->help);
            word += n + (word[n] == '|');
        }
    }
}

static void the_stronger_origin_wins_in_any_order(void **state)
{
    (void)state;
    assert_ok(fb_values_set(&values, COUNT, FB_FROM_COMMAND, "2"));
    assert_ok(fb_values_set(&values, COUNT, FB_FROM_FILE, "3"));
    assert_ok(fb_values_set(&values, COUNT, FB_FROM_ENVIRONMENT, "4"));
    assert_int_equal(fb_values_int(&values, COUNT), 2);
    assert_int_equal(values.value[COUNT].origin, FB_FROM_COMMAND);
    /* a weaker value is still checked */
    assert_fails(fb_values_set(&values, COUNT, FB_FROM_FILE, "x"), FB_USAGE, "whole");
}

static void splits(const char *text, const char *const *want, int n_want)
{
    fb_item *items = NULL;
    int n = 0;

    assert_ok(fb_split_list(text, &items, &n));
    assert_int_equal(n, n_want);
    for (int i = 0; i < n; i++)
        assert_string_equal(items[i].text, want[i]);
    fb_items_free(items, n);
}

static void lists_split_outside_brackets_and_before_parameters(void **state)
{
    (void)state;
    splits("snapkv:window=16,pool=max,h2o",
           (const char *const[]){"snapkv:window=16,pool=max", "h2o"}, 2);
    splits("blend(a, b, weights=0.7/0.3) , full",
           (const char *const[]){"blend(a, b, weights=0.7/0.3)", "full"}, 2);
    splits("a: x:k=1,mine: f(y,z),10%",
           (const char *const[]){"a: x:k=1", "mine: f(y,z)", "10%"}, 3);
    splits("one", (const char *const[]){"one"}, 1);
}

static void empty_items_are_refused(void **state)
{
    const char *const bad[] = {"", "a,", ",a", "a,,b", " "};
    fb_item *items = NULL;
    int n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(fb_split_list(bad[i], &items, &n), FB_USAGE, "empty");
        assert_null(items);
    }
}

static void a_list_is_checked_item_by_item(void **state)
{
    (void)state;
    assert_ok(set(SEEDS, "1,2,30"));
    assert_int_equal(values.value[SEEDS].n, 3);
    assert_string_equal(values.value[SEEDS].items[2].text, "30");
    assert_fails(set(SEEDS, "1,x"), FB_USAGE, "'x' is not a whole number");
    assert_int_equal(values.value[SEEDS].n, 3);
    assert_ok(set(NAMES, "a,b"));
    assert_int_equal(values.value[NAMES].n, 2);
}

static void rows_are_found_by_key_and_by_name(void **state)
{
    (void)state;
    assert_int_equal(fb_option_find_key(rows, "a.count"), COUNT);
    assert_int_equal(fb_option_find_name(rows, "seeds"), SEEDS);
    assert_int_equal(fb_option_find_key(rows, "count"), -1);
    assert_int_equal(fb_option_find_name(rows, "later"), -1);
}

static void counts_and_sizes_are_printed_for_people(void **state)
{
    char text[32];

    (void)state;
    fb_print_count(1234567, text, sizeof text);
    assert_string_equal(text, "1,234,567");
    fb_print_count(-999, text, sizeof text);
    assert_string_equal(text, "-999");
    fb_print_size(1536, text, sizeof text);
    assert_string_equal(text, "1.5 KiB");
    fb_print_size(12, text, sizeof text);
    assert_string_equal(text, "12 B");
}

#define test(name) cmocka_unit_test_setup_teardown(name, open_values, close_values)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(values_take_one_canonical_form),
        test(typed_access_reads_the_canonical_form),
        test(what_makes_no_sense_is_refused_with_what_would),
        test(sizes_have_units_up_to_tebibytes),
        test(the_help_of_a_setting_names_its_words),
        test(the_stronger_origin_wins_in_any_order),
        test(lists_split_outside_brackets_and_before_parameters),
        test(empty_items_are_refused),
        test(a_list_is_checked_item_by_item),
        test(rows_are_found_by_key_and_by_name),
        test(counts_and_sizes_are_printed_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
