/* test_model_open.c - a model file becomes facts and weights, exactly.
 *
 * The built-in model's file is read a second time with the reader of tests/support; a
 * product with the identity shows what a weight holds.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "model/builtin.h"
#include "model/model.h"
#include "tests/support/gguf.h"
#include "tests/support/make_llama.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADS = 4, KV_HEADS = 2, HEAD = 32, WIDTH = 52, FFN = 4, VOCABULARY = 64 };

static fb_ops *ops;
static fb_model *model;
static gguf builtin;

static int open_all(void **state)
{
    const fb_ops_options options = {.threads = 2};
    fb_span bytes;

    (void)state;
    if (fb_ops_open(&ops, &options) != FB_OK) return 1;
    if (fb_model_open(&model, ops, "builtin", NULL) != FB_OK) return 1;
    if (fb_builtin_find(&bytes, "builtin") != FB_OK) return 1;
    gguf_open(&builtin, (const uint8_t *)bytes.bytes, bytes.n);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    fb_model_close(model);
    fb_ops_close(ops);
    return fb_memory_now(FB_ACCOUNT_weights) != 0;
}

/* out [rows, columns]: what a weight holds. */
static void read_weight(fb_tensor weight, int64_t rows, int64_t columns, float *out)
{
    static float identity[256 * 256], transposed[256 * 256];
    const int64_t shape[2] = {columns, columns};

    assert_true(columns <= 256 && rows <= 256);
    memset(identity, 0, sizeof identity);
    for (int64_t i = 0; i < columns; i++)
        identity[i * columns + i] = 1;
    fb_scope_open(ops);
    assert_int_equal(
        fb_to_host(
            ops, fb_linear(ops, fb_from_host(ops, FB_F32, 2, shape, identity), weight),
            transposed, (size_t)(rows * columns) * sizeof(float)),
        FB_OK);
    fb_scope_close(ops);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            out[r * columns + c] = transposed[c * rows + r];
}

static const float *row_in_file(const char *name, int64_t row)
{
    static float numbers[256];
    const gguf_tensor *t = gguf_find(&builtin, name);

    memcpy(numbers, builtin.bytes + t->at + (size_t)row * t->columns * sizeof(float),
           t->columns * sizeof(float));
    return numbers;
}

static void facts_are_those_of_the_file(void **state)
{
    const fb_model_facts *f = fb_model_get_facts(model);

    (void)state;
    assert_string_equal(f->architecture, "llama");
    assert_string_equal(f->name, "builtin");
    assert_string_equal(f->weight_types, "F32");
    assert_int_equal(f->layers, 2);
    assert_int_equal(f->heads, HEADS);
    assert_int_equal(f->kv_heads, KV_HEADS);
    assert_int_equal(f->head_dim, HEAD);
    assert_int_equal(f->width, WIDTH);
    assert_int_equal(f->ffn, FFN);
    assert_int_equal(f->vocabulary, VOCABULARY);
    assert_int_equal(f->context_length, 16384);
    assert_true(f->rope[FB_ROPE_GLOBAL].theta == 1e10);
    assert_true(f->rms_eps == (double)1e-6f);
    assert_int_equal(strlen(f->sha256), 64);
    assert_int_equal(strlen(f->tokenizer_sha256), 64);
    assert_int_equal(f->file_bytes, builtin.n);
    assert_int_equal(fb_tokenizer_bos(fb_model_tokenizer(model)), 0);
    assert_string_equal(fb_model_template(model)->family, "raw");
}

/* Row s*d/2 + i of a head is row 2i + s of the file's. */
static void rows_of_q_and_k_are_in_half_split_order(void **state)
{
    static float qkv[(HEADS + 2 * KV_HEADS) * HEAD * WIDTH];
    static const char *const names[] = {"blk.1.attn_q.weight", "blk.1.attn_k.weight"};
    const int n_heads[] = {HEADS, KV_HEADS};
    const float *at = qkv;

    (void)state;
    read_weight(fb_model_layer(model, 1)->qkv, (HEADS + 2 * KV_HEADS) * HEAD, WIDTH,
                qkv);
    for (int part = 0; part < 2; part++)
        for (int h = 0; h < n_heads[part]; h++)
            for (int half = 0; half < 2; half++)
                for (int i = 0; i < HEAD / 2; i++, at += WIDTH)
                    assert_memory_equal(
                        at, row_in_file(names[part], h * HEAD + 2 * i + half),
                        WIDTH * sizeof(float));
    for (int r = 0; r < KV_HEADS * HEAD; r++, at += WIDTH)
        assert_memory_equal(at, row_in_file("blk.1.attn_v.weight", r),
                            WIDTH * sizeof(float));
}

static void other_weights_keep_their_order(void **state)
{
    static float numbers[VOCABULARY * HEADS * HEAD];
    const fb_layer *layer = fb_model_layer(model, 0);
    const int32_t ids[] = {63, 0};

    (void)state;
    read_weight(layer->output, WIDTH, HEADS * HEAD, numbers);
    for (int r = 0; r < WIDTH; r++)
        assert_memory_equal(numbers + r * HEADS * HEAD,
                            row_in_file("blk.0.attn_output.weight", r),
                            HEADS * HEAD * sizeof(float));
    read_weight(fb_model_head(model), VOCABULARY, WIDTH, numbers);
    for (int r = 0; r < VOCABULARY; r++)
        assert_memory_equal(numbers + r * WIDTH, row_in_file("output.weight", r),
                            WIDTH * sizeof(float));
    fb_scope_open(ops);
    assert_int_equal(fb_to_host(ops,
                                fb_embedding(ops, fb_model_embedding(model), ids, 2),
                                numbers, 2 * WIDTH * sizeof(float)),
                     FB_OK);
    fb_scope_close(ops);
    assert_memory_equal(numbers, row_in_file("token_embd.weight", 63),
                        WIDTH * sizeof(float));
    assert_memory_equal(numbers + WIDTH, row_in_file("token_embd.weight", 0),
                        WIDTH * sizeof(float));
    assert_int_equal(
        fb_to_host(ops, fb_model_norm(model), numbers, WIDTH * sizeof(float)), FB_OK);
    assert_memory_equal(numbers, row_in_file("output_norm.weight", 0),
                        WIDTH * sizeof(float));
}

static void angles_are_rounded_where_the_reference_rounds(void **state)
{
    static const int64_t position[] = {0, 1, 1500, 8191, 16383};
    float cosine[5][HEAD / 2], sine[5][HEAD / 2];
    fb_tensor c, s;

    (void)state;
    fb_scope_open(ops);
    assert_int_equal(fb_model_rope(model, ops, FB_ROPE_GLOBAL, 5, position, 5, &c, &s),
                     FB_OK);
    assert_int_equal(fb_to_host(ops, c, cosine, sizeof cosine), FB_OK);
    assert_int_equal(fb_to_host(ops, s, sine, sizeof sine), FB_OK);
    fb_scope_close(ops);
    for (int p = 0; p < 5; p++)
        for (int i = 0; i < HEAD / 2; i++) {
            const float inverse = 1.0f / (float)pow(1e10, 2.0 * i / HEAD);
            const float angle = (float)position[p] * inverse;

            assert_true(cosine[p][i] == (float)cos((double)angle));
            assert_true(sine[p][i] == (float)sin((double)angle));
        }
}

static void many_angles_equal_a_few(void **state)
{
    enum { MANY = 600 };
    static int64_t position[MANY];
    static float cosine[MANY][HEAD / 2], one[HEAD / 2];
    fb_tensor c, s;

    (void)state;
    for (int p = 0; p < MANY; p++)
        position[p] = 37 * p;
    fb_scope_open(ops);
    assert_int_equal(
        fb_model_rope(model, ops, FB_ROPE_GLOBAL, MANY, position, MANY, &c, &s), FB_OK);
    assert_int_equal(fb_to_host(ops, c, cosine, sizeof cosine), FB_OK);
    for (int p = 0; p < MANY; p += 50) {
        assert_int_equal(
            fb_model_rope(model, ops, FB_ROPE_GLOBAL, MANY, position + p, 1, &c, &s),
            FB_OK);
        assert_int_equal(fb_to_host(ops, c, one, sizeof one), FB_OK);
        assert_memory_equal(one, cosine[p], sizeof one);
    }
    fb_scope_close(ops);
}

/* --- files made here ------------------------------------------------------------ */

static make_gguf file;
static char path[] = "/tmp/flexbudget-model-XXXXXX";

static void write_file(void)
{
    FILE *out = fopen(path, "wb");

    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.n, out), file.n);
    assert_int_equal(fclose(out), 0);
}

static void refused(fb_status wanted, const char *part)
{
    fb_model *bad = NULL;

    write_file();
    for (int with_ops = 0; with_ops < 2; with_ops++) {
        const size_t before = fb_memory_now(FB_ACCOUNT_weights);

        assert_int_equal(fb_model_open(&bad, with_ops ? ops : NULL, path, NULL),
                         wanted);
        assert_null(bad);
        if (strstr(fb_error_message(), part) == NULL ||
            strstr(fb_error_message(), path) == NULL)
            fail_msg("'%s' does not say '%s'", fb_error_message(), part);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
    }
}

static void a_file_without_a_head_uses_the_embedding(void **state)
{
    fb_model *tied = NULL;

    (void)state;
    make_llama(&file, NULL);
    write_file();
    assert_int_equal(fb_model_open(&tied, ops, path, NULL), FB_OK);
    assert_int_equal(fb_model_head(tied).id, fb_model_embedding(tied).id);
    assert_string_equal(fb_model_template(tied)->family, "none");
    fb_model_close(tied);
}

/* Where the file lies does not matter, and what it calls itself comes second. */
static void a_model_has_the_name_of_its_file(void **state)
{
    const make_llama_change titled = {.key = "llama.block_count",
                                      .value = 1,
                                      .text_key = "general.name",
                                      .text = "Tiny Lc1 Mix1"};
    char folder[TEST_PATH];
    fb_model *named = NULL;

    (void)state;
    test_folder(folder);
    make_llama(&file, &titled);
    assert_ok(fb_file_write(test_path(folder, "tiny.Q4_1.gguf"), file.bytes, file.n));
    assert_ok(fb_model_open(&named, NULL, test_path(folder, "tiny.Q4_1.gguf"), NULL));
    assert_string_equal(fb_model_get_facts(named)->name, "tiny.Q4_1");
    assert_string_equal(fb_model_get_facts(named)->title, "Tiny Lc1 Mix1");
    fb_model_close(named);
    assert_ok(fb_file_write(test_path(folder, "Tiny Lc1 Mix1"), file.bytes, file.n));
    assert_ok(fb_model_open(&named, NULL, test_path(folder, "Tiny Lc1 Mix1"), NULL));
    assert_string_equal(fb_model_get_facts(named)->name, "Tiny Lc1 Mix1");
    assert_null(fb_model_get_facts(named)->title);
    fb_model_close(named);
    test_folder_remove(folder);
}

static void facts_need_no_weights(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_weights);
    fb_model *facts = NULL;

    (void)state;
    assert_int_equal(fb_model_open(&facts, NULL, "builtin:good", NULL), FB_OK);
    assert_string_equal(fb_model_get_facts(facts)->name, "builtin:good");
    assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
    fb_model_close(facts);
    assert_int_equal(fb_model_open(&facts, NULL, "builtin:better", NULL), FB_NOT_FOUND);
    assert_null(facts);
}

static void tensors_are_exactly_those_of_a_llama(void **state)
{
    const make_llama_change without = {.drop = "blk.0.attn_k.weight"};
    const make_llama_change with = {.add = "blk.0.attn_q.bias"};
    const make_llama_change odd = {.reshape = "blk.0.ffn_up.weight"};
    const make_llama_change packed = {.repack = "blk.0.ffn_down.weight"};

    (void)state;
    make_llama(&file, &without);
    refused(FB_FORMAT, "the tensor 'blk.0.attn_k.weight' is missing");
    make_llama(&file, &with);
    refused(FB_UNSUPPORTED, "tensor 'blk.0.attn_q.bias' has no place");
    make_llama(&file, &odd);
    refused(FB_FORMAT, "tensor 'blk.0.ffn_up.weight' is [31, 32]; [32, 32] would be");
    make_llama(&file, &packed);
    refused(FB_UNSUPPORTED, "tensor 'blk.0.ffn_down.weight' is in IQ4_NL");
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    const uint32_t infinity = 0x7f800000;
    size_t begin;
    fb_model *bad = NULL;

    (void)state;
    begin = make_llama(&file, NULL);
    make_set(&file, begin + 4 * 40, infinity, 4); /* row 1 of the embedding */
    write_file();
    assert_int_equal(fb_model_open(&bad, ops, path, NULL), FB_FORMAT);
    if (strstr(fb_error_message(), "tensor 'token_embd.weight' holds a number that is "
                                   "not finite (in row 1 of 256)") == NULL)
        fail_msg("%s", fb_error_message());
}

static void computations_that_are_not_done_are_refused_by_name(void **state)
{
    static const make_llama_change scaled = {.text_key = "llama.rope.scaling.type",
                                             .text = "spiral"};
    static const make_llama_change none = {.text_key = "llama.rope.scaling.type",
                                           .text = "none"};
    static const make_llama_change odd = {.key = "llama.rope.dimension_count",
                                          .value = 5};
    static const make_llama_change experts = {.key = "llama.expert_count", .value = 8};
    fb_model *good = NULL;

    (void)state;
    make_llama(&file, &scaled);
    refused(FB_UNSUPPORTED,
            "'llama.rope.scaling.type' is 'spiral'; 'none', 'linear', 'yarn'");
    make_llama(&file, &odd);
    refused(FB_FORMAT, "5 of the 16 columns of a head are to be rotated");
    make_llama(&file, &experts);
    refused(FB_UNSUPPORTED, "'llama.expert_count' is 8; only 0 is understood");
    make_llama(&file, &none);
    write_file();
    assert_int_equal(fb_model_open(&good, NULL, path, NULL), FB_OK);
    fb_model_close(good);
}

static void gguf_keys_that_ask_for_another_computation_are_refused(void **state)
{
    static const char *const keys[] = {
        "llama.attention.output_scale", "llama.attention.sliding_window_pattern",
        "llama.attention.temperature_length", "llama.attention.temperature_scale",
        "llama.rope.scaling.alpha"};
    char wanted[96];

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const make_llama_change asks = {.key = keys[i], .value = 1};
        const make_llama_change is_neutral = {.key = keys[i], .value = 0};
        fb_model *good = NULL;

        (void)snprintf(wanted, sizeof wanted, "'%s' is 1; only 0 is understood",
                       keys[i]);
        make_llama(&file, &asks);
        refused(FB_UNSUPPORTED, wanted);
        make_llama(&file, &is_neutral);
        write_file();
        assert_ok(fb_model_open(&good, NULL, path, NULL));
        fb_model_close(good);
    }
    make_llama(&file, &(make_llama_change){.bool_key = "llama.attention.causal"});
    refused(FB_UNSUPPORTED,
            "'llama.attention.causal' is false; only true is understood");
}

/* Formats of which only the size is known have no numbers to read. */
static void rotary_factors_are_in_a_format_that_can_be_read(void **state)
{
    static const uint32_t by_size[] = {24, 25, 26, 27, 28}; /* I8 to I64, F64 */

    (void)state;
    for (size_t i = 0; i < sizeof by_size / sizeof *by_size; i++) {
        const make_llama_change odd = {
            .add = "rope_freqs.weight", .add_columns = 8, .add_type = by_size[i]};
        char wanted[96];

        (void)snprintf(wanted, sizeof wanted,
                       "tensor 'rope_freqs.weight' is [1, 8] in %s; [1, 8] in F32",
                       fb_blocks_find(by_size[i])->name);
        make_llama(&file, &odd);
        refused(FB_FORMAT, wanted);
    }
}

/* Touches the file again and again: its times change, whatever the clock's tick. */
static void *touch(void *is_done)
{
    for (time_t second = 1; !atomic_load((atomic_bool *)is_done); second++) {
        const struct timespec times[2] = {{.tv_sec = second}, {.tv_sec = second}};

        (void)utimensat(AT_FDCWD, path, times, 0);
    }
    return NULL;
}

static void a_file_that_changes_while_it_is_read_is_refused(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    static atomic_bool is_done;
    fb_status status = FB_OK;
    fb_model *m = NULL;
    pthread_t thread;

    (void)state;
    make_llama(&file, NULL);
    write_file();
    assert_int_equal(pthread_create(&thread, NULL, touch, &is_done), 0);
    for (int tries = 0; tries < 5000 && status == FB_OK; tries++) {
        fb_model_close(m);
        status = fb_model_open(&m, NULL, path, NULL);
    }
    atomic_store(&is_done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_fails(status, FB_IO, "changed while it was read; run again when nobody");
    assert_null(m);
    assert_ok(fb_model_open(&m, NULL, path, NULL));
    fb_model_close(m);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

static void other_architectures_are_refused_by_name(void **state)
{
    (void)state;
    make_begin(&file);
    make_text(&file, "general.architecture", "mamba");
    refused(FB_UNSUPPORTED, "'general.architecture' is 'mamba'; 'llama', 'mistral', "
                            "'qwen2', 'qwen3', 'gemma3' and 'phi3' are understood");
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    fb_status status = FB_NO_MEMORY;
    fb_model *m = NULL;

    (void)state;
    make_llama(&file, NULL);
    write_file();
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 2000);
        fb_memory_fail_at(n);
        status = fb_model_open(&m, ops, path, NULL);
        fb_memory_fail_at(0);
        if (status == FB_OK) break;
        assert_int_equal(status, FB_NO_MEMORY);
        assert_null(m);
        fb_ops_reset(ops);
    }
    fb_model_close(m);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

/* --- finding -------------------------------------------------------------------- */

static void models_are_found_by_path_or_in_their_folder(void **state)
{
    char *found = NULL;

    (void)state;
    write_file();
    assert_int_equal(fb_model_find(&found, path), FB_OK);
    assert_string_equal(found, path);
    fb_free(found);
    assert_int_equal(setenv("FLEXBUDGET_MODELS", "/tmp", 1), 0);
    assert_int_equal(fb_model_find(&found, strrchr(path, '/') + 1), FB_OK);
    assert_string_equal(found, path);
    fb_free(found);
    assert_int_equal(fb_model_find(&found, "builtin:bad"), FB_OK);
    assert_string_equal(found, "builtin:bad");
    fb_free(found);
    assert_int_equal(fb_model_find(&found, "absent.gguf"), FB_NOT_FOUND);
    assert_null(found);
    assert_non_null(strstr(fb_error_message(), "'/tmp/absent.gguf'"));
    assert_int_equal(unsetenv("FLEXBUDGET_MODELS"), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/cache", 1), 0);
    assert_int_equal(fb_model_find(&found, "absent.gguf"), FB_NOT_FOUND);
    assert_non_null(
        strstr(fb_error_message(), "'/cache/flexbudget/models/absent.gguf'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_those_of_the_file),
        cmocka_unit_test(rows_of_q_and_k_are_in_half_split_order),
        cmocka_unit_test(other_weights_keep_their_order),
        cmocka_unit_test(angles_are_rounded_where_the_reference_rounds),
        cmocka_unit_test(many_angles_equal_a_few),
        cmocka_unit_test(a_file_without_a_head_uses_the_embedding),
        cmocka_unit_test(a_model_has_the_name_of_its_file),
        cmocka_unit_test(facts_need_no_weights),
        cmocka_unit_test(tensors_are_exactly_those_of_a_llama),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(computations_that_are_not_done_are_refused_by_name),
        cmocka_unit_test(gguf_keys_that_ask_for_another_computation_are_refused),
        cmocka_unit_test(rotary_factors_are_in_a_format_that_can_be_read),
        cmocka_unit_test(a_file_that_changes_while_it_is_read_is_refused),
        cmocka_unit_test(other_architectures_are_refused_by_name),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(models_are_found_by_path_or_in_their_folder),
    };
    const int handle = mkstemp(path);
    int failed;

    if (handle < 0 || close(handle) != 0) return 1;
    failed = cmocka_run_group_tests(tests, open_all, close_all);
    (void)unlink(path);
    return failed;
}
