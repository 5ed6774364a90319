/* template.c - the known chat templates.
 *
 * A template is a Jinja program; what it writes around a first user turn is a constant
 * that was read off the program's output (tests/golden/templates). So a program is known
 * by its hash alone, and nothing is guessed from marker words inside it. A newline at
 * its end does not count: Jinja drops it.
 *
 * What programs do besides is not done here: some cut white space off a user's text, and
 * Llama 3.2's prints today's date where it is given a clock. It writes the date below
 * where it is not, so the date is a constant of every experiment.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/template.h"

#include <string.h>

#define CHATML_SYSTEM(text) "<|im_start|>system\n" text "<|im_end|>\n<|im_start|>user\n"
#define CHATML_USER         "<|im_start|>user\n"
#define CHATML_AFTER        "<|im_end|>\n<|im_start|>assistant\n"
#define LLAMA3(role)        "<|start_header_id|>" role "<|end_header_id|>\n\n"
#define LLAMA3_BOS          "<|begin_of_text|>"
#define LLAMA3_AFTER        "<|eot_id|>" LLAMA3("assistant")
#define LLAMA3_DATE                                                                    \
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"

typedef struct shape {
    const char *family, *before, *after;
    bool has_bos;
} shape;

/* By name: a first turn without a system prompt, but for what a program always writes.
 * Sources: the programs below. */
static const shape families[] = {
    {"none", "", "\n", false},
    {"chatml", CHATML_USER, CHATML_AFTER, false},
    {"gemma", "<bos><start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n",
     true},
    {"llama2", "<s>[INST] ", " [/INST]", true},
    {"llama3", LLAMA3_BOS LLAMA3("user"), LLAMA3_AFTER, true},
    {"llama3.1", LLAMA3_BOS LLAMA3("system") LLAMA3_DATE LLAMA3("user"), LLAMA3_AFTER,
     true},
    {"mistral", "<s>[INST] ", " [/INST]", true},
    {"mistral-v3", "<s>[INST] ", "[/INST]", true},
    {"mistral-nemo", "<s>[INST]", "[/INST]", true},
    {"phi3", "<|user|>\n", "<|end|>\n<|assistant|>\n", false},
    {"phi4-mini", "<|user|>", "<|end|><|assistant|>", false},
    {"zephyr", "<|user|>\n", "</s>\n<|assistant|>\n", false},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

typedef struct known {
    const char *sha256;
    const char *family;
    const char *before; /* NULL: the family's */
    bool has_bos;       /* of `before` */
} known;

static const known programs[] = {
    /* SmolLM2 Instruct; its BOS is <|im_start|> */
    {"872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788", "chatml",
     CHATML_SYSTEM(
         "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
     true},
    /* ChatML without a system prompt: Qwen3, and many others */
    {"153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3", "chatml", NULL,
     false},
    {"87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5", "chatml", NULL,
     false},
    /* Qwen1.5, Qwen2, Qwen2.5 with Coder */
    {"af9c0233881b083b52ff773580215222b5440ac3d0beeeca99b76329b048f8db", "chatml",
     CHATML_SYSTEM("You are a helpful assistant"), false},
    {"793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb", "chatml",
     CHATML_SYSTEM("You are a helpful assistant."), false},
    {"55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a", "chatml",
     CHATML_SYSTEM("You are Qwen, created by Alibaba Cloud. You are a helpful "
                   "assistant."),
     false},
    /* Gemma and Gemma 2, Gemma 3 */
    {"ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6", "gemma", NULL,
     false},
    {"8d9e3a3c114fb2053ec500184677af4f7e5f8ec2582443cd535834e68b3ade29", "gemma", NULL,
     false},
    /* Llama 2 Chat, twice */
    {"ea2472f29dbd93c3eb696795f6403228fcc4b775518869c771f83fbae5c11dbf", "llama2", NULL,
     false},
    {"e8d5b5a546d3f19df16a5320c614fab05bdc4edd50e850f1afd947b503ea41cf", "llama2", NULL,
     false},
    /* Llama 3 Instruct, twice */
    {"b48c47f6443892716176eb200bf4ef108f64e06ca26ed0fa8ebc0a4b3992fcb2", "llama3", NULL,
     false},
    {"ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122", "llama3", NULL,
     false},
    /* Llama 3.1 and 3.3 Instruct, 3.2 Instruct */
    {"93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7", "llama3.1",
     NULL, false},
    {"d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f", "llama3.1",
     NULL, false},
    /* Mistral Instruct 0.1, 0.2; 0.3; Nemo */
    {"26a59556925c987317ce5291811ba3b7f32ec4c647c400c6cc7e3a9993007ba7", "mistral",
     NULL, false},
    {"7e995b379ec01747807246483647cd99030abf331653f1119e16d7ac041a3495", "mistral",
     NULL, false},
    {"cafb64e0e9e5fd2503054b3479593fae39cbdfd52338ce8af9bb4664a8eb05bd", "mistral-v3",
     NULL, false},
    {"e7deee034838db2bfc7487788a3013d8a307ab69f72f3c54a85f06fd76007d4e", "mistral-nemo",
     NULL, false},
    /* Phi-3-mini, twice; Phi-3-medium; Phi-3.5-mini */
    {"605841622bcb6572225608f09ec2afcdfb9fb50844ef52715a12689f7b9278b1", "phi3", NULL,
     false},
    {"dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa", "phi3", NULL,
     false},
    {"268b6082ceb7176dc6ed80557a2f7837f9f0339592fbee677d405a553af15f88", "phi3",
     "<s><|user|>\n", true},
    {"78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90", "phi3", NULL,
     false},
    /* Phi-4-mini, and as GGUF files have it */
    {"febf589225c9728ab791f52e8897d7607a823d45368f0a4c92fa68997b40cce9", "phi4-mini",
     NULL, false},
    {"46bcd040271c497ee454c7ff577615abf2853ba2971b472e417468ac2bf47f52", "phi4-mini",
     NULL, false},
    /* TinyLlama Chat, Zephyr */
    {"66291cf0045c2425a3a667cf3cbb7af2b11f09e025c02f97245323ab79119362", "zephyr", NULL,
     false},
};

/* {{ messages[0]['content'] }}: the built-in model. No model to choose it for. */
static const char raw_sha256[] =
    "e2ce372d1e093249ecf0ac01bf8ce1be16316356ee0be7176898b31d3b9db73c";
static const shape raw = {"raw", "", "", false};

static const shape *find_family(const char *name)
{
    for (int f = 0; f < N_FAMILIES; f++)
        if (strcmp(families[f].family, name) == 0) return &families[f];
    return NULL;
}

static void set(fb_template *out, const shape *s)
{
    out->family = s->family;
    out->before = s->before;
    out->after = s->after;
    out->has_bos = s->has_bos;
}

void fb_template_of_hash(fb_template *out, const char *sha256)
{
    *out = (fb_template){.family = NULL, .before = "", .after = ""};
    if (strcmp(sha256, raw_sha256) == 0) set(out, &raw);
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        const known *program = &programs[p];

        if (strcmp(program->sha256, sha256) != 0) continue;
        set(out, find_family(program->family));
        if (program->before == NULL) continue;
        out->before = program->before;
        out->has_bos = program->has_bos;
    }
    (void)strncat(out->sha256, sha256, sizeof out->sha256 - 1);
}

void fb_template_find(fb_template *out, const char *text)
{
    char sha256[FB_HASH_HEX], shortened[FB_HASH_HEX];
    size_t n;

    *out = (fb_template){.family = NULL};
    set(out, &families[0]);
    if (text == NULL) return;
    n = strlen(text);
    fb_hash_bytes(text, n, sha256);
    fb_hash_bytes(text, n > 0 && text[n - 1] == '\n' ? n - 1 : n, shortened);
    fb_template_of_hash(out, shortened);
    memcpy(out->sha256, sha256, sizeof sha256);
}

/* "none, chatml, gemma" */
static void print_families(fb_text *out)
{
    for (int f = 0; f < N_FAMILIES; f++)
        fb_text_printf(out, "%s%s", f == 0 ? "" : ", ", families[f].family);
}

static fb_status unknown_family(const fb_template *own, const char *family)
{
    const bool is_other = own->family != NULL && find_family(own->family) == NULL;
    fb_text names;
    fb_status status;

    fb_text_init(&names, 1 << 10);
    print_families(&names);
    status = fb_fail(FB_USAGE, "unknown template '%s'; auto, %s%s%s are known", family,
                     is_other ? own->family : "", is_other ? ", " : "",
                     fb_text_string(&names));
    fb_text_clear(&names);
    return status;
}

fb_status fb_template_choose(fb_template *out, const char *family)
{
    const shape *chosen = find_family(family);

    /* The file's own text of that family knows its system prompt: keep it. */
    if (out->family != NULL && strcmp(out->family, family) == 0) return FB_OK;
    if (chosen == NULL) return unknown_family(out, family);
    set(out, chosen);
    return FB_OK;
}

fb_status fb_template_check(const fb_template *t)
{
    fb_text names;
    fb_status status;

    if (t->family != NULL) return FB_OK;
    fb_text_init(&names, 1 << 10);
    print_families(&names);
    status = fb_fail(FB_UNSUPPORTED,
                     "the model's chat template (SHA-256 %s) is not known, and is not "
                     "guessed; say which one is meant with 'model.template: FAMILY', "
                     "where FAMILY is one of %s",
                     t->sha256, fb_text_string(&names));
    fb_text_clear(&names);
    return status;
}
