/* examples.h - an experiment that was measured with kvpress, and its cells done again.
 *
 * 16 documents of about 512 tokens, two budgets, eleven rules, three probes:
 *
 *   needle_agnostic   read, evict, then question and answer
 *   needle_aware      read with the question, evict both together (the question stays),
 *                     then the rest
 *   continuation      read, evict, then the next 33 tokens of the text
 *
 * `examples_open` reads the stored lines, `examples_run` fills `ours` with the same
 * cells, and `edge` with how near each kept set was to another one. The oracle's rows
 * are those of prompt and answer. The three `random` of the lines came from another
 * generator: ours are means over seeds, to be compared by means.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_REAL_EXAMPLES_H
#define TESTS_REAL_EXAMPLES_H

#include "tests/support/reference.h"

enum {
    LAYERS = 30,
    KV_HEADS = 3,
    N_DOCUMENTS = 16,
    N_PROBES = 3,
    N_KEEPS = 2,
    N_EQUAL = 8, /* rules that must give the stored values */
    N_RULES = 11,
    MOST_SEEDS = 8,
    MOST_CELLS = N_KEEPS * (N_EQUAL + (N_RULES - N_EQUAL) * MOST_SEEDS)
};

static const char *const probe_names[] = {"needle_agnostic", "needle_aware",
                                          "continuation"};
static const int keeps[] = {50, 20}; /* per cent; `full` stands at the first */

/* Their names, ours; what a random rule protects. */
static const struct {
    const char *name, *rule;
    fb_protect protect;
} example_rules[] = {
    {"full", "full", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"streaming", "streaming_llm:sink=4", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"snapkv", "snapkv", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"snapkv16", "snapkv:window=16", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"knorm", "knorm", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"keydiff", "keydiff", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"h2o", "observed_attention", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"oracle", "oracle", {FB_PROTECT_PUBLISHED, 0, 0}},
    {"random", "random", {FB_PROTECT_NONE, 0, 0}},
    {"random_sinks", "random", {FB_PROTECT_EXPERIMENT, 4, 0}},
    {"random_protected", "random", {FB_PROTECT_EXPERIMENT, 4, 16}},
};

/* Of one cell; `right` is the share of tokens right. */
typedef struct score {
    double nll, kl, em, right;
} score;

typedef score scores[N_DOCUMENTS][N_PROBES][N_RULES][N_KEEPS];

/* How near a kept set was to another: the smallest distance between the lowest score
 * that stayed and the highest that went, over the latter, and where; how many entries
 * are within 1e-4 of it, in all layers and heads. */
typedef struct edge {
    double distance;
    int slot, n_near;
} edge;

typedef struct examples {
    rig rig;
    fb_bound_rule *rule[N_RULES];
    json_t *prompts[N_DOCUMENTS];
    int n_documents, n_seeds; /* that are run */
    scores stored, ours;
    edge edge[N_DOCUMENTS][N_PROBES][N_EQUAL][N_KEEPS];
} examples;

static inline int example_keeps(int rule)
{
    return rule == 0 ? 1 : N_KEEPS;
}

/* --- the stored lines --------------------------------------------------------------- */

/* The next line of a file of JSON lines; NULL at its end. */
static inline json_t *next_line(FILE *file)
{
    static char text[1 << 16];
    json_t *line;

    if (fgets(text, sizeof text, file) == NULL) return NULL;
    line = json_loads(text, 0, NULL);
    assert_non_null(line);
    return line;
}

static inline int find_probe(const char *name)
{
    for (int p = 0; p < N_PROBES; p++)
        if (strcmp(probe_names[p], name) == 0) return p;
    fail_msg("unknown probe '%s'", name);
    return -1;
}

static inline int find_rule(const char *name)
{
    for (int r = 0; r < N_RULES; r++)
        if (strcmp(example_rules[r].name, name) == 0) return r;
    fail_msg("unknown rule '%s'", name);
    return -1;
}

/* The place of a kept share: 1, 0.5 or 0.2. */
static inline int find_keep(double kept)
{
    for (int k = 0; k < N_KEEPS; k++)
        if (fabs(100 * kept - keeps[k]) < 0.5) return k;
    assert_near(kept, 1, 0);
    return 0;
}

static inline void read_stored(examples *e)
{
    FILE *file = fopen(REFERENCE "example_results.jsonl", "r");
    int n = 0;

    assert_non_null(file);
    for (json_t *line; (line = next_line(file)) != NULL; n++) {
        const int d = (int)golden_number(line, "doc");
        const int p = find_probe(json_string_value(golden_at(line, "probe")));
        const int r = find_rule(json_string_value(golden_at(line, "rule")));

        assert_in_range(d, 0, N_DOCUMENTS - 1);
        e->stored[d][p][r][find_keep(golden_number(line, "kept"))] =
            (score){golden_number(line, "nll"), golden_number(line, "kl"),
                    golden_number(line, "em"), golden_number(line, "token_accuracy")};
        json_decref(line);
    }
    assert_int_equal(n, N_DOCUMENTS * N_PROBES * (1 + (N_RULES - 1) * N_KEEPS));
    fclose(file);
}

static inline void read_prompts(examples *e)
{
    FILE *file = fopen(REFERENCE "example_prompts.jsonl", "r");

    assert_non_null(file);
    for (int d = 0; d < N_DOCUMENTS; d++) {
        e->prompts[d] = next_line(file);
        assert_non_null(e->prompts[d]);
        assert_int_equal(golden_number(e->prompts[d], "doc"), d);
    }
    fclose(file);
}

/* The first documents, and seeds 1 and on of the random rules. */
static inline void examples_open(examples *e, int n_documents, int n_seeds)
{
    *e = (examples){.n_documents = n_documents, .n_seeds = n_seeds};
    assert_true(n_documents <= N_DOCUMENTS && n_seeds <= MOST_SEEDS);
    reference_open(&e->rig);
    for (int r = 0; r < N_RULES; r++)
        assert_ok(fb_rule_parse(&e->rule[r], example_rules[r].rule));
    read_stored(e);
    read_prompts(e);
}

static inline void examples_close(examples *e)
{
    for (int d = 0; d < N_DOCUMENTS; d++)
        json_decref(e->prompts[d]);
    for (int r = 0; r < N_RULES; r++)
        fb_bound_rule_free(e->rule[r]);
    rig_close(&e->rig);
}

/* --- how near a kept set was to another ------------------------------------------------ */

/* Of the entries with scores [m] that no question protects. */
static inline void note_slot(edge *out, const fb_kept *kept, int slot,
                             const float *scores_of, int64_t m)
{
    bool stays[1024] = {false};
    double low = HUGE_VAL, high = -HUGE_VAL;

    for (int64_t i = 0; i < kept->count[slot]; i++) {
        assert_in_range(kept->position[slot][i], 0, 1023);
        stays[kept->position[slot][i]] = true;
    }
    for (int64_t j = 0; j < m; j++)
        if (!stays[j]) high = fmax(high, (double)scores_of[j]);
    for (int64_t j = 0; j < m; j++) {
        const double s = (double)scores_of[j];

        if (stays[j] && s >= high) low = fmin(low, s);
        out->n_near += fabs(s - high) <= 1e-4 * fabs(high);
    }
    out->n_near--; /* the highest that went is near itself */
    if ((low - high) / fabs(high) >= out->distance) return;
    out->distance = (low - high) / fabs(high);
    out->slot = slot;
}

static inline edge find_edge(const examples *e, const fb_reading *reading, int rule,
                             const fb_variant *variant, int64_t protect_last)
{
    const fb_kept *kept = &fb_variant_selection(variant)->kept;
    edge out = {.distance = HUGE_VAL};

    for (int l = 0; l < LAYERS; l++) {
        const fb_tensor score_of = fb_reading_score(reading, rule, l);
        const int64_t m = fb_size(e->rig.ops, score_of, 1);
        const int64_t n_free = fb_reading_tokens(reading) - protect_last;
        float *all = reference_floats(e->rig.ops, score_of);

        assert_int_equal(fb_size(e->rig.ops, score_of, 0), KV_HEADS);
        for (int g = 0; g < KV_HEADS; g++)
            note_slot(&out, kept, l * KV_HEADS + g, all + g * m,
                      m < n_free ? m : n_free);
        fb_free(all);
    }
    return out;
}

/* --- the cells of a question ----------------------------------------------------------- */

typedef struct cell {
    int rule, keep, seed;
} cell;

static inline int list_cells(cell *out, int n_seeds)
{
    int n = 0;

    for (int r = 0; r < N_RULES; r++)
        for (int k = 0; k < example_keeps(r); k++)
            for (int s = 0; s < (r < N_EQUAL ? 1 : n_seeds); s++)
                out[n++] = (cell){r, k, s};
    return n;
}

/* The rule's number in a reading: the random rules share one draw per seed. */
static inline int read_as(const cell *c)
{
    return c->rule < N_EQUAL ? c->rule : N_EQUAL + c->seed;
}

static inline fb_variant *evict_cell(fb_reading *reading, const cell *c,
                                     int64_t protect_last)
{
    const fb_cache_shape shape = {LAYERS, KV_HEADS, 64, FB_F32};
    const fb_budget budget = {
        .kind = FB_BUDGET_RATIO, .numerator = keeps[c->keep], .denominator = 100};
    const int64_t k = fb_budget_entries(&budget, &shape, fb_reading_tokens(reading),
                                        FB_ROUND_KVPRESS);
    fb_variant *out;

    if (c->rule == 0)
        assert_ok(fb_keep_all(&out, reading));
    else
        assert_ok(fb_evict(&out, reading, read_as(c), &example_rules[c->rule].protect,
                           protect_last, k));
    return out;
}

static inline score score_of_answer(const fb_answer *answer, const int32_t *reference)
{
    const double n = (double)answer->n;
    score out = {0};

    for (int64_t i = 0; i < answer->n; i++) {
        out.nll += answer->nll[i] / n;
        out.kl += answer->kl[i] / n;
        out.right += answer->top1[i] == reference[i];
    }
    out.em = out.right == n;
    out.right /= n;
    return out;
}

static inline void add_score(score *sum, const score *one, double weight)
{
    sum->nll += weight * one->nll;
    sum->kl += weight * one->kl;
    sum->em += weight * one->em;
    sum->right += weight * one->right;
}

/* All rules, budgets and seeds of one question, as one batch. */
static inline void run_cells(examples *e, int d, int p, fb_reading *reading,
                             const fb_question *question, int64_t protect_last)
{
    const fb_answer_options options = {.generate = false};
    cell cells[MOST_CELLS];
    const int n = list_cells(cells, e->n_seeds);
    fb_variant *variant[MOST_CELLS];
    static fb_answer answer[MOST_CELLS]; /* large: each has a ledger */

    assert_ok(fb_foresee(reading, question));
    for (int i = 0; i < n; i++)
        variant[i] = evict_cell(reading, &cells[i], protect_last);
    assert_ok(fb_answer_group(reading, variant, n, question, &options, answer));
    for (int i = 0; i < n; i++) {
        const cell *c = &cells[i];
        const bool is_equal = c->rule < N_EQUAL;
        const score one = score_of_answer(&answer[i], question->answer);

        add_score(&e->ours[d][p][c->rule][c->keep], &one,
                  is_equal ? 1 : 1 / (double)e->n_seeds);
        if (is_equal && c->rule != 0)
            e->edge[d][p][c->rule][c->keep] =
                find_edge(e, reading, c->rule, variant[i], protect_last);
        fb_answer_clear(&answer[i]);
        fb_variant_free(variant[i]);
    }
}

/* --- a document ---------------------------------------------------------------------- */

static inline fb_reading *read_ids(const examples *e, const int32_t *ids, int64_t n,
                                   int document)
{
    fb_seeded_rule rules[N_EQUAL + MOST_SEEDS];
    fb_reading *out;

    for (int r = 0; r < N_EQUAL; r++)
        rules[r] = (fb_seeded_rule){.rule = e->rule[r]};
    for (int s = 0; s < e->n_seeds; s++)
        rules[N_EQUAL + s] = (fb_seeded_rule){e->rule[N_EQUAL], (uint64_t)s + 1};
    assert_ok(fb_read(&out, e->rig.engine, ids, n, rules, N_EQUAL + e->n_seeds,
                      (uint64_t)document));
    return out;
}

static inline void run_document(examples *e, int d)
{
    json_t *document = e->prompts[d];
    id_list context = reference_ids(golden_at(document, "context_ids"));
    id_list asked = reference_ids(golden_at(document, "question_ids"));
    id_list prompt = reference_ids(golden_at(document, "prompt_ids"));
    id_list answer = reference_ids(golden_at(document, "answer_ids"));
    id_list next = reference_ids(golden_at(document, "continuation_ids"));
    const fb_question needle = {prompt.ids, answer.ids, prompt.n, answer.n};
    const fb_question rest = {prompt.ids + asked.n, answer.ids, prompt.n - asked.n,
                              answer.n};
    const fb_question goes_on = {next.ids, next.ids + 1, 1, next.n - 1};
    fb_reading *reading = read_ids(e, context.ids, context.n, d);
    int32_t *both =
        fb_alloc(FB_ACCOUNT_other, (size_t)(context.n + asked.n) * sizeof *both);

    assert_non_null(both);
    run_cells(e, d, 0, reading, &needle, 0);
    run_cells(e, d, 2, reading, &goes_on, 0);
    fb_reading_free(reading);
    memcpy(both, context.ids, (size_t)context.n * sizeof *both);
    memcpy(both + context.n, asked.ids, (size_t)asked.n * sizeof *both);
    reading = read_ids(e, both, context.n + asked.n, d);
    run_cells(e, d, 1, reading, &rest, asked.n);
    fb_reading_free(reading);
    fb_free(both);
    fb_free(context.ids);
    fb_free(asked.ids);
    fb_free(prompt.ids);
    fb_free(answer.ids);
    fb_free(next.ids);
}

static inline void examples_run(examples *e)
{
    for (int d = 0; d < e->n_documents; d++)
        run_document(e, d);
}

#endif
