/* template.c - the known chat templates.
 *
 * A template is a Jinja program; what it writes around a first user turn is a constant
 * that was read off the program's output. So a program is known by its hash alone, and
 * nothing is guessed from marker words inside it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/template.h"

#include <string.h>

typedef struct known {
    const char *sha256;
    fb_template shape;
} known;

static const fb_template none = {.family = "none", .before = "", .after = "\n"};

/* A turn without a system prompt, for files whose own template is not known. */
static const fb_template chatml = {
    .family = "chatml",
    .before = "<|im_start|>user\n",
    .after = "<|im_end|>\n<|im_start|>assistant\n",
};

static const known templates[] = {
    {/* SmolLM2 Instruct; its BOS is <|im_start|> */
     "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
     {.family = "chatml",
      .before = "<|im_start|>system\n"
                "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
                "<|im_end|>\n<|im_start|>user\n",
      .after = "<|im_end|>\n<|im_start|>assistant\n",
      .has_bos = true}},
    {/* {{ messages[0]['content'] }}: the built-in model */
     "e2ce372d1e093249ecf0ac01bf8ce1be16316356ee0be7176898b31d3b9db73c",
     {.family = "raw", .before = "", .after = ""}},
};

void fb_template_find(fb_template *out, const char *text)
{
    char sha256[FB_HASH_HEX] = "";

    *out = none;
    if (text == NULL) return;
    fb_hash_bytes(text, strlen(text), sha256);
    *out = (fb_template){.family = NULL, .before = "", .after = ""};
    for (size_t k = 0; k < sizeof templates / sizeof *templates; k++)
        if (strcmp(templates[k].sha256, sha256) == 0) *out = templates[k].shape;
    memcpy(out->sha256, sha256, sizeof sha256);
}

fb_status fb_template_choose(fb_template *out, const char *family)
{
    const bool has_own = out->family != NULL && strcmp(out->family, "none") != 0 &&
                         strcmp(out->family, "chatml") != 0;
    const fb_template *chosen = NULL;
    char sha256[FB_HASH_HEX];

    /* The file's own text of that family knows its system prompt: keep it. */
    if (out->family != NULL && strcmp(out->family, family) == 0) return FB_OK;
    if (strcmp(family, "none") == 0) chosen = &none;
    if (strcmp(family, "chatml") == 0) chosen = &chatml;
    if (chosen == NULL)
        return fb_fail(FB_USAGE, "unknown template '%s'; auto, %s%snone or chatml",
                       family, has_own ? out->family : "", has_own ? ", " : "");
    memcpy(sha256, out->sha256, sizeof sha256);
    *out = *chosen;
    memcpy(out->sha256, sha256, sizeof sha256);
    return FB_OK;
}

fb_status fb_template_check(const fb_template *t)
{
    if (t->family != NULL) return FB_OK;
    return fb_fail(FB_UNSUPPORTED,
                   "the model's chat template (SHA-256 %s) is not known, and is not "
                   "guessed; say which one is meant with 'model.template: none' or "
                   "'model.template: chatml'",
                   t->sha256);
}
