/* score_choice.c - which letter did the answer choose?
 *
 * choice      InfiniteBench (2024), longbook_choice_eng, its steps in their order.
 * choice_v2   LongBench v2 (2024): only "The correct answer is (B)" or "... is B".
 *
 * SPDX-License-Identifier: MIT
 */
#include "task/scorers.h"

#include <string.h>

static bool is_letter(int32_t point)
{
    return point >= 'A' && point <= 'D';
}

static bool is_one_letter(fb_points text, int32_t letter)
{
    return text.n == 1 && text.at[0] == letter;
}

static bool stands_alone(fb_points text, size_t i)
{
    return is_letter(text.at[i]) && (i == 0 || !fb_point_is_word(text.at[i - 1])) &&
           (i + 1 == text.n || !fb_point_is_word(text.at[i + 1]));
}

/* The last letter that stands alone in the first line that has one; 0: none. */
static int32_t last_letter_of_first_line(fb_points text)
{
    int32_t letter = 0;

    for (size_t i = 0; i < text.n && !(text.at[i] == '\n' && letter != 0); i++)
        if (stands_alone(text, i)) letter = text.at[i];
    return letter;
}

/* Marks become spaces, runs of spaces one. In place: `text` is a copy of ours. */
static void blank_marks(fb_points *text)
{
    size_t n = 0;

    for (size_t i = 0; i < text->n; i++) {
        const int32_t c = text->at[i];
        const bool is_mark = c > 0 && c < 0x80 && strchr("\n\"'.,?!{} ", c) != NULL;

        if (is_mark && n > 0 && text->at[n - 1] == ' ') continue;
        text->at[n++] = is_mark ? ' ' : c;
    }
    text->n = n;
}

static int64_t find_ascii(fb_points text, const char *part)
{
    const size_t n = strlen(part);

    for (size_t i = 0; i + n <= text.n; i++) {
        size_t k = 0;

        while (k < n && text.at[i + k] == part[k])
            k++;
        if (k == n) return (int64_t)i;
    }
    return -1;
}

static bool starts_with(fb_points text, fb_points part)
{
    return part.n <= text.n && fb_points_equal((fb_points){text.at, part.n}, part);
}

/* The first cue that occurs decides: what stands one character behind it. */
static bool cue_decides(fb_points text, fb_points gold, double *out)
{
    static const char *const cues[] = {"answer is:", "answer:", "answer is",
                                       "option is"};

    for (size_t i = 0; i < sizeof cues / sizeof *cues; i++) {
        const int64_t place = find_ascii(text, cues[i]);
        const size_t behind = (size_t)place + strlen(cues[i]) + 1;

        if (place < 0) continue;
        *out = behind <= text.n &&
               starts_with((fb_points){text.at + behind, text.n - behind}, gold);
        return true;
    }
    return false;
}

/* The first word that is a part of "ABCD" decides. */
static double first_letter_word(fb_points text, fb_points gold)
{
    int32_t letters[] = {'A', 'B', 'C', 'D'};
    const fb_points all = {letters, 4};
    fb_points word;

    while (fb_points_next_word(&text, &word))
        if (fb_points_find(all, word) >= 0) return fb_points_equal(word, gold);
    return 0;
}

fb_status fb_score_choice(const fb_answer_pair *pair, double *out)
{
    const fb_points said = pair->prediction, gold = fb_points_strip(pair->reference);
    const int32_t letter = last_letter_of_first_line(said);
    fb_points words;

    *out = 1;
    if (letter != 0 && is_one_letter(gold, letter)) return FB_OK;
    *out = 0;
    if (said.n == 0) return FB_OK;
    if (is_letter(said.at[0])) {
        *out = is_one_letter(gold, said.at[0]);
        return FB_OK;
    }
    if (fb_points_equal(said, gold)) {
        *out = 1;
        return FB_OK;
    }
    FB_TRY(fb_points_copy(&words, said));
    blank_marks(&words);
    if (!cue_decides(words, gold, out)) *out = first_letter_word(words, gold);
    fb_points_clear(&words);
    return FB_OK;
}

static void drop_stars(fb_points *text)
{
    size_t n = 0;

    for (size_t i = 0; i < text->n; i++)
        if (text->at[i] != '*') text->at[n++] = text->at[i];
    text->n = n;
}

/* The letter after the first `cue` that has one, and `close` behind it; 0: none. */
static int32_t letter_after(fb_points text, const char *cue, int32_t close)
{
    int64_t place;

    while ((place = find_ascii(text, cue)) >= 0) {
        const size_t i = (size_t)place + strlen(cue);
        const bool closes = close == 0 || (i + 1 < text.n && text.at[i + 1] == close);

        if (i < text.n && is_letter(text.at[i]) && closes) return text.at[i];
        text.at += place + 1;
        text.n -= (size_t)place + 1;
    }
    return 0;
}

fb_status fb_score_choice_v2(const fb_answer_pair *pair, double *out)
{
    fb_points text;
    int32_t letter;

    FB_TRY(fb_points_copy(&text, pair->prediction));
    drop_stars(&text);
    letter = letter_after(text, "The correct answer is (", ')');
    if (letter == 0) letter = letter_after(text, "The correct answer is ", 0);
    *out = letter != 0 && is_one_letter(fb_points_strip(pair->reference), letter);
    fb_points_clear(&text);
    return FB_OK;
}
