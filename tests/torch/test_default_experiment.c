/* test_default_experiment.c - the default experiment on the default model, on both
 * backends, entry by entry.
 *
 * experiments/default.yaml as `make demo` runs it: its documents, questions, budgets and
 * protection and rules (test_two_backends has every rule, on small models). And one document of
 * 1,500 tokens. Both backends read it; then, of every rule at every budget,
 *
 *   scores   agree to SCORES of the largest of the layer
 *   entries  that only one backend keeps lie within MARGIN of each other, by the native
 *            scores, and nearer than the scores' own differences explain (exchanged.h)
 *   answers  each from its own kept set: the reference costs the same nats; the free ones
 *            are equal in ANSWERS of the cells
 *
 * One document of the twelve and shorter answers; all of it with FLEXBUDGET_TEST_LONG:
 * `make test-torch-real` has that, `make test-torch` the one document, where the model is
 * there.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/plan.h"
#include "tests/support/device.h"
#include "tests/support/exchanged.h"

#define MODEL "build/models/SmolLM2-135M-Instruct.Q4_1.gguf"

/* Scores were seen to be 7e-6 of the largest of their layer apart: f32 sums of some hundred
 * terms, in other orders, through thirty layers. What changed places was 1.3e-7 apart at
 * most; by the scores' differences it might be 3e-5. */
#define LOGITS  1e-4 /* of the largest of a row */
#define SCORES  5e-5 /* of the largest of a layer */
#define MARGIN  1e-5 /* of the same */
#define SAME    1e-3 /* nats, of a token behind the same entries */
#define MEAN    0.02 /* nats, of a cell: what matters to a task */
#define ANSWERS 0.99

enum {
    MOST_RULES = 32,
    MOST_BUDGETS = 4,
    MOST_CELLS = MOST_RULES * MOST_BUDGETS,
    ROWS = 16 /* of which logits are compared, the last */
};

/* The default experiment, or other tasks in its place. */
struct experiment {
    fb_spec spec;
    fb_plan *plan;
};

/* What was found of a rule. */
struct tally {
    exchanged sets;
    double same_nats, nats; /* of a token behind the same entries; of a cell's mean */
    int64_t cells, answers; /* free answers that are equal */
};

/* A document on one backend. */
struct side {
    rig rig;
    fb_reading *reading;
    fb_variant *variant[MOST_CELLS];
    fb_answer answer[MOST_CELLS];
};

static struct side native, torch;
static struct experiment standard; /* with the rules */
static fb_seeded_rule rules[MOST_RULES];
static const char *labels[MOST_RULES];
static int n_rules;
static bool has_model;

/* --- opening --- */

static const char *model_path(void)
{
    const char *path = getenv("FLEXBUDGET_TEST_MODEL");

    return path == NULL || path[0] == '\0' ? MODEL : path;
}

/* `tasks`: as --tasks has them; NULL: those of the file. */
static void open_experiment(struct experiment *e, const char *tasks)
{
    assert_ok(fb_spec_init(&e->spec));
    assert_ok(fb_spec_read(&e->spec, "experiments/default.yaml"));
    if (tasks != NULL)
        assert_ok(fb_spec_assign(&e->spec, FB_SET_tasks, FB_FROM_COMMAND, tasks));
    assert_ok(fb_spec_check(&e->spec, NULL, NULL));
    assert_ok(fb_spec_bind_model(&e->spec, fb_model_get_facts(native.rig.model)));
    assert_ok(fb_plan_new(&e->plan, &e->spec, native.rig.model, NULL, NULL));
}

static void close_experiment(struct experiment *e)
{
    fb_plan_free(e->plan);
    fb_spec_clear(&e->spec);
}

static void add_rule(const fb_bound_rule *rule, const char *label)
{
    for (int i = 0; i < n_rules; i++)
        if (strcmp(fb_bound_rule_text(rules[i].rule), fb_bound_rule_text(rule)) == 0)
            return;
    assert_true(n_rules < MOST_RULES);
    labels[n_rules] = label;
    rules[n_rules++] = (fb_seeded_rule){rule, 1};
}

static int open_all(void **state)
{
    const fb_ops_options device = {.device = test_device(), .threads = 2};

    (void)state;
    has_model = access(model_path(), R_OK) == 0;
    if (!has_model) return 0;
    rig_open(&native.rig, model_path(), NULL, NULL);
    rig_open(&torch.rig, model_path(), &device, NULL);
    open_experiment(&standard, NULL);
    for (int i = 0; i < standard.spec.n_rules; i++)
        add_rule(standard.spec.rules[i].rule, standard.spec.rules[i].label);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    if (!has_model) return 0;
    close_experiment(&standard);
    rig_close(&torch.rig);
    rig_close(&native.rig);
    return 0;
}

/* --- logits --- */

/* Context, question and answer as one text. */
static int32_t *join(const fb_plan_document *d, const fb_plan_sample *s, int64_t *n_out)
{
    const fb_ids parts[] = {d->context, s->prompt, s->answer};
    int64_t n = 0;
    int32_t *ids =
        malloc((size_t)(d->context.n + s->prompt.n + s->answer.n) * sizeof *ids);

    assert_non_null(ids);
    for (int p = 0; p < 3; p++) {
        memcpy(ids + n, parts[p].ids, (size_t)parts[p].n * sizeof *ids);
        n += parts[p].n;
    }
    *n_out = n;
    return ids;
}

/* Largest difference of a row over its largest logit. */
static double row_apart(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)a[i]));
    }
    return most / size;
}

static double compare_logits(const fb_plan_document *d, const fb_plan_sample *s)
{
    const int64_t width = fb_model_get_facts(native.rig.model)->vocabulary;
    float *a = malloc((size_t)(ROWS * width) * sizeof *a);
    float *b = malloc((size_t)(ROWS * width) * sizeof *b);
    int64_t n, row[ROWS];
    int32_t *ids = join(d, s, &n);
    double most = 0;

    assert_non_null(a);
    assert_non_null(b);
    for (int64_t i = 0; i < ROWS; i++)
        row[i] = n - ROWS + i;
    assert_ok(fb_logits(native.rig.engine, ids, n, row, ROWS, a));
    assert_ok(fb_logits(torch.rig.engine, ids, n, row, ROWS, b));
    for (int64_t i = 0; i < ROWS; i++)
        most = fmax(most, row_apart(a + i * width, b + i * width, width));
    free(a);
    free(b);
    free(ids);
    return most;
}

/* --- one question on one backend --- */

/* Cell rule * n_budgets + budget; a rule that keeps everything has the first alone. */
static bool is_cell(int rule, int budget)
{
    return budget == 0 || !fb_bound_rule_choices(rules[rule].rule)->keeps_all;
}

static fb_variant *evict(struct side *side, const fb_plan *plan, int rule, int budget)
{
    const int64_t n = fb_reading_tokens(side->reading);
    const int64_t k = fb_budget_entries(&plan->spec->budgets[budget], &plan->shape, n,
                                        FB_ROUND_EXACT);
    fb_variant *out;

    if (fb_bound_rule_choices(rules[rule].rule)->keeps_all)
        assert_ok(fb_keep_all(&out, side->reading));
    else
        assert_ok(fb_evict(&out, side->reading, rule, &plan->spec->protect, 0, k));
    return out;
}

static void ask(struct side *side, const fb_plan *plan, const fb_plan_sample *sample)
{
    const fb_question question = {sample->prompt.ids, sample->answer.ids,
                                  sample->prompt.n, sample->answer.n};
    const fb_answer_options options = {.generate = true,
                                       .max_tokens = long_or_short(16, 6)};
    int n = 0;

    assert_ok(fb_foresee(side->reading, &question));
    for (int rule = 0; rule < n_rules; rule++)
        for (int budget = 0; budget < plan->spec->n_budgets; budget++)
            if (is_cell(rule, budget))
                side->variant[n++] = evict(side, plan, rule, budget);
    assert_ok(fb_answer_group(side->reading, side->variant, n, &question, &options,
                              side->answer));
}

/* --- both --- */

static bool is_same_answer(const fb_answer *a, const fb_answer *b)
{
    return a->n_ids == b->n_ids && a->stop == b->stop &&
           memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids) == 0;
}

static void compare_answers(struct tally *t, const fb_answer *a, const fb_answer *b,
                            bool is_same_set)
{
    double most = 0, sum = 0;

    for (int64_t i = 0; i < a->n; i++) {
        most = fmax(most, fabs(a->nll[i] - b->nll[i]));
        sum += b->nll[i] - a->nll[i];
    }
    t->nats = fmax(t->nats, fabs(sum) / (double)a->n);
    if (is_same_set) t->same_nats = fmax(t->same_nats, most);
    t->cells++;
    t->answers += is_same_answer(a, b);
    assert_string_equal(a->trace_answer, b->trace_answer);
}

static void compare_cell(struct tally *t, int rule, int cell)
{
    const fb_selection *a = fb_variant_selection(native.variant[cell]);
    const fb_selection *b = fb_variant_selection(torch.variant[cell]);
    const int64_t before = t->sets.equal;

    if (a != NULL)
        exchanged_add(&t->sets,
                      &(exchanged_side){&native.rig, native.reading, &a->kept},
                      &(exchanged_side){&torch.rig, torch.reading, &b->kept}, rule);
    compare_answers(t, &native.answer[cell], &torch.answer[cell],
                    a == NULL || t->sets.equal > before);
    fb_answer_clear(&native.answer[cell]);
    fb_answer_clear(&torch.answer[cell]);
    fb_variant_free(native.variant[cell]);
    fb_variant_free(torch.variant[cell]);
}

static void compare_sample(struct tally *tally, const fb_plan *plan,
                           const fb_plan_sample *sample)
{
    int n = 0;

    ask(&native, plan, sample);
    ask(&torch, plan, sample);
    for (int rule = 0; rule < n_rules; rule++)
        for (int budget = 0; budget < plan->spec->n_budgets; budget++)
            if (is_cell(rule, budget)) compare_cell(&tally[rule], rule, n++);
}

static void read_document(struct side *side, const fb_plan_document *d)
{
    assert_ok(fb_read(&side->reading, side->rig.engine, d->context.ids, d->context.n,
                      rules, n_rules, d->stream));
}

/* Largest difference of the logits, of its first question. */
static double compare_document(struct tally *tally, const fb_plan *plan, int document)
{
    const fb_plan_document *d = &plan->documents[document];
    double logits = 0;

    read_document(&native, d);
    read_document(&torch, d);
    assert_string_equal(fb_reading_trace(native.reading),
                        fb_reading_trace(torch.reading));
    for (int i = 0; i < d->n_samples; i++) {
        const fb_plan_sample *sample = &plan->samples[d->first_sample + i];

        if (i == 0) logits = compare_logits(d, sample);
        compare_sample(tally, plan, sample);
    }
    fb_reading_free(native.reading);
    fb_reading_free(torch.reading);
    return logits;
}

/* --- what was found --- */

static void print_tally(const char *label, const struct tally *t)
{
    print_message(
        "%-20.20s %5d %5d of %3d %9d %5d  %8.1e %8.1e  %8.1e %8.1e  %4d of %d\n", label,
        (int)t->cells, (int)t->sets.equal, (int)t->sets.sets, (int)t->sets.kept,
        (int)t->sets.moved, t->sets.margin, t->sets.apart, t->same_nats, t->nats,
        (int)t->answers, (int)t->cells);
}

static void add_tally(struct tally *sum, const struct tally *t)
{
    sum->sets.sets += t->sets.sets;
    sum->sets.equal += t->sets.equal;
    sum->sets.kept += t->sets.kept;
    sum->sets.moved += t->sets.moved;
    sum->sets.apart = fmax(sum->sets.apart, t->sets.apart);
    sum->sets.margin = fmax(sum->sets.margin, t->sets.margin);
    sum->same_nats = fmax(sum->same_nats, t->same_nats);
    sum->nats = fmax(sum->nats, t->nats);
    sum->cells += t->cells;
    sum->answers += t->answers;
}

static void compare_experiment(const fb_plan *plan, int n_documents)
{
    struct tally tally[MOST_RULES] = {0}, sum = {0};
    double logits = 0;

    assert_true(plan->spec->n_budgets <= MOST_BUDGETS);
    for (int rule = 0; rule < n_rules; rule++)
        tally[rule].sets.sink = plan->spec->protect.sink;
    for (int d = 0; d < n_documents; d++)
        logits = fmax(logits, compare_document(tally, plan, d));
    print_message("%d of %d documents of %d tokens, logits agree to %.1e\n"
                  "%-20s cells  equal sets   entries other    margin   scores      "
                  "nats     mean  equal answers\n",
                  n_documents, plan->n_documents, (int)plan->documents[0].context.n,
                  logits, "rule");
    for (int rule = 0; rule < n_rules; rule++) {
        print_tally(labels[rule], &tally[rule]);
        add_tally(&sum, &tally[rule]);
    }
    print_tally("all", &sum);
    assert_true(logits <= LOGITS);
    assert_true(sum.sets.apart <= SCORES);
    assert_true(sum.sets.margin <= MARGIN);
    assert_true(sum.same_nats <= SAME);
    assert_true(sum.nats <= MEAN);
    assert_true((double)sum.answers >= ANSWERS * (double)sum.cells);
}

static void the_default_experiment_is_the_same(void **state)
{
    (void)state;
    if (!has_model)
        skip_because("the default model is not there; make demo fetches it");
    compare_experiment(standard.plan,
                       (int)long_or_short(standard.plan->n_documents, 1));
}

static void a_context_of_1500_tokens_is_the_same(void **state)
{
    struct experiment e;

    (void)state;
    if (!has_model)
        skip_because("the default model is not there; make demo fetches it");
    open_experiment(&e, "needle:length=1500,samples=1,"
                        "continuation:length=1500,samples=1,scored=32");
    compare_experiment(e.plan, e.plan->n_documents);
    close_experiment(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_experiment_is_the_same),
        cmocka_unit_test(a_context_of_1500_tokens_is_the_same),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
