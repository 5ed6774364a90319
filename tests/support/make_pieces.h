/* make_pieces.h - a small vocabulary of SentencePiece for tests: as GGUF metadata, or as
 * tokenizer.model.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_MAKE_PIECES_H
#define TESTS_SUPPORT_MAKE_PIECES_H

#include "tests/support/make_gguf.h"

#include <stdio.h>

enum { PIECES_MOST = 512, PIECES_TEXT = 64 };
enum {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,
    PIECE_CONTROL,
    PIECE_USER,
    PIECE_UNUSED,
    PIECE_BYTE
};

typedef struct make_pieces {
    char text[PIECES_MOST][PIECES_TEXT];
    float score[PIECES_MOST];
    int32_t type[PIECES_MOST];
    int n;
} make_pieces;

static inline int pieces_add(make_pieces *p, const char *text, float score, int type)
{
    make_check(p->n < PIECES_MOST && strlen(text) < PIECES_TEXT);
    (void)strcpy(p->text[p->n], text);
    p->score[p->n] = score;
    p->type[p->n] = type;
    return p->n++;
}

/* 0 <unk>, 1 <s>, 2 </s>, and from 3 on the bytes if `has_bytes`. */
static inline void pieces_begin(make_pieces *p, bool has_bytes)
{
    memset(p, 0, sizeof *p);
    (void)pieces_add(p, "<unk>", 0, PIECE_UNKNOWN);
    (void)pieces_add(p, "<s>", 0, PIECE_CONTROL);
    (void)pieces_add(p, "</s>", 0, PIECE_CONTROL);
    for (int b = 0; has_bytes && b < 256; b++) {
        char text[8];

        (void)snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        (void)pieces_add(p, text, 0, PIECE_BYTE);
    }
}

/* --- GGUF ----------------------------------------------------------------------- */

static inline void pieces_put(const make_pieces *p, make_gguf *m)
{
    static const char *texts[PIECES_MOST];

    for (int i = 0; i < p->n; i++)
        texts[i] = p->text[i];
    make_text(m, "tokenizer.ggml.model", "llama");
    make_texts(m, "tokenizer.ggml.tokens", texts, p->n);
    make_ints(m, "tokenizer.ggml.token_type", p->type, p->n);
    make_reals(m, "tokenizer.ggml.scores", p->score, p->n);
}

/* --- tokenizer.model: protocol buffers ------------------------------------------ */

typedef struct make_proto {
    char bytes[1 << 16];
    size_t n;
} make_proto;

static inline void proto_varint(make_proto *m, uint64_t value)
{
    do {
        make_check(m->n < sizeof m->bytes);
        m->bytes[m->n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
}

static inline void proto_number(make_proto *m, unsigned field, uint64_t value)
{
    proto_varint(m, field << 3);
    proto_varint(m, value);
}

static inline void proto_bytes(make_proto *m, unsigned field, const void *bytes,
                               size_t n)
{
    proto_varint(m, field << 3 | 2);
    proto_varint(m, n);
    make_check(m->n + n <= sizeof m->bytes);
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static inline void proto_pieces(const make_pieces *p, make_proto *m)
{
    for (int i = 0; i < p->n; i++) {
        make_proto piece = {.n = 0};

        proto_bytes(&piece, 1, p->text[i], strlen(p->text[i]));
        proto_varint(&piece, 2 << 3 | 5);
        memcpy(piece.bytes + piece.n, &p->score[i], 4); /* little-endian, as we are */
        piece.n += 4;
        proto_number(&piece, 3, (uint64_t)p->type[i]);
        proto_bytes(m, 1, piece.bytes, piece.n);
    }
}

/* Fields of the trainer: type (2: BPE), whether unknown characters become bytes. Those
 * of the normalizer: whether a space goes in front, whether extra ones go away. */
static inline void proto_specs(make_proto *m, int type, bool falls, bool prefix,
                               bool extra)
{
    make_proto trainer = {.n = 0}, normalizer = {.n = 0};

    proto_number(&trainer, 3, (uint64_t)type);
    proto_number(&trainer, 35, falls);
    proto_bytes(m, 2, trainer.bytes, trainer.n);
    proto_bytes(&normalizer, 1, "identity", 8);
    proto_number(&normalizer, 3, prefix);
    proto_number(&normalizer, 4, extra);
    proto_bytes(m, 3, normalizer.bytes, normalizer.n);
}

#endif
