/* test_random.c - closed forms and chance: invariants 21 to 23.
 *
 * Seeds are 0, 1, 2, ..: a test that passes passes always.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

static shown text;
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};

/* --- 21 --- */

static void check_closed_form(numbers *r)
{
    const fb_protect published = {FB_PROTECT_PUBLISHED, 0, 0};
    const int64_t n = (shown_draw(&text, ops, r, 3, 64), text.n);
    const int64_t k = number_int(r, 1, n - 1), sink = number_int(r, 0, k);
    char rule[SMALL_TEXT];
    fb_selection s;

    (void)snprintf(rule, sizeof rule, "streaming_llm:sink=%d", (int)sink);
    small_select(&s, &text, rule, published, k);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
        holds(s.kept.count[slot] == k);
        for (int64_t i = 0; i < k; i++)
            holds(s.kept.position[slot][i] == (i < sink ? i : n - k + i));
    }
    fb_selection_clear(&s);
    holds(small_keep_same(&text, "streaming_llm:sink=0", "recency", published, k));
    holds(small_keep_same(&text, rule, "recency", none, k)); /* sinks are protection */
}

static void streaming_llm_keeps_its_sinks_and_the_newest_whatever_the_text(void **state)
{
    (void)state;
    try_cases(300, check_closed_form);
}

/* --- 22 --- */

static void check_seed(numbers *r)
{
    const fb_protect protect = (shown_draw(&text, ops, r, 3, 64), small_protect(r, 3));
    const int64_t n = text.n, k = number_int(r, 1, n), layers = text.layers;
    const int64_t kv_heads = text.kv_heads;
    const uint64_t seed = text.seed;
    fb_selection s, again;

    small_select(&s, &text, "random", protect, k);
    shown_draw(&text, ops, r, n, n); /* another text of that length */
    text.layers = layers;
    text.kv_heads = text.heads = kv_heads;
    text.seed = seed;
    small_select(&again, &text, "random", protect, k);
    holds(shown_is_same(&s.kept, &again.kept));
    fb_selection_clear(&s);
    fb_selection_clear(&again);
}

static void one_seed_draws_one_set_whatever_the_text(void **state)
{
    (void)state;
    try_cases(300, check_seed);
}

/* Numbers of `random` for every slot of two layers of two heads. */
enum { N = 40, K = 13, SINK = 4, RECENT = 3, SLOTS = 4, SEEDS = 1000 };

static void make_plain_text(void)
{
    text = (shown){.ops = ops, .layers = 2, .heads = 2, .kv_heads = 2, .n = N};
}

static void slots_are_drawn_independently_of_each_other(void **state)
{
    const double n = (double)(SEEDS * N);
    double sum[SLOTS][SLOTS] = {{0}};

    (void)state;
    make_plain_text();
    for (text.seed = 0; text.seed < SEEDS; text.seed++) {
        float u[SLOTS * N];

        for (int64_t l = 0; l < 2; l++)
            assert_int_equal(small_score(&text, "random", l, u + l * 2 * N), 2 * N);
        for (int64_t j = 0; j < N; j++)
            for (int64_t a = 0; a < SLOTS; a++)
                for (int64_t b = 0; b < SLOTS; b++)
                    sum[a][b] +=
                        ((double)u[a * N + j] - 0.5) * ((double)u[b * N + j] - 0.5);
    }
    for (int64_t a = 0; a < SLOTS; a++)
        for (int64_t b = 0; b < SLOTS; b++) /* of uniform numbers, in deviations */
            assert_true(fabs(sum[a][b] * 12 - (a == b ? n : 0)) < 4 * sqrt(n));
}

static void every_entry_is_kept_as_often_as_its_share(void **state)
{
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, SINK, RECENT};
    const double p = (double)(K - SINK - RECENT) / (N - SINK - RECENT);
    const double deviation = sqrt(SEEDS * p * (1 - p));
    int kept[SLOTS][N] = {{0}};

    (void)state;
    make_plain_text();
    for (text.seed = 0; text.seed < SEEDS; text.seed++) {
        fb_selection s;

        small_select(&s, &text, "random", protect, K);
        for (int64_t slot = 0; slot < SLOTS; slot++)
            for (int64_t i = 0; i < K; i++)
                kept[slot][s.kept.position[slot][i]]++;
        fb_selection_clear(&s);
    }
    for (int64_t slot = 0; slot < SLOTS; slot++)
        for (int64_t j = 0; j < N; j++) {
            const bool is_sure = j < SINK || j >= N - RECENT;

            if (is_sure)
                assert_int_equal(kept[slot][j], SEEDS);
            else
                assert_true(fabs(kept[slot][j] - SEEDS * p) < 4.5 * deviation);
        }
}

static void check_control(numbers *r)
{
    const char *inner = small_inner(fb_rule_find("control"), r);
    const int64_t n = (shown_draw(&text, ops, r, 24, 64), text.n);
    const fb_protect protect = small_protect(r, n);
    const int64_t k = number_int(r, 1, n - 1);
    char control[SMALL_TEXT];
    fb_selection s, drawn;

    (void)snprintf(control, sizeof control, "control(%s)", inner);
    small_select(&s, &text, inner, protect, k);
    small_select(&drawn, &text, control, protect, k);
    holds(drawn.n_protected == s.n_protected && drawn.free_choices == s.free_choices);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++)
        holds(drawn.kept.count[slot] == s.kept.count[slot]);
    fb_selection_clear(&s);
    fb_selection_clear(&drawn);
}

static void a_control_draws_as_many_of_every_head_as_its_rule_keeps(void **state)
{
    (void)state;
    try_cases(200, check_control);
}

/* --- 23 --- */

/* Weights exp(j / 3) of places j: the first draw, and the second given the first. */
static void draws_have_the_odds_of_their_weights(void **state)
{
    enum { PLACES = 9, DRAWS = 20000 };
    double weight[PLACES], all = 0, chi = 0, chi_two = 0;
    int first[PLACES] = {0}, pair[PLACES] = {0};

    (void)state;
    make_plain_text();
    text.n = PLACES;
    text.layers = text.kv_heads = text.heads = 1;
    for (int j = 0; j < PLACES; j++)
        all += weight[j] = exp(j / 3.0);
    for (text.seed = 0; text.seed < DRAWS; text.seed++) {
        fb_selection one, two;

        small_select(&one, &text, "draw(share=1,temperature=3,recency)", none, 1);
        small_select(&two, &text, "draw(share=1,temperature=3,recency)", none, 2);
        first[one.kept.position[0][0]]++;
        for (int i = 0; i < 2; i++)
            pair[two.kept.position[0][i]]++;
        fb_selection_clear(&one);
        fb_selection_clear(&two);
    }
    for (int j = 0; j < PLACES; j++) {
        const double p = weight[j] / all;
        double both = p;

        for (int i = 0; i < PLACES; i++)
            if (i != j) both += weight[i] / all * weight[j] / (all - weight[i]);
        chi += pow(first[j] - DRAWS * p, 2) / (DRAWS * p);
        chi_two += pow(pair[j] - DRAWS * both, 2) / (DRAWS * both);
    }
    assert_true(chi < 26.1); /* 8 degrees of freedom: 1 in 1000 is above */
    assert_true(chi_two <
                26.1); /* fewer in truth: counts of a pair are negatively tied */
}

/* Queries that look at some keys and, to f32, not at the others. */
static void make_weights_zero(numbers *r, bool *looks_at)
{
    shown_layer *own = &text.layer[0];

    for (int64_t i = 0; i < text.heads * text.n; i++)
        own->queries[i * SHOWN_DIM] = 100;
    for (int64_t j = 0; j < text.n; j++) {
        looks_at[j] = number_int(r, 0, 1) == 0;
        for (int64_t g = 0; g < text.kv_heads; g++)
            own->keys[(g * text.n + j) * SHOWN_DIM] = looks_at[j] ? 50 : -50;
    }
}

static void check_zero_weights(numbers *r)
{
    bool looks_at[SHOWN_TOKENS];
    int64_t positive = 0, k;
    fb_selection s;

    shown_draw(&text, ops, r, 8, 64);
    text.layers = 1;
    make_weights_zero(r, looks_at);
    for (int64_t j = 0; j < text.n - 1; j++)
        positive += looks_at[j];
    k = number_int(r, 1, text.n - 1);
    small_select(&s, &text, "vase:window=1,kernel=1,large=0", none, k);
    for (int64_t slot = 0; slot < text.kv_heads; slot++) {
        int64_t drawn = 0;

        holds(s.kept.count[slot] == k);
        for (int64_t i = 0; i < k - 1; i++) /* the last is the window */
            drawn += looks_at[s.kept.position[slot][i]];
        holds(drawn == (k - 1 < positive ? k - 1 : positive));
    }
    fb_selection_clear(&s);
}

static void a_weight_of_zero_is_never_drawn_while_others_are_left(void **state)
{
    (void)state;
    try_cases(300, check_zero_weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            streaming_llm_keeps_its_sinks_and_the_newest_whatever_the_text),
        cmocka_unit_test(one_seed_draws_one_set_whatever_the_text),
        cmocka_unit_test(slots_are_drawn_independently_of_each_other),
        cmocka_unit_test(every_entry_is_kept_as_often_as_its_share),
        cmocka_unit_test(a_control_draws_as_many_of_every_head_as_its_rule_keeps),
        cmocka_unit_test(draws_have_the_odds_of_their_weights),
        cmocka_unit_test(a_weight_of_zero_is_never_drawn_while_others_are_left),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
