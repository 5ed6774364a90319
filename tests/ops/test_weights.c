/* test_weights.c - weights kept in floats, in whole numbers and in their blocks give the
 * same bytes: for every format of blocks, on every target, with one to three threads.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "model/blocks.h"
#include "ops/ops.h"
#include "tests/support/numbers.h"
#include "tests/support/test.h"

enum { MOST_N = 77, MOST_K = 768, MOST_ROWS = 300, MOST_TYPES = 48, Q8_0 = 8 };

/* Rows of blocks of one format. */
struct blocks {
    const fb_blocks *format;
    int64_t n, k;
    uint8_t bytes[MOST_N * MOST_K * 4];
    _Atomic int64_t calls; /* of unpack, since it was last set to 0 */
};

static struct blocks blocks;

static const uint8_t *row_of(const struct blocks *b, int64_t row)
{
    return b->bytes + (size_t)(row * b->k / b->format->per_block) * b->format->bytes;
}

static fb_status unpack(void *context, int64_t begin, int64_t end, float *out)
{
    struct blocks *b = context;

    b->calls++;
    b->format->unpack(row_of(b, begin), (end - begin) * b->k / b->format->per_block,
                      out);
    return FB_OK;
}

static fb_status eights(void *context, int64_t begin, int64_t end, int8_t *q,
                        float *scale)
{
    struct blocks *b = context;

    fb_split_q8_0(row_of(b, begin), (end - begin) * b->k / 32, q, scale);
    return FB_OK;
}

static bool is_called(const struct blocks *b, const char *name)
{
    return strcmp(b->format->name, name) == 0;
}

/* Bytes of which none is the upper one of an infinity or a NaN, whatever the format; of
 * plain numbers moderate ones. */
static void fill(struct blocks *b, const fb_blocks *format, int64_t n, int64_t k)
{
    numbers rng = {(uint64_t)(n + k)};
    float x;

    b->format = format;
    b->n = n;
    b->k = k;
    for (size_t i = 0; i < sizeof b->bytes; i++) {
        const uint8_t byte = (uint8_t)number_bits(&rng);

        b->bytes[i] = (byte & 0x7c) == 0x7c ? byte & 0xbf : byte;
        if (is_called(b, "BF16") && i % 2 == 1) b->bytes[i] = (byte & 0x81) | 0x3e;
        if (is_called(b, "F32") && i % sizeof x == 0) {
            x = number_unit(&rng);
            memcpy(b->bytes + i, &x, sizeof x);
            i += sizeof x - 1;
        }
    }
}

enum form { FLOATS, BLOCKS, EIGHTS, N_FORMS };

static fb_tensor new_weight(fb_ops *ops, struct blocks *b, enum form form)
{
    return fb_weight(ops, &(fb_weight_source){.rows = b->n,
                                              .columns = b->k,
                                              .unpack = unpack,
                                              .eights = form == EIGHTS ? eights : NULL,
                                              .context = b,
                                              .stays = form == BLOCKS});
}

/* Products of a few numbers of rows, one behind the other, then some rows themselves. */
static size_t results(fb_ops *ops, struct blocks *b, enum form form, float *out)
{
    static const int64_t rows[] = {1, 2, 3, 6, 7, 31, 33, MOST_ROWS};
    static const int32_t ids[] = {0, 31, 32, 5, 31};
    numbers rng = {11};
    float *x = number_array(&rng, MOST_ROWS * b->k, 1), *at = out;
    fb_tensor weight = new_weight(ops, b, form);

    fb_scope_open(ops);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fb_tensor a = fb_from_host(ops, FB_F32, 2, (int64_t[]){rows[i], b->k}, x);
        const size_t n = (size_t)(rows[i] * b->n);

        assert_ok(fb_to_host(ops, fb_linear(ops, a, weight), at, n * sizeof *at));
        at += n;
    }
    assert_ok(fb_to_host(ops, fb_embedding(ops, weight, ids, 5), at,
                         (size_t)(5 * b->k) * sizeof *at));
    at += 5 * b->k;
    fb_scope_close(ops);
    fb_release(ops, weight);
    free(x);
    return (size_t)(at - out);
}

static void compare(const struct blocks *b, const float *want, const float *got,
                    size_t n, const fb_ops *ops, enum form form)
{
    if (all_equal(b->format->name, got, want, (int64_t)n)) return;
    fail_msg("%s [%lld, %lld]: form %d on %s with %d threads", b->format->name,
             (long long)b->n, (long long)b->k, (int)form, fb_ops_isa(ops),
             fb_threads_count(fb_ops_threads(ops)));
}

enum { MOST_RESULTS = 400 * MOST_N + 5 * MOST_K };

/* All forms on one context, against what the first context gave in floats. */
static void check_forms(fb_ops *ops, struct blocks *b, float *want, bool *has_want)
{
    static float got[MOST_RESULTS];

    for (enum form form = FLOATS; form < N_FORMS; form++) {
        size_t n;

        if (form == EIGHTS && b->format != fb_blocks_find(Q8_0)) continue;
        n = results(ops, b, form, got);
        assert_true(n <= MOST_RESULTS);
        if (!*has_want) memcpy(want, got, n * sizeof *got);
        *has_want = true;
        compare(b, want, got, n, ops, form);
    }
}

static void check_shape(struct blocks *b)
{
    static const char *const isas[] = {"plain", "avx2", "avx512", "neon"};
    static float want[MOST_RESULTS];
    bool has_want = false;

    for (int i = 0; i < 4; i++)
        for (int threads = 1; threads <= 3; threads++) {
            const fb_ops_options options = {.isa = isas[i], .threads = threads};
            fb_ops *ops;

            if (fb_ops_open(&ops, &options) != FB_OK) continue;
            check_forms(ops, b, want, &has_want);
            fb_ops_close(ops);
        }
}

static void every_form_of_every_format_gives_the_same_bytes(void **state)
{
    int n = 0;

    (void)state;
    for (uint32_t type = 0; type < MOST_TYPES; type++) {
        const fb_blocks *format = fb_blocks_find(type);

        if (format == NULL || format->unpack == NULL) continue;
        fill(&blocks, format, MOST_N, 256);
        check_shape(&blocks);
        fill(&blocks, format, 33, format->per_block == 1 ? 51 : 3 * format->per_block);
        check_shape(&blocks);
        n++;
    }
    assert_int_equal(n, 13);
}

/* --- what is held */

static void each_form_holds_what_it_says(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_weights);
    const size_t wanted[] = {64 * 96 * 4, 0, 2 * 3 * (32 * 4 + 32 * 32)};
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    fill(&blocks, fb_blocks_find(Q8_0), 33, 96);
    for (enum form form = FLOATS; form < N_FORMS; form++) {
        const fb_weight_source source = {.rows = 33,
                                         .columns = 96,
                                         .unpack = unpack,
                                         .eights = form == EIGHTS ? eights : NULL,
                                         .stays = form == BLOCKS};
        const fb_tensor weight = new_weight(ops, &blocks, form);

        assert_int_equal(fb_memory_now(FB_ACCOUNT_weights) - before, wanted[form]);
        assert_int_equal(fb_weight_size(&source), wanted[form]);
        fb_release(ops, weight);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_weights), before);
    }
    fb_ops_close(ops);
}

/* Reading many rows costs little more than one unpacking. */
static void a_panel_is_unpacked_once_for_many_rows(void **state)
{
    const fb_ops_options options = {.threads = 1};
    fb_tensor weight;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, &options));
    fill(&blocks, fb_blocks_find(Q8_0), 64, 96);
    weight = new_weight(ops, &blocks, BLOCKS);
    assert_int_equal(blocks.calls > 0, true);
    blocks.calls = 0;
    (void)fb_linear(ops, fb_full(ops, 2, (int64_t[]){900, 96}, 1), weight);
    assert_ok(fb_ops_status(ops));
    assert_int_equal(blocks.calls, 2);
    fb_release(ops, weight);
    fb_ops_close(ops);
}

/* --- a source that fails later */

struct fragile {
    _Atomic bool is_broken;
};

static fb_status unpack_or_fail(void *context, int64_t begin, int64_t end, float *out)
{
    const struct fragile *f = context;

    if (f->is_broken) return fb_fail(FB_IO, "row %lld is gone", (long long)begin);
    memset(out, 0, (size_t)(end - begin) * 8 * sizeof *out);
    return FB_OK;
}

static void a_source_that_fails_later_fails_the_product(void **state)
{
    struct fragile fragile = {false};
    const fb_weight_source source = {.rows = 200,
                                     .columns = 8,
                                     .unpack = unpack_or_fail,
                                     .context = &fragile,
                                     .stays = true};
    const int32_t row = 3;
    fb_tensor weight;
    fb_ops *ops;

    (void)state;
    assert_ok(fb_ops_open(&ops, NULL));
    weight = fb_weight(ops, &source);
    assert_ok(fb_ops_status(ops));
    fragile.is_broken = true;
    (void)fb_linear(ops, fb_full(ops, 2, (int64_t[]){4, 8}, 1), weight);
    assert_fails(fb_ops_status(ops), FB_IO, "is gone");
    fb_ops_reset(ops);
    (void)fb_embedding(ops, weight, &row, 1);
    assert_fails(fb_ops_status(ops), FB_IO, "row 3 is gone");
    fb_ops_reset(ops);
    fb_release(ops, weight);
    fb_ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_every_format_gives_the_same_bytes),
        cmocka_unit_test(each_form_holds_what_it_says),
        cmocka_unit_test(a_panel_is_unpacked_once_for_many_rows),
        cmocka_unit_test(a_source_that_fails_later_fails_the_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
