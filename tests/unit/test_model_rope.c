/* test_model_rope.c - rotary frequencies are those of transformers, for every kind of
 * stretching, read from config.json as it writes them; and those of llama.cpp from GGUF.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "model/facts_read.h"
#include "tests/support/make_gguf.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

enum { HALF = 16, LAYERS = 4 };

/* What a file says of layers and ropes; to be cleared also if it is refused. */
typedef struct subject {
    fb_model_facts facts;
    fb_facts_room room;
    fb_settings settings;
    fb_json *config;
    fb_gguf *gguf;
} subject;

static fb_status read_facts(subject *s, int64_t trained, const fb_stored_list *tensors)
{
    s->facts = (fb_model_facts){.family = s->settings.family,
                                .layers = LAYERS,
                                .rotary_dim = 2 * HALF,
                                .context_length = trained};
    FB_TRY(fb_facts_read_layers(&s->facts, &s->room, &s->settings));
    return fb_facts_read_rope(&s->facts, &s->room, &s->settings, tensors);
}

static fb_status read_config(subject *s, const char *family, int64_t trained,
                             const char *text)
{
    *s = (subject){0};
    assert_ok(fb_json_parse(&s->config, text, strlen(text)));
    s->settings.config = s->config;
    assert_ok(fb_family_of_config(&s->settings.family, family));
    return read_facts(s, trained, NULL);
}

static void clear(subject *s)
{
    fb_facts_clear(&s->room);
    fb_json_free(s->config);
    fb_gguf_close(s->gguf);
}

/* --- config.json ---------------------------------------------------------------- */

static void check_case(const fb_json *c, const char *key)
{
    const fb_json *theirs = fb_json_get(c, "frequency");
    const char *parameters;
    char text[4096];
    subject s;
    int64_t trained, length;
    float ours[HALF];
    double size;

    assert_ok(fb_json_want_string(&parameters, c, "parameters"));
    assert_ok(fb_json_want_int(&trained, c, "trained"));
    assert_ok(fb_json_want_int(&length, c, "length"));
    assert_ok(fb_json_want_real(&size, c, "size"));
    snprintf(text, sizeof text, "{\"%s\": %s}", key, parameters);
    assert_ok(read_config(&s, "llama", trained, text));
    fb_rope_frequencies(&s.facts.rope[FB_ROPE_GLOBAL], HALF, length, ours);
    assert_int_equal(fb_json_count(theirs), HALF);
    for (int i = 0; i < HALF; i++) {
        double value;

        assert_true(fb_json_real(fb_json_at(theirs, (size_t)i), &value));
        if (fabs((double)ours[i] - value) > 3e-7 * value)
            fail_msg("%s, length %lld, pair %d: %.9g, not %.9g", parameters,
                     (long long)length, i, (double)ours[i], value);
    }
    if (fabs(s.facts.rope[FB_ROPE_GLOBAL].size - size) > 1e-6)
        fail_msg("%s: size %.9g, not %.9g", parameters,
                 s.facts.rope[FB_ROPE_GLOBAL].size, size);
    clear(&s);
}

static void frequencies_are_those_of_transformers(void **state)
{
    fb_json *golden, *cases;

    (void)state;
    assert_ok(fb_json_read(&golden, "tests/golden/rope/rope.json", 1 << 20));
    assert_ok(fb_json_want_array(&cases, golden, "cases"));
    assert_true(fb_json_count(cases) >= 17);
    for (size_t i = 0; i < fb_json_count(cases); i++) {
        check_case(fb_json_at(cases, i), "rope_parameters");
        check_case(fb_json_at(cases, i), "rope_scaling");
    }
    fb_json_free(golden);
}

/* Sixteen numbers, the last one `end`. */
static void add_list(fb_text *out, const char *key, double end)
{
    fb_text_printf(out, ", \"%s\": [", key);
    for (int i = 1; i < HALF; i++)
        fb_text_puts(out, "1, ");
    fb_text_printf(out, "%g]", end);
}

static void add_longrope(fb_text *out, const char *kind, double small, double large)
{
    fb_text_printf(out,
                   "\"%s\": {\"rope_type\": \"longrope\", "
                   "\"original_max_position_embeddings\": 64",
                   kind);
    add_list(out, "short_factor", small);
    add_list(out, "long_factor", large);
    fb_text_puts(out, "}");
}

static void each_kind_of_layer_has_factors_of_its_own(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_text text = {0};
    subject s;

    (void)state;
    fb_text_puts(&text, "{\"rope_parameters\": {");
    add_longrope(&text, "full_attention", 2, 3);
    fb_text_puts(&text, ", ");
    add_longrope(&text, "sliding_attention", 4, 5);
    fb_text_puts(&text,
                 "}, \"layer_types\": [\"full_attention\", \"sliding_attention\", "
                 "\"full_attention\", \"sliding_attention\"]}");
    assert_ok(read_config(&s, "gemma3_text", 512, fb_text_string(&text)));
    for (int r = 0; r < FB_N_ROPES; r++) {
        const fb_rope *rope = &s.facts.rope[r];

        assert_true(rope->short_factors[HALF - 1] == (r == FB_ROPE_GLOBAL ? 2 : 4));
        assert_true(rope->long_factors[HALF - 1] == (r == FB_ROPE_GLOBAL ? 3 : 5));
    }
    clear(&s);
    fb_text_clear(&text);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

#define MIXED                                                                          \
    "\"layer_types\": [\"full_attention\", \"full_attention\", "                       \
    "\"sliding_attention\", \"sliding_attention\"]"

/* One rotary embedding serves all layers of Qwen; Gemma 3 has two. */
static void layers_with_a_window_turn_as_their_family_does(void **state)
{
    float global[HALF], local[HALF];
    subject s;

    (void)state;
    assert_ok(read_config(
        &s, "qwen2", 512,
        "{\"use_sliding_window\": true, \"sliding_window\": 20, " MIXED
        ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6, "
        "\"factor\": 4, \"original_max_position_embeddings\": 64}}"));
    assert_int_equal(s.facts.sliding_layers, 2);
    assert_int_equal(s.facts.layer[2].rope, FB_ROPE_LOCAL);
    fb_rope_frequencies(&s.facts.rope[FB_ROPE_GLOBAL], HALF, 96, global);
    fb_rope_frequencies(&s.facts.rope[FB_ROPE_LOCAL], HALF, 96, local);
    assert_memory_equal(global, local, sizeof global);
    assert_true(s.facts.rope[FB_ROPE_LOCAL].size > 1);
    clear(&s);
    assert_ok(read_config(&s, "gemma3_text", 512, "{" MIXED "}"));
    assert_true(s.facts.rope[FB_ROPE_GLOBAL].theta == 1e6);
    assert_true(s.facts.rope[FB_ROPE_LOCAL].theta == 10000);
    clear(&s);
}

static void a_gemma_of_windows_alone_has_the_local_base(void **state)
{
    subject s;

    (void)state;
    assert_ok(read_config(
        &s, "gemma3_text", 512,
        "{\"sliding_window\": 20, \"rope_theta\": 1e6, \"rope_local_base_freq\": 5000, "
        "\"layer_types\": [\"sliding_attention\", \"sliding_attention\", "
        "\"sliding_attention\", \"sliding_attention\"]}"));
    assert_int_equal(s.facts.global_layers, LAYERS);
    assert_int_equal(s.facts.layer[0].rope, FB_ROPE_GLOBAL);
    assert_true(s.facts.rope[FB_ROPE_GLOBAL].theta == 5000);
    assert_int_equal(s.facts.longest, 20);
    clear(&s);
}

static int64_t window_of(const char *family, const char *text)
{
    int64_t window;
    subject s;

    assert_ok(read_config(&s, family, 512, text));
    window = s.facts.window;
    clear(&s);
    return window;
}

static void a_window_that_is_not_named_is_the_familys(void **state)
{
    subject s;

    (void)state;
    assert_int_equal(window_of("mistral", "{}"), 4096);
    assert_int_equal(window_of("mistral", "{\"sliding_window\": null}"), 0);
    assert_int_equal(window_of("phi3", "{}"), 0);
    assert_int_equal(window_of("gemma3_text", "{}"), 4096);
    assert_int_equal(window_of("qwen2", "{}"), 0);
    /* From layer 28 on, of four: none, so that every text fits. */
    assert_ok(read_config(&s, "qwen3", 512,
                          "{\"use_sliding_window\": true, \"sliding_window\": 20}"));
    assert_int_equal(s.facts.window, 0);
    assert_int_equal(s.facts.longest, 512);
    clear(&s);
    assert_int_equal(window_of("qwen3", "{\"use_sliding_window\": true, "
                                        "\"max_window_layers\": 2}"),
                     4096);
}

static void refused_config(const char *family, const char *text, const char *part)
{
    subject s;

    assert_true(read_config(&s, family, 512, text) != FB_OK);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    clear(&s);
}

static void refused(const char *parameters, const char *part)
{
    char text[1024];

    snprintf(text, sizeof text, "{\"rope_scaling\": %s}", parameters);
    refused_config("llama", text, part);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    refused("{\"type\": \"spiral\"}", "'rope_type' is 'spiral'");
    refused("{\"type\": \"su\"}", "'rope_type' is 'su'");
    refused("{\"type\": \"linear\", \"factor\": -1}", "'factor' is -1");
    refused("{\"type\": \"linear\", \"factor\": \"8\"}", "'factor' is a string");
    refused("{\"type\": \"longrope\", \"short_factor\": [1]}",
            "'short_factor' is no list");
    refused("{\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 4, "
            "\"high_freq_factor\": 4}",
            "'low_freq_factor' 4 is not below");
    refused("{\"type\": \"yarn\", \"factor\": 2, \"long_factor\": [1]}",
            "'long_factor' stands beside the rotary type 'yarn'");
    refused_config("mistral",
                   "{\"sliding_window\": 20, \"layer_types\": [\"full_attention\", "
                   "\"full_attention\", \"full_attention\", \"full_attention\"]}",
                   "'full_attention' beside a window; only 'sliding_attention'");
    refused_config("qwen2", "{\"rope_parameters\": {\"sliding_attention\": {}}}",
                   "'rope_parameters' is for each kind of layer; one object for all");
    refused_config("gemma3_text", "{\"rope_parameters\": {\"rope_theta\": 5}}",
                   "'rope_parameters' is one object for all layers; one for each");
    refused_config("qwen3", "{\"rope_local_base_freq\": 5000}",
                   "'rope_local_base_freq' is there; one rotary base for all");
}

static void numbers_that_a_kind_needs_are_missed_by_name(void **state)
{
    fb_text text = {0};

    (void)state;
    refused("{\"type\": \"linear\"}", "'factor' is missing");
    refused("{\"type\": \"linear\", \"factor\": null}", "'factor' is missing");
    refused("{\"type\": \"dynamic\"}", "'factor' is missing");
    refused("{\"type\": \"yarn\"}", "'factor' is missing");
    refused("{\"type\": \"llama3\"}", "'factor' is missing");
    refused("{\"type\": \"llama3\", \"factor\": 8}", "'low_freq_factor' is missing");
    refused("{\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}",
            "'high_freq_factor' is missing");
    fb_text_puts(&text, "{\"type\": \"longrope\"");
    add_list(&text, "short_factor", 1);
    add_list(&text, "long_factor", 1);
    fb_text_puts(&text, "}");
    refused(fb_text_string(&text), "'original_max_position_embeddings' is missing");
    fb_text_clear(&text);
}

/* Stated inside and beside; the same number twice is one. */
static void lengths_that_disagree_are_refused(void **state)
{
    subject s;

    (void)state;
    refused_config("llama",
                   "{\"original_max_position_embeddings\": 64, \"rope_scaling\": "
                   "{\"type\": \"yarn\", \"factor\": 2, "
                   "\"original_max_position_embeddings\": 32}}",
                   "is 64 and, among rotary parameters, 32; one number");
    assert_ok(read_config(&s, "llama", 512,
                          "{\"original_max_position_embeddings\": 64, "
                          "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": null}}"));
    assert_true(s.facts.rope[FB_ROPE_GLOBAL].factor == 8);
    clear(&s);
}

/* Microsoft's first files of Phi-3. */
static void yarn_and_su_of_phi3_are_longrope(void **state)
{
    static const char *const types[] = {"su", "yarn", "longrope"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        fb_text text = {0};
        subject s;

        fb_text_printf(&text,
                       "{\"original_max_position_embeddings\": 64, "
                       "\"rope_scaling\": {\"type\": \"%s\"",
                       types[i]);
        add_list(&text, "short_factor", 1);
        add_list(&text, "long_factor", 2);
        fb_text_puts(&text, "}}");
        assert_ok(read_config(&s, "phi3", 512, fb_text_string(&text)));
        assert_int_equal(s.facts.rope[FB_ROPE_GLOBAL].kind, FB_ROPE_LONGROPE);
        assert_true(fabs(s.facts.rope[FB_ROPE_GLOBAL].size - sqrt(1.5)) < 1e-12);
        clear(&s);
        fb_text_clear(&text);
    }
}

static fb_status part_of(const char *family, const char *text, double *out)
{
    fb_settings settings = {0};
    fb_json *config;
    fb_status status;

    assert_ok(fb_json_parse(&config, text, strlen(text)));
    settings.config = config;
    assert_ok(fb_family_of_config(&settings.family, family));
    status = fb_facts_read_rotary_part(out, &settings);
    fb_json_free(config);
    return status;
}

static void the_rotated_part_stands_inside_or_beside(void **state)
{
    double part = 0;

    (void)state;
    assert_ok(part_of("phi3", "{\"partial_rotary_factor\": 0.75}", &part));
    assert_true(part == 0.75);
    assert_ok(part_of("phi3", "{\"rope_parameters\": {\"partial_rotary_factor\": 0.5}}",
                      &part));
    assert_true(part == 0.5);
    assert_ok(part_of("llama", "{\"rope_scaling\": null}", &part));
    assert_true(part == 1);
    assert_fails(part_of("phi3",
                         "{\"partial_rotary_factor\": 1, \"rope_parameters\": "
                         "{\"partial_rotary_factor\": 0.5}}",
                         &part),
                 FB_FORMAT, "is 1 in one place and 0.5 in another");
    assert_fails(part_of("llama", "{\"partial_rotary_factor\": 0.5}", &part),
                 FB_UNSUPPORTED,
                 "'partial_rotary_factor' is 0.5; only 1 is understood with 'llama'");
}

static void angles_stay_where_sine_and_cosine_are_right(void **state)
{
    subject s;

    (void)state;
    refused_config("llama", "{\"rope_theta\": 1}",
                   "a rotary base is 1; a number above");
    refused_config("llama", "{\"rope_theta\": 1e-30}", "a rotary base is 1e-30");
    refused("{\"type\": \"linear\", \"factor\": 1e-30}",
            "rotary pair 0 turns by 5.12e+32 in a text of 512 tokens; 0 to 16777216");
    refused("{\"type\": \"yarn\", \"factor\": 2, \"rope_theta\": 1}",
            "a rotary base is 1");
    assert_int_equal(read_config(&s, "llama", 1 << 25, "{}"), FB_FORMAT);
    clear(&s);
    assert_ok(read_config(&s, "llama", 1 << 24, "{}"));
    clear(&s);
}

/* --- GGUF ----------------------------------------------------------------------- */

/* A key of a GGUF of a Llama; `text` or `value`. */
typedef struct pair {
    const char *key, *text;
    float value;
} pair;

static fb_status read_gguf(subject *s, const pair *pairs, int n, const char *tensor)
{
    static make_gguf file;
    float one = 1;

    *s = (subject){0};
    make_begin(&file);
    for (int i = 0; i < n; i++)
        if (pairs[i].text != NULL)
            make_text(&file, pairs[i].key, pairs[i].text);
        else
            make_f32(&file, pairs[i].key, pairs[i].value);
    if (tensor != NULL) {
        size_t at;

        make_f32_tensor(&file, tensor, HALF, 0);
        at = make_data(&file);
        for (size_t i = 0; i < HALF; i++)
            memcpy(file.bytes + at + 4 * i, &one, 4);
    }
    assert_ok(fb_gguf_open_bytes(&s->gguf, file.bytes, file.n));
    s->settings.gguf = s->gguf;
    assert_ok(fb_family_of_gguf(&s->settings.family, (fb_span){"llama", 5}));
    return read_facts(s, 512, fb_gguf_tensors(s->gguf));
}

#define TYPE   "llama.rope.scaling.type"
#define FACTOR "llama.rope.scaling.factor"
#define SIZE   "llama.rope.scaling.attn_factor"

static void check_gguf(const pair *pairs, int n, fb_rope_kind kind, double factor,
                       double size)
{
    subject s;

    assert_ok(read_gguf(&s, pairs, n, NULL));
    assert_int_equal(s.facts.rope[FB_ROPE_GLOBAL].kind, kind);
    assert_true(s.facts.rope[FB_ROPE_GLOBAL].factor == factor);
    if (fabs(s.facts.rope[FB_ROPE_GLOBAL].size - size) > 1e-6)
        fail_msg("size %.9g, not %.9g", s.facts.rope[FB_ROPE_GLOBAL].size, size);
    clear(&s);
}

static void a_gguf_is_stretched_as_by_llama_cpp(void **state)
{
    (void)state;
    check_gguf((pair[]){{FACTOR, NULL, 4}}, 1, FB_ROPE_LINEAR, 4, 1);
    check_gguf((pair[]){{"llama.rope.scale_linear", NULL, 4}}, 1, FB_ROPE_LINEAR, 4, 1);
    check_gguf((pair[]){{TYPE, "none", 0}, {FACTOR, NULL, 4}}, 2, FB_ROPE_PLAIN, 1, 1);
    check_gguf((pair[]){{TYPE, "yarn", 0}, {FACTOR, NULL, 4}}, 2, FB_ROPE_YARN, 4,
               1 + 0.1 * log(4));
    check_gguf((pair[]){{TYPE, "yarn", 0}, {FACTOR, NULL, 4}, {SIZE, NULL, 0.5f}}, 3,
               FB_ROPE_YARN, 4, 0.5 * (1 + 0.1 * log(4)));
    check_gguf((pair[]){{TYPE, "linear", 0}, {FACTOR, NULL, 4}, {SIZE, NULL, 0.5f}}, 3,
               FB_ROPE_LINEAR, 4, 0.5);
    check_gguf((pair[]){{TYPE, "yarn", 0},
                        {FACTOR, NULL, 4},
                        {"llama.rope.scaling.yarn_ext_factor", NULL, 1},
                        {"llama.rope.scaling.yarn_attn_factor", NULL, 1},
                        {"llama.rope.scaling.yarn_log_multiplier", NULL, 0}},
               5, FB_ROPE_YARN, 4, 1 + 0.1 * log(4));
}

static void refused_gguf(pair one, const char *tensor, const char *part)
{
    const pair pairs[] = {one, {TYPE, "yarn", 0}};
    subject s;

    assert_true(read_gguf(&s, pairs, tensor == NULL ? 2 : 1, tensor) != FB_OK);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    clear(&s);
}

static void stretching_that_is_not_done_is_refused_by_key(void **state)
{
    (void)state;
    refused_gguf((pair){"llama.rope.scaling.yarn_ext_factor", NULL, 0.5f}, NULL,
                 "yarn_ext_factor' is 0.5; only 1 is understood");
    refused_gguf((pair){"llama.rope.scaling.yarn_attn_factor", NULL, 2}, NULL,
                 "yarn_attn_factor' is 2; only 1 is understood");
    refused_gguf((pair){"llama.rope.scaling.yarn_log_multiplier", NULL, 1}, NULL,
                 "yarn_log_multiplier' is 1; only 0 is understood");
    refused_gguf((pair){"llama.rope.scaling.yarn_ext_factor", NULL, 1},
                 "rope_freqs.weight", "yarn_ext_factor' is 1; only 0 is understood");
    refused_gguf((pair){"llama.rope.freq_base_swa", NULL, 5000}, NULL,
                 "'llama.rope.freq_base_swa' is there; one rotary base");
    refused_gguf((pair){FACTOR, NULL, 4}, "rope_freqs.weight",
                 "stretched by 4 and by factors per pair");
    refused_gguf((pair){SIZE, NULL, 2}, "rope_factors_long.weight",
                 "'rope_factors_short.weight' is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(each_kind_of_layer_has_factors_of_its_own),
        cmocka_unit_test(layers_with_a_window_turn_as_their_family_does),
        cmocka_unit_test(a_gemma_of_windows_alone_has_the_local_base),
        cmocka_unit_test(a_window_that_is_not_named_is_the_familys),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
        cmocka_unit_test(numbers_that_a_kind_needs_are_missed_by_name),
        cmocka_unit_test(lengths_that_disagree_are_refused),
        cmocka_unit_test(yarn_and_su_of_phi3_are_longrope),
        cmocka_unit_test(the_rotated_part_stands_inside_or_beside),
        cmocka_unit_test(angles_stay_where_sine_and_cosine_are_right),
        cmocka_unit_test(a_gguf_is_stretched_as_by_llama_cpp),
        cmocka_unit_test(stretching_that_is_not_done_is_refused_by_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
