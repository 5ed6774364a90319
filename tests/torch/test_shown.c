/* test_shown.c - every rule on both backends, on random texts: the same scores, the same
 * entries.
 *
 * With windows and pieces so small that no rule is spared (small_rules.h), and numbers of
 * layers and heads that no small model has. Scores agree to NEAR of the largest of a layer;
 * where two are nearer than that one entry may take the other's place, which is counted.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/small_rules.h"

#define NEAR  1e-4
#define EQUAL 0.99 /* of the kept sets, a rule's of one text and budget each */

enum { MOST = 2 * SHOWN_HEADS * SHOWN_TOKENS };

static fb_ops *native, *torch;
static shown text;
static int64_t n_sets, n_equal;

static int open_both(void **state)
{
    const fb_ops_options device = {.device = test_device(), .threads = 1};

    (void)state;
    if (fb_ops_open(&native, &(fb_ops_options){.device = "cpu", .threads = 1}) != FB_OK)
        return -1;
    return fb_ops_open(&torch, &device) == FB_OK ? 0 : -1;
}

static int close_both(void **state)
{
    (void)state;
    fb_ops_close(torch);
    fb_ops_close(native);
    return 0;
}

/* Scores that may be far apart where what they are made of is nearly equal: dealt out anew by
 * place (`defensive`), or a quotient of two numbers that vanish together, as where one entry
 * has all of a head (`caote`). Their sets alone are held against each other. */
static bool has_steps(const fb_bound_rule *rule)
{
    const char *name = fb_bound_rule_get(rule)->name;

    return strcmp(name, "defensive") == 0 || strcmp(name, "caote") == 0;
}

static void scores_agree(const shown_scores *a, const shown_scores *b)
{
    static float first[MOST], second[MOST];

    for (int64_t l = 0; l < text.layers; l++) {
        double most = 0, off = 0;
        int64_t n;

        text.ops = native;
        n = shown_host(&text, a->score[l], first);
        text.ops = torch;
        holds(shown_host(&text, b->score[l], second) == n);
        for (int64_t i = 0; i < n; i++) {
            holds(isfinite(first[i]) == isfinite(second[i]));
            if (!isfinite(first[i])) continue;
            most = fmax(most, fabs((double)first[i]));
            off = fmax(off, fabs((double)first[i] - (double)second[i]));
        }
        holds(off <= NEAR * most);
    }
}

static void select_on(fb_ops *ops, fb_selection *out, const fb_bound_rule *rule,
                      shown_scores *scores, fb_protect protect, int64_t k)
{
    text.ops = ops;
    shown_read(scores, &text, rule);
    shown_select(out, &text, rule, scores, protect, k);
}

static void compare(const fb_bound_rule *rule, numbers *r)
{
    const fb_protect protect = small_protect(r, text.n);
    const int64_t k = number_int(r, 1, text.n - 1);
    shown_scores a = {0}, b = {0};
    fb_selection first, second;
    bool same;

    fb_scope_open(native);
    fb_scope_open(torch);
    select_on(native, &first, rule, &a, protect, k);
    select_on(torch, &second, rule, &b, protect, k);
    same = shown_is_same(&first.kept, &second.kept);
    holds(fb_kept_total(&first.kept) == fb_kept_total(&second.kept));
    if (!has_steps(rule) && !fb_select_falls_back(rule, text.n)) scores_agree(&a, &b);
    if (!same) print_message("another set: %s, case %d\n", case_of, (int)case_seed);
    n_sets++;
    n_equal += same;
    fb_selection_clear(&first);
    fb_selection_clear(&second);
    fb_scope_close(torch);
    fb_scope_close(native);
}

static void check_all(numbers *r)
{
    /* of entries that are all alike a standardised score is the rounding of their mean */
    shown_draw(&text, native, r, 12, 80);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_is_shown(rule)) compare(rule, r);
        fb_bound_rule_free(rule);
    }
}

static void every_rule_scores_and_keeps_the_same(void **state)
{
    (void)state;
    try_cases(60, check_all);
    print_message("%d of %d kept sets are equal\n", (int)n_equal, (int)n_sets);
    assert_true((double)n_equal >= EQUAL * (double)n_sets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_scores_and_keeps_the_same),
    };

    return cmocka_run_group_tests(tests, open_both, close_both);
}
