/* family.h - the families of models, one row each: names, and how a family differs from
 * a plain Llama.
 *
 * The decoder is one (src/engine/decoder.c); what a row says is all that makes it
 * another network.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_FAMILY_H
#define FB_MODEL_FAMILY_H

#include "base/span.h"

#include <flexbudget/error.h>
#include <stdint.h>

/* The gate of the feed-forward network: down(gate(g) * u). */
typedef enum fb_gate { FB_GATE_SILU, FB_GATE_GELU } fb_gate; /* GELU: tanh form */

typedef struct fb_family {
    const char *name;    /* as facts, results and docs spell it: "qwen2" */
    const char *models;  /* "Qwen2, Qwen2.5" */
    const char *checked; /* on what, how far off transformers: for docs/MODELS.md */
    const char *gguf;    /* `general.architecture`; NULL: goes by another's */
    const char *config;  /* `model_type` of config.json */
    fb_gate gate;
    bool has_qkv_bias;
    bool has_qk_norm;         /* RMS norm of every head of q and k, before rotation */
    bool has_post_norms;      /* norms after attention and after the network */
    bool fuses_qkv;           /* one tensor for q, k and v */
    bool fuses_gate_up;       /* one tensor for gate and up */
    bool scales_embedding;    /* by sqrt(width) */
    bool norms_add_one;       /* norm weights of safetensors hold w - 1 */
    bool pairs_rows;          /* GGUF has the rows of rotary pairs side by side */
    bool rotates_part;        /* `partial_rotary_factor` counts */
    bool yarn_is_longrope;    /* config.json's "yarn" and "su" mean longrope */
    bool may_slide;           /* windows are understood */
    bool mixes_layers;        /* layers with a window may stand beside others */
    bool slides_only_if_said; /* `sliding_window` counts if `use_sliding_window` */
    int global_every;   /* every which layer is global where no list says; 0: none */
    double local_theta; /* rotary base of sliding layers where none is said; 0: all
                                 layers have one rope */
    /* What config.json means where a key is missing. */
    double theta;        /* `rope_theta`; 0: 10000 */
    int64_t window;      /* `sliding_window`; 0: none. Null is none always */
    int64_t window_from; /* `max_window_layers` */
    bool ties_head;      /* `tie_word_embeddings` */
} fb_family;

extern const fb_family fb_families[];
extern const int fb_n_families;

/* FB_UNSUPPORTED naming the families that are known. `key` is for the sentence. */
FB_MUST_USE fb_status fb_family_of_gguf(const fb_family **out, fb_span architecture);
FB_MUST_USE fb_status fb_family_of_config(const fb_family **out,
                                          const char *model_type);

#endif
