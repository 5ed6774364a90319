/* test_golden_templates.c - what is written around a user's turn equals what
 * transformers makes of the models' own templates.
 *
 * tests/golden/templates/templates.json (render.py).
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "model/template.h"
#include "tests/support/golden.h"
#include "tests/support/test.h"

enum { TEMPLATES = 25 };

static const char *text_of(json_t *row, const char *key)
{
    return json_string_value(golden_at(row, key));
}

static void every_known_template_writes_what_jinja_writes(void **state)
{
    json_t *root = golden_load("tests/golden/templates/templates.json");
    json_t *rows = golden_at(root, "rows");

    (void)state;
    assert_int_equal(json_array_size(rows), TEMPLATES);
    for (size_t i = 0; i < TEMPLATES; i++) {
        json_t *row = json_array_get(rows, i);
        const char *bos = text_of(row, "bos"), *before = text_of(row, "before");
        fb_template t;

        fb_template_of_hash(&t, text_of(row, "sha256"));
        if (t.family == NULL) fail_msg("%s is not known", text_of(row, "name"));
        assert_string_equal(t.family, text_of(row, "family"));
        assert_string_equal(t.before, before);
        assert_string_equal(t.after, text_of(row, "after"));
        assert_int_equal(t.has_bos,
                         bos[0] != '\0' && strncmp(before, bos, strlen(bos)) == 0);
        assert_string_equal(t.sha256, text_of(row, "sha256"));
    }
    json_decref(root);
}

/* Each family has a form of its own for models whose text is not known. */
static void every_family_can_be_chosen(void **state)
{
    json_t *root = golden_load("tests/golden/templates/templates.json");
    json_t *rows = golden_at(root, "rows");

    (void)state;
    for (size_t i = 0; i < TEMPLATES; i++) {
        json_t *row = json_array_get(rows, i);
        const char *family = text_of(row, "family");
        fb_template t;

        fb_template_find(&t, "{# another #}");
        assert_null(t.family);
        assert_ok(fb_template_choose(&t, family));
        assert_string_equal(t.family, family);
        assert_string_equal(t.after, text_of(row, "after"));
        fb_template_of_hash(&t, text_of(row, "sha256")); /* and the file's own stays */
        assert_ok(fb_template_choose(&t, family));
        assert_string_equal(t.before, text_of(row, "before"));
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_template_writes_what_jinja_writes),
        cmocka_unit_test(every_family_can_be_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
