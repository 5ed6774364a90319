/* test_model_window.c - which layers have a window, as config.json says it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_read.h"
#include "tests/support/test.h"

enum { LAYERS = 4 };

/* "0101": a 1 for each layer that has a window; clear `room`. */
static const char *windows_of(const char *config)
{
    static char out[LAYERS + 1];
    fb_settings settings = {0};
    fb_facts_room room = {0};
    fb_model_facts facts;
    fb_json *json;

    assert_ok(fb_json_parse(&json, config, strlen(config)));
    assert_ok(fb_family_of_config(&settings.family, "gemma3_text"));
    settings.config = json;
    facts = (fb_model_facts){
        .family = settings.family, .layers = LAYERS, .context_length = 64};
    assert_ok(fb_facts_read_layers(&facts, &room, &settings));
    for (int i = 0; i < LAYERS; i++)
        out[i] = facts.layer[i].window > 0 ? '1' : '0';
    fb_facts_clear(&room);
    fb_json_free(json);
    return out;
}

static void a_pattern_may_be_longer_than_the_model(void **state)
{
    (void)state;
    assert_string_equal(windows_of("{\"sliding_window\": 8}"), "1111"); /* six */
    assert_string_equal(
        windows_of("{\"sliding_window\": 8, \"sliding_window_pattern\": 6}"), "1111");
    assert_string_equal(
        windows_of("{\"sliding_window\": 8, \"_sliding_window_pattern\": 5}"), "1111");
    assert_string_equal(
        windows_of("{\"sliding_window\": 8, \"sliding_window_pattern\": 4}"), "1110");
    assert_string_equal(
        windows_of("{\"sliding_window\": 8, \"sliding_window_pattern\": 2}"), "1010");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_may_be_longer_than_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
