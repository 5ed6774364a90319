/* test_model_rope.c - rotary frequencies are those of transformers, for every kind of
 * stretching, read from config.json as it writes them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "model/facts_read.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>

enum { HALF = 16 };

/* The facts that a config.json of these parameters gives; clear `room`. */
static void read_case(const char *parameters, int64_t trained, const char *key,
                      fb_model_facts *facts, fb_facts_room *room, fb_json **config)
{
    fb_settings settings;
    char text[4096];

    snprintf(text, sizeof text, "{\"max_position_embeddings\": %lld, \"%s\": %s}",
             (long long)trained, key, parameters);
    assert_ok(fb_json_parse(config, text, strlen(text)));
    assert_ok(fb_family_of_config(&settings.family, "llama"));
    settings = (fb_settings){.family = settings.family, .config = *config};
    *facts = (fb_model_facts){
        .family = settings.family, .rotary_dim = 2 * HALF, .context_length = trained};
    *room = (fb_facts_room){0};
    assert_ok(fb_facts_read_rope(facts, room, &settings, NULL));
}

static void check_case(const fb_json *c, const char *key)
{
    const fb_json *theirs = fb_json_get(c, "frequency");
    const char *parameters;
    fb_model_facts facts;
    fb_facts_room room;
    fb_json *config;
    int64_t trained, length;
    float ours[HALF];
    double size;

    assert_ok(fb_json_want_string(&parameters, c, "parameters"));
    assert_ok(fb_json_want_int(&trained, c, "trained"));
    assert_ok(fb_json_want_int(&length, c, "length"));
    assert_ok(fb_json_want_real(&size, c, "size"));
    read_case(parameters, trained, key, &facts, &room, &config);
    fb_rope_frequencies(&facts.rope[FB_ROPE_GLOBAL], HALF, length, ours);
    assert_int_equal(fb_json_count(theirs), HALF);
    for (int i = 0; i < HALF; i++) {
        double value;

        assert_true(fb_json_real(fb_json_at(theirs, (size_t)i), &value));
        if (fabs((double)ours[i] - value) > 3e-7 * value)
            fail_msg("%s, length %lld, pair %d: %.9g, not %.9g", parameters,
                     (long long)length, i, (double)ours[i], value);
    }
    assert_true(fabs(facts.rope[FB_ROPE_GLOBAL].size - size) < 1e-6);
    fb_facts_clear(&room);
    fb_json_free(config);
}

static void frequencies_are_those_of_transformers(void **state)
{
    fb_json *golden, *cases;

    (void)state;
    assert_ok(fb_json_read(&golden, "tests/golden/rope/rope.json", 1 << 20));
    assert_ok(fb_json_want_array(&cases, golden, "cases"));
    assert_true(fb_json_count(cases) >= 12);
    for (size_t i = 0; i < fb_json_count(cases); i++) {
        check_case(fb_json_at(cases, i), "rope_parameters");
        check_case(fb_json_at(cases, i), "rope_scaling");
    }
    fb_json_free(golden);
}

static void refused(const char *parameters, const char *part)
{
    fb_settings settings = {0};
    fb_model_facts facts;
    fb_facts_room room = {0};
    fb_json *config;
    char text[1024];

    snprintf(text, sizeof text, "{\"rope_scaling\": %s}", parameters);
    assert_ok(fb_json_parse(&config, text, strlen(text)));
    assert_ok(fb_family_of_config(&settings.family, "llama"));
    settings.config = config;
    facts = (fb_model_facts){
        .family = settings.family, .rotary_dim = 2 * HALF, .context_length = 512};
    assert_true(fb_facts_read_rope(&facts, &room, &settings, NULL) != FB_OK);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    fb_facts_clear(&room);
    fb_json_free(config);
}

static void what_makes_no_sense_is_refused_by_name(void **state)
{
    (void)state;
    refused("{\"type\": \"spiral\"}", "'rope_type' is 'spiral'");
    refused("{\"type\": \"linear\", \"factor\": -1}", "'factor' is -1");
    refused("{\"type\": \"linear\", \"factor\": \"8\"}", "'factor' is a string");
    refused("{\"type\": \"longrope\", \"short_factor\": [1]}",
            "'short_factor' is no list");
    refused("{\"type\": \"llama3\", \"low_freq_factor\": 4, \"high_freq_factor\": 4}",
            "'low_freq_factor' 4 is not below");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(what_makes_no_sense_is_refused_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
