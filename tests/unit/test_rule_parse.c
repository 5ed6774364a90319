/* test_rule_parse.c - rule expressions: what is understood, what is refused and how.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"
#include "tests/support/test.h"

static void becomes(const char *expression, const char *canonical)
{
    fb_bound_rule *rule, *again;

    assert_ok(fb_rule_parse(&rule, expression));
    assert_string_equal(fb_bound_rule_text(rule), canonical);
    assert_ok(fb_rule_parse(&again,
                            canonical)); /* canonical text is its own canonical text */
    assert_string_equal(fb_bound_rule_text(again), canonical);
    fb_bound_rule_free(again);
    fb_bound_rule_free(rule);
}

static void an_expression_is_made_canonical(void **state)
{
    (void)state;
    becomes("full", "full");
    becomes(" lava ", "lava:window=32,kernel=7");
    becomes("cake:kernel=7,window=16", "cake:window=16,kernel=7,gamma=200");
    becomes("adakv(lava)",
            "adakv(lava:window=32,kernel=7,safeguard=0.2,form=floor,normalise=none)");
    becomes("adakv(lava:window=16, safeguard=0.3)",
            "adakv(lava:window=16,kernel=7,safeguard=0.3,form=floor,normalise=none)");
    becomes("blend(lava:window=16, recency, weights=0.5/0.5)",
            "blend(lava:window=16,kernel=7,recency,weights=0.5/0.5)");
    becomes("cake_layers(window=16,lava)", /* both have a window */
            "cake_layers(lava:window=32,kernel=7,window=16,tau1=1,tau2=1)");
    becomes("adakv(blend(random,h2o:recent=0.25))",
            "adakv(blend(random,h2o:recent=0.25,weights=0.7/"
            "0.3),safeguard=0.2,form=floor,normalise=none)");
}

static void scores_that_compare_nothing_can_be_normalised(void **state)
{
    static const char *const texts[] = {
        "adakv(normalise(knorm))", "flat(normalise(vatp(keydiff),by=rank))",
        "adakv(lagkv:cross=1)",    "adakv(keydiff)",
        "pyramid(knorm)",          "cake_layers(vnorm)"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fb_bound_rule *rule;

        assert_ok(fb_rule_parse(&rule, texts[i]));
        fb_bound_rule_free(rule);
    }
}

static void refuses(const char *expression, const char *part)
{
    fb_bound_rule *rule;

    assert_fails(fb_rule_parse(&rule, expression), FB_USAGE, part);
    assert_null(rule);
}

static void a_bad_expression_is_refused_with_what_would_be_right(void **state)
{
    (void)state;
    refuses("snapvk", "unknown rule 'snapvk'; did you mean 'snapkv'?");
    refuses("zzzzzz", "help: flexbudget rules lists them");
    refuses("snapkv:window=0", "rule 'snapkv': window=0 is out of range; 1 to 4096");
    refuses("snapkv:windw=8", "did you mean 'window'? it has window, kernel, pool");
    refuses("snapkv:kernel=4", "even kernel");
    refuses("snapkv:window", "expected '='");
    refuses("snapkv:", "character 8");
    refuses("snapkv(tova)", "takes no rules in brackets");
    refuses("snapkv(window=16)", "write 'snapkv:window=16'");
    refuses("snapkv(window=16, kernel=3)", "write 'snapkv:window=16, kernel=3'");
    refuses("snapkv()", "write 'snapkv'");
    refuses("adakv", "needs 1 rule between its brackets; 0 given\nhelp: write "
                     "'adakv(snapkv)'");
    refuses("adakv:snapkv", "help: rules go in brackets: 'adakv(snapkv)'");
    refuses("blend(tova)", "needs 2 rules");
    refuses("adakv(tova", "expected ',' or ')'; the bracket of character 6 stays open");
    refuses("adakv(tova))", "nothing more was expected");
    refuses("blend(adakv(tova), tova)", "must be outermost");
    refuses("adakv(full)", "evicts nothing");
    refuses("blend(oracle,h2o)", "gone by then");
    refuses("adakv(blend(snapkv,oracle))", "gone by then");
    refuses("adakv(knorm)",
            "those of 'knorm' cannot be compared but within a head; write "
            "'adakv(normalise(knorm))'");
    refuses("adakv(blend(snapkv,vnorm))", "different heads");
    refuses("flat(keydiff)", "different layers and heads");
    refuses("adakv(lagkv)", "cannot be compared");
    refuses("", "expected the name of a rule");
    refuses("adakv(adakv(tova))", "one of them can share the budget");
    refuses("snapkv:window=4,window=5", "rule 'snapkv': 'window' is given twice");
    refuses("adakv(tova, safeguard=0.1):safeguard=0.1", "'safeguard' is given twice");
    refuses("blend(snapkv:window=4,window=4,tova)", "'window' is given twice");
    refuses("h2o:recent=2", "0 to 1");
    refuses(
        "blend(blend(blend(blend(blend(blend(blend(blend(blend(tova,tova),tova),tova),"
        "tova),tova),tova),tova),tova),tova)",
        "too deep");
}

static void a_mistake_is_pointed_at(void **state)
{
    (void)state;
    refuses("adakv(snapvk, safeguard=0.3)",
            "unknown rule 'snapvk'; did you mean 'snapkv'?"
            "\n    adakv(snapvk, safeguard=0.3)"
            "\n          ^~~~~~");
    refuses("adakv(snapkv, safegard=0.3)", "\n    adakv(snapkv, safegard=0.3)"
                                           "\n                  ^~~~~~~~");
    refuses("snapkv:window=9999", "\n    snapkv:window=9999"
                                  "\n                  ^~~~");
    refuses("blend(tova, blend(tova))", "2 rules between its brackets; 1 given"
                                        "\n    blend(tova, blend(tova))"
                                        "\n                ^~~~~\nhelp: ");
    refuses("blend(\xc3\xa4, tova)", "\n    blend(\xc3\xa4, tova)\n          ^");
    refuses(
        "blend(blend(snapkv:window=16,tova),blend(snapkv:window=16,tova,wights=1/2),"
        "weights=1/2)",
        "\n    ...va),blend(snapkv:window=16,tova,wights=1/2),weights=1/2)"
        "\n                                       ^~~~~~");
}

static void a_key_in_the_wrong_place_is_said_to_be_anothers(void **state)
{
    (void)state;
    refuses("adakv(snapkv, window=16)", "help: 'window' is a parameter of 'snapkv', "
                                        "behind its colon: 'adakv(snapkv:window=...)'");
    refuses("adakv(snapkv:safeguard=0.3)",
            "help: 'safeguard' is a parameter of 'adakv', behind a comma: "
            "'adakv(snapkv, safeguard=...)'");
    refuses("pyramid(adakv(tova), heads=kv)", "'heads' is a parameter of 'tova'");
    refuses("snapkv:safeguard=0.3", "help: 'safeguard' is a parameter of adakv");
}

static void a_name_written_otherwise_is_known(void **state)
{
    (void)state;
    refuses("SnapKV", "did you mean 'snapkv'?");
    refuses("streaming-llm", "did you mean 'streaming_llm'?");
}

static void becomes_what(const char *expression, const char *written_out)
{
    fb_bound_rule *rule;

    assert_ok(fb_rule_parse(&rule, written_out));
    becomes(expression, fb_bound_rule_text(rule));
    fb_bound_rule_free(rule);
}

static void a_preset_is_what_it_stands_for(void **state)
{
    (void)state;
    for (int i = 0; i < fb_preset_count(); i++) {
        const fb_preset *preset = fb_preset_at(i);

        assert_null(fb_rule_find(preset->name));
        assert_ptr_equal(fb_preset_find(preset->name), preset);
        assert_true(strlen(preset->summary) > 10);
        becomes_what(preset->name, preset->expression);
    }
    becomes_what("adakv(snapkv_paper, safeguard=0.3)",
                 "adakv(snapkv:window=32,kernel=7,pool=max,safeguard=0.3)");
    becomes_what("blend(vatp_h2o,tova_authors)",
                 "blend(vatp(h2o),tova:protect_last=0)");
}

static void settings_behind_a_preset_win_over_its_own(void **state)
{
    (void)state;
    becomes_what("snapkv_paper:window=16", "snapkv:window=16,kernel=7,pool=max");
    becomes_what("adakv(snapkv_paper:window=16, safeguard=0.3)",
                 "adakv(snapkv:window=16,kernel=7,pool=max,safeguard=0.3)");
    refuses("snapkv_paper:window=16,window=8", "'window' is given twice");
    refuses("snapkv_papr", "did you mean 'snapkv_paper'?");
    refuses("ada_snapkv:safeguard=0.3", "'ada_snapkv' stands for 'adakv(snapkv)'");
    refuses("snapkv_paper(tova)", "write it out and change it there");
    refuses("snapkv_paper:gamma=1", "rule 'snapkv'");
}

static void a_rule_with_a_foreign_abi_is_refused(void **state)
{
    fb_rule rule = *fb_rule_find("knorm");
    fb_bound_rule *bound;

    (void)state;
    rule.abi = 99;
    assert_fails(fb_rule_bind(&bound, &rule), FB_UNSUPPORTED, "ABI 99");
    rule = *fb_rule_find("knorm");
    rule.size -= 8;
    assert_fails(fb_rule_bind(&bound, &rule), FB_UNSUPPORTED, "ABI");
}

static void a_wrapper_inherits_what_its_inner_rules_need(void **state)
{
    fb_bound_rule *rule;
    const fb_choices *choices;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "adakv(blend(snapkv:window=16, recency))"));
    choices = fb_bound_rule_choices(rule);
    assert_int_equal(choices->reads, FB_READS_WINDOW_ATTENTION | FB_READS_POSITION);
    assert_int_equal(choices->window, 16);
    assert_int_equal(choices->unscored_last, 16);
    assert_int_equal(choices->pool_average, 0); /* smoothing stays with snapkv */
    assert_string_equal(fb_bound_rule_family(rule), "mixed");
    assert_true(fb_bound_rule_is_deployable(rule));
    assert_false(fb_bound_rule_is_random(rule));
    fb_bound_rule_free(rule);
}

static void random_text_is_refused_or_round_trips(void **state)
{
    static const char *const parts[] = {
        "snapkv", "adakv", "blend", "snapkv_paper", "nacl", "(", ")",  ",", ":", "=",
        "window", "0.5",   "16",    "tova",         " ",    "/", "\"", "-", "x"};
    uint64_t seed = 7;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[128] = "";
        fb_bound_rule *rule, *again;

        for (int j = 0; j < 9; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        if (fb_rule_parse(&rule, text) != FB_OK) {
            assert_true(strlen(fb_error_message()) > 10);
            continue;
        }
        assert_ok(fb_rule_parse(&again, fb_bound_rule_text(rule)));
        assert_string_equal(fb_bound_rule_text(rule), fb_bound_rule_text(again));
        fb_bound_rule_free(again);
        fb_bound_rule_free(rule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_is_made_canonical),
        cmocka_unit_test(scores_that_compare_nothing_can_be_normalised),
        cmocka_unit_test(a_bad_expression_is_refused_with_what_would_be_right),
        cmocka_unit_test(a_mistake_is_pointed_at),
        cmocka_unit_test(a_key_in_the_wrong_place_is_said_to_be_anothers),
        cmocka_unit_test(a_name_written_otherwise_is_known),
        cmocka_unit_test(a_preset_is_what_it_stands_for),
        cmocka_unit_test(settings_behind_a_preset_win_over_its_own),
        cmocka_unit_test(a_rule_with_a_foreign_abi_is_refused),
        cmocka_unit_test(a_wrapper_inherits_what_its_inner_rules_need),
        cmocka_unit_test(random_text_is_refused_or_round_trips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
