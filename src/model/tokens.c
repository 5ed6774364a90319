/* tokens.c - what the readers of tokenizers share.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokens.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

fb_status fb_tokens_allocate(fb_tokens *t, int64_t n)
{
    if (n < 1 || n > FB_MOST_TOKENS)
        return fb_fail(FB_FORMAT, "%" PRId64 " tokens; 1 to %d would be right", n,
                       FB_MOST_TOKENS);
    t->token = fb_zalloc(FB_ACCOUNT_other, (size_t)n * sizeof *t->token);
    if (t->token == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for a vocabulary of %" PRId64 " tokens",
                       n);
    for (int64_t i = 0; i < n; i++)
        t->token[i] = (fb_token){.text = {"", 0}, .kind = FB_TOKEN_UNUSED};
    t->n = (int32_t)n;
    return FB_OK;
}

fb_status fb_tokens_add_cut(fb_tokens *t, fb_cut cut)
{
    if (t->n_cuts == FB_MOST_CUTS)
        return fb_fail(FB_UNSUPPORTED, "a text is cut in more than %d steps",
                       FB_MOST_CUTS);
    t->cut[t->n_cuts++] = cut;
    return FB_OK;
}

fb_status fb_tokens_add_end(fb_tokens *t, int64_t id)
{
    if (id < 0 || id >= t->n)
        return fb_fail(FB_FORMAT,
                       "an answer ends with token %" PRId64 "; 0 to %" PRId32
                       " would be right",
                       id, t->n - 1);
    for (int e = 0; e < t->n_ends; e++)
        if (t->end[e] == id) return FB_OK;
    if (t->n_ends == FB_MOST_ENDS)
        return fb_fail(FB_UNSUPPORTED, "more than %d tokens end an answer",
                       FB_MOST_ENDS);
    t->end[t->n_ends++] = (int32_t)id;
    return FB_OK;
}

int32_t fb_tokens_find(const fb_tokens *t, fb_span text)
{
    for (int32_t id = 0; id < t->n; id++) {
        const uint8_t kind = t->token[id].kind;

        if ((kind == FB_TOKEN_CONTROL || kind == FB_TOKEN_USER ||
             kind == FB_TOKEN_UNKNOWN) &&
            fb_span_compare(t->token[id].text, text) == 0)
            return id;
    }
    return -1;
}

fb_status fb_tokens_add_turn_ends(fb_tokens *t)
{
    static const char *const texts[] = {"<|im_end|>", "<|eot_id|>", "<|end|>",
                                        "<end_of_turn>"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const int32_t id = fb_tokens_find(t, fb_span_of(texts[i]));

        if (id >= 0) FB_TRY(fb_tokens_add_end(t, id));
    }
    return FB_OK;
}

/* --- the hash ------------------------------------------------------------------- */

static void add_number(fb_hash *hash, int64_t number)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)number >> (8 * i));
    fb_hash_add(hash, bytes, sizeof bytes);
}

static void add_span(fb_hash *hash, fb_span span)
{
    add_number(hash, (int64_t)span.n);
    fb_hash_add(hash, span.bytes, span.n);
}

static void add_rewriting(fb_hash *hash, const fb_rewriting *r)
{
    add_number(hash, r->n);
    for (int s = 0; s < r->n; s++) {
        const fb_rewrite *step = &r->step[s];

        add_number(hash, step->kind);
        add_number(hash, step->first_only);
        add_number(hash, step->unless_there);
        add_span(hash, (fb_span){step->from, step->n_from});
        add_span(hash, (fb_span){step->to, step->n_to});
    }
}

static void add_cuts(fb_hash *hash, const fb_tokens *t)
{
    add_number(hash, t->n_cuts);
    for (int c = 0; c < t->n_cuts; c++) {
        const fb_cut *cut = &t->cut[c];

        add_number(hash, cut->how);
        add_number(hash, cut->is_literal);
        add_number(hash, cut->adds_space);
        add_span(hash, fb_span_of(cut->pattern == NULL ? "" : cut->pattern));
    }
}

static void add_tables(fb_hash *hash, const fb_tokens *t)
{
    add_number(hash, t->n);
    for (int32_t id = 0; id < t->n; id++) {
        uint32_t score;

        memcpy(&score, &t->token[id].score, sizeof score);
        add_span(hash, t->token[id].text);
        add_number(hash, t->token[id].kind);
        add_number(hash, t->token[id].flags);
        add_number(hash, score);
    }
    add_number(hash, t->n_merges);
    for (int32_t m = 0; m < t->n_merges; m++) {
        add_span(hash, t->merge[m].left);
        add_span(hash, t->merge[m].right);
    }
}

void fb_tokens_hash(const fb_tokens *t, char out[FB_HASH_HEX])
{
    fb_hash hash;

    fb_hash_init(&hash);
    add_tables(&hash, t);
    add_number(&hash, t->by_score);
    add_number(&hash, t->spelling);
    add_number(&hash, t->falls_to_bytes);
    add_number(&hash, t->fuses_unknown);
    add_number(&hash, t->whole_words);
    add_number(&hash, t->unknown);
    add_rewriting(&hash, &t->before);
    add_rewriting(&hash, &t->after);
    add_cuts(&hash, t);
    fb_hash_hex(&hash, out);
}

/* The value of 0 to 9 and A to F; -1: none of them. */
static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int fb_token_byte(fb_span text)
{
    int high, low;

    if (text.n != 6 || memcmp(text.bytes, "<0x", 3) != 0 || text.bytes[5] != '>')
        return -1;
    high = digit_of(text.bytes[3]);
    low = digit_of(text.bytes[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void fb_tokens_clear(fb_tokens *t)
{
    fb_free(t->token);
    fb_free(t->merge);
    fb_free(t->file);
    fb_free(t->config);
    fb_json_free(t->json);
    *t = (fb_tokens){.unknown = -1, .bos = -1};
}
