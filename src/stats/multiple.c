/* multiple.c - many comparisons at once: Holm's correction and letters for groups.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "stats/stats.h"

#include <math.h>
#include <string.h>

/* Holm 1979, "A simple sequentially rejective multiple test procedure": the j-th
 * smallest of n is multiplied by n - j + 1, and no adjusted p is below an earlier one.
 * Equal p get the same result in any order, so a rank by counting will do. */
void fb_holm(const double *p, int n, double *out)
{
    for (int i = 0; i < n; i++) {
        double most = 0;

        for (int j = 0; j < n; j++) {
            int smaller = 0;

            if (p[j] > p[i]) continue;
            for (int k = 0; k < n; k++)
                smaller += p[k] < p[j];
            most = fmax(most, (n - smaller) * p[j]);
        }
        out[i] = fmin(1, most);
    }
}

/* A column is a set of rules that share a letter: bit r stands for the rule of place r
 * in the order. */
enum { MOST_RULES = 64, MOST_COLUMNS = 4096, ALPHABET = 52, MOST_LETTERS = 31 };

struct columns {
    uint64_t set[MOST_COLUMNS];
    int n;
};

/* Takes in a column unless one holds it already, and drops those that it holds. */
static bool absorb(struct columns *columns, uint64_t set)
{
    int kept = 0;

    for (int c = 0; c < columns->n; c++)
        if ((set & ~columns->set[c]) == 0) return true;
    for (int c = 0; c < columns->n; c++)
        if ((columns->set[c] & ~set) != 0) columns->set[kept++] = columns->set[c];
    columns->n = kept;
    if (kept == MOST_COLUMNS) return false;
    columns->set[columns->n++] = set;
    return true;
}

/* Splits every column that holds both rules of a pair that differs. */
static bool insert(struct columns *columns, uint64_t pair_a, uint64_t pair_b)
{
    const uint64_t pair = pair_a | pair_b;
    uint64_t split[MOST_COLUMNS];
    int n_split = 0, kept = 0;

    for (int c = 0; c < columns->n; c++)
        if ((columns->set[c] & pair) == pair)
            split[n_split++] = columns->set[c];
        else
            columns->set[kept++] = columns->set[c];
    columns->n = kept;
    for (int c = 0; c < n_split; c++)
        if (!absorb(columns, split[c] & ~pair_a) ||
            !absorb(columns, split[c] & ~pair_b))
            return false;
    return true;
}

static uint64_t lowest_bit(uint64_t set)
{
    return set & (~set + 1);
}

/* True if column `a` gets its letter before `b`: the one with the better rule first. */
static bool is_before(uint64_t a, uint64_t b)
{
    const uint64_t differing = lowest_bit(a ^ b);

    return (a & differing) != 0;
}

static void sort_columns(struct columns *columns)
{
    for (int c = 1; c < columns->n; c++)
        for (int d = c; d > 0 && is_before(columns->set[d], columns->set[d - 1]); d--) {
            const uint64_t set = columns->set[d];

            columns->set[d] = columns->set[d - 1];
            columns->set[d - 1] = set;
        }
}

static fb_status write_letters(const struct columns *columns, const int *order, int n,
                               char (*letters)[32])
{
    static const char alphabet[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (int r = 0; r < n; r++) {
        int used = 0;

        memset(letters[order[r]], 0, sizeof letters[order[r]]);
        for (int c = 0; c < columns->n; c++) {
            if ((columns->set[c] >> r & 1) == 0) continue;
            if (c >= ALPHABET || used == MOST_LETTERS)
                return fb_fail(FB_UNSUPPORTED,
                               "the groups of %d rules need more "
                               "letters than there are",
                               n);
            letters[order[r]][used++] = alphabet[c];
        }
    }
    return FB_OK;
}

/* Piepho 2004, "An algorithm for a letter-based representation of all-pairwise
 * comparisons". */
fb_status fb_letters(const bool *differs, const int *order, int n, char (*letters)[32])
{
    struct columns columns = {.n = 1};

    if (n > MOST_RULES)
        return fb_fail(FB_UNSUPPORTED, "%d rules cannot be grouped; %d at most", n,
                       MOST_RULES);
    columns.set[0] = n == MOST_RULES ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    for (int r = 0; r < n; r++)
        for (int s = r + 1; s < n; s++)
            if (differs[order[r] * n + order[s]] &&
                !insert(&columns, UINT64_C(1) << r, UINT64_C(1) << s))
                return fb_fail(FB_UNSUPPORTED, "the groups of %d rules are too many",
                               n);
    sort_columns(&columns);
    return write_letters(&columns, order, n, letters);
}
