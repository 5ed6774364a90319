/* fuzz_gguf.c - any bytes as a model file: read or refused, never more.
 *
 * What opens is used as far as the program would use it without operators: every
 * tensor's first row is unpacked, facts, tensors, tokenizer and template are read.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "model/gguf.h"
#include "model/llama.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_COLUMNS = 1 << 12 };

static void unpack_first_rows(const fb_gguf *gguf)
{
    static float row[MOST_COLUMNS];

    for (int64_t i = 0; i < fb_gguf_n_tensors(gguf); i++) {
        const fb_gguf_tensor *t = fb_gguf_tensor_at(gguf, i);

        if (t->format->unpack == NULL || t->columns > MOST_COLUMNS) continue;
        t->format->unpack(t->data, t->columns / t->format->per_block, row);
    }
}

static void read_model(const fb_gguf *gguf)
{
    fb_model_facts facts = {0};
    fb_tokenizer *tokenizer = NULL;
    fb_llama llama;

    if (fb_llama_facts(&facts, gguf) == FB_OK) {
        (void)!fb_llama_load(&llama, NULL, gguf, &facts);
        fb_llama_unload(&llama, NULL);
    }
    if (fb_tokenizer_new(&tokenizer, gguf) == FB_OK) {
        const fb_piece piece = {"a 1\xff<s>", 7, true};
        fb_ids ids = {0};

        (void)!fb_tokenizer_encode(tokenizer, &piece, 1, &ids);
        fb_ids_clear(&ids);
    }
    fb_tokenizer_free(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fb_gguf *gguf = NULL;

    if (fb_gguf_open_bytes(&gguf, data, size) == FB_OK) {
        unpack_first_rows(gguf);
        read_model(gguf);
    }
    fb_gguf_close(gguf);
    /* Tables grow with the file, by a bounded factor. */
    if (fb_memory_now(FB_ACCOUNT_other) != 0 ||
        fb_memory_peak(FB_ACCOUNT_other) > (1u << 22) + 64 * size)
        abort();
    fb_memory_reset_peaks();
    return 0;
}
