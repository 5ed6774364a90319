/* pretokenize.c - the known lists of expressions, run by PCRE2.
 *
 * Names and expressions: llama.cpp (src/llama-vocab.cpp) and the tokenizer.json files
 * of the models; "default" is what llama.cpp takes where a converter knew no better.
 * The expressions were written for Oniguruma. PCRE2 10.42 with UTF and UCP splits every
 * assigned code point alike, but for two things:
 *   - U+180E is white space to PCRE2; so \s is written out as SPACE below;
 *   - code points that its Unicode (14 there) does not know are letters or digits only
 *     to newer tables; `unknown` finds them, so that somebody is told.
 * Matching uses compiled code where the system permits it and the interpreter where
 * not, with the same result.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/pretokenize.h"

#include "base/memory.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define SPACE                                                                          \
    "\\x09-\\x0D\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"         \
    "\\x{202F}\\x{205F}\\x{3000}"
#define ENDING       "'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES_APART "[" SPACE "]+(?![^" SPACE "])" /* leaves one for the next word */
#define SPACES       SPACES_APART "|[" SPACE "]+"
#define SYMBOLS      " ?[^" SPACE "\\p{L}\\p{N}]+"
#define WORDS        ENDING "| ?\\p{L}+| ?\\p{N}+|" SYMBOLS
#define GPT2         WORDS "|" SPACES
/* Llama 3, and Qwen 2 with one digit at a time. */
#define MODERN(digits)                                                                 \
    "(?i:" ENDING ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" SYMBOLS                \
    "[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" SPACES

enum { MOST_LEVELS = 4, JIT_STACK_FIRST = 32 << 10, JIT_STACK_MOST = 1 << 20 };

typedef struct kind {
    const char *name;
    const char *patterns[MOST_LEVELS];
    bool whole_words, nfc, bos;
} kind;

static const kind kinds[] = {
    {.name = "smollm", .patterns = {"\\p{N}", GPT2}},
    {.name = "gpt-2", .patterns = {GPT2}},
    {.name = "llama-bpe",
     .patterns = {MODERN("\\p{N}{1,3}")},
     .whole_words = true,
     .bos = true},
    {.name = "qwen2", .patterns = {MODERN("\\p{N}")}, .nfc = true},
    {.name = "default",
     .patterns = {"[\\p{P}$+<=>^~|]+", WORDS "|" SPACES_APART, "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

struct fb_pretokenizer {
    const kind *kind;
    pcre2_general_context *memory;
    pcre2_code *code[MOST_LEVELS], *unknown;
};

/* --- opening -------------------------------------------------------------------- */

static void *take_memory(size_t n, void *unused)
{
    (void)unused;
    return fb_alloc(FB_ACCOUNT_other, n);
}

static void give_memory(void *block, void *unused)
{
    (void)unused;
    fb_free(block);
}

static const kind *find_kind(fb_span name)
{
    for (int k = 0; k < N_KINDS; k++)
        if (fb_span_is(name, kinds[k].name)) return &kinds[k];
    return NULL;
}

static fb_status unknown_kind(fb_span name)
{
    fb_text known;
    fb_status status;

    fb_text_init(&known, 1 << 10);
    for (int k = 0; k < N_KINDS; k++)
        fb_text_printf(&known, "%s'%s'", k == 0 ? "" : ", ", kinds[k].name);
    status = fb_fail(FB_UNSUPPORTED, "'tokenizer.ggml.pre' is '%s'; known are %s",
                     fb_span_show(name).text, fb_text_string(&known));
    fb_text_clear(&known);
    return status;
}

static fb_status compile(pcre2_code **out, const fb_pretokenizer *p,
                         const char *pattern, uint32_t options)
{
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    int error = 0;
    size_t at = 0;

    if (context == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an expression");
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (*out == NULL)
        return fb_fail(FB_NO_MEMORY,
                       "expression '%s' of '%s' does not compile (%d at %zu)", pattern,
                       p->kind->name, error, at);
    /* Where compiled code is not permitted, pcre2_match interprets. */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return FB_OK;
}

fb_status fb_pretokenizer_new(fb_pretokenizer **out, fb_span name)
{
    fb_pretokenizer *p = fb_zalloc(FB_ACCOUNT_other, sizeof *p);
    fb_status status = FB_OK;

    *out = NULL;
    if (p == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a pre-tokenizer");
    p->kind = find_kind(name);
    if (p->kind == NULL) {
        fb_free(p);
        return unknown_kind(name);
    }
    p->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (p->memory == NULL) status = fb_fail(FB_NO_MEMORY, "no memory for expressions");
    for (int l = 0; status == FB_OK && l < MOST_LEVELS; l++)
        if (p->kind->patterns[l] != NULL)
            status = compile(&p->code[l], p, p->kind->patterns[l], 0);
    if (status == FB_OK)
        status = compile(&p->unknown, p, "\\p{Cn}", PCRE2_MATCH_INVALID_UTF);
    if (status == FB_OK)
        *out = p;
    else
        fb_pretokenizer_free(p);
    return status;
}

void fb_pretokenizer_free(fb_pretokenizer *p)
{
    if (p == NULL) return;
    for (int l = 0; l < MOST_LEVELS; l++)
        pcre2_code_free(p->code[l]);
    pcre2_code_free(p->unknown);
    pcre2_general_context_free(p->memory);
    fb_free(p);
}

const char *fb_pretokenizer_name(const fb_pretokenizer *p)
{
    return p->kind->name;
}

bool fb_pretokenizer_takes_whole_words(const fb_pretokenizer *p)
{
    return p->kind->whole_words;
}

bool fb_pretokenizer_wants_nfc(const fb_pretokenizer *p)
{
    return p->kind->nfc;
}

bool fb_pretokenizer_adds_bos(const fb_pretokenizer *p)
{
    return p->kind->bos;
}

fb_status fb_pretokenizer_knows(const fb_pretokenizer *p, fb_span text, bool *out)
{
    pcre2_match_data *found = pcre2_match_data_create(1, p->memory);
    int n;

    if (found == NULL) return fb_fail(FB_NO_MEMORY, "no memory to look at a text");
    n = pcre2_match(p->unknown, (PCRE2_SPTR)text.bytes, text.n, 0, 0, found, NULL);
    pcre2_match_data_free(found);
    *out = n == PCRE2_ERROR_NOMATCH;
    if (*out || n >= 0) return FB_OK;
    return fb_fail(FB_NO_MEMORY, "no memory to look at a text");
}

/* --- cutting -------------------------------------------------------------------- */

/* What one call needs of its own, so that threads can share a pre-tokenizer. */
typedef struct cutter {
    const fb_pretokenizer *p;
    pcre2_match_context *match;
    pcre2_jit_stack *stack;               /* NULL until one is needed */
    pcre2_match_data *found[MOST_LEVELS]; /* one per level: they nest */
    fb_take_word *take;
    void *context;
} cutter;

/* Short texts do with the stack of the machine; another costs as much as they do. */
static int match_at(cutter *c, int level, fb_span text, size_t at)
{
    const pcre2_code *code = c->p->code[level];
    int n = pcre2_match(code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                        c->found[level], c->match);

    if (n != PCRE2_ERROR_JIT_STACKLIMIT || c->stack != NULL) return n;
    c->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, c->p->memory);
    if (c->stack == NULL) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(c->match, NULL, c->stack);
    return pcre2_match(code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                       c->found[level], c->match);
}

/* The first match of a level's expression from `at` on; an empty `out`: none left. */
static fb_status find(cutter *c, int level, fb_span text, size_t at, fb_span *out)
{
    const int n = match_at(c, level, text, at);
    const size_t *ends = pcre2_get_ovector_pointer(c->found[level]);
    char why[128];

    *out = (fb_span){text.bytes + text.n, 0};
    if (n == PCRE2_ERROR_NOMATCH) return FB_OK;
    if (n > 0) {
        *out = (fb_span){text.bytes + ends[0], ends[1] - ends[0]};
        return FB_OK;
    }
    if (n == PCRE2_ERROR_NOMEMORY)
        return fb_fail(FB_NO_MEMORY, "no memory to cut a text");
    (void)pcre2_get_error_message(n, (PCRE2_UCHAR *)why, sizeof why);
    return fb_fail(FB_DEFECT, "the pre-tokenizer '%s' failed: %s", c->p->kind->name,
                   why);
}

static fb_status cut(cutter *c, int level, fb_span text)
{
    size_t at = 0;

    if (text.n == 0) return FB_OK;
    if (level == MOST_LEVELS || c->p->code[level] == NULL)
        return c->take(c->context, text);
    while (at < text.n) {
        const char *from = text.bytes + at;
        fb_span match;

        FB_TRY(find(c, level, text, at, &match));
        FB_TRY(cut(c, level + 1, (fb_span){from, (size_t)(match.bytes - from)}));
        FB_TRY(cut(c, level + 1, match));
        if (match.n == 0) break;
        at = (size_t)(match.bytes - text.bytes) + match.n;
    }
    return FB_OK;
}

static fb_status open_cutter(cutter *c)
{
    pcre2_general_context *memory = c->p->memory;

    c->match = pcre2_match_context_create(memory);
    for (int l = 0; l < MOST_LEVELS; l++) {
        if (c->p->code[l] == NULL) continue;
        c->found[l] = pcre2_match_data_create_from_pattern(c->p->code[l], memory);
        if (c->found[l] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory to cut a text");
    }
    if (c->match == NULL) return fb_fail(FB_NO_MEMORY, "no memory to cut a text");
    (void)pcre2_set_match_limit(c->match, UINT32_MAX);
    return FB_OK;
}

static void close_cutter(cutter *c)
{
    for (int l = 0; l < MOST_LEVELS; l++)
        pcre2_match_data_free(c->found[l]);
    pcre2_jit_stack_free(c->stack);
    pcre2_match_context_free(c->match);
}

fb_status fb_pretokenize(const fb_pretokenizer *p, fb_span text, fb_take_word *take,
                         void *context)
{
    cutter c = {.p = p, .take = take, .context = context};
    fb_status status = open_cutter(&c);

    if (status == FB_OK) status = cut(&c, 0, text);
    close_cutter(&c);
    return status;
}
