/* test_families.c - every family computes what transformers computes on the same weights.
 *
 * Tiny models with random weights (tests/golden/families): logits after each of 96 tokens,
 * hidden states, rotated keys and values at three positions, the greedy continuation, and
 * kvpress's kept sets. Tolerances stand beside the checks; the measured differences are
 * printed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "tests/support/numbers.h"
#include "tests/support/reference.h"
#include "tests/support/safetensors.h"

#include <string.h>

#define FAMILIES "tests/golden/families/"

enum {
    N = 96,
    VOCABULARY = 128,
    WIDTH = 64,
    N_STORED = 3,
    MOST = 8 * 32,
    GREEDY = 16,
    KV_HEADS = 2
};
static const int64_t stored[N_STORED] = {0, 48, 95};

static json_t *all, *windows; /* tiny.json, windows.json */
static int32_t ids[N + GREEDY];

/* What the watcher sees of the stored rows, layer by layer. */
static struct {
    float layer_out[2][N_STORED][WIDTH];
    float qkv[2][N_STORED][MOST];
} seen;

static void watch(void *self, fb_ops *ops, const char *what, int64_t layer,
                  int64_t first_row, fb_tensor a)
{
    const bool is_out = strcmp(what, "layer_out") == 0;
    const int64_t columns = fb_size(ops, a, 1);
    float *host;

    (void)self;
    if (!is_out && strcmp(what, "qkv_rotated") != 0) return;
    host = reference_floats(ops, a);
    for (int s = 0; s < N_STORED; s++) {
        const int64_t row = stored[s] - first_row;
        float *to = is_out ? seen.layer_out[layer][s] : seen.qkv[layer][s];

        if (row >= 0 && row < fb_size(ops, a, 0))
            memcpy(to, host + row * columns, (size_t)columns * sizeof *to);
    }
    fb_free(host);
}

/* Logits after each of the first n ids, [n, VOCABULARY]. */
static void logits_of(fb_engine *engine, int64_t n, float *out)
{
    int64_t row[N + GREEDY];

    for (int64_t i = 0; i < n; i++)
        row[i] = i;
    assert_ok(fb_logits(engine, ids, n, row, n, out));
}

static int64_t arg_max(const float *x)
{
    int64_t best = 0;

    for (int64_t i = 1; i < VOCABULARY; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double check_logits(const safetensors *file, const float *ours)
{
    static float theirs[N * VOCABULARY];
    double worst = 0;

    safetensors_read(file, "logits", "F32", N * VOCABULARY, theirs);
    for (int64_t i = 0; i < N; i++) {
        const float *a = theirs + i * VOCABULARY, *b = ours + i * VOCABULARY;

        worst = fmax(worst, relative_difference(a, b, VOCABULARY));
        assert_int_equal(arg_max(a), arg_max(b));
    }
    assert_true(worst <= 1e-4);
    return worst;
}

/* Hidden states between the layers; the last one there is behind the final norm. */
static double check_layers(const safetensors *file, const fb_model_facts *f)
{
    const int64_t d = f->head_dim, kv = f->kv_heads * d;
    float theirs[N_STORED * WIDTH], heads[N_STORED * MOST];
    double worst = 0;
    char name[64];

    safetensors_read(file, "hidden_states.1", "F32", N_STORED * WIDTH, theirs);
    for (int64_t layer = 0; layer < f->layers; layer++)
        for (int part = 0; part < 2; part++) {
            const int64_t at = (f->heads + part * f->kv_heads) * d;

            snprintf(name, sizeof name, "layer%d.%s", (int)layer,
                     part == 0 ? "key_post_rope" : "value");
            safetensors_read(file, name, "F32", (size_t)(N_STORED * kv), heads);
            for (int s = 0; s < N_STORED; s++)
                worst = fmax(worst, relative_difference(heads + s * kv,
                                                        seen.qkv[layer][s] + at, kv));
        }
    for (int s = 0; s < N_STORED; s++)
        worst = fmax(worst, relative_difference(theirs + s * WIDTH,
                                                seen.layer_out[0][s], WIDTH));
    assert_true(worst <= 5e-5);
    return worst;
}

/* Token by token, each time from the beginning. */
static void check_greedy(fb_engine *engine, json_t *expected)
{
    static float logits[(N + GREEDY) * VOCABULARY];

    for (int i = 0; i < GREEDY; i++) {
        logits_of(engine, N + i, logits);
        ids[N + i] = (int32_t)arg_max(logits + (N + i - 1) * VOCABULARY);
        assert_int_equal(ids[N + i],
                         json_integer_value(json_array_get(expected, (size_t)i)));
    }
}

/* The same through a cache that keeps everything: what is evicted from works alike. */
static void check_answer(const rig *the, json_t *expected)
{
    const fb_tokenizer *tokenizer = fb_model_tokenizer(the->model);
    const id_list greedy = reference_ids(expected);
    int64_t n = 0;
    const fb_answer_options options = {.generate = true, .max_tokens = GREEDY};
    const fb_question question = {ids + N - 1, greedy.ids, 1, 1};
    fb_reading *reading;
    fb_variant *full;
    fb_answer answer;

    while (n < GREEDY && !fb_tokenizer_is_end(tokenizer, greedy.ids[n]))
        n++; /* transformers did not stop there */
    assert_ok(fb_read(&reading, the->engine, ids, N - 1, NULL, 0, 0));
    assert_ok(fb_keep_all(&full, reading));
    assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
    assert_int_equal(answer.n_ids, n);
    assert_memory_equal(answer.ids, greedy.ids, (size_t)n * sizeof *greedy.ids);
    fb_answer_clear(&answer);
    fb_variant_free(full);
    fb_reading_free(reading);
    fb_free(greedy.ids);
}

static bool is_near(json_t *near, int64_t slot, int64_t position)
{
    json_t *ranges, *range;
    char key[16];
    size_t i;

    snprintf(key, sizeof key, "%d.%d", (int)(slot / KV_HEADS), (int)(slot % KV_HEADS));
    ranges = json_object_get(near, key);
    json_array_foreach(
        ranges, i,
        range) if (json_integer_value(json_array_get(range, 0)) <= position &&
                   position <=
                       json_integer_value(json_array_get(range, 1))) return true;
    return false;
}

/* Positions of theirs that we have not, unless rounding may decide about them. */
static int64_t count_strays(const fb_kept *kept, json_t *press)
{
    json_t *layers = golden_at(press, "kept"), *near = golden_at(press, "near");
    int64_t strays = 0;

    for (int64_t s = 0; s < kept->n_slots; s++) {
        json_t *list = json_array_get(json_array_get(layers, (size_t)(s / KV_HEADS)),
                                      (size_t)(s % KV_HEADS));
        int64_t i = 0;

        assert_int_equal(json_array_size(list), kept->count[s]);
        for (size_t j = 0; j < json_array_size(list); j++) {
            const int64_t position = json_integer_value(json_array_get(list, j));

            while (i < kept->count[s] && kept->position[s][i] < position)
                i++;
            if (i == kept->count[s] || kept->position[s][i] != position)
                strays += !is_near(near, s, position);
        }
    }
    return strays;
}

static const struct {
    const char *theirs, *ours;
} presses[] = {
    {"knorm", "knorm"}, {"snapkv_w16", "snapkv:window=16"}, {"keydiff", "keydiff"}};
enum { N_PRESSES = 3 };

static int64_t check_kept(fb_engine *engine, json_t *kept)
{
    fb_seeded_rule rules[N_PRESSES];
    fb_bound_rule *bound[N_PRESSES];
    const fb_protect published = {.kind = FB_PROTECT_PUBLISHED};
    fb_reading *reading;
    int64_t strays = 0;

    if (json_object_size(kept) == 0) return 0;
    for (int r = 0; r < N_PRESSES; r++) {
        assert_ok(fb_rule_parse(&bound[r], presses[r].ours));
        rules[r] = (fb_seeded_rule){.rule = bound[r]};
    }
    assert_ok(fb_read(&reading, engine, ids, N, rules, N_PRESSES, 0));
    for (int r = 0; r < N_PRESSES; r++) {
        json_t *expected = golden_at(kept, presses[r].theirs);
        fb_variant *variant;

        assert_ok(fb_evict(&variant, reading, r, &published, 0, N / 2));
        strays += count_strays(&fb_variant_selection(variant)->kept, expected);
        fb_variant_free(variant);
    }
    fb_reading_free(reading);
    for (int r = 0; r < N_PRESSES; r++)
        fb_bound_rule_free(bound[r]);
    return strays;
}

/* Logits do not depend on how the text is cut into blocks. */
static void check_chunks(const rig *the, const float *logits)
{
    static float again[N * VOCABULARY];
    static const int64_t chunks[] = {1, 7, 64};

    for (int c = 0; c < 3; c++) {
        const fb_engine_options options = {.chunk = chunks[c]};
        fb_engine *engine;

        assert_ok(fb_engine_open(&engine, the->ops, the->model, &options));
        logits_of(engine, N, again);
        assert_memory_equal(logits, again, sizeof again);
        fb_engine_close(engine);
    }
}

static void check_model(const char *name, json_t *expected)
{
    static float logits[N * VOCABULARY];
    const fb_engine_options options = {.watch = watch};
    const fb_model_facts *facts;
    double of_logits, of_layers;
    safetensors file;
    char path[128];
    int64_t strays;
    rig the;

    snprintf(path, sizeof path, FAMILIES "%s/reference.safetensors", name);
    safetensors_open(&file, path);
    snprintf(path, sizeof path, FAMILIES "%s", name);
    rig_open(&the, path, NULL, &options);
    facts = fb_model_get_facts(the.model);
    logits_of(the.engine, N, logits);
    of_logits = check_logits(&file, logits);
    of_layers = check_layers(&file, facts);
    check_chunks(&the, logits);
    check_greedy(the.engine, golden_at(expected, "greedy16"));
    if (facts->longest >= N + GREEDY)
        check_answer(&the, golden_at(expected, "greedy16"));
    strays = check_kept(the.engine, golden_at(expected, "kept"));
    print_message("%-20s logits %.1e, layers %.1e of the largest; %d kept differ\n",
                  name, of_logits, of_layers, (int)strays);
    assert_int_equal(strays, 0);
    safetensors_close(&file);
    rig_close(&the);
}

static void check_models(json_t *golden, size_t n)
{
    json_t *models = golden_at(golden, "models"), *expected;
    const char *name;

    assert_int_equal(json_object_size(models), n);
    json_object_foreach(models, name, expected) check_model(name, expected);
}

static void every_family_is_that_of_transformers(void **state)
{
    (void)state;
    check_models(all, 12);
}

/* One rope for layers with and without windows; the local one for windows alone. */
static void layers_with_windows_turn_as_in_transformers(void **state)
{
    (void)state;
    check_models(windows, 2);
}

/* A text that leaves the window of a model of windows alone cannot be evicted from. */
static void a_model_of_windows_alone_refuses_longer_texts(void **state)
{
    fb_reading *reading;
    rig the;

    (void)state;
    rig_open(&the, FAMILIES "mistral_sliding", NULL, NULL);
    assert_int_equal(fb_model_get_facts(the.model)->longest, 24);
    assert_ok(fb_read(&reading, the.engine, ids, 24, NULL, 0, 0));
    fb_reading_free(reading);
    assert_int_equal(fb_read(&reading, the.engine, ids, 25, NULL, 0, 0),
                     FB_UNSUPPORTED);
    rig_close(&the);
}

static int open_all(void **state)
{
    fb_json *nothing;
    id_list list;

    (void)state;
    /* From the first use of base/json on jansson has the program's memory. */
    assert_ok(fb_json_parse(&nothing, "{}", 2));
    fb_json_free(nothing);
    all = golden_load(FAMILIES "tiny.json");
    windows = golden_load(FAMILIES "windows.json");
    list = reference_ids(golden_at(all, "ids"));
    assert_int_equal(list.n, N);
    memcpy(ids, list.ids, sizeof *ids * N);
    fb_free(list.ids);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    json_decref(all);
    json_decref(windows);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_that_of_transformers),
        cmocka_unit_test(layers_with_windows_turn_as_in_transformers),
        cmocka_unit_test(a_model_of_windows_alone_refuses_longer_texts),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
