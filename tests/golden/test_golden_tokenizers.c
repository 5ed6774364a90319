/* test_golden_tokenizers.c - ids equal those of Hugging Face `tokenizers` and of
 * SentencePiece, for small tokenizers of every kind.
 *
 * tests/golden/tokenizer/made: one folder each, and ids.json (make_tokenizers.py).
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/golden.h"
#include "tests/support/open_tokenizer.h"
#include "tests/support/test.h"

#include <stdlib.h>

#define MADE "tests/golden/tokenizer/made/"

enum { PADDING = 8, KINDS = 17, TEXTS = 154 };

static json_t *all;

static int load(void **state)
{
    fb_json *first = NULL;

    (void)state;
    /* From here on jansson's memory is the program's: what is loaded is freed so. */
    if (fb_json_parse(&first, "[]", 2) != FB_OK) return 1;
    fb_json_free(first);
    all = json_load_file(MADE "ids.json", JSON_ALLOW_NUL, NULL);
    return all == NULL;
}

static int unload(void **state)
{
    (void)state;
    json_decref(all);
    return 0;
}

static fb_tokenizer *open_made(const char *name, json_t *made)
{
    const int64_t n = json_integer_value(json_object_get(made, "size"));
    fb_tokenizer *t = NULL;
    char folder[128];

    (void)snprintf(folder, sizeof folder, MADE "%s", name);
    if (tokenizer_of_folder(&t, folder, n + PADDING) != FB_OK)
        fail_msg("%s: %s", name, fb_error_message());
    assert_int_equal(fb_tokenizer_size(t), n + PADDING);
    return t;
}

/* Ids as "1 2 3". */
static void encode(const fb_tokenizer *t, const json_t *text, bool special, fb_ids *ids,
                   char *out, size_t n_out)
{
    const fb_piece piece = {json_string_value(text), json_string_length(text), special};
    size_t at = 0;

    out[0] = '\0';
    assert_ok(fb_tokenizer_encode(t, &piece, 1, ids));
    for (int64_t i = 0; i < ids->n; i++)
        at +=
            (size_t)snprintf(out + at, n_out - at, i == 0 ? "%d" : " %d", ids->ids[i]);
    assert_true(at < n_out);
}

static int check_ids(const char *name, const fb_tokenizer *t, const json_t *text,
                     const char *wanted, bool special, fb_ids *ids)
{
    static char ours[1 << 16];

    encode(t, text, special, ids, ours, sizeof ours);
    if (strcmp(ours, wanted) == 0) return 0;
    print_error("%s, special tokens %s, '%s'\n  theirs %s\n  ours   %s\n", name,
                special ? "recognised" : "plain", json_string_value(text), wanted,
                ours);
    return 1;
}

static int check_decoding(const char *name, const fb_tokenizer *t, const json_t *text,
                          json_t *row, const fb_ids *ids)
{
    const json_t *decoded = json_object_get(row, "decoded");
    const json_t *wanted = decoded != NULL ? decoded : text;
    char *back = NULL;
    size_t n;
    int wrong;

    if (json_object_get(row, "broken") != NULL) return 0;
    assert_ok(fb_tokenizer_decode(t, ids->ids, ids->n, false, &back, &n));
    wrong = n != json_string_length(wanted) ||
            memcmp(back, json_string_value(wanted), n) != 0;
    if (wrong)
        print_error("%s, decoding\n  theirs '%s'\n  ours   '%s'\n", name,
                    json_string_value(wanted), back);
    fb_free(back);
    return wrong;
}

/* SentencePiece takes no text for a control token, so its ids are those of data. */
static int check_row(const char *name, const fb_tokenizer *t, const json_t *text,
                     json_t *row, bool has_special)
{
    const char *special = json_string_value(json_object_get(row, "ids"));
    const json_t *plain = json_object_get(row, "plain");
    fb_ids ids = {0};
    int wrong = check_ids(name, t, text, special, has_special, &ids);

    wrong += check_decoding(name, t, text, row, &ids);
    fb_ids_clear(&ids);
    wrong += check_ids(name, t, text,
                       plain == NULL ? special : json_string_value(plain), false, &ids);
    fb_ids_clear(&ids);
    return wrong;
}

static void every_kind_has_the_ids_of_its_package(void **state)
{
    json_t *made = json_object_get(all, "made"), *kind;
    const json_t *texts = json_object_get(all, "texts");
    const char *name;
    int wrong = 0;

    (void)state;
    assert_int_equal(json_object_size(made), KINDS);
    assert_int_equal(json_array_size(texts), TEXTS);
    json_object_foreach(made, name, kind)
    {
        const json_t *rows = json_object_get(kind, "rows");
        const char *package = json_string_value(json_object_get(kind, "kind"));
        fb_tokenizer *t = open_made(name, kind);

        for (size_t i = 0; i < TEXTS; i++)
            wrong +=
                check_row(name, t, json_array_get(texts, i), json_array_get(rows, i),
                          strcmp(package, "tokenizers") == 0);
        fb_tokenizer_free(t);
    }
    assert_int_equal(wrong, 0);
}

static void marks_are_the_folders(void **state)
{
    static const char *const names[] = {"llama3", "spm", "gpt-2", "spm-plain"};
    static const bool adds[] = {true, true, false, true};

    (void)state;
    for (int i = 0; i < 4; i++) {
        json_t *kind = golden_at(json_object_get(all, "made"), names[i]);
        fb_tokenizer *t = open_made(names[i], kind);

        assert_int_equal(fb_tokenizer_bos(t) >= 0, adds[i]);
        if (adds[i]) {
            size_t n;
            const char *bos = fb_tokenizer_bytes(t, fb_tokenizer_bos(t), false, &n);

            assert_true(n == 3 && memcmp(bos, "<s>", 3) == 0);
        }
        fb_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_the_ids_of_its_package),
        cmocka_unit_test(marks_are_the_folders),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
