/* test_attention.c - the one attention: right in double, and the same bits whatever is
 * cut, masked, batched, chunked, threaded, vectorised. On a backend that is not exact
 * (device.h) the same within a few units in the last place.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/device.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

/* Tokens of a made-up text: q | k | v of each. */
struct text {
    int64_t heads, kv_heads, d, n, width;
    float *x; /* [n, width] */
};

/* What attention gave for it. */
typedef struct result {
    float *out;  /* [n, heads * d] */
    float *sum;  /* [heads, n] */
    float *rows; /* [heads, w, n] */
    int64_t w;
} result;

static struct text new_text(int64_t heads, int64_t kv_heads, int64_t d, int64_t n,
                            uint64_t seed)
{
    struct text text = {heads, kv_heads, d, n, (heads + 2 * kv_heads) * d, NULL};

    text.x = number_array(&(numbers){seed}, n * text.width, 1.5f);
    return text;
}

static result new_result(const struct text *text, int64_t w)
{
    result r = {.w = w};

    r.out = calloc((size_t)(text->n * text->heads * text->d), sizeof(float));
    r.sum = calloc((size_t)(text->heads * text->n), sizeof(float));
    r.rows = calloc((size_t)(text->heads * w * text->n), sizeof(float));
    return r;
}

static void free_result(result *r)
{
    free(r->out);
    free(r->sum);
    free(r->rows);
}

static fb_ops *open_ops(const char *isa, int threads)
{
    fb_ops *ops;

    assert_ok(fb_ops_open(
        &ops,
        &(fb_ops_options){.device = test_device(), .isa = isa, .threads = threads}));
    return ops;
}

/* Not exact: outputs of this file are below 2, sums of A below its number of queries. */
static bool same(const char *name, const float *a, const float *b, int64_t n)
{
    if (test_is_native()) return all_equal(name, a, b, n);
    for (int64_t i = 0; i < n; i++)
        if (!is_close((double)a[i], (double)b[i], 3e-6)) {
            fprintf(stderr, "%s: element %lld of %lld: %a and %a\n", name, (long long)i,
                    (long long)n, (double)a[i], (double)b[i]);
            return false;
        }
    return true;
}

static const double SCALE = 0.3;

/* Reads the text in chunks with a cache of `capacity` entries. */
static void read_text(fb_ops *ops, const struct text *text, int64_t chunk,
                      int64_t capacity, result *r)
{
    const int64_t G = text->kv_heads, H = text->heads;
    int64_t *capacities = malloc((size_t)G * sizeof *capacities);
    int64_t *slots = malloc((size_t)G * sizeof *slots);
    fb_segment *segments = calloc((size_t)G, sizeof *segments);
    fb_tensor sum, rows;
    fb_kv *kv;

    for (int64_t g = 0; g < G; g++) {
        capacities[g] = capacity;
        slots[g] = g;
    }
    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, text->d, G, capacities));
    sum = fb_new(ops, FB_ACCOUNT_signals, FB_F32, 2, (int64_t[]){H, text->n});
    rows = fb_new(ops, FB_ACCOUNT_signals, FB_F32, 3, (int64_t[]){H, r->w, text->n});
    for (int64_t at = 0; at < text->n; at += chunk) {
        const int64_t t = text->n - at < chunk ? text->n - at : chunk;
        fb_tensor x, out;

        fb_scope_open(ops);
        x = fb_from_host(ops, FB_F32, 2, (int64_t[]){t, text->width},
                         text->x + at * text->width);
        fb_kv_write(ops, kv, x, 1, H, G, slots, &at);
        for (int64_t g = 0; g < G; g++)
            segments[g].context = (fb_part){kv, g, at + t, NULL, 0};
        out = fb_attention(ops, &(fb_attend){.x = x,
                                             .segments = segments,
                                             .n_sequences = 1,
                                             .heads = H,
                                             .kv_heads = G,
                                             .head_dim = text->d,
                                             .scale = SCALE,
                                             .sum = sum,
                                             .rows = rows,
                                             .first_row = at - (text->n - r->w)});
        assert_ok(fb_to_host(ops, out, r->out + at * H * text->d,
                             (size_t)(t * H * text->d) * sizeof(float)));
        fb_scope_close(ops);
    }
    assert_ok(fb_to_host(ops, sum, r->sum, (size_t)(H * text->n) * sizeof(float)));
    assert_ok(
        fb_to_host(ops, rows, r->rows, (size_t)(H * r->w * text->n) * sizeof(float)));
    fb_release(ops, sum);
    fb_release(ops, rows);
    fb_kv_free(kv);
    free(capacities);
    free(slots);
    free(segments);
}

/* The same in double, one query and head at a time. p [n] holds A. */
static void attend_in_double(const struct text *text, int64_t i, int64_t h, double *p,
                             double *out)
{
    const int64_t g = h / (text->heads / text->kv_heads), d = text->d;
    const float *q = text->x + i * text->width + h * d;
    double max = -HUGE_VAL, l = 0;

    for (int64_t j = 0; j < text->n; j++) {
        const float *k = text->x + j * text->width + (text->heads + g) * d;

        p[j] = 0;
        for (int64_t c = 0; c < d; c++)
            p[j] += (double)q[c] * (double)k[c];
        p[j] *= SCALE;
        if (j <= i && p[j] > max) max = p[j];
    }
    for (int64_t j = 0; j < text->n; j++) {
        p[j] = j <= i ? exp(p[j] - max) : 0;
        l += p[j];
    }
    for (int64_t c = 0; c < d; c++)
        out[c] = 0;
    for (int64_t j = 0; j < text->n; j++) {
        const float *v =
            text->x + j * text->width + (text->heads + text->kv_heads + g) * d;

        p[j] /= l;
        for (int64_t c = 0; c < d; c++)
            out[c] += p[j] * (double)v[c];
    }
}

static void check_text(const struct text *text, const result *r)
{
    double *p = calloc((size_t)text->n, sizeof *p);
    double *out = calloc((size_t)text->d, sizeof *out);
    double *sum = calloc((size_t)text->n, sizeof *sum);

    for (int64_t h = 0; h < text->heads; h++) {
        for (int64_t j = 0; j < text->n; j++)
            sum[j] = 0;
        for (int64_t i = 0; i < text->n; i++) {
            const int64_t row = i - (text->n - r->w);

            attend_in_double(text, i, h, p, out);
            for (int64_t j = 0; j < text->n; j++)
                sum[j] += p[j];
            assert_true(all_close("output", r->out + (i * text->heads + h) * text->d,
                                  out, text->d, 3e-6));
            if (row >= 0)
                assert_true(all_close("row of A", r->rows + (h * r->w + row) * text->n,
                                      p, text->n, 2e-6));
        }
        assert_true(all_close("sum of A", r->sum + h * text->n, sum, text->n, 1e-5));
    }
    free(p);
    free(out);
    free(sum);
}

static void it_is_what_doubles_give(void **state)
{
    static const int64_t shapes[][4] = {
        {1, 1, 64, 1},  {2, 1, 20, 5},   {9, 3, 64, 70}, {4, 2, 80, 33},
        {3, 3, 48, 32}, {6, 2, 128, 65}, {8, 1, 7, 100}, {1, 1, 1, 3},
    };
    fb_ops *ops = open_ops(NULL, 2);

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *s = shapes[i];
        struct text text = new_text(s[0], s[1], s[2], s[3], i);
        result r = new_result(&text, s[3] < 4 ? s[3] : 4);

        read_text(ops, &text, text.n, text.n, &r);
        check_text(&text, &r);
        free_result(&r);
        free(text.x);
    }
    fb_ops_close(ops);
}

static void assert_same(const struct text *text, const result *a, const result *b)
{
    assert_true(same("output", a->out, b->out, text->n * text->heads * text->d));
    assert_true(same("sum of A", a->sum, b->sum, text->heads * text->n));
    assert_true(same("row of A", a->rows, b->rows, text->heads * a->w * text->n));
}

static void chunks_change_no_bit(void **state)
{
    static const int64_t chunks[] = {1, 7, 64, 150};
    struct text text = new_text(6, 2, 40, 150, 3);
    result whole = new_result(&text, 10);
    fb_ops *ops = open_ops(NULL, 2);

    (void)state;
    read_text(ops, &text, text.n, text.n, &whole);
    for (int c = 0; c < 4; c++) {
        result r = new_result(&text, 10);

        read_text(ops, &text, chunks[c], text.n, &r);
        assert_same(&text, &whole, &r);
        free_result(&r);
    }
    fb_ops_close(ops);
    free_result(&whole);
    free(text.x);
}

static void neither_threads_nor_vectors_change_a_bit(void **state)
{
    static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};
    struct text text = new_text(6, 2, 72, 90, 4);
    result first = new_result(&text, 10);
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, &(fb_ops_options){.threads = 1}));
    read_text(ops, &text, text.n, text.n, &first);
    fb_ops_close(ops);
    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 3; threads++) {
            const fb_ops_options options = {.isa = isas[i], .threads = threads};
            result r = new_result(&text, 10);

            if (fb_ops_open(&ops, &options) == FB_OK) {
                read_text(ops, &text, 31, text.n + 5, &r);
                assert_same(&text, &first, &r);
                fb_ops_close(ops);
            }
            free_result(&r);
        }
    free_result(&first);
    free(text.x);
}

/* --- windows */

enum { WINDOWED = 101 };

/* One query that sees entries [0, n) of a cache, those before `from` hidden. */
static void attend_alone(fb_ops *ops, const struct text *text, const fb_kv *kv,
                         int64_t i, int64_t from, float *out)
{
    uint8_t hidden[WINDOWED] = {0};
    fb_segment segments[4];
    fb_tensor x;

    memset(hidden, 1, (size_t)from);
    for (int64_t g = 0; g < text->kv_heads; g++)
        segments[g] = (fb_segment){.context = {kv, g, i + 1, hidden, i + 1 - from}};
    fb_scope_open(ops);
    x = fb_from_host(ops, FB_F32, 2, (int64_t[]){1, text->width},
                     text->x + i * text->width);
    assert_ok(fb_to_host(ops,
                         fb_attention(ops, &(fb_attend){.x = x,
                                                        .segments = segments,
                                                        .n_sequences = 1,
                                                        .heads = text->heads,
                                                        .kv_heads = text->kv_heads,
                                                        .head_dim = text->d,
                                                        .scale = SCALE}),
                         out, (size_t)(text->heads * text->d) * sizeof *out));
    fb_scope_close(ops);
}

/* All queries with a window, the first `context` entries in a part of their own. */
static void attend_in_windows(fb_ops *ops, const struct text *text, fb_kv *const kv[2],
                              int64_t context, int64_t chunk, int64_t window,
                              float *out)
{
    const int64_t row = text->heads * text->d;
    fb_segment segments[4];

    for (int64_t at = context; at < text->n; at += chunk) {
        const int64_t t = text->n - at < chunk ? text->n - at : chunk;
        fb_tensor x;

        for (int64_t g = 0; g < text->kv_heads; g++)
            segments[g] = context == 0
                              ? (fb_segment){.context = {kv[1], g, at + t, NULL, 0}}
                              : (fb_segment){{kv[0], g, context, NULL, 0},
                                             {kv[1], g, at + t - context, NULL, 0}};
        fb_scope_open(ops);
        x = fb_from_host(ops, FB_F32, 2, (int64_t[]){t, text->width},
                         text->x + at * text->width);
        assert_ok(fb_to_host(ops,
                             fb_attention(ops, &(fb_attend){.x = x,
                                                            .segments = segments,
                                                            .n_sequences = 1,
                                                            .heads = text->heads,
                                                            .kv_heads = text->kv_heads,
                                                            .head_dim = text->d,
                                                            .scale = SCALE,
                                                            .window = window}),
                             out + at * row, (size_t)(t * row) * sizeof *out));
        fb_scope_close(ops);
    }
}

/* A cache of the tokens [from, n). */
static fb_kv *kv_of(fb_ops *ops, const struct text *text, int64_t from, int64_t n)
{
    const int64_t capacity[] = {n - from, n - from}, slot[] = {0, 1}, at = 0;
    fb_kv *kv;

    assert_ok(
        fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, text->d, text->kv_heads, capacity));
    if (n == from) return kv;
    fb_scope_open(ops);
    fb_kv_write(ops, kv,
                fb_from_host(ops, FB_F32, 2, (int64_t[]){n - from, text->width},
                             text->x + from * text->width),
                1, text->heads, text->kv_heads, slot, &at);
    fb_scope_close(ops);
    return kv;
}

static void a_window_is_a_mask(void **state)
{
    static const int64_t windows[] = {1, 2, 31, 32, 33, 64, 100, WINDOWED, 300};
    static const int64_t contexts[] = {0, 1, 40, 64}, chunks[] = {1, 7, 37, WINDOWED};
    struct text text = new_text(6, 2, 40, WINDOWED, 9);
    const int64_t row = text.heads * text.d;
    float *want = calloc((size_t)(text.n * row), sizeof *want);
    float *got = calloc((size_t)(text.n * row), sizeof *got);
    fb_ops *ops = open_ops(NULL, 2);
    fb_kv *all = kv_of(ops, &text, 0, text.n);

    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        for (int64_t i = 0; i < text.n; i++)
            attend_alone(ops, &text, all, i,
                         i + 1 > windows[w] ? i + 1 - windows[w] : 0, want + i * row);
        for (int c = 0; c < 4; c++)
            for (int k = 0; k < 4; k++) {
                fb_kv *kv[] = {kv_of(ops, &text, 0, contexts[c]),
                               kv_of(ops, &text, contexts[c], text.n)};

                attend_in_windows(ops, &text, kv, contexts[c], chunks[k], windows[w],
                                  got);
                assert_true(same("window", want + contexts[c] * row,
                                 got + contexts[c] * row,
                                 (text.n - contexts[c]) * row));
                fb_kv_free(kv[0]);
                fb_kv_free(kv[1]);
            }
    }
    fb_kv_free(all);
    fb_ops_close(ops);
    free(want);
    free(got);
    free(text.x);
}

/* --- a context and a tail, in a batch */

enum { H = 6, G = 2, D = 40, WIDTH = (H + 2 * G) * D, TAIL = 37 };

/* One sequence of a batch: its kept entries of a context of n, and its own tail. */
typedef struct variant {
    int64_t n;        /* entries that are kept */
    int32_t *kept;    /* [n] */
    uint8_t *hidden;  /* [context] */
    fb_kv *kv, *tail; /* [G] slots each */
} variant;

static fb_kv *new_kv(fb_ops *ops, int64_t capacity)
{
    fb_kv *kv;

    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, D, G,
                        (int64_t[]){capacity, capacity}));
    return kv;
}

static void write_rows(fb_ops *ops, fb_kv *kv, const float *x, int64_t n, int64_t at)
{
    fb_tensor rows;

    fb_scope_open(ops);
    rows = fb_from_host(ops, FB_F32, 2, (int64_t[]){n, WIDTH}, x);
    fb_kv_write(ops, kv, rows, 1, H, G, (int64_t[]){0, 1}, &at);
    assert_ok(fb_ops_status(ops));
    fb_scope_close(ops);
}

static variant new_variant(fb_ops *ops, const fb_kv *full, int64_t context,
                           numbers *random, int64_t out_of_4)
{
    variant v = {0};

    v.kept = malloc((size_t)context * sizeof *v.kept);
    v.hidden = calloc((size_t)context, 1);
    for (int64_t j = 0; j < context; j++) {
        v.hidden[j] = number_int(random, 0, 3) >= out_of_4 && j != 3;
        if (!v.hidden[j]) v.kept[v.n++] = (int32_t)j;
    }
    v.kv = new_kv(ops, v.n);
    v.tail = new_kv(ops, TAIL);
    for (int64_t g = 0; g < G; g++)
        fb_kv_copy(ops, v.kv, g, full, g, v.kept, v.n);
    assert_ok(fb_ops_status(ops));
    return v;
}

static void free_variant(variant *v)
{
    fb_kv_free(v->kv);
    fb_kv_free(v->tail);
    free(v->kept);
    free(v->hidden);
}

/* t tokens of each of n variants: x [n * t, WIDTH], behind `at` tokens in the tails.
 * `full` not NULL: through masks on it. */
static void answer(fb_ops *ops, const variant *v, int64_t n, const fb_kv *full,
                   int64_t context, const float *x, int64_t t, int64_t at, float *out)
{
    fb_segment *segments = calloc((size_t)(n * G), sizeof *segments);
    fb_tensor rows, attended;

    fb_scope_open(ops);
    rows = fb_from_host(ops, FB_F32, 2, (int64_t[]){n * t, WIDTH}, x);
    for (int64_t i = 0; i < n; i++) {
        fb_kv_write(ops, v[i].tail, fb_narrow(ops, rows, 0, i * t, t), 1, H, G,
                    (int64_t[]){0, 1}, &at);
        for (int64_t g = 0; g < G; g++) {
            segments[i * G + g].context =
                full == NULL ? (fb_part){v[i].kv, g, v[i].n, NULL, 0}
                             : (fb_part){full, g, context, v[i].hidden, v[i].n};
            segments[i * G + g].tail = (fb_part){v[i].tail, g, at + t, NULL, 0};
        }
    }
    attended = fb_attention(ops, &(fb_attend){.x = rows,
                                              .segments = segments,
                                              .n_sequences = n,
                                              .heads = H,
                                              .kv_heads = G,
                                              .head_dim = D,
                                              .scale = SCALE});
    assert_ok(fb_to_host(ops, attended, out, (size_t)(n * t * H * D) * sizeof *out));
    fb_scope_close(ops);
    free(segments);
}

static void cutting_masking_batching_give_the_same_bits(void **state)
{
    enum { N = 5, CONTEXT = 150, T = 6, SIZE = N * T * H * D };
    numbers random = {7};
    float *x = number_array(&random, CONTEXT * WIDTH, 1.5f);
    float *more = number_array(&random, N * T * WIDTH, 1.5f);
    float *cut = malloc(SIZE * sizeof *cut), *other = malloc(SIZE * sizeof *other);
    fb_ops *ops = open_ops(NULL, 2);
    fb_kv *full = new_kv(ops, CONTEXT);
    variant v[N];

    (void)state;
    write_rows(ops, full, x, CONTEXT, 0);
    for (int i = 0; i < N; i++)
        v[i] = new_variant(ops, full, CONTEXT, &random, i % 4);
    answer(ops, v, N, NULL, CONTEXT, more, T, 0, cut);
    answer(ops, v, N, full, CONTEXT, more, T, 0, other);
    assert_true(same("masked", cut, other, SIZE));
    for (int i = 0; i < N; i++)
        answer(ops, &v[i], 1, NULL, CONTEXT, more + i * T * WIDTH, T, 0,
               other + i * T * H * D);
    assert_true(same("alone", cut, other, SIZE));
    for (int i = 0; i < N; i++)
        for (int t = 0; t < T; t++)
            answer(ops, &v[i], 1, i % 2 ? full : NULL, CONTEXT,
                   more + (i * T + t) * WIDTH, 1, t, other + (i * T + t) * H * D);
    assert_true(same("one by one", cut, other, SIZE));
    for (int i = 0; i < N; i++)
        free_variant(&v[i]);
    fb_kv_free(full);
    fb_ops_close(ops);
    free(x);
    free(more);
    free(cut);
    free(other);
}

/* A chain whose last term underflows ends at -0, which a masked entry behind it would
 * turn into +0. Neither may show. */
static void an_underflow_does_not_show_what_was_masked(void **state)
{
    enum { CONTEXT = 3, KEYS = H * D, VALUES = (H + G) * D };
    fb_ops *ops = open_ops(NULL, 1);
    fb_kv *full = new_kv(ops, CONTEXT);
    float x[CONTEXT * WIDTH] = {0}, query[WIDTH] = {0}, cut[H * D], masked[H * D];
    int32_t kept[] = {0, 1};
    uint8_t hidden[] = {0, 0, 1};
    variant v = {2, kept, hidden, new_kv(ops, 2), new_kv(ops, TAIL)};

    (void)state;
    for (int g = 0; g < G; g++) {
        x[WIDTH + KEYS + g * D] = -10; /* entry 1: P is e^-3 */
        for (int c = 0; c < D; c++) {
            x[WIDTH + VALUES + g * D + c] = -0x1p-149f;
            x[2 * WIDTH + VALUES + g * D + c] = 1;
            query[VALUES + g * D + c] = -0.0f;
        }
    }
    for (int h = 0; h < H; h++)
        query[h * D] = 1;
    write_rows(ops, full, x, CONTEXT, 0);
    for (int g = 0; g < G; g++)
        fb_kv_copy(ops, v.kv, g, full, g, kept, 2);
    answer(ops, &v, 1, NULL, CONTEXT, query, 1, 0, cut);
    answer(ops, &v, 1, full, CONTEXT, query, 1, 0, masked);
    assert_true(same("underflow", cut, masked, H * D));
    fb_kv_free(v.kv);
    fb_kv_free(v.tail);
    fb_kv_free(full);
    fb_ops_close(ops);
}

/* An empty context is possible: the tail alone. */
static void a_tail_alone_is_a_context(void **state)
{
    enum { T = 20, SIZE = T * H * D };
    numbers random = {8};
    float *x = number_array(&random, T * WIDTH, 1), a[SIZE], b[SIZE];
    fb_ops *ops = open_ops(NULL, 1);
    fb_kv *kv = new_kv(ops, T), *empty = new_kv(ops, 0);
    variant v = {.n = 0, .kv = empty, .tail = kv};
    fb_segment segments[G];
    fb_tensor rows;

    (void)state;
    answer(ops, &v, 1, NULL, 0, x, T, 0, a);
    for (int g = 0; g < G; g++)
        segments[g] = (fb_segment){.context = {kv, g, T, NULL, 0}};
    rows = fb_from_host(ops, FB_F32, 2, (int64_t[]){T, WIDTH}, x);
    rows = fb_attention(ops, &(fb_attend){.x = rows,
                                          .segments = segments,
                                          .n_sequences = 1,
                                          .heads = H,
                                          .kv_heads = G,
                                          .head_dim = D,
                                          .scale = SCALE});
    assert_ok(fb_to_host(ops, rows, b, sizeof b));
    assert_true(same("tail alone", a, b, SIZE));
    fb_kv_free(kv);
    fb_kv_free(empty);
    fb_ops_close(ops);
    free(x);
}

/* Entries behind the last one, and hidden ones, may hold anything. */
static void what_is_not_seen_is_not_used(void **state)
{
    enum { N = 45, CAPACITY = 70, T = 3, SIZE = T * H * D };
    numbers random = {9};
    float *x = number_array(&random, CAPACITY * WIDTH, 1), clean[SIZE], other[SIZE];
    fb_ops *ops = open_ops(NULL, 1);
    variant v = {.n = N, .tail = new_kv(ops, TAIL)};

    (void)state;
    v.kv = new_kv(ops, N);
    write_rows(ops, v.kv, x, N, 0);
    answer(ops, &v, 1, NULL, 0, x, T, 0, clean);
    fb_kv_free(v.kv);
    v.kv = new_kv(ops, CAPACITY);
    for (int i = N * WIDTH; i < CAPACITY * WIDTH; i++)
        x[i] = i % 2 ? NAN : INFINITY;
    write_rows(ops, v.kv, x, CAPACITY, 0);
    write_rows(ops, v.tail, x + N * WIDTH, 20, 4);
    answer(ops, &v, 1, NULL, 0, x, T, 0, other);
    assert_true(same("poisoned rest", clean, other, SIZE));
    fb_kv_free(v.kv);
    fb_kv_free(v.tail);
    fb_ops_close(ops);
    free(x);
}

/* --- keys and values */

static void a_cache_takes_exactly_its_bytes(void **state)
{
    const int64_t capacity[] = {0, 1, 31, 32, 33, 1000};
    const size_t before = fb_memory_now(FB_ACCOUNT_kv);
    fb_ops *ops = open_ops(NULL, 1);
    fb_kv *kv;

    (void)state;
    assert_ok(fb_kv_new(&kv, ops, FB_ACCOUNT_kv, FB_F32, 20, 6, capacity));
    assert_int_equal(fb_kv_bytes(kv), (1 + 31 + 32 + 33 + 1000) * 2 * 20 * 4);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv) - before, fb_kv_bytes(kv));
    assert_int_equal(fb_kv_capacity(kv, 4), 33);
    fb_kv_free(kv);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_kv), before);
    fb_ops_close(ops);
}

static void what_was_written_is_read_and_copied(void **state)
{
    enum { N = 75, M = 41 };
    numbers random = {10};
    float *x = number_array(&random, N * WIDTH, 1),
          *read = malloc(N * D * sizeof *read);
    fb_ops *ops = open_ops(NULL, 2);
    fb_kv *kv = new_kv(ops, N), *copy = new_kv(ops, M);
    int32_t index[M];

    (void)state;
    for (int j = 0; j < M; j++)
        index[j] = (int32_t)((j * 29) % N);
    write_rows(ops, kv, x, 40, 0);
    write_rows(ops, kv, x + 40 * WIDTH, N - 40, 40);
    for (int g = 0; g < G; g++)
        fb_kv_copy(ops, copy, g, kv, g, index, M);
    for (int values = 0; values <= 1; values++)
        for (int g = 0; g < G; g++) {
            const float *from = x + (H + values * G + g) * D;

            assert_ok(fb_to_host(ops, fb_kv_read(ops, kv, values, g, 1, N), read,
                                 N * D * sizeof *read));
            for (int j = 0; j < N; j++)
                assert_memory_equal(read + j * D, from + j * WIDTH, D * sizeof *read);
            assert_ok(fb_to_host(ops, fb_kv_read(ops, copy, values, g, 1, M), read,
                                 M * D * sizeof *read));
            for (int j = 0; j < M; j++)
                assert_memory_equal(read + j * D, from + index[j] * WIDTH,
                                    D * sizeof *read);
        }
    fb_kv_free(kv);
    fb_kv_free(copy);
    fb_ops_close(ops);
    free(x);
    free(read);
}

static void refused(fb_ops *ops, const char *words)
{
    assert_fails(fb_ops_status(ops), FB_DEFECT, words);
    fb_ops_reset(ops);
}

static void calls_that_do_not_fit_are_refused(void **state)
{
    enum { N = 40 };
    fb_ops *ops = open_ops(NULL, 1);
    fb_kv *kv = new_kv(ops, N);
    uint8_t all[N];
    fb_segment segments[G] = {{.context = {kv, 0, N, NULL, 0}},
                              {.context = {kv, 1, N, NULL, 0}}};
    fb_attend call = {.segments = segments,
                      .n_sequences = 1,
                      .heads = H,
                      .kv_heads = G,
                      .head_dim = D,
                      .scale = 1};

    (void)state;
    memset(all, 1, sizeof all);
    call.x = fb_full(ops, 2, (int64_t[]){N + 1, WIDTH}, 0);
    (void)fb_attention(ops, &call);
    refused(ops, "for 41 queries");
    call.x = fb_full(ops, 2, (int64_t[]){1, WIDTH + 1}, 0);
    (void)fb_attention(ops, &call);
    refused(ops, "does not hold q, k and v");
    call.x = fb_full(ops, 2, (int64_t[]){1, WIDTH}, 0);
    segments[1].context.n = N + 1;
    (void)fb_attention(ops, &call);
    refused(ops, "segment 1");
    call.x = fb_full(ops, 2, (int64_t[]){1, WIDTH}, 0);
    segments[1].context = (fb_part){kv, 1, N, all, 0};
    (void)fb_attention(ops, &call);
    refused(ops, "segment 1");
    fb_kv_write(ops, kv, fb_full(ops, 2, (int64_t[]){2, WIDTH}, 0), 1, H, G,
                (int64_t[]){0, 1}, (int64_t[]){N - 1});
    refused(ops, "entries 39 and on");
    (void)fb_kv_read(ops, kv, true, 1, 2, 3);
    refused(ops, "slots");
    fb_kv_free(kv);
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_a_mask),
        cmocka_unit_test(it_is_what_doubles_give),
        cmocka_unit_test(chunks_change_no_bit),
        cmocka_unit_test(neither_threads_nor_vectors_change_a_bit),
        cmocka_unit_test(cutting_masking_batching_give_the_same_bits),
        cmocka_unit_test(an_underflow_does_not_show_what_was_masked),
        cmocka_unit_test(a_tail_alone_is_a_context),
        cmocka_unit_test(what_is_not_seen_is_not_used),
        cmocka_unit_test(a_cache_takes_exactly_its_bytes),
        cmocka_unit_test(what_was_written_is_read_and_copied),
        cmocka_unit_test(calls_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
