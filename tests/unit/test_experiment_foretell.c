/* test_experiment_foretell.c - what a cell will take, without its numbers, against what it
 * took with them: every rule on the built-in model and on a random one whose every place matters,
 * read at once and as a stream.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/foretell.h"
#include "tests/support/every_rule.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"

enum { CONTEXT = 300, PROMPT = 20, ANSWER = 10, MOST = 6, KEPT = 120, CHUNK = 32 };

static int32_t context[CONTEXT], prompt[PROMPT], answer_ids[ANSWER];
static size_t base[FB_ACCOUNT_COUNT];
static every_rule all;
static rig the;
static const char *model_path;
static char folder[TEST_PATH];

static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 4, 16};

static void open_rig(fb_dtype cache)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        base[a] = fb_memory_now((fb_account)a);
    rig_open(&the, model_path, NULL, &(fb_engine_options){.chunk = 64, .cache = cache});
    fb_memory_reset_peaks();
}

static fb_foretell cell_of(const fb_bound_rule *rule, fb_dtype cache)
{
    return (fb_foretell){.model = the.model,
                         .rule = rule,
                         .n_tokens = CONTEXT,
                         .k = KEPT,
                         .protect = protect,
                         .engine = {.chunk = 64, .cache = cache},
                         .n_prompt = PROMPT,
                         .n_answer = ANSWER,
                         .max_tokens = MOST,
                         .threads = 2};
}

/* --- the same cell with numbers --- */

static void end_phase(fb_foretold *out, fb_phase phase)
{
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        out->peak[phase][a] = fb_memory_peak((fb_account)a) - base[a];
    fb_memory_reset_peaks();
}

static fb_status watch(void *self, const fb_growth *growth)
{
    if (growth->n == 1) end_phase(self, FB_PHASE_answer);
    return FB_OK;
}

static fb_variant *evict(fb_reading *reading, const fb_question *question,
                         const fb_foretell *cell)
{
    const fb_seeded_rule rule = {cell->rule, 1};
    fb_pace pace = cell->pace;
    fb_variant *variant;

    pace.k = cell->k;
    if (pace.pays_state)
        pace.k = fb_stream_entries(fb_model_get_facts(the.model), cell->engine.cache,
                                   cell->rule, cell->k);
    if (cell->streams) {
        assert_ok(fb_stream_in(&variant, reading, &rule, context, &protect, &pace));
        return variant;
    }
    if (fb_bound_rule_choices(cell->rule)->reads & FB_READS_DOCUMENT_FUTURE)
        assert_ok(fb_foresee_document(reading, question, 1));
    if (fb_bound_rule_choices(cell->rule)->reads & FB_READS_FUTURE)
        assert_ok(fb_foresee(reading, question));
    if (fb_bound_rule_choices(cell->rule)->keeps_all)
        assert_ok(fb_keep_all(&variant, reading));
    else
        assert_ok(fb_evict(&variant, reading, 0, &protect, 0, cell->k));
    return variant;
}

static void run(const fb_foretell *cell, fb_foretold *out)
{
    const fb_question question = {prompt, answer_ids, PROMPT, ANSWER};
    const fb_answer_options options = {
        .generate = true, .max_tokens = MOST, .watch = watch, .self = out};
    const fb_seeded_rule rule = {cell->rule, 1};
    fb_reading *reading;
    fb_variant *variant;
    fb_answer answer;

    memset(out, 0, sizeof *out);
    assert_ok(
        fb_read(&reading, the.engine, context, CONTEXT, &rule, !cell->streams, 1));
    end_phase(out, FB_PHASE_context);
    variant = evict(reading, &question, cell);
    end_phase(out, FB_PHASE_evict);
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    end_phase(out, FB_PHASE_decode);
    assert_int_equal(answer.n_ids, MOST);
    if (!cell->streams) out->ledger = *fb_reading_ledger(reading, 0);
    fb_ledger_add(&out->ledger, fb_variant_ledger(variant));
    fb_ledger_add(&out->ledger, &answer.ledger);
    out->kept_bytes = fb_variant_bytes(variant);
    out->tail_bytes = answer.tail_bytes;
    fb_answer_clear(&answer);
    fb_variant_free(variant);
    fb_reading_free(reading);
}

/* --- comparing --- */

/* The bytes of a choice: how much each head gets of a shared budget is the scores' to say. */
static bool is_of_scores(fb_scope scope, enum fb_op op)
{
    return scope == FB_SCOPE_select && (op == FB_OP_topk || op == FB_OP_to_host);
}

static int ledgers_differ(const char *rule, const fb_ledger *wanted,
                          const fb_ledger *got)
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

/* All accounts but `other`, which has what the model's file is read into. */
static int peaks_differ(const char *rule, const fb_foretold *wanted,
                        const fb_foretold *got)
{
    int n = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int a = 0; a < FB_ACCOUNT_other; a++) {
            const double ran = (double)wanted->peak[p][a],
                         told = (double)got->peak[p][a];

            if (told >= 0.98 * ran && told <= 1.02 * ran) continue;
            n++;
            print_message("%s, %s of %s: %.0f bytes, foretold %.0f\n", rule,
                          fb_account_name((fb_account)a), fb_phase_name((fb_phase)p),
                          ran, told);
        }
    return n;
}

static int differs(const fb_foretell *cell)
{
    static fb_foretold ran, told;
    const char *rule = fb_bound_rule_text(cell->rule);

    run(cell, &ran);
    if (fb_foretell_cell(&told, cell) != FB_OK) {
        print_message("%s: %s\n", rule, fb_error_message());
        return 1;
    }
    if (ran.kept_bytes != told.kept_bytes || ran.tail_bytes != told.tail_bytes)
        print_message("%s: %zu and %zu bytes, foretold %zu and %zu\n", rule,
                      ran.kept_bytes, ran.tail_bytes, told.kept_bytes, told.tail_bytes);
    return (ran.kept_bytes != told.kept_bytes || ran.tail_bytes != told.tail_bytes) +
           ledgers_differ(rule, &ran.ledger, &told.ledger) +
           peaks_differ(rule, &ran, &told);
}

static int prefill_differs(fb_dtype cache)
{
    int n = 0;

    for (int r = 0; r < all.n; r++) {
        fb_foretell cell;

        open_rig(cache);
        cell = cell_of(all.rule[r], cache);
        n += differs(&cell);
        rig_close(&the);
    }
    return n;
}

static int stream_differs(const fb_pace *pace)
{
    int n = 0, streamed = 0;

    for (int r = 0; r < all.n; r++) {
        fb_foretell cell;

        if (!fb_bound_rule_streams(all.rule[r]) ||
            fb_bound_rule_choices(all.rule[r])->keeps_all)
            continue;
        open_rig(FB_F16);
        cell = cell_of(all.rule[r], FB_F16);
        cell.streams = true;
        cell.pace = *pace;
        if (fb_stream_entries(fb_model_get_facts(the.model), FB_F16, cell.rule, KEPT) >
            CHUNK) {
            n += differs(&cell);
            streamed++;
        }
        rig_close(&the);
    }
    assert_true(streamed > 8);
    return n;
}

/* --- the tests --- */

static void a_cell_of_every_rule_is_foretold(void **state)
{
    model_path = "builtin";
    assert_int_equal(prefill_differs(FB_F32), 0);
    model_path = test_path(*state, "random.gguf");
    assert_int_equal(prefill_differs(FB_F16), 0);
}

static void so_is_a_stream(void **state)
{
    model_path = "builtin";
    assert_int_equal(stream_differs(&(fb_pace){.chunk = CHUNK, .pays_state = true}), 0);
    model_path = test_path(*state, "random.gguf");
    assert_int_equal(stream_differs(&(fb_pace){.chunk = CHUNK, .interval = 4}), 0);
}

static int open_all(void **state)
{
    test_folder(folder);
    every_rule_open(&all);
    rig_text(context, CONTEXT, 11);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer_ids, ANSWER, 6);
    answer_ids[0] =
        3; /* nobody says so: the free answer is decoded from its first word */
    random_llama(test_path(folder, "random.gguf"), RANDOM_NO_END);
    *state = folder;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    every_rule_close(&all);
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_of_every_rule_is_foretold),
        cmocka_unit_test(so_is_a_stream),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
