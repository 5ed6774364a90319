/* tokenizer.c - text to ids and back.
 *
 * All pieces are one text, in which the tokens that stand for themselves are looked for
 * (specials.h): at each place the longest that may stand there. What lies between two of
 * them is a stretch: rewritten, cut into words, merged. A stretch falls into runs of
 * valid UTF-8 and single bytes that belong to none.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokenizer.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/bpe.h"
#include "model/pretokenize.h"
#include "model/specials.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_GROWTH = 32, SOME_BYTES = 1 << 16 };

struct fb_tokenizer {
    fb_vocabulary *vocabulary;
    fb_pretokenizer *words;
    fb_specials specials, inner; /* looked for before and behind the rewriting */
    fb_rewriting before, after;
    bool whole_words, drops_space, marks_spaces;
    int32_t bos; /* -1: none, or not to be added */
    int32_t end[FB_MOST_ENDS];
    int n_ends;
    char *name;
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

static fb_status open_parts(fb_tokenizer *t, const fb_tokens *tokens)
{
    FB_TRY(fb_pretokenizer_new(&t->words, tokens->cut, tokens->n_cuts));
    FB_TRY(fb_vocabulary_new(&t->vocabulary, tokens));
    FB_TRY(fb_specials_make(&t->specials, tokens, false));
    FB_TRY(fb_specials_make(&t->inner, tokens, true));
    t->name = fb_strdup(tokens->name);
    return t->name == NULL ? fb_fail(FB_NO_MEMORY, "no memory for a name") : FB_OK;
}

fb_status fb_tokenizer_new(fb_tokenizer **out, const struct fb_tokens *tokens)
{
    fb_tokenizer *t = fb_zalloc(FB_ACCOUNT_other, sizeof *t);
    fb_status status;

    *out = NULL;
    if (t == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a tokenizer");
    t->before = tokens->before;
    t->after = tokens->after;
    t->whole_words = tokens->whole_words;
    t->drops_space = tokens->drops_space;
    t->marks_spaces = tokens->spelling == FB_SPELT_WITH_SPACES;
    t->bos = tokens->adds_bos ? tokens->bos : -1;
    t->n_ends = tokens->n_ends;
    memcpy(t->end, tokens->end, sizeof t->end);
    status = open_parts(t, tokens);
    if (status == FB_OK)
        *out = t;
    else
        fb_tokenizer_free(t);
    return status;
}

void fb_tokenizer_free(fb_tokenizer *t)
{
    if (t == NULL) return;
    fb_specials_clear(&t->specials);
    fb_specials_clear(&t->inner);
    fb_pretokenizer_free(t->words);
    fb_vocabulary_free(t->vocabulary);
    fb_free(t->name);
    fb_free(t);
}

/* --- encoding ------------------------------------------------------------------- */

/* One call's own memory. */
typedef struct encoder {
    const fb_tokenizer *t;
    const fb_piece *pieces;
    int n_pieces;
    fb_text text; /* all pieces */
    fb_text rewritten[2], rewritten_again[2], word;
    fb_bpe bpe;
    fb_ids *out;
} encoder;

/* The tokens of a word, in which a space stands for every mark of one. */
static fb_status take_word(void *context, fb_span word)
{
    encoder *e = context;

    if (e->t->marks_spaces) {
        static const size_t n_mark = sizeof FB_SPACE_MARK - 1;

        e->word.n = 0;
        while (word.n > 0) {
            const char *mark = memmem(word.bytes, word.n, FB_SPACE_MARK, n_mark);
            const size_t n = mark == NULL ? word.n : (size_t)(mark - word.bytes);
            const size_t taken = mark == NULL ? n : n + n_mark;

            fb_text_add(&e->word, word.bytes, n);
            if (mark != NULL) fb_text_add(&e->word, " ", 1);
            word = (fb_span){word.bytes + taken, word.n - taken};
        }
        FB_TRY(fb_text_status(&e->word));
        word = (fb_span){fb_text_string(&e->word), e->word.n};
    }
    if (e->t->whole_words) {
        const int32_t id = fb_vocabulary_find(e->t->vocabulary, word);

        if (id >= 0) return fb_ids_add(e->out, id);
    }
    return fb_bpe_encode(&e->bpe, e->t->vocabulary, word, e->out);
}

/* A place at which a token stands for itself: where what goes before it ends, and where
 * what follows begins, without the white space that it swallows. The next token is
 * looked for from `end` on: swallowed white space may be one. */
typedef struct match {
    int32_t id;
    size_t before, end, after;
} match;

/* Looks for one from `from` on, `begin` being where the last one ended. `n_template`:
 * bytes of a template from `from` on. */
static bool match_at(const fb_specials *specials, fb_span text, size_t begin,
                     size_t from, size_t n_template, match *out)
{
    const fb_special *s = fb_specials_find(
        specials, (fb_span){text.bytes + from, text.n - from}, n_template);

    if (s == NULL) return false;
    *out = (match){s->id, from, from + s->text.n, from + s->text.n};
    if (out->before < begin) out->before = begin;
    if (s->flags & FB_TOKEN_STRIPS_LEFT)
        out->before -=
            fb_space_before((fb_span){text.bytes + begin, out->before - begin});
    if (s->flags & FB_TOKEN_STRIPS_RIGHT)
        out->after +=
            fb_space_after((fb_span){text.bytes + out->after, text.n - out->after});
    return true;
}

/* Words of a rewritten run that has no more tokens that stand for themselves. */
static fb_status encode_words(encoder *e, fb_span text, int where)
{
    FB_TRY(fb_rewrite_text(&e->t->after, where, e->rewritten_again, &text));
    return fb_pretokenize(e->t->words, text, take_word, e);
}

/* A run of valid UTF-8. */
static fb_status encode_run(encoder *e, fb_span text, int where)
{
    size_t begin = 0;
    match m;

    if (text.n == 0) return FB_OK;
    FB_TRY(fb_rewrite_text(&e->t->before, where, e->rewritten, &text));
    for (size_t at = 0; at < text.n; at++) {
        if (!match_at(&e->t->inner, text, begin, at, 0, &m)) continue;
        FB_TRY(encode_words(e, (fb_span){text.bytes + begin, m.before - begin}, where));
        FB_TRY(fb_ids_add(e->out, m.id));
        begin = m.after;
        at = m.end - 1;
        where = FB_BEGINS_STRETCH;
    }
    return encode_words(e, (fb_span){text.bytes + begin, text.n - begin}, where);
}

static fb_status encode_stretch(encoder *e, fb_span text, int where)
{
    size_t begin = 0, at = 0;

    while (at < text.n) {
        const size_t n = fb_utf8_length(text.bytes + at, text.n - at);

        at += n;
        if (n > 0) continue;
        FB_TRY(encode_run(e, (fb_span){text.bytes + begin, at - begin}, where));
        FB_TRY(take_word(e, (fb_span){text.bytes + at, 1}));
        begin = ++at;
        where = 0;
    }
    return encode_run(e, (fb_span){text.bytes + begin, at - begin}, where);
}

/* The bytes of a template from `at` on, 0 inside data. `p` and `end` go along: a piece,
 * and where it ends in the text. */
static size_t template_from(const encoder *e, size_t at, int *p, size_t *end)
{
    while (*p < e->n_pieces && at >= *end)
        if (++*p < e->n_pieces) *end += e->pieces[*p].n;
    return *p < e->n_pieces && e->pieces[*p].special ? *end - at : 0;
}

static fb_status encode_text(encoder *e)
{
    const fb_span text = {fb_text_string(&e->text), e->text.n};
    size_t begin = 0, end = e->n_pieces > 0 ? e->pieces[0].n : 0;
    int where = FB_BEGINS_STRETCH | FB_BEGINS_TEXT, p = 0;
    match m;

    for (size_t at = 0; at < text.n; at++) {
        const size_t n_template = template_from(e, at, &p, &end);

        if (!match_at(&e->t->specials, text, begin, at, n_template, &m)) continue;
        FB_TRY(
            encode_stretch(e, (fb_span){text.bytes + begin, m.before - begin}, where));
        FB_TRY(fb_ids_add(e->out, m.id));
        begin = m.after;
        at = m.end - 1;
        where = FB_BEGINS_STRETCH;
    }
    return encode_stretch(e, (fb_span){text.bytes + begin, text.n - begin}, where);
}

static fb_status join_pieces(encoder *e)
{
    for (int p = 0; p < e->n_pieces; p++)
        fb_text_add(&e->text, e->pieces[p].bytes, e->pieces[p].n);
    for (int r = 0; r < 2; r++) { /* no file can make a text grow without end */
        fb_text_init(&e->rewritten[r], MOST_GROWTH * e->text.n + SOME_BYTES);
        fb_text_init(&e->rewritten_again[r], MOST_GROWTH * e->text.n + SOME_BYTES);
    }
    return fb_text_status(&e->text);
}

static void clear(encoder *e)
{
    fb_text_clear(&e->text);
    fb_text_clear(&e->word);
    for (int r = 0; r < 2; r++) {
        fb_text_clear(&e->rewritten[r]);
        fb_text_clear(&e->rewritten_again[r]);
    }
    fb_bpe_clear(&e->bpe);
}

fb_status fb_tokenizer_encode(const fb_tokenizer *t, const fb_piece *pieces,
                              int n_pieces, fb_ids *out)
{
    encoder e = {.t = t, .pieces = pieces, .n_pieces = n_pieces, .out = out};
    const int64_t n_before = out->n;
    fb_status status = join_pieces(&e);

    if (status == FB_OK) status = encode_text(&e);
    if (status != FB_OK) out->n = n_before;
    clear(&e);
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
    if (t->drops_space && at > 0 && **out == ' ') memmove(*out, *out + 1, --at);
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
        if (t->end[e] == id) return true;
    return false;
}

const char *fb_tokenizer_pre(const fb_tokenizer *t)
{
    return t->name;
}
