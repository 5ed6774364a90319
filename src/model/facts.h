/* facts.h - the numbers that describe a model, checked.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_FACTS_H
#define FB_MODEL_FACTS_H

#include "base/hash.h"
#include "model/family.h"
#include "model/rope.h"

/* Which rotary tables a layer uses: the local ones where it slides. The two are equal in
 * families with one rope. */
enum { FB_ROPE_GLOBAL, FB_ROPE_LOCAL, FB_N_ROPES };

typedef struct fb_layer_facts {
    int64_t window; /* a query sees the last `window` tokens, itself included; 0: all */
    int64_t index;  /* among the layers that slide, or among those that do not */
    int rope;       /* FB_ROPE_GLOBAL, FB_ROPE_LOCAL */
    /* Never evicted from: it holds its window and no more. In a model all of whose
     * layers have windows none slides: a text longer than the window cannot be
     * compressed, and in a shorter one every layer sees everything. */
    bool slides;
} fb_layer_facts;

/* Lent by fb_model_get_facts. */
typedef struct fb_model_facts {
    const fb_family *family;
    const char *architecture; /* the family's name: "llama" */
    const char *name;         /* the file's, without folder and ".gguf" */
    const char *title;        /* general.name; NULL: none that differs */
    const char *weight_types; /* "Q4_1, Q8_0, F32": most bytes first */
    int64_t layers, heads, kv_heads, head_dim, width, ffn, vocabulary;
    int64_t rotary_dim;     /* columns of a head that are rotated */
    int64_t context_length; /* trained */
    int64_t longest;        /* text that can be worked on: the same, or the window of a
                                 model in which every layer has one */
    int64_t window;         /* of the layers that have one; 0: none has */
    int64_t global_layers;  /* layers that a rule evicts from */
    int64_t sliding_layers; /* the others */
    const fb_layer_facts *layer; /* [layers] */
    double rms_eps;
    double attention_scale; /* of products of queries and keys */
    double embedding_scale; /* of the rows of the embedding */
    fb_rope rope[FB_N_ROPES];
    bool head_is_tied;        /* what config.json says; GGUF: no tensor of its own */
    char sha256[FB_HASH_HEX]; /* of the file */
    /* of vocabulary, merges, types, pre-tokenizer */
    char tokenizer_sha256[FB_HASH_HEX];
    size_t file_bytes;
    size_t weight_bytes; /* in memory, once loaded */
} fb_model_facts;

#endif
