/* fuzz_tokens_json.c - any bytes as tokenizer.json: refused with a sentence, or a
 * tokenizer whose ids are its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "tests/support/try_tokens.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 600 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = fb_alloc(FB_ACCOUNT_other, size + 1);
    fb_tokens tokens;

    if (copy == NULL) return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    try_tokens(&tokens, fb_tokens_read_json(&tokens, copy, size, ROWS));
    return 0;
}
