/* random_llama.h - the small Llama of make_llama.h with random weights, to which every
 * place and every entry matters: it says any bytes, text or not.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_RANDOM_LLAMA_H
#define TESTS_SUPPORT_RANDOM_LLAMA_H

#include "base/random.h"
#include "tests/support/make_llama.h"

enum { RANDOM_NO_END = -1 };

/* Writes the file; its texts are ended by the token `end`. */
static inline void random_llama(const char *path, int32_t end)
{
    static make_gguf file;
    const make_llama_change change = {.key = "tokenizer.ggml.eos_token_id",
                                      .value = (uint32_t)end};
    const size_t begin = make_llama(&file, end == RANDOM_NO_END ? NULL : &change);
    FILE *out = fopen(path, "wb");

    for (size_t at = begin; at < file.n; at += sizeof(float)) {
        const float weight = 2 * fb_philox_f32(1, 0, 0, 0, at - begin, 0) - 1;

        memcpy(file.bytes + at, &weight, sizeof weight);
    }
    make_check(out != NULL && fwrite(file.bytes, 1, file.n, out) == file.n);
    make_check(fclose(out) == 0);
}

#endif
