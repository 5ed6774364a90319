/* test_task_metrics.c - scores of texts, against the benchmarks' own code.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "task/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_STRINGS = 64 };

static double score_of(const char *metric, const char *prediction,
                       const char *reference)
{
    double score = -1;

    assert_int_equal(fb_metric_text(metric, prediction, &reference, 1, NULL, 0, &score),
                     FB_OK);
    return score;
}

static int strings_of(const fb_json *list, const char *out[MOST_STRINGS])
{
    const size_t n = fb_json_count(list);

    assert_true(n <= MOST_STRINGS);
    for (size_t i = 0; i < n; i++)
        out[i] = fb_json_string(fb_json_at(list, i));
    return (int)n;
}

/* LongBench scores some tasks on the first line after leading newlines. */
static char *first_line_of(const char *prediction)
{
    const char *line = prediction + strspn(prediction, "\n");
    const size_t n = strcspn(line, "\n");
    char *copy = fb_zalloc(FB_ACCOUNT_other, n + 1);

    assert_non_null(copy);
    memcpy(copy, line, n);
    return copy;
}

static void check_row(const fb_json *row)
{
    const char *references[MOST_STRINGS], *classes[MOST_STRINGS];
    const int n = strings_of(fb_json_get(row, "references"), references);
    const int n_classes = strings_of(fb_json_get(row, "classes"), classes);
    const char *prediction = fb_json_string(fb_json_get(row, "prediction"));
    const bool is_rounded = fb_json_get(row, "rounded") != NULL;
    double expected = -1, score = -1;
    char *line = NULL;

    assert_true(fb_json_real(fb_json_get(row, "expected"), &expected));
    if (fb_json_get(row, "first_line") != NULL)
        prediction = line = first_line_of(prediction);
    assert_int_equal(fb_metric_text(fb_json_string(fb_json_get(row, "metric")),
                                    prediction, references, n, classes, n_classes,
                                    &score),
                     FB_OK);
    if (fabs(score - expected) > (is_rounded ? 0.5001e-4 : 1e-12))
        fail_msg("%s: %.17g, expected %.17g", fb_json_string(fb_json_get(row, "id")),
                 score, expected);
    fb_free(line);
}

static void scores_equal_those_of_the_benchmarks(void **state)
{
    fb_json *rows;

    (void)state;
    assert_int_equal(fb_json_read(&rows, "tests/golden/metrics.json", 1 << 20), FB_OK);
    assert_int_equal(fb_json_count(rows), 208);
    for (size_t i = 0; i < fb_json_count(rows); i++)
        check_row(fb_json_at(rows, i));
    fb_json_free(rows);
}

/* H01 */
static void hand_computed_scores_agree(void **state)
{
    static const char *const several[] = {"a dog", "the big cat"};
    double score;

    (void)state;
    assert_true(score_of("f1", "big cat", "the big cat") == 1);
    assert_true(score_of("f1", "dog", "cat") == 0);
    assert_true(fabs(score_of("f1", "cat", "big black cat") - 0.5) < 1e-12);
    assert_int_equal(fb_metric_text("f1", "big dog cat", several, 2, NULL, 0, &score),
                     FB_OK);
    assert_true(fabs(score - 0.8) < 1e-12); /* P = 2/3, R = 1 against the second */
    assert_int_equal(
        fb_metric_text("contains_all", "A DOG", several, 2, NULL, 0, &score), FB_OK);
    assert_true(score == 0.5);
    assert_true(score_of("exact", "  42\n", "42") == 1);
    assert_true(score_of("exact", "42.", "42") == 0);
    assert_true(score_of("code_sim", "abcd", "bcde") == 0.75);
}

/* H02 */
static void a_class_is_shared_with_the_wrong_ones_named(void **state)
{
    static const char *const classes[] = {"City", "Country", "Date"};
    static const struct {
        const char *answer;
        double score;
    } cases[] = {{"none", 0}, {"City", 1}, {"City, Date", 0.5}, {"Date", 0}};
    const char *gold = "City";
    double score;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            fb_metric_text("class", cases[i].answer, &gold, 1, classes, 3, &score),
            FB_OK);
        assert_true(score == cases[i].score);
    }
    assert_int_equal(fb_metric_text("class", "City", &gold, 1, NULL, 0, &score),
                     FB_USAGE);
}

/* H04, and bytes that are not UTF-8 */
static void empty_and_odd_answers_score_zero_everywhere(void **state)
{
    static const char *const answers[] = {
        "", ".", "...", "\n", "?!;:", " ", "\xff\xfe", "\xe4\xb8", "```\n#\n//\n"};
    static const char *const classes[] = {"London", "Paris"};
    const char *gold = "London";
    double score;

    (void)state;
    for (int m = 0; m < fb_metric_count(); m++) {
        if (fb_metric_at(m)->kind != FB_METRIC_TEXT) continue;
        for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
            assert_int_equal(fb_metric_text(fb_metric_at(m)->name, answers[i], &gold, 1,
                                            classes, 2, &score),
                             FB_OK);
            assert_true(score == 0);
        }
    }
}

/* H05 */
static void half_an_answer_is_contained_but_not_exact(void **state)
{
    (void)state;
    assert_true(score_of("contains_any", "eat a sandwich in the park", "sandwich") ==
                1);
    assert_true(score_of("exact", "eat a sandwich in the park", "sandwich") == 0);
}

static void every_text_metric_gives_one_for_the_reference_itself(void **state)
{
    static const char *const classes[] = {"London", "Paris"};
    const char *gold;
    double score;

    (void)state;
    for (int m = 0; m < fb_metric_count(); m++) {
        const char *name = fb_metric_at(m)->name;

        if (fb_metric_at(m)->kind != FB_METRIC_TEXT) continue;
        if (strcmp(name, "choice_v2") == 0) continue; /* wants a sentence */
        gold = strncmp(name, "choice", 6) == 0                                ? "B"
               : strcmp(name, "count") == 0 || strcmp(name, "retrieval") == 0 ? "12"
               : strcmp(name, "number_first") == 0                            ? "12"
                                                   : "London";
        assert_int_equal(fb_metric_text(name, gold, &gold, 1, classes, 2, &score),
                         FB_OK);
        assert_true(fabs(score - 1) < 1e-8);
    }
}

static void white_space_around_a_reference_does_not_count(void **state)
{
    (void)state;
    assert_true(score_of("contains_any", " 4812093.", " 4812093") == 1);
    assert_true(score_of("exact", "nine", " nine") == 1);
    assert_true(score_of("count", "7", " 7") == 1);
    assert_true(score_of("choice", "B", " B") == 1);
}

static void numbers_compare_as_whole_numbers_of_any_length(void **state)
{
    (void)state;
    assert_true(score_of("number_first", "9007199254740993", "9007199254740992") == 0);
    assert_true(score_of("number_first", "0007 apples", "7") == 1);
    assert_true(score_of("number_first", "7.", "7") == 1);
    assert_true(score_of("number_first", "no", "7") == 0);
}

/* A single repeated letter is the worst case of the block search. */
static void long_texts_are_scored_in_bounded_time(void **state)
{
    enum { N = 3000 };
    char *a = fb_zalloc(FB_ACCOUNT_other, 2 * N + 1);
    char *b = fb_zalloc(FB_ACCOUNT_other, 2 * N + 1);
    const char *gold = b;
    double score;

    (void)state;
    for (int i = 0; i < N; i++) {
        memcpy(a + 2 * i, i % 2 == 0 ? "a " : "b ", 2);
        memcpy(b + 2 * i, i % 3 == 0 ? "a " : "b ", 2);
    }
    assert_int_equal(fb_metric_text("code_sim", a, &gold, 1, NULL, 0, &score), FB_OK);
    assert_in_range((int)(score * 100), 0, 100);
    assert_int_equal(fb_metric_text("rouge_l", a, &gold, 1, NULL, 0, &score), FB_OK);
    assert_true(fabs(score - 1) < 1e-8); /* the same two words */
    fb_free(a);
    fb_free(b);
}

static void a_failed_allocation_is_a_failed_score(void **state)
{
    static const char *const names[] = {"f1",       "f1_zh", "rouge_l", "contains_any",
                                        "code_sim", "class", "choice"};
    static const char *const classes[] = {"London", "Paris"};
    const char *gold = "London is a town.";
    double score;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t before = fb_memory_now(FB_ACCOUNT_other);
        double expected;
        int n = 0;
        fb_status status =
            fb_metric_text(names[i], "Is it London?", &gold, 1, classes, 2, &expected);

        assert_int_equal(status, FB_OK);
        do {
            fb_memory_fail_at(++n);
            status =
                fb_metric_text(names[i], "Is it London?", &gold, 1, classes, 2, &score);
            fb_memory_fail_at(0);
            assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
            if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
        } while (status != FB_OK);
        assert_true(n > 1);
        assert_true(score == expected);
    }
}

static void wrong_names_are_refused(void **state)
{
    const char *gold = "x";
    double score;

    (void)state;
    assert_int_equal(fb_metric_text("rogue_l", "x", &gold, 1, NULL, 0, &score),
                     FB_USAGE);
    assert_non_null(strstr(fb_error_message(), "'rouge_l'"));
    assert_int_equal(fb_metric_text("kl", "x", &gold, 1, NULL, 0, &score), FB_USAGE);
    assert_int_equal(fb_metric_text("f1", "x", &gold, 0, NULL, 0, &score), FB_USAGE);
}

static void the_table_is_consistent(void **state)
{
    (void)state;
    for (int i = 0; i < fb_metric_count(); i++) {
        const fb_metric *metric = fb_metric_at(i);

        assert_ptr_equal(fb_metric_find(metric->name), metric);
        assert_true(metric->low < metric->high && metric->margin > 0);
        assert_true(metric->meaning[0] != 0 && metric->unit[0] != 0);
        assert_true(metric->lower_is_better || metric->worst == metric->low);
    }
    assert_true(fb_metric_find("kl")->lower_is_better);
    assert_true(fb_metric_find("kl")->margin == 0.02);
    assert_true(fb_metric_find("f1")->margin == 0.01);
    assert_null(fb_metric_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_those_of_the_benchmarks),
        cmocka_unit_test(hand_computed_scores_agree),
        cmocka_unit_test(a_class_is_shared_with_the_wrong_ones_named),
        cmocka_unit_test(empty_and_odd_answers_score_zero_everywhere),
        cmocka_unit_test(half_an_answer_is_contained_but_not_exact),
        cmocka_unit_test(every_text_metric_gives_one_for_the_reference_itself),
        cmocka_unit_test(white_space_around_a_reference_does_not_count),
        cmocka_unit_test(numbers_compare_as_whole_numbers_of_any_length),
        cmocka_unit_test(long_texts_are_scored_in_bounded_time),
        cmocka_unit_test(a_failed_allocation_is_a_failed_score),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(the_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
