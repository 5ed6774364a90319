/* test_heads.c - heads in another order: invariant 11.
 *
 * Sums of other orders differ in their last bits, so scores are compared to 2e-4 of the
 * largest of their layer.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

#define NEAR 2e-4

enum { MOST = 2 * SHOWN_HEADS * SHOWN_TOKENS };

static shown text, other;

/* --- 11 --- */

static void shuffle(numbers *r, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = number_int(r, 0, i), kept = order[i];

        order[i] = order[j];
        order[j] = kept;
    }
}

/* Row i of `to` is row order[i] of `from`. */
static void permute(float *to, const float *from, const int64_t *order, int64_t rows,
                    int64_t n)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * n, from + order[i] * n, (size_t)n * sizeof *to);
}

/* `other` is `text` with its kv heads in the order `kv`, its query heads in `q`. */
static void permute_heads(const int64_t *kv, const int64_t *q)
{
    const int64_t g = text.kv_heads, h = text.heads, row = text.n * SHOWN_DIM;

    other = text;
    for (int64_t l = 0; l < text.layers; l++) {
        const shown_layer *from = &text.layer[l];
        shown_layer *to = &other.layer[l];

        permute(to->keys, from->keys, kv, g, row);
        permute(to->values, from->values, kv, g, row);
        permute(to->queries, from->queries, q, h, row);
        permute(to->output, from->output, q, h, SHOWN_WIDTH * SHOWN_DIM);
        permute(to->attention, from->attention, q, h, text.n * text.n);
        permute(to->sum, from->sum, q, h, text.n);
        permute(to->future, from->future, q, h, text.n);
    }
}

/* Numbers of its own for every head, by its index. */
static bool tells_heads_apart(const fb_bound_rule *rule)
{
    return fb_bound_rule_is_random(rule) ||
           strstr(fb_bound_rule_text(rule), "leverage") != NULL;
}

/* Its scores are dealt out by place, and of two heads that are due at the same place the
 * lower one comes first: heads may have each other's numbers, but in the same order. */
static bool deals_out_places(const fb_bound_rule *rule)
{
    return strcmp(fb_bound_rule_get(rule)->name, "defensive") == 0;
}

static bool same_order(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if ((a[i] < a[j]) != (b[i] < b[j])) return false;
    return true;
}

static int64_t planes_of(const fb_bound_rule *rule)
{
    const int64_t planes = fb_bound_rule_choices(rule)->planes;

    return planes > 1 ? planes : 1;
}

/* Scores of `other` in the order `kv` are those of `text`. */
static void check_heads(const fb_bound_rule *rule, const int64_t *kv)
{
    static float a[MOST], b[MOST], wanted[MOST];
    int64_t n, columns;

    for (int64_t l = 0; l < text.layers; l++) {
        fb_scope_open(ops);
        n = shown_host(&text, shown_score(&text, rule, l), a);
        holds(shown_host(&other, shown_score(&other, rule, l), b) == n);
        fb_scope_close(ops);
        columns = n / planes_of(rule) / text.kv_heads;
        for (int64_t p = 0; p < planes_of(rule); p++)
            permute(wanted + p * text.kv_heads * columns,
                    a + p * text.kv_heads * columns, kv, text.kv_heads, columns);
        if (!deals_out_places(rule)) holds(shown_apart(wanted, b, n) <= NEAR);
        for (int64_t i = 0; deals_out_places(rule) && i < n; i += columns)
            holds(same_order(wanted + i, b + i, columns));
    }
}

static void check_every_rule(numbers *r, const int64_t *kv)
{
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_is_shown(rule) && !tells_heads_apart(rule)) check_heads(rule, kv);
        fb_bound_rule_free(rule);
    }
}

static void check_permuted(numbers *r)
{
    int64_t kv[SHOWN_KV_HEADS], own[SHOWN_HEADS], q[SHOWN_HEADS], group;

    shown_draw(&text, ops, r, 24, 48);
    group = text.heads / text.kv_heads;
    shuffle(r, kv, text.kv_heads);
    for (int64_t g = 0; g < text.kv_heads; g++) {
        shuffle(r, own, group);
        for (int64_t i = 0; i < group; i++)
            q[g * group + i] = kv[g] * group + own[i];
    }
    permute_heads(kv, q);
    check_every_rule(r, kv);
}

static void heads_in_another_order_have_their_scores_in_that_order(void **state)
{
    (void)state;
    try_cases(80, check_permuted);
}

static void check_tova(numbers *r)
{
    static const int64_t kv[SHOWN_KV_HEADS] = {0, 1, 2};
    fb_bound_rule *rule = small_parse("tova");
    int64_t q[SHOWN_HEADS];

    shown_draw(&text, ops, r, 2, 48);
    shuffle(r, q, text.heads);
    permute_heads(kv, q);
    check_heads(rule, kv);
    fb_bound_rule_free(rule);
}

static void tova_takes_all_query_heads_alike(void **state)
{
    (void)state;
    try_cases(200, check_tova);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_in_another_order_have_their_scores_in_that_order),
        cmocka_unit_test(tova_takes_all_query_heads_alike),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
