/* try_tokens.h - what was read of a tokenizer, put to use: for fuzz targets.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_TRY_TOKENS_H
#define TESTS_SUPPORT_TRY_TOKENS_H

#include "base/check.h"
#include "base/memory.h"
#include "tests/support/open_tokenizer.h"

#include <string.h>

static inline void try_text(const fb_tokenizer *t, const char *text, bool special)
{
    const fb_piece piece = {text, strlen(text), special};
    fb_ids ids = {0};
    char *back = NULL;
    size_t n;

    if (fb_tokenizer_encode(t, &piece, 1, &ids) != FB_OK) {
        FB_ASSERT(fb_error_message()[0] != 0 && ids.n == 0);
    } else {
        for (int64_t i = 0; i < ids.n; i++)
            FB_ASSERT(ids.ids[i] >= 0 && ids.ids[i] < fb_tokenizer_size(t));
        FB_ASSERT(fb_tokenizer_decode(t, ids.ids, ids.n, false, &back, &n) == FB_OK);
    }
    fb_free(back);
    fb_ids_clear(&ids);
}

static inline void try_tokens(fb_tokens *tokens, fb_status status)
{
    static const char *const texts[] = {"",
                                        "Hello world",
                                        "  a b\n\nab",
                                        "<s>a</s> \xc3\xa9 1984 don't \xe2\x96\x81",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                        "\xff\xc3 x"};
    fb_tokenizer *t = NULL;
    char hash[FB_HASH_HEX];
    bool is_known;

    if (status == FB_OK) fb_tokens_hash(tokens, hash);
    status = tokenizer_of_tokens(&t, tokens, status);
    if (status != FB_OK) {
        FB_ASSERT(t == NULL && fb_error_message()[0] != 0);
        return;
    }
    FB_ASSERT(fb_tokenizer_bos(t) < fb_tokenizer_size(t));
    FB_ASSERT(fb_tokenizer_knows(t, texts[3], &is_known) == FB_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        try_text(t, texts[i], false);
        try_text(t, texts[i], true);
    }
    fb_tokenizer_free(t);
}

#endif
