/* test_digest.c - the digest of a cell is a hash of the documented text, of all of it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/digest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int32_t some_ids[] = {17, 4, 4}, other_ids[] = {17, 4, 5};
static const fb_digest_score some_scores[] = {{"nll", 3.0}, {"em", -0.1}};

static const fb_digest_cell some_cell = {
    .spec_sha256 = "aa",
    .model_sha256 = "bb",
    .sample_sha256 = "cc",
    .task = "niah",
    .sample = "17/lamp",
    .rule = "snapkv:window=64,kernel=5",
    .seed = 7,
    .budget = "20%",
    .budget_entries = 9180,
    .budget_bytes = 4700160,
    .kept_sha256 = "dd",
    .ids = some_ids,
    .n_ids = 3,
    .stop = "end",
    .scores = some_scores,
    .n_scores = 2,
    .evicted = 36720,
    .fallback = false,
    .trace_context = "e1",
    .trace_answer = "e2",
    .trace_decode = "",
};

static void hash_text(const char *text, char out[FB_HASH_HEX])
{
    fb_hash_bytes(text, strlen(text), out);
}

static void a_cell_hashes_its_documented_text(void **state)
{
    char expected[FB_HASH_HEX], digest[FB_HASH_HEX];

    (void)state;
    hash_text("bits 1 cell\n"
              "spec 2:aa\n"
              "model 2:bb\n"
              "tokens 2:cc\n"
              "task 4:niah\n"
              "sample 7:17/lamp\n"
              "rule 25:snapkv:window=64,kernel=5\n"
              "seed 7\n"
              "budget 3:20%\n"
              "budget_entries 9180\n"
              "budget_bytes 4700160\n"
              "kept 2:dd\n"
              "ids 3 17 4 4\n"
              "stop 3:end\n"
              "score 3:nll 0x1.8000000000000p+1\n"
              "score 2:em -0x1.999999999999ap-4\n"
              "evicted 36720\n"
              "fallback 0\n"
              "trace_context 2:e1\n"
              "trace_answer 2:e2\n"
              "trace_decode 0:\n",
              expected);
    fb_cell_digest(&some_cell, digest);
    assert_string_equal(digest, expected);
}

static void assert_differs(const fb_digest_cell *changed, const char *field)
{
    char before[FB_HASH_HEX], after[FB_HASH_HEX];

    fb_cell_digest(&some_cell, before);
    fb_cell_digest(changed, after);
    if (strcmp(before, after) == 0) fail_msg("'%s' is not in the digest", field);
}

#define DIFFERS(field, other)                                                          \
    do {                                                                               \
        fb_digest_cell changed_ = some_cell;                                           \
        changed_.field = other;                                                        \
        assert_differs(&changed_, #field);                                             \
    } while (0)

static void every_fact_changes_the_digest(void **state)
{
    static const fb_digest_score other_value[] = {{"nll", 3.0}, {"em", 0.1}};
    static const fb_digest_score other_name[] = {{"nll", 3.0}, {"f1", -0.1}};
    static const fb_digest_score other_order[] = {{"em", -0.1}, {"nll", 3.0}};

    (void)state;
    DIFFERS(spec_sha256, "ab");
    DIFFERS(model_sha256, "ba");
    DIFFERS(sample_sha256, "ca");
    DIFFERS(task, "niaj");
    DIFFERS(sample, "18/lamp");
    DIFFERS(rule, "snapkv:window=63,kernel=5");
    DIFFERS(seed, 8);
    DIFFERS(budget, "21%");
    DIFFERS(budget_entries, 9181);
    DIFFERS(budget_bytes, 4700161);
    DIFFERS(kept_sha256, "da");
    DIFFERS(ids, other_ids);
    DIFFERS(n_ids, 2);
    DIFFERS(stop, "length");
    DIFFERS(scores, other_value);
    DIFFERS(scores, other_name);
    DIFFERS(scores, other_order);
    DIFFERS(n_scores, 1);
    DIFFERS(evicted, 36721);
    DIFFERS(fallback, true);
    DIFFERS(trace_context, "e0");
    DIFFERS(trace_answer, "e0");
    DIFFERS(trace_decode, "e3");
}

static void text_cannot_pose_as_another_fact(void **state)
{
    fb_digest_cell a = some_cell, b = some_cell;
    char digest_a[FB_HASH_HEX], digest_b[FB_HASH_HEX];

    (void)state;
    a.task = "x\nsample 1:y";
    a.sample = "z";
    b.task = "x";
    b.sample = "y\nsample 1:z";
    fb_cell_digest(&a, digest_a);
    fb_cell_digest(&b, digest_b);
    assert_string_not_equal(digest_a, digest_b);
}

static void a_missing_string_is_the_empty_one(void **state)
{
    fb_digest_cell cell = some_cell;
    char with_empty[FB_HASH_HEX], with_null[FB_HASH_HEX];

    (void)state;
    fb_cell_digest(&cell, with_empty);
    cell.trace_decode = NULL;
    fb_cell_digest(&cell, with_null);
    assert_string_equal(with_empty, with_null);
}

static void digest_of_value(double value, char out[FB_HASH_HEX])
{
    const fb_digest_score score = {"x", value};
    const fb_digest_cell cell = {.scores = &score, .n_scores = 1};

    fb_cell_digest(&cell, out);
}

/* The text of a cell that has nothing but one score, which reads `hex`. */
static void written_as(double value, const char *hex)
{
    char expected[FB_HASH_HEX], digest[FB_HASH_HEX], text[512];

    snprintf(text, sizeof text,
             "bits 1 cell\nspec 0:\nmodel 0:\ntokens 0:\ntask 0:\nsample 0:\nrule 0:\n"
             "seed 0\nbudget 0:\nbudget_entries 0\nbudget_bytes 0\nkept 0:\nids 0\n"
             "stop 0:\nscore 1:x %s\nevicted 0\nfallback 0\ntrace_context 0:\n"
             "trace_answer 0:\ntrace_decode 0:\n",
             hex);
    hash_text(text, expected);
    digest_of_value(value, digest);
    if (strcmp(digest, expected) != 0) fail_msg("%a is not written %s", value, hex);
}

static void floats_are_written_as_python_writes_them(void **state)
{
    (void)state;
    written_as(0.0, "0x0.0p+0");
    written_as(-0.0, "-0x0.0p+0");
    written_as(1.0, "0x1.0000000000000p+0");
    written_as(0.1, "0x1.999999999999ap-4");
    written_as(-1e300, "-0x1.7e43c8800759cp+996");
    written_as(0x1p-1074, "0x0.0000000000001p-1022");
    written_as(0x1p-1022, "0x1.0000000000000p-1022");
    written_as((double)INFINITY, "inf");
    written_as(-(double)INFINITY, "-inf");
    written_as((double)NAN, "nan");
    written_as(-(double)NAN, "nan");
}

static void a_seed_of_all_bits_is_written_unsigned(void **state)
{
    fb_digest_cell a = some_cell, b = some_cell;
    char digest_a[FB_HASH_HEX], digest_b[FB_HASH_HEX];

    (void)state;
    a.seed = UINT64_MAX;
    b.seed = UINT64_MAX - 1;
    fb_cell_digest(&a, digest_a);
    fb_cell_digest(&b, digest_b);
    assert_string_not_equal(digest_a, digest_b);
}

static void kept_sets_hash_their_documented_text(void **state)
{
    int32_t first[] = {0, 5, 9}, second[] = {3};
    int32_t *position[] = {first, second};
    int64_t count[] = {3, 1};
    const fb_kept kept = {.n_slots = 2, .count = count, .position = position};
    char expected[FB_HASH_HEX], hex[FB_HASH_HEX];

    (void)state;
    hash_text("bits 1 kept\nslots 2\npositions 3 0 5 9\npositions 1 3\n", expected);
    fb_kept_sha256(&kept, hex);
    assert_string_equal(hex, expected);
    hash_text("bits 1 kept\nall\n", expected);
    fb_kept_sha256(NULL, hex);
    assert_string_equal(hex, expected);
}

static void a_position_in_another_slot_is_another_kept_set(void **state)
{
    int32_t positions[] = {0, 5, 9};
    int32_t *position[] = {positions, positions + 1},
            *moved[] = {positions, positions + 2};
    int64_t count[] = {1, 2}, moved_count[] = {2, 1};
    const fb_kept a = {.n_slots = 2, .count = count, .position = position};
    const fb_kept b = {.n_slots = 2, .count = moved_count, .position = moved};
    char hex_a[FB_HASH_HEX], hex_b[FB_HASH_HEX];

    (void)state;
    fb_kept_sha256(&a, hex_a);
    fb_kept_sha256(&b, hex_b);
    assert_string_not_equal(hex_a, hex_b);
}

static void a_sample_hashes_its_parts_apart(void **state)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    char expected[FB_HASH_HEX], hex[FB_HASH_HEX];

    (void)state;
    hash_text("bits 1 sample\ncontext 2 1 2\nprompt 1 3\nanswer 1 4\n", expected);
    fb_sample_sha256(ids, 2, ids + 2, 1, ids + 3, 1, hex);
    assert_string_equal(hex, expected);
    fb_sample_sha256(ids, 1, ids + 1, 2, ids + 3, 1, hex);
    assert_string_not_equal(hex, expected);
    fb_sample_sha256(ids, 2, ids + 2, 2, ids, 0, hex);
    assert_string_not_equal(hex, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_hashes_its_documented_text),
        cmocka_unit_test(every_fact_changes_the_digest),
        cmocka_unit_test(text_cannot_pose_as_another_fact),
        cmocka_unit_test(a_missing_string_is_the_empty_one),
        cmocka_unit_test(floats_are_written_as_python_writes_them),
        cmocka_unit_test(a_seed_of_all_bits_is_written_unsigned),
        cmocka_unit_test(kept_sets_hash_their_documented_text),
        cmocka_unit_test(a_position_in_another_slot_is_another_kept_set),
        cmocka_unit_test(a_sample_hashes_its_parts_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
