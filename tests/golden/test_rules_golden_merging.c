/* test_rules_golden_merging.c - `merging` makes of kept values what its formula says, on the
 * tensors of tests/golden/rules/merging.json.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

#include <math.h>

static fb_ops *ops;
static json_t *golden;

static int open_golden(void **state)
{
    const fb_ops_options options = {.threads = 1};

    (void)state;
    golden = golden_load("tests/golden/rules/merging.json");
    return fb_ops_open(&ops, &options) == FB_OK ? 0 : -1;
}

static int close_golden(void **state)
{
    (void)state;
    json_decref(golden);
    fb_ops_close(ops);
    return 0;
}

static bool is_kept(json_t *kept, size_t j)
{
    for (size_t i = 0; i < json_array_size(kept); i++)
        if ((size_t)json_integer_value(json_array_get(kept, i)) == j) return true;
    return false;
}

/* The rows of a list of rows that are kept, or the others: [1, rows, d]. */
static fb_tensor rows(json_t *list, json_t *kept, bool which)
{
    const int64_t d = (int64_t)golden_number(golden, "d");
    float host[64 * 16];
    int64_t n = 0;

    for (size_t j = 0; j < json_array_size(list); j++) {
        json_t *row = json_array_get(list, j);

        if (is_kept(kept, j) != which) continue;
        for (int64_t i = 0; i < d; i++)
            host[n * d + i] = (float)json_number_value(json_array_get(row, (size_t)i));
        n++;
    }
    return fb_from_host(ops, FB_F32, 3, (int64_t[]){1, n, d}, host);
}

static void check(json_t *test, const fb_edit_input *in)
{
    json_t *wanted = golden_at(test, "values");
    float got[64 * 16];
    fb_bound_rule *rule;
    size_t d = 0;

    assert_ok(fb_rule_parse(&rule, json_string_value(golden_at(test, "rule"))));
    fb_scope_open(ops);
    d = (size_t)fb_size(ops, in->kept_values, 2);
    assert_ok(fb_to_host(ops, fb_bound_rule_edit(rule, ops, in), got,
                         json_array_size(wanted) * d * sizeof *got));
    fb_scope_close(ops);
    for (size_t i = 0; i < json_array_size(wanted) * d; i++) {
        const double x =
            json_number_value(json_array_get(json_array_get(wanted, i / d), i % d));

        if (fabs((double)got[i] - x) > 2e-6)
            fail_msg("%s: number %zu is %.9g, not %.9g", fb_bound_rule_text(rule), i,
                     (double)got[i], x);
    }
    fb_bound_rule_free(rule);
}

static void values_are_merged_as_the_formula_says(void **state)
{
    json_t *heads = golden_at(golden, "heads");

    (void)state;
    for (size_t h = 0; h < json_array_size(heads); h++) {
        json_t *head = json_array_get(heads, h), *cases = golden_at(head, "cases");
        json_t *kept = golden_at(head, "kept");
        fb_edit_input in = {.n_layers = 1, .kv_heads = 1};

        fb_scope_open(ops);
        in.kept_keys = rows(golden_at(head, "keys"), kept, true);
        in.kept_values = rows(golden_at(head, "values"), kept, true);
        in.dropped_keys = rows(golden_at(head, "keys"), kept, false);
        in.dropped_values = rows(golden_at(head, "values"), kept, false);
        for (size_t c = 0; c < json_array_size(cases); c++)
            check(json_array_get(cases, c), &in);
        fb_scope_close(ops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_merged_as_the_formula_says),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
