/* fuzz_tokenizer.c - any bytes as a text: ids stand for exactly these bytes.
 *
 * The first byte chooses the pre-tokenizer, or SentencePiece; 0xfe in the rest starts a
 * new piece, 0xff one in which special tokens are recognised. The vocabulary has every
 * byte, so decoding must give the text back, but for NFC, and for U+2581, which
 * SentencePiece takes for a space.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "tests/support/make_pieces.h"
#include "tests/support/make_vocabulary.h"
#include "tests/support/open_tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_NAMES = 7, SPM = N_NAMES, N_KINDS, COMPOSES = 3, MOST_PIECES = 64 };

static fb_tokenizer *tokenizers[N_KINDS];

static void make_words(make_vocabulary *v)
{
    static const char *const merges[][2] = {
        {"a", "a"}, {"aa", "aa"},     {"t", "h"}, {"th", "e"},  {" ", "the"},
        {"i", "n"}, {"\n", "\n"},     {" ", " "}, {"  ", "  "}, {"1", "2"},
        {"'", "s"}, {"\xc3", "\xa9"}, {"a", "b"}, {"b", "c"},   {"aaaa", "a"},
    };

    vocabulary_begin(v);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        (void)vocabulary_merge(v, merges[i][0], merges[i][1]);
    (void)vocabulary_special(v, "<s>", CONTROL);
    (void)vocabulary_special(v, "<s><s>", USER_DEFINED);
    (void)vocabulary_special(v, "<|im_start|>", CONTROL);
}

static void make_marks(make_pieces *p)
{
    static const char *const words[] = {"a",         "b",   "\xe2\x96\x81",
                                        "t",         "h",   "e",
                                        "th",        "the", "\xe2\x96\x81the",
                                        "aa",        "ab",  "\xc3\xa9",
                                        "e\xc3\xa9", "1",   "12"};

    pieces_begin(p, true);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        (void)pieces_add(p, words[i], -(float)(i % 7), PIECE_NORMAL);
    (void)pieces_add(p, "\n\n", 0, PIECE_USER);
}

static void open_tokenizers(void)
{
    static const char *const names[N_NAMES] = {
        "smollm", "gpt-2", "llama-bpe", "qwen2", "default", "tekken", "gpt-4o"};
    static make_vocabulary vocabulary;
    static make_pieces pieces;
    static make_gguf file;

    make_words(&vocabulary);
    make_marks(&pieces);
    for (int k = 0; k < N_KINDS; k++) {
        fb_gguf *gguf = NULL;

        make_begin(&file);
        if (k == SPM) {
            pieces_put(&pieces, &file);
            make_bool(&file, "tokenizer.ggml.add_space_prefix", 0);
        } else {
            vocabulary_put(&vocabulary, &file, names[k]);
        }
        if (fb_gguf_open_bytes(&gguf, file.bytes, file.n) != FB_OK) abort();
        if (tokenizer_of_gguf(&tokenizers[k], gguf) != FB_OK) abort();
        fb_gguf_close(gguf);
    }
}

/* Cuts `text` into pieces and takes the marks between them out of it. */
static int cut(char *text, size_t *n, fb_piece *pieces)
{
    size_t to = 0;
    int p = 0;

    pieces[0] = (fb_piece){text, 0, false};
    for (size_t i = 0; i < *n; i++) {
        const unsigned char byte = (unsigned char)text[i];

        if (byte >= 0xfe && p + 1 < MOST_PIECES) {
            pieces[++p] = (fb_piece){text + to, 0, byte == 0xff};
            continue;
        }
        text[to++] = text[i];
        pieces[p].n++;
    }
    *n = to;
    return p + 1;
}

static void encode(const fb_tokenizer *t, char *text, size_t n, bool is_same)
{
    fb_piece pieces[MOST_PIECES];
    const int n_pieces = cut(text, &n, pieces);
    fb_ids ids = {0};
    char *back = NULL;
    size_t n_back;

    if (fb_tokenizer_encode(t, pieces, n_pieces, &ids) != FB_OK) abort();
    if (fb_tokenizer_decode(t, ids.ids, ids.n, false, &back, &n_back) != FB_OK) abort();
    if (is_same && (n_back != n || memcmp(back, text, n) != 0)) abort();
    fb_free(back);
    fb_ids_clear(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int kind = size == 0 ? 0 : data[0] % N_KINDS;
    char *text;

    if (tokenizers[0] == NULL) open_tokenizers();
    if (size == 0) return 0;
    text = fb_alloc(FB_ACCOUNT_other, size);
    if (text == NULL) return 0;
    memcpy(text, data + 1, size - 1);
    encode(tokenizers[kind], text, size - 1,
           kind != COMPOSES &&
               (kind != SPM || memmem(text, size - 1, "\xe2\x96\x81", 3) == NULL));
    fb_free(text);
    return 0;
}
