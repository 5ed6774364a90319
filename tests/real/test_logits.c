/* test_logits.c - the engine computes what transformers computes on the same weights.
 *
 * Logits of three prompts at seven positions each (the 32 largest and 14 fixed ones),
 * the mean NLL over every token, the greedy continuation, and the tensors of three
 * layers. transformers worked in float32 with one thread; sums in another order move
 * logits by about 1e-4. Tolerances stand beside the checks; the measured differences
 * are printed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/numbers.h"
#include "tests/support/reference.h"
#include "tests/support/safetensors.h"

#include <string.h>

enum { N_POSITIONS = 7, KV_HEADS = 3, HEAD = 64 };

static const char *const prompts[] = {"p32", "p300", "p1500"};
static const int layers[] = {0, 15, 29};
enum { N_PROMPTS = 3, N_LAYERS = 3 };

static rig the;

/* --- logits ---------------------------------------------------------------------- */

static double log_sum_exp(const float *x, int64_t n)
{
    double most = (double)x[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static int64_t arg_max(const float *x, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Largest difference of the logits that `where` lists under `ids` and `values`. */
static double difference(json_t *where, const char *ids, const char *values,
                         const float *row)
{
    json_t *id = json_object_get(where, ids);
    json_t *value = json_object_get(where, values);
    double most = 0;

    assert_true(json_array_size(id) > 0);
    for (size_t i = 0; i < json_array_size(id); i++) {
        const double theirs = json_number_value(json_array_get(value, i));
        const double ours = (double)row[json_integer_value(json_array_get(id, i))];

        most = fmax(most, fabs(ours - theirs));
    }
    return most;
}

/* The row of one position: within 5e-3 and within 2e-4 of its largest |logit|. */
static double check_row(json_t *where, const float *row, int64_t n)
{
    json_t *top = json_object_get(where, "top_ids");
    const double of_top = difference(where, "top_ids", "top_logits", row);
    const double of_fixed = difference(where, "fixed_ids", "fixed_logits", row);
    const double worst = fmax(of_top, of_fixed);
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)row[i]));
    assert_int_equal(arg_max(row, n), json_integer_value(json_array_get(top, 0)));
    assert_true(worst <= 5e-3);
    assert_true(worst <= 2e-4 * largest);
    assert_true(fabs(log_sum_exp(row, n) - golden_number(where, "logsumexp")) <= 5e-3);
    return worst;
}

static double check_rows(json_t *positions, const float *logits, int64_t n)
{
    const char *key;
    json_t *where;
    double worst = 0;

    assert_int_equal(json_object_size(positions), N_POSITIONS);
    json_object_foreach(positions, key, where)
    {
        const float *row = logits + strtoll(key, NULL, 10) * n;

        worst = fmax(worst, check_row(where, row, n));
    }
    return worst;
}

static double mean_nll(const id_list *prompt, const float *logits, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i + 1 < prompt->n; i++) {
        const float *row = logits + i * n;

        sum += log_sum_exp(row, n) - (double)row[prompt->ids[i + 1]];
    }
    return sum / (double)(prompt->n - 1);
}

/* Logits after every token of the prompt, [n, vocabulary]; free with fb_free. */
static float *all_logits(const id_list *prompt, int64_t vocabulary)
{
    const size_t n = (size_t)(prompt->n * vocabulary);
    int64_t *row = fb_alloc(FB_ACCOUNT_other, (size_t)prompt->n * sizeof *row);
    float *out = fb_alloc(FB_ACCOUNT_other, n * sizeof *out);

    assert_true(row != NULL && out != NULL);
    for (int64_t i = 0; i < prompt->n; i++)
        row[i] = i;
    assert_ok(fb_logits(the.engine, prompt->ids, prompt->n, row, prompt->n, out));
    fb_free(row);
    return out;
}

static void logits_and_nll_are_those_of_transformers(void **state)
{
    json_t *reference = golden_load(REFERENCE "logits.json");
    const int64_t vocabulary = fb_model_get_facts(the.model)->vocabulary;

    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        json_t *expected = json_object_get(reference, prompts[p]);
        id_list prompt = reference_prompt(prompts[p]);
        float *logits = all_logits(&prompt, vocabulary);
        const double worst =
            check_rows(json_object_get(expected, "positions"), logits, vocabulary);
        const double off =
            mean_nll(&prompt, logits, vocabulary) - golden_number(expected, "nll_mean");

        print_message("%-6s largest logit difference %.2g, mean NLL %+.2g nats\n",
                      prompts[p], worst, off);
        assert_true(fabs(off) <= 1e-4);
        fb_free(logits);
        fb_free(prompt.ids);
    }
    json_decref(reference);
}

/* --- greedy ---------------------------------------------------------------------- */

static void check_free(const fb_answer *answer, const id_list *greedy)
{
    assert_int_equal(answer->n_ids, greedy->n);
    assert_memory_equal(answer->ids, greedy->ids,
                        (size_t)greedy->n * sizeof *greedy->ids);
    assert_int_equal(answer->stop, FB_STOP_length);
}

/* Three answers: to greedy's own tokens, teacher-forced; to the first half of them, so
 * that the engine must go on from there; to another token, so that it must decode all
 * freely. */
static void check_greedy(const id_list *prompt, const id_list *greedy)
{
    const int32_t other = greedy->ids[0] + 1;
    const fb_answer_options options = {.generate = true, .max_tokens = greedy->n};
    const size_t n_bytes = (size_t)greedy->n * sizeof(int32_t);
    fb_question question = {.prompt = prompt->ids + prompt->n - 1,
                            .n_prompt = 1,
                            .answer = greedy->ids,
                            .n_answer = greedy->n};
    fb_reading *reading;
    fb_variant *full;
    fb_answer answer;

    assert_ok(fb_read(&reading, the.engine, prompt->ids, prompt->n - 1, NULL, 0, 0));
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    assert_memory_equal(answer.top1, greedy->ids, n_bytes);
    check_free(&answer, greedy);
    fb_answer_clear(&answer);
    question.n_answer = greedy->n / 2;
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    check_free(&answer, greedy);
    fb_answer_clear(&answer);
    question.answer = &other;
    question.n_answer = 1;
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    check_free(&answer, greedy);
    fb_answer_clear(&answer);
    fb_variant_free(full);
    fb_reading_free(reading);
}

static void greedy_continuations_are_those_of_transformers(void **state)
{
    json_t *reference = golden_load(REFERENCE "logits.json");

    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        json_t *expected = json_object_get(reference, prompts[p]);
        id_list prompt = reference_prompt(prompts[p]);
        id_list greedy = reference_ids(json_object_get(expected, "greedy32"));

        assert_int_equal(greedy.n, 32);
        check_greedy(&prompt, &greedy);
        fb_free(greedy.ids);
        fb_free(prompt.ids);
    }
    json_decref(reference);
}

/* --- layer by layer ---------------------------------------------------------------- */

/* A tensor of a layer as transformers names it, and where the engine shows it. */
static const struct sight {
    const char *theirs, *what;
    int64_t first_column, n_columns;
} sights[] = {
    {"attn_in", "attention_in", 0, 576},
    {"key_pre_rope", "qkv", 576, 192},
    {"value", "qkv", 768, 192},
    {"query_post_rope", "qkv_rotated", 0, 576},
    {"key_post_rope", "qkv_rotated", 576, 192},
    {"attn_out", "attention_out", 0, 576},
    {"resid_out", "layer_out", 0, 576},
};

enum { N_SIGHTS = sizeof sights / sizeof *sights, MOST_COLUMNS = 576 };

/* What the engine showed at the reference's positions. */
static struct seen {
    int32_t position[N_POSITIONS];
    float x[N_LAYERS][N_SIGHTS][N_POSITIONS][MOST_COLUMNS];
} seen;

static int layer_index(int64_t layer)
{
    for (int l = 0; l < N_LAYERS; l++)
        if (layers[l] == layer) return l;
    return -1;
}

/* fb_watch: `a` [rows, columns] begins at `first_row` of the sequence. */
static void watch(void *self, fb_ops *ops, const char *what, int64_t layer,
                  int64_t first_row, fb_tensor a)
{
    const int64_t rows = fb_size(ops, a, 0), columns = fb_size(ops, a, 1);
    const int l = layer_index(layer);
    float *host;

    (void)self;
    if (l < 0) return;
    host = reference_floats(the.ops, a);
    for (int s = 0; s < N_SIGHTS; s++)
        for (int i = 0; i < N_POSITIONS; i++) {
            const int64_t row = seen.position[i] - first_row;

            if (strcmp(sights[s].what, what) == 0 && row >= 0 && row < rows)
                memcpy(seen.x[l][s][i], host + row * columns + sights[s].first_column,
                       (size_t)sights[s].n_columns * sizeof *host);
        }
    fb_free(host);
}

/* The worst of the positions of one tensor. */
static double sight_differs(const safetensors *file, int l, int s)
{
    static float theirs[N_POSITIONS * MOST_COLUMNS];
    const int64_t n = sights[s].n_columns;
    double worst = 0;
    char name[64];

    snprintf(name, sizeof name, "layer%d.%s", layers[l], sights[s].theirs);
    safetensors_read(file, name, "F32", (size_t)(N_POSITIONS * n), theirs);
    for (int i = 0; i < N_POSITIONS; i++)
        worst = fmax(worst, relative_difference(theirs + i * n, seen.x[l][s][i], n));
    return worst;
}

static void watch_prompt(const safetensors *file, const char *name)
{
    const fb_engine_options options = {.watch = watch};
    const int64_t last = 0;
    id_list prompt = reference_prompt(name);
    fb_engine *engine;
    float *logits =
        fb_alloc(FB_ACCOUNT_other,
                 (size_t)fb_model_get_facts(the.model)->vocabulary * sizeof *logits);

    assert_non_null(logits);
    memset(&seen, 0, sizeof seen);
    safetensors_read(file, "positions", "I32", N_POSITIONS, seen.position);
    assert_ok(fb_engine_open(&engine, the.ops, the.model, &options));
    assert_ok(fb_logits(engine, prompt.ids, prompt.n, &last, 1, logits));
    fb_engine_close(engine);
    fb_free(logits);
    fb_free(prompt.ids);
}

static void every_layer_is_that_of_transformers(void **state)
{
    double worst[N_SIGHTS] = {0};

    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        safetensors file;
        char path[256];

        snprintf(path, sizeof path, REFERENCE "%s.safetensors", prompts[p]);
        safetensors_open(&file, path);
        watch_prompt(&file, prompts[p]);
        for (int l = 0; l < N_LAYERS; l++)
            for (int t = 0; t < N_SIGHTS; t++)
                worst[t] = fmax(worst[t], sight_differs(&file, l, t));
        safetensors_close(&file);
    }
    for (int t = 0; t < N_SIGHTS; t++) {
        print_message("%-16s differs by %.2g of the largest\n", sights[t].theirs,
                      worst[t]);
        assert_true(worst[t] <= 5e-5);
    }
}

/* --- rotary embedding ------------------------------------------------------------ */

/* transformers' own keys before rotation, rotated by us, against its keys after. */
static double rotation_differs(const safetensors *file, int layer)
{
    enum { N = N_POSITIONS * KV_HEADS * HEAD };
    const int64_t shape[] = {N_POSITIONS, KV_HEADS * HEAD};
    float before[N], after[N];
    int32_t theirs[N_POSITIONS];
    int64_t position[N_POSITIONS];
    char name[64];
    fb_tensor x, cosine, sine;
    double most = 0;
    float *ours;

    snprintf(name, sizeof name, "layer%d.key_pre_rope", layer);
    safetensors_read(file, name, "F32", N, before);
    snprintf(name, sizeof name, "layer%d.key_post_rope", layer);
    safetensors_read(file, name, "F32", N, after);
    safetensors_read(file, "positions", "I32", N_POSITIONS, theirs);
    for (int i = 0; i < N_POSITIONS; i++)
        position[i] = theirs[i];
    fb_scope_open(the.ops);
    x = fb_from_host(the.ops, FB_F32, 2, shape, before);
    assert_ok(fb_model_rope(the.model, the.ops, FB_ROPE_GLOBAL, 2048, position,
                            N_POSITIONS, &cosine, &sine));
    fb_rotary(the.ops, x, KV_HEADS, HEAD, cosine, sine);
    ours = reference_floats(the.ops, x);
    for (int i = 0; i < N; i++)
        most = fmax(most, fabs((double)ours[i] - (double)after[i]));
    fb_free(ours);
    fb_scope_close(the.ops);
    return most;
}

static void rotation_is_that_of_transformers(void **state)
{
    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        safetensors file;
        char path[256];
        double worst = 0;

        snprintf(path, sizeof path, REFERENCE "%s.safetensors", prompts[p]);
        safetensors_open(&file, path);
        for (int l = 0; l < N_LAYERS; l++)
            worst = fmax(worst, rotation_differs(&file, layers[l]));
        print_message("%-6s rotated keys differ by %.2g\n", prompts[p], worst);
        assert_true(worst <= 2e-6);
        safetensors_close(&file);
    }
}

static int open_rig(void **state)
{
    (void)state;
    reference_open(&the);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_is_that_of_transformers),
        cmocka_unit_test(logits_and_nll_are_those_of_transformers),
        cmocka_unit_test(every_layer_is_that_of_transformers),
        cmocka_unit_test(greedy_continuations_are_those_of_transformers),
    };

    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
