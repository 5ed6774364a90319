/* ops_bench.c - the speed of the operators that take the time: products and attention.
 *
 *   make build/release/bench/ops_bench && build/release/bench/ops_bench [isa] [threads]
 *
 * ("best" is the best isa this CPU has.) Shapes of SmolLM2-135M. Prints billions of
 * FLOPs per second (2 per multiply-add), the best of several runs; for single rows the
 * bytes of weights per second say more.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(fb_status status)
{
    if (status == FB_OK) return;
    (void)fprintf(stderr, "ops_bench: %s\n", fb_error_message());
    exit(1);
}

static float value_at(int64_t i)
{
    return (float)((uint32_t)i * 2654435761U >> 8) * 0x1p-23f - 1;
}

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    const int64_t k = *(const int64_t *)context;

    for (int64_t i = 0; i < (end - begin) * k; i++)
        out[i] = value_at(begin * k + i);
    return FB_OK;
}

static fb_tensor made_up(fb_ops *ops, int64_t rows, int64_t columns)
{
    float *x = malloc((size_t)(rows * columns) * sizeof *x);
    fb_tensor a, kept;

    for (int64_t i = 0; i < rows * columns; i++)
        x[i] = value_at(i);
    fb_scope_open(ops);
    a = fb_from_host(ops, FB_F32, 2, (int64_t[]){rows, columns}, x);
    kept = fb_persist(ops, FB_ACCOUNT_scratch, a);
    fb_scope_close(ops);
    free(x);
    return kept;
}

/* The best time of `body` in a third of a second, at least three runs. */
static double best(fb_ops *ops, void (*body)(fb_ops *ops, void *context), void *context)
{
    const double start = now();
    double least = 1e9;

    for (int i = 0; i < 3 || now() - start < 0.33; i++) {
        const double from = now();

        fb_scope_open(ops);
        body(ops, context);
        fb_scope_close(ops);
        if (now() - from < least) least = now() - from;
    }
    need(fb_ops_status(ops));
    return least;
}

struct product {
    fb_tensor x, w;
};

static void multiply(fb_ops *ops, void *context)
{
    const struct product *p = context;

    (void)fb_linear(ops, p->x, p->w);
}

static void products(fb_ops *ops, int64_t k, int64_t n)
{
    static const int64_t rows[] = {1, 2, 8, 32, 128, 512};
    struct product p = {.w = fb_weight(ops, &(fb_weight_source){.rows = n,
                                                                .columns = k,
                                                                .unpack = unpack,
                                                                .context = &k})};

    (void)printf("linear %5lld x %-6lld", (long long)k, (long long)n);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double seconds;

        p.x = made_up(ops, rows[i], k);
        seconds = best(ops, multiply, &p);
        (void)printf("  %lld: %5.1f", (long long)rows[i],
                     2e-9 * (double)(rows[i] * k * n) / seconds);
        (void)fflush(stdout);
        fb_release(ops, p.x);
    }
    (void)printf("\n");
    fb_release(ops, p.w);
}

enum { H = 9, G = 3, D = 64, WIDTH = (H + 2 * G) * D };

struct attending {
    fb_attend call;
    int64_t t;
};

static void attend(fb_ops *ops, void *context)
{
    const struct attending *a = context;

    (void)fb_attention(ops, &a->call);
}

/* n sequences, each with a cache of its own of `context` entries, t queries each. */
static void attention(fb_ops *ops, int64_t n, int64_t context, int64_t t, bool sum)
{
    int64_t *capacity = malloc((size_t)(n * G) * sizeof *capacity);
    fb_segment *segments = calloc((size_t)(n * G), sizeof *segments);
    struct attending a = {.t = t};
    double seconds, flops;
    fb_tensor fill;
    fb_kv *kv;

    for (int64_t i = 0; i < n * G; i++)
        capacity[i] = context;
    need(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, D, n * G, capacity));
    fill = made_up(ops, context, WIDTH);
    for (int64_t v = 0; v < n; v++)
        fb_kv_write(ops, kv, fill, 1, H, G, (int64_t[]){v * G, v * G + 1, v * G + 2},
                    (int64_t[]){0});
    for (int64_t i = 0; i < n * G; i++)
        segments[i].context = (fb_part){kv, i, context, NULL};
    a.call = (fb_attend){.x = made_up(ops, n * t, WIDTH),
                         .segments = segments,
                         .n_sequences = n,
                         .heads = H,
                         .kv_heads = G,
                         .head_dim = D,
                         .scale = 0.125};
    if (sum)
        a.call.sum =
            fb_new(ops, FB_ACCOUNT_signals, FB_F32, 2, (int64_t[]){H, context});
    seconds = best(ops, attend, &a);
    flops = 4.0 * D * H * (double)n *
            ((double)t * (double)context - (double)(t * (t - 1)) / 2);
    (void)printf("attention %3lld sequences of %5lld, %4lld queries%s: %6.2f ms, %5.1f "
                 "GFLOP/s, %4.1f GB/s\n",
                 (long long)n, (long long)context, (long long)t, sum ? " and sums" : "",
                 1e3 * seconds, 1e-9 * flops / seconds,
                 1e-9 * (double)fb_kv_bytes(kv) / seconds);
    fb_release(ops, a.call.x);
    fb_release(ops, a.call.sum);
    fb_release(ops, fill);
    fb_kv_free(kv);
    free(capacity);
    free(segments);
}

int main(int argc, char **argv)
{
    const fb_ops_options options = {
        .isa = argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL,
        .threads = argc > 2 ? atoi(argv[2]) : 0};
    fb_ops *ops;

    need(fb_ops_open(&ops, &options));
    (void)printf("%s, %d threads; GFLOP/s by rows\n", fb_ops_isa(ops),
                 fb_threads_count(fb_ops_threads(ops)));
    products(ops, 576, 576);
    products(ops, 576, 960);
    products(ops, 576, 3072);
    products(ops, 1536, 576);
    products(ops, 576, 49152);
    attention(ops, 1, 2048, 2048, false);
    attention(ops, 1, 2048, 256, false);
    attention(ops, 1, 2048, 256, true);
    attention(ops, 1, 2048, 1, false);
    attention(ops, 32, 512, 1, false);
    attention(ops, 32, 2048, 1, false);
    fb_ops_close(ops);
    return 0;
}
