/* test_rules_golden_replay.c - rules that read the context again score and keep what kvpress
 * does on the same model, words before a piece included (tests/golden/rules).
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/near.h"
#include "tests/support/reference.h"

#define MODEL "tests/golden/families/llama_untied"

enum { N = 90, LAYERS = 2, KV_HEADS = 2, SLOTS = LAYERS * KV_HEADS };

static rig r;
static json_t *root;
static id_list ids;

static int open_all(void **state)
{
    (void)state;
    rig_open(&r, MODEL, NULL, NULL); /* first: it sets the memory that jansson uses */
    root = golden_load("tests/golden/rules/replay.json");
    ids = reference_ids(golden_at(root, "ids"));
    assert_int_equal(ids.n, N);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fb_free(ids.ids);
    json_decref(root);
    rig_close(&r);
    return 0;
}

static fb_reading *read_for(json_t *node, const char *field, fb_bound_rule **rule)
{
    fb_reading *reading;

    assert_ok(fb_rule_parse(rule, json_string_value(golden_at(node, field))));
    assert_ok(
        fb_read(&reading, r.engine, ids.ids, N, &(fb_seeded_rule){*rule, 1}, 1, 1));
    return reading;
}

static void scores_are_those_of_kvpress(void **state)
{
    json_t *cases = golden_at(root, "cases");

    (void)state;
    assert_int_equal(json_array_size(cases), 6);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *node = json_array_get(cases, i);
        double theirs[SLOTS * N];
        fb_bound_rule *rule;
        fb_reading *reading = read_for(node, "rule", &rule);

        assert_int_equal(golden_list(node, "scores", theirs, SLOTS * N), SLOTS * N);
        for (int l = 0; l < LAYERS; l++) {
            const double *of_layer = theirs + l * KV_HEADS * N;
            float *ours = reference_floats(r.ops, fb_reading_score(reading, 0, l));

            for (int j = 0; j < KV_HEADS * N; j++)
                assert_near((double)ours[j] / of_layer[j], 1, 1e-5);
            fb_free(ours);
        }
        fb_reading_free(reading);
        fb_bound_rule_free(rule);
    }
}

static void kept_sets_are_those_of_kvpress(void **state)
{
    const fb_protect published = {FB_PROTECT_PUBLISHED, 0, 0};
    json_t *cases = golden_at(root, "cases");

    (void)state;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *node = json_array_get(cases, i), *kept = golden_at(node, "kept");
        fb_bound_rule *rule;
        fb_reading *reading = read_for(node, "shared", &rule);
        const fb_kept *ours;
        fb_variant *variant;

        assert_ok(fb_evict(&variant, reading, 0, &published, 0,
                           (int64_t)golden_number(root, "k")));
        ours = &fb_variant_selection(variant)->kept;
        assert_int_equal(json_array_size(kept), SLOTS);
        for (int s = 0; s < SLOTS; s++) {
            json_t *theirs = json_array_get(kept, (size_t)s);

            assert_int_equal(ours->count[s], json_array_size(theirs));
            for (int64_t j = 0; j < ours->count[s]; j++)
                assert_int_equal(ours->position[s][j],
                                 json_integer_value(json_array_get(theirs, (size_t)j)));
        }
        fb_variant_free(variant);
        fb_reading_free(reading);
        fb_bound_rule_free(rule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_kvpress),
        cmocka_unit_test(kept_sets_are_those_of_kvpress),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
