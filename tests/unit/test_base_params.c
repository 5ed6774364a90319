/* test_base_params.c - parameter tables: set, refuse, print.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct sample {
    int64_t window;
    double gamma;
    int64_t pool;
    double weights[2];
};

static const fb_param rows[] = {
    FB_INT(struct sample, window, 64, 1, 4096, "here", "votes"),
    FB_REAL(struct sample, gamma, 0.2, 0, 1e6, "here", "weight"),
    FB_WORD(struct sample, pool, 1, "avg|max|none", "here", "smoothing"),
    FB_PAIR(struct sample, weights, 0.7, 0.3, 0, 1, "here", "shares"),
    FB_PARAM_END,
};

static void prints(const struct sample *sample, const char *expected)
{
    fb_text text;

    fb_text_init(&text, 0);
    fb_params_print(rows, sample, &text);
    assert_string_equal(fb_text_string(&text), expected);
    fb_text_clear(&text);
}

static void refuses(const char *key, const char *value, const char *sentence)
{
    struct sample sample, before;

    fb_params_init(rows, &sample);
    before = sample;
    assert_int_equal(fb_params_set(rows, &sample, key, value), FB_USAGE);
    assert_string_equal(fb_error_message(), sentence);
    assert_memory_equal(&sample, &before, sizeof sample); /* nothing has changed */
}

static void defaults_are_written_out_in_declared_order(void **state)
{
    struct sample sample;

    (void)state;
    fb_params_init(rows, &sample);
    prints(&sample, "window=64,gamma=0.2,pool=max,weights=0.7/0.3");
}

static void each_type_is_set_from_its_text(void **state)
{
    struct sample sample;

    (void)state;
    fb_params_init(rows, &sample);
    assert_int_equal(fb_params_set(rows, &sample, "window", "4096"), FB_OK);
    assert_int_equal(fb_params_set(rows, &sample, "gamma", "1e-3"), FB_OK);
    assert_int_equal(fb_params_set(rows, &sample, "pool", "none"), FB_OK);
    assert_int_equal(fb_params_set(rows, &sample, "weights", "1/0"), FB_OK);
    assert_int_equal(sample.window, 4096);
    assert_true(sample.gamma == 1e-3);
    assert_int_equal(sample.pool, 2);
    prints(&sample, "window=4096,gamma=0.001,pool=none,weights=1/0");
}

static void what_was_printed_sets_the_same_values(void **state)
{
    struct sample sample, again;
    fb_text text;

    (void)state;
    fb_params_init(rows, &sample);
    sample.gamma = 1.0 / 3;
    fb_params_init(rows, &again);
    fb_text_init(&text, 0);
    fb_param_print_value(&rows[1], &sample, &text);
    assert_int_equal(fb_params_set(rows, &again, "gamma", fb_text_string(&text)),
                     FB_OK);
    assert_memory_equal(&again, &sample, sizeof sample);
    fb_text_clear(&text);
}

static void a_wrong_number_is_refused_with_the_range(void **state)
{
    (void)state;
    refuses("window", "0", "window=0 is out of range; 1 to 4096");
    refuses("window", "4097", "window=4097 is out of range; 1 to 4096");
    refuses("window", "abc", "window=abc is not a whole number; 1 to 4096");
    refuses("window", "6.5", "window=6.5 is not a whole number; 1 to 4096");
    refuses("window", "", "window= is not a whole number; 1 to 4096");
    refuses("window", "99999999999999999999",
            "window=99999999999999999999 is not a whole number; 1 to 4096");
    refuses("gamma", "-0.1", "gamma=-0.1 is out of range; 0 to 1000000");
    refuses("gamma", "nan", "gamma=nan is not a number; 0 to 1000000");
    refuses("gamma", "1e400", "gamma=1e400 is not a number; 0 to 1000000");
}

static void a_wrong_word_or_pair_is_refused_with_the_choices(void **state)
{
    (void)state;
    refuses("pool", "ma", "pool=ma is not one of its words; avg, max or none");
    refuses("pool", "avg|max",
            "pool=avg|max is not one of its words; avg, max or none");
    refuses("pool", "", "pool= is not one of its words; avg, max or none");
    refuses("weights", "0.7",
            "weights=0.7 is not two numbers written x/y; 0 to 1 each");
    refuses("weights", "0.7/0.3/0",
            "weights=0.7/0.3/0 is not two numbers written x/y; 0 to 1 each");
    refuses("weights", "0.7/2", "weights=0.7/2 is out of range; 0 to 1 each");
}

static void an_unknown_key_names_the_nearest_or_all(void **state)
{
    (void)state;
    refuses("windw", "1",
            "unknown parameter 'windw'; did you mean 'window'? it has window, gamma, "
            "pool, weights");
    refuses("temperature", "1",
            "unknown parameter 'temperature'; it has window, gamma, pool, weights");
    assert_int_equal(fb_params_set(NULL, NULL, "x", "1"), FB_USAGE);
    assert_string_equal(fb_error_message(), "unknown parameter 'x'; it has none");
}

static void reals_print_as_people_write_them(void **state)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {-0.0, "0"},
                 {200, "200"},
                 {1e6, "1000000"},
                 {0.25, "0.25"},
                 {1.0 / 3, "0.3333333333333333"},
                 {999999.5, "999999.5"}};
    struct sample sample;
    fb_text text;

    (void)state;
    fb_params_init(rows, &sample);
    fb_text_init(&text, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample.gamma = cases[i].value;
        fb_param_print_value(&rows[1], &sample, &text);
        assert_string_equal(fb_text_string(&text), cases[i].text);
        fb_text_clear(&text);
    }
}

static void json_has_numbers_words_and_lists(void **state)
{
    struct sample sample;
    fb_text text;

    (void)state;
    fb_params_init(rows, &sample);
    fb_text_init(&text, 0);
    fb_params_print_json(rows, &sample, &text);
    assert_string_equal(fb_text_string(&text),
                        "{\"window\": 64, \"gamma\": 0.2, \"pool\": \"max\", "
                        "\"weights\": [0.7, 0.3]}");
    fb_text_clear(&text);
    fb_params_print_json(NULL, NULL, &text);
    assert_string_equal(fb_text_string(&text), "{}");
    fb_text_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_written_out_in_declared_order),
        cmocka_unit_test(each_type_is_set_from_its_text),
        cmocka_unit_test(what_was_printed_sets_the_same_values),
        cmocka_unit_test(a_wrong_number_is_refused_with_the_range),
        cmocka_unit_test(a_wrong_word_or_pair_is_refused_with_the_choices),
        cmocka_unit_test(an_unknown_key_names_the_nearest_or_all),
        cmocka_unit_test(reals_print_as_people_write_them),
        cmocka_unit_test(json_has_numbers_words_and_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
