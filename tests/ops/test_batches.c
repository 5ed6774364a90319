/* test_batches.c - attention on random batches against a reference in double.
 *
 * Segments of every count from 1 to 100 and ragged ones; contexts with and without tails,
 * hidden entries, windows; caches of one's own and shared ones, in every type; up to 40
 * sequences; signals. The backend is that of device.h. Numbers of caches are multiples of
 * 1/64 below 2, which every type has.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/ops.h"
#include "tests/support/device.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

enum {
    MOST_SEQUENCES = 40,
    MOST_HEADS = 3,
    MOST_SEGMENTS = MOST_SEQUENCES * MOST_HEADS
};

static fb_ops *ops;
static numbers rng;

/* A cache and what it holds. */
struct cache {
    fb_kv *kv;
    int64_t n_slots, capacity[MOST_SEGMENTS];
    float *x[MOST_SEGMENTS]; /* [capacity, 2 d]: key, value */
};

/* One call. Its contexts lie in caches[0 .. n_caches), its tails in `tails`. */
struct batch {
    int64_t sequences, t, group, kv_heads, d, window;
    bool has_tail, has_signals;
    fb_dtype type;
    struct cache caches[MOST_SEQUENCES], tails;
    int64_t n_caches;
    fb_segment segments[MOST_SEGMENTS];
    const struct cache *context_of[MOST_SEGMENTS];
    uint8_t *hidden[MOST_SEGMENTS];
    float *x; /* [sequences * t, width] */
};

static int64_t heads_of(const struct batch *b)
{
    return b->group * b->kv_heads;
}

static int64_t width_of(const struct batch *b)
{
    return (heads_of(b) + 2 * b->kv_heads) * b->d;
}

static void fill_slot(struct cache *cache, const struct batch *b, int64_t slot)
{
    const int64_t n = cache->capacity[slot], at = 0;
    float *x = malloc(((size_t)(n * 2 * b->d) + 1) * sizeof *x);

    for (int64_t i = 0; i < n * 2 * b->d; i++)
        x[i] = (float)number_int(&rng, -127, 127) / 64;
    cache->x[slot] = x;
    if (n == 0) return;
    fb_scope_open(ops);
    fb_kv_write(ops, cache->kv,
                fb_from_host(ops, FB_F32, 2, (int64_t[]){n, 2 * b->d}, x), 1, 0, 1,
                &slot, &at);
    assert_ok(fb_ops_status(ops));
    fb_scope_close(ops);
}

static void open_cache(struct cache *cache, const struct batch *b)
{
    assert_ok(fb_kv_new(&cache->kv, ops, FB_ACCOUNT_kv, b->type, b->d, cache->n_slots,
                        cache->capacity));
    for (int64_t s = 0; s < cache->n_slots; s++)
        fill_slot(cache, b, s);
}

static void close_cache(struct cache *cache)
{
    for (int64_t s = 0; s < cache->n_slots; s++)
        free(cache->x[s]);
    fb_kv_free(cache->kv);
}

/* --- making one up */

static int64_t any_count(void)
{
    const int64_t kind = number_int(&rng, 0, 9);

    return number_int(&rng, 1, kind == 0 ? 500 : kind < 3 ? 8 : 100);
}

/* One cache for all, one for each, or a few. With windows and in place, all heads of a
 * sequence have equally many entries now and then. */
static void make_caches(struct batch *b, int64_t count)
{
    const bool is_even = number_int(&rng, 0, 1);

    b->n_caches =
        number_int(&rng, 0, 1) ? b->sequences : number_int(&rng, 1, b->sequences);
    for (int64_t c = 0; c < b->n_caches; c++) {
        struct cache *cache = &b->caches[c];
        const int64_t room = number_int(&rng, 0, 3) == 0 ? number_int(&rng, 0, 40) : 0;

        cache->n_slots = b->kv_heads;
        for (int64_t g = 0; g < b->kv_heads; g++) {
            cache->capacity[g] = is_even && g > 0 ? cache->capacity[0]
                                 : c + g == 0     ? count + room
                                                  : any_count() + room;
            if (!b->has_tail && cache->capacity[g] < b->t) cache->capacity[g] = b->t;
        }
        open_cache(cache, b);
    }
}

static void make_tails(struct batch *b)
{
    const int64_t capacity = b->t + number_int(&rng, 0, 20);

    if (!b->has_tail) return;
    b->tails.n_slots = b->sequences * b->kv_heads;
    for (int64_t s = 0; s < b->tails.n_slots; s++)
        b->tails.capacity[s] = capacity;
    open_cache(&b->tails, b);
}

/* Entry 0 stays. */
static void hide_some(struct batch *b, int64_t i)
{
    fb_part *part = &b->segments[i].context;
    const int64_t of_4 = number_int(&rng, 0, 4);

    b->hidden[i] = calloc((size_t)part->n + 1, 1);
    part->n_open = 0;
    for (int64_t j = 0; j < part->n; j++) {
        b->hidden[i][j] = j > 0 && number_int(&rng, 0, 3) < of_4;
        part->n_open += b->hidden[i][j] == 0;
    }
    part->hidden = b->hidden[i];
}

static void make_segments(struct batch *b, bool hides)
{
    const int64_t tail =
        b->t + (b->has_tail ? number_int(&rng, 0, b->tails.capacity[0] - b->t) : 0);

    for (int64_t i = 0; i < b->sequences * b->kv_heads; i++) {
        const int64_t v = i / b->kv_heads, g = i % b->kv_heads;
        struct cache *cache = &b->caches[v % b->n_caches];
        const bool uses_all = number_int(&rng, 0, 2) > 0;
        const int64_t least = b->has_tail ? 0 : b->t;
        fb_segment *s = &b->segments[i];

        b->context_of[i] = cache;
        s->context = (fb_part){.kv = cache->kv, .slot = g, .n = cache->capacity[g]};
        if (!uses_all) s->context.n = number_int(&rng, least, s->context.n);
        if (b->has_tail) s->tail = (fb_part){.kv = b->tails.kv, .slot = i, .n = tail};
        if (hides && number_int(&rng, 0, 3) > 0) hide_some(b, i);
    }
}

static struct batch *new_batch(int64_t count)
{
    static const fb_dtype types[] = {FB_F32, FB_F32, FB_F16, FB_BF16};
    struct batch *b = calloc(1, sizeof *b);
    const int64_t kind = number_int(&rng, 0, 5);

    b->type = types[number_int(&rng, 0, 3)];
    b->sequences = kind < 2 ? 1 : number_int(&rng, 1, kind == 2 ? 40 : 8);
    b->t = number_int(&rng, 1, 7);
    b->group = number_int(&rng, 1, 3);
    b->kv_heads = number_int(&rng, 1, MOST_HEADS);
    b->d = number_int(&rng, 1, number_int(&rng, 0, 3) ? 40 : 130);
    b->has_tail = number_int(&rng, 0, 2) > 0;
    b->has_signals = kind == 0;
    b->window = kind == 1 || kind == 4 ? number_int(&rng, 1, 120) : 0;
    make_caches(b, count);
    make_tails(b);
    make_segments(b, kind == 2 || kind == 3);
    b->x = number_array(&rng, b->sequences * b->t * width_of(b), 1.5f);
    return b;
}

static void free_batch(struct batch *b)
{
    for (int64_t c = 0; c < b->n_caches; c++)
        close_cache(&b->caches[c]);
    if (b->has_tail) close_cache(&b->tails);
    for (int64_t i = 0; i < b->sequences * b->kv_heads; i++)
        free(b->hidden[i]);
    free(b->x);
    free(b);
}

/* --- the reference */

/* Entry j of a segment, context first: its key and value. NULL: hidden. */
static const float *entry_of(const struct batch *b, int64_t i, int64_t j)
{
    const fb_segment *s = &b->segments[i];

    if (j >= s->context.n) return b->tails.x[i] + (j - s->context.n) * 2 * b->d;
    if (b->hidden[i] != NULL && b->hidden[i][j]) return NULL;
    return b->context_of[i]->x[s->context.slot] + j * 2 * b->d;
}

/* Query i of head h of sequence v: p [entries of the segment] holds A, out [d]. */
static void attend_in_double(const struct batch *b, int64_t v, int64_t h, int64_t i,
                             double *p, double *out)
{
    const int64_t segment = v * b->kv_heads + h / b->group, d = b->d;
    const fb_segment *s = &b->segments[segment];
    const int64_t n = s->context.n + s->tail.n, end = n - b->t + i + 1;
    const int64_t first = b->window > 0 && end > b->window ? end - b->window : 0;
    const float *q = b->x + (v * b->t + i) * width_of(b) + h * d;
    double max = -HUGE_VAL, sum = 0;

    for (int64_t j = 0; j < n; j++) {
        const float *entry = entry_of(b, segment, j);

        p[j] = -HUGE_VAL;
        if (entry == NULL || j < first || j >= end) continue;
        p[j] = 0;
        for (int64_t c = 0; c < d; c++)
            p[j] += (double)q[c] * (double)entry[c];
        p[j] /= sqrt((double)d);
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - max);
    for (int64_t c = 0; c < d; c++)
        out[c] = 0;
    for (int64_t j = 0; j < n; j++) {
        p[j] /= sum;
        for (int64_t c = 0; c < d && p[j] > 0; c++)
            out[c] += p[j] * (double)entry_of(b, segment, j)[d + c];
    }
}

/* --- one call */

enum { MOST_ROWS = 9 };

struct signals {
    int64_t n, w, first_row; /* sum [H, n], rows [H, w, n] */
    fb_tensor sum, rows;
    float *sums, *all;
};

static struct signals open_signals(const struct batch *b)
{
    struct signals s = {.n = 0};

    if (!b->has_signals) return s;
    for (int64_t g = 0; g < b->kv_heads; g++)
        if (b->segments[g].context.n > s.n) s.n = b->segments[g].context.n;
    s.n += number_int(&rng, 0, 3);
    s.first_row = number_int(&rng, -b->t, 2);
    s.w = b->t + (s.first_row > 0 ? s.first_row : 0);
    s.sum = fb_full(ops, 2, (int64_t[]){heads_of(b), s.n}, 0.25);
    s.rows = fb_full(ops, 3, (int64_t[]){heads_of(b), s.w, s.n}, 0);
    return s;
}

static void check_signals(const struct batch *b, struct signals *s)
{
    const int64_t columns = heads_of(b) * s->n;
    double *p = calloc(2000, sizeof *p), *out = calloc((size_t)b->d, sizeof *out);
    double *sums = calloc((size_t)columns + 1, sizeof *sums);
    double *all = calloc((size_t)(columns * s->w) + 1, sizeof *all);

    s->sums = calloc((size_t)columns + 1, sizeof *s->sums);
    s->all = calloc((size_t)(columns * s->w) + 1, sizeof *s->all);
    assert_ok(fb_to_host(ops, s->sum, s->sums, (size_t)columns * sizeof *s->sums));
    assert_ok(
        fb_to_host(ops, s->rows, s->all, (size_t)(columns * s->w) * sizeof *s->all));
    for (int64_t h = 0; h < heads_of(b); h++) {
        const int64_t n = b->segments[h / b->group].context.n;

        for (int64_t j = 0; j < s->n; j++)
            sums[h * s->n + j] = 0.25;
        for (int64_t i = 0; i < b->t; i++) {
            const int64_t row = s->first_row + i;

            attend_in_double(b, 0, h, i, p, out);
            for (int64_t j = 0; j < n; j++) {
                sums[h * s->n + j] += p[j];
                if (row >= 0) all[(h * s->w + row) * s->n + j] = p[j];
            }
        }
    }
    assert_true(all_close("sum of A", s->sums, sums, columns, 5e-6));
    assert_true(all_close("rows of A", s->all, all, columns * s->w, 3e-6));
    free(s->sums);
    free(s->all);
    free(sums);
    free(all);
    free(p);
    free(out);
}

static void check_output(const struct batch *b, fb_tensor got)
{
    const int64_t row = heads_of(b) * b->d, n = b->sequences * b->t * row;
    double *p = calloc(2000, sizeof *p), *want = calloc((size_t)n, sizeof *want);
    float *x = malloc((size_t)n * sizeof *x);

    for (int64_t v = 0; v < b->sequences; v++)
        for (int64_t i = 0; i < b->t; i++)
            for (int64_t h = 0; h < heads_of(b); h++)
                attend_in_double(b, v, h, i, p, want + (v * b->t + i) * row + h * b->d);
    assert_ok(fb_to_host(ops, got, x, (size_t)n * sizeof *x));
    assert_true(all_close("output", x, want, n, 5e-6));
    free(p);
    free(want);
    free(x);
}

static void check_batch(const struct batch *b)
{
    struct signals signals;
    fb_tensor x, got;

    fb_scope_open(ops);
    signals = open_signals(b);
    x = fb_from_host(ops, FB_F32, 2, (int64_t[]){b->sequences * b->t, width_of(b)},
                     b->x);
    got = fb_attention(ops, &(fb_attend){.x = x,
                                         .segments = b->segments,
                                         .n_sequences = b->sequences,
                                         .heads = heads_of(b),
                                         .kv_heads = b->kv_heads,
                                         .head_dim = b->d,
                                         .scale = 1 / sqrt((double)b->d),
                                         .window = b->window,
                                         .sum = signals.sum,
                                         .rows = signals.rows,
                                         .first_row = signals.first_row});
    check_output(b, got);
    if (b->has_signals) check_signals(b, &signals);
    fb_scope_close(ops);
}

static void any_batch_is_what_doubles_give(void **state)
{
    const int64_t rounds = long_or_short(3000, 400);

    (void)state;
    assert_ok(
        fb_ops_open(&ops, &(fb_ops_options){.device = test_device(), .threads = 2}));
    for (int64_t round = 0; round < rounds; round++) {
        struct batch *b;

        rng.state = (uint64_t)round * 77;
        b = new_batch(1 + round % 100);
        check_batch(b);
        check_batch(b); /* what was kept of the first call is used again */
        free_batch(b);
    }
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_batch_is_what_doubles_give),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
