/* score_rouge.c - rouge_l: the ROUGE-L of LongBench, which is not the textbook's.
 *
 * Source: the package `rouge` 1.0.1 as LongBench calls it. A text is cut into pieces at
 * ".", a piece into words at white space (a piece of white space alone is one empty
 * word). With m and n the numbers of *distinct* words of reference and prediction, and
 * L the number of distinct words in the union of one longest common subsequence per
 * pair of pieces:
 *
 *     P = L / n,  R = L / m,  F = 2 P R / (P + R + 1e-8)
 *
 * Among equally long subsequences the back-track below decides. Case and marks other
 * than "." count. The reference gives 0 where its recursion overflows (two pieces of
 * about 900 words together); here such texts get their true score.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "task/scorers.h"

#include <stdlib.h>
#include <string.h>

/* A text as numbers of words, piece after piece. */
struct words {
    int32_t *word; /* [n] equal words have equal numbers */
    size_t n;
    size_t *piece; /* [n_pieces + 1] where each begins; the last is n */
    size_t n_pieces;
};

struct occurrence {
    fb_points text;
    int32_t *slot; /* where its number goes */
};

/* --- cutting --- */

static fb_status new_words(struct words *out, size_t most)
{
    out->word = fb_alloc(FB_ACCOUNT_other, fb_size_mul(most + 1, sizeof *out->word));
    out->piece = fb_alloc(FB_ACCOUNT_other, fb_size_mul(most + 2, sizeof *out->piece));
    if (out->word == NULL || out->piece == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    return FB_OK;
}

static void add_word(struct words *out, struct occurrence *seen, size_t *n_seen,
                     fb_points text)
{
    seen[(*n_seen)++] = (struct occurrence){text, &out->word[out->n++]};
}

static void cut(struct words *out, struct occurrence *seen, size_t *n_seen,
                fb_points text)
{
    while (text.n > 0) {
        fb_points rest = {text.at, 0}, word;
        const size_t first = out->n;

        while (rest.n < text.n && text.at[rest.n] != '.')
            rest.n++;
        text.at += rest.n + (rest.n < text.n);
        text.n -= rest.n + (rest.n < text.n);
        if (rest.n == 0) continue;
        out->piece[out->n_pieces++] = first;
        while (fb_points_next_word(&rest, &word))
            add_word(out, seen, n_seen, word);
        if (out->n == first) add_word(out, seen, n_seen, word); /* the empty one */
    }
    out->piece[out->n_pieces] = out->n;
}

static int by_text(const void *a, const void *b)
{
    const struct occurrence *x = a, *y = b;

    return fb_points_compare(&x->text, &y->text);
}

/* Numbers the words of both texts; returns how many different ones there are. */
static int32_t number_words(struct occurrence *seen, size_t n)
{
    int32_t number = -1;

    qsort(seen, n, sizeof *seen, by_text);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || by_text(&seen[i - 1], &seen[i]) != 0) number++;
        *seen[i].slot = number;
    }
    return number + 1;
}

static fb_status read_words(struct words out[2], int32_t *n_words,
                            const fb_answer_pair *pair)
{
    const size_t most = pair->prediction.n + pair->reference.n;
    struct occurrence *seen =
        fb_alloc(FB_ACCOUNT_other, fb_size_mul(most + 1, sizeof *seen));
    fb_status status = FB_OK;
    size_t n = 0;

    if (seen == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    status = new_words(&out[0], pair->prediction.n);
    if (status == FB_OK) status = new_words(&out[1], pair->reference.n);
    if (status == FB_OK) {
        cut(&out[0], seen, &n, pair->prediction);
        cut(&out[1], seen, &n, pair->reference);
        *n_words = number_words(seen, n);
    }
    fb_free(seen);
    return status;
}

/* --- longest common subsequences --- */

/* Lengths for all beginnings of a [m] and b [n]: table [m + 1, n + 1]. */
static void fill_table(int32_t *table, const int32_t *a, size_t m, const int32_t *b,
                       size_t n)
{
    const size_t width = n + 1;

    memset(table, 0, width * sizeof *table);
    for (size_t i = 1; i <= m; i++) {
        const int32_t *up = table + (i - 1) * width;
        int32_t *row = table + i * width;

        row[0] = 0;
        for (size_t j = 1; j <= n; j++) {
            if (a[i - 1] == b[j - 1])
                row[j] = up[j - 1] + 1;
            else
                row[j] = up[j] > row[j - 1] ? up[j] : row[j - 1];
        }
    }
}

/* Marks the words of one subsequence: a of the reference, b of the prediction. */
static fb_status mark_common(bool *marked, const int32_t *a, size_t m, const int32_t *b,
                             size_t n)
{
    const size_t cells = fb_size_mul(m + 1, n + 1);
    int32_t *table = fb_alloc(FB_ACCOUNT_other, fb_size_mul(cells, sizeof *table));

    if (table == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    fill_table(table, a, m, b, n);
    for (size_t i = m, j = n; i > 0 && j > 0;) {
        if (a[i - 1] == b[j - 1]) {
            marked[a[i - 1]] = true;
            i--;
            j--;
        } else if (table[(i - 1) * (n + 1) + j] > table[i * (n + 1) + j - 1]) {
            i--;
        } else {
            j--;
        }
    }
    fb_free(table);
    return FB_OK;
}

static fb_status mark_all(bool *marked, const struct words *said,
                          const struct words *gold)
{
    for (size_t r = 0; r < gold->n_pieces; r++)
        for (size_t p = 0; p < said->n_pieces; p++)
            FB_TRY(mark_common(marked, gold->word + gold->piece[r],
                               gold->piece[r + 1] - gold->piece[r],
                               said->word + said->piece[p],
                               said->piece[p + 1] - said->piece[p]));
    return FB_OK;
}

/* --- the score --- */

static size_t count_marked(const bool *marked, int32_t n)
{
    size_t count = 0;

    for (int32_t i = 0; i < n; i++)
        count += marked[i];
    return count;
}

static size_t count_distinct(const struct words *words, bool *scratch, int32_t n)
{
    memset(scratch, 0, (size_t)n * sizeof *scratch);
    for (size_t i = 0; i < words->n; i++)
        scratch[words->word[i]] = true;
    return count_marked(scratch, n);
}

static fb_status score_words(const struct words words[2], int32_t n, double *out)
{
    bool *marked = fb_zalloc(FB_ACCOUNT_other, (size_t)n + 1);
    double common, precision, recall;
    fb_status status;

    if (marked == NULL) return fb_fail(FB_NO_MEMORY, "no memory to score a text");
    status = mark_all(marked, &words[0], &words[1]);
    common = (double)count_marked(marked, n);
    precision = common / (double)count_distinct(&words[0], marked, n);
    recall = common / (double)count_distinct(&words[1], marked, n);
    *out = 2 * precision * recall / (precision + recall + 1e-8);
    fb_free(marked);
    return status;
}

fb_status fb_score_rouge_l(const fb_answer_pair *pair, double *out)
{
    struct words words[2] = {{NULL, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    int32_t n_words = 0;
    fb_status status = read_words(words, &n_words, pair);

    *out = 0;
    if (status == FB_OK && words[0].n_pieces > 0 && words[1].n_pieces > 0)
        status = score_words(words, n_words, out);
    for (int i = 0; i < 2; i++) {
        fb_free(words[i].word);
        fb_free(words[i].piece);
    }
    return status;
}
