/* test_cases_safetensors.c - F04: safetensors files that are broken or hostile, and the
 * folder around them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "model/folder.h"
#include "model/safetensors.h"
#include "tests/support/test.h"

#include <stdio.h>

enum { LITTLE_MEMORY = 1 << 20 };

static char folder[TEST_PATH];

/* A file of a header of its own length (or `length`) and `n_data` bytes of zeros. */
static const char *write_file(const char *header, uint64_t length, size_t n_data)
{
    static uint8_t bytes[4096];
    const size_t n = strlen(header);

    assert_true(8 + n + n_data <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, 0, n_data);
    assert_ok(
        fb_file_write(test_path(folder, "model.safetensors"), bytes, 8 + n + n_data));
    return test_path(folder, "model.safetensors");
}

static void refused_file(const char *path, fb_status wanted, const char *part)
{
    fb_safetensors *file;

    fb_memory_reset_peaks();
    assert_int_equal(fb_safetensors_open(&file, path), wanted);
    assert_null(file);
    assert_true(fb_memory_peak(FB_ACCOUNT_other) < LITTLE_MEMORY);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    assert_null(strchr(fb_error_message(), '\n'));
}

static void refused(const char *header, size_t n_data, const char *part)
{
    refused_file(write_file(header, strlen(header), n_data), FB_FORMAT, part);
}

static void F04_a_file_of_four_bytes_is_refused(void **state)
{
    const char *path = test_path(folder, "model.safetensors");

    (void)state;
    assert_ok(fb_file_write(path, "abcd", 4));
    refused_file(path, FB_FORMAT, "4 bytes; a safetensors file begins with 8");
}

static void F04_a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    refused_file(write_file("{}", UINT64_C(1) << 63, 0), FB_FORMAT,
                 "a header of 9223372036854775808 bytes in a file of 10");
    refused_file(write_file("{}", 3, 0), FB_FORMAT, "a header of 3 bytes");
    refused_file(write_file("{}", UINT64_MAX, 0), FB_FORMAT, "not a safetensors file");
}

static void F04_a_web_page_is_no_model(void **state)
{
    const char *path = test_path(folder, "model.safetensors");
    const char page[] = "<!DOCTYPE html><html><body>Sign in</body></html>";

    (void)state;
    assert_ok(fb_file_write(path, page, sizeof page - 1));
    refused_file(path, FB_FORMAT, "not a safetensors file, or cut short");
}

static void F04_a_header_that_is_not_json_is_refused(void **state)
{
    (void)state;
    refused("{\"a\": ", 0, "its header: ");
    refused("[1, 2]", 0, "the header is not a JSON object");
    refused("{\"a\": {\"dtype\": \"F32\"}, \"a\": {}}", 0, "duplicate");
    refused("{\"a\": 3}", 0, "tensor 'a': an integer where an object should be");
}

#define A "{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}"

static void F04_data_that_are_cut_are_refused(void **state)
{
    (void)state;
    refused(A "}", 7, "tensor 'a': its data end at byte 8 of 7; the file is cut short");
    refused(A "}", 9, "1 byte behind the data of all tensors");
}

static void F04_data_that_overlap_are_refused(void **state)
{
    (void)state;
    refused(A
            ", \"b\": {\"dtype\": \"F16\", \"shape\": [2], \"data_offsets\": [4, 8]}}",
            8, "the data of tensors 'a' and 'b' overlap");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 0]}}",
            8, "'data_offsets' are not two ascending numbers");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}",
            4, "4 bytes for a shape that takes 8");
}

static void F04_impossible_shapes_are_refused(void **state)
{
    (void)state;
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [0], \"data_offsets\": [0, 0]}}",
            0, "dimension 0 is no number above 0");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], "
            "\"data_offsets\": [0, 0]}}",
            0, "dimension 1 is no number above 0 that can be counted");
    refused("{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}",
            4, "dimension 0");
    refused("{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 4]}}", 4, "shape");
}

static void F04_a_format_that_cannot_be_read_is_named(void **state)
{
    const char header[] =
        "{\"a\": {\"dtype\": \"F8_E4M3\", \"shape\": [2], \"data_offsets\": [0, 2]}}";

    (void)state;
    refused_file(write_file(header, sizeof header - 1, 2), FB_UNSUPPORTED,
                 "tensor 'a': format 'F8_E4M3'; F32, F16 and BF16 are understood");
}

static void refused_folder(fb_status wanted, const char *part)
{
    fb_folder *opened;
    fb_guard guard = {0};

    assert_int_equal(fb_folder_open(&opened, folder, &guard), wanted);
    fb_guard_clear(&guard);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
}

static void put(const char *name, const char *text)
{
    assert_ok(fb_file_write(test_path(folder, name), text, strlen(text)));
}

static void F04_an_index_stays_inside_its_folder(void **state)
{
    char shard[2 * TEST_PATH];
    fb_folder *opened;
    fb_guard guard = {0};

    (void)state;
    (void)remove(test_path(folder, "model.safetensors"));
    put("config.json", "{}");
    refused_folder(FB_NOT_FOUND, "neither 'model.safetensors' nor");
    put("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../secret\"}}");
    refused_folder(FB_FORMAT, "'../secret' is not the name of a file beside it");
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"a\": \"gone.safetensors\"}}");
    refused_folder(FB_NOT_FOUND, "gone.safetensors");
    put("model.safetensors.index.json", "{\"weight_map\": {}}");
    refused_folder(FB_FORMAT, "names 0 files");
    (void)snprintf(shard, sizeof shard, "%s", test_path(folder, "one.safetensors"));
    assert_int_equal(rename(write_file(A "}", strlen(A "}"), 8), shard), 0);
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"one.safetensors\"}}");
    refused_folder(FB_FORMAT, "names the tensor 'b', which is in no file");
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"a\": \"one.safetensors\"}}");
    assert_ok(fb_folder_open(&opened, folder, &guard));
    assert_int_equal(fb_folder_tensors(opened)->n, 1);
    fb_folder_close(opened);
    fb_guard_clear(&guard);
    put("config.json", "[]");
    refused_folder(FB_FORMAT, "config.json: not a JSON object");
}

static int make_folder(void **state)
{
    (void)state;
    test_folder(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F04_a_file_of_four_bytes_is_refused),
        cmocka_unit_test(F04_a_header_longer_than_the_file_is_refused),
        cmocka_unit_test(F04_a_web_page_is_no_model),
        cmocka_unit_test(F04_a_header_that_is_not_json_is_refused),
        cmocka_unit_test(F04_data_that_are_cut_are_refused),
        cmocka_unit_test(F04_data_that_overlap_are_refused),
        cmocka_unit_test(F04_impossible_shapes_are_refused),
        cmocka_unit_test(F04_a_format_that_cannot_be_read_is_named),
        cmocka_unit_test(F04_an_index_stays_inside_its_folder),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
