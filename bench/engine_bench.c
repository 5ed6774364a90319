/* engine_bench.c - times of the engine, as JSON; bench/bench.py runs and compares them.
 *
 *     engine_bench MODEL THREADS sweep PROMPTS.json KEPT.json [RULES BUDGETS] [arenas]
 *     engine_bench MODEL THREADS cell PROMPTS.json KEPT.json RULE BUDGET
 *     engine_bench MODEL THREADS memory TOKENS RULE BUDGET
 *     engine_bench MODEL THREADS context TOKENS [signals]
 *     engine_bench MODEL THREADS limit TOKENS
 *     engine_bench MODEL THREADS decode VARIANTS TOKENS STEPS [resident]
 *
 * FLEXBUDGET_DEVICE names another device than the native cpu, say torch:cpu; then one
 * sequence is decoded without a shape of its own, as `ask` does.
 *
 * sweep    8 rules x 4 budgets (or the first few of them) on every prompt of the file: one
 *          reading, one batch; where it pays through masks, as a run does it, with one
 *          variant from its arena too. `arenas`: each in an arena of its own
 * cell     one rule at one budget, the same way
 * memory   bytes of keys and values that the allocator counts: the full cache, and what is left of
 *          it once the rule has evicted and the full cache is given back
 * context  one context pass, plain or with the signals of all rules; up to 8,192 tokens the
 *          second of two
 * limit    the matrix products of that pass, of weights and of attention, and no more
 * decode   seconds per step of a batch of variants of one context
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"
#include "engine/decoder.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char *expressions[] = {
    "random", "streaming_llm", "knorm",         "keydiff",
    "tova",   "snapkv",        "adakv(snapkv)", "observed_attention",
};
static const char *budgets[] = {"75%", "50%", "25%", "10%"};

enum { RULES = 8, BUDGETS = 4, CELLS = RULES * BUDGETS, ANSWER = 32 };

static fb_ops *ops;
static fb_model *model;
static fb_engine *engine;
static fb_bound_rule *rules[RULES];
static int n_rules = RULES, n_budgets = BUDGETS; /* of a sweep */
static bool only_arenas;

static void stop_on(fb_status status)
{
    if (status == FB_OK) return;
    (void)fprintf(stderr, "engine_bench: %s\n", fb_error_message());
    exit(1);
}

static double seconds_since(int64_t start_ns)
{
    return (double)(fb_time_ns() - start_ns) * 1e-9;
}

/* Ids of running text would do; any ids take the same time. */
static int32_t *make_ids(int64_t n)
{
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    uint64_t seed = 1;

    if (ids == NULL) exit(1);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] =
            (int32_t)((seed >> 33) % (uint64_t)fb_model_get_facts(model)->vocabulary);
    }
    return ids;
}

static void read_with_rules(fb_reading **out, const int32_t *ids, int64_t n, int count)
{
    fb_seeded_rule seeded[RULES];

    for (int r = 0; r < count; r++)
        seeded[r] = (fb_seeded_rule){rules[r], 1};
    stop_on(fb_read(out, engine, ids, n, seeded, count, 1));
}

/* --- sweep ------------------------------------------------------------------------------ */

static json_t *list_of_ids(const int32_t *ids, int64_t n)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static int32_t *read_ids(const json_t *list, int64_t *n_out)
{
    int32_t *ids = malloc(json_array_size(list) * sizeof *ids + 1);

    if (ids == NULL) exit(1);
    *n_out = (int64_t)json_array_size(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static json_t *kept_positions(const fb_variant *variant)
{
    const fb_kept *kept = &fb_variant_selection(variant)->kept;
    json_t *slots = json_array();

    for (int64_t s = 0; s < kept->n_slots; s++)
        json_array_append_new(slots, list_of_ids(kept->position[s], kept->count[s]));
    return slots;
}

static fb_variant *evict(fb_reading *reading, int cell, bool masked)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    const fb_cache_shape shape = {f->global_layers, f->kv_heads, f->head_dim, FB_F32};
    const fb_protect published = {FB_PROTECT_PUBLISHED, 0, 0};
    const int64_t n = fb_reading_tokens(reading);
    fb_variant *variant;
    fb_budget budget;
    int64_t k;

    stop_on(fb_budget_parse(&budget, budgets[cell % n_budgets]));
    k = fb_budget_entries(&budget, &shape, n, FB_ROUND_KVPRESS);
    masked = masked && !only_arenas && fb_mask_pays(engine, n, k);
    stop_on((masked ? fb_evict_masked : fb_evict)(&variant, reading, cell / n_budgets,
                                                  &published, 0, k));
    return variant;
}

/* One prompt: every rule at every budget. Times to `timing`, answers and kept sets to `out`. */
static void sweep_prompt(const json_t *prompt, json_t *timing, json_t *out)
{
    static const int32_t none[] = {0}; /* a reference that no answer begins with */
    const fb_answer_options options = {.generate = true, .max_tokens = ANSWER};
    fb_variant *variant[CELLS + 1]; /* the first one twice */
    static fb_answer answer[CELLS + 1];
    int64_t n, n_question, start = fb_time_ns();
    int32_t *context = read_ids(json_object_get(prompt, "context"), &n);
    int32_t *question = read_ids(json_object_get(prompt, "question"), &n_question);
    const fb_question q = {question, none, n_question, 1};
    const int n_cells = n_rules * n_budgets, has_twin = n_cells > 1 && !only_arenas;
    fb_reading *reading;

    read_with_rules(&reading, context, n, n_rules);
    json_array_append_new(timing, json_real(seconds_since(start)));
    start = fb_time_ns();
    for (int c = 0; c < n_cells; c++)
        variant[c] = evict(reading, c, n_cells > 1);
    if (has_twin) variant[n_cells] = evict(reading, 0, false);
    json_array_append_new(timing, json_real(seconds_since(start)));
    start = fb_time_ns();
    stop_on(
        fb_answer_group(reading, variant, n_cells + has_twin, &q, &options, answer));
    if (has_twin) {
        if (!fb_answer_is_same(&answer[0], &answer[n_cells]))
            stop_on(fb_fail(FB_DEFECT, "a mask answers otherwise"));
        fb_answer_clear(&answer[n_cells]);
        fb_variant_free(variant[n_cells]);
    }
    json_array_append_new(timing, json_real(seconds_since(start)));
    for (int c = 0; c < n_cells; c++) {
        json_array_append_new(
            out,
            json_pack("{s:s, s:s, s:o, s:o}", "rule", expressions[c / n_budgets],
                      "budget", budgets[c % n_budgets], "answer",
                      list_of_ids(answer[c].ids, answer[c].n_ids), "kept",
                      c % n_budgets == 1 ? kept_positions(variant[c]) : json_null()));
        fb_answer_clear(&answer[c]);
        fb_variant_free(variant[c]);
    }
    fb_reading_free(reading);
    free(context);
    free(question);
}

static json_t *sweep(const char *prompts_path, const char *kept_path)
{
    json_error_t error;
    json_t *prompts = json_load_file(prompts_path, 0, &error), *kept = json_array();
    json_t *timing = json_array();
    const int64_t start = fb_time_ns();
    double wall;

    if (prompts == NULL) {
        (void)fprintf(stderr, "engine_bench: %s: %s\n", prompts_path, error.text);
        exit(1);
    }
    for (size_t p = 0; p < json_array_size(prompts); p++) {
        json_t *cells = json_array();

        sweep_prompt(json_array_get(prompts, p), timing, cells);
        json_array_append_new(kept, cells);
    }
    wall = seconds_since(start);
    if (json_dump_file(kept, kept_path, JSON_COMPACT) != 0) exit(1);
    json_decref(kept);
    json_decref(prompts);
    return json_pack("{s:f, s:o}", "seconds", wall, "read_evict_answer", timing);
}

/* --- single figures ------------------------------------------------------------------------ */

static json_t *context_pass(int64_t n, int count)
{
    int32_t *ids = make_ids(n);
    double seconds = 0;

    for (int pass = n > 8192; pass < 2; pass++) {
        const int64_t start = fb_time_ns();
        fb_reading *reading;

        read_with_rules(&reading, ids, n, count);
        seconds = seconds_since(start);
        fb_reading_free(reading);
    }
    free(ids);
    return json_pack("{s:f}", "seconds", seconds);
}

static json_t *memory(int64_t n)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    int32_t *ids = make_ids(n);
    fb_reading *reading;
    fb_variant *variant;
    size_t full, resident;

    read_with_rules(&reading, ids, n, 1);
    full = fb_memory_now(FB_ACCOUNT_kv) - before;
    variant = evict(reading, 0, false);
    fb_reading_let_go(reading);
    resident = fb_memory_now(FB_ACCOUNT_kv) - before;
    fb_variant_free(variant);
    fb_reading_free(reading);
    free(ids);
    return json_pack("{s:I, s:I}", "full_bytes", (json_int_t)full, "resident_bytes",
                     (json_int_t)resident);
}

/* --- the limit: the products of a pass and nothing else */

enum { ROWS = 256 }; /* of a block, as the pass has them */

static fb_status fill(void *columns, int64_t begin, int64_t end, float *out)
{
    for (int64_t i = 0; i < (end - begin) * *(const int64_t *)columns; i++)
        out[i] = 0.01f;
    return FB_OK;
}

static fb_tensor filled_weight(int64_t rows, int64_t columns)
{
    return fb_weight(ops, &(fb_weight_source){.rows = rows,
                                              .columns = columns,
                                              .unpack = fill,
                                              .context = &columns});
}

/* Lives to the end of the process. */
static fb_tensor filled_rows(int64_t n, int64_t columns)
{
    fb_tensor rows;

    fb_scope_open(ops);
    rows = fb_persist(ops, FB_ACCOUNT_scratch,
                      fb_full(ops, 2, (int64_t[]){n, columns}, 0.01));
    fb_scope_close(ops);
    return rows;
}

/* What a block multiplies: rows of the model, of heads, of the ffn; queries; P. */
typedef struct operands {
    fb_tensor x, heads, inner, q;
    fb_tensor keys, values, p;
} operands;

static operands make_operands(int64_t block)
{
    const fb_model_facts *f = fb_model_get_facts(model);
    const int64_t seen = block * ROWS + ROWS / 2; /* by a row, in the mean */
    const int64_t rows = ROWS * f->heads / f->kv_heads;

    return (operands){.x = filled_rows(ROWS, f->width),
                      .heads = filled_rows(ROWS, f->heads * f->head_dim),
                      .inner = filled_rows(ROWS, f->ffn),
                      .q = filled_rows(rows, f->head_dim),
                      .keys = filled_weight(seen, f->head_dim),
                      .values = filled_weight(f->head_dim, seen),
                      .p = filled_rows(rows, seen)};
}

static void multiply(fb_tensor x, fb_tensor w)
{
    fb_scope_open(ops);
    (void)fb_linear(ops, x, w);
    fb_scope_close(ops);
}

static void multiply_all(const fb_layer *w, const operands *o)
{
    multiply(o->x, w->qkv);
    multiply(o->heads, w->output);
    multiply(o->x, w->gate_up);
    multiply(o->inner, w->down);
    for (int64_t g = 0; g < fb_model_get_facts(model)->kv_heads; g++) {
        multiply(o->q, o->keys);
        multiply(o->p, o->values);
    }
}

static json_t *limit(int64_t n)
{
    enum { MOST_BLOCKS = 256 };
    const int64_t layers = fb_model_get_facts(model)->layers;
    const int64_t blocks = n / ROWS;
    static operands of[MOST_BLOCKS];
    int64_t start;

    if (n % ROWS != 0 || blocks > MOST_BLOCKS) {
        (void)fprintf(stderr, "engine_bench: the limit takes a multiple of %d tokens\n",
                      ROWS);
        exit(1);
    }
    for (int64_t b = 0; b < blocks; b++)
        of[b] = make_operands(b);
    start = fb_time_ns();
    for (int64_t l = 0; l < layers; l++)
        for (int64_t b = 0; b < blocks; b++)
            multiply_all(fb_model_layer(model, l), &of[b]);
    stop_on(fb_ops_status(ops));
    return json_pack("{s:f}", "seconds", seconds_since(start));
}

static json_t *decode(int n_variants, int64_t n, int64_t steps)
{
    static const int32_t prompt[] = {42}, none[] = {0};
    const fb_question q = {prompt, none, 1, 1};
    fb_answer_options options = {.generate = true, .max_tokens = 1};
    fb_variant **variant = calloc((size_t)n_variants, sizeof *variant);
    fb_answer *answer = calloc((size_t)n_variants, sizeof *answer);
    int32_t *ids = make_ids(n);
    fb_reading *reading;
    double seconds[2];
    int64_t tokens[2];

    if (variant == NULL || answer == NULL) exit(1);
    read_with_rules(&reading, ids, n, 0);
    for (int v = 0; v < n_variants; v++)
        stop_on(fb_keep_all(&variant[v], reading));
    for (int round = 0; round < 2; round++) { /* the difference is the steps */
        const int64_t start = fb_time_ns();

        options.max_tokens = round == 0 ? 1 : 1 + steps;
        stop_on(fb_answer_group(reading, variant, n_variants, &q, &options, answer));
        seconds[round] = seconds_since(start);
        tokens[round] = answer[0].n_ids; /* an end token may come early */
        for (int v = 0; v < n_variants; v++)
            fb_answer_clear(&answer[v]);
    }
    for (int v = 0; v < n_variants; v++)
        fb_variant_free(variant[v]);
    fb_reading_free(reading);
    free(ids);
    free(variant);
    free(answer);
    return json_pack("{s:f}", "seconds",
                     (seconds[1] - seconds[0]) / (double)(tokens[1] - tokens[0]));
}

static void finish(json_t *result)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    json_object_set_new(result, "peak_rss_bytes",
                        json_integer((json_int_t)usage.ru_maxrss * 1024));
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        json_object_set_new(result, fb_account_name((fb_account)a),
                            json_integer((json_int_t)fb_memory_peak((fb_account)a)));
    (void)json_dumpf(result, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(result);
}

int main(int argc, char **argv)
{
    const char *what = argc > 3 ? argv[3] : "";
    fb_ops_options options = {0};
    fb_model_options form = {FB_WEIGHTS_UNPACKED};

    if (argc < 5) {
        (void)fprintf(stderr, "usage: see the head of bench/engine_bench.c\n");
        return 2;
    }
    options.threads = atoi(argv[2]);
    options.device = getenv("FLEXBUDGET_DEVICE");
    options.any_shape = strcmp(what, "decode") == 0 && atoi(argv[4]) == 1;
    if (strcmp(argv[argc - 1], "resident") == 0) {
        form.weights = FB_WEIGHTS_RESIDENT;
        argc--;
    }
    if (strcmp(argv[argc - 1], "arenas") == 0) {
        only_arenas = true;
        argc--;
    }
    if ((strcmp(what, "cell") == 0 && argc == 8) ||
        (strcmp(what, "memory") == 0 && argc == 7)) {
        expressions[0] = argv[argc - 2];
        budgets[0] = argv[argc - 1];
        n_rules = n_budgets = 1;
        if (strcmp(what, "cell") == 0) what = "sweep";
        argc -= 2;
    }
    for (int r = 0; r < RULES; r++)
        stop_on(fb_rule_parse(&rules[r], expressions[r]));
    stop_on(fb_ops_open(&ops, &options));
    stop_on(fb_model_open(&model, ops, argv[1], &form));
    stop_on(fb_engine_open(&engine, ops, model, NULL));
    if (strcmp(what, "sweep") == 0 && argc == 8) {
        n_rules = atoi(argv[6]);
        n_budgets = atoi(argv[7]);
    }
    if (n_rules < 1 || n_rules > RULES || n_budgets < 1 || n_budgets > BUDGETS)
        return 2;
    if (strcmp(what, "sweep") == 0 && (argc == 6 || argc == 8))
        finish(sweep(argv[4], argv[5]));
    else if (strcmp(what, "context") == 0)
        finish(context_pass(atoll(argv[4]), argc > 5 ? RULES : 0));
    else if (strcmp(what, "memory") == 0 && argc == 5)
        finish(memory(atoll(argv[4])));
    else if (strcmp(what, "limit") == 0)
        finish(limit(atoll(argv[4])));
    else if (strcmp(what, "decode") == 0 && argc == 7)
        finish(decode(atoi(argv[4]), atoll(argv[5]), atoll(argv[6])));
    fb_engine_close(engine);
    fb_model_close(model);
    fb_ops_close(ops);
    for (int r = 0; r < RULES; r++)
        fb_bound_rule_free(rules[r]);
    return 0;
}
