/* llama.h - the "llama" architecture: metadata to facts, tensors to weights.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_LLAMA_H
#define FB_MODEL_LLAMA_H

#include "model/gguf.h"
#include "model/model.h"

/* Fills the numbers of `facts` (not its strings): each checked, none assumed that the
 * format does not define. */
FB_MUST_USE fb_status fb_llama_facts(fb_model_facts *facts, const fb_gguf *gguf);

typedef struct fb_llama {
    fb_layer *layers; /* [n_layers] */
    int64_t n_layers;
    fb_tensor embedding; /* weight [vocabulary, width] */
    fb_tensor norm;      /* [width] */
    fb_tensor head;      /* weight [vocabulary, width]; the embedding's own if tied */
    size_t bytes;        /* of all of them, loaded or not */
} fb_llama;

/* Checks that the file has exactly the tensors of such a model, in formats that are
 * understood; then, unless `ops` is NULL, loads them. `out` can be unloaded even after
 * a failure. */
FB_MUST_USE fb_status fb_llama_load(fb_llama *out, fb_ops *ops, const fb_gguf *gguf,
                                    const fb_model_facts *facts);
void fb_llama_unload(fb_llama *llama, fb_ops *ops);

#endif
