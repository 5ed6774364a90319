/* tokenizer.c - text to ids: special tokens, then words, then merges.
 *
 * Special tokens (control, user-defined and unknown ones) are looked for in flagged
 * pieces only, at each place the longest first. What lies between two of them is one
 * ordinary text, whatever pieces it came from. An ordinary text is cut into stretches
 * of valid UTF-8, whose words are merged, and single bytes that belong to none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokenizer.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/bpe.h"
#include "model/pretokenize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MOST_ENDS = 3 };

typedef struct special {
    fb_span text;
    int32_t id;
} special;

struct fb_tokenizer {
    fb_vocabulary *vocabulary;
    fb_pretokenizer *words;
    special *specials; /* longest first */
    int32_t n_specials;
    bool begins_special[256]; /* by first byte */
    int32_t bos;              /* -1: none, or not to be added */
    int32_t ends[MOST_ENDS];
    int n_ends;
};

/* --- lists of ids --------------------------------------------------------------- */

void fb_ids_clear(fb_ids *ids)
{
    fb_free(ids->ids);
    *ids = (fb_ids){0};
}

fb_status fb_ids_add(fb_ids *ids, int32_t id)
{
    if (ids->n == ids->capacity) {
        const int64_t capacity = ids->capacity < 32 ? 64 : 2 * ids->capacity;
        int32_t *bigger = fb_realloc(FB_ACCOUNT_other, ids->ids,
                                     fb_size_mul((size_t)capacity, sizeof *bigger));

        if (bigger == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for %" PRId64 " tokens", capacity);
        ids->ids = bigger;
        ids->capacity = capacity;
    }
    ids->ids[ids->n++] = id;
    return FB_OK;
}

/* --- opening -------------------------------------------------------------------- */

static bool is_special(fb_token_kind kind)
{
    return kind == FB_TOKEN_CONTROL || kind == FB_TOKEN_USER ||
           kind == FB_TOKEN_UNKNOWN;
}

static int compare_lengths(const void *a, const void *b)
{
    const special *x = a, *y = b;

    if (x->text.n != y->text.n) return x->text.n > y->text.n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static fb_status collect_specials(fb_tokenizer *t)
{
    const fb_vocabulary *v = t->vocabulary;
    const int32_t n = fb_vocabulary_size(v);

    for (int32_t id = 0; id < n; id++)
        t->n_specials += is_special(fb_vocabulary_kind(v, id));
    t->specials =
        fb_alloc(FB_ACCOUNT_other, (size_t)t->n_specials * sizeof *t->specials);
    if (t->specials == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a tokenizer");
    t->n_specials = 0;
    for (int32_t id = 0; id < n; id++) {
        const fb_span text = fb_vocabulary_bytes(v, id);

        if (!is_special(fb_vocabulary_kind(v, id)) || text.n == 0) continue;
        t->specials[t->n_specials++] = (special){text, id};
        t->begins_special[(unsigned char)text.bytes[0]] = true;
    }
    qsort(t->specials, (size_t)t->n_specials, sizeof *t->specials, compare_lengths);
    return FB_OK;
}

/* The id under `key` to `out`; -1 if the file has no such key. */
static fb_status read_id(const fb_tokenizer *t, const fb_gguf *g, const char *key,
                         int32_t *out)
{
    int64_t id = -1;

    if (fb_gguf_has(g, key))
        FB_TRY(fb_gguf_int(g, key, 0, fb_vocabulary_size(t->vocabulary) - 1, &id));
    *out = (int32_t)id;
    return FB_OK;
}

static fb_status read_marks(fb_tokenizer *t, const fb_gguf *g)
{
    static const char add_bos[] = "tokenizer.ggml.add_bos_token";
    static const char *const end_keys[MOST_ENDS] = {"tokenizer.ggml.eos_token_id",
                                                    "tokenizer.ggml.eot_token_id",
                                                    "tokenizer.ggml.eom_token_id"};
    bool adds_bos = fb_pretokenizer_adds_bos(t->words);

    FB_TRY(read_id(t, g, "tokenizer.ggml.bos_token_id", &t->bos));
    if (fb_gguf_has(g, add_bos)) FB_TRY(fb_gguf_bool(g, add_bos, &adds_bos));
    if (!adds_bos) t->bos = -1;
    for (int e = 0; e < MOST_ENDS; e++) {
        FB_TRY(read_id(t, g, end_keys[e], &t->ends[t->n_ends]));
        t->n_ends += t->ends[t->n_ends] >= 0;
    }
    return FB_OK;
}

/* What would make other tokens than the code below. */
static fb_status refuse_others(const fb_gguf *g)
{
    static const char model[] = "tokenizer.ggml.model";
    static const char prefix[] = "tokenizer.ggml.add_space_prefix";
    bool adds_space = false;
    fb_span kind;

    FB_TRY(fb_gguf_string(g, model, &kind));
    if (!fb_span_is(kind, "gpt2"))
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is '%s'; 'gpt2' (byte-level BPE) is understood", model,
                       fb_span_show(kind).text);
    if (fb_gguf_has(g, prefix)) FB_TRY(fb_gguf_bool(g, prefix, &adds_space));
    if (adds_space)
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is true; with byte-level BPE only false is understood",
                       prefix);
    return FB_OK;
}

static fb_status open_words(fb_tokenizer *t, const fb_gguf *g)
{
    static const char key[] = "tokenizer.ggml.pre";
    fb_span name;

    if (!fb_gguf_has(g, key))
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is missing, so it is not known how to cut a text into "
                       "words, and a guess would give other tokens; convert the model "
                       "again, or add the tag: gguf-new-metadata --pre-tokenizer NAME "
                       "OLD.gguf NEW.gguf",
                       key);
    FB_TRY(fb_gguf_string(g, key, &name));
    return fb_pretokenizer_new(&t->words, name);
}

static fb_status read_all(fb_tokenizer *t, const fb_gguf *g)
{
    FB_TRY(refuse_others(g));
    FB_TRY(open_words(t, g));
    FB_TRY(fb_vocabulary_new(&t->vocabulary, g));
    FB_TRY(collect_specials(t));
    return read_marks(t, g);
}

fb_status fb_tokenizer_new(fb_tokenizer **out, const struct fb_gguf *g)
{
    fb_tokenizer *t = fb_zalloc(FB_ACCOUNT_other, sizeof *t);
    fb_status status;

    *out = NULL;
    if (t == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a tokenizer");
    status = read_all(t, g);
    if (status == FB_OK)
        *out = t;
    else
        fb_tokenizer_free(t);
    return status;
}

void fb_tokenizer_free(fb_tokenizer *t)
{
    if (t == NULL) return;
    fb_free(t->specials);
    fb_pretokenizer_free(t->words);
    fb_vocabulary_free(t->vocabulary);
    fb_free(t);
}

/* --- encoding ------------------------------------------------------------------- */

/* One call's own memory. */
typedef struct encoder {
    const fb_tokenizer *t;
    fb_bpe bpe;
    fb_text plain; /* ordinary text since the last special token */
    fb_ids *out;
} encoder;

static fb_status take_word(void *context, fb_span word)
{
    encoder *e = context;

    if (fb_pretokenizer_takes_whole_words(e->t->words)) {
        const int32_t id = fb_vocabulary_find(e->t->vocabulary, word);

        if (id >= 0) return fb_ids_add(e->out, id);
    }
    return fb_bpe_encode(&e->bpe, e->t->vocabulary, word, e->out);
}

/* The text in Unicode's form NFC. `room` becomes its memory; free it with fb_free. */
static fb_status compose(fb_span *text, utf8proc_int32_t **room)
{
    const utf8proc_option_t form = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text->bytes;
    const utf8proc_ssize_t n_bytes = (utf8proc_ssize_t)text->n;
    utf8proc_ssize_t n = utf8proc_decompose(bytes, n_bytes, NULL, 0, form);

    if (n >= 0) *room = fb_alloc(FB_ACCOUNT_other, ((size_t)n + 1) * sizeof **room);
    if (n < 0 || *room == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory to compose a text");
    n = utf8proc_decompose(bytes, n_bytes, *room, n, form);
    n = utf8proc_reencode(*room, n, form);
    if (n < 0) return fb_fail(FB_DEFECT, "a text cannot be composed");
    *text = (fb_span){(const char *)*room, (size_t)n};
    return FB_OK;
}

static fb_status encode_valid(encoder *e, fb_span text)
{
    utf8proc_int32_t *room = NULL;
    fb_status status = FB_OK;

    if (text.n == 0) return FB_OK;
    if (fb_pretokenizer_wants_nfc(e->t->words)) status = compose(&text, &room);
    if (status == FB_OK) status = fb_pretokenize(e->t->words, text, take_word, e);
    fb_free(room);
    return status;
}

/* Bytes of the character at `at`; 0: it is not valid UTF-8. */
static size_t character(fb_span text, size_t at)
{
    utf8proc_int32_t unused;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + at,
                         (utf8proc_ssize_t)(text.n - at), &unused);

    return n > 0 ? (size_t)n : 0;
}

static fb_status encode_plain(encoder *e)
{
    const fb_span text = {fb_text_string(&e->plain), e->plain.n};
    size_t begin = 0, at = 0;

    FB_TRY(fb_text_status(&e->plain));
    while (at < text.n) {
        const size_t n = character(text, at);

        at += n;
        if (n > 0) continue;
        FB_TRY(encode_valid(e, (fb_span){text.bytes + begin, at - begin}));
        FB_TRY(take_word(e, (fb_span){text.bytes + at, 1}));
        begin = ++at;
    }
    FB_TRY(encode_valid(e, (fb_span){text.bytes + begin, at - begin}));
    fb_text_clear(&e->plain);
    return FB_OK;
}

/* The longest special token at the start of the text; NULL: none. */
static const special *find_special(const fb_tokenizer *t, const char *bytes, size_t n)
{
    if (!t->begins_special[(unsigned char)bytes[0]]) return NULL;
    for (int32_t s = 0; s < t->n_specials; s++) {
        const fb_span text = t->specials[s].text;

        if (text.n <= n && memcmp(text.bytes, bytes, text.n) == 0)
            return &t->specials[s];
    }
    return NULL;
}

static fb_status encode_special(encoder *e, const fb_piece *piece)
{
    size_t begin = 0, at = 0;

    while (at < piece->n) {
        const special *s = find_special(e->t, piece->bytes + at, piece->n - at);

        if (s == NULL) {
            at++;
            continue;
        }
        fb_text_add(&e->plain, piece->bytes + begin, at - begin);
        FB_TRY(encode_plain(e));
        FB_TRY(fb_ids_add(e->out, s->id));
        at += s->text.n;
        begin = at;
    }
    fb_text_add(&e->plain, piece->bytes + begin, at - begin);
    return FB_OK;
}

fb_status fb_tokenizer_encode(const fb_tokenizer *t, const fb_piece *pieces,
                              int n_pieces, fb_ids *out)
{
    encoder e = {.t = t, .out = out};
    const int64_t n_before = out->n;
    fb_status status = FB_OK;

    fb_text_init(&e.plain, 0);
    for (int p = 0; status == FB_OK && p < n_pieces; p++) {
        if (pieces[p].special)
            status = encode_special(&e, &pieces[p]);
        else
            fb_text_add(&e.plain, pieces[p].bytes, pieces[p].n);
    }
    if (status == FB_OK) status = encode_plain(&e);
    if (status != FB_OK) out->n = n_before;
    fb_text_clear(&e.plain);
    fb_bpe_clear(&e.bpe);
    return status;
}

fb_status fb_tokenizer_knows(const fb_tokenizer *t, const char *text, bool *out)
{
    return fb_pretokenizer_knows(t->words, (fb_span){text, strlen(text)}, out);
}

/* --- decoding ------------------------------------------------------------------- */

/* What a token shows in a decoded text. */
static fb_span shown(const fb_tokenizer *t, int32_t id, bool skip_special)
{
    const fb_token_kind kind = fb_vocabulary_kind(t->vocabulary, id);

    if (skip_special && (kind == FB_TOKEN_CONTROL || kind == FB_TOKEN_UNKNOWN))
        return (fb_span){"", 0};
    return fb_vocabulary_bytes(t->vocabulary, id);
}

fb_status fb_tokenizer_decode(const fb_tokenizer *t, const int32_t *ids, int64_t n,
                              bool skip_special, char **out, size_t *n_out)
{
    size_t n_bytes = 0, at = 0;

    *out = NULL;
    *n_out = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= fb_tokenizer_size(t))
            return fb_fail(FB_USAGE,
                           "token %" PRId32 " is not in a vocabulary of %" PRId64,
                           ids[i], fb_tokenizer_size(t));
        n_bytes += shown(t, ids[i], skip_special).n;
    }
    *out = fb_alloc(FB_ACCOUNT_other, n_bytes + 1);
    if (*out == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for %zu bytes of text", n_bytes);
    for (int64_t i = 0; i < n; i++) {
        const fb_span bytes = shown(t, ids[i], skip_special);

        memcpy(*out + at, bytes.bytes, bytes.n);
        at += bytes.n;
    }
    (*out)[at] = '\0';
    *n_out = at;
    return FB_OK;
}

const char *fb_tokenizer_bytes(const fb_tokenizer *t, int32_t id, bool skip_special,
                               size_t *n_out)
{
    fb_span bytes;

    FB_ASSERT(id >= 0 && id < fb_tokenizer_size(t));
    bytes = shown(t, id, skip_special);
    *n_out = bytes.n;
    return bytes.bytes;
}

/* --- facts ---------------------------------------------------------------------- */

int64_t fb_tokenizer_size(const fb_tokenizer *t)
{
    return fb_vocabulary_size(t->vocabulary);
}

int32_t fb_tokenizer_bos(const fb_tokenizer *t)
{
    return t->bos;
}

bool fb_tokenizer_is_end(const fb_tokenizer *t, int32_t id)
{
    for (int e = 0; e < t->n_ends; e++)
        if (t->ends[e] == id) return true;
    return false;
}

const char *fb_tokenizer_pre(const fb_tokenizer *t)
{
    return fb_pretokenizer_name(t->words);
}
