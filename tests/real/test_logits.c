/* test_logits.c - the engine computes what transformers computes on the same weights.
 *
 * Logits of three prompts at seven positions each (the 32 largest and 14 fixed ones),
 * the mean NLL over every token, the greedy continuation, and keys and values of three
 * layers. transformers worked in float32 with one thread; sums in another order move
 * logits by about 1e-4. Tolerances stand beside the checks; the measured differences
 * are printed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/machine.h"
#include "tests/support/reference.h"
#include "tests/support/safetensors.h"

#include <math.h>

enum { N_POSITIONS = 7, KV_HEADS = 3, HEAD = 64 };

static const char *const prompts[] = {"p32", "p300", "p1500"};
static const int layers[] = {0, 15, 29};
enum { N_PROMPTS = 3, N_LAYERS = 3 };

static machine the;

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
static double difference(const json_t *where, const char *ids, const char *values,
                         const float *row)
{
    const json_t *id = json_object_get(where, ids);
    const json_t *value = json_object_get(where, values);
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
static double check_row(const json_t *where, const float *row, int64_t n)
{
    const json_t *top = json_object_get(where, "top_ids");
    const double of_top = difference(where, "top_ids", "top_logits", row);
    const double of_fixed = difference(where, "fixed_ids", "fixed_logits", row);
    const double worst = fmax(of_top, of_fixed);
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)row[i]));
    assert_int_equal(arg_max(row, n), json_integer_value(json_array_get(top, 0)));
    assert_true(worst <= 5e-3);
    assert_true(worst <= 2e-4 * largest);
    assert_true(fabs(log_sum_exp(row, n) - reference_number(where, "logsumexp")) <=
                5e-3);
    return worst;
}

static double check_rows(const json_t *positions, const float *logits, int64_t n)
{
    const char *key;
    json_t *where;
    double worst = 0;

    assert_int_equal(json_object_size(positions), N_POSITIONS);
    json_object_foreach((json_t *)(uintptr_t)positions, key, where)
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
    MUST(fb_logits(the.engine, prompt->ids, prompt->n, row, prompt->n, out));
    fb_free(row);
    return out;
}

static void logits_and_nll_are_those_of_transformers(void **state)
{
    json_t *reference = reference_json(REFERENCE "logits.json");
    const int64_t vocabulary = fb_model_get_facts(the.model)->vocabulary;

    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        const json_t *expected = json_object_get(reference, prompts[p]);
        id_list prompt = reference_prompt(prompts[p]);
        float *logits = all_logits(&prompt, vocabulary);
        const double worst =
            check_rows(json_object_get(expected, "positions"), logits, vocabulary);
        const double off = mean_nll(&prompt, logits, vocabulary) -
                           reference_number(expected, "nll_mean");

        print_message("%-6s largest logit difference %.2g, mean NLL %+.2g nats\n",
                      prompts[p], worst, off);
        assert_true(fabs(off) <= 1e-4);
        fb_free(logits);
        fb_free(prompt.ids);
    }
    json_decref(reference);
}

/* --- greedy ---------------------------------------------------------------------- */

/* The prompt but its last token is the context, so that the first free token comes from
 * reading that last one behind a cache. */
static void check_greedy(const id_list *prompt, const id_list *greedy)
{
    static const bool always[] = {true};
    const fb_answer_options options = {
        .generate = true, .max_tokens = greedy->n, .always = always};
    const fb_question question = {.prompt = prompt->ids + prompt->n - 1,
                                  .n_prompt = 1,
                                  .answer = greedy->ids,
                                  .n_answer = greedy->n};
    fb_reading *reading;
    fb_variant *full;
    fb_answer answer;

    MUST(fb_read(&reading, the.engine, prompt->ids, prompt->n - 1, NULL, 0, 0));
    MUST(fb_keep_all(&full, reading));
    MUST(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    assert_memory_equal(answer.top1, greedy->ids, (size_t)greedy->n * sizeof(int32_t));
    assert_int_equal(answer.n_ids, greedy->n);
    assert_memory_equal(answer.ids, greedy->ids, (size_t)greedy->n * sizeof(int32_t));
    fb_answer_clear(&answer);
    fb_variant_free(full);
    fb_reading_free(reading);
}

static void greedy_continuations_are_those_of_transformers(void **state)
{
    json_t *reference = reference_json(REFERENCE "logits.json");

    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        const json_t *expected = json_object_get(reference, prompts[p]);
        id_list prompt = reference_prompt(prompts[p]);
        id_list greedy = reference_ids(json_object_get(expected, "greedy32"));

        assert_int_equal(greedy.n, 32);
        check_greedy(&prompt, &greedy);
        fb_free(greedy.ids);
        fb_free(prompt.ids);
    }
    json_decref(reference);
}

/* --- keys and values ------------------------------------------------------------- */

/* A tensor [7, 3, 64] of a layer, and the positions [7]. */
typedef struct reference_heads {
    int32_t position[N_POSITIONS];
    float x[N_POSITIONS][KV_HEADS][HEAD];
} reference_heads;

static void read_heads(reference_heads *out, const safetensors *file, int layer,
                       const char *what)
{
    char name[64];

    snprintf(name, sizeof name, "layer%d.%s", layer, what);
    safetensors_read(file, "positions", "I32", N_POSITIONS, out->position);
    safetensors_read(file, name, "F32", N_POSITIONS * KV_HEADS * HEAD, out->x);
}

/* Largest difference over the largest size, of ours [3, n, 64] at those positions. */
static double heads_differ(const reference_heads *theirs, const float *ours, int64_t n)
{
    double most = 0, largest = 0;

    for (int i = 0; i < N_POSITIONS; i++)
        for (int g = 0; g < KV_HEADS; g++)
            for (int c = 0; c < HEAD; c++) {
                const double a = (double)theirs->x[i][g][c];
                const double b = (double)ours[(g * n + theirs->position[i]) * HEAD + c];

                most = fmax(most, fabs(a - b));
                largest = fmax(largest, fabs(a));
            }
    return most / largest;
}

static double check_layer(const safetensors *file, fb_reading *reading, int layer)
{
    const fb_cache *cache = fb_reading_cache(reading);
    reference_heads theirs;
    double of_keys, of_values;
    float *ours;

    fb_scope_open(the.ops);
    read_heads(&theirs, file, layer, "key_post_rope");
    ours = machine_floats(&the, fb_cache_keys(cache, the.ops, layer), NULL);
    of_keys = heads_differ(&theirs, ours, fb_reading_tokens(reading));
    fb_free(ours);
    read_heads(&theirs, file, layer, "value");
    ours = machine_floats(&the, fb_cache_values(cache, the.ops, layer), NULL);
    of_values = heads_differ(&theirs, ours, fb_reading_tokens(reading));
    fb_free(ours);
    fb_scope_close(the.ops);
    return fmax(of_keys, of_values);
}

static void keys_and_values_are_those_of_transformers(void **state)
{
    (void)state;
    for (int p = 0; p < N_PROMPTS; p++) {
        id_list prompt = reference_prompt(prompts[p]);
        fb_reading *reading;
        safetensors file;
        char path[256];

        snprintf(path, sizeof path, REFERENCE "%s.safetensors", prompts[p]);
        safetensors_open(&file, path);
        MUST(fb_read(&reading, the.engine, prompt.ids, prompt.n, NULL, 0, 0));
        for (int l = 0; l < N_LAYERS; l++) {
            const double worst = check_layer(&file, reading, layers[l]);

            print_message("%-6s layer %2d: keys and values differ by %.2g of the "
                          "largest\n",
                          prompts[p], layers[l], worst);
            assert_true(worst <= 1e-4);
        }
        fb_reading_free(reading);
        safetensors_close(&file);
        fb_free(prompt.ids);
    }
}

/* --- rotary embedding ------------------------------------------------------------ */

/* transformers' own keys before rotation, rotated by us, within 2e-6 of its keys
 * after. */
static double rotation_differs(const safetensors *file, int layer)
{
    const int64_t shape[] = {N_POSITIONS, KV_HEADS * HEAD};
    reference_heads before, after;
    int64_t position[N_POSITIONS];
    fb_tensor x, cosine, sine;
    double most = 0;
    float *ours;

    read_heads(&before, file, layer, "key_pre_rope");
    read_heads(&after, file, layer, "key_post_rope");
    for (int i = 0; i < N_POSITIONS; i++)
        position[i] = before.position[i];
    fb_scope_open(the.ops);
    x = fb_from_host(the.ops, FB_F32, 2, shape, before.x);
    MUST(fb_model_rope(the.model, the.ops, position, N_POSITIONS, &cosine, &sine));
    fb_rotary(the.ops, x, KV_HEADS, HEAD, cosine, sine);
    ours = machine_floats(&the, x, NULL);
    for (int64_t i = 0; i < N_POSITIONS * KV_HEADS * HEAD; i++)
        most = fmax(most, fabs((double)ours[i] - (double)(&after.x[0][0][0])[i]));
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

static int open_machine(void **state)
{
    (void)state;
    machine_open_reference(&the);
    return 0;
}

static int close_machine(void **state)
{
    (void)state;
    machine_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_is_that_of_transformers),
        cmocka_unit_test(logits_and_nll_are_those_of_transformers),
        cmocka_unit_test(keys_and_values_are_those_of_transformers),
        cmocka_unit_test(greedy_continuations_are_those_of_transformers),
    };

    return cmocka_run_group_tests(tests, open_machine, close_machine);
}
