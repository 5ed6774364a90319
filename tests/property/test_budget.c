/* test_budget.c - what is kept, by every rule: invariants 1 to 4, the counts of 5, and
 * texts that are too short, 27.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/small_rules.h"
#include "tests/support/use_ops.h"

static shown text;

/* --- what stays before the rule has a say, from the definition --- */

struct ends {
    int64_t sink, recent;
};

static struct ends ends_of(const fb_bound_rule *rule, fb_protect protect, int64_t k,
                           bool fallback)
{
    const fb_choices *c = fb_bound_rule_choices(rule);
    struct ends e = {protect.sink, protect.recent};

    if (protect.kind == FB_PROTECT_NONE) e = (struct ends){0, 0};
    if (protect.kind == FB_PROTECT_PUBLISHED) e = (struct ends){c->sink, c->recent};
    if (!fallback && e.recent < c->unscored_last) e.recent = c->unscored_last;
    if (!fallback && (double)e.recent < floor((double)k * c->recent_quota))
        e.recent = (int64_t)floor((double)k * c->recent_quota);
    return e;
}

static bool keeps(const fb_kept *kept, int64_t slot, int64_t j)
{
    for (int64_t i = 0; i < kept->count[slot]; i++)
        if (kept->position[slot][i] == j) return true;
    return false;
}

/* The newest, then sinks from the first on, then the other recents, newest first. */
static void is_shrunk_in_order(const fb_kept *kept, int64_t slot, int64_t n,
                               struct ends e, int64_t k)
{
    int64_t left = k - 1;

    holds(keeps(kept, slot, n - 1));
    for (int64_t j = 0; j < n - 1 && j < e.sink && left > 0; j++, left--)
        holds(keeps(kept, slot, j));
    for (int64_t j = n - 2; j >= e.sink && left > 0; j--, left--)
        holds(keeps(kept, slot, j));
}

static void is_protected(const fb_kept *kept, int64_t slot, int64_t n, struct ends e)
{
    for (int64_t j = 0; j < n; j++)
        if (j < e.sink || j >= n - e.recent) holds(keeps(kept, slot, j));
}

/* Each once, in order, and of the text. */
static void ascends(const fb_kept *kept, int64_t slot, int64_t n)
{
    for (int64_t i = 0; i < kept->count[slot]; i++) {
        holds(kept->position[slot][i] >= 0 && kept->position[slot][i] < n);
        if (i > 0) holds(kept->position[slot][i] > kept->position[slot][i - 1]);
    }
}

static void check_selection(const fb_bound_rule *rule, const fb_selection *s,
                            fb_protect protect, int64_t k)
{
    const bool evicts = k < text.n;
    const bool fallback = evicts && fb_select_falls_back(rule, text.n);
    const bool is_even = !small_shares(rule) || fallback || !evicts;
    const struct ends e = ends_of(rule, protect, k, fallback);
    const bool is_short =
        evicts && (k < e.sink + e.recent || (fallback && k > e.sink + e.recent));

    holds(s->fallback == fallback);
    holds(fb_kept_total(&s->kept) == s->kept.n_slots * k); /* 1 */
    for (int64_t slot = 0; slot < s->kept.n_slots; slot++) {
        ascends(&s->kept, slot, text.n);              /* 3 */
        if (is_even) holds(s->kept.count[slot] == k); /* 5 */
        if (is_short)                                 /* 4 */
            is_shrunk_in_order(&s->kept, slot, text.n, e, k);
        else
            is_protected(&s->kept, slot, text.n, e);
    }
}

static void check_budgets(const fb_bound_rule *rule, numbers *r)
{
    shown_scores scores = {0};

    fb_scope_open(ops);
    shown_read(&scores, &text, rule);
    for (int i = 0; i < 3; i++) {
        const int64_t k = number_int(r, 1, text.n);
        const fb_protect protect = small_protect(r, text.n);
        fb_selection s;

        shown_select(&s, &text, rule, &scores, protect, k);
        check_selection(rule, &s, protect, k);
        fb_selection_clear(&s);
    }
    fb_scope_close(ops);
}

static void check_all_rules(numbers *r)
{
    shown_draw(&text, ops, r, 2, 64);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_is_shown(rule)) check_budgets(rule, r);
        fb_bound_rule_free(rule);
    }
}

/* 1, 3, 4, and of 5 that heads without an allocation keep as many. */
static void
every_rule_spends_its_budget_on_places_in_order_and_what_is_protected(void **state)
{
    (void)state;
    try_cases(120, check_all_rules);
}

/* What is not tried here says so. */
static void every_rule_finds_its_signals_in_a_shown_text(void **state)
{
    numbers r = {1};
    int missing = 0;

    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), &r);

        if (small_evicts(rule) && !small_is_shown(rule)) {
            print_message("'%s' reads what tests/support/shown.h has not\n", case_of);
            missing++;
        }
        fb_bound_rule_free(rule);
    }
    if (missing > 0)
        skip_because("some rules read signals that tests/support/shown.h has not");
}

/* --- 2 --- */

static void check_all_stays(const fb_bound_rule *rule, fb_protect protect, int64_t k)
{
    const shown_scores none = {0}; /* asking for one would fail */
    fb_selection s;

    shown_select(&s, &text, rule, &none, protect, k);
    holds(!s.fallback && !s.shrunk);
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
        holds(s.kept.count[slot] == text.n);
        ascends(&s.kept, slot, text.n);
    }
    fb_selection_clear(&s);
}

static void check_large_budget(numbers *r)
{
    text = (shown){.ops = ops, .n = number_int(r, 1, SHOWN_TOKENS)};
    text.layers = number_int(r, 1, SHOWN_LAYERS);
    text.kv_heads = number_int(r, 1, SHOWN_KV_HEADS);
    for (int i = 0; i < fb_rule_count(); i++) {
        const int64_t k = text.n + number_int(r, 0, 3);
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (fb_bound_rule_choices(rule)->reference == FB_REFERENCE_NONE)
            check_all_stays(rule, small_protect(r, text.n), k);
        fb_bound_rule_free(rule);
    }
}

static void a_budget_of_the_text_keeps_it_and_needs_no_score(void **state)
{
    (void)state;
    try_cases(100, check_large_budget);
}

/* --- 3: rows --- */

/* Head g of `from`, entry by entry, is in `to` with the same bits. */
static void same_rows(fb_tensor from, fb_tensor to, const fb_kept *kept, int64_t slot,
                      int64_t g)
{
    static float a[SHOWN_KV_HEADS * SHOWN_TOKENS * SHOWN_DIM];
    static float b[SHOWN_KV_HEADS * SHOWN_TOKENS * SHOWN_DIM];
    const int64_t n = shown_host(&text, from, a) / text.kv_heads;
    const int64_t m = shown_host(&text, to, b) / text.kv_heads;

    for (int64_t i = 0; i < kept->count[slot]; i++)
        holds(memcmp(a + g * n + kept->position[slot][i] * SHOWN_DIM,
                     b + g * m + i * SHOWN_DIM, SHOWN_DIM * sizeof *a) == 0);
}

/* A cache with the keys and values of the text. */
static fb_cache *cache_of(fb_cache_shape shape)
{
    const int64_t columns = 2 * text.kv_heads * SHOWN_DIM;
    float x[SHOWN_TOKENS * 2 * SHOWN_KV_HEADS * SHOWN_DIM];
    fb_cache *out;

    assert_ok(fb_cache_new(&out, ops, &shape, text.n));
    for (int64_t l = 0; l < text.layers; l++) {
        for (int64_t i = 0; i < text.n * columns; i++) {
            const int64_t j = i / columns, of = i % columns / SHOWN_DIM;
            const float *from =
                of < text.kv_heads ? text.layer[l].keys : text.layer[l].values;

            x[i] = from[(of % text.kv_heads * text.n + j) * SHOWN_DIM + i % SHOWN_DIM];
        }
        assert_ok(fb_cache_append(
            out, ops, l, fb_from_host(ops, FB_F32, 2, (int64_t[]){text.n, columns}, x),
            0));
    }
    return out;
}

static void check_rows(numbers *r)
{
    const int64_t k = (shown_draw(&text, ops, r, 2, 64), number_int(r, 1, text.n));
    const fb_cache_shape shape = {text.layers, text.kv_heads, SHOWN_DIM, FB_F32};
    fb_bound_rule *rule = small_bind(fb_rule_find("knorm"), r);
    shown_scores scores;
    fb_cache *full, *arena;
    fb_selection s;

    fb_scope_open(ops);
    shown_read(&scores, &text, rule);
    shown_select(&s, &text, rule, &scores, small_protect(r, text.n), k);
    full = cache_of(shape);
    assert_ok(fb_cache_evict(&arena, ops, full, &s.kept, s.budget_entries));
    for (int64_t slot = 0; slot < s.kept.n_slots; slot++) {
        const int64_t l = slot / text.kv_heads, g = slot % text.kv_heads;

        same_rows(fb_cache_keys(full, ops, l), fb_cache_keys(arena, ops, l), &s.kept,
                  slot, g);
        same_rows(fb_cache_values(full, ops, l), fb_cache_values(arena, ops, l),
                  &s.kept, slot, g);
    }
    fb_scope_close(ops);
    fb_cache_free(arena);
    fb_cache_free(full);
    fb_selection_clear(&s);
    fb_bound_rule_free(rule);
}

static void what_is_kept_has_the_bits_it_had(void **state)
{
    (void)state;
    try_cases(100, check_rows);
}

/* --- 27 --- */

/* The shortest text that the rule `before`x`behind` can score. */
static void falls_back_below(const char *before, int64_t x, const char *behind,
                             int64_t shortest)
{
    char expression[SMALL_TEXT];
    fb_bound_rule *rule;

    (void)snprintf(expression, sizeof expression, "%s%d%s", before, (int)x, behind);
    rule = small_parse(expression);
    for (int64_t n = shortest > 3 ? shortest - 3 : 1; n < shortest + 3; n++) {
        holds(fb_select_falls_back(rule, n) == (n < shortest));
        if (n < shortest && n > 1) { /* then no score is asked for */
            const shown_scores none = {0};
            fb_selection s;

            text.n = n;
            shown_select(&s, &text, rule, &none, (fb_protect){0}, n - 1);
            holds(s.fallback);
            fb_selection_clear(&s);
        }
    }
    fb_bound_rule_free(rule);
}

static void check_shortest(numbers *r)
{
    const int64_t x = number_int(r, 1, 40);

    text = (shown){.ops = ops, .layers = 2, .kv_heads = 2};
    falls_back_below("snapkv:window=", x, "", x + 1);
    falls_back_below("cake:window=", x, "", x + 1);
    falls_back_below("adakv(lava:window=", x, ")", x + 1);
    falls_back_below("cake_layers(window=", x + 1, ",knorm)", x + 2);
    falls_back_below("morphkv:window=", x, "", x + 1);
    falls_back_below("lagkv:sink=3,lag=", x + 1, "", 3 + 2 * (x + 1));
    falls_back_below("expected_attention:stat_skip=", x, "", x + 1);
    falls_back_below("vatp(cap:stat_skip=", x, ")", x + 1);
    falls_back_below("compactor(noncausal:skip_first=", x, ",leverage:skip_last=2)",
                     x > 2 ? x + 1 : 3);
    falls_back_below("tova:protect_last=", 1, "", 2);
    falls_back_below("tova:protect_last=", 0, "", 1);
    falls_back_below("streaming_llm:sink=", x, "", 1);
}

static void a_text_is_too_short_just_below_the_shortest(void **state)
{
    (void)state;
    try_cases(100, check_shortest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            every_rule_spends_its_budget_on_places_in_order_and_what_is_protected),
        cmocka_unit_test(every_rule_finds_its_signals_in_a_shown_text),
        cmocka_unit_test(a_budget_of_the_text_keeps_it_and_needs_no_score),
        cmocka_unit_test(what_is_kept_has_the_bits_it_had),
        cmocka_unit_test(a_text_is_too_short_just_below_the_shortest),
    };

    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
