/* family.c - the table, and looking it up.
 *
 * Sources: the models' own configuration files and modeling code in transformers 5.2;
 * GGUF names from llama.cpp's gguf-py (constants.py, tensor_mapping.py).
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/family.h"

#include "base/text.h"

#include <string.h>

const fb_family fb_families[] = {
    {.name = "llama",
     .models = "Llama 1 to 3, SmolLM2, TinyLlama",
     .checked = "tiny models (tied, untied, sharded, F16, BF16, llama3 rotary): logits "
                "2e-6; SmolLM2-135M-Instruct Q4_1: logits 2e-6",
     .gguf = "llama",
     .config = "llama",
     .pairs_rows = true},
    {.name = "mistral",
     .models = "Mistral 7B",
     .checked = "tiny models (with and without window): logits 2e-6",
     .config = "mistral",
     .may_slide = true,
     .window = 4096}, /* GGUF files say "llama" */
    {.name = "qwen2",
     .models = "Qwen2, Qwen2.5",
     .checked =
         "tiny model: logits 2e-6; Qwen2.5-Coder-0.5B-Instruct Q4_K_M: logits 3e-6",
     .gguf = "qwen2",
     .config = "qwen2",
     .has_qkv_bias = true,
     .may_slide = true,
     .mixes_layers = true,
     .slides_only_if_said = true,
     .window = 4096,
     .window_from = 28},
    {.name = "qwen3",
     .models = "Qwen3 (dense)",
     .checked =
         "tiny models (plain; yarn, one of two layers with a window): logits 2e-6",
     .gguf = "qwen3",
     .config = "qwen3",
     .has_qk_norm = true,
     .may_slide = true,
     .mixes_layers = true,
     .slides_only_if_said = true,
     .window = 4096,
     .window_from = 28},
    {.name = "gemma3",
     .models = "Gemma 3 (text)",
     .checked = "tiny models (layers of both kinds; windows alone): logits 1e-6; "
                "Gemma 3 270M Q4_K_M: logits 3e-6",
     .gguf = "gemma3",
     .config = "gemma3_text",
     .gate = FB_GATE_GELU,
     .has_qk_norm = true,
     .has_post_norms = true,
     .scales_embedding = true,
     .ties_head = true,
     .norms_add_one = true,
     .may_slide = true,
     .mixes_layers = true,
     .global_every = 6,
     .local_theta = 10000,
     .theta = 1e6,
     .window = 4096},
    {.name = "phi3",
     .models = "Phi-3, Phi-3.5, Phi-4-mini",
     .checked = "tiny model: logits 2e-6",
     .gguf = "phi3",
     .config = "phi3",
     .fuses_qkv = true,
     .fuses_gate_up = true,
     .rotates_part = true,
     .yarn_is_longrope = true,
     .may_slide = true},
};
const int fb_n_families = sizeof fb_families / sizeof *fb_families;

static fb_status unknown(const char *key, fb_span name)
{
    fb_text known;
    fb_status status;

    fb_text_init(&known, 1 << 10);
    for (int f = 0; f < fb_n_families; f++)
        fb_text_printf(&known, "%s'%s'",
                       f == 0                   ? ""
                       : f == fb_n_families - 1 ? " and "
                                                : ", ",
                       fb_families[f].name);
    status = fb_fail(FB_UNSUPPORTED, "'%s' is '%s'; %s are understood", key,
                     fb_span_show(name).text, fb_text_string(&known));
    fb_text_clear(&known);
    return status;
}

fb_status fb_family_of_gguf(const fb_family **out, fb_span architecture)
{
    for (int f = 0; f < fb_n_families; f++)
        if (fb_families[f].gguf != NULL &&
            fb_span_is(architecture, fb_families[f].gguf)) {
            *out = &fb_families[f];
            return FB_OK;
        }
    return unknown("general.architecture", architecture);
}

fb_status fb_family_of_config(const fb_family **out, const char *model_type)
{
    for (int f = 0; f < fb_n_families; f++)
        if (strcmp(model_type, fb_families[f].config) == 0) {
            *out = &fb_families[f];
            return FB_OK;
        }
    return unknown("model_type", fb_span_of(model_type));
}
