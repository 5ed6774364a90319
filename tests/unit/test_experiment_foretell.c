/* test_experiment_foretell.c - what a cell will take, without its numbers, against what it
 * took with them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/foretell.h"
#include "tests/support/every_rule.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"

enum { CONTEXT = 300, PROMPT = 20, ANSWER = 10, MOST = 6, KEPT = 90 };

static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static rig the;
static every_rule all;

static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 4, 16};

static fb_foretell cell_of(const fb_bound_rule *rule)
{
    return (fb_foretell){.model = the.model,
                         .rule = rule,
                         .n_tokens = CONTEXT,
                         .k = KEPT,
                         .protect = protect,
                         .engine = {.chunk = 64},
                         .n_prompt = PROMPT,
                         .n_answer = ANSWER,
                         .threads = 2};
}

/* The same cell with numbers. */
static void run(const fb_seeded_rule *rule, fb_foretold *out)
{
    const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
    const fb_answer_options options = {.generate = false};
    fb_reading *reading;
    fb_variant *variant;
    fb_answer answer;

    assert_ok(fb_read(&reading, the.engine, context, CONTEXT, rule, 1, 1));
    assert_ok(fb_foresee_document(reading, &question, 1));
    assert_ok(fb_foresee(reading, &question));
    if (fb_bound_rule_choices(rule->rule)->keeps_all)
        assert_ok(fb_keep_all(&variant, reading));
    else
        assert_ok(fb_evict(&variant, reading, 0, &protect, 0, KEPT));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    out->ledger = *fb_reading_ledger(reading, 0);
    fb_ledger_add(&out->ledger, fb_variant_ledger(variant));
    fb_ledger_add(&out->ledger, &answer.ledger);
    out->kept_bytes = fb_variant_bytes(variant);
    out->tail_bytes = answer.tail_bytes;
    fb_answer_clear(&answer);
    fb_variant_free(variant);
    fb_reading_free(reading);
}

/* The bytes of a choice: how much each head gets of a shared budget is the scores' to say. */
static bool is_of_scores(fb_scope scope, enum fb_op op)
{
    return scope == FB_SCOPE_select && (op == FB_OP_topk || op == FB_OP_to_host);
}

static int differences(const char *rule, const fb_ledger *wanted, const fb_ledger *got)
{
    int n = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++) {
                const fb_count *a = &wanted->count[p][s][op],
                               *b = &got->count[p][s][op];

                if (memcmp(a, b, sizeof *a) == 0) continue;
                if (is_of_scores((fb_scope)s, (enum fb_op)op) && a->calls == b->calls &&
                    a->flops == b->flops)
                    continue;
                n++;
                print_message("%s, %s %s %s: run %lld calls, %.17g FLOPs, %.17g bytes; "
                              "foretold %lld, %.17g, %.17g\n",
                              rule, fb_phase_name((fb_phase)p),
                              fb_scope_name((fb_scope)s), fb_op_name((enum fb_op)op),
                              (long long)a->calls, a->flops, a->bytes,
                              (long long)b->calls, b->flops, b->bytes);
            }
    return n;
}

static void the_ledger_of_every_rule_is_that_of_its_run(void **state)
{
    static fb_foretold ran, told;
    int n = 0;

    (void)state;
    for (int r = 0; r < all.n; r++) {
        const fb_foretell cell = cell_of(all.rule[r]);

        run(&all.seeded[r], &ran);
        if (fb_foretell_cell(&told, &cell) != FB_OK) {
            print_message("%s: %s\n", fb_bound_rule_text(all.rule[r]), fb_error_message());
            n++;
            continue;
        }
        n += differences(fb_bound_rule_text(all.rule[r]), &ran.ledger, &told.ledger);
    }
    assert_int_equal(n, 0);
}

static int open_all(void **state)
{
    (void)state;
    rig_open(&the, "builtin", NULL, &(fb_engine_options){.chunk = 64});
    every_rule_open(&all);
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    every_rule_close(&all);
    rig_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ledger_of_every_rule_is_that_of_its_run),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
