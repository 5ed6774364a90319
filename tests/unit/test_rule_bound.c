/* test_rule_bound.c - rules and trees of rules that are refused, and those that are not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"
#include "tests/support/test.h"

/* --- rules that do nothing ------------------------------------------------------- */

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)ops;
    (void)see;
    (void)params;
    return FB_NONE;
}

static fb_tensor wrap(fb_ops *ops, const fb_signals *see, const fb_tensor *inner,
                      const void *params)
{
    (void)ops;
    (void)see;
    (void)params;
    return inner[0];
}

static fb_tensor choose_by_budget(fb_ops *ops, const fb_select_input *in,
                                  const void *params)
{
    (void)ops;
    (void)params;
    return in->scores;
}

static fb_status share(fb_ops *ops, const fb_share_input *in, const void *params,
                       int64_t *k_out)
{
    (void)ops;
    (void)in;
    (void)params;
    (void)k_out;
    return FB_OK;
}

static fb_status spread(fb_ops *ops, const fb_spread_input *in, const void *params,
                        int64_t *k_out)
{
    (void)ops;
    (void)in;
    (void)params;
    (void)k_out;
    return FB_OK;
}

static const fb_rule plain = {FB_RULE_HEAD, .name = "plain", .score = score};
static const fb_rule wrapper = {FB_RULE_HEAD, .kind = FB_KIND_WRAPPER,
                                .name = "wrapper", .n_inner = 1, .wrap = wrap};
static const fb_rule sharer = {FB_RULE_HEAD, .kind = FB_KIND_ALLOCATION,
                               .name = "sharer", .n_inner = 1, .share = share};
static const fb_rule spreader = {FB_RULE_HEAD, .kind = FB_KIND_ALLOCATION,
                                 .name = "spreader", .n_inner = 1, .spread = spread};

static void refuses(const fb_rule *rule, fb_status status, const char *words)
{
    fb_bound_rule *bound;

    assert_fails(fb_rule_bind(&bound, rule), status, words);
    assert_null(bound);
}

static void refuses_around(const fb_rule *rule, const char *inner, const char *words)
{
    fb_bound_rule *bound;

    assert_fails(fb_rule_bind_around(&bound, rule, inner), FB_USAGE, words);
    assert_null(bound);
}

static void takes_around(const fb_rule *rule, const char *inner)
{
    fb_bound_rule *bound;

    assert_ok(fb_rule_bind_around(&bound, rule, inner));
    fb_bound_rule_free(bound);
}

/* --- one rule -------------------------------------------------------------------- */

static void a_rule_without_its_formula_is_refused(void **state)
{
    fb_rule rule = plain;

    (void)state;
    rule.score = NULL;
    refuses(&rule, FB_DEFECT, "rule 'plain' has no formula");
    rule = wrapper;
    rule.wrap = NULL;
    refuses(&rule, FB_DEFECT, "'wrapper' has no formula");
    rule = sharer;
    rule.share = NULL;
    refuses(&rule, FB_DEFECT, "'sharer' has no formula");
}

static void a_wrapper_that_only_chooses_needs_no_formula(void **state)
{
    fb_rule rule = wrapper;

    (void)state;
    rule.wrap = NULL;
    rule.select = choose_by_budget;
    takes_around(&rule, "knorm");
    rule.n_inner = 2;
    refuses(&rule, FB_DEFECT, "'wrapper' asks for 2 inner rules");
}

static void a_wrong_number_of_inner_rules_is_refused(void **state)
{
    fb_rule rule = plain;

    (void)state;
    rule.n_inner = 1;
    refuses(&rule, FB_DEFECT, "rule 'plain' asks for 1 inner rules");
    rule = wrapper;
    rule.n_inner = -1;
    refuses(&rule, FB_DEFECT, "asks for -1 inner rules");
    rule.n_inner = 5;
    refuses(&rule, FB_DEFECT, "asks for 5 inner rules");
    rule = sharer;
    rule.n_inner = 2;
    refuses(&rule, FB_DEFECT, "'sharer' asks for 2 inner rules");
    refuses(&wrapper, FB_USAGE, "'wrapper' needs 1 rule between its brackets; 0 given");
}

/* What `choices` must not say. */
static void evicts_nothing_and_scores_nothing(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static void pools_evenly(const void *params, fb_choices *choices)
{
    (void)params;
    choices->pool_average = 4;
}

static void pools_the_maximum_evenly(const void *params, fb_choices *choices)
{
    (void)params;
    choices->pool_max = 2;
}

static void has_no_window(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_WINDOW_ATTENTION;
}

static void has_no_queries(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_QUERIES;
}

static void learns_without_learn(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_QUERIES;
    choices->layer_rows = 1;
}

static void reads_past_and_future(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_FUTURE | FB_READS_ATTENTION_SUM;
}

static void reads_queries_and_future(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_FUTURE | FB_READS_QUERIES;
    choices->queries = 1;
}

static void has_no_replay(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_REPLAY;
}

static void replays(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_REPLAY;
    choices->replay = (fb_replay){.piece = 5, .first = "again"};
}

static void reads_the_residual(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_RESIDUAL;
}

static fb_status is_never_right(const void *params)
{
    (void)params;
    return fb_fail(FB_USAGE, "these two do not go together");
}

static void choices_that_make_no_sense_are_refused(void **state)
{
    fb_rule rule = plain;

    (void)state;
    rule.choose = pools_evenly;
    refuses(&rule, FB_USAGE, "an even kernel has no middle");
    rule.choose = pools_the_maximum_evenly;
    refuses(&rule, FB_USAGE, "an even kernel has no middle");
    rule.choose = has_no_window;
    refuses(&rule, FB_DEFECT, "reads window attention but sets no window");
    rule.choose = has_no_queries;
    refuses(&rule, FB_DEFECT, "reads queries but does not say how many");
    rule.choose = learns_without_learn;
    refuses(&rule, FB_DEFECT, "has a state of layers without `learn`");
    rule.choose = reads_past_and_future;
    refuses(&rule, FB_USAGE, "which is gone by then");
    rule.choose = reads_queries_and_future;
    refuses(&rule, FB_USAGE, "joins a rule that reads the future with one that reads");
    rule.choose = has_no_replay;
    refuses(&rule, FB_DEFECT, "reads the context again but does not say how");
    rule.choose = evicts_nothing_and_scores_nothing;
    rule.score = NULL;
    refuses(&rule, FB_DEFECT, "rule 'plain' has no score");
}

static void refuses_text(const char *expression, const char *why)
{
    fb_bound_rule *bound;

    assert_fails(fb_rule_parse(&bound, expression), FB_USAGE, why);
}

static void what_is_read_again_is_not_joined_with_what_is_gone(void **state)
{
    fb_bound_rule *bound;

    (void)state;
    refuses_text("blend(kvzip, snapkv)", "reads the context again with one that reads");
    refuses_text("squeeze(kvzip)", "reads the context again with one that reads");
    refuses_text("blend(expected_attention, kvcompose)", "which is gone by then");
    refuses_text("blend(oracle, kvzip)", "reads the future with one that reads the");
    refuses_text("blend(kvzip, kvcompose)", "read the context again in two ways");
    refuses_text("blend(kvzip, kvzip:piece=7)", "read the context again in two ways");
    assert_ok(fb_rule_parse(&bound, "flat(blend(kvzip, vatp(kvzip)))"));
    fb_bound_rule_free(bound);
}

static void what_is_read_at_once_does_not_stream(void **state)
{
    fb_rule rule = plain;
    fb_bound_rule *bound;

    (void)state;
    rule.runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING;
    assert_ok(fb_rule_bind(&bound, &rule));
    assert_true(fb_bound_rule_streams(bound));
    fb_bound_rule_free(bound);
    rule.choose = replays;
    assert_ok(fb_rule_bind(&bound, &rule));
    assert_false(fb_bound_rule_streams(bound));
    fb_bound_rule_free(bound);
    rule.choose = reads_the_residual;
    assert_ok(fb_rule_bind(&bound, &rule));
    assert_false(fb_bound_rule_streams(bound));
    fb_bound_rule_free(bound);
}

static void settings_that_do_not_go_together_are_refused_by_the_rule(void **state)
{
    fb_rule rule = plain;
    fb_bound_rule *bound;

    (void)state;
    rule.check = is_never_right;
    refuses(&rule, FB_USAGE, "rule 'plain': these two do not go together");
    assert_fails(fb_rule_parse(&bound, "entropy_chunk(knorm,size=4,spiky=4)"), FB_USAGE,
                 "rule 'entropy_chunk': spiky=4 cuts nothing from a chunk of size=4");
    assert_fails(fb_rule_parse(&bound, "lacache:span=4,overlap=4"), FB_USAGE,
                 "rule 'lacache': overlap=4 leaves nothing of span=4");
}

/* --- one around another ---------------------------------------------------------- */

static void only_an_allocation_over_layers_goes_around_one_within_a_layer(void **state)
{
    (void)state;
    takes_around(&spreader, "adakv(random)");
    takes_around(&spreader, "adakv(blend(random,recency))");
    refuses_around(&spreader, "flat(random)", "one of them can share the budget");
    refuses_around(&sharer, "flat(random)", "one of them can share the budget");
    refuses_around(&sharer, "adakv(random)", "one of them can share the budget");
    refuses_around(&wrapper, "adakv(random)",
                   "must be outermost; write 'adakv(wrapper(");
    refuses_around(&wrapper, "flat(random)", "must be outermost");
    refuses_around(&spreader, "flat(adakv(random))",
                   "one of them can share the budget");
}

static void a_control_goes_around_all_that_evicts_and_nothing_around_it(void **state)
{
    const fb_rule *control = fb_rule_find("control");

    (void)state;
    takes_around(control, "knorm");
    takes_around(control, "flat(random)");
    takes_around(control, "pyramid(adakv(chunk(random)))");
    refuses_around(control, "full", "cannot go around a rule that evicts nothing");
    refuses_around(control, "control(knorm)", "which draws by chance what stays");
    refuses_around(&sharer, "control(knorm)",
                   "'sharer' cannot go around 'control', which draws by chance");
}

static fb_tensor edit(fb_ops *ops, const fb_edit_input *in, const void *params)
{
    (void)ops;
    (void)params;
    return in->kept_values;
}

static void
an_edit_goes_around_all_but_a_control_which_alone_goes_around_it(void **state)
{
    const fb_rule editor = {FB_RULE_HEAD, .kind = FB_KIND_EDIT, .name = "editor",
                            .n_inner = 1, .edit = edit};
    fb_rule rule = editor;

    (void)state;
    takes_around(&editor, "knorm");
    takes_around(&editor, "pyramid(adakv(chunk(random)))");
    takes_around(fb_rule_find("control"), "merging(adakv(random))");
    refuses_around(&editor, "control(knorm)", "which draws by chance what stays");
    refuses_around(&editor, "merging(knorm)",
                   "only one of them can change what is kept");
    refuses_around(&sharer, "merging(knorm)",
                   "must be outermost; write 'merging(sharer(...))'");
    refuses_around(&wrapper, "merging(knorm)", "must be outermost");
    rule.edit = NULL;
    refuses(&rule, FB_DEFECT, "'editor' has no formula");
    rule = plain;
    rule.edit = edit;
    refuses(&rule, FB_DEFECT, "rule 'plain' sets `edit` and is of another kind");
}

static void a_choice_block_by_block_needs_what_is_there_after_the_text(void **state)
{
    const fb_rule *block = fb_rule_find("block");

    (void)state;
    takes_around(block, "keydiff");
    takes_around(block, "blend(vnorm,recency)");
    refuses_around(block, "leverage",
                   "'leverage' reads attention, queries or rotations");
    takes_around(fb_rule_find("control"), "block(knorm)");
    takes_around(fb_rule_find("merging"), "block(knorm)");
    refuses_around(block, "snapkv",
                   "'block' scores entries anew as it chooses, and 'snapkv' reads "
                   "attention, queries or rotations; those of the whole text are "
                   "gone by then");
    refuses_around(block, "oracle", "are gone by then");
    refuses_around(block, "chunk(knorm)", "'chunk' chooses entries by the budget");
    refuses_around(block, "adakv(random)", "must be outermost");
    refuses_around(&sharer, "block(knorm)",
                   "so nothing goes around it that scores or shares; 'sharer' does");
    refuses_around(&wrapper, "block(knorm)", "'block' chooses block by block");
}

static void choose_a_bit(const void *params, fb_choices *choices)
{
    (void)params;
    choices->keeps_all = true;
    choices->reference = FB_REFERENCE_QUANTISED;
    choices->bits = 1;
}

static void choose_blocks_of_less_than_nothing(const void *params, fb_choices *choices)
{
    (void)params;
    choices->block = -1;
}

static void rows_and_blocks_that_cannot_be_made_are_refused(void **state)
{
    fb_rule rule = plain;

    (void)state;
    rule.choose = choose_blocks_of_less_than_nothing;
    refuses(&rule, FB_DEFECT, "rule 'plain' chooses block = -1; 0 to 2147483647");
    rule.choose = choose_a_bit;
    rule.score = NULL;
    refuses(&rule, FB_DEFECT, "rule 'plain' is no row that an experiment can make");
    refuses_around(&wrapper, "reread", "cannot go around a rule that chooses nothing");
    refuses_around(&sharer, "drop_evidence", "that chooses nothing");
    refuses_around(fb_rule_find("control"), "quantised", "that chooses nothing");
}

static void one_that_shares_in_both_ways_goes_around_no_other(void **state)
{
    fb_rule both = sharer;

    (void)state;
    both.spread = spread;
    takes_around(&both, "knorm");
    refuses_around(&both, "adakv(random)", "one of them can share the budget");
}

static void nothing_but_a_share_goes_around_a_choice_by_the_budget(void **state)
{
    fb_rule chooser = wrapper;

    (void)state;
    chooser.select = choose_by_budget;
    takes_around(&chooser, "knorm");
    takes_around(&sharer, "chunk(knorm)");
    takes_around(&spreader, "chunk(knorm)");
    refuses_around(
        &wrapper, "chunk(knorm)",
        "'chunk' chooses entries by the budget, so nothing but a share of the "
        "budget goes around it; 'wrapper' does");
    refuses_around(&chooser, "span(knorm)", "'span' chooses entries by the budget");
}

static void nothing_goes_around_a_rule_that_evicts_nothing(void **state)
{
    (void)state;
    refuses_around(&wrapper, "full", "cannot go around a rule that evicts nothing");
    refuses_around(&spreader, "full", "cannot go around a rule that evicts nothing");
}

static void needs_of_an_allocation_and_of_its_rule_add_up(void **state)
{
    fb_bound_rule *rule;
    const fb_choices *choices;

    (void)state;
    assert_ok(fb_rule_parse(&rule, "cake_layers(adakv(snapkv:window=8),window=16)"));
    choices = fb_bound_rule_choices(rule);
    assert_int_equal(choices->window, 16);
    assert_int_equal(choices->unscored_last, 8);
    assert_int_equal(choices->min_tokens, 17);
    fb_bound_rule_free(rule);
    assert_ok(fb_rule_parse(&rule, "cake_layers(snapkv:window=64)"));
    assert_int_equal(fb_bound_rule_choices(rule)->window, 64);
    fb_bound_rule_free(rule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_without_its_formula_is_refused),
        cmocka_unit_test(a_wrapper_that_only_chooses_needs_no_formula),
        cmocka_unit_test(a_wrong_number_of_inner_rules_is_refused),
        cmocka_unit_test(choices_that_make_no_sense_are_refused),
        cmocka_unit_test(what_is_read_again_is_not_joined_with_what_is_gone),
        cmocka_unit_test(what_is_read_at_once_does_not_stream),
        cmocka_unit_test(settings_that_do_not_go_together_are_refused_by_the_rule),
        cmocka_unit_test(only_an_allocation_over_layers_goes_around_one_within_a_layer),
        cmocka_unit_test(a_control_goes_around_all_that_evicts_and_nothing_around_it),
        cmocka_unit_test(
            an_edit_goes_around_all_but_a_control_which_alone_goes_around_it),
        cmocka_unit_test(a_choice_block_by_block_needs_what_is_there_after_the_text),
        cmocka_unit_test(rows_and_blocks_that_cannot_be_made_are_refused),
        cmocka_unit_test(one_that_shares_in_both_ways_goes_around_no_other),
        cmocka_unit_test(nothing_but_a_share_goes_around_a_choice_by_the_budget),
        cmocka_unit_test(nothing_goes_around_a_rule_that_evicts_nothing),
        cmocka_unit_test(needs_of_an_allocation_and_of_its_rule_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
