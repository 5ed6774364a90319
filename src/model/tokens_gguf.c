/* tokens_gguf.c - the tokenizer of a GGUF file.
 *
 * `tokenizer.ggml.model` is "gpt2" for byte-level BPE by a list of merges, and "llama"
 * for SentencePiece's BPE by scores. What a file leaves out is llama.cpp's default
 * (src/llama-vocab.cpp).
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "base/text.h"
#include "model/gguf.h"
#include "model/tokens.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define GGML "tokenizer.ggml."

/* --- tables --------------------------------------------------------------------- */

static fb_status wrong_length(const fb_tokens *t, const char *key, int64_t n)
{
    return fb_fail(FB_FORMAT,
                   "'%s' has %" PRId64 " %s; %" PRId32
                   ", one per token, would be right",
                   key, n, fb_plural(n, "element", "elements"), t->n);
}

static fb_status read_texts(fb_tokens *t, const fb_gguf *g)
{
    static const char key[] = GGML "tokens";
    fb_gguf_array texts;

    FB_TRY(fb_gguf_strings(g, key, &texts));
    if (texts.n == 0 || texts.n > FB_MOST_TOKENS)
        return fb_fail(FB_FORMAT,
                       "'%s' has %" PRId64 " elements; 1 to %d would be right", key,
                       texts.n, FB_MOST_TOKENS);
    FB_TRY(fb_tokens_allocate(t, texts.n));
    for (int32_t id = 0; id < t->n; id++)
        t->token[id].text = fb_gguf_next_string(&texts);
    return FB_OK;
}

static fb_status read_kinds(fb_tokens *t, const fb_gguf *g)
{
    static const char key[] = GGML "token_type";
    fb_gguf_array kinds;

    FB_TRY(fb_gguf_ints(g, key, &kinds));
    if (kinds.n != t->n) return wrong_length(t, key, kinds.n);
    for (int32_t id = 0; id < t->n; id++) {
        const int64_t kind = fb_gguf_next_int(&kinds);

        if (kind < FB_TOKEN_NORMAL || kind > FB_TOKEN_BYTE)
            return fb_fail(FB_FORMAT, "token %" PRId32 " has the unknown type %" PRId64,
                           id, kind);
        t->token[id].kind = (uint8_t)kind;
    }
    return FB_OK;
}

static fb_status read_scores(fb_tokens *t, const fb_gguf *g)
{
    static const char key[] = GGML "scores";
    fb_gguf_array scores;

    FB_TRY(fb_gguf_reals(g, key, &scores));
    if (scores.n != t->n) return wrong_length(t, key, scores.n);
    for (int32_t id = 0; id < t->n; id++) {
        const double score = fb_gguf_next_real(&scores);

        if (isnan(score))
            return fb_fail(FB_FORMAT, "token %" PRId32 " has a score that is no number",
                           id);
        t->token[id].score = (float)score;
    }
    return FB_OK;
}

/* "left right": neither has a space in it. */
static fb_status read_merges(fb_tokens *t, const fb_gguf *g)
{
    static const char key[] = GGML "merges";
    fb_gguf_array merges;

    FB_TRY(fb_gguf_strings(g, key, &merges));
    if (merges.n > FB_MOST_MERGES)
        return fb_fail(FB_FORMAT, "'%s' has %" PRId64 " elements; at most %d are read",
                       key, merges.n, FB_MOST_MERGES);
    t->merge = fb_alloc(FB_ACCOUNT_other, (size_t)merges.n * sizeof *t->merge);
    if (t->merge == NULL) return fb_fail(FB_NO_MEMORY, "no memory for the merges");
    while (merges.n > 0) {
        const fb_span text = fb_gguf_next_string(&merges);
        const char *space = memchr(text.bytes, ' ', text.n);
        const size_t n = space == NULL ? text.n : (size_t)(space - text.bytes);

        if (space == NULL)
            return fb_fail(FB_FORMAT,
                           "merge %" PRId32
                           ", '%s', is not two tokens that make a third one",
                           t->n_merges, fb_span_show(text).text);
        t->merge[t->n_merges++] =
            (fb_token_pair){{text.bytes, n}, {space + 1, text.n - n - 1}};
    }
    return FB_OK;
}

/* --- marks ---------------------------------------------------------------------- */

/* The id under `key` to `out`, which stays as it is if the file has no such key. */
static fb_status read_id(const fb_tokens *t, const fb_gguf *g, const char *key,
                         int32_t *out)
{
    int64_t id = *out;

    if (fb_gguf_has(g, key)) FB_TRY(fb_gguf_int(g, key, 0, t->n - 1, &id));
    *out = (int32_t)id;
    return FB_OK;
}

static fb_status read_bool(const fb_gguf *g, const char *key, bool *out)
{
    return fb_gguf_has(g, key) ? fb_gguf_bool(g, key, out) : FB_OK;
}

static fb_status read_marks(fb_tokens *t, const fb_gguf *g)
{
    static const char *const ends[] = {GGML "eos_token_id", GGML "eot_token_id",
                                       GGML "eom_token_id"};

    FB_TRY(read_id(t, g, GGML "bos_token_id", &t->bos));
    FB_TRY(read_bool(g, GGML "add_bos_token", &t->adds_bos));
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        int32_t id = -1;

        FB_TRY(read_id(t, g, ends[e], &id));
        if (id >= 0) FB_TRY(fb_tokens_add_end(t, id));
    }
    return fb_tokens_add_turn_ends(t);
}

/* --- the two kinds -------------------------------------------------------------- */

static fb_status read_byte_level(fb_tokens *t, const fb_gguf *g)
{
    static const char pre[] = GGML "pre", prefix[] = GGML "add_space_prefix";
    bool adds_space = false;
    fb_span name;

    FB_TRY(read_bool(g, prefix, &adds_space));
    if (adds_space)
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is true; with byte-level BPE only false is understood",
                       prefix);
    if (!fb_gguf_has(g, pre))
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is missing, so it is not known how to cut a text into "
                       "words, and a guess would give other tokens; convert the model "
                       "again, or add the tag: gguf-new-metadata --pre-tokenizer NAME "
                       "OLD.gguf NEW.gguf",
                       pre);
    FB_TRY(fb_gguf_string(g, pre, &name));
    FB_TRY(fb_tokens_cut_as(t, name));
    FB_TRY(read_texts(t, g));
    FB_TRY(read_kinds(t, g));
    return read_merges(t, g);
}

/* In Phi-3 what marks a turn swallows the white space behind it; GGUF has no place for
 * that. Source: added_tokens of its tokenizer.json. */
static void strip_as_phi3(fb_tokens *t)
{
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};

    for (int32_t id = 0; id < t->n; id++) {
        bool strips = true;

        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            strips &= !fb_span_is(t->token[id].text, others[i]);
        if (strips) t->token[id].flags |= FB_TOKEN_STRIPS_RIGHT;
    }
}

static fb_status read_unknown(fb_tokens *t, const fb_gguf *g)
{
    for (int32_t id = t->n - 1; id >= 0; id--)
        if (t->token[id].kind == FB_TOKEN_UNKNOWN) t->unknown = id;
    return read_id(t, g, GGML "unknown_token_id", &t->unknown);
}

static fb_status read_sentencepiece(fb_tokens *t, const fb_gguf *g)
{
    const fb_span space = {" ", 1}, mark = fb_span_of(FB_SPACE_MARK);
    bool adds_space = true;
    fb_span family = {"", 0};

    t->name = "sentencepiece";
    t->spelling = FB_SPELT_WITH_SPACES;
    t->by_score = t->falls_to_bytes = t->adds_bos = true;
    FB_TRY(read_texts(t, g));
    FB_TRY(read_kinds(t, g));
    FB_TRY(read_scores(t, g));
    FB_TRY(read_unknown(t, g));
    FB_TRY(read_bool(g, GGML "add_space_prefix", &adds_space));
    t->drops_space = adds_space;
    if (adds_space)
        FB_TRY(fb_rewriting_add(&t->before, FB_REWRITE_PREPEND, space, mark));
    FB_TRY(fb_rewriting_add(&t->before, FB_REWRITE_REPLACE, space, mark));
    if (fb_gguf_has(g, "general.architecture"))
        FB_TRY(fb_gguf_string(g, "general.architecture", &family));
    if (fb_span_is(family, "phi3")) strip_as_phi3(t);
    return FB_OK;
}

fb_status fb_tokens_read_gguf(fb_tokens *t, const struct fb_gguf *g)
{
    static const char key[] = GGML "model";
    fb_span kind;

    *t = (fb_tokens){.unknown = -1, .bos = -1};
    FB_TRY(fb_gguf_string(g, key, &kind));
    if (fb_span_is(kind, "gpt2"))
        FB_TRY(read_byte_level(t, g));
    else if (fb_span_is(kind, "llama"))
        FB_TRY(read_sentencepiece(t, g));
    else
        return fb_fail(FB_UNSUPPORTED,
                       "'%s' is '%s'; 'gpt2' (byte-level BPE) and 'llama' "
                       "(SentencePiece's BPE) are understood",
                       key, fb_span_show(kind).text);
    return read_marks(t, g);
}
