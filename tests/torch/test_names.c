/* test_names.c - the torch backend calls what src/ops/list.h says.
 *
 * The checks of tests/ops/conformance.h, the backend's own at start, and batches with tails of
 * several lengths, watched: for each operator of the table the operators of PyTorch that
 * its kernel called are those of its last column, no fewer and, but for what arranges
 * numbers, no more. UPDATE=1 prints them all.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/ops/conformance.h"
#include "tests/support/device.h"
#include "tests/support/watched_torch.h"

static const struct {
    const char *aten, *from_c;
} claims[FB_OP_COUNT] = {
#define FB_OP(name, aten, flops, from_c) [FB_OP_##name] = {aten, from_c},
#include "ops/list.h"
#undef FB_OP
};

/* Segments of a length of their own and tails: what small checks do not come to. */
static void check_ragged(fb_dtype type)
{
    enum { SEQUENCES = 3 };
    static const int64_t capacity[SEQUENCES] = {5, 40, 70}, zero = 0;
    fb_segment segments[SEQUENCES];
    fb_kv *context, *tail;
    fb_tensor x;

    assert_ok(fb_kv_new(&context, ops, FB_ACCOUNT_kv, type, D, SEQUENCES, capacity));
    assert_ok(
        fb_kv_new(&tail, ops, FB_ACCOUNT_kv, type, D, SEQUENCES, (int64_t[]){4, 4, 4}));
    for (int64_t s = 0; s < SEQUENCES; s++) {
        fb_kv_write(ops, context, fb_full(ops, 2, (int64_t[]){capacity[s], 2 * D}, 0.5),
                    1, 0, 1, &s, &zero);
        fb_kv_write(ops, tail, fb_full(ops, 2, (int64_t[]){4, 2 * D}, 0.25), 1, 0, 1,
                    &s, &zero);
        segments[s] =
            (fb_segment){{context, s, capacity[s], NULL, 0}, {tail, s, 2, NULL, 0}};
    }
    x = fb_full(ops, 2, (int64_t[]){SEQUENCES, 3 * D}, 1);
    x = fb_attention(ops, &(fb_attend){.x = x,
                                       .segments = segments,
                                       .n_sequences = SEQUENCES,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = D,
                                       .scale = 1});
    assert_ok(fb_ops_status(ops));
    fb_kv_turn(ops, context, 1, fb_full(ops, 2, (int64_t[]){3, 2}, 0.5),
               fb_full(ops, 2, (int64_t[]){3, 2}, 0.5));
    assert_ok(fb_ops_status(ops));
    fb_kv_free(context);
    fb_kv_free(tail);
}

/* A batch of many rows, for gates that are computed in parts. */
static void check_many_rows(void)
{
    const fb_tensor x = fb_full(ops, 2, (int64_t[]){40, 4000}, 0.5);
    const fb_place before = fb_ops_place(ops);

    fb_ops_move(ops, (fb_place){FB_PHASE_decode, FB_SCOPE_model});
    (void)fb_swiglu(ops, x);
    (void)fb_geglu(ops, x);
    fb_ops_move(ops, before);
    assert_ok(fb_ops_status(ops));
}

static bool is_named(const char *list, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

static bool was_called(int op, const char *name, size_t n)
{
    for (int i = 0; i < WATCHED_NAMES; i++)
        if (strlen(watched.names[op][i]) == n &&
            strncmp(watched.names[op][i], name, n) == 0)
            return true;
    return false;
}

static bool only_arranges(const char *name)
{
    return is_named(
        "aten::narrow, aten::select.int, aten::reshape, aten::transpose.int, "
        "aten::expand, aten::cat, aten::contiguous, aten::to.dtype, "
        "aten::to.device, aoti_torch_copy_",
        name);
}

/* Signals are made by the kernel of attention. */
static int kernel_of(int op)
{
    return op == FB_OP_attention_sum || op == FB_OP_attention_rows ? FB_OP_attention
                                                                   : op;
}

static int compare_op(int op)
{
    const char *claim =
        strcmp(claims[op].from_c, "direct") == 0 ? claims[op].aten : claims[op].from_c;
    int wrong = 0;

    for (int i = 0; i < WATCHED_NAMES && watched.names[op][i][0] != '\0'; i++)
        if (!is_named(claim, watched.names[op][i]) &&
            !only_arranges(watched.names[op][i])) {
            print_message("fb_%s calls %s; list.h says %s\n",
                          fb_op_name((enum fb_op)op), watched.names[op][i], claim);
            wrong++;
        }
    for (const char *at = claim; *at != '\0';) {
        const size_t n = strcspn(at, ",");

        if (!was_called(kernel_of(op), at, n)) {
            print_message("fb_%s never calls %.*s, which list.h names\n",
                          fb_op_name((enum fb_op)op), (int)n, at);
            wrong++;
        }
        at += n + strspn(at + n, ", ");
    }
    return wrong;
}

static void print_calls(void)
{
    for (int op = 0; op < FB_OP_COUNT; op++) {
        print_message("%s:", fb_op_name((enum fb_op)op));
        for (int i = 0; i < WATCHED_NAMES && watched.names[op][i][0] != '\0'; i++)
            print_message("%s %s", i > 0 ? "," : "", watched.names[op][i]);
        print_message("\n");
    }
}

static void kernels_call_what_the_table_says(void **state)
{
    static const fb_dtype types[] = {FB_F32, FB_F16, FB_BF16};
    fb_backend backend = watched_backend();
    int wrong = 0;

    (void)state;
    assert_ok(fb_ops_open_backend(
        &ops, &backend, &(fb_ops_options){.device = test_device(), .threads = 2}));
    check_all(20);
    for (int t = 0; t < 3; t++)
        check_ragged(types[t]);
    check_many_rows();
    if (getenv("UPDATE") != NULL) print_calls();
    for (int op = 0; op < FB_OP_COUNT; op++)
        wrong += compare_op(op);
    fb_ops_close(ops);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_call_what_the_table_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
