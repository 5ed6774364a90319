/* test_rows.c - what is computed for one sequence of a batch has the same bits whatever
 * else is in the batch.
 *
 * Every operator that answers go through, on shapes of real models and on odd ones: all
 * rows at once, and each in groups of 1, 2, 7 and 32, with 1, 2 and more threads. What
 * differs is named. (Found so: sums of KL and the ends of rows of a gate, which
 * torch_measure.c and torch_model.c keep apart.)
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/device.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"
#include "tests/support/torch_threads.h"

enum { ROWS = 61 };

static const int64_t groups[] = {1, 2, 7, 32};

static fb_ops *ops;
static numbers rng = {3};
static int n_different;

/* An operator on rows [first, first + n) of x [ROWS, columns]; writes n * width results. */
struct row_op {
    const char *name;
    int64_t columns, width;
    const float *x;
    void *more;
    void (*run)(const struct row_op *op, int64_t first, int64_t n, double *out);
};

static fb_tensor rows_of(const struct row_op *op, int64_t first, int64_t n)
{
    return fb_from_host(ops, FB_F32, 2, (int64_t[]){n, op->columns},
                        op->x + first * op->columns);
}

static void take(const struct row_op *op, fb_tensor a, int64_t n, double *out)
{
    float *x = malloc((size_t)(n * op->width) * sizeof *x);

    assert_ok(fb_to_host(ops, a, x, (size_t)(n * op->width) * sizeof *x));
    for (int64_t i = 0; i < n * op->width; i++)
        out[i] = (double)x[i];
    free(x);
}

static void compare(const struct row_op *op, const double *all, const double *part,
                    int64_t n, int64_t group, int threads)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&all[i], &part[i], sizeof *all) != 0) {
            print_message("%s [%d, %d]: %d at a time with %d threads: %a, all: %a "
                          "(column %d)\n",
                          op->name, ROWS, (int)op->columns, (int)group, threads,
                          part[i], all[i], (int)(i % op->width));
            n_different++;
            return;
        }
}

static void check(struct row_op op, int threads)
{
    float *x = number_array(&rng, ROWS * op.columns, 3);
    double *all = calloc((size_t)(ROWS * op.width), sizeof *all);
    double *part = calloc((size_t)(ROWS * op.width), sizeof *part);

    op.x = x;
    fb_ops_move(ops, (fb_place){FB_PHASE_decode, FB_SCOPE_model});
    fb_scope_open(ops);
    op.run(&op, 0, ROWS, all);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (int64_t at = 0; at < ROWS; at += groups[g])
            op.run(&op, at, ROWS - at < groups[g] ? ROWS - at : groups[g],
                   part + at * op.width);
        compare(&op, all, part, ROWS * op.width, groups[g], threads);
    }
    fb_scope_close(ops);
    free(x);
    free(all);
    free(part);
}

/* --- operators */

static void run_linear(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    take(op, fb_linear(ops, rows_of(op, first, n), *(fb_tensor *)op->more), n, out);
}

static void run_swiglu(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    take(op, fb_swiglu(ops, rows_of(op, first, n)), n, out);
}

static void run_geglu(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    take(op, fb_geglu(ops, rows_of(op, first, n)), n, out);
}

static void run_rms_norm(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    const fb_tensor w = fb_full(ops, 1, &op->columns, 1.5);

    take(op, fb_rms_norm(ops, rows_of(op, first, n), w, 1e-5), n, out);
}

static void run_head_norm(const struct row_op *op, int64_t first, int64_t n,
                          double *out)
{
    const int64_t d = op->columns / 9;
    const fb_tensor x = rows_of(op, first, n), w = fb_full(ops, 1, &d, 1.5);

    fb_head_norm_(ops, x, 1, 5, w, 1e-6);
    take(op, x, n, out);
}

static void run_rotary(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    const int64_t d = op->columns / 9 / 2 * 2;
    const fb_tensor x = rows_of(op, first, n);
    const fb_tensor angle = fb_narrow(ops, x, 1, 0, d / 2);

    fb_rotary(ops, x, 7, d, angle, fb_mul(ops, angle, angle));
    take(op, x, n, out);
}

static void run_add(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    const fb_tensor x = rows_of(op, first, n);

    fb_add_(ops, x, fb_mul(ops, x, x));
    take(op, x, n, out);
}

static void run_nll(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    int32_t target[ROWS];

    for (int64_t i = 0; i < n; i++)
        target[i] = (int32_t)((first + i) * 31 % op->columns);
    assert_ok(fb_nll(ops, rows_of(op, first, n), target, out));
}

/* With one row of the full cache. */
static void run_kl(const struct row_op *op, int64_t first, int64_t n, double *out)
{
    assert_ok(fb_kl(ops, rows_of(op, ROWS - 1, 1), rows_of(op, first, n), out));
}

/* --- attention: sequence v has a context of 3 + 8 v entries, or all 200, and a tail */

enum {
    H = 9,
    G = 3,
    D = 64,
    WIDTH = (H + 2 * G) * D,
    LONGEST = 3 + 8 * ROWS,
    TAIL = 30
};

struct caches {
    fb_kv *context, *tail; /* [ROWS * G] slots */
    int64_t n[ROWS];
    int64_t t;
    uint8_t *hidden; /* [LONGEST]; NULL: none */
};

static void fill(fb_kv *kv, int64_t slot, int64_t n)
{
    float *x = number_array(&rng, n * 2 * D, 1);
    const int64_t at = 0;

    fb_kv_write(ops, kv, fb_from_host(ops, FB_F32, 2, (int64_t[]){n, 2 * D}, x), 1, 0,
                1, &slot, &at);
    free(x);
}

static struct caches open_caches(bool is_ragged, fb_dtype type)
{
    int64_t capacity[ROWS * G], tails[ROWS * G];
    struct caches c = {.t = 1};

    for (int64_t v = 0; v < ROWS; v++) {
        c.n[v] = is_ragged ? 3 + 8 * v : 200;
        for (int64_t g = 0; g < G; g++) {
            capacity[v * G + g] = is_ragged ? c.n[v] + g : c.n[v];
            tails[v * G + g] = TAIL;
        }
    }
    assert_ok(fb_kv_new(&c.context, ops, FB_ACCOUNT_kv, type, D, ROWS * G, capacity));
    assert_ok(fb_kv_new(&c.tail, ops, FB_ACCOUNT_kv, type, D, ROWS * G, tails));
    fb_scope_open(ops);
    for (int64_t s = 0; s < ROWS * G; s++) {
        fill(c.context, s, capacity[s]);
        fill(c.tail, s, TAIL);
    }
    assert_ok(fb_ops_status(ops));
    fb_scope_close(ops);
    return c;
}

static void close_caches(struct caches *c)
{
    fb_kv_free(c->context);
    fb_kv_free(c->tail);
    free(c->hidden);
}

static void run_attention(const struct row_op *op, int64_t first, int64_t n,
                          double *out)
{
    const struct caches *c = op->more;
    fb_segment segments[ROWS * G];

    for (int64_t i = 0; i < n * G; i++) {
        const int64_t v = first + i / G, slot = v * G + i % G;

        segments[i].context = (fb_part){.kv = c->context,
                                        .slot = slot,
                                        .n = fb_kv_capacity(c->context, slot),
                                        .hidden = c->hidden};
        if (c->hidden != NULL)
            for (int64_t j = 0; j < segments[i].context.n; j++)
                segments[i].context.n_open += c->hidden[j] == 0;
        segments[i].tail = (fb_part){.kv = c->tail, .slot = slot, .n = 1 + v % TAIL};
    }
    take(op,
         fb_attention(ops, &(fb_attend){.x = rows_of(op, first, n),
                                        .segments = segments,
                                        .n_sequences = n,
                                        .heads = H,
                                        .kv_heads = G,
                                        .head_dim = D,
                                        .scale = 0.125}),
         n, out);
}

static void check_attention(int threads)
{
    static const fb_dtype types[] = {FB_F32, FB_F16, FB_BF16};

    for (int ragged = 0; ragged <= 1; ragged++)
        for (int type = 0; type < 3; type++)
            for (int hides = 0; hides <= 1; hides++) {
                struct caches c = open_caches(ragged, types[type]);

                if (hides) c.hidden = calloc(LONGEST + G, 1);
                for (int64_t j = 1; hides && j < LONGEST + G; j++)
                    c.hidden[j] = number_int(&rng, 0, 2) == 0;
                check((struct row_op){.name = "attention",
                                      .columns = WIDTH,
                                      .width = H * D,
                                      .more = &c,
                                      .run = run_attention},
                      threads);
                close_caches(&c);
            }
}

/* --- all of them */

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    const int64_t columns = *(const int64_t *)context;
    numbers random = {(uint64_t)begin};

    for (int64_t i = 0; i < (end - begin) * columns; i++)
        out[i] = number_unit(&random);
    return FB_OK;
}

static void check_linear(int64_t columns, int64_t width, int threads)
{
    fb_tensor weight = fb_weight(ops, &(fb_weight_source){.rows = width,
                                                          .columns = columns,
                                                          .unpack = unpack,
                                                          .context = &columns});

    assert_ok(fb_ops_status(ops));
    check((struct row_op){.name = "linear",
                          .columns = columns,
                          .width = width,
                          .more = &weight,
                          .run = run_linear},
          threads);
    fb_release(ops, weight);
}

static void check_linears(int threads)
{
    check_linear(576, 1536, threads);
    check_linear(1536, 576, threads);
    check_linear(99, 1001, threads);
    check_linear(320, 7000, threads);
}

/* More threads than this machine may have wait for each other at every loop: these are for
 * how elements are shared. */
static void check_rows(int threads)
{
    static const int64_t sizes[] = {576, 1536, 1000, 99};

    if (threads <= 2) check_linears(threads);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t n = sizes[i];

        check((struct row_op){"swiglu", 2 * n, n, NULL, NULL, run_swiglu}, threads);
        check((struct row_op){"geglu", 2 * n, n, NULL, NULL, run_geglu}, threads);
        check((struct row_op){"rms_norm", n, n, NULL, NULL, run_rms_norm}, threads);
        check((struct row_op){"head_norm_", n, n, NULL, NULL, run_head_norm}, threads);
        check((struct row_op){"rotary", n, n, NULL, NULL, run_rotary}, threads);
        check((struct row_op){"add_", n, n, NULL, NULL, run_add}, threads);
        check((struct row_op){"nll", 20 * n, 1, NULL, NULL, run_nll}, threads);
        check((struct row_op){"kl", 20 * n, 1, NULL, NULL, run_kl}, threads);
    }
    check((struct row_op){"nll", 50001, 1, NULL, NULL, run_nll}, threads);
    check((struct row_op){"kl", 50001, 1, NULL, NULL, run_kl}, threads);
    if (threads <= 2) check_attention(threads);
}

static void a_row_has_its_bits_in_any_group(void **state)
{
    static const int threads[] = {1, 2, 7};

    (void)state;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        assert_ok(fb_ops_open(
            &ops, &(fb_ops_options){.device = test_device(), .threads = threads[i]}));
        torch_set_threads(threads[i]);
        check_rows(threads[i]);
        fb_ops_close(ops);
    }
    assert_int_equal(n_different, 0);
}

/* Weights in half precision: the products of another library. */
static void nor_do_half_weights_change_it(void **state)
{
    static const fb_dtype types[] = {FB_F16, FB_BF16};

    (void)state;
    n_different = 0;
    torch_set_threads(2);
    for (int t = 0; t < 2; t++) {
        assert_ok(fb_ops_open(&ops, &(fb_ops_options){.device = test_device(),
                                                      .precision = types[t],
                                                      .threads = 2}));
        check_linear(576, 1536, 2);
        check_linear(99, 1001, 2);
        fb_ops_close(ops);
    }
    assert_int_equal(n_different, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_its_bits_in_any_group),
        cmocka_unit_test(nor_do_half_weights_change_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
