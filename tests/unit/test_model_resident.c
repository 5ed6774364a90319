/* test_model_resident.c - weights that stay about as they are in the file: the same
 * bits, less memory, and nothing of the file is needed any more.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/engine.h"
#include "tests/support/make_llama.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, BF16 = 30 };
enum { MATRICES = 8, TOKENS = 40, VOCABULARY = 256 };

static make_gguf file;
static char path[] = "/tmp/flexbudget-resident-XXXXXX";

/* Embedding; q, k, v; output; gate, up; down. */
static const uint32_t mixes[][MATRICES] = {
    {Q8_0, Q8_0, Q8_0, Q8_0, Q8_0, Q8_0, Q8_0, Q8_0},
    {Q4_1, Q4_0, Q8_0, F16, Q5_1, Q4_0, Q4_0, Q5_0},
    {BF16, F32, F32, F32, F32, F16, Q8_0, Q8_0},
    {F32, Q4_1, Q4_1, Q4_1, Q8_0, F32, F32, F32},
};
enum { MIXES = sizeof mixes / sizeof *mixes };

static void write_file(const uint32_t *types)
{
    const make_llama_change change = {.types = types};
    FILE *out = fopen(path, "wb");

    make_llama(&file, &change);
    assert_non_null(out);
    assert_int_equal(fwrite(file.bytes, 1, file.n, out), file.n);
    assert_int_equal(fclose(out), 0);
}

static const fb_model_options forms[] = {{FB_WEIGHTS_UNPACKED}, {FB_WEIGHTS_RESIDENT}};

/* Logits [TOKENS, VOCABULARY] of a made-up text; the file may be gone by then. */
static void logits_of(fb_ops *ops, const fb_model *model, float *out)
{
    int32_t ids[TOKENS];
    int64_t rows[TOKENS];
    fb_engine *engine;

    for (int i = 0; i < TOKENS; i++) {
        ids[i] = (i * 37 + 5) % VOCABULARY;
        rows[i] = i;
    }
    assert_ok(fb_engine_open(&engine, ops, model, NULL));
    assert_ok(fb_logits(engine, ids, TOKENS, rows, TOKENS, out));
    fb_engine_close(engine);
}

static void both_forms_give_the_same_bits(void **state)
{
    static float want[TOKENS * VOCABULARY], got[TOKENS * VOCABULARY];

    (void)state;
    for (int mix = 0; mix < MIXES; mix++)
        for (int threads = 1; threads <= 3; threads++)
            for (int form = 0; form < 2; form++) {
                const fb_ops_options options = {.threads = threads};
                fb_model *model;
                fb_ops *ops;

                write_file(mixes[mix]);
                assert_ok(fb_ops_open(&ops, &options));
                assert_ok(fb_model_open(&model, ops, path, &forms[form]));
                assert_int_equal(fb_model_weight_form(model), forms[form].weights);
                assert_int_equal(truncate(path, 0), 0);
                logits_of(ops, model, threads == 1 && form == 0 ? want : got);
                if (threads > 1 || form > 0)
                    assert_memory_equal(got, want, sizeof want);
                fb_model_close(model);
                fb_ops_close(ops);
            }
    for (int i = 0; i < TOKENS * VOCABULARY; i++)
        assert_true(want[i] > -1e30f && want[i] < 1e30f);
}

static void the_account_is_what_the_facts_say(void **state)
{
    (void)state;
    for (int mix = 0; mix < MIXES; mix++) {
        size_t bytes[2];

        for (int form = 0; form < 2; form++) {
            const size_t before = fb_memory_now(FB_ACCOUNT_weights);
            fb_model *model, *facts;
            fb_ops *ops;

            write_file(mixes[mix]);
            assert_ok(fb_ops_open(&ops, NULL));
            assert_ok(fb_model_open(&model, ops, path, &forms[form]));
            bytes[form] = fb_memory_now(FB_ACCOUNT_weights) - before;
            assert_int_equal(bytes[form], fb_model_get_facts(model)->weight_bytes);
            fb_model_close(model);
            assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
            /* Known before anything is loaded. */
            assert_ok(fb_model_open(&facts, NULL, path, &forms[form]));
            assert_int_equal(fb_model_get_facts(facts)->weight_bytes, bytes[form]);
            fb_model_close(facts);
            fb_ops_close(ops);
        }
        assert_true(bytes[1] < bytes[0]);
        if (mix == 0) assert_true(3 * bytes[1] < bytes[0]);
    }
}

static void numbers_that_are_not_finite_are_refused(void **state)
{
    const uint32_t infinity = 0x7c00;
    fb_model *model;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    for (int mix = 0; mix < 2; mix++) {
        const make_llama_change change = {.types = mixes[mix]};
        const size_t before = fb_memory_now(FB_ACCOUNT_weights);
        const size_t begin = make_llama(&file, &change);
        FILE *out = fopen(path, "wb");

        /* the scale of row 3 of the embedding */
        make_set(&file, begin + (mix == 0 ? 3 * 34u : 3 * 20u), infinity, 2);
        assert_int_equal(fwrite(file.bytes, 1, file.n, out), file.n);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(fb_model_open(&model, ops, path, &forms[1]), FB_FORMAT);
        assert_non_null(strstr(fb_error_message(), "tensor 'token_embd.weight' holds a "
                                                   "number that is not finite (in row "
                                                   "3 of 256)"));
        assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
    }
    fb_ops_close(ops);
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    const size_t weights = fb_memory_now(FB_ACCOUNT_weights);
    fb_status status = FB_NO_MEMORY;
    fb_model *model = NULL;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, &(fb_ops_options){.threads = 1}));
    write_file(mixes[1]);
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 2000);
        fb_memory_fail_at(n);
        status = fb_model_open(&model, ops, path, &forms[1]);
        fb_memory_fail_at(0);
        if (status == FB_OK) break;
        assert_int_equal(status, FB_NO_MEMORY);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), weights);
        fb_ops_reset(ops);
    }
    fb_model_close(model);
    fb_ops_close(ops);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_give_the_same_bits),
        cmocka_unit_test(the_account_is_what_the_facts_say),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    const int handle = mkstemp(path);
    int failed;

    if (handle < 0 || close(handle) != 0) return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
