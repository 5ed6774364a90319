/* settings.h - the numbers of a model as its file states them, whatever the file: GGUF's
 * metadata or config.json.
 *
 * A field has a key in each. Sentences name the key as the file spells it. A key that is
 * null in config.json is not there.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_SETTINGS_H
#define FB_MODEL_SETTINGS_H

#include "base/json.h"
#include "model/family.h"
#include "model/gguf.h"

/* FB_FIELD(name, behind the architecture in GGUF, in config.json); "": it has none. */
/* clang-format off */
#define FB_FIELDS \
    FB_FIELD(layers,          "block_count",                      "num_hidden_layers") \
    FB_FIELD(width,           "embedding_length",                 "hidden_size") \
    FB_FIELD(ffn,             "feed_forward_length",              "intermediate_size") \
    FB_FIELD(context_length,  "context_length",                   "max_position_embeddings") \
    FB_FIELD(heads,           "attention.head_count",             "num_attention_heads") \
    FB_FIELD(kv_heads,        "attention.head_count_kv",          "num_key_value_heads") \
    FB_FIELD(head_dim,        "attention.key_length",             "head_dim") \
    FB_FIELD(value_dim,       "attention.value_length",           "") \
    FB_FIELD(rotary_dim,      "rope.dimension_count",             "") \
    FB_FIELD(rms_eps,         "attention.layer_norm_rms_epsilon", "rms_norm_eps") \
    FB_FIELD(vocabulary,      "vocab_size",                       "vocab_size") \
    FB_FIELD(query_scalar,    "",                                 "query_pre_attn_scalar") \
    FB_FIELD(window,          "attention.sliding_window",         "sliding_window") \
    FB_FIELD(use_window,      "",                                 "use_sliding_window") \
    FB_FIELD(window_from,     "",                                 "max_window_layers") \
    FB_FIELD(tied,            "",                                 "tie_word_embeddings") \
    FB_FIELD(theta,           "rope.freq_base",                   "rope_theta") \
    FB_FIELD(local_theta,     "rope.freq_base_swa",               "rope_local_base_freq") \
    FB_FIELD(rope_type,       "rope.scaling.type",                "") \
    FB_FIELD(rope_factor,     "rope.scaling.factor",              "") \
    FB_FIELD(rope_linear,     "rope.scale_linear",                "") \
    FB_FIELD(rope_size,       "rope.scaling.attn_factor",         "") \
    FB_FIELD(rope_fast,       "rope.scaling.yarn_beta_fast",      "") \
    FB_FIELD(rope_slow,       "rope.scaling.yarn_beta_slow",      "") \
    FB_FIELD(yarn_ext,        "rope.scaling.yarn_ext_factor",     "") \
    FB_FIELD(yarn_size,       "rope.scaling.yarn_attn_factor",    "") \
    FB_FIELD(yarn_log,        "rope.scaling.yarn_log_multiplier", "") \
    FB_FIELD(first_length,    "rope.scaling.original_context_length", "")
/* clang-format on */

typedef enum fb_field {
#define FB_FIELD(name, gguf, config) FB_FIELD_##name,
    FB_FIELDS
#undef FB_FIELD
        FB_N_FIELDS
} fb_field;

typedef struct fb_settings {
    const fb_family *family;
    const fb_gguf *gguf; /* one of them is there */
    const fb_json *config;
} fb_settings;

/* A key as the file spells it: "llama.block_count". */
typedef struct fb_field_key {
    char text[96];
} fb_field_key;
fb_field_key fb_settings_key(const fb_settings *settings, fb_field field);

bool fb_settings_has(const fb_settings *settings, fb_field field);
/* FB_FORMAT where the key is missing, of another type or out of range. */
FB_MUST_USE fb_status fb_settings_int(const fb_settings *settings, fb_field field,
                                      int64_t low, int64_t high, int64_t *out);
/* Above 0 and finite. */
FB_MUST_USE fb_status fb_settings_real(const fb_settings *settings, fb_field field,
                                       double *out);
FB_MUST_USE fb_status fb_settings_bool(const fb_settings *settings, fb_field field,
                                       bool *out);
/* The same, leaving `out` as it is where the key is missing. */
FB_MUST_USE fb_status fb_settings_int_or(const fb_settings *settings, fb_field field,
                                         int64_t low, int64_t high, int64_t *out);
FB_MUST_USE fb_status fb_settings_real_or(const fb_settings *settings, fb_field field,
                                          double *out);
FB_MUST_USE fb_status fb_settings_bool_or(const fb_settings *settings, fb_field field,
                                          bool *out);

/* --- members of config.json, for objects inside it --- */

/* FB_FORMAT naming `key` unless it is a number above 0; missing or null: `out` stays. */
FB_MUST_USE fb_status fb_config_real_or(const fb_json *object, const char *key,
                                        double *out);
FB_MUST_USE fb_status fb_config_int_or(const fb_json *object, const char *key,
                                       int64_t low, int64_t high, int64_t *out);

#endif
