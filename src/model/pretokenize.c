/* pretokenize.c - cuts, run by PCRE2.
 *
 * Matching uses compiled code where the system permits it and the interpreter where
 * not, with the same result. The work on one match is limited: expressions come from
 * files.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/pretokenize.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { JIT_STACK_FIRST = 32 << 10, JIT_STACK_MOST = 1 << 20, MOST_WORK = 1 << 28 };

typedef struct level {
    fb_cut cut; /* without its pattern */
    pcre2_code *code;
} level;

struct fb_pretokenizer {
    pcre2_general_context *memory;
    level levels[FB_MOST_CUTS];
    int n;
    pcre2_code *unknown; /* NULL: nothing depends on what Unicode knows */
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

static fb_status explain(int error, size_t at)
{
    char why[128];

    if (error == PCRE2_ERROR_HEAP_FAILED)
        return fb_fail(FB_NO_MEMORY, "no memory for an expression");
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
    return fb_fail(FB_UNSUPPORTED, "an expression does not compile: %s (at %zu)", why,
                   at);
}

static fb_status compile(pcre2_code **out, const fb_pretokenizer *p,
                         const char *pattern, uint32_t options)
{
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    uint32_t may_be_empty = 0;
    int error = 0;
    size_t at = 0;

    if (context == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an expression");
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (*out == NULL) return explain(error, at);
    (void)pcre2_pattern_info(*out, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
    if (may_be_empty != 0)
        return fb_fail(FB_UNSUPPORTED, "an expression can match nothing at all");
    /* Where compiled code is not permitted, pcre2_match interprets. */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return FB_OK;
}

static fb_status compile_cut(pcre2_code **out, const fb_pretokenizer *p,
                             const fb_cut *cut)
{
    fb_text pattern;
    fb_status status;

    fb_text_init(&pattern, 1 << 20);
    status = (cut->is_literal ? fb_expression_add_literal
                              : fb_expression_add)(&pattern, cut->pattern);
    if (status == FB_OK) status = compile(out, p, fb_text_string(&pattern), 0);
    fb_text_clear(&pattern);
    return status;
}

static fb_status open_levels(fb_pretokenizer *p, const fb_cut *cuts, int n)
{
    p->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (p->memory == NULL) return fb_fail(FB_NO_MEMORY, "no memory for expressions");
    for (int c = 0; c < n; c++) {
        level *l = &p->levels[p->n++];

        l->cut = cuts[c];
        l->cut.pattern = NULL;
        if (cuts[c].pattern != NULL) FB_TRY(compile_cut(&l->code, p, &cuts[c]));
    }
    return n == 0 ? FB_OK : compile(&p->unknown, p, "\\p{Cn}", PCRE2_MATCH_INVALID_UTF);
}

fb_status fb_pretokenizer_new(fb_pretokenizer **out, const fb_cut *cuts, int n)
{
    fb_pretokenizer *p = fb_zalloc(FB_ACCOUNT_other, sizeof *p);
    fb_status status;

    *out = NULL;
    if (p == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a pre-tokenizer");
    status = open_levels(p, cuts, n);
    if (status == FB_OK)
        *out = p;
    else
        fb_pretokenizer_free(p);
    return status;
}

void fb_pretokenizer_free(fb_pretokenizer *p)
{
    if (p == NULL) return;
    for (int l = 0; l < p->n; l++)
        pcre2_code_free(p->levels[l].code);
    pcre2_code_free(p->unknown);
    pcre2_general_context_free(p->memory);
    fb_free(p);
}

fb_status fb_pretokenizer_knows(const fb_pretokenizer *p, fb_span text, bool *out)
{
    pcre2_match_data *found;
    int n;

    *out = true;
    if (p->unknown == NULL) return FB_OK;
    found = pcre2_match_data_create(1, p->memory);
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
    pcre2_jit_stack *stack;                /* NULL until one is needed */
    pcre2_match_data *found[FB_MOST_CUTS]; /* one per level: they nest */
    fb_text spaced[FB_MOST_CUTS];          /* a piece with a space in front */
    fb_take_word *take;
    void *context;
} cutter;

/* Short texts do with the stack of the machine; another costs as much as they do. */
static int match_at(cutter *c, int l, fb_span text, size_t at)
{
    const pcre2_code *code = c->p->levels[l].code;
    int n = pcre2_match(code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                        c->found[l], c->match);

    if (n != PCRE2_ERROR_JIT_STACKLIMIT || c->stack != NULL) return n;
    c->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MOST, c->p->memory);
    if (c->stack == NULL) return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(c->match, NULL, c->stack);
    return pcre2_match(code, (PCRE2_SPTR)text.bytes, text.n, at, PCRE2_NO_UTF_CHECK,
                       c->found[l], c->match);
}

/* The first match of a level's expression from `at` on; an empty `out`: none left. */
static fb_status find(cutter *c, int l, fb_span text, size_t at, fb_span *out)
{
    const int n = match_at(c, l, text, at);
    const size_t *ends = pcre2_get_ovector_pointer(c->found[l]);
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
    return fb_fail(FB_UNSUPPORTED, "the tokenizer's expression fails on a text: %s",
                   why);
}

static fb_status cut(cutter *c, int l, fb_span text);

/* What a match and the text between it and the one before it become. */
static fb_status take_match(cutter *c, int l, fb_span between, fb_span match)
{
    switch (c->p->levels[l].cut.how) {
    case FB_CUT_APART:
        FB_TRY(cut(c, l + 1, between));
        return cut(c, l + 1, match);
    case FB_CUT_MATCHES:
        return cut(c, l + 1, match);
    case FB_CUT_BETWEEN:
        return cut(c, l + 1, between);
    case FB_CUT_WITH_LEFT:
        return cut(c, l + 1, (fb_span){between.bytes, between.n + match.n});
    }
    return FB_OK;
}

static fb_status cut_level(cutter *c, int l, fb_span text)
{
    size_t at = 0;

    while (at < text.n) {
        const char *from = text.bytes + at;
        fb_span match;

        FB_TRY(find(c, l, text, at, &match));
        FB_TRY(take_match(c, l, (fb_span){from, (size_t)(match.bytes - from)}, match));
        if (match.n == 0) break;
        at = (size_t)(match.bytes - text.bytes) + match.n;
    }
    return FB_OK;
}

static fb_status cut(cutter *c, int l, fb_span text)
{
    const level *here = &c->p->levels[l];

    if (text.n == 0) return FB_OK;
    if (l == c->p->n) return c->take(c->context, text);
    if (here->cut.adds_space && text.bytes[0] != ' ') {
        fb_text *spaced = &c->spaced[l];

        spaced->n = 0;
        fb_text_add(spaced, " ", 1);
        fb_text_add(spaced, text.bytes, text.n);
        FB_TRY(fb_text_status(spaced));
        text = (fb_span){fb_text_string(spaced), spaced->n};
    }
    return here->code == NULL ? cut(c, l + 1, text) : cut_level(c, l, text);
}

static fb_status open_cutter(cutter *c)
{
    pcre2_general_context *memory = c->p->memory;

    c->match = pcre2_match_context_create(memory);
    for (int l = 0; l < c->p->n; l++) {
        if (c->p->levels[l].code == NULL) continue;
        c->found[l] =
            pcre2_match_data_create_from_pattern(c->p->levels[l].code, memory);
        if (c->found[l] == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory to cut a text");
    }
    if (c->match == NULL) return fb_fail(FB_NO_MEMORY, "no memory to cut a text");
    (void)pcre2_set_match_limit(c->match, MOST_WORK);
    return FB_OK;
}

static void close_cutter(cutter *c)
{
    for (int l = 0; l < c->p->n; l++) {
        pcre2_match_data_free(c->found[l]);
        fb_text_clear(&c->spaced[l]);
    }
    pcre2_jit_stack_free(c->stack);
    pcre2_match_context_free(c->match);
}

fb_status fb_pretokenize(const fb_pretokenizer *p, fb_span text, fb_take_word *take,
                         void *context)
{
    cutter c = {.p = p, .take = take, .context = context};
    fb_status status;

    if (p->n == 0) return text.n == 0 ? FB_OK : take(context, text);
    status = open_cutter(&c);
    if (status == FB_OK) status = cut(&c, 0, text);
    close_cutter(&c);
    return status;
}
