/* fuzz_gguf.c - any bytes as a model file: read or refused, never more.
 *
 * What opens is used as far as the program would use it without operators: every
 * tensor's first row is unpacked, facts, tensors, tokenizer and template are read.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "model/facts_read.h"
#include "model/tokenizer.h"
#include "model/weights.h"
#include "tests/support/open_tokenizer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_COLUMNS = 1 << 12 };

static void unpack_first_rows(const fb_gguf *gguf)
{
    static float row[MOST_COLUMNS];

    for (size_t i = 0; i < fb_gguf_tensors(gguf)->n; i++) {
        const fb_stored *t = &fb_gguf_tensors(gguf)->tensors[i];

        if (t->format->unpack == NULL || t->columns > MOST_COLUMNS) continue;
        t->format->unpack(t->data, t->columns / t->format->per_block, row);
    }
}

static void read_model(const fb_gguf *gguf)
{
    const fb_stored_list *tensors = fb_gguf_tensors(gguf);
    fb_settings settings = {.gguf = gguf};
    fb_tokenizer *tokenizer = NULL;
    fb_model_facts facts = {0};
    fb_facts_room room = {0};
    fb_weights weights;
    fb_span family;

    if (fb_gguf_string(gguf, "general.architecture", &family) == FB_OK &&
        fb_family_of_gguf(&settings.family, family) == FB_OK &&
        fb_facts_read(&facts, &room, &settings, tensors) == FB_OK) {
        (void)!fb_weights_load(&weights, NULL, tensors, FB_NAMED_GGUF, &facts,
                               FB_WEIGHTS_UNPACKED);
        fb_weights_unload(&weights, NULL);
    }
    fb_facts_clear(&room);
    if (tokenizer_of_gguf(&tokenizer, gguf) == FB_OK) {
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
