/* open_tokenizer.h - a tokenizer from a file, in one step.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_OPEN_TOKENIZER_H
#define TESTS_SUPPORT_OPEN_TOKENIZER_H

#include "model/gguf.h"
#include "model/tokenizer.h"
#include "model/tokens.h"

static inline fb_status tokenizer_of_tokens(fb_tokenizer **out, fb_tokens *tokens,
                                            fb_status status)
{
    *out = NULL;
    if (status == FB_OK) status = fb_tokenizer_new(out, tokens);
    fb_tokens_clear(tokens);
    return status;
}

static inline fb_status tokenizer_of_gguf(fb_tokenizer **out, const fb_gguf *gguf)
{
    fb_tokens tokens;
    const fb_status status = fb_tokens_read_gguf(&tokens, gguf);

    return tokenizer_of_tokens(out, &tokens, status);
}

/* A folder with tokenizer.json or tokenizer.model. */
static inline fb_status tokenizer_of_folder(fb_tokenizer **out, const char *folder,
                                            int64_t rows)
{
    fb_tokens tokens;
    const fb_status status = fb_tokens_read_folder(&tokens, folder, rows);

    return tokenizer_of_tokens(out, &tokens, status);
}

#endif
