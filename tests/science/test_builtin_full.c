/* test_builtin_full.c - the built-in model without eviction: always right, and why.
 *
 * Predictions of the construction (no tolerance but rounding): the right answer wins by
 * a margin of 20 (1 - 1/4) = 15 logits; an absent key gives `^` with 15 sqrt(4/3)
 * sqrt(5 / (4 + 4/3)) = 16.77; values of several tokens are copied one by one; and it is
 * the circuit that does it: one weight of it set to zero, and nothing is recalled.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/gguf.h"
#include "tests/support/recall.h"

#include "base/embed.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

FB_EMBED(builtin_file, "builtin.gguf");

enum { VOCABULARY = 64 };

/* Logits after `? key` behind the context. */
static void ask_whole(rig *m, const recall *r, int32_t key, float *logits)
{
    int32_t ids[RECALL_MOST + 2];
    const int64_t n = r->shape.n + 2, last = n - 1;

    memcpy(ids, r->ids, (size_t)r->shape.n * sizeof *ids);
    ids[n - 2] = ASK;
    ids[n - 1] = key;
    assert_ok(fb_logits(m->engine, ids, n, &last, 1, logits));
}

/* By how much `token` leads every other. */
static double margin(const float *logits, int32_t token)
{
    double second = -HUGE_VAL;

    for (int32_t t = 0; t < VOCABULARY; t++)
        if (t != token) second = fmax(second, (double)logits[t]);
    return (double)logits[token] - second;
}

/* A key that no pair has. */
static int32_t absent_key(const recall *r)
{
    for (int32_t key = FIRST_KEY; key < FIRST_KEY + N_KEYS; key++) {
        bool is_there = false;

        for (int p = 0; p < r->shape.pairs; p++)
            is_there = is_there || r->key[p] == key;
        if (!is_there) return key;
    }
    return -1;
}

/* Smallest margins over sequences of one shape. */
static void check_margins(rig *m, const recall_shape *shape, int n_sequences)
{
    static recall r;
    double right = HUGE_VAL, absent = HUGE_VAL;
    float logits[VOCABULARY];

    for (int i = 0; i < n_sequences; i++) {
        recall_make(&r, shape, (uint64_t)i);
        ask_whole(m, &r, r.prompt[1], logits);
        right = fmin(right, margin(logits, r.value[r.asked][0]));
        if (shape->pairs == N_KEYS) continue;
        ask_whole(m, &r, absent_key(&r), logits);
        absent = fmin(absent, margin(logits, BOS));
    }
    print_message("%5lld tokens, %s filler: right by %.3f, absent key by %.3f\n",
                  (long long)shape->n + 2, shape->is_inert ? "inert" : "live ", right,
                  absent);
    assert_true(right >= 14.999);
    if (shape->pairs < N_KEYS) assert_true(absent >= 16.76);
}

static void every_pair_is_recalled_by_a_margin_of_15(void **state)
{
    static const struct {
        int64_t n;
        int pairs, n_sequences;
    } length[] = {{49, 24, 40}, {129, 23, 40}, {257, 23, 40},
                  {513, 23, 6}, {1025, 23, 2}, {2049, 23, 1}};
    rig m;

    (void)state;
    recall_open(&m, "builtin");
    for (size_t i = 0; i < sizeof length / sizeof *length; i++)
        for (int inert = 0; inert < 2; inert++) {
            const recall_shape shape = {
                .n = length[i].n, .pairs = length[i].pairs, .is_inert = inert != 0};

            check_margins(&m, &shape, length[i].n_sequences);
        }
    rig_close(&m);
}

static void planted_norms_change_no_logit(void **state)
{
    static const char *const models[] = {"builtin", "builtin:good", "builtin:bad"};
    const recall_shape shape = {.n = 257, .pairs = 23};
    float logits[3][VOCABULARY];
    static recall r;

    (void)state;
    for (int i = 0; i < 3; i++) {
        rig m;

        recall_open(&m, models[i]);
        recall_make(&r, &shape, 0);
        ask_whole(&m, &r, r.prompt[1], logits[i]);
        rig_close(&m);
    }
    for (int t = 0; t < VOCABULARY; t++)
        for (int i = 1; i < 3; i++)
            assert_true(fabs((double)logits[i][t] - (double)logits[0][t]) < 1e-3);
}

static void values_of_several_tokens_are_copied_one_by_one(void **state)
{
    rig m;

    (void)state;
    recall_open(&m, "builtin");
    for (int t = 1; t <= RECALL_MOST_VALUES; t++)
        for (int i = 0; i < 20; i++) {
            const recall_shape shape = {.n = 257, .pairs = 6, .values = t};
            const fb_answer_options options = {.generate = false};
            fb_question question;
            fb_reading *reading;
            fb_variant *full;
            fb_answer answer;
            static recall r;

            recall_make(&r, &shape, (uint64_t)i);
            question = recall_question(&r);
            assert_ok(fb_read(&reading, m.engine, r.ids, r.shape.n, NULL, 0, 0));
            assert_ok(fb_keep_all(&full, reading));
            assert_ok(fb_answer_group(reading, &full, 1, &question, &options, &answer));
            assert_int_equal(recall_n_right(&r, &answer), t);
            fb_answer_clear(&answer);
            fb_variant_free(full);
            fb_reading_free(reading);
        }
    rig_close(&m);
}

/* --- damage ----------------------------------------------------------------------- */

static void write_damaged(char *path, const char *tensor, uint64_t row, uint64_t column)
{
    const size_t n = (size_t)(builtin_file_end - builtin_file);
    uint8_t *bytes = fb_alloc(FB_ACCOUNT_other, n);
    const gguf_tensor *t;
    const float zero = 0;
    float old;
    gguf g;
    int file;

    assert_non_null(bytes);
    memcpy(bytes, builtin_file, n);
    gguf_open(&g, bytes, n);
    t = gguf_find(&g, tensor);
    assert_true(row < t->rows && column < t->columns);
    memcpy(&old, bytes + t->at + (row * t->columns + column) * 4, 4);
    assert_true(old != 0);
    memcpy(bytes + t->at + (row * t->columns + column) * 4, &zero, 4);
    file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, n), n);
    close(file);
    fb_free(bytes);
}

static int n_recalled(const char *model, int n_sequences)
{
    const recall_shape shape = {.n = 257, .pairs = 23};
    int n_right = 0;
    rig m;

    recall_open(&m, model);
    for (int i = 0; i < n_sequences; i++) {
        float logits[VOCABULARY];
        static recall r;

        recall_make(&r, &shape, (uint64_t)i);
        ask_whole(&m, &r, r.prompt[1], logits);
        n_right += margin(logits, r.value[r.asked][0]) > 0;
    }
    rig_close(&m);
    return n_right;
}

/* The constant key of the fastest rotary pair in layer 1: without it, the previous
 * token stands out from its neighbours by half a logit instead of sixteen. */
static void one_weight_of_the_circuit_zeroed_and_nothing_is_recalled(void **state)
{
    char path[] = "/tmp/fb_damaged_XXXXXX";
    int n_right;

    (void)state;
    assert_int_equal(n_recalled("builtin", 50), 50);
    write_damaged(path, "blk.0.attn_k.weight", 0, 48);
    n_right = n_recalled(path, 50);
    unlink(path);
    print_message("damaged: %d of 50 recalled\n", n_right);
    assert_true(n_right <= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_recalled_by_a_margin_of_15),
        cmocka_unit_test(planted_norms_change_no_logit),
        cmocka_unit_test(values_of_several_tokens_are_copied_one_by_one),
        cmocka_unit_test(one_weight_of_the_circuit_zeroed_and_nothing_is_recalled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
