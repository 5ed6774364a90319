/* tokens_names.c - the lists of cuts that `tokenizer.ggml.pre` names.
 *
 * Names: llama.cpp (src/llama-vocab.cpp), which is what writes and reads them;
 * "default" is what it takes where a converter knew no better. Expressions: the
 * tokenizer.json files of the models named below; GPT-2's and o200k's are also in
 * tiktoken (openai_public.py). Where llama.cpp runs another expression than the model's
 * file (tekken, gpt-4o: it has no classes of upper and lower case), the model's counts.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"
#include "model/tokens.h"

#define ENDING  "'s|'t|'re|'ve|'m|'ll|'d"
#define APART   "\\s+(?!\\S)" /* leaves one space for the next word */
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+"
#define WORDS   ENDING "| ?\\p{L}+| ?\\p{N}+|" SYMBOLS
#define GPT2    WORDS "|" APART "|\\s+"
/* Llama 3, and Qwen 2 with one digit at a time. */
#define MODERN(digits)                                                                 \
    "(?i:" ENDING ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" SYMBOLS                \
    "[\\r\\n]*|\\s*[\\r\\n]+|" APART "|\\s+"
/* o200k, and Mistral's tekken without endings and with one digit at a time. */
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER  "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER  "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(ending, digits)                                                          \
    BEFORE UPPER "*" LOWER "+" ending "|" BEFORE UPPER "+" LOWER "*" ending "|" digits \
                 "|" SYMBOLS "[\\r\\n/]*|\\s*[\\r\\n]+|" APART "|\\s+"

enum { MOST_LEVELS = 4, MOST_NAMES = 3 };

typedef struct kind {
    const char *names[MOST_NAMES];
    const char *patterns[MOST_LEVELS];
    bool whole_words, nfc, bos;
} kind;

static const kind kinds[] = {
    /* SmolLM2 */
    {.names = {"smollm"}, .patterns = {"\\p{N}", GPT2}},
    {.names = {"gpt-2"}, .patterns = {GPT2}},
    /* Llama 3 */
    {.names = {"llama-bpe", "llama3", "llama-v3"},
     .patterns = {MODERN("\\p{N}{1,3}")},
     .whole_words = true,
     .bos = true},
    /* Qwen2, Qwen2.5, Qwen3; Qwen distilled from DeepSeek */
    {.names = {"qwen2", "deepseek-r1-qwen"},
     .patterns = {MODERN("\\p{N}")},
     .nfc = true},
    /* Mistral Nemo */
    {.names = {"tekken"},
     .patterns = {CASED("", "\\p{N}")},
     .whole_words = true,
     .bos = true},
    /* Phi-4-mini */
    {.names = {"gpt-4o"}, .patterns = {CASED("(?i:" ENDING ")?", "\\p{N}{1,3}")}},
    {.names = {"default"},
     .patterns = {"[\\p{P}$+<=>^~|]+", WORDS "|" APART, "\\p{N}+", "[0-9][0-9][0-9]"}},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static const kind *find_kind(fb_span name, const char **out)
{
    for (int k = 0; k < N_KINDS; k++)
        for (int n = 0; n < MOST_NAMES && kinds[k].names[n] != NULL; n++)
            if (fb_span_is(name, kinds[k].names[n])) {
                *out = kinds[k].names[n];
                return &kinds[k];
            }
    return NULL;
}

static fb_status unknown_kind(fb_span name)
{
    fb_text known;
    fb_status status;

    fb_text_init(&known, 1 << 10);
    for (int k = 0; k < N_KINDS; k++)
        fb_text_printf(&known, "%s'%s'", k == 0 ? "" : ", ", kinds[k].names[0]);
    status = fb_fail(FB_UNSUPPORTED, "'tokenizer.ggml.pre' is '%s'; known are %s",
                     fb_span_show(name).text, fb_text_string(&known));
    fb_text_clear(&known);
    return status;
}

fb_status fb_tokens_cut_as(fb_tokens *t, fb_span name)
{
    const kind *k = find_kind(name, &t->name);

    if (k == NULL) return unknown_kind(name);
    for (int l = 0; l < MOST_LEVELS && k->patterns[l] != NULL; l++)
        FB_TRY(fb_tokens_add_cut(t, (fb_cut){.pattern = k->patterns[l]}));
    t->whole_words = k->whole_words;
    t->adds_bos = k->bos;
    if (!k->nfc) return FB_OK;
    return fb_rewriting_add(&t->before, FB_REWRITE_NFC, (fb_span){"", 0},
                            (fb_span){"", 0});
}
