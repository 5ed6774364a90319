/* test_rule_spread.c - budgets divided among layers and heads: exact totals, bounds, order.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"
#include "tests/support/test.h"
#include "tests/support/use_ops.h"

#include <math.h>

enum { MOST_LAYERS = 24, MOST_HEADS = 5, MOST_ENTRIES = 300, MOST_COLUMNS = 60 };
enum { SLOTS = MOST_LAYERS * MOST_HEADS };

static uint64_t seed = 5;

static uint64_t draw(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

/* In (0, 1). */
static double draw_real(void)
{
    return ((double)draw(1 << 30) + 0.5) / (double)(1 << 30);
}

/* A case with room for a choice. */
static fb_spread_input draw_case(void)
{
    fb_spread_input in = {.n_layers = 1 + (int64_t)draw(MOST_LAYERS),
                          .kv_heads = 1 + (int64_t)draw(MOST_HEADS),
                          .m = 1 + (int64_t)draw(MOST_ENTRIES)};

    in.n_protected = (int64_t)draw((uint64_t)in.m);
    in.k = in.n_protected + 1 + (int64_t)draw((uint64_t)(in.m - in.n_protected));
    return in;
}

/* Of five kinds: even, unlike, many zeros, one against all, all zero. */
static void draw_weights(double *weight, int64_t n, int kind)
{
    for (int64_t i = 0; i < n; i++) {
        const double x = draw_real();

        weight[i] = kind == 0   ? 1 + 0.1 * x
                    : kind == 1 ? exp(20 * x - 10)
                    : kind == 2 ? (draw(2) == 0 ? 0 : x)
                    : kind == 3 ? (i == 0 ? 1e6 : x)
                                : 0;
    }
}

static int64_t sum(const int64_t *k, int64_t n)
{
    int64_t total = 0;

    for (int64_t i = 0; i < n; i++)
        total += k[i];
    return total;
}

static double within(double low, double x, double high)
{
    return fmin(fmax(x, low), high);
}

/* Exact shares by bisection of the factor, as one would on paper: weight times factor,
 * within bounds; what the layers with a weight cannot take is divided evenly. */
static void divide_slowly(const fb_spread_input *in, const double *weight, double *part)
{
    const double high = (double)(in->kv_heads * in->m);
    const double low =
        (double)in->kv_heads * fmin((double)(in->n_protected + 1), (double)in->m);
    const double total = (double)(in->n_layers * in->kv_heads * in->k);
    double below = -60, above = 60, all = 0; /* logarithms of the factor */
    int64_t n_zero = 0;

    for (int i = 0; i < 200; i++) {
        const double factor = exp((below + above) / 2);

        all = 0;
        for (int64_t l = 0; l < in->n_layers; l++)
            all += within(low, factor * weight[l], high);
        if (all < total)
            below = (below + above) / 2;
        else
            above = (below + above) / 2;
    }
    for (int64_t l = 0; l < in->n_layers; l++) {
        part[l] = within(low, exp(above) * weight[l], high);
        n_zero += weight[l] == 0;
    }
    for (int64_t l = 0; l < in->n_layers; l++)
        if (all < total - 1e-6 && weight[l] == 0)
            part[l] += (total - all) / (double)n_zero;
}

static void check_case(const fb_spread_input *in, const double *weight)
{
    const int64_t heads = in->kv_heads, n = in->n_layers * heads;
    int64_t k[SLOTS];
    double part[MOST_LAYERS];

    assert_ok(fb_spread_by_weight(in, weight, k));
    assert_int_equal(sum(k, n), n * in->k);
    divide_slowly(in, weight, part);
    for (int64_t l = 0; l < in->n_layers; l++) {
        const int64_t *own = k + l * heads;

        assert_true(fabs((double)sum(own, heads) - part[l]) < 1 + 1e-6);
        for (int64_t g = 0; g < heads; g++) {
            assert_in_range(own[g], in->n_protected + 1, in->m);
            assert_true(own[g] <= own[0] && own[g] >= own[0] - 1);
            assert_true(g == 0 || own[g] <= own[g - 1]);
        }
    }
}

static void totals_are_exact_and_shares_in_proportion_within_their_bounds(void **state)
{
    (void)state;
    for (int64_t i = 0; i < long_or_short(200000, 6000); i++) {
        const fb_spread_input in = draw_case();
        double weight[MOST_LAYERS];

        draw_weights(weight, in.n_layers, (int)(i % 5));
        check_case(&in, weight);
    }
}

static void layers_in_another_order_get_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        const fb_spread_input in = draw_case();
        const int64_t n = in.n_layers, shift = (int64_t)draw((uint64_t)n);
        double weight[MOST_LAYERS], turned[MOST_LAYERS];
        int64_t k[SLOTS], other[SLOTS];

        draw_weights(weight, n, i % 2);
        for (int64_t l = 0; l < n; l++)
            turned[(l + shift) % n] = weight[l];
        assert_ok(fb_spread_by_weight(&in, weight, k));
        assert_ok(fb_spread_by_weight(&in, turned, other));
        for (int64_t l = 0; l < n; l++)
            assert_memory_equal(k + l * in.kv_heads,
                                other + (l + shift) % n * in.kv_heads,
                                (size_t)in.kv_heads * sizeof *k);
    }
}

static void a_layer_without_weight_gets_the_least(void **state)
{
    const fb_spread_input in = {.n_layers = 3, .kv_heads = 2, .m = 100, .k = 10};
    int64_t k[6];

    (void)state;
    assert_ok(fb_spread_by_weight(&in, (double[]){0, 1, 0}, k));
    assert_int_equal(sum(k, 6), 60);
    assert_true(k[0] == 1 && k[1] == 1 && k[4] == 1 && k[5] == 1);
    assert_ok(fb_spread_by_weight(&in, (double[]){0, 0, 0}, k)); /* all alike */
    for (int i = 0; i < 6; i++)
        assert_int_equal(k[i], 10);
}

static void equal_remainders_go_to_lower_layers_and_heads(void **state)
{
    const fb_spread_input in = {.n_layers = 4, .kv_heads = 2, .m = 9, .k = 3};
    static const int64_t wanted[] = {4, 4, 4, 3, 4, 3, 1, 1};
    int64_t k[8];

    (void)
        state; /* of 24: the last layer is lifted to 2, the others have 7 + 1/3 each */
    assert_ok(fb_spread_by_weight(&in, (double[]){1, 1, 1, 0}, k));
    assert_memory_equal(k, wanted, sizeof k);
}

static void the_rest_is_shared_beside_what_every_head_has(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        const fb_spread_input in = draw_case();
        fb_spread_input rest = in;
        double weight[MOST_LAYERS];
        int64_t k[SLOTS], free_k[SLOTS];

        rest.m -= in.n_protected;
        rest.k -= in.n_protected;
        rest.n_protected = 0;
        draw_weights(weight, in.n_layers, i % 5);
        assert_ok(fb_spread_rest_by_weight(&in, weight, k));
        assert_ok(fb_spread_by_weight(&rest, weight, free_k));
        for (int64_t j = 0; j < in.n_layers * in.kv_heads; j++)
            assert_int_equal(k[j], free_k[j] + in.n_protected);
    }
}

static void a_weight_that_is_no_number_is_refused(void **state)
{
    const fb_spread_input in = {.n_layers = 2, .kv_heads = 1, .m = 9, .k = 3};
    int64_t k[2];

    (void)state;
    assert_fails(fb_spread_by_weight(&in, (double[]){1, (double)NAN}, k), FB_DEFECT,
                 "weight of layer 1");
    assert_fails(fb_spread_by_weight(&in, (double[]){-1, 1}, k), FB_DEFECT,
                 "weight of layer 0 is -1");
    assert_fails(fb_spread_by_weight(&in, (double[]){(double)INFINITY, 1}, k),
                 FB_DEFECT, "0 or more");
}

static void whole_parts_have_the_total_and_the_largest_remainders(void **state)
{
    int64_t out[4];

    (void)state;
    fb_whole_parts((double[]){1.5, 2.25, 0.5, 1.75}, 4, 6, 9, out);
    assert_memory_equal(out, ((int64_t[]){2, 2, 0, 2}), sizeof out);
    fb_whole_parts((double[]){3, 1, 0, 0}, 4, 4, 2, out); /* the first has room for 2 */
    assert_memory_equal(out, ((int64_t[]){2, 2, 0, 0}), sizeof out);
}

/* --- by rank --------------------------------------------------------------------- */

static float number[SLOTS * MOST_COLUMNS];
static int64_t n_rows, n_columns; /* of a layer */

static fb_tensor rows(fb_ops *o, const fb_spread_input *in, int64_t layer,
                      const void *params)
{
    (void)in;
    (void)params;
    return fb_from_host(o, FB_F32, 2, (int64_t[]){n_rows, n_columns},
                        number + layer * n_rows * n_columns);
}

/* Whether number i of a row goes before number j. */
static bool is_before(const float *row, int64_t i, int64_t j)
{
    return row[i] > row[j] || (row[i] == row[j] && i < j);
}

/* Counts slowly: a number is in if it is among the best `first` of its row, or if fewer
 * than `n` of the others of all rows go before it. */
static void count_slowly(int64_t all_rows, int64_t first, int64_t n, int64_t *count)
{
    static int64_t place[SLOTS * MOST_COLUMNS];

    for (int64_t r = 0; r < all_rows; r++)
        for (int64_t i = 0; i < n_columns; i++) {
            const float *row = number + r * n_columns;

            place[r * n_columns + i] = 0;
            for (int64_t j = 0; j < n_columns; j++)
                place[r * n_columns + i] += is_before(row, j, i);
        }
    for (int64_t r = 0; r < all_rows; r++) {
        count[r] = first;
        for (int64_t i = 0; i < n_columns; i++) {
            const int64_t own = r * n_columns + i;
            int64_t better = 0;

            if (place[own] < first) continue;
            for (int64_t j = 0; j < all_rows * n_columns; j++)
                better += place[j] >= first &&
                          (number[j] > number[own] ||
                           (number[j] == number[own] &&
                            (j / n_columns < r ||
                             (j / n_columns == r &&
                              is_before(number + r * n_columns, j % n_columns, i)))));
            count[r] += better < n;
        }
    }
}

static void ranks_of_all_layers_share_as_counted_slowly(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        fb_spread_input in = {.n_layers = 1 + (int64_t)draw(5),
                              .kv_heads = 1 + (int64_t)draw(3),
                              .n_protected = (int64_t)draw(4)};
        const bool is_one_row = draw(3) == 0;
        int64_t k[SLOTS], count[SLOTS], sure, first;

        n_columns = 1 + (int64_t)draw(20);
        n_rows = is_one_row ? 1 : in.kv_heads;
        in.m = in.n_protected + n_columns;
        in.k = in.n_protected + 1 + (int64_t)draw((uint64_t)n_columns);
        sure = (int64_t)draw((uint64_t)in.k + 3);
        first = sure - in.n_protected;
        first = first < 0                       ? 0
                : first > in.k - in.n_protected ? in.k - in.n_protected
                                                : first;
        for (int64_t j = 0; j < in.n_layers * n_rows * n_columns; j++)
            number[j] = (float)draw(12) - 4; /* many ties */
        assert_ok(fb_spread_by_rank(ops, &in, rows, NULL, sure, k));
        count_slowly(in.n_layers * n_rows, first,
                     in.n_layers * n_rows * (in.k - in.n_protected - first), count);
        for (int64_t j = 0; j < in.n_layers * in.kv_heads; j++)
            assert_int_equal(k[j],
                             in.n_protected + count[is_one_row ? j / in.kv_heads : j]);
        assert_int_equal(sum(k, in.n_layers * in.kv_heads),
                         in.n_layers * in.kv_heads * in.k);
    }
}

static void rows_of_another_shape_are_refused(void **state)
{
    const fb_spread_input in = {.n_layers = 1, .kv_heads = 2, .m = 8, .k = 3};
    int64_t k[2];

    (void)state;
    n_rows = 3;
    n_columns = 8;
    assert_fails(fb_spread_by_rank(ops, &in, rows, NULL, 1, k), FB_DEFECT,
                 "ranks 3 rows of 8 in layer 0");
    n_rows = 2;
    n_columns = 9;
    assert_fails(fb_spread_by_rank(ops, &in, rows, NULL, 1, k), FB_DEFECT,
                 "ranks 2 rows of 9");
}

/* --- pieces ---------------------------------------------------------------------- */

static void pieces_begin_at_multiples_of_their_size_and_come_back(void **state)
{
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const float wanted[] = {0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 6, 7, 8, 9, 10, 0};
    float out[16], back[10];
    fb_tensor pieces;

    (void)state;
    fb_scope_open(ops);
    pieces =
        fb_pieces(ops, fb_from_host(ops, FB_F32, 2, (int64_t[]){2, 5}, x), 6, 4, 0);
    assert_int_equal(fb_size(ops, pieces, 1), 2);
    assert_ok(fb_to_host(ops, pieces, out, sizeof out));
    assert_memory_equal(out, wanted, sizeof out);
    assert_ok(fb_to_host(ops, fb_from_pieces(ops, pieces, 6, 5), back, sizeof back));
    assert_memory_equal(back, x, sizeof back);
    fb_scope_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_exact_and_shares_in_proportion_within_their_bounds),
        cmocka_unit_test(layers_in_another_order_get_the_same),
        cmocka_unit_test(a_layer_without_weight_gets_the_least),
        cmocka_unit_test(equal_remainders_go_to_lower_layers_and_heads),
        cmocka_unit_test(the_rest_is_shared_beside_what_every_head_has),
        cmocka_unit_test(a_weight_that_is_no_number_is_refused),
        cmocka_unit_test(whole_parts_have_the_total_and_the_largest_remainders),
        cmocka_unit_test(ranks_of_all_layers_share_as_counted_slowly),
        cmocka_unit_test(rows_of_another_shape_are_refused),
        cmocka_unit_test(pieces_begin_at_multiples_of_their_size_and_come_back),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
