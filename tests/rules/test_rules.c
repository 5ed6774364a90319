/* test_rules.c - what must hold for every rule of the table, and for the template.
 *
 * A new line in rules/list.h is covered by this file without a change here.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>

extern const fb_rule fb_rule_template;

enum { N = 280, PROMPT = 2, ANSWER = 3, MOST_RULES = 256 };

static int32_t context[N], prompt[PROMPT] = {2, 20}, answer[ANSWER] = {44, 5, 41};
static const fb_question question = {prompt, answer, PROMPT, ANSWER};
static const fb_protect none = {FB_PROTECT_NONE, 0, 0};
static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static const fb_protect published = {FB_PROTECT_PUBLISHED, 0, 0};

static fb_bound_rule *rules[MOST_RULES];
static int n_rules;
static rig r;
static fb_reading *reading;

/* `name`, or with plain inner rules between its brackets. */
static fb_status bind(const fb_rule *rule, fb_bound_rule **out)
{
    static const char *const inner[] = {"recency", "knorm", "keydiff", "random"};
    char text[256];
    int n = snprintf(text, sizeof text, "%s", rule->name);

    for (int i = 0; i < rule->n_inner; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%c%s", i == 0 ? '(' : ',',
                      inner[i]);
    if (rule->n_inner > 0) (void)snprintf(text + n, sizeof text - (size_t)n, ")");
    return fb_rule_parse(out, text);
}

static fb_reading *read_tokens(const int32_t *ids, int64_t n, uint64_t seed)
{
    fb_seeded_rule seeded[MOST_RULES];
    fb_reading *out;

    for (int i = 0; i < n_rules; i++)
        seeded[i] = (fb_seeded_rule){rules[i], seed};
    assert_ok(fb_read(&out, r.engine, ids, n, seeded, n_rules, 3));
    assert_ok(fb_foresee_document(out, &question, 1));
    assert_ok(fb_foresee(out, &question));
    return out;
}

static int open_all(void **state)
{
    (void)state;
    rig_text(context, N, 21);
    for (int i = 0; i < fb_rule_count(); i++, n_rules++)
        if (bind(fb_rule_at(i), &rules[n_rules]) != FB_OK) return -1;
    if (fb_rule_bind(&rules[n_rules++], &fb_rule_template) != FB_OK) return -1;
    rig_open(&r, "builtin", NULL, NULL);
    reading = read_tokens(context, N, 1);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fb_reading_free(reading);
    rig_close(&r);
    for (int i = 0; i < n_rules; i++)
        fb_bound_rule_free(rules[i]);
    return 0;
}

static bool keeps_all(int i)
{
    return !fb_bound_rule_scores(rules[i]);
}

static float *scores_of(const fb_reading *of, int rule, int64_t layer, int64_t *n_out)
{
    const fb_tensor score = fb_reading_score(of, rule, layer);
    float *host;

    *n_out = fb_size(r.ops, score, 0) * fb_size(r.ops, score, 1);
    host = fb_alloc(FB_ACCOUNT_other, (size_t)*n_out * sizeof *host);
    assert_ok(fb_to_host(r.ops, score, host, (size_t)*n_out * sizeof *host));
    return host;
}

static void every_rule_says_what_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < n_rules; i++) {
        const fb_rule *rule = fb_bound_rule_get(rules[i]);

        assert_true(strlen(rule->name) > 0 && strlen(rule->summary) > 10);
        assert_true(strlen(rule->family) > 0 && strlen(rule->source) > 3);
        assert_true(rule->runs != 0);
        for (const fb_param *p = rule->params; p != NULL && p->name != NULL; p++) {
            assert_true(strlen(p->help) > 5);
            assert_true(strlen(p->origin) > 3);
        }
        for (int j = 0; j < i; j++)
            assert_string_not_equal(rule->name, fb_bound_rule_get(rules[j])->name);
    }
}

static void every_score_has_the_stated_shape_and_is_finite(void **state)
{
    (void)state;
    for (int i = 0; i < n_rules; i++) {
        if (keeps_all(i)) continue;
        for (int64_t layer = 0; layer < 2; layer++) {
            const fb_tensor score = fb_reading_score(reading, i, layer);
            const int64_t planes = fb_bound_rule_choices(rules[i])->planes;
            int64_t n;
            float *host = scores_of(reading, i, layer, &n);

            assert_int_equal(fb_size(r.ops, score, 0), 2 * (planes > 1 ? planes : 1));
            assert_int_equal(fb_size(r.ops, score, 1),
                             N - fb_bound_rule_choices(rules[i])->unscored_last);
            for (int64_t j = 0; j < n; j++)
                assert_true(isfinite(host[j]));
            fb_free(host);
        }
    }
}

static void every_score_repeats_to_the_bit(void **state)
{
    fb_reading *again = read_tokens(context, N, 1);

    (void)state;
    for (int i = 0; i < n_rules; i++) {
        int64_t n, m;
        float *a, *b;

        if (keeps_all(i)) continue;
        a = scores_of(reading, i, 1, &n);
        b = scores_of(again, i, 1, &m);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        fb_free(a);
        fb_free(b);
    }
    fb_reading_free(again);
}

static void only_random_rules_read_the_seed(void **state)
{
    fb_reading *other = read_tokens(context, N, 2);

    (void)state;
    for (int i = 0; i < n_rules; i++) {
        int64_t n, m;
        float *a, *b;

        if (keeps_all(i) || fb_bound_rule_is_control(rules[i]))
            continue; /* a control draws when it selects */
        a = scores_of(reading, i, 1, &n);
        b = scores_of(other, i, 1, &m);
        assert_int_equal(memcmp(a, b, (size_t)n * sizeof *a) != 0,
                         fb_bound_rule_is_random(rules[i]));
        fb_free(a);
        fb_free(b);
    }
    fb_reading_free(other);
}

/* Every entry that `less` keeps is kept by `more`. */
static bool lies_in(const fb_kept *less, const fb_kept *more, int64_t slot)
{
    int64_t j = 0;

    for (int64_t i = 0; i < less->count[slot]; i++) {
        while (j < more->count[slot] &&
               more->position[slot][j] < less->position[slot][i])
            j++;
        if (j == more->count[slot] ||
            more->position[slot][j] != less->position[slot][i])
            return false;
    }
    return true;
}

static void no_rule_exceeds_or_wastes_its_budget(void **state)
{
    static const fb_protect *const protections[] = {&none, &usual, &published};

    (void)state;
    for (int i = 0; i < n_rules; i++)
        for (int p = 0; p < 3; p++)
            for (int64_t k = 1; k < N; k += 13) {
                fb_variant *variant;
                const fb_selection *s;

                if (keeps_all(i)) continue;
                assert_ok(fb_evict(&variant, reading, i, protections[p], 0, k));
                s = fb_variant_selection(variant);
                assert_int_equal(fb_kept_total(&s->kept), 2 * 2 * k);
                if (p == 1 && k >= 20)
                    for (int64_t slot = 0; slot < 4; slot++) {
                        const int64_t m = s->kept.count[slot];

                        if (m < 20) continue; /* a small head under an allocation */
                        assert_int_equal(s->kept.position[slot][3], 3);
                        assert_int_equal(s->kept.position[slot][m - 16], N - 16);
                    }
                fb_variant_free(variant);
            }
}

static void kept_sets_of_an_equal_split_are_nested(void **state)
{
    (void)state;
    for (int i = 0; i < n_rules; i++) {
        const fb_rule *rule = fb_bound_rule_get(rules[i]);
        fb_variant *less, *more;

        if (keeps_all(i) || rule->kind == FB_KIND_ALLOCATION || rule->select != NULL ||
            fb_bound_rule_choices(rules[i])->recent_quota > 0)
            continue; /* what depends on the budget need not nest */
        assert_ok(fb_evict(&less, reading, i, &usual, 0, 40));
        assert_ok(fb_evict(&more, reading, i, &usual, 0, 55));
        for (int64_t slot = 0; slot < 4; slot++)
            assert_true(lies_in(&fb_variant_selection(less)->kept,
                                &fb_variant_selection(more)->kept, slot));
        fb_variant_free(less);
        fb_variant_free(more);
    }
}

static void check_control(const fb_selection *rule, const fb_selection *control)
{
    const int64_t slots = rule->kept.n_slots;

    for (int64_t slot = 0; slot < slots; slot++)
        assert_int_equal(control->kept.count[slot], rule->kept.count[slot]);
    assert_int_equal(control->n_protected, rule->n_protected);
    assert_int_equal(control->free_choices, rule->free_choices);
    assert_int_equal(control->fallback, rule->fallback);
    assert_int_equal(control->shrunk, rule->shrunk);
}

/* What both keep is at least what is protected: of it the newest entries, which all lie
 * behind those that can be chosen, are looked at. */
static void check_protected(const fb_selection *rule, const fb_selection *control)
{
    const int64_t recent = rule->n_protected - 4; /* of `usual` */

    for (int64_t slot = 0; slot < rule->kept.n_slots && !rule->shrunk; slot++) {
        const int64_t m = control->kept.count[slot];

        if (m < rule->n_protected) continue;
        assert_int_equal(control->kept.position[slot][3], 3);
        assert_int_equal(control->kept.position[slot][m - recent], N - recent);
    }
}

static void the_control_of_every_rule_keeps_as_much_in_every_head(void **state)
{
    (void)state;
    for (int i = 0; i < n_rules; i++) {
        const fb_seeded_rule plain = {rules[i], 1};
        fb_seeded_rule both[2] = {plain, {NULL, 1}};
        fb_bound_rule *control;
        fb_reading *own;

        if (keeps_all(i) || fb_bound_rule_is_control(rules[i]) ||
            fb_bound_rule_get(rules[i]) == &fb_rule_template)
            continue;
        assert_ok(fb_rule_bind_around(&control, fb_rule_find("control"),
                                      fb_bound_rule_text(rules[i])));
        assert_true(fb_bound_rule_is_random(control));
        both[1].rule = control;
        assert_ok(fb_read(&own, r.engine, context, N, both, 2, 3));
        assert_ok(fb_foresee_document(own, &question, 1));
        assert_ok(fb_foresee(own, &question));
        for (int64_t k = 1; k < N; k += 31) {
            fb_variant *a, *b;

            assert_ok(fb_evict(&a, own, 0, &usual, 0, k));
            assert_ok(fb_evict(&b, own, 1, &usual, 0, k));
            check_control(fb_variant_selection(a), fb_variant_selection(b));
            check_protected(fb_variant_selection(a), fb_variant_selection(b));
            fb_variant_free(a);
            fb_variant_free(b);
        }
        fb_reading_free(own);
        fb_bound_rule_free(control);
    }
}

static void one_and_two_tokens_leave_at_least_one_entry(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 2; n++) {
        fb_reading *small = read_tokens(context, n, 1);

        for (int i = 0; i < n_rules; i++) {
            fb_variant *variant;
            fb_answer out;

            if (keeps_all(i)) continue;
            assert_ok(fb_evict(&variant, small, i, &usual, 0, 1));
            for (int64_t slot = 0; slot < 4; slot++)
                assert_true(fb_variant_selection(variant)->kept.count[slot] >= 1);
            assert_ok(fb_answer_group(small, &variant, 1, &question,
                                      &(fb_answer_options){0}, &out));
            for (int j = 0; j < ANSWER; j++)
                assert_true(isfinite(out.nll[j]));
            fb_answer_clear(&out);
            fb_variant_free(variant);
        }
        fb_reading_free(small);
    }
}

static void every_rule_pays_for_what_it_reads(void **state)
{
    (void)state;
    for (int i = 0; i < n_rules; i++) {
        const fb_ledger *ledger = fb_reading_ledger(reading, i);
        const uint32_t reads = fb_bound_rule_choices(rules[i])->reads;
        const uint32_t paid = FB_READS_ATTENTION_SUM | FB_READS_WINDOW_ATTENTION |
                              FB_READS_ATTENTION_BLOCK | FB_READS_QUERIES |
                              FB_READS_RESIDUAL | FB_READS_REPLAY;
        const double signals =
            fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_signal).flops;

        assert_true(fb_ledger_total(ledger, FB_PHASE_context, FB_SCOPE_model).flops >
                    0);
        assert_int_equal(signals > 0, (reads & paid) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_says_what_it_is),
        cmocka_unit_test(every_score_has_the_stated_shape_and_is_finite),
        cmocka_unit_test(every_score_repeats_to_the_bit),
        cmocka_unit_test(only_random_rules_read_the_seed),
        cmocka_unit_test(no_rule_exceeds_or_wastes_its_budget),
        cmocka_unit_test(kept_sets_of_an_equal_split_are_nested),
        cmocka_unit_test(the_control_of_every_rule_keeps_as_much_in_every_head),
        cmocka_unit_test(one_and_two_tokens_leave_at_least_one_entry),
        cmocka_unit_test(every_rule_pays_for_what_it_reads),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
