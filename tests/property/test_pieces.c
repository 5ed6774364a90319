/* test_pieces.c - pieces of a text that stay or go together: invariants 6 and 7.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

static shown text;

/* One of the rules without ends or quotas of their own. */
static const char *draw_inner(numbers *r)
{
    static const char *const all[] = {
        "knorm", "keydiff",      "observed_attention",          "cur",
        "a2sf",  "paged:page=0", "expected_attention:future=16"};

    return all[number_int(r, 0, 6)];
}

/* --- 6 --- */

/* Of the pieces of a head: those that stay whole and those that do in part, protected
 * entries aside. */
static void count_pieces(const fb_kept *kept, int64_t slot, int64_t size,
                         fb_protect protect, int64_t *whole, int64_t *part)
{
    const int64_t last = text.n - protect.recent;
    int64_t stays[SHOWN_TOKENS] = {0};

    *whole = *part = 0;
    for (int64_t i = 0; i < kept->count[slot]; i++)
        stays[kept->position[slot][i]] = 1;
    for (int64_t at = protect.sink / size * size; at < last; at += size) {
        int64_t all = 0, here = 0;

        for (int64_t j = at; j < at + size; j++)
            if (j >= protect.sink && j < last) {
                all++;
                here += stays[j];
            }
        *whole += all > 0 && here == all;
        *part += here > 0 && here < all;
    }
}

static void check_whole_pieces(numbers *r)
{
    const int64_t size = number_int(r, 1, 30);
    const char *heads = number_int(r, 0, 1) == 0 ? "own" : "shared";
    char rule[SMALL_TEXT];
    small_budget b;
    fb_selection s;

    shown_draw(&text, ops, r, 8, 64);
    b = small_draw_budget(&text, r);
    (void)snprintf(rule, sizeof rule, "chunk(%s,size=%d,fill=none,heads=%s)",
                   draw_inner(r), (int)size, heads);
    small_select(&s, &text, rule, b.protect, b.k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
        const int64_t left = b.k - s.kept.count[slot];
        int64_t whole, part;

        count_pieces(&s.kept, slot, size, b.protect, &whole, &part);
        holds(left >= 0 && left < size);
        holds(part == 0 || (part == 1 && whole == 0 && left == 0)); /* the best one */
    }
    fb_selection_clear(&s);
}

static void chunks_without_filling_stay_whole_but_for_the_best_one(void **state)
{
    (void)state;
    try_cases(300, check_whole_pieces);
}

static void check_trivial_pieces(numbers *r)
{
    const char *inner = draw_inner(r);
    char chunk[SMALL_TEXT], shared[SMALL_TEXT];
    small_budget b;

    shown_draw(&text, ops, r, 8, 64);
    (void)snprintf(shared, sizeof shared, "shared(%s)", inner);
    (void)snprintf(chunk, sizeof chunk, "chunk(%s,size=1)", inner);
    b = small_draw_budget(&text, r);
    holds(small_keep_same(&text, chunk, shared, b.protect, b.k));
    (void)snprintf(chunk, sizeof chunk, "chunk(%s,size=%d)", inner,
                   (int)number_int(r, text.n, 200));
    b = small_draw_budget(&text, r);
    holds(small_keep_same(&text, chunk, shared, b.protect, b.k));
}

static void chunks_of_one_entry_or_of_all_are_the_shared_rule(void **state)
{
    (void)state;
    try_cases(300, check_trivial_pieces);
}

/* --- 7 --- */

/* Of every page all entries stay or none, of the last, if it is not full, all; so few entries
 * are missing at the budget that no page had room. */
static void is_of_pages(const fb_kept *kept, int64_t slot, int64_t size, int64_t k)
{
    const int64_t n = text.n, count = kept->count[slot];
    int64_t stays[SHOWN_TOKENS] = {0}, gone = 0;

    for (int64_t i = 0; i < count; i++)
        stays[kept->position[slot][i] / size]++;
    for (int64_t page = 0; page * size < n; page++) {
        const int64_t all = n - page * size < size ? n - page * size : size;

        holds(stays[page] == 0 || stays[page] == all);
        if (all < size) holds(stays[page] == all);
        gone += stays[page] == 0;
    }
    holds(count <= k && (k - count < size || gone == 0));
}

/* There is room for the pages of which a part is protected. */
static void check_pages(numbers *r)
{
    const bool is_preset = number_int(r, 0, 2) == 0;
    const int64_t size = is_preset ? 16 : number_int(r, 1, 12);
    const char *heads = number_int(r, 0, 1) == 0 ? "own" : "shared";
    char rule[SMALL_TEXT] = "paged_whole";
    fb_protect protect = {FB_PROTECT_EXPERIMENT, 0, 0};
    fb_selection s;
    int64_t k;

    shown_draw(&text, ops, r, 2 * size + 8, SHOWN_TOKENS);
    protect.sink = number_int(r, 0, 3);
    protect.recent = number_int(r, 0, 3);
    k = number_int(r, protect.sink + protect.recent + 2 * size, text.n - 1);
    if (!is_preset)
        (void)snprintf(rule, sizeof rule,
                       "chunk(%s,size=%d,fill=none,cut=page,heads=%s)", draw_inner(r),
                       (int)size, heads);
    small_select(&s, &text, rule, protect, k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
        is_of_pages(&s.kept, slot, size, k);
    fb_selection_clear(&s);
}

static void pages_leave_whole_and_the_open_one_never(void **state)
{
    (void)state;
    try_cases(300, check_pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_without_filling_stay_whole_but_for_the_best_one),
        cmocka_unit_test(chunks_of_one_entry_or_of_all_are_the_shared_rule),
        cmocka_unit_test(pages_leave_whole_and_the_open_one_never),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
