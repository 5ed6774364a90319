/* test_alone.c - the torch backend does everything itself.
 *
 * This program has no native backend: those defined here end it, so that no kernel of
 * src/ops/native_*.c is even linked (run_program.py looks). Every kernel that runs calls
 * the library, and of its functions none that is loaded says where a tensor's numbers lie.
 * (PyTorch's device "meta", whose tensors have shapes alone, lacks index_select outside of
 * Python.)
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/every_rule.h"
#include "tests/support/rig.h"
#include "tests/support/watched_torch.h"

enum { N = 1200, PROMPT = 4, ANSWER = 5, MOST = 8, K = 150 };

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 16};
static int32_t context[N], prompt[PROMPT], answer[ANSWER];
static const fb_question question = {prompt, answer, PROMPT, ANSWER};
static const fb_answer_options free_too = {.generate = true, .max_tokens = MOST};

/* --- the native backend that is not there */

static fb_status trap(void **self, const fb_ops_options *options)
{
    (void)self;
    (void)options;
    print_error("the native backend was opened\n");
    abort();
}

#define FB_OP(name, aten, flops, from_c)                                               \
    static fb_status trap_##name(void *self, const fb_call *call)                      \
    {                                                                                  \
        (void)self;                                                                    \
        (void)call;                                                                    \
        print_error("the native kernel of fb_" #name " was called\n");                 \
        abort();                                                                       \
    }
#include "ops/list.h"
#undef FB_OP

static fb_kernel *const traps[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = trap_##name,
#include "ops/list.h"
#undef FB_OP
};

const fb_backend fb_backend_native = {.name = "native", .open = trap, .kernels = traps};
/* The one without numbers asks the native kernels how much memory they take. */
const fb_backend fb_backend_shape = {.name = "shape", .open = trap, .kernels = traps};

/* Bytes of a weight, for the memory that a model is said to take. */
size_t fb_weight_size(const fb_weight_source *source)
{
    return (size_t)(source->rows * source->columns) * sizeof(float);
}

/* --- a context and answers */

static void open_watched(rig *r)
{
    static fb_backend backend; /* lent to the context for as long as it is open */

    backend = watched_backend();
    assert_ok(fb_ops_open_backend(
        &r->ops, &backend, &(fb_ops_options){.device = test_device(), .threads = 2}));
    assert_ok(fb_model_open(&r->model, r->ops, "builtin", NULL));
    assert_ok(fb_engine_open(&r->engine, r->ops, r->model, NULL));
    rig_text(context, N, 3);
    rig_text(prompt, PROMPT, 5);
    rig_text(answer, ANSWER, 6);
    prompt[0] = 2;
    answer[0] = 40;
    watched_clear();
}

static void expect_calls(void)
{
    int64_t kernels = 0;

    for (int op = 0; op < FB_OP_COUNT; op++) {
        kernels += watched.kernels[op];
        if (watched.kernels[op] == 0) continue;
        print_message("fb_%-15s %6lld runs, %7lld calls\n", fb_op_name((enum fb_op)op),
                      (long long)watched.kernels[op], (long long)watched.calls[op]);
        assert_true(watched.calls[op] >= watched.kernels[op]);
    }
    print_message("%lld runs, %lld calls of torch_call_dispatcher\n",
                  (long long)kernels, (long long)watched.dispatched);
    assert_true(kernels > 500);
    assert_true(watched.dispatched >= kernels);
}

static void answer_for_all(rig *r, every_rule *rules, bool masked)
{
    fb_variant *variants[EVERY_RULE_MOST];
    fb_answer out[EVERY_RULE_MOST];
    fb_reading *reading;

    assert_ok(fb_read(&reading, r->engine, context, N, rules->seeded, rules->n, 1));
    assert_ok(fb_foresee_document(reading, &question, 1));
    assert_ok(fb_foresee(reading, &question));
    assert_ok(fb_keep_all(&variants[0], reading)); /* the first rule is full */
    for (int i = 1; i < rules->n; i++)
        assert_ok((masked ? fb_evict_masked : fb_evict)(&variants[i], reading, i,
                                                        &usual, 0, K));
    assert_ok(fb_answer_group(reading, variants, rules->n, &question, &free_too, out));
    for (int i = 0; i < rules->n; i++) {
        assert_int_equal(out[i].n, ANSWER);
        fb_answer_clear(&out[i]);
        fb_variant_free(variants[i]);
    }
    fb_reading_free(reading);
}

static void the_library_does_all_the_work(void **state)
{
    every_rule rules;
    rig r;

    (void)state;
    every_rule_open(&rules);
    for (int masked = 0; masked <= 1; masked++) {
        open_watched(&r);
        answer_for_all(&r, &rules, masked);
        expect_calls();
        rig_close(&r);
    }
    every_rule_close(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_does_all_the_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
