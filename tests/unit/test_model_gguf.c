/* test_model_gguf.c - a GGUF file is read as it is, or refused for what is wrong.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "model/gguf.h"
#include "tests/support/make_gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static make_gguf file;

/* Two pairs and two tensors, sorted neither by name nor by key. */
static void make_good(void)
{
    static const char *const words[] = {"one", "", "three"};
    static const int32_t numbers[] = {1, -2, 3};

    make_begin(&file);
    make_u32(&file, "z.count", 7);
    make_text(&file, "name", "a name");
    make_f32(&file, "real", 0.5f);
    make_bool(&file, "flag", 1);
    make_texts(&file, "words", words, 3);
    make_ints(&file, "numbers", numbers, 3);
    make_f32_tensor(&file, "wide", 8, 2);
    make_tensor(&file, "a", 32, 0, 8, 34);
    make_data(&file);
}

/* Opens what was made, of which `keep` bytes are there; the reader may not read more. */
static fb_status open_bytes(fb_gguf **out, size_t keep)
{
    uint8_t *exact = fb_alloc(FB_ACCOUNT_other, keep);
    fb_status status;

    assert_non_null(exact);
    memcpy(exact, file.bytes, keep);
    status = fb_gguf_open_bytes(out, exact, keep);
    if (status == FB_OK) fb_gguf_close(*out);
    *out = NULL;
    fb_free(exact);
    return status;
}

static void refused(fb_status wanted, const char *part)
{
    fb_gguf *gguf;

    assert_int_equal(open_bytes(&gguf, file.n), wanted);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
}

static void reads_pairs_and_tensors_by_name(void **state)
{
    fb_gguf *gguf;
    const fb_stored *t;
    fb_gguf_array array;
    fb_span span;
    int64_t whole;
    double real;
    bool flag;

    (void)state;
    make_good();
    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    assert_int_equal(fb_gguf_int(gguf, "z.count", 7, 7, &whole), FB_OK);
    assert_int_equal(whole, 7);
    assert_int_equal(fb_gguf_string(gguf, "name", &span), FB_OK);
    assert_true(fb_span_is(span, "a name"));
    assert_int_equal(fb_gguf_real(gguf, "real", &real), FB_OK);
    assert_true(real == 0.5);
    assert_int_equal(fb_gguf_real(gguf, "z.count", &real), FB_OK);
    assert_true(real == 7);
    assert_int_equal(fb_gguf_bool(gguf, "flag", &flag), FB_OK);
    assert_true(flag);
    assert_int_equal(fb_gguf_strings(gguf, "words", &array), FB_OK);
    assert_int_equal(array.n, 3);
    assert_true(fb_span_is(fb_gguf_next_string(&array), "one"));
    assert_true(fb_span_is(fb_gguf_next_string(&array), ""));
    assert_true(fb_span_is(fb_gguf_next_string(&array), "three"));
    assert_int_equal(fb_gguf_ints(gguf, "numbers", &array), FB_OK);
    assert_int_equal(fb_gguf_next_int(&array), 1);
    assert_int_equal(fb_gguf_next_int(&array), -2);
    t = fb_stored_find(fb_gguf_tensors(gguf), "wide");
    assert_non_null(t);
    assert_int_equal(t->rows, 2);
    assert_int_equal(t->columns, 8);
    t = fb_stored_find(fb_gguf_tensors(gguf), "a");
    assert_string_equal(t->format->name, "Q8_0");
    assert_int_equal(t->n_bytes, 34);
    assert_null(fb_stored_find(fb_gguf_tensors(gguf), "b"));
    fb_gguf_close(gguf);
}

static void says_which_key_has_the_wrong_type(void **state)
{
    fb_gguf *gguf;
    fb_gguf_array array;
    fb_span span;
    int64_t whole;
    bool flag;

    (void)state;
    make_good();
    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    assert_int_equal(fb_gguf_int(gguf, "name", 0, 1, &whole), FB_FORMAT);
    assert_string_equal(fb_error_message(),
                        "'name' is string; a whole number would be right");
    assert_int_equal(fb_gguf_int(gguf, "z.count", 8, 9, &whole), FB_FORMAT);
    assert_string_equal(fb_error_message(), "'z.count' is 7; 8 to 9 would be right");
    assert_int_equal(fb_gguf_int(gguf, "absent", 0, 1, &whole), FB_FORMAT);
    assert_string_equal(fb_error_message(), "'absent' is missing");
    assert_int_equal(fb_gguf_string(gguf, "flag", &span), FB_FORMAT);
    assert_int_equal(fb_gguf_bool(gguf, "words", &flag), FB_FORMAT);
    assert_int_equal(fb_gguf_strings(gguf, "numbers", &array), FB_FORMAT);
    assert_int_equal(fb_gguf_ints(gguf, "words", &array), FB_FORMAT);
    assert_int_equal(fb_gguf_strings(gguf, "name", &array), FB_FORMAT);
    fb_gguf_close(gguf);
}

static void every_shorter_file_is_refused(void **state)
{
    fb_gguf *gguf;

    (void)state;
    make_good();
    /* The padding behind the last tensor is not needed. */
    for (size_t n = 0; n < file.n - 30; n++) {
        assert_int_equal(open_bytes(&gguf, n), FB_FORMAT);
        assert_null(gguf);
    }
    assert_int_equal(open_bytes(&gguf, file.n - 30), FB_OK);
}

static void every_changed_byte_is_read_or_refused(void **state)
{
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    fb_gguf *gguf;

    (void)state;
    make_good();
    for (size_t at = 0; at < file.n; at++)
        for (size_t c = 0; c < sizeof changes; c++) {
            file.bytes[at] ^= changes[c];
            fb_memory_reset_peaks();
            (void)!open_bytes(&gguf, file.n); /* sanitizers watch */
            assert_true(fb_memory_peak(FB_ACCOUNT_other) < 1 << 20);
            file.bytes[at] ^= changes[c];
        }
    assert_int_equal(open_bytes(&gguf, file.n), FB_OK);
}

static void understands_versions_2_and_3_only(void **state)
{
    fb_gguf *gguf;

    (void)state;
    make_good();
    make_set(&file, 4, 2, 4);
    assert_int_equal(open_bytes(&gguf, file.n), FB_OK);
    make_set(&file, 4, 1, 4);
    refused(FB_UNSUPPORTED, "GGUF version 1; 2 to 3 are understood");
    make_set(&file, 4, 4, 4);
    refused(FB_UNSUPPORTED, "GGUF version 4");
    make_set(&file, 4, 3u << 24, 4);
    refused(FB_UNSUPPORTED, "big-endian");
}

static void doubled_names_are_refused(void **state)
{
    (void)state;
    make_begin(&file);
    make_u32(&file, "b", 1);
    make_u32(&file, "a", 1);
    make_u32(&file, "b", 2);
    refused(FB_FORMAT, "the key 'b' is there twice");
    make_begin(&file);
    make_f32_tensor(&file, "t", 8, 1);
    make_f32_tensor(&file, "t", 8, 1);
    make_data(&file);
    refused(FB_FORMAT, "the tensor 't' is there twice");
}

static void overlapping_data_is_refused(void **state)
{
    (void)state;
    make_begin(&file);
    make_f32_tensor(&file, "first", 64, 0);
    file.data_bytes -= 32;
    make_f32_tensor(&file, "second", 8, 0);
    file.data_bytes += 32;
    make_data(&file);
    refused(FB_FORMAT, "the data of tensors 'first' and 'second' overlap");
}

static void offsets_are_multiples_of_the_alignment(void **state)
{
    (void)state;
    make_begin(&file);
    make_f32_tensor(&file, "t", 8, 0);
    file.data_bytes += 4;
    make_f32_tensor(&file, "u", 8, 0);
    make_data(&file);
    refused(FB_FORMAT, "tensor 'u' starts at offset 36");
}

static void another_alignment_is_honoured(void **state)
{
    fb_gguf *gguf;

    (void)state;
    make_begin(&file);
    make_u32(&file, "general.alignment", 128);
    make_f32_tensor(&file, "t", 8, 0);
    while (file.n % 128 != 0)
        make_uint(&file, 0, 1);
    make_uint(&file, 0x3f800000, 4);
    while (file.n % 32 != 0)
        make_uint(&file, 0, 1);
    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    assert_ptr_equal(fb_stored_find(fb_gguf_tensors(gguf), "t")->data,
                     file.bytes + file.n - 32);
    fb_gguf_close(gguf);
}

static void unknown_types_are_refused_by_name(void **state)
{
    (void)state;
    make_begin(&file);
    make_key(&file, "odd", 13);
    make_uint(&file, 0, 8);
    refused(FB_FORMAT, "'odd' has the unknown type 13");
    make_begin(&file);
    make_key(&file, "nested", MAKE_ARRAY);
    make_uint(&file, MAKE_ARRAY, 4);
    make_uint(&file, 1, 8);
    refused(FB_UNSUPPORTED, "'nested' is an array of arrays");
    make_begin(&file);
    make_tensor(&file, "w", 32, 1, 4, 32);
    make_data(&file);
    refused(FB_UNSUPPORTED, "tensor 'w' has the unknown format 4");
    make_begin(&file);
    make_tensor(&file, "w", 33, 1, 8, 64);
    make_data(&file);
    refused(FB_FORMAT, "tensor 'w' has rows of 33 numbers; Q8_0 comes in blocks of 32");
}

static void a_file_without_tensors_can_be_read(void **state)
{
    fb_gguf *gguf;

    (void)state;
    make_begin(&file);
    assert_int_equal(open_bytes(&gguf, file.n), FB_OK);
    make_u32(&file, "only", 1);
    assert_int_equal(open_bytes(&gguf, file.n), FB_OK);
}

static void opens_from_a_path_and_leaks_nothing(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    char path[] = "/tmp/flexbudget-test-XXXXXX";
    const int handle = mkstemp(path);
    fb_gguf *gguf;

    (void)state;
    make_good();
    assert_true(handle >= 0);
    assert_int_equal(write(handle, file.bytes, file.n), file.n);
    assert_int_equal(close(handle), 0);
    assert_int_equal(fb_gguf_open(&gguf, path), FB_OK);
    assert_int_equal(fb_gguf_tensors(gguf)->n, 2);
    fb_gguf_close(gguf);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fb_gguf_open(&gguf, path), FB_NOT_FOUND);
    assert_null(gguf);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;
    fb_gguf *gguf;

    (void)state;
    make_good();
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 100);
        fb_memory_fail_at(n);
        status = fb_gguf_open_bytes(&gguf, file.bytes, file.n);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
        if (status != FB_OK) assert_null(gguf);
    }
    fb_memory_fail_at(0);
    fb_gguf_close(gguf);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

/* As if another program wrote to the file after it was checked. */
static void strings_end_with_their_array_whatever_the_file_says_later(void **state)
{
    static const uint64_t lengths[] = {4, 1 << 20, INT64_MAX, UINT64_MAX};
    const uint8_t *word;
    fb_gguf *gguf;
    fb_gguf_array array;

    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        make_good();
        word = memmem(file.bytes, file.n, "three", 5);
        assert_non_null(word);
        assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
        make_set(&file, (size_t)(word - file.bytes) - 8, lengths[i], 8);
        assert_int_equal(fb_gguf_strings(gguf, "words", &array), FB_OK);
        assert_true(fb_span_is(fb_gguf_next_string(&array), "one"));
        assert_true(fb_span_is(fb_gguf_next_string(&array), ""));
        assert_true(fb_span_is(fb_gguf_next_string(&array), i == 0 ? "thre" : ""));
        assert_int_equal(array.n, 0);
        make_set(&file, (size_t)(word - file.bytes) - 19, lengths[i], 8); /* "one" */
        assert_int_equal(fb_gguf_strings(gguf, "words", &array), FB_OK);
        for (int s = 0; s < 3; s++) {
            const fb_span text = fb_gguf_next_string(&array);

            assert_true(text.n == 0 ||
                        (const uint8_t *)text.bytes + text.n <= word + 5);
        }
        fb_gguf_close(gguf);
    }
}

static void odd_bytes_in_names_are_not_printed(void **state)
{
    (void)state;
    make_begin(&file);
    make_u32(&file, "a\033[31mb\x80", 1);
    make_u32(&file, "a\033[31mb\x80", 1);
    refused(FB_FORMAT, "the key 'a?[31mb?' is there twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_pairs_and_tensors_by_name),
        cmocka_unit_test(says_which_key_has_the_wrong_type),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(every_changed_byte_is_read_or_refused),
        cmocka_unit_test(understands_versions_2_and_3_only),
        cmocka_unit_test(doubled_names_are_refused),
        cmocka_unit_test(overlapping_data_is_refused),
        cmocka_unit_test(offsets_are_multiples_of_the_alignment),
        cmocka_unit_test(another_alignment_is_honoured),
        cmocka_unit_test(unknown_types_are_refused_by_name),
        cmocka_unit_test(a_file_without_tensors_can_be_read),
        cmocka_unit_test(opens_from_a_path_and_leaks_nothing),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(odd_bytes_in_names_are_not_printed),
        cmocka_unit_test(strings_end_with_their_array_whatever_the_file_says_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
