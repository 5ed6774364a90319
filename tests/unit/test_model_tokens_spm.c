/* test_model_tokens_spm.c - SentencePiece's BPE, from GGUF and from tokenizer.model.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/failing_memory.h"
#include "tests/support/make_pieces.h"
#include "tests/support/open_tokenizer.h"
#include "tests/support/test.h"

#include <flexbudget/task.h>
#include <math.h>

#define MARK "\xe2\x96\x81"

static make_pieces pieces;
static make_gguf file;
static make_proto proto;

/* --- opening -------------------------------------------------------------------- */

static fb_tokenizer *open_gguf(void)
{
    fb_tokenizer *t = NULL;
    fb_gguf *gguf = NULL;

    assert_ok(fb_gguf_open_bytes(&gguf, file.bytes, file.n));
    assert_ok(tokenizer_of_gguf(&t, gguf));
    fb_gguf_close(gguf);
    return t;
}

/* `prefix`: 0 and 1 as the file's flag, -1: it has none. */
static fb_tokenizer *of_gguf(int prefix)
{
    make_begin(&file);
    pieces_put(&pieces, &file);
    if (prefix >= 0) make_bool(&file, "tokenizer.ggml.add_space_prefix", prefix);
    make_u32(&file, "tokenizer.ggml.bos_token_id", 1);
    return open_gguf();
}

static fb_status read_model(fb_tokenizer **out, int64_t rows)
{
    fb_tokens tokens;
    char *copy = fb_alloc(FB_ACCOUNT_other, proto.n);
    fb_status status;

    assert_non_null(copy);
    memcpy(copy, proto.bytes, proto.n);
    status = fb_tokens_read_spm(&tokens, copy, proto.n, rows);
    return tokenizer_of_tokens(out, &tokens, status);
}

static fb_tokenizer *of_model(bool falls, bool prefix)
{
    fb_tokenizer *t = NULL;

    proto.n = 0;
    proto_pieces(&pieces, &proto);
    proto_specs(&proto, 2, falls, prefix, false);
    assert_ok(read_model(&t, pieces.n));
    return t;
}

static const char *ids_of(const fb_tokenizer *t, const fb_piece *parts, int n)
{
    static char text[1 << 14];
    fb_ids ids = {0};
    size_t at = 0;

    text[0] = '\0';
    assert_ok(fb_tokenizer_encode(t, parts, n, &ids));
    for (int64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, i == 0 ? "%d" : " %d",
                               ids.ids[i]);
    assert_true(at < sizeof text);
    fb_ids_clear(&ids);
    return text;
}

static const char *plain(const fb_tokenizer *t, const char *text)
{
    return ids_of(t, &(fb_piece){text, strlen(text), false}, 1);
}

/* --- merging by score ----------------------------------------------------------- */

static void make_letters(void)
{
    pieces_begin(&pieces, false);
    (void)pieces_add(&pieces, "a", -10, PIECE_NORMAL);  /* 3 */
    (void)pieces_add(&pieces, "b", -11, PIECE_NORMAL);  /* 4 */
    (void)pieces_add(&pieces, "c", -12, PIECE_NORMAL);  /* 5 */
    (void)pieces_add(&pieces, MARK, -13, PIECE_NORMAL); /* 6 */
}

static void the_highest_score_comes_first(void **state)
{
    fb_tokenizer *t;

    (void)state;
    make_letters();
    (void)pieces_add(&pieces, "ab", -2, PIECE_NORMAL); /* 7 */
    (void)pieces_add(&pieces, "bc", -1, PIECE_NORMAL); /* 8 */
    (void)pieces_add(&pieces, "aa", -3, PIECE_NORMAL); /* 9 */
    t = of_gguf(0);
    assert_string_equal(plain(t, "abc"), "3 8");
    assert_string_equal(plain(t, "aaa"), "9 3"); /* equal scores: leftmost */
    assert_string_equal(plain(t, "aab"), "3 7");
    assert_string_equal(plain(t, ""), "");
    fb_tokenizer_free(t);
}

/* The definition, step by step. */
static int merge_slowly(char parts[][24], int n)
{
    for (;;) {
        int at = -1, best = -1;

        for (int i = 0; i + 1 < n; i++)
            for (int p = 3; p < pieces.n; p++) {
                char both[48];

                (void)snprintf(both, sizeof both, "%.20s%.20s", parts[i], parts[i + 1]);
                if (strcmp(pieces.text[p], both) == 0 &&
                    (best < 0 || pieces.score[p] > pieces.score[best])) {
                    best = p;
                    at = i;
                }
            }
        if (at < 0) return n;
        (void)strcpy(parts[at], pieces.text[best]);
        for (int i = at + 1; i + 1 < n; i++)
            (void)strcpy(parts[i], parts[i + 1]);
        n--;
    }
}

static void add_random_pieces(fb_random *random)
{
    make_letters();
    while (pieces.n < 40) {
        char text[8] = "";
        const int n = 2 + (int)fb_random_below(random, 4);
        bool is_new = true;

        for (int i = 0; i < n; i++)
            text[i] = (char)('a' + fb_random_below(random, 3));
        for (int p = 0; p < pieces.n; p++)
            is_new &= strcmp(pieces.text[p], text) != 0;
        if (is_new) /* few scores, so that many are equal */
            (void)pieces_add(&pieces, text, -(float)fb_random_below(random, 6),
                             PIECE_NORMAL);
    }
}

static void compare_random_word(const fb_tokenizer *t, fb_random *random)
{
    char word[31] = "", parts[30][24], wanted[256] = "";
    int n = 1 + (int)fb_random_below(random, 30);

    for (int i = 0; i < n; i++) {
        word[i] = (char)('a' + fb_random_below(random, 3));
        (void)snprintf(parts[i], sizeof parts[i], "%c", word[i]);
    }
    n = merge_slowly(parts, n);
    for (int i = 0; i < n; i++)
        for (int p = 3; p < pieces.n; p++)
            if (strcmp(pieces.text[p], parts[i]) == 0)
                (void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted),
                               i == 0 ? "%d" : " %d", p);
    assert_string_equal(plain(t, word), wanted);
}

static void random_scores_follow_the_definition(void **state)
{
    fb_random random;

    (void)state;
    fb_random_seed(&random, 5, 0);
    for (int round = 0; round < 20; round++) {
        fb_tokenizer *t;

        add_random_pieces(&random);
        t = round % 2 == 0 ? of_gguf(0) : of_model(false, false);
        for (int w = 0; w < 50; w++)
            compare_random_word(t, &random);
        fb_tokenizer_free(t);
    }
}

/* A character without a token can be part of one. */
static void unknown_characters_can_be_merged(void **state)
{
    fb_tokenizer *t;

    (void)state;
    make_letters();
    (void)pieces_add(&pieces, "xa", -1, PIECE_NORMAL); /* 7 */
    t = of_gguf(0);
    assert_string_equal(plain(t, "xab"), "7 4");
    assert_string_equal(plain(t, "axb"), "3 0 4");
    assert_string_equal(plain(t, "xxb"), "0 0 4"); /* llama.cpp: one for each */
    fb_tokenizer_free(t);
    t = of_model(false, false);
    assert_string_equal(plain(t, "xxb"), "0 4"); /* SentencePiece: one for both */
    fb_tokenizer_free(t);
}

static void unknown_characters_become_bytes(void **state)
{
    fb_tokenizer *t;
    char *text = NULL;
    size_t n;

    (void)state;
    pieces_begin(&pieces, true);
    (void)pieces_add(&pieces, "a", -1, PIECE_NORMAL); /* 259 */
    t = of_gguf(0);
    assert_string_equal(plain(t, "a\xc3\xa9"), "259 198 172");
    assert_string_equal(plain(t, "\xff\xc3"), "258 198");          /* no UTF-8 */
    assert_string_equal(plain(t, "<0x41>"), "63 51 123 55 52 65"); /* plain text */
    assert_ok(fb_tokenizer_decode(t, (const int32_t[]){198, 172, 259, 1}, 4, true,
                                  &text, &n));
    assert_string_equal(text, "\xc3\xa9"
                              "a");
    fb_free(text);
    fb_tokenizer_free(t);
}

/* --- spaces --------------------------------------------------------------------- */

static void the_prefix_flag_is_the_files(void **state)
{
    static const int prefix[] = {0, 1, -1};
    static const char *const wanted[][4] = {
        {"3 4", "7 4", "6 7 4", "0 3 4"},
        {"7 4", "6 7 4", "6 6 7 4", "6 0 3 4"},
        {"7 4", "6 7 4", "6 6 7 4", "6 0 3 4"}, /* a file without it means so */
    };

    (void)state;
    make_letters();
    (void)pieces_add(&pieces, MARK "a", -1, PIECE_NORMAL); /* 7 */
    for (int f = 0; f < 3; f++) {
        fb_tokenizer *t = of_gguf(prefix[f]);

        assert_string_equal(plain(t, "ab"), wanted[f][0]);
        assert_string_equal(plain(t, " ab"), wanted[f][1]);
        assert_string_equal(plain(t, "  ab"), wanted[f][2]);
        assert_string_equal(plain(t, "\nab"), wanted[f][3]);
        fb_tokenizer_free(t);
    }
}

static void a_prefix_follows_every_control_token(void **state)
{
    const fb_piece parts[] = {
        {"<s>a", 4, true}, {"<s>", 3, false}, {"a</s>b", 6, true}};
    fb_tokenizer *t;

    (void)state;
    make_letters();
    t = of_gguf(1);
    /* <s>, space, a, <s> as data: three unknown ones, a, </s>, space, b */
    assert_string_equal(ids_of(t, parts, 3), "1 6 3 0 0 0 3 2 6 4");
    fb_tokenizer_free(t);
}

static void a_decoded_text_loses_the_prefix_again(void **state)
{
    static const int32_t ids[] = {6, 3, 6, 4};
    fb_tokenizer *t;
    char *text = NULL;
    size_t n;

    (void)state;
    make_letters();
    for (int prefix = 0; prefix < 2; prefix++) {
        t = of_gguf(prefix);
        assert_ok(fb_tokenizer_decode(t, ids, 4, true, &text, &n));
        assert_string_equal(text, prefix ? "a b" : " a b");
        fb_free(text);
        assert_int_equal(fb_tokenizer_bytes(t, 6, false, &n)[0], ' ');
        assert_int_equal(n, 1);
        fb_tokenizer_free(t);
    }
}

static void user_tokens_are_found_in_data(void **state)
{
    fb_tokenizer *t;

    (void)state;
    make_letters();
    (void)pieces_add(&pieces, "  ", -1, PIECE_USER);  /* 7, as GGUF files write it */
    (void)pieces_add(&pieces, "<t>", -1, PIECE_USER); /* 8 */
    t = of_gguf(0);
    assert_string_equal(plain(t, "a  b<t>a   "), "3 7 4 8 3 7 6");
    fb_tokenizer_free(t);
    (void)strcpy(pieces.text[7], MARK MARK); /* and as SentencePiece does */
    t = of_model(false, true);
    assert_string_equal(plain(t, "a  b<t>a   "), "6 3 7 4 8 3 7 6");
    assert_string_equal(plain(t, " a"), "7 3");
    fb_tokenizer_free(t);
}

/* Phi-3's markers swallow white space; a GGUF file cannot say so. */
static void phi3_markers_swallow_white_space(void **state)
{
    const fb_piece parts[] = {{"<|user|>\n", 9, true}, {" \n a", 4, false}};
    fb_tokenizer *t;

    (void)state;
    make_letters();
    (void)pieces_add(&pieces, "<|user|>", 0, PIECE_CONTROL); /* 7 */
    make_begin(&file);
    make_text(&file, "general.architecture", "phi3");
    pieces_put(&pieces, &file);
    make_bool(&file, "tokenizer.ggml.add_space_prefix", 0);
    t = open_gguf();
    assert_string_equal(ids_of(t, parts, 2), "7 3");
    fb_tokenizer_free(t);
}

static void a_text_of_a_million_letters_is_merged(void **state)
{
    enum { LETTERS = 1 << 20 };
    char *text = fb_alloc(FB_ACCOUNT_other, LETTERS);
    const fb_piece piece = {text, LETTERS, false};
    fb_ids ids = {0};
    fb_tokenizer *t;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', LETTERS);
    make_letters();
    (void)pieces_add(&pieces, "aa", -1, PIECE_NORMAL);
    (void)pieces_add(&pieces, "aaaa", -2, PIECE_NORMAL);
    t = of_gguf(0);
    assert_ok(fb_tokenizer_encode(t, &piece, 1, &ids));
    assert_int_equal(ids.n, LETTERS / 4);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
    fb_free(text);
}

/* --- refusals ------------------------------------------------------------------- */

static void refused_gguf(fb_status wanted, const char *words)
{
    fb_tokenizer *t = NULL;
    fb_gguf *gguf = NULL;

    assert_ok(fb_gguf_open_bytes(&gguf, file.bytes, file.n));
    assert_fails(tokenizer_of_gguf(&t, gguf), wanted, words);
    assert_null(t);
    fb_gguf_close(gguf);
}

static void broken_gguf_vocabularies_are_refused(void **state)
{
    (void)state;
    make_letters();
    pieces.score[4] = NAN;
    make_begin(&file);
    pieces_put(&pieces, &file);
    refused_gguf(FB_FORMAT, "token 4 has a score that is no number");
    make_letters();
    pieces.type[4] = PIECE_BYTE;
    make_begin(&file);
    pieces_put(&pieces, &file);
    refused_gguf(FB_FORMAT, "token 4 is a byte's and reads 'b'; '<0x0A>' would be one");
    make_letters();
    make_begin(&file);
    make_text(&file, "tokenizer.ggml.model", "llama");
    make_texts(&file, "tokenizer.ggml.tokens", (const char *const[]){"a"}, 1);
    make_ints(&file, "tokenizer.ggml.token_type", (const int32_t[]){1}, 1);
    refused_gguf(FB_FORMAT, "'tokenizer.ggml.scores' is missing");
    make_ints(&file, "tokenizer.ggml.scores", (const int32_t[]){1}, 1);
    refused_gguf(FB_FORMAT,
                 "'tokenizer.ggml.scores' is an array of i32; reals would be");
}

static void refused_model(int64_t rows, fb_status wanted, const char *words)
{
    fb_tokenizer *t = NULL;

    assert_fails(read_model(&t, rows), wanted, words);
    assert_null(t);
}

static void other_models_are_refused_by_name(void **state)
{
    static const char *const names[] = {"Unigram", "", "Word", "Char", "unknown"};

    (void)state;
    make_letters();
    for (int type = 1; type <= 5; type++) {
        char words[64];

        if (type == 2) continue;
        proto.n = 0;
        proto_pieces(&pieces, &proto);
        proto_specs(&proto, type, false, true, false);
        (void)snprintf(words, sizeof words, "a model of the type '%s'; 'BPE' is",
                       names[type - 1]);
        refused_model(pieces.n, FB_UNSUPPORTED, words);
    }
    proto.n = 0;
    proto_pieces(&pieces, &proto);
    proto_specs(&proto, 2, false, true, true);
    refused_model(pieces.n, FB_UNSUPPORTED, "it removes extra white space");
    proto.n = 0;
    proto_pieces(&pieces, &proto);
    refused_model(pieces.n, FB_UNSUPPORTED, "'Unigram'"); /* what nothing said means */
    pieces.type[4] = PIECE_UNUSED;
    proto.n = 0;
    proto_pieces(&pieces, &proto);
    proto_specs(&proto, 2, false, true, false);
    refused_model(pieces.n, FB_UNSUPPORTED, "piece 4 is of the type 'unused'");
}

static void broken_models_are_refused(void **state)
{
    (void)state;
    make_letters();
    proto.n = 0;
    proto_pieces(&pieces, &proto);
    proto_specs(&proto, 2, false, true, false);
    refused_model(pieces.n - 1, FB_FORMAT, "more pieces than the 6 rows");
    for (size_t n = 0; n < proto.n; n++) { /* cut anywhere: refused, or another type */
        const size_t all = proto.n;
        fb_tokenizer *t = NULL;

        proto.n = n;
        assert_true(read_model(&t, 64) != FB_OK || n > 100);
        fb_tokenizer_free(t);
        proto.n = all;
    }
    proto.n = 0;
    proto_varint(&proto, 1 << 3 | 2);
    for (int i = 0; i < 9; i++)
        proto.bytes[proto.n++] = (char)0xff; /* a length without end */
    refused_model(8, FB_FORMAT, "broken, or not a model of SentencePiece");
    proto.n = 0;
    proto_number(&proto, 1, 5); /* a piece that is a number */
    refused_model(8, FB_FORMAT, "broken, or not a model of SentencePiece");
    proto.n = 0;
    proto_varint(&proto, 1 << 3 | 3); /* a group */
    refused_model(8, FB_FORMAT, "broken, or not a model of SentencePiece");
}

static void every_failing_allocation_is_reported(void **state)
{
    const size_t before = fb_memory_now(FB_ACCOUNT_other);
    const fb_piece piece = {"ab <s>  c", 9, true};
    fb_tokenizer *t;
    fb_gguf *gguf = NULL;
    fb_ids ids = {0};

    (void)state;
    make_letters();
    make_begin(&file);
    pieces_put(&pieces, &file);
    assert_ok(fb_gguf_open_bytes(&gguf, file.bytes, file.n));
    t = encode_while_memory_fails(gguf, &piece, &ids);
    fb_ids_clear(&ids);
    fb_tokenizer_free(t);
    fb_gguf_close(gguf);
    assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_score_comes_first),
        cmocka_unit_test(random_scores_follow_the_definition),
        cmocka_unit_test(unknown_characters_can_be_merged),
        cmocka_unit_test(unknown_characters_become_bytes),
        cmocka_unit_test(the_prefix_flag_is_the_files),
        cmocka_unit_test(a_prefix_follows_every_control_token),
        cmocka_unit_test(a_decoded_text_loses_the_prefix_again),
        cmocka_unit_test(user_tokens_are_found_in_data),
        cmocka_unit_test(phi3_markers_swallow_white_space),
        cmocka_unit_test(a_text_of_a_million_letters_is_merged),
        cmocka_unit_test(broken_gguf_vocabularies_are_refused),
        cmocka_unit_test(other_models_are_refused_by_name),
        cmocka_unit_test(broken_models_are_refused),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
