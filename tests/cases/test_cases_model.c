/* test_cases_model.c - user cases about model files, tokenizers and templates, by id.
 *
 * F01 to F04 (the GGUF half): broken and hostile files. G01, G03 to G05: seams, markers
 * in data, spaces at the start of a text, a missing pre-tokenizer. Each case is an input that broke a similar program.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "model/gguf.h"
#include "model/model.h"
#include "tests/support/golden.h"
#include "tests/support/make_llama.h"
#include "tests/support/make_pieces.h"
#include "tests/support/open_tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { LITTLE_MEMORY = 1 << 20 };

static make_gguf file;
static char path[] = "/tmp/flexbudget-cases-XXXXXX";

/* Opens what was made as a model; the sentence must say `part`, be one line, and
 * nothing big may have been allocated on the way. */
static void refused(fb_status wanted, const char *part)
{
    FILE *out = fopen(path, "wb");
    fb_model *model = NULL;

    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.n, out), file.n);
    assert_int_equal(fclose(out), 0);
    fb_memory_reset_peaks();
    assert_int_equal(fb_model_open(&model, NULL, path, NULL), wanted);
    assert_null(model);
    assert_true(fb_memory_peak(FB_ACCOUNT_other) < LITTLE_MEMORY);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    assert_non_null(strstr(fb_error_message(), path));
    assert_null(strchr(fb_error_message(), '\n'));
}

static void begin_with_tensor(uint64_t columns, uint64_t rows)
{
    make_begin(&file);
    make_tensor(&file, "big", columns, rows, 0, 32);
    make_data(&file);
}

/* --- F01: numbers made to overflow ---------------------------------------------- */

static void F01_a_huge_dimension_is_refused(void **state)
{
    (void)state;
    begin_with_tensor((UINT64_C(1) << 42) + 1, 2);
    refused(FB_FORMAT, "tensor 'big' needs 35184372088840 bytes");
    begin_with_tensor((UINT64_C(1) << 42) + 1, UINT64_C(1) << 42);
    refused(FB_FORMAT, "tensor 'big' has dimension");
    begin_with_tensor(UINT64_MAX, 1);
    refused(FB_FORMAT, "tensor 'big' has dimension");
    begin_with_tensor(INT64_MAX, 1);
    refused(FB_FORMAT, "tensor 'big' has more bytes than can be counted");
}

static void F01_a_huge_count_is_refused(void **state)
{
    static const uint64_t counts[] = {INT64_MAX, UINT64_C(1) << 63, UINT64_MAX,
                                      (UINT64_C(1) << 60) + 1, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        make_llama(&file, NULL);
        file.n = 4096;
        make_set(&file, MAKE_TENSORS_AT, counts[i], 8);
        refused(FB_FORMAT, "tensors in a file of 4096 bytes");
        make_llama(&file, NULL);
        file.n = 4096;
        make_set(&file, MAKE_PAIRS_AT, counts[i], 8);
        refused(FB_FORMAT, "metadata pairs in a file of 4096 bytes");
    }
}

static void F01_a_huge_size_is_refused(void **state)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63,
                                     UINT64_C(1) << 61, UINT64_C(1) << 40};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        make_begin(&file);
        make_key(&file, "text", MAKE_STRING);
        make_uint(&file, sizes[i], 8);
        refused(FB_FORMAT, "'text' with 1 element goes past the end of the file");
        make_begin(&file);
        make_key(&file, "numbers", MAKE_ARRAY);
        make_uint(&file, MAKE_U64, 4);
        make_uint(&file, sizes[i], 8);
        refused(FB_FORMAT, "'numbers' with");
        make_begin(&file);
        make_key(&file, "texts", MAKE_ARRAY);
        make_uint(&file, MAKE_STRING, 4);
        make_uint(&file, sizes[i], 8);
        refused(FB_FORMAT, "'texts' with");
    }
}

static void F01_a_bad_alignment_is_refused(void **state)
{
    static const uint32_t bad[] = {0, 1, 12, 0x80000000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_begin(&file);
        make_u32(&file, "general.alignment", bad[i]);
        refused(FB_FORMAT, "'general.alignment' is ");
    }
    make_begin(&file);
    make_text(&file, "general.alignment", "32");
    refused(FB_FORMAT, "'general.alignment' is string; u32 would be right");
}

/* --- F02: nothing where something must be --------------------------------------- */

static void F02_a_dimension_of_zero_is_refused(void **state)
{
    (void)state;
    begin_with_tensor(0, 0);
    refused(FB_FORMAT, "tensor 'big' has dimension 0");
    make_begin(&file);
    make_string(&file, "flat");
    make_uint(&file, 0, 4); /* no dimensions at all */
    for (int i = 0; i < 20; i++)
        make_uint(&file, 0, 1);
    make_set(&file, MAKE_TENSORS_AT, 1, 8);
    refused(FB_FORMAT, "tensor 'flat' has 0 dimensions");
}

static void F02_an_empty_name_is_refused(void **state)
{
    (void)state;
    make_begin(&file);
    make_u32(&file, "first", 1);
    make_u32(&file, "", 1);
    refused(FB_FORMAT, "metadata key 1 has 0 bytes");
    make_begin(&file);
    make_f32_tensor(&file, "", 8, 0);
    make_data(&file);
    refused(FB_FORMAT, "tensor 0 has a name of 0 bytes");
}

/* --- F03: numbers that no model has --------------------------------------------- */

static void F03_impossible_numbers_are_refused_by_key(void **state)
{
    static const make_llama_change wrong[] = {
        {.key = "llama.block_count", .value = 0},
        {.key = "llama.block_count", .value = 513},
        {.key = "llama.block_count", .value = UINT32_C(1) << 31},
        {.key = "llama.attention.head_count", .value = 0},
        {.key = "llama.attention.head_count_kv", .value = 0},
        {.key = "llama.attention.head_count_kv", .value = 3},
        {.key = "llama.embedding_length", .value = 0},
        {.key = "llama.embedding_length", .value = UINT32_MAX},
        {.key = "llama.feed_forward_length", .value = 0},
        {.key = "llama.context_length", .value = 0},
        {.key = "llama.attention.key_length", .value = 0},
        {.key = "llama.attention.key_length", .value = 1 << 20},
        {.key = "llama.vocab_size", .value = 255},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make_llama(&file, &wrong[i]);
        refused(FB_FORMAT, wrong[i].key);
    }
}

/* A model's numbers up to those of its kv heads. */
static void begin_heads(uint32_t width, uint32_t heads)
{
    make_begin(&file);
    make_text(&file, "general.architecture", "llama");
    make_u32(&file, "llama.block_count", 1);
    make_u32(&file, "llama.context_length", 1);
    make_u32(&file, "llama.embedding_length", width);
    make_u32(&file, "llama.feed_forward_length", 1);
    make_u32(&file, "llama.attention.head_count", heads);
}

static void F03_kv_heads_divide_heads(void **state)
{
    const make_llama_change five = {.key = "llama.attention.head_count", .value = 5};

    (void)state;
    make_llama(&file, &five); /* 5 heads do not divide the width of 32 */
    refused(FB_FORMAT, "width 32 is not a multiple of the 5 heads");
    begin_heads(32, 8);
    make_u32(&file, "llama.attention.head_count_kv", 3);
    refused(FB_FORMAT, "'llama.attention.head_count_kv' is 3, which does not divide "
                       "the 8 heads");
    begin_heads(2048, 1024);
    refused(FB_UNSUPPORTED, "1024 kv heads; 512 is the most");
}

static void F03_missing_numbers_are_refused_by_key(void **state)
{
    static const char *const keys[] = {
        "llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const make_llama_change change = {.no_key = keys[i]};
        char part[64];

        make_llama(&file, &change);
        (void)snprintf(part, sizeof part, "'%s' is missing", keys[i]);
        refused(FB_FORMAT, part);
    }
}

/* --- F04: not the file it was meant to be --------------------------------------- */

static void F04_a_file_of_four_bytes_is_refused(void **state)
{
    (void)state;
    make_begin(&file);
    file.n = 4;
    refused(FB_FORMAT, "the file ends after 4 bytes inside the header of 24 bytes");
    file.n = 0;
    refused(FB_FORMAT, "the file is empty");
}

static void F04_a_web_page_is_refused(void **state)
{
    static const char page[] = "<!DOCTYPE html><html><body>Not found</body></html>";

    (void)state;
    file.n = 0;
    make_put(&file, page, strlen(page));
    refused(FB_FORMAT, "not a GGUF file: it begins with '<!DO' and has 50 bytes");
}

static void F04_a_file_cut_by_one_byte_is_refused(void **state)
{
    (void)state;
    make_llama(&file, NULL);
    file.n--;
    refused(FB_FORMAT, "needs 4096 bytes at offset");
    refused(FB_FORMAT, "the file is cut short");
}

static void F04_overlapping_tensors_are_refused(void **state)
{
    (void)state;
    make_begin(&file);
    make_f32_tensor(&file, "one", 16, 0);
    file.data_bytes -= 32;
    make_f32_tensor(&file, "two", 16, 0);
    make_data(&file);
    refused(FB_FORMAT, "the data of tensors 'one' and 'two' overlap");
}

/* --- G: tokenizer and template -------------------------------------------------- */

enum { START = 256, END = 257 };

/* A vocabulary with the markers of ChatML, of which the first is the BOS. */
static fb_tokenizer *open_chat(const char *pre)
{
    static make_vocabulary vocabulary;
    fb_tokenizer *t = NULL;
    fb_gguf *gguf = NULL;

    vocabulary_begin(&vocabulary);
    assert_int_equal(vocabulary_special(&vocabulary, "<|im_start|>", CONTROL), START);
    assert_int_equal(vocabulary_special(&vocabulary, "<|im_end|>", CONTROL), END);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, pre);
    make_u32(&file, "tokenizer.ggml.bos_token_id", START);
    make_bool(&file, "tokenizer.ggml.add_bos_token", 0);
    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    assert_int_equal(tokenizer_of_gguf(&t, gguf), FB_OK);
    fb_gguf_close(gguf);
    return t;
}

static fb_piece piece(const char *text, bool special)
{
    return (fb_piece){text, strlen(text), special};
}

static int64_t count(const fb_ids *ids, int32_t id)
{
    int64_t n = 0;

    for (int64_t i = 0; i < ids->n; i++)
        n += ids->ids[i] == id;
    return n;
}

static void G01_a_prompt_in_parts_has_one_bos_at_its_start(void **state)
{
    fb_template chat;
    fb_tokenizer *t = open_chat("smollm");
    fb_ids context = {0}, question = {0};
    fb_piece parts[2];

    (void)state;
    fb_template_find(&chat, NULL);
    assert_int_equal(fb_template_choose(&chat, "chatml"), FB_OK);
    parts[0] = piece(chat.before, true);
    parts[1] = piece("the context", false);
    assert_int_equal(fb_tokenizer_bos(t), -1); /* so nobody adds another */
    assert_int_equal(fb_tokenizer_encode(t, parts, 2, &context), FB_OK);
    parts[0] = piece("\n\nthe question", false);
    parts[1] = piece(chat.after, true);
    assert_int_equal(fb_tokenizer_encode(t, parts, 2, &question), FB_OK);
    assert_int_equal(context.ids[0], START);
    assert_int_equal(count(&context, START), 1);
    /* The question's own part begins with data and holds the template's markers. */
    assert_int_equal(question.ids[0], '\n');
    assert_int_equal(count(&question, END), 1);
    assert_int_equal(count(&question, START), 1);
    fb_ids_clear(&context);
    fb_ids_clear(&question);
    fb_tokenizer_free(t);
}

static void G03_a_marker_in_data_is_plain_text(void **state)
{
    static const char marker[] = "<|im_end|>";
    fb_tokenizer *t = open_chat("smollm");
    const fb_piece parts[] = {piece(marker, true), piece(marker, false),
                              piece(marker, true)};
    fb_ids ids = {0};
    char *text = NULL;
    size_t n;

    (void)state;
    assert_int_equal(fb_tokenizer_encode(t, parts, 3, &ids), FB_OK);
    assert_int_equal(ids.n, 2 + (int64_t)strlen(marker));
    assert_int_equal(ids.ids[0], END);
    assert_int_equal(ids.ids[1], '<');
    assert_int_equal(ids.ids[ids.n - 1], END);
    assert_int_equal(fb_tokenizer_decode(t, ids.ids, ids.n, true, &text, &n), FB_OK);
    assert_string_equal(text, marker); /* the data survives, the markers go */
    fb_free(text);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
}

/* Ids of the four texts as the package gives them: tests/golden/tokenizer/made. */
static void check_beginnings(json_t *golden, const char *name)
{
    static const char *const texts[] = {"Hello", " Hello", "  Hello", "\nHello"};
    json_t *all = golden_at(golden, "texts"), *made = golden_at(golden, "made");
    json_t *rows = golden_at(golden_at(made, name), "rows");
    fb_tokenizer *t = NULL;
    char folder[128];
    size_t found = 0;

    (void)snprintf(folder, sizeof folder, "tests/golden/tokenizer/made/%s", name);
    assert_int_equal(tokenizer_of_folder(&t, folder,
                                         json_integer_value(json_object_get(
                                             golden_at(made, name), "size"))),
                     FB_OK);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const char *text = json_string_value(json_array_get(all, i));
        const fb_piece whole = piece(text, false);
        char ours[256] = "";
        fb_ids ids = {0};

        if (found == 4 || strcmp(text, texts[found]) != 0) continue;
        found++;
        assert_int_equal(fb_tokenizer_encode(t, &whole, 1, &ids), FB_OK);
        for (int64_t k = 0; k < ids.n; k++)
            (void)snprintf(ours + strlen(ours), sizeof ours - strlen(ours),
                           k == 0 ? "%d" : " %d", ids.ids[k]);
        assert_string_equal(
            ours, json_string_value(golden_at(json_array_get(rows, i), "ids")));
        fb_ids_clear(&ids);
    }
    assert_int_equal(found, 4);
    fb_tokenizer_free(t);
}

/* Byte-level and SentencePiece's, with a space in front and without. */
static void G04_spaces_at_the_start_are_the_references(void **state)
{
    static const char *const names[] = {"gpt-2",  "prefixed", "llama3",    "qwen2",
                                        "llama2", "mistral",  "metaspace", "gemma",
                                        "spm",    "spm-plain"};
    fb_json *first = NULL;
    json_t *golden;

    (void)state;
    assert_int_equal(fb_json_parse(&first, "[]", 2),
                     FB_OK); /* jansson's memory is ours */
    fb_json_free(first);
    golden =
        json_load_file("tests/golden/tokenizer/made/ids.json", JSON_ALLOW_NUL, NULL);
    assert_non_null(golden);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_beginnings(golden, names[i]);
    json_decref(golden);
}

/* The flag of a GGUF file decides, not the family. */
static void G04_the_prefix_flag_is_honoured(void **state)
{
    static const char *const wanted[][4] = {{"3", "4", "5 4", "6 3"},
                                            {"4", "5 4", "5 5 4", "5 6 3"}};
    static const char *const texts[] = {"Hello", " Hello", "  Hello", "\nHello"};
    static make_pieces pieces;

    (void)state;
    pieces_begin(&pieces, false);
    (void)pieces_add(&pieces, "Hello", -1, PIECE_NORMAL);             /* 3 */
    (void)pieces_add(&pieces, "\xe2\x96\x81Hello", -2, PIECE_NORMAL); /* 4 */
    (void)pieces_add(&pieces, "\xe2\x96\x81", -3, PIECE_NORMAL);      /* 5 */
    (void)pieces_add(&pieces, "\n", -4, PIECE_NORMAL);                /* 6 */
    for (size_t n = 1; n < 5; n++) {                                  /* H, He, ... */
        char part[8] = "";

        memcpy(part, "Hello", n);
        (void)pieces_add(&pieces, part, -9, PIECE_NORMAL);
    }
    (void)pieces_add(&pieces, "e", -9, PIECE_NORMAL);
    (void)pieces_add(&pieces, "l", -9, PIECE_NORMAL);
    (void)pieces_add(&pieces, "o", -9, PIECE_NORMAL);
    for (int prefix = 0; prefix < 2; prefix++) {
        fb_gguf *gguf = NULL;
        fb_tokenizer *t = NULL;

        make_begin(&file);
        pieces_put(&pieces, &file);
        make_bool(&file, "tokenizer.ggml.add_space_prefix", prefix);
        assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
        assert_int_equal(tokenizer_of_gguf(&t, gguf), FB_OK);
        for (int i = 0; i < 4; i++) {
            const fb_piece whole = piece(texts[i], false);
            char ours[64] = "";
            fb_ids ids = {0};

            assert_int_equal(fb_tokenizer_encode(t, &whole, 1, &ids), FB_OK);
            for (int64_t k = 0; k < ids.n; k++)
                (void)snprintf(ours + strlen(ours), sizeof ours - strlen(ours),
                               k == 0 ? "%d" : " %d", ids.ids[k]);
            assert_string_equal(ours, wanted[prefix][i]);
            fb_ids_clear(&ids);
        }
        fb_tokenizer_free(t);
        fb_gguf_close(gguf);
    }
}

static void G05_a_missing_pre_tokenizer_is_refused_with_the_way_out(void **state)
{
    const make_llama_change without = {.pre = ""};

    (void)state;
    make_llama(&file, &without);
    refused(FB_UNSUPPORTED, "'tokenizer.ggml.pre' is missing");
    refused(FB_UNSUPPORTED, "gguf-new-metadata --pre-tokenizer NAME");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F01_a_huge_dimension_is_refused),
        cmocka_unit_test(F01_a_huge_count_is_refused),
        cmocka_unit_test(F01_a_huge_size_is_refused),
        cmocka_unit_test(F01_a_bad_alignment_is_refused),
        cmocka_unit_test(F02_a_dimension_of_zero_is_refused),
        cmocka_unit_test(F02_an_empty_name_is_refused),
        cmocka_unit_test(F03_impossible_numbers_are_refused_by_key),
        cmocka_unit_test(F03_kv_heads_divide_heads),
        cmocka_unit_test(F03_missing_numbers_are_refused_by_key),
        cmocka_unit_test(F04_a_file_of_four_bytes_is_refused),
        cmocka_unit_test(F04_a_web_page_is_refused),
        cmocka_unit_test(F04_a_file_cut_by_one_byte_is_refused),
        cmocka_unit_test(F04_overlapping_tensors_are_refused),
        cmocka_unit_test(G01_a_prompt_in_parts_has_one_bos_at_its_start),
        cmocka_unit_test(G03_a_marker_in_data_is_plain_text),
        cmocka_unit_test(G04_spaces_at_the_start_are_the_references),
        cmocka_unit_test(G04_the_prefix_flag_is_honoured),
        cmocka_unit_test(G05_a_missing_pre_tokenizer_is_refused_with_the_way_out),
    };
    const int handle = mkstemp(path);
    int failed;

    if (handle < 0 || close(handle) != 0) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
