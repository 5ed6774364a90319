/* score_code.c - code_sim: how similar is the first line of code?
 *
 * Source: LongBench's code_sim_score: fuzzywuzzy over Python's difflib (Ratcliff and
 * Obershelp 1988). The line is the first without "`", "#" or "//". With M the total
 * length of the matching blocks, found by taking the longest one and going on to its
 * left and right, r = 2 M / (|a| + |b|), in whole per cent.
 *
 * difflib's shortcut is kept: where the reference has 200 characters or more, one that
 * occurs in it more than length / 100 + 1 times starts no block, but a block found is
 * extended over it. With the package Levenshtein installed the same call gives other
 * numbers; LongBench lists only the plain one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "task/scorers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_REFERENCE = 200 };

struct range {
    size_t a_low, a_high, b_low, b_high;
};

struct block {
    size_t a, b, n;
};

struct matcher {
    fb_points a, b;
    bool *popular;           /* [b.n] */
    size_t *above, *current; /* [b.n + 1] lengths of blocks that end at b[j - 1] */
    struct range *open;      /* ranges still to be searched */
    size_t n_open;
};

static fb_points first_code_line(fb_points text)
{
    while (text.n > 0 && text.at[0] == '\n') {
        text.at++;
        text.n--;
    }
    for (size_t i = 0, begin = 0, bad = 0; i <= text.n; i++) {
        const int32_t c = i < text.n ? text.at[i] : '\n';

        if (c == '\n') {
            if (!bad) return (fb_points){text.at + begin, i - begin};
            begin = i + 1;
            bad = 0;
        }
        if (c == '`' || c == '#' || (c == '/' && i > begin && text.at[i - 1] == '/'))
            bad = 1;
    }
    return (fb_points){text.at, 0};
}

static int by_value(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* popular[j]: b[j] occurs too often to start a block. */
static fb_status mark_popular(struct matcher *m)
{
    const size_t most = m->b.n / 100 + 1;
    fb_points sorted;

    memset(m->popular, 0, m->b.n * sizeof *m->popular);
    if (m->b.n < LONG_REFERENCE) return FB_OK;
    FB_TRY(fb_points_copy(&sorted, m->b));
    qsort(sorted.at, sorted.n, sizeof *sorted.at, by_value);
    for (size_t j = 0; j < m->b.n; j++) {
        const int32_t *found =
            bsearch(&m->b.at[j], sorted.at, sorted.n, sizeof *sorted.at, by_value);
        size_t first = (size_t)(found - sorted.at), last = first;

        while (first > 0 && sorted.at[first - 1] == *found && last - first < most)
            first--;
        while (last + 1 < sorted.n && sorted.at[last + 1] == *found &&
               last - first < most)
            last++;
        m->popular[j] = last - first + 1 > most;
    }
    fb_points_clear(&sorted);
    return FB_OK;
}

/* The longest block in `in` without popular characters; the leftmost of equals. */
static struct block longest_start(struct matcher *m, const struct range *in)
{
    struct block best = {in->a_low, in->b_low, 0};

    memset(m->above, 0, (m->b.n + 1) * sizeof *m->above);
    for (size_t i = in->a_low; i < in->a_high; i++) {
        size_t *row = m->current;

        memset(row, 0, (m->b.n + 1) * sizeof *row);
        for (size_t j = in->b_low; j < in->b_high; j++) {
            if (m->a.at[i] != m->b.at[j] || m->popular[j]) continue;
            row[j + 1] = m->above[j] + 1;
            if (row[j + 1] > best.n)
                best =
                    (struct block){i + 1 - row[j + 1], j + 1 - row[j + 1], row[j + 1]};
        }
        m->current = m->above;
        m->above = row;
    }
    return best;
}

static struct block longest_block(struct matcher *m, const struct range *in)
{
    struct block block = longest_start(m, in);

    while (block.a > in->a_low && block.b > in->b_low &&
           m->a.at[block.a - 1] == m->b.at[block.b - 1]) {
        block.a--;
        block.b--;
        block.n++;
    }
    while (block.a + block.n < in->a_high && block.b + block.n < in->b_high &&
           m->a.at[block.a + block.n] == m->b.at[block.b + block.n])
        block.n++;
    return block;
}

static void push(struct matcher *m, struct range range)
{
    if (range.a_low < range.a_high && range.b_low < range.b_high)
        m->open[m->n_open++] = range;
}

static size_t total_of_blocks(struct matcher *m)
{
    size_t total = 0;

    push(m, (struct range){0, m->a.n, 0, m->b.n});
    while (m->n_open > 0) {
        const struct range in = m->open[--m->n_open];
        const struct block block = longest_block(m, &in);

        if (block.n == 0) continue;
        total += block.n;
        push(m, (struct range){in.a_low, block.a, in.b_low, block.b});
        push(m, (struct range){block.a + block.n, in.a_high, block.b + block.n,
                               in.b_high});
    }
    return total;
}

static fb_status measure(struct matcher *m, double *out)
{
    FB_TRY(mark_popular(m));
    *out = 2.0 * (double)total_of_blocks(m) / (double)(m->a.n + m->b.n);
    return FB_OK;
}

static fb_status ratio(fb_points a, fb_points b, double *out)
{
    const size_t n = b.n + 1;
    size_t *lengths = fb_alloc(FB_ACCOUNT_other, fb_size_mul(n, 2 * sizeof *lengths));
    bool *popular = fb_alloc(FB_ACCOUNT_other, n * sizeof *popular);
    /* Every open range but one lies beside a block of its own. */
    struct range *open = fb_alloc(FB_ACCOUNT_other, fb_size_mul(n + 1, sizeof *open));
    fb_status status;

    if (lengths != NULL && popular != NULL && open != NULL)
        status = measure(
            &(struct matcher){a, b, popular, lengths, lengths + n, open, 0}, out);
    else
        status = fb_fail(FB_NO_MEMORY, "no memory to score a text");
    fb_free(lengths);
    fb_free(popular);
    fb_free(open);
    return status;
}

fb_status fb_score_code_sim(const fb_answer_pair *pair, double *out)
{
    const fb_points said = first_code_line(pair->prediction);

    *out = 0;
    if (fb_points_equal(said, pair->reference)) *out = 1;
    if (*out == 1 || said.n == 0 || pair->reference.n == 0) return FB_OK;
    FB_TRY(ratio(said, pair->reference, out));
    *out = rint(100 * *out) / 100; /* ties to even, as Python rounds */
    return FB_OK;
}
