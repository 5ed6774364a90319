/* test_engine_fair.c - the budget is exact, the kernel is the same, evicting equals masking.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/backend.h"
#include "tests/support/rig.h"

enum { CONTEXT = 150, PROMPT = 3, ANSWER = 5, MOST = 24 };

static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};

static const char *const expressions[] = {
    "random",
    "recency",
    "knorm",
    "keydiff",
    "tova",
    "snapkv:window=16",
    "h2o",
    "observed_attention",
    "adakv(snapkv:window=16)",
    "blend(snapkv:window=16, recency)",
    "oracle",
    "kvzip:piece=60",
    "kvcompose",
    "squeeze(knorm)",
};
enum { RULES = sizeof expressions / sizeof expressions[0] };

static fb_bound_rule *rules[RULES];
static fb_seeded_rule seeded[RULES];
static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
static const fb_answer_options free_too = {.generate = true, .max_tokens = MOST};

static int open_rules(void **state)
{
    (void)state;
    for (int r = 0; r < RULES; r++) {
        if (fb_rule_parse(&rules[r], expressions[r]) != FB_OK) return -1;
        seeded[r] = (fb_seeded_rule){rules[r], 1};
    }
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    prompt[0] = 2;
    answer_ids[0] = 40;
    return 0;
}

static int close_rules(void **state)
{
    (void)state;
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    return 0;
}

static fb_reading *read_context(rig *r, const fb_engine_options *options)
{
    fb_reading *reading;

    rig_open(r, "builtin", NULL, options);
    assert_ok(fb_read(&reading, r->engine, context, CONTEXT, seeded, RULES, 1));
    assert_ok(fb_foresee(reading, &question));
    return reading;
}

static void same_answer(const fb_answer *a, const fb_answer *b)
{
    assert_memory_equal(a->nll, b->nll, (size_t)a->n * sizeof *a->nll);
    assert_memory_equal(a->kl, b->kl, (size_t)a->n * sizeof *a->kl);
    assert_memory_equal(a->top1, b->top1, (size_t)a->n * sizeof *a->top1);
    assert_int_equal(a->n_ids, b->n_ids);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids);
    assert_int_equal(a->stop, b->stop);
    assert_string_equal(a->trace_answer, b->trace_answer);
}

static const fb_dtype types[] = {FB_F32, FB_F16, FB_BF16};

static void check_arenas(fb_dtype type)
{
    const size_t row = 2 * 32 * (type == FB_F32 ? sizeof(float) : sizeof(uint16_t));
    rig r;
    fb_reading *reading = read_context(&r, &(fb_engine_options){.cache = type});

    assert_int_equal(fb_cache_bytes(fb_reading_cache(reading)),
                     (size_t)(2 * 2 * CONTEXT) * row);
    for (int rule = 0; rule < RULES; rule++)
        for (int64_t k = 1; k <= CONTEXT; k += 37) {
            const size_t before = fb_memory_now(FB_ACCOUNT_kv);
            fb_variant *variant;

            assert_ok(fb_evict(&variant, reading, rule, &usual, 0, k));
            assert_int_equal(fb_variant_bytes(variant), (size_t)(2 * 2 * k) * row);
            assert_int_equal(fb_memory_now(FB_ACCOUNT_kv) - before,
                             fb_variant_bytes(variant));
            fb_variant_free(variant);
            assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
        }
    fb_reading_free(reading);
    rig_close(&r);
}

static void an_arena_holds_exactly_the_budget(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++)
        check_arenas(types[t]);
}

static void check_masking(fb_dtype type)
{
    rig r;
    fb_reading *reading = read_context(&r, &(fb_engine_options){.cache = type});
    fb_variant *variant[2 * RULES];
    fb_answer out[2 * RULES];

    for (int rule = 0; rule < RULES; rule++) {
        assert_ok(fb_evict(&variant[2 * rule], reading, rule, &usual, 0, 47));
        assert_ok(
            fb_evict_masked(&variant[2 * rule + 1], reading, rule, &usual, 0, 47));
    }
    assert_ok(fb_answer_group(reading, variant, 2 * RULES, &question, &free_too, out));
    for (int rule = 0; rule < RULES; rule++) {
        const fb_variant *arena = variant[2 * rule], *mask = variant[2 * rule + 1];

        same_answer(&out[2 * rule], &out[2 * rule + 1]);
        assert_true(fb_answer_is_same(&out[2 * rule], &out[2 * rule + 1]));
        assert_int_equal(fb_variant_bytes(arena), fb_variant_bytes(mask));
        assert_memory_equal(fb_variant_ledger(arena), fb_variant_ledger(mask),
                            sizeof(fb_ledger));
    }
    assert_true(out[0].kl[0] != out[4].kl[0]); /* rules do differ */
    assert_false(fb_answer_is_same(&out[0], &out[4]));
    for (int v = 0; v < 2 * RULES; v++) {
        fb_answer_clear(&out[v]);
        fb_variant_free(variant[v]);
    }
    fb_reading_free(reading);
    rig_close(&r);
}

static void evicting_gives_the_bits_of_masking(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++)
        check_masking(types[t]);
}

static void masks_are_for_backends_that_promise_bits(void **state)
{
    fb_backend loose = fb_backend_native;
    rig r;

    (void)state;
    rig_open(&r, "builtin", NULL, NULL);
    assert_true(fb_mask_pays(r.engine, 100, 25));
    assert_false(fb_mask_pays(r.engine, 100, 24));
    rig_close(&r);
    loose.is_exact = false;
    assert_ok(fb_ops_open_backend(&r.ops, &loose, NULL));
    assert_ok(fb_model_open(&r.model, r.ops, "builtin", NULL));
    assert_ok(fb_engine_open(&r.engine, r.ops, r.model, NULL));
    assert_false(fb_mask_pays(r.engine, 100, 25));
    assert_false(fb_mask_pays(r.engine, 100, 100));
    rig_close(&r);
}

static void a_budget_of_the_context_gives_the_bits_of_full(void **state)
{
    rig r;
    fb_reading *reading = read_context(&r, NULL);
    fb_variant *variant[RULES + 1];
    fb_answer out[RULES + 1];

    (void)state;
    assert_ok(fb_keep_all(&variant[RULES], reading));
    for (int rule = 0; rule < RULES; rule++)
        assert_ok(fb_evict(&variant[rule], reading, rule, &none, 0, CONTEXT));
    assert_ok(fb_answer_group(reading, variant, RULES + 1, &question, &free_too, out));
    for (int rule = 0; rule < RULES; rule++) {
        same_answer(&out[rule], &out[RULES]);
        for (int i = 0; i < ANSWER; i++)
            assert_true(out[rule].kl[i] == 0);
    }
    for (int v = 0; v <= RULES; v++) {
        fb_answer_clear(&out[v]);
        fb_variant_free(variant[v]);
    }
    fb_reading_free(reading);
    rig_close(&r);
}

static void a_selection_of_one_entry_too_many_is_refused(void **state)
{
    rig r;
    fb_reading *reading = read_context(&r, NULL);
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    fb_variant *variant;
    fb_cache *cache;
    fb_kept kept;

    (void)state;
    assert_ok(fb_evict(&variant, reading, 0, &none, 0, 10));
    kept = fb_variant_selection(variant)->kept;
    assert_fails(
        fb_cache_evict(&cache, r.ops, fb_reading_cache(reading), &kept, 2 * 2 * 10 - 1),
        FB_BUDGET, "40 entries were selected; the budget holds 39");
    assert_null(cache);
    fb_variant_free(variant);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
    fb_reading_free(reading);
    rig_close(&r);
}

/* Everything that a run of the group yields, under some engine settings. */
static void run_all(const fb_ops_options *ops, const fb_engine_options *options,
                    bool alone, fb_answer *out, char trace[65], char cache[65])
{
    fb_variant *variant[RULES];
    fb_reading *reading;
    rig r;

    rig_open(&r, "builtin", ops, options);
    assert_ok(fb_read(&reading, r.engine, context, CONTEXT, seeded, RULES, 1));
    assert_ok(fb_foresee(reading, &question));
    for (int rule = 0; rule < RULES; rule++)
        assert_ok(fb_evict(&variant[rule], reading, rule, &usual, 0, 31));
    if (!alone)
        assert_ok(fb_answer_group(reading, variant, RULES, &question, &free_too, out));
    for (int rule = 0; alone && rule < RULES; rule++)
        assert_ok(fb_answer_group(reading, &variant[rule], 1, &question, &free_too,
                                  &out[rule]));
    memcpy(trace, fb_reading_trace(reading), 65);
    memcpy(cache, fb_reading_cache_sha256(reading), 65);
    for (int rule = 0; rule < RULES; rule++)
        fb_variant_free(variant[rule]);
    fb_reading_free(reading);
    rig_close(&r);
}

/* The same of all settings; the hash of the cache to `first_cache`. */
static void check_settings(fb_dtype type, char first_cache[65])
{
    const struct {
        fb_ops_options ops;
        fb_engine_options engine;
        bool alone;
    } settings[] = {
        {{.threads = 1}, {.cache = type}, false},
        {{.threads = 2}, {.cache = type, .chunk = 1}, false},
        {{.threads = 2}, {.cache = type, .chunk = 7}, true},
        {{.threads = 3}, {.cache = type, .chunk = 64}, false},
        {{.threads = 1}, {.cache = type, .chunk = CONTEXT}, false},
        {{.threads = 1, .isa = "plain"}, {.cache = type}, true},
    };
    fb_answer first[RULES], other[RULES];
    char trace[65], first_trace[65], cache[65];

    run_all(&settings[0].ops, &settings[0].engine, false, first, first_trace,
            first_cache);
    for (size_t s = 1; s < sizeof settings / sizeof settings[0]; s++) {
        run_all(&settings[s].ops, &settings[s].engine, settings[s].alone, other, trace,
                cache);
        assert_string_equal(cache, first_cache);
        for (int rule = 0; rule < RULES; rule++) {
            same_answer(&first[rule], &other[rule]);
            fb_answer_clear(&other[rule]);
        }
    }
    for (int rule = 0; rule < RULES; rule++)
        fb_answer_clear(&first[rule]);
}

static void nothing_depends_on_threads_blocks_or_company(void **state)
{
    char cache[3][65];

    (void)state;
    for (int t = 0; t < 3; t++)
        check_settings(types[t], cache[t]);
    assert_string_not_equal(cache[0], cache[1]);
    assert_string_not_equal(cache[1], cache[2]);
}

static void the_trace_is_one_for_all_rules_and_tells_another_kernel(void **state)
{
    fb_answer first[RULES], other[RULES];
    char trace[65], first_trace[65], cache[65];

    (void)state;
    run_all(NULL, NULL, false, first, first_trace, cache);
    assert_int_equal(strlen(first_trace), 64);
    for (int rule = 1; rule < RULES; rule++)
        assert_string_equal(first[rule].trace_answer, first[0].trace_answer);
    run_all(NULL, &(fb_engine_options){.scale = 0.125}, false, other, trace, cache);
    assert_string_not_equal(trace, first_trace);
    assert_string_not_equal(other[0].trace_answer, first[0].trace_answer);
    for (int rule = 0; rule < RULES; rule++)
        fb_answer_clear(&other[rule]);
    run_all(NULL, &(fb_engine_options){.chunk = 32}, false, other, trace, cache);
    assert_string_not_equal(trace, first_trace); /* another block */
    for (int rule = 0; rule < RULES; rule++) {
        fb_answer_clear(&other[rule]);
        fb_answer_clear(&first[rule]);
    }
}

static void a_short_context_works_for_every_rule(void **state)
{
    static const int64_t lengths[] = {1, 2, 3, 16, 17};

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        fb_reading *reading;
        fb_answer out[RULES];
        fb_variant *variant[RULES];
        rig r;

        rig_open(&r, "builtin", NULL, NULL);
        assert_ok(fb_read(&reading, r.engine, context, lengths[i], seeded, RULES, 1));
        assert_ok(fb_foresee(reading, &question));
        for (int rule = 0; rule < RULES; rule++)
            assert_ok(fb_evict(&variant[rule], reading, rule, &none, 0,
                               lengths[i] > 1 ? lengths[i] / 2 : 1));
        assert_ok(fb_answer_group(reading, variant, RULES, &question, &free_too, out));
        for (int rule = 0; rule < RULES; rule++) {
            for (int j = 0; j < ANSWER; j++) {
                assert_true(out[rule].nll[j] >= 0 && out[rule].nll[j] < 1e3);
                if (!(out[rule].kl[j] >= 0 && out[rule].kl[j] < 1e3))
                    fail_msg("n %d rule %s kl %g", (int)lengths[i], expressions[rule],
                             out[rule].kl[j]);
            }
            fb_answer_clear(&out[rule]);
            fb_variant_free(variant[rule]);
        }
        fb_reading_free(reading);
        rig_close(&r);
    }
}

/* A reference that a variant reproduces is no way round the limit. */
static void a_free_answer_is_never_longer_than_asked(void **state)
{
    const fb_answer_options short_one = {.generate = true, .max_tokens = 2};
    rig r;
    fb_reading *reading = read_context(&r, NULL);
    fb_variant *full;
    fb_answer said, cut;
    fb_question own = question;

    (void)state;
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &free_too, &said));
    assert_true(said.n_ids > 2);
    own.answer = said.ids;
    own.n_answer = said.n_ids;
    assert_ok(fb_answer_group(reading, &full, 1, &own, &short_one, &cut));
    assert_memory_equal(cut.top1, said.ids, (size_t)said.n_ids * sizeof *said.ids);
    assert_int_equal(cut.n_ids, 2);
    assert_int_equal(cut.stop, FB_STOP_length);
    fb_answer_clear(&cut);
    fb_answer_clear(&said);
    fb_variant_free(full);
    fb_reading_free(reading);
    rig_close(&r);
}

static void many_variants_take_less_than_many_full_caches(void **state)
{
    enum { VARIANTS = 32 };
    fb_variant *variant[VARIANTS];
    rig r;
    fb_reading *reading = read_context(&r, NULL);
    const size_t full = fb_cache_bytes(fb_reading_cache(reading));
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);

    (void)state;
    for (int v = 0; v < VARIANTS; v++)
        assert_ok(fb_evict(&variant[v], reading, v % RULES, &none, 0, CONTEXT / 10));
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv) - before, VARIANTS * full / 10);
    for (int v = 0; v < VARIANTS; v++)
        fb_variant_free(variant[v]);
    fb_reading_free(reading);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arena_holds_exactly_the_budget),
        cmocka_unit_test(evicting_gives_the_bits_of_masking),
        cmocka_unit_test(masks_are_for_backends_that_promise_bits),
        cmocka_unit_test(a_budget_of_the_context_gives_the_bits_of_full),
        cmocka_unit_test(a_selection_of_one_entry_too_many_is_refused),
        cmocka_unit_test(nothing_depends_on_threads_blocks_or_company),
        cmocka_unit_test(the_trace_is_one_for_all_rules_and_tells_another_kernel),
        cmocka_unit_test(a_short_context_works_for_every_rule),
        cmocka_unit_test(a_free_answer_is_never_longer_than_asked),
        cmocka_unit_test(many_variants_take_less_than_many_full_caches),
    };
    return cmocka_run_group_tests(tests, open_rules, close_rules);
}
