/* test_ties.c - equal scores, infinite ones and none at all: invariants 24 and 25, on any
 * backend (device.h).
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/small_rules.h"

enum { MOST = SHOWN_KV_HEADS * SHOWN_TOKENS };

static fb_ops *ops;
static shown text;

static int open_ops(void **state)
{
    const fb_ops_options options = {.device = test_device(), .threads = 1};

    (void)state;
    return fb_ops_open(&ops, &options) == FB_OK ? 0 : -1;
}

static int close_ops(void **state)
{
    (void)state;
    fb_ops_close(ops);
    return 0;
}

/* --- made-up scores --- */

static float made[SHOWN_LAYERS][MOST]; /* [kv_heads, n] */

static void draw_shape(numbers *r)
{
    text = (shown){.ops = ops, .n = number_int(r, 2, 64)};
    text.layers = number_int(r, 1, SHOWN_LAYERS);
    text.kv_heads = text.heads = number_int(r, 1, SHOWN_KV_HEADS);
}

static void select_made(fb_selection *out, fb_protect protect, int64_t k)
{
    fb_bound_rule *rule = small_parse("knorm");
    shown_scores scores = {0};

    fb_scope_open(ops);
    for (int64_t l = 0; l < text.layers; l++)
        scores.score[l] =
            fb_from_host(ops, FB_F32, 2, (int64_t[]){text.kv_heads, text.n}, made[l]);
    shown_select(out, &text, rule, &scores, protect, k);
    fb_scope_close(ops);
    fb_bound_rule_free(rule);
}

/* Whether entry j goes before entry i in a head's order. */
static bool is_before(const float *score, int64_t j, int64_t i)
{
    return score[j] > score[i] || (score[j] == score[i] && j < i);
}

/* Counts slowly: an entry that is not protected stays if fewer than `free` others of the
 * kind go before it. */
static bool stays(const float *score, fb_protect p, int64_t k, int64_t i)
{
    const int64_t behind = text.n - p.recent;
    int64_t better = 0;

    if (i < p.sink || i >= behind) return true;
    for (int64_t j = p.sink; j < behind; j++)
        better += is_before(score, j, i);
    return better < k - p.sink - p.recent;
}

static void is_chosen_by_score_then_place(const fb_selection *s, fb_protect p,
                                          int64_t k)
{
    for (int64_t slot = 0; slot < s->kept.n_slots; slot++) {
        const float *score = made[slot / text.kv_heads] + slot % text.kv_heads * text.n;
        int64_t at = 0;

        for (int64_t i = 0; i < text.n; i++) {
            const bool is_kept =
                at < s->kept.count[slot] && s->kept.position[slot][at] == i;

            holds(is_kept == stays(score, p, k, i));
            at += is_kept;
        }
    }
}

/* A protection, and a budget above it or of just as many. */
static fb_protect draw_protect(numbers *r, int64_t *k)
{
    const fb_protect p = {FB_PROTECT_EXPERIMENT, number_int(r, 0, text.n / 4),
                          number_int(r, 0, text.n / 4)};
    const int64_t least = p.sink + p.recent > 1 ? p.sink + p.recent : 1;

    *k = number_int(r, least, text.n);
    return p;
}

/* --- 24 --- */

static void check_ties(numbers *r)
{
    const int values = (int)number_int(r, 1, 6); /* 1: all are equal */
    fb_protect protect;
    fb_selection s;
    int64_t k;

    draw_shape(r);
    protect = draw_protect(r, &k);
    for (int64_t l = 0; l < text.layers; l++)
        for (int64_t i = 0; i < text.kv_heads * text.n; i++) {
            made[l][i] = (float)number_int(r, 0, values - 1);
            if (made[l][i] == 0 && number_int(r, 0, 1) == 0) made[l][i] = -0.0F;
        }
    select_made(&s, protect, k);
    is_chosen_by_score_then_place(&s, protect, k);
    fb_selection_clear(&s);
}

static void equal_scores_stay_by_the_lower_place(void **state)
{
    (void)state;
    try_cases(300, check_ties);
}

/* Entry j has the key and value of entry i in all heads. */
static void repeat(int64_t i, int64_t j)
{
    for (int64_t g = 0; g < text.kv_heads; g++) {
        const int64_t from = (g * text.n + i) * SHOWN_DIM;
        const int64_t to = (g * text.n + j) * SHOWN_DIM;

        memcpy(text.layer[0].keys + to, text.layer[0].keys + from,
               SHOWN_DIM * sizeof(float));
        memcpy(text.layer[0].values + to, text.layer[0].values + from,
               SHOWN_DIM * sizeof(float));
    }
}

static void check_repeated(numbers *r)
{
    static const char *const rules[] = {"knorm", "vnorm", "vnorm:p=range", "keydiff",
                                        "manifold"};
    const int64_t j = (shown_draw(&text, ops, r, 4, 64), number_int(r, 1, text.n - 1));
    const int64_t i = number_int(r, 0, j - 1);
    float score[MOST];

    repeat(i, j);
    for (size_t n = 0; n < sizeof rules / sizeof *rules; n++) {
        (void)small_score(&text, rules[n], 0, score);
        for (int64_t g = 0; g < text.kv_heads; g++)
            holds(score[g * text.n + i] == score[g * text.n + j]);
    }
}

static void entries_that_are_alike_have_one_score(void **state)
{
    (void)state;
    if (!fb_ops_is_exact(ops))
        skip_because("a row of a product may depend on its place on this backend");
    try_cases(200, check_repeated);
}

/* --- 25 --- */

static int64_t bad_layer, bad_head, bad_place, wrong_rows, wrong_columns;

static fb_tensor one_is_no_number(fb_ops *o, const fb_signals *see, const void *params)
{
    float score[MOST] = {0};

    (void)params;
    if (see->layer == bad_layer) score[bad_head * see->m + bad_place] = NAN;
    return fb_from_host(o, FB_F32, 2, (int64_t[]){see->kv_heads, see->m}, score);
}

static fb_tensor another_shape(fb_ops *o, const fb_signals *see, const void *params)
{
    const int64_t shape[] = {see->kv_heads + wrong_rows, see->m + wrong_columns};

    (void)params;
    return fb_full(o, 2, shape, 0);
}

static fb_bound_rule *bind(fb_tensor (*score)(fb_ops *, const fb_signals *,
                                              const void *))
{
    static fb_rule rule; /* lent to what is bound */
    fb_bound_rule *out;

    rule = (fb_rule){FB_RULE_HEAD,      .name = "faulty", .summary = "is at fault",
                     .family = "mixed", .source = "test", .runs = FB_RUNS_ONE_SHOT,
                     .score = score};
    assert_ok(fb_rule_bind(&out, &rule));
    of_rule("faulty");
    return out;
}

static void check_faulty(numbers *r)
{
    fb_bound_rule *rule = bind(one_is_no_number);
    char place[128];

    shown_draw(&text, ops, r, 2, 16);
    bad_layer = number_int(r, 0, text.layers - 1);
    bad_head = number_int(r, 0, text.kv_heads - 1);
    bad_place = number_int(r, 0, text.n - 1);
    (void)snprintf(place, sizeof place,
                   "'faulty': score of layer %d, kv head %d, entry %d is NaN",
                   (int)bad_layer, (int)bad_head, (int)bad_place);
    fb_scope_open(ops);
    for (int64_t l = 0; l <= bad_layer; l++) {
        const fb_signals see = shown_signals(&text, l);

        (void)fb_bound_rule_score(rule, ops, &see);
        holds((fb_ops_status(ops) == FB_OK) == (l < bad_layer));
    }
    holds(fb_ops_status(ops) == FB_DEFECT);
    if (strstr(fb_error_message(), place) == NULL)
        fail_msg("'%s' is not in '%s'", place, fb_error_message());
    fb_ops_reset(ops);
    fb_bound_rule_free(rule);
}

static void a_score_that_is_no_number_is_named_by_its_place(void **state)
{
    (void)state;
    try_cases(200, check_faulty);
}

static void check_shape(numbers *r)
{
    fb_bound_rule *rule = bind(another_shape);
    fb_signals see;

    shown_draw(&text, ops, r, 2, 16);
    wrong_rows = text.heads + number_int(r, 1, 9); /* neither heads nor kv heads */
    wrong_columns = number_int(r, -1, 1);
    fb_scope_open(ops);
    see = shown_signals(&text, 0);
    (void)fb_bound_rule_score(rule, ops, &see);
    holds(fb_ops_status(ops) == FB_DEFECT);
    holds(strstr(fb_error_message(), "'faulty' returned a score of the wrong shape") !=
          NULL);
    fb_ops_reset(ops);
    fb_bound_rule_free(rule);
}

static void a_score_outside_of_its_shape_is_refused(void **state)
{
    (void)state;
    try_cases(100, check_shape);
}

/* +inf and -inf are scores like others: the first before all, the second only if there is
 * room; where all are +inf nothing but place and protection are left. */
static void check_infinite(numbers *r)
{
    const bool all = number_int(r, 0, 3) == 0;
    fb_protect protect;
    fb_selection s;
    int64_t k;

    draw_shape(r);
    protect = draw_protect(r, &k);
    for (int64_t l = 0; l < text.layers; l++)
        for (int64_t i = 0; i < text.kv_heads * text.n; i++) {
            const int64_t kind = all ? 0 : number_int(r, 0, 3);

            made[l][i] = kind == 0   ? INFINITY
                         : kind == 1 ? -INFINITY
                                     : (float)number_int(r, -9, 9);
        }
    select_made(&s, protect, k);
    holds(fb_kept_total(&s.kept) == s.kept.n_slots * k);
    is_chosen_by_score_then_place(&s, protect, k);
    fb_selection_clear(&s);
}

static void infinite_scores_are_the_first_and_the_last(void **state)
{
    (void)state;
    try_cases(200, check_infinite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_stay_by_the_lower_place),
        cmocka_unit_test(entries_that_are_alike_have_one_score),
        cmocka_unit_test(a_score_that_is_no_number_is_named_by_its_place),
        cmocka_unit_test(a_score_outside_of_its_shape_is_refused),
        cmocka_unit_test(infinite_scores_are_the_first_and_the_last),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
