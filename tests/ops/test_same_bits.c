/* test_same_bits.c - one result for every CPU, thread count and batch.
 *
 * Each operator with float loops of its own runs on all targets that this CPU has, with
 * one to three threads; all the bytes that come out must be the same. Matrix products
 * are also made row by row.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

enum { ROWS = 61, K = 83, N = 77, LONG = 5000 };

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    const float *w = context;

    memcpy(out, w + begin * K, (size_t)((end - begin) * K) * sizeof *out);
    return FB_OK;
}

/* The results of one context, one after the other. */
struct bytes {
    unsigned char *at;
    size_t n;
};

static void add_bytes(struct bytes *bytes, const void *more, size_t n)
{
    bytes->at = realloc(bytes->at, bytes->n + n);
    memcpy(bytes->at + bytes->n, more, n);
    bytes->n += n;
}

static void add_tensor(struct bytes *bytes, fb_ops *ops, fb_tensor a)
{
    size_t n = sizeof(float);
    void *room;

    for (int i = 0; i < fb_n_dims(ops, a); i++)
        n *= (size_t)fb_size(ops, a, i);
    room = malloc(n);
    assert_ok(fb_to_host(ops, a, room, n));
    add_bytes(bytes, room, n);
    free(room);
}

static fb_tensor made_up(fb_ops *ops, int64_t rows, int64_t columns, float size)
{
    float *x = number_array(&(numbers){(uint64_t)(rows * 1000 + columns)},
                            rows * columns, size);
    const fb_tensor a = fb_from_host(ops, FB_F32, 2, (int64_t[]){rows, columns}, x);

    free(x);
    return a;
}

static void products(struct bytes *bytes, fb_ops *ops)
{
    float *w = number_array(&(numbers){5}, N * K, 1);
    fb_tensor weight = fb_weight(
        ops,
        &(fb_weight_source){.rows = N, .columns = K, .unpack = unpack, .context = w});
    fb_tensor x = made_up(ops, ROWS, K, 1), y = made_up(ops, K, N, 1);
    fb_tensor all = fb_linear(ops, x, weight);
    float *batch = malloc(ROWS * N * sizeof *batch), *row = malloc(N * sizeof *row);

    add_tensor(bytes, ops, all);
    assert_ok(fb_to_host(ops, all, batch, ROWS * N * sizeof *batch));
    for (int64_t r = 0; r < ROWS; r++) {
        fb_tensor one = fb_linear(ops, fb_narrow(ops, x, 0, r, 1), weight);

        assert_ok(fb_to_host(ops, one, row, N * sizeof *row));
        assert_true(all_equal("row alone", batch + r * N, row, N));
    }
    add_tensor(bytes, ops,
               fb_bmm(ops, fb_reshape(ops, x, 3, (int64_t[]){1, ROWS, K}), false,
                      fb_reshape(ops, y, 3, (int64_t[]){1, K, N}), false));
    fb_release(ops, weight);
    free(w);
    free(batch);
    free(row);
}

static void loops(struct bytes *bytes, fb_ops *ops)
{
    fb_tensor x = made_up(ops, ROWS, LONG, 60), half = made_up(ops, ROWS, LONG / 2, 1);
    fb_tensor weight = fb_reshape(ops, made_up(ops, 1, LONG, 2), 1, (int64_t[]){LONG});
    fb_tensor turned = fb_scale(ops, x, 1);

    add_tensor(bytes, ops, fb_exp(ops, x));
    add_tensor(bytes, ops, fb_softmax(ops, x));
    add_tensor(bytes, ops, fb_swiglu(ops, x));
    add_tensor(bytes, ops, fb_geglu(ops, x));
    add_tensor(bytes, ops, fb_rms_norm(ops, x, weight, 1e-6));
    fb_rotary(ops, turned, 1, LONG, half, fb_exp(ops, half));
    add_tensor(bytes, ops, turned);
    fb_head_norm_(ops, turned, 0, 1, weight, 1e-6);
    add_tensor(bytes, ops, turned);
    add_tensor(bytes, ops, fb_var(ops, x, 1));
    add_tensor(bytes, ops, fb_sum(ops, x, 0));
    add_tensor(bytes, ops, fb_cumsum(ops, x));
}

/* Columns enough for several threads. */
static void equations(struct bytes *bytes, fb_ops *ops)
{
    fb_tensor x = fb_reshape(ops, made_up(ops, ROWS, K, 1), 3, (int64_t[]){1, ROWS, K});
    fb_tensor y = made_up(ops, ROWS, LONG, 1);

    x = fb_bmm(ops, x, false, x, true);
    y = fb_reshape(ops, y, 3, (int64_t[]){1, ROWS, LONG});
    add_tensor(bytes, ops, fb_cholesky_solve(ops, x, y));
}

static void measures(struct bytes *bytes, fb_ops *ops)
{
    fb_tensor p = made_up(ops, 2, LONG + 1, 30), q = made_up(ops, 6, LONG + 1, 30);
    const int32_t target[6] = {0, 1, 2, LONG, 17, 5};
    double out[6];

    assert_ok(fb_nll(ops, q, target, out));
    add_bytes(bytes, out, sizeof out);
    assert_ok(fb_kl(ops, p, q, out));
    add_bytes(bytes, out, sizeof out);
}

static struct bytes all_of(fb_ops *ops)
{
    struct bytes bytes = {NULL, 0};

    fb_scope_open(ops);
    products(&bytes, ops);
    loops(&bytes, ops);
    equations(&bytes, ops);
    measures(&bytes, ops);
    fb_scope_close(ops);
    return bytes;
}

static void targets_and_threads_give_the_same_bytes(void **state)
{
    static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};
    struct bytes first = {NULL, 0};
    int n = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 3; threads++) {
            const fb_ops_options options = {.isa = isas[i], .threads = threads};
            struct bytes bytes;
            fb_ops *ops;

            if (fb_ops_open(&ops, &options) != FB_OK) continue;
            bytes = all_of(ops);
            fb_ops_close(ops);
            if (n++ == 0) {
                first = bytes;
                continue;
            }
            assert_int_equal(bytes.n, first.n);
            for (size_t b = 0; b < bytes.n; b++)
                if (bytes.at[b] != first.at[b])
                    fail_msg("byte %zu differs on %s with %d threads", b, isas[i],
                             threads);
            free(bytes.at);
        }
    free(first.at);
    assert_true(n >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_and_threads_give_the_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
