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

#include "model/facts.h"
#include "model/template.h"
#include "model/tokenizer.h"
#include "model/weights.h"

typedef struct fb_model fb_model;

typedef struct fb_model_options {
    fb_weight_form weights;
} fb_model_options;

/* Opens a GGUF file, a folder of Hugging Face's (config.json, safetensors), or the
 * built-in model for the name "builtin" (and "builtin:good",
 * "builtin:bad", "builtin:quiet" for its variants). `ops` NULL: facts, tokenizer and
 * template only, no weights. `options` NULL: the defaults. */
FB_MUST_USE fb_status fb_model_open(fb_model **out, fb_ops *ops, const char *path,
                                    const fb_model_options *options);
/* What a config.json says of a model whose other files need not be there: facts, no hash,
 * no tokenizer (NULL); for what it takes, never to compute with. */
FB_MUST_USE fb_status fb_model_open_config(fb_model **out, const char *path,
                                           const fb_model_options *options);
/* The same model for operators without numbers (fb_ops_open_hollow), which book the memory
 * of its weights. `like` is lent for its life, and need not have weights. */
FB_MUST_USE fb_status fb_model_open_hollow(fb_model **out, fb_ops *ops,
                                           const fb_model *like);
void fb_model_close(fb_model *model); /* takes NULL; before the ops are closed */

const fb_model_facts *fb_model_get_facts(const fb_model *model);
const fb_tokenizer *fb_model_tokenizer(const fb_model *model);
const fb_template *fb_model_template(const fb_model *model);
fb_weight_form fb_model_weight_form(const fb_model *model);
const fb_layer *fb_model_layer(const fb_model *model, int64_t layer);
fb_tensor fb_model_embedding(const fb_model *model); /* weight [vocabulary, width] */
fb_tensor fb_model_norm(const fb_model *model);      /* [width] */
fb_tensor fb_model_head(const fb_model *model);      /* weight [vocabulary, width] */

/* Cosine and sine of `n` positions of a text of `length` tokens, for the layers that use
 * `rope`: two tensors [n, rotary_dim/2] in the open scope (rope.h). */
FB_MUST_USE fb_status fb_model_rope(const fb_model *model, fb_ops *ops, int rope,
                                    int64_t length, const int64_t *position, int64_t n,
                                    fb_tensor *cosine_out, fb_tensor *sine_out);

/* `name` as a path: itself if it exists, else <FLEXBUDGET_MODELS or the user's cache
 * folder>/name; FB_NOT_FOUND names the paths tried. Free with fb_free. */
FB_MUST_USE fb_status fb_model_find(char **out, const char *name);

#endif
