/* score_labels.c - scores of short answers: contained strings, class names, numbers.
 *
 * contains    RULER (NVIDIA 2024), string_match_all and string_match_part: the
 *             prediction with its control characters turned into newlines, both in
 * lower case, substring. "no" is found in "know": yes/no questions score too high.
 * class       LongBench (THUDM 2023), classification_score.
 * count, retrieval   LongBench, count_score and retrieval_score, both languages.
 * number_first       InfiniteBench (2024), math_find.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "task/scorers.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL_END = 0x20 };

/* Strips, turns control characters into newlines, strips, lower case. */
static fb_status clean(fb_points *out, fb_points text)
{
    FB_TRY(fb_points_lower(out, fb_points_strip(text)));
    for (size_t i = 0; i < out->n; i++)
        if (out->at[i] < CONTROL_END) out->at[i] = '\n';
    return FB_OK; /* a substring test needs no second strip */
}

fb_status fb_score_contains(const fb_answer_pair *pair, double *out)
{
    fb_points text = {NULL, 0}, part = {NULL, 0};
    fb_status status = clean(&text, pair->prediction);

    if (status == FB_OK)
        status = fb_points_lower(&part, fb_points_strip(pair->reference));
    if (status == FB_OK) *out = fb_points_find(text, part) >= 0;
    fb_points_clear(&text);
    fb_points_clear(&part);
    return status;
}

fb_status fb_score_exact(const fb_answer_pair *pair, double *out)
{
    *out = fb_points_equal(fb_points_strip(pair->prediction),
                           fb_points_strip(pair->reference));
    return FB_OK;
}

/* --- class names --- */

/* How the name of a class occurs in a text. */
enum place { IS_ABSENT, IS_INSIDE, IS_ALL };

static fb_status look_for(enum place *out, fb_points text, const char *name)
{
    fb_points part;

    FB_TRY(fb_points_read(&part, name));
    *out = fb_points_equal(text, part)       ? IS_ALL
           : fb_points_find(text, part) >= 0 ? IS_INSIDE
                                             : IS_ABSENT;
    fb_points_clear(&part);
    return FB_OK;
}

/* The reference walks the list by position while it removes entries, so the entry after
 * a removed one is skipped. We do the same. */
static fb_status drop_parts_of_gold(const char **list, int *n, fb_points gold)
{
    enum place place;

    for (int i = 0; i < *n; i++) {
        FB_TRY(look_for(&place, gold, list[i]));
        if (place != IS_INSIDE) continue;
        memmove(list + i, list + i + 1, (size_t)(*n - i - 1) * sizeof *list);
        (*n)--;
    }
    return FB_OK;
}

static fb_status score_classes(const fb_answer_pair *pair, const char **list,
                               double *out)
{
    const fb_points gold = fb_points_strip(pair->reference);
    enum place place;
    int n = 0;

    for (int i = 0; i < pair->n_classes; i++) {
        FB_TRY(look_for(&place, pair->prediction, pair->classes[i]));
        if (place != IS_ABSENT) list[n++] = pair->classes[i];
    }
    FB_TRY(drop_parts_of_gold(list, &n, gold));
    *out = 0;
    for (int i = 0; i < n; i++) {
        FB_TRY(look_for(&place, gold, list[i]));
        if (place == IS_ALL) *out = 1.0 / n;
    }
    return FB_OK;
}

fb_status fb_score_class(const fb_answer_pair *pair, double *out)
{
    const char **list;
    fb_status status;

    if (pair->n_classes == 0)
        return fb_fail(FB_USAGE, "the metric 'class' needs the names of all classes");
    list = fb_alloc(FB_ACCOUNT_other, (size_t)pair->n_classes * sizeof *list);
    if (list == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    status = score_classes(pair, list, out);
    fb_free(list);
    return status;
}

/* --- numbers --- */

/* The next run of digits, cut from the front of `rest`. */
static bool next_digits(fb_points *rest, fb_points *run)
{
    while (rest->n > 0 && !fb_point_is_digit(rest->at[0])) {
        rest->at++;
        rest->n--;
    }
    *run = (fb_points){rest->at, 0};
    while (rest->n > 0 && fb_point_is_digit(rest->at[0])) {
        rest->at++;
        rest->n--;
        run->n++;
    }
    return run->n > 0;
}

/* Share of the digit runs of the prediction that equal `gold`. */
static double share_of_runs(fb_points prediction, fb_points gold)
{
    fb_points run;
    int n = 0, hits = 0;

    while (next_digits(&prediction, &run)) {
        n++;
        hits += fb_points_equal(run, gold);
    }
    return n == 0 ? 0 : (double)hits / n;
}

fb_status fb_score_count(const fb_answer_pair *pair, double *out)
{
    *out = share_of_runs(pair->prediction, fb_points_strip(pair->reference));
    return FB_OK;
}

/* The reference is "Paragraph 12", its Chinese form, or the bare number. */
fb_status fb_score_retrieval(const fb_answer_pair *pair, double *out)
{
    fb_points rest = pair->reference, gold;

    *out = next_digits(&rest, &gold) ? share_of_runs(pair->prediction, gold) : 0;
    return FB_OK;
}

enum { MOST_DIGITS = 64 };

/* The first `\d+\.\d+` or `\d+` of ASCII digits; "" if there is none or it is longer
 * than any answer. */
static void first_number(fb_points text, char out[MOST_DIGITS])
{
    size_t i = 0, n = 0;
    bool has_point = false;

    while (i < text.n && !(text.at[i] >= '0' && text.at[i] <= '9'))
        i++;
    for (; i < text.n && n < MOST_DIGITS - 1; i++) {
        const int32_t c = text.at[i];
        const bool is_digit = c >= '0' && c <= '9';

        if (!is_digit && (c != '.' || has_point || i + 1 == text.n ||
                          text.at[i + 1] < '0' || text.at[i + 1] > '9'))
            break;
        has_point = has_point || !is_digit;
        out[n++] = (char)c;
    }
    out[n < MOST_DIGITS - 1 ? n : 0] = 0;
}

/* The whole part without leading zeros; its length in `n_out`. */
static const char *whole_part(const char *number, size_t *n_out)
{
    while (*number == '0' && number[1] >= '0' && number[1] <= '9')
        number++;
    *n_out = strcspn(number, ".");
    return number;
}

/* As whole numbers, the prediction cut to one; as reals where the reference is one. */
fb_status fb_score_number_first(const fb_answer_pair *pair, double *out)
{
    char said[MOST_DIGITS], gold[MOST_DIGITS];
    const char *a, *b;
    size_t n_a, n_b;

    first_number(pair->prediction, said);
    first_number(pair->reference, gold);
    *out = 0;
    if (said[0] == 0 || gold[0] == 0) return FB_OK;
    a = whole_part(said, &n_a);
    b = whole_part(gold, &n_b);
    *out = strchr(gold, '.') != NULL ? strtod(said, NULL) == strtod(gold, NULL)
                                     : n_a == n_b && memcmp(a, b, n_a) == 0;
    return FB_OK;
}
