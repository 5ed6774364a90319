/* test_analysis_find.c - which sentence which tables allow, on tables made by hand.
 *
 * A table is written as its rows from best to worst: a mark for the verdict (+ better,
 * - worse, . open, b the baseline, r another reference), the rule's index, its groups.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis_parts.h"
#include "tests/support/near.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 8 };

struct made {
    fb_table table;
    fb_row rows[MOST_ROWS];
};

static fb_verdict verdict_of(char mark)
{
    return mark == '+'   ? FB_VERDICT_better
           : mark == '-' ? FB_VERDICT_worse
           : mark == '.' ? FB_VERDICT_open
                         : FB_VERDICT_reference;
}

/* "r0 +1:a b2:b" */
static const fb_table *make(struct made *made, const char *rows)
{
    fb_table *table = &made->table;

    *made = (struct made){.table = {.baseline = -1}};
    table->rows = made->rows;
    while (*rows != 0) {
        fb_row *row = &table->rows[table->n_rows];
        char mark;
        int n = 0;

        assert_true(table->n_rows < MOST_ROWS);
        assert_int_equal(sscanf(rows, " %c%d%n", &mark, &row->rule, &n), 2);
        row->verdict = verdict_of(mark);
        if (mark == 'b') table->baseline = table->n_rows;
        rows += n;
        if (*rows == ':') {
            assert_int_equal(sscanf(rows, ":%31[a-z]%n", row->letters, &n), 1);
            rows += n;
        }
        while (*rows == ' ')
            rows++;
        table->n_rows++;
    }
    return table;
}

static const fb_result_rule rules[] = {
    {.label = "full", .expression = "full"},
    {.label = "x", .expression = "snapkv"},
    {.label = "y", .expression = "snapkv"},
    {.label = "z", .expression = "h2o"},
    {.label = "w", .expression = "tova"},
    {.label = "random", .expression = "random"},
};

/* Finds for one or two tables. */
static fb_finding find(const char *a, const char *b)
{
    const fb_results results = {.rules = rules, .n_rules = 6};
    struct made made[2];
    const fb_table *tables[2];
    fb_finding finding;

    tables[0] = make(&made[0], a);
    if (b != NULL) tables[1] = make(&made[1], b);
    fb_analysis_find(&finding, tables, b == NULL ? 1 : 2, &results);
    return finding;
}

static void assert_rules(const fb_finding *finding, int a, int b)
{
    assert_int_equal(finding->n_rules, b < 0 ? 1 : 2);
    assert_int_equal(finding->rules[0], a);
    if (b >= 0) assert_int_equal(finding->rules[1], b);
}

static void nothing_tested_is_empty(void **state)
{
    fb_finding finding = find("r0 b5", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_empty);
    finding = find("r0 r5", NULL);
    assert_int_equal(finding.kind, FB_FINDING_empty);
}

static void no_better_rule_is_none(void **state)
{
    fb_finding finding = find("r0 .1:a b5:a .3:a", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_none);
    finding = find("r0 .1:a b5:a -3:b", "r0 b5:a -1:b -3:b");
    assert_int_equal(finding.kind, FB_FINDING_none);
}

static void one_rule_under_several_names_is_same(void **state)
{
    fb_finding finding = find("r0 b1:a .2:a", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_same);
    finding = find("r0 b1:a .2:a .3:a", NULL); /* h2o is another rule */
    assert_int_equal(finding.kind, FB_FINDING_none);
}

static void one_leader_is_the_winner(void **state)
{
    fb_finding finding = find("r0 +1:a +3:b b5:c", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_winner);
    assert_rules(&finding, 1, -1);
    finding = find("+1:a .3:b b5:b", "+1:a b5:b -3:c");
    assert_int_equal(finding.kind, FB_FINDING_winner);
    assert_rules(&finding, 1, -1);
}

static void leaders_that_share_a_letter_are_a_tie(void **state)
{
    const fb_finding finding = find("r0 +3:a +1:a +4:b b5:c", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_tie);
    assert_rules(&finding, 3, 1);
}

/* 1 is not told from 3, nor from 4, but 3 and 4 differ: only 1 and 3 may be called not
 * distinguishable in one breath. */
static void a_tie_is_one_of_all_its_pairs(void **state)
{
    const fb_finding finding = find("r0 +1:ab +3:a +4:b b5:c", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_tie);
    assert_rules(&finding, 1, 3);
}

static void an_open_rule_beside_the_best_is_told(void **state)
{
    const fb_finding finding = find("r0 +1:a .3:abc b5:bc", NULL);

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_unsure);
    assert_rules(&finding, 1, -1);
}

static void a_rule_that_leads_in_both_wins_over_one_that_leads_in_one(void **state)
{
    const fb_finding finding = find("+1:a +3:a b5:b", "+3:a b5:b -1:c");

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_winner); /* although 1 reverses */
    assert_rules(&finding, 3, -1);
}

static void the_best_of_one_that_loses_in_the_other_is_a_reversal(void **state)
{
    fb_finding finding = find("+1:a .3:b b5:b", "+3:a b5:b -1:c");

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_reversal);
    assert_rules(&finding, 1, -1);
    assert_int_equal(finding.best_for, 0);
    assert_int_equal(finding.worse_for, 1);
    finding = find("b5:a -1:b -3:c", "+1:a b5:b .3:b");
    assert_int_equal(finding.kind, FB_FINDING_reversal);
    assert_int_equal(finding.best_for, 1);
    assert_int_equal(finding.worse_for, 0);
}

/* Worse in the mean is not enough: both ends must be significant. */
static void without_both_ends_significant_nothing_reverses(void **state)
{
    fb_finding finding = find("+1:a .3:b b5:b", "+3:a b5:b .1:b");

    (void)state;
    assert_int_equal(finding.kind, FB_FINDING_split);
    finding = find("+1:a b5:b", ".3:a b5:a .1:a");
    assert_int_equal(finding.kind, FB_FINDING_split);
    finding = find("+1:a b5:b", "b5:a");
    assert_int_equal(finding.kind, FB_FINDING_split);
}

static void leaders_need_no_letters_to_be_found(void **state)
{
    struct made made;
    int leaders[FB_MOST_LEADERS];

    (void)state;
    assert_int_equal(fb_analysis_leaders(make(&made, "+1 +3 b5"), leaders), 1);
    assert_int_equal(leaders[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_tested_is_empty),
        cmocka_unit_test(no_better_rule_is_none),
        cmocka_unit_test(one_rule_under_several_names_is_same),
        cmocka_unit_test(one_leader_is_the_winner),
        cmocka_unit_test(leaders_that_share_a_letter_are_a_tie),
        cmocka_unit_test(a_tie_is_one_of_all_its_pairs),
        cmocka_unit_test(an_open_rule_beside_the_best_is_told),
        cmocka_unit_test(a_rule_that_leads_in_both_wins_over_one_that_leads_in_one),
        cmocka_unit_test(the_best_of_one_that_loses_in_the_other_is_a_reversal),
        cmocka_unit_test(without_both_ends_significant_nothing_reverses),
        cmocka_unit_test(leaders_need_no_letters_to_be_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
