/* tokens_spm.c - tokenizer.model of SentencePiece: BPE.
 *
 * The file is a protocol buffer (fields: sentencepiece_model.proto of SentencePiece
 * 0.2). Only the few fields below are read; of the others, those that would change
 * tokens are refused where they are set.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokens.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Field numbers. */
enum { MODEL_PIECE = 1, MODEL_TRAINER, MODEL_NORMALIZER, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum {
    TRAINER_TYPE = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_BYTES = 35,
    TRAINER_UNKNOWN = 40,
    TRAINER_BOS,
    TRAINER_EOS
};
enum {
    NORMALIZER_NAME = 1,
    NORMALIZER_MAP,
    NORMALIZER_PREFIX,
    NORMALIZER_EXTRA,
    NORMALIZER_ESCAPE
};
enum { UNIGRAM = 1, BPE, WORD, CHAR }; /* TRAINER_TYPE */

/* --- protocol buffers ----------------------------------------------------------- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

/* A walk over the fields of a message; sticky. */
typedef struct message {
    const uint8_t *at, *end;
    bool failed;
} message;

typedef struct field {
    uint64_t number;
    int wire;
    uint64_t value; /* of a varint or a fixed number */
    fb_span bytes;
} field;

static message message_of(fb_span bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.bytes;

    return (message){at, at + bytes.n, false};
}

static uint64_t varint(message *m)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    m->failed = true;
    return 0;
}

static const uint8_t *take(message *m, uint64_t n)
{
    const uint8_t *from = m->at;

    if (m->failed || n > (uint64_t)(m->end - m->at)) {
        m->failed = true;
        return NULL;
    }
    m->at += n;
    return from;
}

static uint64_t fixed(message *m, int n)
{
    const uint8_t *from = take(m, (uint64_t)n);
    uint64_t value = 0;

    for (int i = 0; from != NULL && i < n; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* False: the end, or failed. */
static bool next(message *m, field *out)
{
    uint64_t key;

    if (m->failed || m->at == m->end) return false;
    key = varint(m);
    *out = (field){.number = key >> 3, .wire = (int)(key & 7), .bytes = {"", 0}};
    if (out->wire == VARINT)
        out->value = varint(m);
    else if (out->wire == FIXED64 || out->wire == FIXED32)
        out->value = fixed(m, out->wire == FIXED64 ? 8 : 4);
    else if (out->wire == BYTES) {
        const uint64_t n = varint(m);
        const uint8_t *from = take(m, n);

        if (from != NULL) out->bytes = (fb_span){(const char *)from, (size_t)n};
    } else
        m->failed = true;
    return !m->failed;
}

static fb_status status_of(const message *m)
{
    return m->failed ? fb_fail(FB_FORMAT, "broken, or not a model of SentencePiece")
                     : FB_OK;
}

/* --- pieces --------------------------------------------------------------------- */

static fb_status read_piece(fb_tokens *t, int32_t id, fb_span bytes)
{
    message m = message_of(bytes);
    fb_token *token = &t->token[id];
    uint64_t type = FB_TOKEN_NORMAL;
    field f;

    while (next(&m, &f)) {
        const uint32_t bits = (uint32_t)f.value;

        if (f.number == PIECE_TEXT && f.wire == BYTES) token->text = f.bytes;
        if (f.number == PIECE_SCORE && f.wire == FIXED32)
            memcpy(&token->score, &bits, sizeof bits);
        if (f.number == PIECE_TYPE && f.wire == VARINT) type = f.value;
    }
    FB_TRY(status_of(&m));
    if (isnan(token->score) || type < FB_TOKEN_NORMAL || type > FB_TOKEN_BYTE)
        return fb_fail(FB_FORMAT, "piece %" PRId32 " has an impossible score or type",
                       id);
    if (type == FB_TOKEN_UNUSED)
        return fb_fail(FB_UNSUPPORTED,
                       "piece %" PRId32 " is of the type 'unused', which is not "
                       "understood",
                       id);
    token->kind = (uint8_t)type;
    if (type == FB_TOKEN_USER) token->flags = FB_TOKEN_REWRITTEN;
    if (type == FB_TOKEN_UNKNOWN && t->unknown < 0) t->unknown = id;
    return FB_OK;
}

static fb_status read_pieces(fb_tokens *t, fb_span file)
{
    message m = message_of(file);
    int32_t n = 0;
    field f;

    while (next(&m, &f)) {
        if (f.number != MODEL_PIECE || f.wire != BYTES) continue;
        if (n == t->n)
            return fb_fail(FB_FORMAT,
                           "more pieces than the %" PRId32 " rows of the embedding", n);
        FB_TRY(read_piece(t, n++, f.bytes));
    }
    if (n == 0) m.failed = true;
    return status_of(&m);
}

/* --- how it was trained, how text is normalised --------------------------------- */

typedef struct spec {
    uint64_t type;
    int64_t bos, eos;
    bool suffix, falls_to_bytes;
    fb_span name, map;
    bool prefix, extra, escape;
    bool denormalizes;
} spec;

static void read_trainer(spec *s, fb_span bytes)
{
    message m = message_of(bytes);
    field f;

    while (next(&m, &f)) {
        if (f.wire != VARINT) continue;
        if (f.number == TRAINER_TYPE) s->type = f.value;
        if (f.number == TRAINER_SUFFIX) s->suffix = f.value != 0;
        if (f.number == TRAINER_BYTES) s->falls_to_bytes = f.value != 0;
        if (f.number == TRAINER_BOS) s->bos = (int32_t)f.value;
        if (f.number == TRAINER_EOS) s->eos = (int32_t)f.value;
    }
}

static void read_normalizer(spec *s, fb_span bytes)
{
    message m = message_of(bytes);
    field f;

    while (next(&m, &f)) {
        if (f.number == NORMALIZER_NAME && f.wire == BYTES) s->name = f.bytes;
        if (f.number == NORMALIZER_MAP && f.wire == BYTES) s->map = f.bytes;
        if (f.wire != VARINT) continue;
        if (f.number == NORMALIZER_PREFIX) s->prefix = f.value != 0;
        if (f.number == NORMALIZER_EXTRA) s->extra = f.value != 0;
        if (f.number == NORMALIZER_ESCAPE) s->escape = f.value != 0;
    }
}

/* A denormalizer that does nothing is often there. */
static bool does_something(fb_span bytes)
{
    message m = message_of(bytes);
    field f;

    while (next(&m, &f))
        if (f.number == NORMALIZER_MAP && f.bytes.n > 0) return true;
    return false;
}

static void read_specs(spec *s, fb_span file)
{
    message m = message_of(file);
    field f;

    *s = (spec){.type = UNIGRAM,
                .bos = 1,
                .eos = 2,
                .prefix = true,
                .extra = true,
                .escape = true,
                .name = {"", 0},
                .map = {"", 0}};
    while (next(&m, &f)) {
        if (f.wire != BYTES) continue;
        if (f.number == MODEL_TRAINER) read_trainer(s, f.bytes);
        if (f.number == MODEL_NORMALIZER) read_normalizer(s, f.bytes);
        if (f.number == MODEL_DENORMALIZER) s->denormalizes = does_something(f.bytes);
    }
}

static fb_status refuse_others(const spec *s)
{
    static const char *const types[] = {"none", "Unigram", "BPE", "Word", "Char"};

    if (s->type != BPE)
        return fb_fail(FB_UNSUPPORTED, "a model of the type '%s'; 'BPE' is understood",
                       s->type <= CHAR ? types[s->type] : "unknown");
    if (s->map.n > 0 || s->denormalizes)
        return fb_fail(FB_UNSUPPORTED,
                       "it normalises text by '%s'; 'identity' is understood",
                       fb_span_show(s->name).text);
    if (s->suffix || s->extra || !s->escape)
        return fb_fail(FB_UNSUPPORTED, "it %s, which is not understood",
                       s->suffix  ? "writes white space behind words"
                       : s->extra ? "removes extra white space"
                                  : "does not escape spaces");
    return FB_OK;
}

/* --- the whole ------------------------------------------------------------------ */

fb_status fb_tokens_read_spm(fb_tokens *t, char *bytes, size_t n, int64_t rows)
{
    const fb_span file = {bytes, n}, space = {" ", 1}, mark = {FB_SPACE_MARK, 3};
    spec s;

    *t = (fb_tokens){.unknown = -1,
                     .bos = -1,
                     .file = bytes,
                     .name = "tokenizer.model",
                     .spelling = FB_SPELT_WITH_SPACES,
                     .by_score = true,
                     .fuses_unknown = true,
                     .adds_bos = true};
    FB_TRY(fb_tokens_allocate(t, rows));
    FB_TRY(read_pieces(t, file));
    read_specs(&s, file);
    FB_TRY(refuse_others(&s));
    t->falls_to_bytes = s.falls_to_bytes;
    t->drops_space = s.prefix;
    if (s.bos >= 0 && s.bos < t->n) t->bos = (int32_t)s.bos;
    if (s.eos >= 0 && s.eos < t->n) FB_TRY(fb_tokens_add_end(t, s.eos));
    if (s.prefix) FB_TRY(fb_rewriting_add(&t->before, FB_REWRITE_PREPEND, space, mark));
    return fb_rewriting_add(&t->before, FB_REWRITE_REPLACE, space, mark);
}
