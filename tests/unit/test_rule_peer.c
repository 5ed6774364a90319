/* test_rule_peer.c - rules by their names in other projects, in both directions.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/peer.h"
#include "tests/support/test.h"

#define COMPACTOR                                                                      \
    "compactor(noncausal:tail=kvpress,skip_first=8,skip_last=4,"                       \
    "leverage:skip_first=8,skip_last=4,lift=0"

/* The expressions are those whose kept sets tests/real/test_kept.c compares with what the
 * presses keep. */
static const struct {
    const char *call, *expression;
} pairs[] = {
    {"KnormPress()", "knorm"},
    {"KeyDiffPress()", "keydiff"},
    {"TOVAPress()", "tova"},
    {"SnapKVPress()", "snapkv"},
    {"SnapKVPress(window_size=16)", "snapkv:window=16"},
    {"StreamingLLMPress()", "streaming_llm:sink=4"},
    {"ObservedAttentionPress()", "observed_attention"},
    {"AdaKVPress(SnapKVPress())", "adakv(snapkv)"},
    {"CURPress()", "cur:edge=kvpress"},
    {"LagKVPress()", "lagkv"},
    {"LagKVPress(lag_size=32)", "lagkv:lag=32"},
    {"LagKVPress(lag_size=32, cross_scoring=True)", "lagkv:lag=32,cross=1"},
    {"FinchPress()", "finch:window=32"},
    {"ExpectedAttentionPress()", "expected_attention"},
    {"ExpectedAttentionPress(use_covariance=False, epsilon=0.02)",
     "expected_attention:covariance=0,epsilon=0.02"},
    {"AdaKVPress(ExpectedAttentionPress())", "adakv(expected_attention)"},
    {"CapPress()", "cap"},
    {"CriticalKVPress(SnapKVPress())", "critical(snapkv)"},
    {"CriticalAdaKVPress(SnapKVPress())", "adakv(critical(snapkv,safeguard=0.2))"},
    {"NonCausalAttnPress()", "noncausal:tail=kvpress"},
    {"LeverageScorePress()", "leverage:lift=0"},
    {"CompactorPress()", COMPACTOR ")"},
    {"CompactorPress(blending=0.9)", COMPACTOR ",weight=fixed,fixed=0.9)"},
    {"PyramidKVPress()", "pyramid(snapkv,form=kvpress)"},
    {"PyramidKVPress(window_size=4, beta=10)",
     "pyramid(snapkv:window=4,beta=10,form=kvpress)"},
    {"ChunkKVPress(SnapKVPress())", "chunk(snapkv,fill=none,cut=first)"},
    {"EntropyGatedChunkKVPress(SnapKVPress())", "entropy_chunk(snapkv)"},
    {"ChunkPress(KnormPress(), chunk_length=128)", "span(knorm,size=128)"},
    /* and some that it does not have */
    {"BlockPress(KeyDiffPress(), block_size=64)", "block(keydiff,size=64)"},
    {"KVzipPress()", "kvzip_paper"},
    {"KVzipPress(kvzip_plus_normalization=True)", "kvzip_plus"},
    {"KVzipPress(layerwise=True, chunk_size=512)",
     "adakv(kvzip:piece=512,safeguard=0)"},
    {"KVComposePress()", "kvcompose_paper"},
    {"MergingPress(KnormPress(), similarity_threshold=0.5)",
     "merging(knorm,threshold=0.5)"},
    {"MergingPress(SnapKVPress(), merge_fraction=0.5)", "merging(snapkv,fraction=0.5)"},
    {"RandomPress()", "random"},
    {"CURPress(num_sinks=2, leverage_type='key', local_window_size=8)",
     "cur:type=key,block=8,sink=2,edge=kvpress"},
    {"FinchPress(chunk_length=256, rerotate_keys=False)", "span(finch,size=256)"},
    {"CriticalAdaKVPress(TOVAPress(), alpha_safeguard=0.5, first_stage_ratio=0.25)",
     "adakv(critical(tova,first=0.25,safeguard=0.5),safeguard=0.5)"},
};

enum { N_PAIRS = sizeof pairs / sizeof *pairs };

static fb_bound_rule *parsed(const char *expression)
{
    fb_bound_rule *rule;

    assert_ok(fb_rule_parse(&rule, expression));
    return rule;
}

static void is_the_same(const char *a, const char *b)
{
    fb_bound_rule *first = parsed(a), *second = parsed(b);

    assert_string_equal(fb_bound_rule_text(first), fb_bound_rule_text(second));
    fb_bound_rule_free(first);
    fb_bound_rule_free(second);
}

static void a_press_is_the_expression_that_keeps_what_it_keeps(void **state)
{
    char call[256];

    (void)state;
    for (int i = 0; i < N_PAIRS; i++) {
        (void)snprintf(call, sizeof call, "kvpress:%s", pairs[i].call);
        is_the_same(call, pairs[i].expression);
    }
}

static void an_expression_is_written_as_its_press(void **state)
{
    const fb_peer_project *project = fb_peer_project_find("kvpress");

    (void)state;
    for (int i = 0; i < N_PAIRS; i++) {
        fb_bound_rule *rule = parsed(pairs[i].expression);
        fb_peer_match match;
        fb_text text = {0};

        fb_peer_find(&match, project, rule, strcmp(pairs[i].call, "FinchPress()") == 0);
        fb_peer_print(&match, "", &text);
        assert_string_equal(fb_text_string(&text), pairs[i].call);
        assert_string_equal(match.differs, "");
        fb_text_clear(&text);
        fb_bound_rule_free(rule);
    }
}

/* Every row, with its own defaults. */
static void every_row_stands_for_an_expression_or_says_why_not(void **state)
{
    (void)state;
    for (int i = 0; i < fb_peer_count(); i++) {
        const fb_peer *peer = fb_peer_at(i);
        const char *at = peer->arguments;
        fb_peer_argument a;
        fb_bound_rule *rule;
        fb_text call = {0};
        bool is_first = true;
        int n = 0;

        fb_text_printf(&call, "%s:%s(", peer->project, peer->name);
        while (fb_peer_next_argument(&at, &a)) {
            const bool is_press = strcmp(a.name, "press") == 0;

            assert_true(++n <= FB_PEER_ARGUMENTS);
            if (!a.is_given && a.value[0] != '\0') continue;
            fb_text_printf(&call, "%s%s=%s", is_first ? "" : ", ", a.name,
                           is_press                ? "KeyDiffPress()"
                           : a.value[0] != '\0'    ? a.value
                           : strstr(a.name, "len") ? "64"
                                                   : "0.5");
            is_first = false;
        }
        fb_text_puts(&call, ")");
        if (peer->kind == FB_PEER_REFUSED) {
            assert_fails(fb_rule_parse(&rule, fb_text_string(&call)), FB_UNSUPPORTED,
                         peer->name);
        } else {
            const fb_peer *named[4];

            rule = parsed(fb_text_string(&call));
            assert_true(fb_bound_rule_peers(rule, named, 4) > 0);
            assert_ptr_equal(named[0], peer);
            fb_bound_rule_free(rule);
        }
        fb_text_clear(&call);
    }
}

static void refuses(const char *expression, fb_status status, const char *part)
{
    fb_bound_rule *rule;

    assert_fails(fb_rule_parse(&rule, expression), status, part);
    assert_null(rule);
}

static void what_cannot_be_mapped_is_refused_with_its_place(void **state)
{
    (void)state;
    refuses("kvpress:SnapKVPrss()", FB_USAGE, "did you mean 'SnapKVPress'?");
    refuses("kvpress:", FB_USAGE, "expected a name of kvpress");
    refuses("kvpress", FB_USAGE, "a name of it follows a colon");
    refuses("SnapKVPress", FB_USAGE, "'kvpress:SnapKVPress'");
    refuses("kvpress:SnapKVPress(compression_ratio=0.75)", FB_USAGE, "--budgets 25%");
    refuses("kvpress:AdaKVPress(SnapKVPress(compression_ratio=0.5))", FB_USAGE,
            "\n    kvpress:AdaKVPress(SnapKVPress(compression_ratio=0.5))"
            "\n                                   ^~~~~~~~~~~~~~~~~");
    refuses("kvfactory:SnapKV(max_capacity_prompt=256)", FB_USAGE, "is the budget");
    refuses("kvpress:SnapKVPress(windw_size=8)", FB_USAGE,
            "did you mean 'window_size'");
    refuses(
        "kvpress:SnapKVPress(window_size=0)", FB_USAGE,
        "'SnapKVPress' is 'snapkv:window=0,kernel=5' here: rule 'snapkv': window=0");
    refuses("kvpress:SnapKVPress(window_size=8, window_size=9)", FB_USAGE, "twice");
    refuses("kvpress:SnapKVPress(8)", FB_USAGE, "write name=value");
    refuses("kvpress:SnapKVPress(window_size=)", FB_USAGE, "expected a value");
    refuses("kvpress:SnapKVPress(window_size=8", FB_USAGE, "stays open");
    refuses("kvpress:SnapKVPress():window=8", FB_USAGE, "nothing more");
    refuses("kvpress:AdaKVPress()", FB_USAGE, "needs press=...");
    refuses("kvpress:AdaKVPress(AdaKVPress(SnapKVPress()))", FB_UNSUPPORTED,
            "'AdaKVPress' around 'AdaKVPress'");
    refuses("kvpress:AdaKVPress(CriticalKVPress(SnapKVPress()))", FB_UNSUPPORTED,
            "around 'CriticalKVPress'");
    refuses("kvpress:AdaKVPress(QFilterPress())", FB_UNSUPPORTED,
            "'QFilterPress' needs");
    refuses("kvpress:CURPress(use_random_leverage=True)", FB_UNSUPPORTED,
            "with use_random_leverage=False it is");
    refuses("kvpress:RandomPress(seed=3)", FB_USAGE, "--seeds 3");
    refuses("kvpress:ThinKPress()", FB_UNSUPPORTED, "is no eviction");
}

static void names_of_other_projects_stand_inside_of_ours(void **state)
{
    const fb_peer *named[4];
    fb_bound_rule *rule;

    (void)state;
    is_the_same("adakv(kvpress:SnapKVPress(window_size=16), safeguard=0.1)",
                "adakv(snapkv:window=16,safeguard=0.1)");
    is_the_same("blend(kvpress:KnormPress, kvpress:TOVAPress(), weights=1/2)",
                "blend(knorm,tova,weights=1/2)");
    is_the_same("kvpress:AdaKVPress( press = SnapKVPress( window_size = 16 ) )",
                "adakv(snapkv:window=16)");
    is_the_same("kvpress:KeyRerotationPress(KnormPress())", "knorm");
    is_the_same(
        "kvpress:DMSPress(KnormPress(), threshold=-0.5, sliding_window_size=32)",
        "threshold(knorm,tau=-0.5,window=32)");
    is_the_same("kvfactory:SnapKV", "snapkv_factory");
    is_the_same("kvfactory:SnapKV(pooling='avgpool',kernel_size=5)", "snapkv:window=8");
    rule = parsed("adakv(kvpress:SnapKVPress(window_size=16))");
    assert_int_equal(fb_bound_rule_peers(rule, named, 4), 1);
    assert_string_equal(named[0]->name, "SnapKVPress");
    fb_bound_rule_free(rule);
}

static void finds_at(const char *expression, bool is_compact, const char *call,
                     const char *differs)
{
    fb_bound_rule *rule = parsed(expression);
    fb_peer_match match;
    fb_text text = {0};

    fb_peer_find(&match, fb_peer_project_find("kvpress"), rule, is_compact);
    fb_peer_print(&match, "compression_ratio=0.8", &text);
    assert_string_equal(fb_text_string(&text), call);
    assert_string_equal(match.differs, differs);
    fb_text_clear(&text);
    fb_bound_rule_free(rule);
}

static void finds(const char *expression, const char *call, const char *differs)
{
    finds_at(expression, false, call, differs);
}

static void renumbered_positions_are_a_press_of_their_own(void **state)
{
    (void)state;
    finds_at("knorm", true, "KeyRerotationPress(KnormPress(compression_ratio=0.8))",
             "");
    finds_at("adakv(snapkv)", true, "AdaKVPress(SnapKVPress(compression_ratio=0.8))",
             "positions=compact (there original)");
    finds_at("finch", true, "FinchPress(compression_ratio=0.8)", "");
    finds_at("finch", false, "FinchPress(compression_ratio=0.8, rerotate_keys=False)",
             "");
}

static void the_nearest_press_says_what_it_does_otherwise(void **state)
{
    (void)state;
    finds("snapkv", "SnapKVPress(compression_ratio=0.8)", "");
    finds("cur", "CURPress(compression_ratio=0.8)", "edge=exact (there kvpress)");
    finds("snapkv:pool=max", "SnapKVPress(compression_ratio=0.8)",
          "pool=max (there avg)");
    finds("adakv(cur:block=8,safeguard=0.5)",
          "AdaKVPress(CURPress(compression_ratio=0.8, local_window_size=8), "
          "alpha_safeguard=0.5)",
          "edge=exact (there kvpress)");
    finds("adakv(critical(tova,safeguard=0.5))",
          "CriticalAdaKVPress(TOVAPress(compression_ratio=0.8), alpha_safeguard=0.5)",
          "safeguard=0.2 (there 0.5)");
    finds("pyramid(snapkv:window=16)",
          "PyramidKVPress(compression_ratio=0.8, window_size=16)",
          "form=exact (there kvpress)");
    finds("lava", "", "");
    finds("h2o", "", "");
    finds("adakv(lava)", "", "");
    finds("full", "", "");
    finds("lazy(streaming_llm)", "", "");
    finds("blend(snapkv,recency)", "", "");
}

static void is_json(const char *expression, const char *wanted)
{
    fb_bound_rule *rule = parsed(expression);
    fb_peer_match match;
    fb_text text = {0};

    fb_peer_find(&match, fb_peer_project_find("kvpress"), rule, false);
    fb_peer_print_json(&match, &text);
    assert_string_equal(fb_text_string(&text), wanted);
    fb_text_clear(&text);
    fb_bound_rule_free(rule);
}

static void all_arguments_of_a_press_are_json(void **state)
{
    (void)state;
    is_json("adakv(cur:edge=kvpress,safeguard=0.3)",
            "{\"class\": \"AdaKVPress\", \"arguments\": {\"press\": {\"class\": "
            "\"CURPress\", \"arguments\": {\"num_sinks\": 4, \"leverage_type\": "
            "\"kv_product\", \"use_random_leverage\": false, "
            "\"use_local_approximation\": true, \"local_window_size\": 16}}, "
            "\"alpha_safeguard\": 0.3}}");
    is_json("composite(kvcompose)",
            "{\"class\": \"KVComposePress\", \"arguments\": {\"structured\": true, "
            "\"agg_task\": \"max\", \"agg_group\": \"mean\", \"agg_head\": \"mean\", "
            "\"add_v_norm\": false, \"add_mean_across_heads\": true, "
            "\"keep_token_lower_bound\": 0}}");
    is_json("random", "{\"class\": \"RandomPress\", \"arguments\": {\"seed\": null}}");
    is_json("lava", "null");
}

static void a_refused_name_says_why_and_what_is_near(void **state)
{
    (void)state;
    for (int i = 0; i < fb_refused_count(); i++) {
        const fb_refused *row = fb_refused_at(i);

        assert_null(fb_rule_find(row->name));
        assert_null(fb_preset_find(row->name));
        refuses(row->name, FB_UNSUPPORTED, row->why);
        if (row->nearest[0] != '\0') fb_bound_rule_free(parsed(row->nearest));
    }
    refuses("adakv(qfilter)", FB_UNSUPPORTED,
            "\n    adakv(qfilter)\n          ^~~~~~~");
    refuses("qfliter", FB_USAGE, "did you mean 'qfilter'?");
}

static void random_calls_are_refused_or_round_trip(void **state)
{
    static const char *const parts[] = {
        "kvpress:", "SnapKVPress", "AdaKVPress", "(",     ")", ",", "=",    "press",
        "8",        "window_size", "'",          "alpha", " ", ":", "True", "adakv"};
    uint64_t seed = 11;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char text[192] = "kvpress:";
        fb_bound_rule *rule;

        for (int j = 0; j < 9; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(text, parts[(seed >> 33) % (sizeof parts / sizeof parts[0])]);
        }
        if (fb_rule_parse(&rule, text) != FB_OK) {
            assert_true(strlen(fb_error_message()) > 10);
            continue;
        }
        is_the_same(text, fb_bound_rule_text(rule));
        fb_bound_rule_free(rule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_press_is_the_expression_that_keeps_what_it_keeps),
        cmocka_unit_test(an_expression_is_written_as_its_press),
        cmocka_unit_test(every_row_stands_for_an_expression_or_says_why_not),
        cmocka_unit_test(what_cannot_be_mapped_is_refused_with_its_place),
        cmocka_unit_test(names_of_other_projects_stand_inside_of_ours),
        cmocka_unit_test(the_nearest_press_says_what_it_does_otherwise),
        cmocka_unit_test(renumbered_positions_are_a_press_of_their_own),
        cmocka_unit_test(all_arguments_of_a_press_are_json),
        cmocka_unit_test(a_refused_name_says_why_and_what_is_near),
        cmocka_unit_test(random_calls_are_refused_or_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
