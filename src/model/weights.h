/* weights.h - the tensors of a model become weights.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_WEIGHTS_H
#define FB_MODEL_WEIGHTS_H

#include "model/facts.h"
#include "model/stored.h"

/* Weights of a layer; those that a family has not are FB_NONE. Rows of q and k are in
 * half-split rotary order (pair i of a head is columns i and i + r/2 of its r rotated
 * ones), whatever the file's order. */
typedef struct fb_layer {
    fb_tensor attention_norm; /* [width] */
    fb_tensor qkv;            /* weight [(H + 2G)*d, width]: q | k | v */
    fb_tensor qkv_bias;       /* [(H + 2G)*d] */
    fb_tensor q_norm, k_norm; /* [d] */
    fb_tensor output;         /* weight [width, H*d] */
    fb_tensor attention_post; /* [width]: norm of what attention adds */
    fb_tensor ffn_norm;       /* [width] */
    fb_tensor gate_up;        /* weight [2*ffn, width]: gate | up */
    fb_tensor down;           /* weight [width, ffn] */
    fb_tensor ffn_post;       /* [width]: norm of what the network adds */
} fb_layer;

/* How weights are held in memory; every bit of a result is the same. */
typedef enum fb_weight_form {
    FB_WEIGHTS_UNPACKED, /* as f32 */
    FB_WEIGHTS_RESIDENT, /* about as in the file; unpacked where they are used */
} fb_weight_form;

/* "unpacked", "resident". */
const char *fb_weight_form_name(fb_weight_form form);

/* What must be known of a weight to book its memory without its numbers. */
typedef struct fb_weight_note {
    bool in_eights, stays; /* as fb_weight_source has them */
    size_t bytes;          /* in the file */
} fb_weight_note;

typedef struct fb_weights {
    fb_layer *layers; /* [n_layers] */
    int64_t n_layers;
    fb_weight_note *notes; /* [n_notes] of weights, in the order they are made in */
    size_t n_notes;
    size_t file_bytes;   /* of all tensors that are used */
    size_t booked;       /* of hollow ones that stay as they are in the file */
    fb_tensor embedding; /* weight [vocabulary, width] */
    fb_tensor norm;      /* [width] */
    fb_tensor head;      /* weight [vocabulary, width]; the embedding's own if tied */
    bool has_head;       /* one of its own */
    size_t bytes;        /* of all of them, loaded or not */
    struct fb_weight_rows *staying; /* what resident ones are unpacked from */
} fb_weights;

/* How a file names tensors and orders rows. */
typedef enum fb_naming { FB_NAMED_GGUF, FB_NAMED_HF, FB_N_NAMINGS } fb_naming;

/* Weights without numbers for fb_ops_open_hollow (or NULL: to be noted alone), as those of
 * `like` are; NULL: with `bits` for each number in a file that nobody has, which is
 * resident or unpacked as `form` says. */
FB_MUST_USE fb_status fb_weights_hollow(fb_weights *out, fb_ops *ops,
                                        const fb_weights *like, int bits,
                                        const fb_model_facts *facts,
                                        fb_weight_form form);

/* Checks that the files have exactly the tensors of such a model, in formats that are
 * understood; then, unless `ops` is NULL, loads them. `out` can be unloaded even after
 * a failure. */
FB_MUST_USE fb_status fb_weights_load(fb_weights *out, fb_ops *ops,
                                      const fb_stored_list *tensors, fb_naming naming,
                                      const fb_model_facts *facts, fb_weight_form form);
void fb_weights_unload(fb_weights *weights, fb_ops *ops);

#endif
