/* score_f1.c - overlap of words or characters.
 *
 * f1      SQuAD's F1 as LongBench and InfiniteBench use it: lower case, without ASCII
 *         punctuation and the articles a, an, the; multiset overlap of words.
 * f1_zh   InfiniteBench's longbook_qa_chn: one character is one token; ASCII and
 * Chinese punctuation and white space deleted. LongBench's f1 for Chinese splits words
 *         with a dictionary: its numbers are others.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "task/scorers.h"

#include <stdlib.h>
#include <string.h>

struct tokens {
    fb_points *at; /* sorted */
    size_t n;
};

/* 2PR / (P + R) of the multiset overlap of two sorted lists. */
static double f1_of(const struct tokens *a, const struct tokens *b)
{
    size_t i = 0, j = 0, common = 0;
    double precision, recall;

    while (i < a->n && j < b->n) {
        const int order = fb_points_compare(&a->at[i], &b->at[j]);

        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    if (common == 0) return 0;
    precision = (double)common / (double)a->n;
    recall = (double)common / (double)b->n;
    return 2 * precision * recall / (precision + recall);
}

static fb_status new_tokens(struct tokens *out, size_t most)
{
    *out = (struct tokens){NULL, 0};
    out->at = fb_alloc(FB_ACCOUNT_other, fb_size_mul(most + 1, sizeof *out->at));
    if (out->at == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    return FB_OK;
}

static void sort_tokens(struct tokens *tokens)
{
    qsort(tokens->at, tokens->n, sizeof *tokens->at, fb_points_compare);
}

/* --- words --- */

static void delete_punctuation(fb_points *text)
{
    size_t n = 0;

    for (size_t i = 0; i < text->n; i++)
        if (!fb_point_is_punctuation(text->at[i])) text->at[n++] = text->at[i];
    text->n = n;
}

static bool is_word_at(fb_points text, size_t i, const char *word)
{
    const size_t n = strlen(word);

    if (i + n > text.n) return false;
    for (size_t k = 0; k < n; k++)
        if (text.at[i + k] != word[k]) return false;
    return (i == 0 || !fb_point_is_word(text.at[i - 1])) &&
           (i + n == text.n || !fb_point_is_word(text.at[i + n]));
}

static void blank_articles(fb_points text)
{
    static const char *const articles[] = {"a", "an", "the"};

    for (size_t i = 0; i < text.n; i++)
        for (size_t k = 0; k < sizeof articles / sizeof *articles; k++)
            if (is_word_at(text, i, articles[k]))
                for (size_t c = 0; c < strlen(articles[k]); c++)
                    text.at[i + c] = ' ';
}

/* `lower` holds the points that the tokens point to. */
static fb_status split_words(struct tokens *out, fb_points *lower, fb_points text)
{
    fb_points rest, word;

    FB_TRY(fb_points_lower(lower, text));
    delete_punctuation(lower);
    blank_articles(*lower);
    FB_TRY(new_tokens(out, lower->n));
    rest = *lower;
    while (fb_points_next_word(&rest, &word))
        out->at[out->n++] = word;
    sort_tokens(out);
    return FB_OK;
}

/* --- characters --- */

/* The Chinese marks that LongBench's list has, in ascending order. The list lacks the
 * opening double angle bracket U+300A, so we lack it too. */
static const struct {
    int32_t first, last;
} chinese_marks[] = {
    {0x2013, 0x2014}, {0x2018, 0x2019}, {0x201B, 0x201F}, {0x2026, 0x2027},
    {0x3001, 0x3003}, {0x300B, 0x3011}, {0x3014, 0x301F}, {0x3030, 0x3030},
    {0x303E, 0x303F}, {0xFE4F, 0xFE4F}, {0xFF01, 0xFF0D}, {0xFF0F, 0xFF0F},
    {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF64},
};

static bool is_dropped(int32_t point)
{
    if (fb_point_is_space(point) || fb_point_is_punctuation(point)) return true;
    for (size_t i = 0; i < sizeof chinese_marks / sizeof *chinese_marks; i++)
        if (point >= chinese_marks[i].first && point <= chinese_marks[i].last)
            return true;
    return false;
}

static fb_status split_characters(struct tokens *out, fb_points *lower, fb_points text)
{
    FB_TRY(fb_points_lower(lower, text));
    FB_TRY(new_tokens(out, lower->n));
    for (size_t i = 0; i < lower->n; i++)
        if (!is_dropped(lower->at[i]))
            out->at[out->n++] = (fb_points){lower->at + i, 1};
    sort_tokens(out);
    return FB_OK;
}

typedef fb_status split(struct tokens *out, fb_points *lower, fb_points text);

static fb_status score(const fb_answer_pair *pair, split *cut, double *out)
{
    fb_points lower[2] = {{NULL, 0}, {NULL, 0}};
    struct tokens tokens[2] = {{NULL, 0}, {NULL, 0}};
    fb_status status = cut(&tokens[0], &lower[0], pair->prediction);

    if (status == FB_OK) status = cut(&tokens[1], &lower[1], pair->reference);
    if (status == FB_OK) *out = f1_of(&tokens[0], &tokens[1]);
    for (int i = 0; i < 2; i++) {
        fb_free(tokens[i].at);
        fb_points_clear(&lower[i]);
    }
    return status;
}

fb_status fb_score_f1(const fb_answer_pair *pair, double *out)
{
    return score(pair, split_words, out);
}

fb_status fb_score_f1_zh(const fb_answer_pair *pair, double *out)
{
    return score(pair, split_characters, out);
}
