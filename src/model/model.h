/* model.h - a model file becomes weights in the operator table, a tokenizer and a
 * template.
 *
 * Promises: every field of a file is checked before it is used; what is not understood
 * is refused by name. Files are hostile until checked. Nothing is computed here: the
 * decoder is src/engine. Must never: know rules, caches, tasks.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_MODEL_H
#define FB_MODEL_MODEL_H

#include "base/hash.h"
#include "model/template.h"
#include "model/tokenizer.h"
#include "ops/ops.h"

typedef struct fb_model fb_model;

/* Facts of a model, checked; lent by fb_model_facts. */
typedef struct fb_model_facts {
    const char *architecture; /* "llama" */
    const char *name;         /* the file's, without folder and ".gguf" */
    const char *title;        /* general.name; NULL: none that differs */
    const char *weight_types; /* "Q4_1, Q8_0, F32": most bytes first */
    int64_t layers, heads, kv_heads, head_dim, width, ffn, vocabulary;
    int64_t context_length; /* trained */
    double rope_theta, rms_eps;
    char sha256[FB_HASH_HEX]; /* of the file */
    /* of vocabulary, merges, types, pre-tokenizer */
    char tokenizer_sha256[FB_HASH_HEX];
    size_t file_bytes;
    size_t weight_bytes; /* in memory, once loaded */
} fb_model_facts;

/* Weights of a layer. Rows of q and k are in half-split rotary order (pair i of a head
 * is columns i and i + d/2), whatever the file's order. */
typedef struct fb_layer {
    fb_tensor attention_norm; /* [width] */
    fb_tensor qkv;            /* weight [(H + 2G)*d, width]: q | k | v */
    fb_tensor output;         /* weight [width, H*d] */
    fb_tensor ffn_norm;       /* [width] */
    fb_tensor gate_up;        /* weight [2*ffn, width]: gate | up */
    fb_tensor down;           /* weight [width, ffn] */
} fb_layer;

/* Opens a GGUF file, or the built-in model for the name "builtin" (and "builtin:good",
 * "builtin:bad", "builtin:quiet" for its variants). `ops` NULL: facts, tokenizer and
 * template only, no weights. */
FB_MUST_USE fb_status fb_model_open(fb_model **out, fb_ops *ops, const char *path);
void fb_model_close(fb_model *model); /* takes NULL; before the ops are closed */

const fb_model_facts *fb_model_get_facts(const fb_model *model);
const fb_tokenizer *fb_model_tokenizer(const fb_model *model);
const fb_template *fb_model_template(const fb_model *model);
const fb_layer *fb_model_layer(const fb_model *model, int64_t layer);
fb_tensor fb_model_embedding(const fb_model *model); /* weight [vocabulary, width] */
fb_tensor fb_model_norm(const fb_model *model);      /* [width] */
fb_tensor fb_model_head(const fb_model *model);      /* weight [vocabulary, width] */

/* What the products of queries and keys are multiplied by: 1 / sqrt(head_dim). */
double fb_model_attention_scale(const fb_model *model);

/* Cosine and sine of positions [first, first + n): two tensors [n, d/2] in the open
 * scope. inv = 1.0f / (float)pow(theta, 2i/d), angle = (float)pos * inv in f32; sine
 * and cosine of that angle in double, rounded: as the reference computes it (own pow,
 * sin, cos). */
FB_MUST_USE fb_status fb_model_rope(const fb_model *model, fb_ops *ops,
                                    const int64_t *position, int64_t n,
                                    fb_tensor *cosine_out, fb_tensor *sine_out);

/* `name` as a path: itself if it exists, else <FLEXBUDGET_MODELS or the user's cache
 * folder>/name; FB_NOT_FOUND names the paths tried. Free with fb_free. */
FB_MUST_USE fb_status fb_model_find(char **out, const char *name);

#endif
