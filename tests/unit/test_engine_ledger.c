/* test_engine_ledger.c - a cell pays what it would cost alone, whoever else is there.
 *
 * Whole ledgers are compared: every phase, scope and operator, calls, FLOPs and bytes,
 * to the last bit. The context is read in several blocks, the answer is longer than a
 * block of logits, and with its question so long that seven are forced in two batches.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"

enum { CONTEXT = 150, PROMPT = 60, ANSWER = 40, MOST = 12, KEPT = 31 };

/* Windows of three lengths, so that most rules are handed more rows than they read. */
static const char *const expressions[] = {
    "random",
    "snapkv:window=8",
    "h2o",
    "blend(snapkv:window=16, tova)",
    "knorm",
    "tova",
    "adakv(snapkv:window=16)",
    "oracle",
    "roco",
    "snapkv:window=40",
    "keydiff",
    "observed_attention",
    "blend(a2sf, snapkv:window=24)",
    "blend(expected_attention:future=32, a2sf)",
    "adakv(tova)",
    "squeeze(snapkv:window=8)",
    "kvzip:piece=60",
    "kvcompose",
    "flat(kvzip:piece=60)",
    "kvzip:plus=1",
};
enum { RULES = sizeof expressions / sizeof expressions[0], CELLS = 64 };

static fb_bound_rule *rules[RULES];
static fb_seeded_rule seeded[RULES];
static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static fb_ledger alone[RULES];
static rig the;

static void open_all(void)
{
    rig_open(&the, "builtin", NULL, &(fb_engine_options){.chunk = 64});
    for (int r = 0; r < RULES; r++) {
        assert_ok(fb_rule_parse(&rules[r], expressions[r]));
        seeded[r] = (fb_seeded_rule){rules[r], 1};
    }
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
}

static int close_all(void **state)
{
    (void)state;
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    rig_close(&the);
    return 0;
}

/* Reads for rules [first, first + n_rules) and answers for `n` cells, which are those
 * rules in turn: what each cell pays. */
static void pay(int first, int n_rules, int n, fb_ledger *out)
{
    const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
    const fb_answer_options options = {.generate = true, .max_tokens = MOST};
    const fb_protect protect = {FB_PROTECT_EXPERIMENT, 4, 16};
    fb_variant *variant[CELLS];
    fb_answer answer[CELLS];
    fb_reading *reading;

    assert_ok(
        fb_read(&reading, the.engine, context, CONTEXT, seeded + first, n_rules, 1));
    assert_ok(fb_foresee(reading, &question));
    for (int v = 0; v < n; v++)
        assert_ok(fb_evict(&variant[v], reading, v % n_rules, &protect, 0, KEPT));
    assert_ok(fb_answer_group(reading, variant, n, &question, &options, answer));
    for (int v = 0; v < n; v++) {
        out[v] = *fb_reading_ledger(reading, v % n_rules);
        fb_ledger_add(&out[v], fb_variant_ledger(variant[v]));
        fb_ledger_add(&out[v], &answer[v].ledger);
        fb_answer_clear(&answer[v]);
        fb_variant_free(variant[v]);
    }
    fb_reading_free(reading);
}

static void same_ledger(const char *rule, const fb_ledger *wanted, const fb_ledger *got)
{
    if (wanted->again_sums != got->again_sums || wanted->again_rows != got->again_rows)
        fail_msg("%s: computing attention again costs %.17g and %.17g FLOPs alone; in "
                 "company %.17g and %.17g",
                 rule, wanted->again_sums, wanted->again_rows, got->again_sums,
                 got->again_rows);
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int s = 0; s < FB_SCOPE_COUNT; s++)
            for (int op = 0; op < FB_OP_COUNT; op++) {
                const fb_count *a = &wanted->count[p][s][op],
                               *b = &got->count[p][s][op];

                if (memcmp(a, b, sizeof *a) == 0) continue;
                fail_msg("%s, %s %s %s: alone %lld calls, %.17g FLOPs, %.17g bytes; in "
                         "company %lld, %.17g, %.17g",
                         rule, fb_phase_name((fb_phase)p), fb_scope_name((fb_scope)s),
                         fb_op_name((enum fb_op)op), (long long)a->calls, a->flops,
                         a->bytes, (long long)b->calls, b->flops, b->bytes);
            }
}

static bool has_paid(const fb_ledger *ledger, fb_phase phase, fb_scope scope)
{
    return fb_ledger_total(ledger, phase, scope).calls > 0;
}

static int open_and_pay_alone(void **state)
{
    (void)state;
    open_all();
    for (int r = 0; r < RULES; r++) {
        pay(r, 1, 1, &alone[r]);
        assert_true(has_paid(&alone[r], FB_PHASE_context, FB_SCOPE_attention));
        assert_true(has_paid(&alone[r], FB_PHASE_evict, FB_SCOPE_select));
        assert_true(has_paid(&alone[r], FB_PHASE_answer, FB_SCOPE_measure));
        assert_true(has_paid(&alone[r], FB_PHASE_decode, FB_SCOPE_model));
    }
    return 0;
}

static void a_cell_pays_the_same_in_any_company(void **state)
{
    static const int sizes[] = {1, 2, 7, RULES};
    static fb_ledger ledger[RULES];

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int first = 0; first < RULES; first += sizes[i]) {
            const int n = first + sizes[i] < RULES ? sizes[i] : RULES - first;

            pay(first, n, n, ledger);
            for (int v = 0; v < n; v++)
                same_ledger(expressions[first + v], &alone[first + v], &ledger[v]);
        }
}

static void even_in_the_largest_group_of_a_run(void **state)
{
    static fb_ledger ledger[CELLS];

    (void)state;
    pay(0, RULES, CELLS, ledger);
    for (int v = 0; v < CELLS; v++)
        same_ledger(expressions[v % RULES], &alone[v % RULES], &ledger[v]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_pays_the_same_in_any_company),
        cmocka_unit_test(even_in_the_largest_group_of_a_run),
    };
    return cmocka_run_group_tests(tests, open_and_pay_alone, close_all);
}
