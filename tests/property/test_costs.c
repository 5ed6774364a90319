/* test_costs.c - docs/COSTS.md is what the ledger charges: its formulas within 1 %, its
 * figures to the number, a row for every rule. One that reads the context again has figures
 * alone.
 *
 * Formulas are tried on the built-in model, and on made-up layers of other proportions, of
 * which no kernel makes the signals: what these cost is counted here.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/analysis.h"
#include "rule/bound.h"
#include "tests/support/costs.h"
#include "tests/support/every_rule.h"
#include "tests/support/formula.h"
#include "tests/support/near.h"
#include "tests/support/rig.h"
#include "tests/support/small_experiment.h"

#define NEAR 0.01

static const int64_t lengths[COST_FIGURES] = {512, 1024};
static cost_table table;
static int32_t ids[1024];
static rig the;

static int open_all(void **state)
{
    (void)state;
    costs_open(&table);
    rig_open(&the, "builtin", NULL, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    costs_close(&table);
    rig_close(&the);
    return 0;
}

/* --- formulas --- */

/* What the letters stand for. */
typedef struct scene {
    int64_t heads, kv_heads, head_dim, width, layers, block, n;
    const fb_bound_rule *rule;
} scene;

static double value_of(const void *self, const char *name)
{
    const scene *s = self;
    const fb_choices *c = fb_bound_rule_choices(s->rule);
    const struct {
        const char *name;
        int64_t value;
    } letters[] = {{"H", s->heads}, {"G", s->kv_heads},     {"d", s->head_dim},
                   {"D", s->width}, {"L", s->layers},       {"b", s->block},
                   {"n", s->n},     {"u", c->unscored_last}};

    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (strcmp(letters[i].name, name) == 0) return (double)letters[i].value;
    for (const fb_param *p = s->rule->rule->params; p != NULL && p->name != NULL; p++)
        if (strcmp(p->name, name) == 0 && p->type == FB_PARAM_INT) {
            const char *at = (const char *)s->rule->params + p->offset;
            int64_t value;

            memcpy(&value, at, sizeof value);
            return (double)value;
        }
    fail_msg("docs/COSTS.md: '%s' is no letter and no parameter of '%s'", name,
             s->rule->rule->name);
    return 0;
}

/* Of a rule and of all inside of it. */
static double expected(const fb_bound_rule *rule, scene s)
{
    const cost_row *row = costs_find(&table, rule->rule->name);
    double out;

    assert_non_null(row);
    s.rule = rule;
    out = formula_of(row->formula, value_of, &s);
    for (int i = 0; row->is_beside && i < rule->n_inner; i++)
        out += expected(rule->inner[i], s);
    return out;
}

/* --- the ledger of the built-in model --- */

static double scored(const fb_ledger *ledger)
{
    double flops = 0;

    for (int p = 0; p < FB_PHASE_COUNT; p++)
        flops += fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_signal).flops +
                 fb_ledger_total(ledger, (fb_phase)p, FB_SCOPE_score).flops;
    return flops;
}

/* What a pass of its own costs is measured, and in no formula. */
static bool reads_again(const fb_bound_rule *rule)
{
    return fb_bound_rule_replay(rule) != NULL;
}

static void check_row(const cost_row *row, int figure, double got, double fused)
{
    const fb_model_facts *f = fb_model_get_facts(the.model);
    const scene s = {f->heads,  f->kv_heads,      f->head_dim,     f->width,
                     f->layers, FB_CONTEXT_BLOCK, lengths[figure], row->bound};
    const bool has_formula = !reads_again(row->bound);
    const double wanted = has_formula ? expected(row->bound, s) : got;

    if (fabs(got - wanted) > NEAR * wanted)
        fail_msg("docs/COSTS.md: %s at n = %d: %.1f by its formula, %.1f charged",
                 row->rule, (int)lengths[figure], wanted, got);
    if (fabs(got - row->figure[figure]) > 0.5)
        fail_msg("docs/COSTS.md: %s at n = %d: %.0f are written there, %.0f charged",
                 row->rule, (int)lengths[figure], row->figure[figure], got);
    if (fabs(fused - row->fused[figure]) > 0.5)
        fail_msg("docs/COSTS.md: %s at n = %d, fused: %.0f are written there, %.0f "
                 "charged",
                 row->rule, (int)lengths[figure], row->fused[figure], fused);
}

static void formulas_and_figures_are_what_the_ledger_charges(void **state)
{
    const double layers = (double)fb_model_get_facts(the.model)->layers;
    fb_seeded_rule rules[COST_ROWS];

    (void)state;
    for (int r = 0; r < table.n; r++)
        rules[r] = (fb_seeded_rule){table.row[r].bound, 1};
    rig_text(ids, 1024, 5);
    for (int i = 0; i < COST_FIGURES; i++) {
        fb_reading *reading;

        assert_ok(fb_read(&reading, the.engine, ids, lengths[i], rules, table.n, 1));
        for (int r = 0; r < table.n; r++) {
            const fb_ledger *ledger = fb_reading_ledger(reading, r);
            const double unit = layers * (double)lengths[i];

            check_row(&table.row[r], i, scored(ledger) / unit,
                      fb_ledger_fused(ledger) / unit);
        }
        fb_reading_free(reading);
    }
}

/* --- what people are shown --- */

/* FLOPs of a cell of this rule: of the plain pass, and of choosing, which no formula has. */
static void count_cell(fb_store *store, const fb_results *r, int rule, double *plain,
                       double *chosen)
{
    fb_store_count *counts;
    int c = 0, n;

    while (r->cells[c].rule != rule)
        c++;
    *plain = *chosen = 0;
    assert_ok(fb_store_read_counts(store, r->cells[c].id, &counts, &n));
    for (int i = 0; i < n; i++) {
        const char *scope = counts[i].scope;

        if (strcmp(scope, "select") == 0) *chosen += counts[i].flops;
        if (strcmp(counts[i].phase, "context") == 0 &&
            (strcmp(scope, "model") == 0 || strcmp(scope, "attention") == 0))
            *plain += counts[i].flops;
    }
    fb_free(counts);
}

static void check_shares(const small *s, fb_store *store, const fb_results *r,
                         const fb_table *shown)
{
    const fb_model_facts *f = fb_model_get_facts(s->model);

    for (int i = 0; i < shown->n_rows; i++) {
        const fb_row *row = &shown->rows[i];
        const int64_t n = r->samples[0].context_tokens;
        const fb_bound_rule *rule = s->spec.rules[row->rule].rule;
        const scene at = {f->heads,  f->kv_heads,      f->head_dim, f->width,
                          f->layers, FB_CONTEXT_BLOCK, n,           rule};
        double plain, chosen, wanted;

        count_cell(store, r, row->rule, &plain, &chosen);
        wanted = (expected(rule, at) * (double)(f->layers * n) + chosen) / plain;
        if (fabs(row->extra_flops - wanted) > NEAR * wanted)
            fail_msg("%s: %.5f %% is shown, %.5f %% by docs/COSTS.md",
                     r->rules[row->rule].label, 100 * row->extra_flops, 100 * wanted);
    }
}

static void shares_that_are_shown_are_those_of_the_formulas(void **state)
{
    static const char text[] =
        "name: small\nmodel: builtin\nbudgets: [25%]\n"
        "tasks: [{recall: {tokens: 512, pairs: 23, samples: 1}}]\n"
        "rules: [full, random, knorm, keydiff, snapkv, lava, h2o, a2sf, roco, "
        "keyformer, "
        "morphkv, rkv, vase, obcache, noncausal, leverage, cap, expected_attention, "
        "adakv(cake), critical(finch), caote(tova)]\n";
    char folder[TEST_PATH];
    const fb_results *r = NULL;
    fb_analysis *analysis;
    fb_store *store = NULL;
    fb_run_result result;
    small s;

    (void)state;
    test_folder(folder);
    small_open(&s, text);
    assert_ok(fb_run(s.plan, s.ops,
                     &(fb_run_options){.path = test_path(folder, "a.db")}, &result));
    assert_ok(fb_store_open_read(&store, test_path(folder, "a.db")));
    assert_ok(fb_store_read(store, NULL, &r));
    assert_ok(fb_analyse(&analysis, store, r, NULL));
    assert_int_equal(analysis->tables[0].n_rows, 21);
    check_shares(&s, store, r, &analysis->tables[0]);
    fb_analysis_free(analysis);
    fb_results_free(r);
    fb_store_close(store);
    small_close(&s);
    test_folder_remove(folder);
}

/* --- other proportions --- */

static fb_status tables(const void *self, fb_ops *ops, const int64_t *position,
                        int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    const scene *s = self;

    (void)position;
    *cosine = fb_full(ops, 2, (int64_t[]){n, s->head_dim / 2}, 1);
    *sine = fb_full(ops, 2, (int64_t[]){n, s->head_dim / 2}, 0);
    return fb_ops_status(ops);
}

/* Equal numbers everywhere: formulas do not look at them. */
static fb_signals signals_of(const scene *s, const struct fb_rotary *rotary)
{
    const fb_chance chance = {1, 1, FB_DRAWER_RULE};
    const int64_t h = s->heads, g = s->kv_heads, d = s->head_dim, n = s->n;
    const int64_t w = fb_bound_rule_window(s->rule, n);
    const int64_t q = fb_bound_rule_queries(s->rule, n);
    fb_ops *ops = the.ops;
    fb_signals see = {.n_layers = s->layers,
                      .heads = h,
                      .kv_heads = g,
                      .head_dim = d,
                      .n = n,
                      .m = n,
                      .next = n,
                      .scale = 0.25,
                      .rotary = rotary};

    see.keys = fb_full(ops, 3, (int64_t[]){g, n, d}, 1);
    see.values = fb_full(ops, 3, (int64_t[]){g, n, d}, 1);
    see.window_attention = fb_full(ops, 3, (int64_t[]){h, w, n}, 1 / (double)n);
    see.attention_sum = fb_full(ops, 2, (int64_t[]){h, n}, 1);
    see.future_attention = fb_full(ops, 2, (int64_t[]){h, n}, 1);
    see.queries = fb_full(ops, 3, (int64_t[]){h, q, d}, 1);
    see.output_weight = fb_full(ops, 3, (int64_t[]){h, s->width, d}, 1);
    see.position = fb_signal_position(ops, g, n, NULL);
    see.random = fb_signal_random(ops, chance, 0, g, n, NULL);
    see.residual = fb_full(ops, 1, (int64_t[]){n}, 1);
    return see;
}

/* Those of one block, the whole text, and what the rule makes of them. */
static void show_block(const scene *s, fb_signals *see)
{
    const int64_t h = s->heads, g = s->kv_heads, n = s->n;
    const int64_t state[] = {g, fb_bound_rule_choices(s->rule)->state_rows, n};
    const fb_chance chance = {1, 1, FB_DRAWER_QUERY};

    if (!fb_bound_rule_reads_block(s->rule)) return;
    see->block_attention = fb_full(the.ops, 3, (int64_t[]){h, n, n}, 1 / (double)n);
    see->block_random = fb_signal_block_random(the.ops, chance, 0, h, g, n, n, NULL);
    see->state = fb_full(the.ops, 3, state, 0);
    see->state = fb_bound_rule_update(s->rule, the.ops, see, FB_AFTER_BLOCK);
}

/* A row costs 1 for each entry it sees, a sum 2, a query's number 1; a cosine of two rows of
 * the residual stream 8 a channel, and in the last layer what attention adds to it. */
static double signal_cost(const scene *s)
{
    const double n = (double)s->n, h = (double)s->heads, d = (double)s->head_dim;
    const double w = fb_bound_rule_reads_block(s->rule)
                         ? n
                         : (double)fb_bound_rule_window(s->rule, s->n);
    double out = h * w * (n - (w - 1) / 2);

    if (fb_bound_rule_reads_sum(s->rule)) out += h * n * (n + 1);
    if (fb_bound_rule_queries(s->rule, s->n) > 0) out += n * h * d;
    if (fb_bound_rule_reads_residual(s->rule))
        out += n * (double)s->width * (8 + 2 * h * d / (double)s->layers);
    return out;
}

static double charged(const scene *s)
{
    const struct fb_rotary rotary = {s, tables};
    static fb_ledger ledger;
    fb_ledger *payer = &ledger;
    fb_signals see;
    fb_tensor score;

    memset(&ledger, 0, sizeof ledger);
    fb_scope_open(the.ops);
    see = signals_of(s, &rotary);
    fb_ops_charge(the.ops, &payer, 1);
    fb_ops_move(the.ops, (fb_place){FB_PHASE_evict, FB_SCOPE_score});
    show_block(s, &see);
    score = fb_bound_rule_score_once(s->rule, the.ops, &see);
    (void)fb_bound_rule_measure(s->rule, the.ops, &see, score);
    fb_ops_charge(the.ops, NULL, 0);
    assert_ok(fb_ops_status(the.ops));
    fb_scope_close(the.ops);
    return scored(&ledger) + signal_cost(s);
}

static void formulas_hold_for_other_numbers_of_heads_and_sizes(void **state)
{
    scene scenes[] = {{12, 3, 16, 80, 3, 768, 768, NULL},
                      {4, 4, 48, 200, 5, 512, 512, NULL}};

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < table.n; r++) {
            scene *s = &scenes[i];
            double got, wanted;

            if (!fb_bound_rule_scores(table.row[r].bound) ||
                reads_again(table.row[r].bound) ||
                !fb_bound_rule_is_deployable(table.row[r].bound)) /* it is told */
                continue;
            s->rule = table.row[r].bound;
            wanted = expected(s->rule, *s);
            got = charged(s) / (double)s->n;
            if (fabs(got - wanted) > NEAR * wanted)
                fail_msg("docs/COSTS.md: %s of %d heads: %.1f by its formula, %.1f "
                         "charged",
                         table.row[r].rule, (int)s->heads, wanted, got);
        }
}

/* --- the table is whole --- */

/* What it costs with its default parameters, for the row that is to be written. */
static double measured(const fb_bound_rule *rule, int64_t n)
{
    const fb_seeded_rule alone = {rule, 1};
    fb_reading *reading;
    double flops;

    rig_text(ids, n, 5);
    assert_ok(fb_read(&reading, the.engine, ids, n, &alone, 1, 1));
    flops = scored(fb_reading_ledger(reading, 0)) / (double)n /
            (double)fb_model_get_facts(the.model)->layers;
    fb_reading_free(reading);
    return flops;
}

static void every_rule_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = bind_plain(fb_rule_at(i));

        /* rows of an experiment score nothing */
        if (fb_bound_rule_choices(rule)->reference == FB_REFERENCE_NONE &&
            costs_find(&table, fb_bound_rule_get(rule)->name) == NULL)
            fail_msg("docs/COSTS.md has no row for '%s': %.0f FLOPs a token and layer "
                     "are charged at n = %d, %.0f at %d",
                     fb_bound_rule_get(rule)->name, measured(rule, lengths[0]),
                     (int)lengths[0], measured(rule, lengths[1]), (int)lengths[1]);
        fb_bound_rule_free(rule);
    }
}

static void an_entry_carries_the_bytes_of_the_table(void **state)
{
    (void)state;
    for (int r = 0; r < table.n; r++)
        assert_near((double)fb_bound_rule_choices(table.row[r].bound)->state_rows *
                        sizeof(float),
                    table.row[r].bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_a_row),
        cmocka_unit_test(formulas_and_figures_are_what_the_ledger_charges),
        cmocka_unit_test(shares_that_are_shown_are_those_of_the_formulas),
        cmocka_unit_test(formulas_hold_for_other_numbers_of_heads_and_sizes),
        cmocka_unit_test(an_entry_carries_the_bytes_of_the_table),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
