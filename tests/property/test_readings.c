/* test_readings.c - what a model shows, and what is charged for it: invariants 15, 26 and 30.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/rig.h"
#include "tests/support/small_rules.h"

enum { MOST = 96, MOST_RULES = 128 };

static rig the, sliding;
static int32_t ids[MOST];

static int open_all(void **state)
{
    const fb_ops_options one = {.threads = 1};

    (void)state;
    rig_open(&the, "builtin", &one, NULL);
    rig_open(&sliding, "tests/golden/families/qwen3_mixed", &one, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&the);
    rig_close(&sliding);
    return 0;
}

/* All rules of the table, each with what it pleases in its brackets. */
static int bind_all(fb_seeded_rule *out, numbers *r)
{
    int n = 0;

    assert_true(fb_rule_count() <= MOST_RULES);
    for (int i = 0; i < fb_rule_count(); i++)
        out[n++] = (fb_seeded_rule){small_bind(fb_rule_at(i), r), 1};
    return n;
}

static void free_all(fb_seeded_rule *rules, int n)
{
    for (int i = 0; i < n; i++) /* the list owns them */
        fb_bound_rule_free((fb_bound_rule *)(uintptr_t)rules[i].rule);
}

static int64_t draw_text(numbers *r)
{
    const int64_t n = number_int(r, 24, MOST);

    rig_text(ids, n, number_bits(r));
    return n;
}

/* --- 15 --- */

static void looks(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_WINDOW_ATTENTION | FB_READS_ATTENTION_SUM;
    choices->state_rows = 1;
    choices->window = 8;
}

/* Rows are shares of what their query sees; sums are those of as many queries. */
static fb_tensor check_attention(fb_ops *ops, const fb_signals *see, const void *params)
{
    static float rows[4 * 8 * MOST], sum[4 * MOST];
    const int64_t w = fb_size(ops, see->window_attention, 1), m = see->m;

    (void)params;
    assert_ok(fb_to_host(ops, see->window_attention, rows,
                         (size_t)(see->heads * w * m) * sizeof *rows));
    assert_ok(fb_to_host(ops, see->attention_sum, sum,
                         (size_t)(see->heads * m) * sizeof *sum));
    for (int64_t i = 0; i < see->heads * w; i++) {
        double all = 0;

        for (int64_t j = 0; j < m; j++) {
            holds(rows[i * m + j] >= 0);
            if (j > m - w + i % w) holds(rows[i * m + j] <= 0);
            all += (double)rows[i * m + j];
        }
        holds(is_close(all, 1, 1e-5));
    }
    for (int64_t h = 0; h < see->heads; h++) {
        double all = 0;

        for (int64_t j = 0; j < m; j++)
            all += (double)sum[h * m + j];
        holds(is_close(all, (double)see->n, 1e-5));
    }
    return fb_group_mean(ops, see, see->attention_sum);
}

static fb_tensor check_update(fb_ops *ops, const fb_signals *see, const void *params)
{
    return fb_reshape(ops, check_attention(ops, see, params), 3,
                      (int64_t[]){see->kv_heads, 1, see->m});
}

static fb_tensor carried(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return fb_reshape(ops, see->state, 2, (int64_t[]){see->kv_heads, see->m});
}

static const fb_rule looking = {
    FB_RULE_HEAD,          .name = "looking",      .summary = "looks at attention",
    .family = "attention", .source = "test",       .runs = FB_RUNS_ONE_SHOT,
    .choose = looks,       .update = check_update, .score = carried};

/* Of a reading's rule and layer: all numbers from 0 to `most`, each head's together too if
 * `is_share`. */
static void scores_lie_below(const fb_reading *reading, int rule, bool is_share)
{
    static float score[2 * MOST];

    for (int64_t l = 0; l < 2; l++) {
        const fb_tensor own = fb_reading_score(reading, rule, l);
        const int64_t n = fb_size(the.ops, own, 1);

        assert_ok(fb_to_host(the.ops, own, score, (size_t)(2 * n) * sizeof *score));
        for (int64_t g = 0; g < 2; g++) {
            double all = 0;

            for (int64_t j = 0; j < n; j++) {
                holds(score[g * n + j] >= 0 && score[g * n + j] <= 1 + 1e-6F);
                all += (double)score[g * n + j];
            }
            holds(!is_share || all <= 1 + 1e-5);
        }
    }
}

static void check_shown(numbers *r)
{
    const int64_t n = draw_text(r);
    fb_seeded_rule rules[3] = {{.seed = 1}, {.seed = 1}, {.seed = 1}};
    fb_bound_rule *bound[3];
    fb_reading *reading;

    bound[0] = small_parse("snapkv:window=8,kernel=1");
    bound[1] = small_parse("observed_attention");
    assert_ok(fb_rule_bind(&bound[2], &looking));
    for (int i = 0; i < 3; i++)
        rules[i].rule = bound[i];
    of_rule("the kernel");
    assert_ok(fb_read(&reading, the.engine, ids, n, rules, 3, 1));
    scores_lie_below(reading, 0, true);
    scores_lie_below(reading, 1, false);
    fb_reading_free(reading);
    for (int i = 0; i < 3; i++)
        fb_bound_rule_free(bound[i]);
}

static void attention_is_shares_and_its_sums_are_as_many_as_queries(void **state)
{
    (void)state;
    try_cases(100, check_shown);
}

/* --- 26 --- */

/* Keys and values of the windows. */
static int64_t windows(const fb_reading *reading, float *out)
{
    const fb_model_facts *f = fb_model_get_facts(sliding.model);
    const int64_t n = f->kv_heads * f->window * f->head_dim;
    int64_t at = 0;

    fb_scope_open(sliding.ops);
    for (int64_t l = 0; l < f->sliding_layers; l++) {
        assert_ok(fb_to_host(sliding.ops,
                             fb_cache_keys(reading->sliding, sliding.ops, l), out + at,
                             (size_t)n * sizeof *out));
        assert_ok(fb_to_host(sliding.ops,
                             fb_cache_values(reading->sliding, sliding.ops, l),
                             out + at + n, (size_t)n * sizeof *out));
        at += 2 * n;
    }
    fb_scope_close(sliding.ops);
    return at;
}

static void evict_by_all(fb_reading *reading, int n_rules, numbers *r, int64_t n)
{
    const fb_model_facts *f = fb_model_get_facts(sliding.model);

    for (int i = 0; i < n_rules; i++) {
        const fb_protect protect = small_protect(r, n);
        fb_variant *variant;

        if (!small_evicts(reading->rules[i].rule) ||
            !fb_bound_rule_is_deployable(reading->rules[i].rule))
            continue;
        of_rule(fb_bound_rule_text(reading->rules[i].rule));
        assert_ok(fb_evict(&variant, reading, i, &protect, 0, number_int(r, 1, n - 1)));
        holds(variant->sliding == NULL); /* the reading's own */
        holds(variant->selection.kept.n_slots == f->global_layers * f->kv_heads);
        for (int64_t g = 0; g < f->kv_heads; g++) {
            const fb_part part = fb_variant_window(variant, 0, g);

            holds(part.n == f->window && part.hidden == NULL);
        }
        fb_variant_free(variant);
    }
}

static void check_windows(numbers *r)
{
    static float before[1 << 16], after[1 << 16];
    const fb_model_facts *f = fb_model_get_facts(sliding.model);
    const int64_t n = number_int(r, f->window + 4, MOST);
    fb_seeded_rule rules[MOST_RULES];
    const int n_rules = bind_all(rules, r);
    fb_reading *reading;
    int64_t all;

    assert_true(f->sliding_layers > 0 && f->global_layers > 0);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)number_int(r, 0, f->vocabulary - 1);
    assert_ok(fb_read(&reading, sliding.engine, ids, n, rules, n_rules, 1));
    all = windows(reading, before);
    evict_by_all(reading, n_rules, r, n);
    holds(windows(reading, after) == all);
    holds(memcmp(before, after, (size_t)all * sizeof *before) == 0);
    fb_reading_free(reading);
    free_all(rules, n_rules);
}

static void no_rule_touches_a_window(void **state)
{
    (void)state;
    try_cases(20, check_windows);
}

/* --- 30 --- */

static void check_ledgers(numbers *r)
{
    static const char *const free_of_charge[] = {"random", "recency", "streaming_llm"};
    fb_seeded_rule rules[MOST_RULES];
    const int n_rules = bind_all(rules, r);
    const int64_t n = draw_text(r);
    fb_reading *together, *alone;

    assert_ok(fb_read(&together, the.engine, ids, n, rules, n_rules, 1));
    for (int i = 0; i < n_rules; i++) {
        const fb_ledger *ledger = fb_reading_ledger(together, i);
        const char *name = fb_bound_rule_get(rules[i].rule)->name;

        of_rule(fb_bound_rule_text(rules[i].rule));
        assert_ok(fb_read(&alone, the.engine, ids, n, &rules[i], 1, 1));
        holds(fb_ledger_equal(ledger, fb_reading_ledger(alone, 0)));
        for (size_t j = 0; j < sizeof free_of_charge / sizeof *free_of_charge; j++)
            if (strcmp(name, free_of_charge[j]) == 0)
                for (int p = 0; p < FB_PHASE_COUNT; p++)
                    holds(fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_signal).flops <=
                          0);
        fb_reading_free(alone);
    }
    fb_reading_free(together);
    free_all(rules, n_rules);
}

static void a_rule_pays_alone_what_it_pays_in_a_sweep(void **state)
{
    (void)state;
    try_cases(10, check_ledgers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_is_shares_and_its_sums_are_as_many_as_queries),
        cmocka_unit_test(no_rule_touches_a_window),
        cmocka_unit_test(a_rule_pays_alone_what_it_pays_in_a_sweep),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
