/* no_tokenizer.c - stands in for the tokenizer in a probe that works from token ids.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/tokenizer.h"
#include "model/tokens.h"

struct fb_tokenizer {
    int64_t n;
};

static struct fb_tokenizer builtin = {64}; /* ids of the built-in model */

fb_status fb_tokens_read_gguf(fb_tokens *out, const struct fb_gguf *g)
{
    (void)g;
    *out = (fb_tokens){0};
    return FB_OK;
}

fb_status fb_tokens_read_folder(fb_tokens *out, const char *folder, int64_t rows)
{
    (void)folder;
    (void)rows;
    *out = (fb_tokens){0};
    return FB_OK;
}

void fb_tokens_hash(const fb_tokens *tokens, char out[FB_HASH_HEX])
{
    (void)tokens;
    out[0] = '\0';
}

void fb_tokens_clear(fb_tokens *tokens)
{
    (void)tokens;
}

fb_status fb_tokenizer_new(fb_tokenizer **out, const struct fb_tokens *tokens)
{
    (void)tokens;
    *out = &builtin;
    return FB_OK;
}

void fb_tokenizer_free(fb_tokenizer *tokenizer)
{
    (void)tokenizer;
}

int64_t fb_tokenizer_size(const fb_tokenizer *tokenizer)
{
    return tokenizer->n;
}

bool fb_tokenizer_is_end(const fb_tokenizer *tokenizer, int32_t id)
{
    (void)tokenizer;
    (void)id;
    return false;
}

fb_status fb_tokenizer_encode(const fb_tokenizer *tokenizer, const fb_piece *pieces,
                              int n_pieces, fb_ids *out)
{
    (void)tokenizer;
    (void)pieces;
    (void)n_pieces;
    (void)out;
    return FB_OK;
}

fb_status fb_ids_add(fb_ids *ids, int32_t id)
{
    (void)ids;
    (void)id;
    return FB_OK;
}

void fb_ids_clear(fb_ids *ids)
{
    (void)ids;
}
