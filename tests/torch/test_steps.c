/* test_steps.c - what a step of an answer costs beside its numbers, on the torch backend.
 *
 * A device waits for the host at every copy from there, so tables of places and masks are
 * made once for all layers. And a call that fails lets go of the tensors that it held.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/device.h"
#include "tests/support/every_rule.h"
#include "tests/support/random_llama.h"
#include "tests/support/rig.h"
#include "tests/support/watched_torch.h"

#include <malloc.h>

enum { N = 60, PROMPT = 3, FEW = 10, MANY = 40, CELLS = 32 };

static const fb_protect usual = {FB_PROTECT_EXPERIMENT, 4, 8};
static int32_t ids[N + PROMPT];
static const fb_question question = {ids + N, NULL, PROMPT, 0};
static fb_backend backend; /* lent to the context for as long as it is open */

static void open_watched(rig *r, const char *model)
{
    backend = watched_backend();
    assert_ok(fb_ops_open_backend(
        &r->ops, &backend, &(fb_ops_options){.device = test_device(), .threads = 2}));
    assert_ok(fb_model_open(&r->model, r->ops, model, NULL));
    assert_ok(fb_engine_open(&r->engine, r->ops, r->model, NULL));
}

/* --- copies from the host and to it */

struct cost {
    int64_t hosts, calls;
};

static struct cost cost_of(fb_reading *reading, fb_variant *const *variants, int n,
                           int64_t tokens)
{
    const fb_answer_options free_only = {.generate = true,
                                         .max_tokens = (int32_t)tokens};
    fb_answer out[CELLS];

    watched_clear();
    assert_ok(fb_answer_group(reading, variants, n, &question, &free_only, out));
    for (int i = 0; i < n; i++) {
        assert_int_equal(out[i].n_ids, tokens);
        fb_answer_clear(&out[i]);
    }
    return (struct cost){watched.hosts, watched.dispatched};
}

/* Copies in MANY - FEW steps of a group of n. */
static int64_t copies_of(rig *r, fb_reading *reading, fb_variant *const *variants,
                         int n)
{
    const struct cost few = cost_of(reading, variants, n, FEW);
    const struct cost many = cost_of(reading, variants, n, MANY);
    const double steps = MANY - FEW;

    print_message("%lld layers, a group of %2d: %5.1f copies, %6.1f calls a step\n",
                  (long long)fb_model_get_facts(r->model)->layers, n,
                  (double)(many.hosts - few.hosts) / steps,
                  (double)(many.calls - few.calls) / steps);
    return many.hosts - few.hosts;
}

/* For a group of one and one of CELLS, all of one budget. */
static void count_copies(const char *model, const every_rule *rules, int64_t *out)
{
    fb_variant *variants[CELLS];
    fb_reading *reading;
    rig r;

    open_watched(&r, model);
    assert_ok(fb_read(&reading, r.engine, ids, N, rules->seeded, rules->n, 1));
    for (int i = 0; i < CELLS; i++) /* random, which says the same to no end */
        assert_ok(fb_evict(&variants[i], reading, 1, &usual, 0, 30));
    out[0] = copies_of(&r, reading, variants, 1);
    out[1] = copies_of(&r, reading, variants, CELLS);
    for (int i = 0; i < CELLS; i++)
        fb_variant_free(variants[i]);
    fb_reading_free(reading);
    rig_close(&r);
}

static void more_layers_and_more_cells_take_no_more_copies(void **state)
{
    int64_t one[2], two[2];
    char folder[TEST_PATH];
    every_rule rules;

    (void)state;
    test_folder(folder);
    random_llama(test_path(folder, "random.gguf"), RANDOM_NO_END);
    every_rule_open(&rules);
    rig_text(ids, N + PROMPT, 4);
    count_copies(test_path(folder, "random.gguf"), &rules, one);
    count_copies("tests/golden/families/llama_tied", &rules, two);
    assert_true(one[0] > 0);
    assert_int_equal(one[1], one[0]);
    assert_int_equal(two[0], one[0]);
    assert_int_equal(two[1], one[0]);
    every_rule_close(&rules);
    test_folder_remove(folder);
}

/* --- a call that fails */

enum { HEADS = 2, WIDTH = 64, TOKENS = 1024 };

static int64_t bytes_given_out(void)
{
    const struct mallinfo2 info = mallinfo2();

    return (int64_t)(info.uordblks + info.hblkhd);
}

/* Attention of a context beside a tail; its tensors are of 256 KiB and more. */
static fb_status attend(fb_ops *ops, fb_kv *const kv[2], fb_tensor x)
{
    fb_segment segments[HEADS];

    for (int64_t h = 0; h < HEADS; h++)
        segments[h] =
            (fb_segment){{kv[0], h, TOKENS, NULL, 0}, {kv[1], h, TOKENS, NULL, 0}};
    fb_scope_open(ops);
    (void)fb_attention(ops, &(fb_attend){.x = x,
                                         .segments = segments,
                                         .n_sequences = 1,
                                         .heads = HEADS,
                                         .kv_heads = HEADS,
                                         .head_dim = WIDTH,
                                         .scale = 1});
    fb_scope_close(ops);
    return fb_ops_status(ops);
}

static void open_full(fb_kv **out, fb_ops *ops, fb_tensor x)
{
    static const int64_t capacity[] = {TOKENS, TOKENS}, slots[] = {0, 1}, zero = 0;

    assert_ok(fb_kv_new(out, ops, FB_ACCOUNT_kv, FB_F32, WIDTH, HEADS, capacity));
    fb_kv_write(ops, *out, x, 1, HEADS, HEADS, slots, &zero);
    assert_ok(fb_ops_status(ops));
}

static void a_call_that_fails_lets_go_of_its_tensors(void **state)
{
    const int64_t shape[] = {TOKENS, 3 * HEADS * WIDTH};
    int64_t before, at = 0, most = 0;
    fb_status status = FB_DEFECT;
    fb_kv *kv[2];
    fb_tensor x;
    rig r;

    (void)state;
    backend = watched_backend();
    assert_ok(fb_ops_open_backend(
        &r.ops, &backend, &(fb_ops_options){.device = test_device(), .threads = 2}));
    x = fb_new(r.ops, FB_ACCOUNT_other, FB_F32, 2, shape);
    fb_scope_open(r.ops);
    open_full(&kv[0], r.ops, fb_full(r.ops, 2, shape, 0.5));
    open_full(&kv[1], r.ops, fb_full(r.ops, 2, shape, 0.25));
    fb_scope_close(r.ops);
    assert_ok(attend(r.ops, kv, x)); /* tables are kept from now on */
    before = bytes_given_out();
    while (status != FB_OK) {
        watched.fail_at = ++at;
        status = attend(r.ops, kv, x);
        watched.fail_at = 0;
        fb_ops_reset(r.ops);
        if (bytes_given_out() - before > most) most = bytes_given_out() - before;
    }
    print_message("%lld places to fail at; %lld bytes more at most\n",
                  (long long)at - 1, (long long)most);
    assert_true(at > 30);
    assert_true(most < 128 << 10);
    fb_kv_free(kv[0]);
    fb_kv_free(kv[1]);
    fb_release(r.ops, x);
    fb_ops_close(r.ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_layers_and_more_cells_take_no_more_copies),
        cmocka_unit_test(a_call_that_fails_lets_go_of_its_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
