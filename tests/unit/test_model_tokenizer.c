/* test_model_tokenizer.c - text to ids by the rules of the file, and back.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/threads.h"
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "tests/support/failing_memory.h"
#include "tests/support/make_vocabulary.h"
#include "tests/support/open_tokenizer.h"

#include <flexbudget/task.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static make_gguf file;
static make_vocabulary vocabulary;

static fb_tokenizer *open_tokenizer(void)
{
    fb_tokenizer *t = NULL;
    fb_gguf *gguf = NULL;

    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    if (tokenizer_of_gguf(&t, gguf) != FB_OK) fail_msg("%s", fb_error_message());
    fb_gguf_close(gguf);
    memset(file.bytes, 0, file.n); /* nothing of the file is needed */
    return t;
}

static fb_tokenizer *tokenizer(const char *pre)
{
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, pre);
    return open_tokenizer();
}

static void refused(fb_status wanted, const char *part)
{
    fb_tokenizer *t = NULL;
    fb_gguf *gguf = NULL;

    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    assert_int_equal(tokenizer_of_gguf(&t, gguf), wanted);
    assert_null(t);
    if (strstr(fb_error_message(), part) == NULL)
        fail_msg("'%s' does not say '%s'", fb_error_message(), part);
    fb_gguf_close(gguf);
}

/* Ids as "1 2 3". */
static const char *ids_of(const fb_tokenizer *t, const fb_piece *pieces, int n_pieces)
{
    static char text[1 << 16];
    fb_ids ids = {0};
    size_t at = 0;

    text[0] = '\0';
    assert_int_equal(fb_tokenizer_encode(t, pieces, n_pieces, &ids), FB_OK);
    for (int64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, i == 0 ? "%d" : " %d",
                               ids.ids[i]);
    assert_true(at < sizeof text);
    fb_ids_clear(&ids);
    return text;
}

static const char *plain_ids(const fb_tokenizer *t, const char *text)
{
    return ids_of(t, &(fb_piece){text, strlen(text), false}, 1);
}

/* --- merging -------------------------------------------------------------------- */

static void earlier_merges_come_first(void **state)
{
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "b", "c"); /* 256 */
    (void)vocabulary_merge(&vocabulary, "a", "b"); /* 257 */
    (void)vocabulary_merge(&vocabulary, "a", "a"); /* 258 */
    t = tokenizer("gpt-2");
    assert_string_equal(plain_ids(t, "abc"), "97 256");
    assert_string_equal(plain_ids(t, "ab"), "257");
    assert_string_equal(plain_ids(t, "aaa"), "258 97"); /* leftmost first */
    assert_string_equal(plain_ids(t, "aaaaa"), "258 258 97");
    assert_string_equal(plain_ids(t, ""), "");
    fb_tokenizer_free(t);
}

typedef struct rule {
    int left, right, made;
} rule;

static rule rules[VOCABULARY_MOST];
static int n_rules;

/* The definition, step by step: the neighbours whose merge stands first, leftmost. */
static int merge_slowly(int *ids, int n)
{
    for (;;) {
        int best = n_rules, at = -1;

        for (int i = 0; i + 1 < n; i++)
            for (int r = 0; r < best; r++)
                if (rules[r].left == ids[i] && rules[r].right == ids[i + 1]) {
                    best = r;
                    at = i;
                }
        if (at < 0) return n;
        ids[at] = rules[best].made;
        for (int i = at + 1; i + 1 < n; i++)
            ids[i] = ids[i + 1];
        n--;
    }
}

/* Merges of random tokens made of a to c, no two of the same text. */
static void make_random_merges(fb_random *random, int n)
{
    vocabulary_begin(&vocabulary);
    n_rules = 0;
    while (n_rules < n) {
        const uint64_t n_tokens = (uint64_t)(3 + n_rules);
        const int x = (int)fb_random_below(random, n_tokens);
        const int y = (int)fb_random_below(random, n_tokens);
        const int left = x < 3 ? 'a' + x : 256 + x - 3;
        const int right = y < 3 ? 'a' + y : 256 + y - 3;
        const char *l = vocabulary.token[left], *r = vocabulary.token[right];
        char both[VOCABULARY_TEXT];
        bool is_new = strlen(l) + strlen(r) <= 12;

        (void)snprintf(both, sizeof both, "%.40s%.40s", l, r);
        for (int i = 256; i < vocabulary.n; i++)
            is_new &= strcmp(vocabulary.token[i], both) != 0;
        if (is_new)
            rules[n_rules++] = (rule){left, right, vocabulary_merge(&vocabulary, l, r)};
    }
}

static void compare_random_word(const fb_tokenizer *t, fb_random *random)
{
    char word[41] = {0}, wanted[1 << 10] = {0};
    int ids[40], n = 1 + (int)fb_random_below(random, 40);

    for (int i = 0; i < n; i++)
        ids[i] = word[i] = (char)('a' + fb_random_below(random, 3));
    n = merge_slowly(ids, n);
    for (int i = 0; i < n; i++)
        (void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted),
                       i == 0 ? "%d" : " %d", ids[i]);
    assert_string_equal(plain_ids(t, word), wanted);
}

static void random_merges_follow_the_definition(void **state)
{
    fb_random random;

    (void)state;
    fb_random_seed(&random, 1, 0);
    for (int round = 0; round < 20; round++) {
        fb_tokenizer *t;

        make_random_merges(&random, 25);
        t = tokenizer("gpt-2");
        for (int w = 0; w < 50; w++)
            compare_random_word(t, &random);
        fb_tokenizer_free(t);
    }
}

static void a_word_of_a_million_letters_is_merged(void **state)
{
    enum { LETTERS = 1 << 20 };
    char *text = fb_alloc(FB_ACCOUNT_other, LETTERS);
    const fb_piece piece = {text, LETTERS, false};
    fb_ids ids = {0};
    fb_tokenizer *t;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', LETTERS);
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "a");
    (void)vocabulary_merge(&vocabulary, "aa", "aa");
    t = tokenizer("smollm");
    assert_int_equal(fb_tokenizer_encode(t, &piece, 1, &ids), FB_OK);
    assert_int_equal(ids.n, LETTERS / 4);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
    fb_free(text);
}

static void bytes_without_a_token_give_nothing(void **state)
{
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");
    (void)strcpy(vocabulary.token['x'], "(gone)"); /* no longer one byte */
    t = tokenizer("gpt-2");
    assert_string_equal(plain_ids(t, "x"), "");
    assert_string_equal(plain_ids(t, "axb"), "256"); /* left out before merging */
    fb_tokenizer_free(t);
}

/* --- words ---------------------------------------------------------------------- */

static void digits_stand_alone_where_the_file_says_so(void **state)
{
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "1", "2"); /* 256 */
    (void)vocabulary_merge(&vocabulary, " ", "a"); /* 257 */
    t = tokenizer("smollm");
    assert_string_equal(fb_tokenizer_pre(t), "smollm");
    assert_string_equal(plain_ids(t, "12"), "49 50");
    assert_string_equal(plain_ids(t, "12 a"), "49 50 257");
    fb_tokenizer_free(t);
    t = tokenizer("gpt-2");
    assert_string_equal(plain_ids(t, "12"), "256");
    fb_tokenizer_free(t);
    t = tokenizer("qwen2");
    assert_string_equal(plain_ids(t, "12"), "49 50");
    fb_tokenizer_free(t);
}

static void text_is_composed_where_the_file_says_so(void **state)
{
    static const char decomposed[] = "e\xcc\x81"; /* e, combining acute */
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    t = tokenizer("qwen2");
    assert_string_equal(plain_ids(t, decomposed), "195 169"); /* U+00E9 */
    fb_tokenizer_free(t);
    t = tokenizer("gpt-2");
    assert_string_equal(plain_ids(t, decomposed), "101 204 129");
    fb_tokenizer_free(t);
}

static void bytes_that_are_not_utf8_are_taken_one_by_one(void **state)
{
    static const char *const broken[][2] = {
        {"a\xff"
         "b",
         "97 255 98"},
        {"\xc3", "195"},                         /* cut */
        {"\xc0\xaf", "192 175"},                 /* longer than needed */
        {"\xed\xa0\x80", "237 160 128"},         /* half of a surrogate pair */
        {"\xf4\x90\x80\x80", "244 144 128 128"}, /* above U+10FFFF */
        {"\x80\x80", "128 128"},
    };
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    t = tokenizer("gpt-2");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        assert_string_equal(plain_ids(t, broken[i][0]), broken[i][1]);
    fb_tokenizer_free(t);
}

static void pieces_with_a_zero_byte_are_whole(void **state)
{
    const fb_piece piece = {"a\0b", 3, false};
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    t = tokenizer("gpt-2");
    assert_string_equal(ids_of(t, &piece, 1), "97 0 98");
    fb_tokenizer_free(t);
}

/* --- special tokens and seams --------------------------------------------------- */

static void special_tokens_live_in_flagged_pieces_only(void **state)
{
    const fb_piece marked = {"x<s>y", 5, true}, data = {"x<s>y", 5, false};
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL); /* 256 */
    t = tokenizer("gpt-2");
    assert_string_equal(ids_of(t, &marked, 1), "120 256 121");
    assert_string_equal(ids_of(t, &data, 1), "120 60 115 62 121");
    fb_tokenizer_free(t);
}

static void the_longest_special_token_wins(void **state)
{
    const fb_piece piece = {"<s><s>x<s", 9, true};
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL);         /* 256 */
    (void)vocabulary_special(&vocabulary, "<s><s>", USER_DEFINED); /* 257 */
    t = tokenizer("gpt-2");
    assert_string_equal(ids_of(t, &piece, 1), "257 120 60 115");
    fb_tokenizer_free(t);
}

static void seams_do_not_show_in_ordinary_text(void **state)
{
    const fb_piece cut[] = {{"<s>a", 4, true}, {"b", 1, false}, {"\xc3", 1, false},
                            {"\xa9", 1, true}, {"", 0, false},  {"a", 1, true},
                            {"b<s>", 4, true}};
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");         /* 256 */
    (void)vocabulary_merge(&vocabulary, "\xc3", "\xa9");   /* 257 */
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL); /* 258 */
    t = tokenizer("gpt-2");
    assert_string_equal(ids_of(t, cut, 7), "258 256 257 256 258");
    fb_tokenizer_free(t);
}

static void no_special_token_crosses_a_seam(void **state)
{
    const fb_piece cut[] = {{"<s", 2, true}, {">", 1, true}};
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL);
    t = tokenizer("gpt-2");
    assert_string_equal(ids_of(t, cut, 2), "60 115 62");
    fb_tokenizer_free(t);
}

/* --- decoding and marks --------------------------------------------------------- */

static void decoding_gives_the_bytes_back(void **state)
{
    char bytes[256], *text = NULL;
    const fb_piece piece = {bytes, sizeof bytes, false};
    fb_ids ids = {0};
    fb_tokenizer *t;
    size_t n;

    (void)state;
    for (int b = 0; b < 256; b++)
        bytes[b] = (char)b;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");
    t = tokenizer("gpt-2");
    assert_int_equal(fb_tokenizer_encode(t, &piece, 1, &ids), FB_OK);
    assert_int_equal(ids.n, 255);
    assert_int_equal(fb_tokenizer_decode(t, ids.ids, ids.n, true, &text, &n), FB_OK);
    assert_int_equal(n, 256);
    assert_memory_equal(text, bytes, 256);
    fb_free(text);
    assert_int_equal(fb_tokenizer_decode(t, NULL, 0, true, &text, &n), FB_OK);
    assert_string_equal(text, "");
    fb_free(text);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
}

static void decoding_can_leave_special_tokens_out(void **state)
{
    const int32_t ids[] = {256, 97, 257}, beyond[] = {97, 258}, below[] = {-1};
    fb_tokenizer *t;
    char *text = NULL;
    size_t n;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL);
    (void)vocabulary_special(&vocabulary, "<u>", USER_DEFINED);
    t = tokenizer("gpt-2");
    assert_int_equal(fb_tokenizer_decode(t, ids, 3, false, &text, &n), FB_OK);
    assert_string_equal(text, "<s>a<u>");
    fb_free(text);
    assert_int_equal(fb_tokenizer_decode(t, ids, 3, true, &text, &n), FB_OK);
    assert_string_equal(text, "a<u>");
    fb_free(text);
    assert_int_equal(fb_tokenizer_decode(t, beyond, 2, true, &text, &n), FB_USAGE);
    assert_null(text);
    assert_int_equal(fb_tokenizer_decode(t, below, 1, true, &text, &n), FB_USAGE);
    fb_tokenizer_free(t);
}

static void bos_and_ends_are_the_files(void **state)
{
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    make_u32(&file, "tokenizer.ggml.bos_token_id", 1);
    make_u32(&file, "tokenizer.ggml.eos_token_id", 2);
    make_u32(&file, "tokenizer.ggml.eot_token_id", 3);
    make_bool(&file, "tokenizer.ggml.add_bos_token", 1);
    t = open_tokenizer();
    assert_int_equal(fb_tokenizer_size(t), 256);
    assert_int_equal(fb_tokenizer_bos(t), 1);
    assert_false(fb_tokenizer_is_end(t, 1));
    assert_true(fb_tokenizer_is_end(t, 2));
    assert_true(fb_tokenizer_is_end(t, 3));
    fb_tokenizer_free(t);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    make_u32(&file, "tokenizer.ggml.bos_token_id", 1);
    t = open_tokenizer();
    assert_int_equal(fb_tokenizer_bos(t), -1); /* nothing says to add it */
    assert_false(fb_tokenizer_is_end(t, -1));
    fb_tokenizer_free(t);
}

/* --- refusals ------------------------------------------------------------------- */

static void unknown_pre_tokenizers_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    vocabulary_begin(&vocabulary);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "viking");
    refused(FB_UNSUPPORTED, "'tokenizer.ggml.pre' is 'viking'; known are 'smollm', "
                            "'gpt-2', 'llama-bpe', 'qwen2', 'tekken', 'gpt-4o', "
                            "'default'");
}

static void other_tokenizers_are_refused(void **state)
{
    (void)state;
    make_begin(&file);
    make_text(&file, "tokenizer.ggml.model", "t5");
    refused(FB_UNSUPPORTED, "'tokenizer.ggml.model' is 't5'; 'gpt2' (byte-level BPE) "
                            "and 'llama' (SentencePiece's BPE) are understood");
    vocabulary_begin(&vocabulary);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    make_bool(&file, "tokenizer.ggml.add_space_prefix", 1);
    refused(FB_UNSUPPORTED, "'tokenizer.ggml.add_space_prefix' is true");
}

static void broken_vocabularies_are_refused(void **state)
{
    (void)state;
    vocabulary_begin(&vocabulary);
    (void)strcpy(vocabulary.token[98], "a");
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    refused(FB_FORMAT, "have the same text");

    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");
    (void)strcpy(vocabulary.merge[0], "a bc");
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    refused(FB_FORMAT, "merge 0, 'a bc', is not two tokens that make a third one");

    vocabulary_begin(&vocabulary);
    vocabulary.kind[9] = 7;
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    refused(FB_FORMAT, "token 9 has the unknown type 7");

    vocabulary_begin(&vocabulary);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "gpt-2");
    make_u32(&file, "tokenizer.ggml.bos_token_id", 256);
    refused(FB_FORMAT, "'tokenizer.ggml.bos_token_id' is 256; 0 to 255 would be right");
}

static void kinds_are_as_many_as_tokens(void **state)
{
    static const char *const tokens[] = {"a", "b"};
    static const int32_t kinds[] = {1};

    (void)state;
    make_begin(&file);
    make_text(&file, "tokenizer.ggml.model", "gpt2");
    make_text(&file, "tokenizer.ggml.pre", "gpt-2");
    make_texts(&file, "tokenizer.ggml.tokens", tokens, 2);
    refused(FB_FORMAT, "'tokenizer.ggml.token_type' is missing");
    make_ints(&file, "tokenizer.ggml.token_type", kinds, 1);
    refused(FB_FORMAT, "'tokenizer.ggml.token_type' has 1 element; 2, one per token");
}

/* --- memory and threads --------------------------------------------------------- */

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    const fb_piece piece = {"ab <s> e\xcc\x81 12", 13, true};
    fb_tokenizer *t;
    fb_gguf *gguf = NULL;
    fb_ids ids = {0};

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");
    (void)vocabulary_special(&vocabulary, "<s>", CONTROL);
    make_begin(&file);
    vocabulary_put(&vocabulary, &file, "qwen2");
    assert_int_equal(fb_gguf_open_bytes(&gguf, file.bytes, file.n), FB_OK);
    t = encode_while_memory_fails(gguf, &piece, &ids);
    assert_int_equal(ids.n, 9);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
    fb_gguf_close(gguf);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

static void encode_many(void *context, int64_t begin, int64_t end, int thread)
{
    const fb_tokenizer *t = context;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        char text[32];
        const int n = snprintf(text, sizeof text, "ab%dab", (int)(i % 1000));
        const fb_piece piece = {text, (size_t)n, false};
        fb_ids ids = {0};

        if (fb_tokenizer_encode(t, &piece, 1, &ids) != FB_OK || ids.n != n - 2 ||
            ids.ids[0] != 256 || ids.ids[n - 3] != 256)
            abort();
        fb_ids_clear(&ids);
    }
}

static void threads_share_a_tokenizer(void **state)
{
    fb_threads *threads = NULL;
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    (void)vocabulary_merge(&vocabulary, "a", "b");
    t = tokenizer("smollm");
    assert_int_equal(fb_threads_new(&threads, 4), FB_OK);
    fb_parallel(threads, 2000, encode_many, t);
    fb_threads_free(threads);
    fb_tokenizer_free(t);
}

/* U+0378 is in no Unicode up to 16; private characters and broken bytes are no news. */
static void characters_of_a_newer_unicode_are_noticed(void **state)
{
    static const struct {
        const char *text;
        bool is_known;
    } rows[] = {
        {"", true},
        {"abc \xc3\xa9 \xf0\x9f\x98\x80", true},
        {"\xee\x80\x80", true}, /* private use */
        {"a\xff\xfe z\xc3", true},
        {"\xcd\xb8", false},
        {"\xff a \xcd\xb8 b", false},
    };
    fb_tokenizer *t;

    (void)state;
    vocabulary_begin(&vocabulary);
    t = tokenizer("gpt-2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool is_known = !rows[i].is_known;

        assert_int_equal(fb_tokenizer_knows(t, rows[i].text, &is_known), FB_OK);
        assert_int_equal(is_known, rows[i].is_known);
    }
    fb_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_merges_come_first),
        cmocka_unit_test(random_merges_follow_the_definition),
        cmocka_unit_test(a_word_of_a_million_letters_is_merged),
        cmocka_unit_test(bytes_without_a_token_give_nothing),
        cmocka_unit_test(digits_stand_alone_where_the_file_says_so),
        cmocka_unit_test(text_is_composed_where_the_file_says_so),
        cmocka_unit_test(bytes_that_are_not_utf8_are_taken_one_by_one),
        cmocka_unit_test(pieces_with_a_zero_byte_are_whole),
        cmocka_unit_test(special_tokens_live_in_flagged_pieces_only),
        cmocka_unit_test(the_longest_special_token_wins),
        cmocka_unit_test(seams_do_not_show_in_ordinary_text),
        cmocka_unit_test(no_special_token_crosses_a_seam),
        cmocka_unit_test(decoding_gives_the_bytes_back),
        cmocka_unit_test(decoding_can_leave_special_tokens_out),
        cmocka_unit_test(bos_and_ends_are_the_files),
        cmocka_unit_test(unknown_pre_tokenizers_are_refused_with_the_known_ones),
        cmocka_unit_test(other_tokenizers_are_refused),
        cmocka_unit_test(broken_vocabularies_are_refused),
        cmocka_unit_test(kinds_are_as_many_as_tokens),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(characters_of_a_newer_unicode_are_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
