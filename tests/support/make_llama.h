/* make_llama.h - a Llama of one layer as a GGUF file, with one thing changed.
 *
 * Width 32, 2 heads of 16, 1 kv head, ffn 32, vocabulary of the 256 bytes, tied head;
 * all weights 0, or made up.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_MAKE_LLAMA_H
#define TESTS_SUPPORT_MAKE_LLAMA_H

#include "model/blocks.h"
#include "tests/support/make_vocabulary.h"

/* What differs from a good file; zero: nothing. */
typedef struct make_llama_change {
    const char *key; /* this whole number has `value`, whether it is there or not */
    uint32_t value;
    const char *text_key, *text; /* one more string */
    const char *no_key;          /* a number that is left out */
    const char *drop;            /* a tensor that is left out */
    const char *add;             /* a tensor that is added: [32] in F32, or */
    uint32_t add_columns, add_type;
    const char *bool_key; /* one more bool, false */
    const char *reshape;  /* a tensor that loses a row */
    const char *repack;   /* a tensor that is said to be in IQ4_NL */
    const char *pre;      /* pre-tokenizer; NULL: "gpt-2", "": none */
    /* Formats of the matrices, in the order below, whose numbers are made up then; NULL:
     * all are F32. */
    const uint32_t *types;
} make_llama_change;

static inline void llama_numbers(make_gguf *m, const make_llama_change *change)
{
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {
        {"llama.block_count", 1},          {"llama.context_length", 128},
        {"llama.embedding_length", 32},    {"llama.feed_forward_length", 32},
        {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1},
    };
    bool is_changed = change->key == NULL;

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const char *key = numbers[i].key;
        const bool is_it = change->key != NULL && strcmp(change->key, key) == 0;

        if (change->no_key != NULL && strcmp(change->no_key, key) == 0) continue;
        make_u32(m, key, is_it ? change->value : numbers[i].value);
        is_changed |= is_it;
    }
    if (!is_changed) make_u32(m, change->key, change->value);
    if (change->text_key != NULL) make_text(m, change->text_key, change->text);
    if (change->bool_key != NULL) make_bool(m, change->bool_key, 0);
    make_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static inline void llama_tensor(make_gguf *m, const make_llama_change *change,
                                const char *name, uint64_t rows, uint32_t type)
{
    const fb_blocks *format = fb_blocks_find(type);
    const uint64_t n = (rows == 0 ? 1 : rows) * (32 / (uint64_t)format->per_block);

    if (change->drop != NULL && strcmp(change->drop, name) == 0) return;
    if (change->reshape != NULL && strcmp(change->reshape, name) == 0) rows--;
    if (change->repack != NULL && strcmp(change->repack, name) == 0)
        make_tensor(m, name, 32, rows, 20, 18 * rows);
    else
        make_tensor(m, name, 32, rows, type, n * format->bytes);
}

/* Bytes of which none is the upper one of an infinity, of a NaN or of a number above 2,
 * whatever the format. */
static inline void llama_make_up(make_gguf *m, size_t begin)
{
    uint32_t seed = 1;

    for (size_t i = begin; i < m->n; i++) {
        seed = seed * 1664525u + 1013904223u;
        m->bytes[i] = seed >> 24 & 0xbf;
        if ((m->bytes[i] & 0x30) == 0) m->bytes[i] |= 0x30;
    }
}

static inline void llama_add(make_gguf *m, const make_llama_change *change)
{
    const fb_blocks *format = fb_blocks_find(change->add_type);
    const uint64_t columns = change->add_columns == 0 ? 32 : change->add_columns;

    if (change->add != NULL)
        make_tensor(m, change->add, columns, 0, change->add_type,
                    columns * format->bytes);
}

/* Returns where the data begins: the embedding, then the rest. */
static inline size_t make_llama(make_gguf *m, const make_llama_change *change)
{
    static const struct {
        const char *name;
        uint64_t rows;
    } tensors[] = {
        {"token_embd.weight", 256},       {"output_norm.weight", 0},
        {"blk.0.attn_norm.weight", 0},    {"blk.0.attn_q.weight", 32},
        {"blk.0.attn_k.weight", 16},      {"blk.0.attn_v.weight", 16},
        {"blk.0.attn_output.weight", 32}, {"blk.0.ffn_norm.weight", 0},
        {"blk.0.ffn_gate.weight", 32},    {"blk.0.ffn_up.weight", 32},
        {"blk.0.ffn_down.weight", 32},
    };
    static const make_llama_change nothing;
    static make_vocabulary vocabulary;
    const char *pre;
    size_t begin;

    if (change == NULL) change = &nothing;
    pre = change->pre == NULL ? "gpt-2" : change->pre[0] == '\0' ? NULL : change->pre;
    make_begin(m);
    make_text(m, "general.architecture", "llama");
    llama_numbers(m, change);
    vocabulary_begin(&vocabulary);
    vocabulary_put(&vocabulary, m, pre);
    for (size_t i = 0, matrix = 0; i < sizeof tensors / sizeof *tensors; i++)
        llama_tensor(
            m, change, tensors[i].name, tensors[i].rows,
            change->types != NULL && tensors[i].rows > 0 ? change->types[matrix++] : 0);
    llama_add(m, change);
    begin = make_data(m);
    if (change->types != NULL) llama_make_up(m, begin);
    return begin;
}

#endif
