/* haystack.c - running text with secrets hidden in it, fitted to a number of tokens.
 *
 * The library's running texts, white space squeezed, are one ring. A document begins at
 * a random sentence of it, so that documents are independent (with one common beginning
 * they would be one haystack asked many times). The text ends at the last whole word
 * with which the context is not longer than asked; then the real next words follow. A
 * needle stands before the sentence that begins nearest to its depth.
 *
 * A context that is to be read by two tasks must be the same bytes in both: everything
 * follows from the seed, the document's number and the options without `after`.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "task/secrets.h"

#include <string.h>

enum { LEAST_TEXT = 16, MOST_WORD = 64 }; /* tokens in the shortest context; bytes */

struct fb_haystack {
    const fb_task_env *env;
    fb_haystack_options options;
    char *ring;    /* [2 * n_ring + 1] the library's text, twice; NULL: not yet made */
    size_t n_ring; /* bytes */
    fb_text context, after, scratch;
    fb_needle needles[FB_MAX_NEEDLES];
    fb_hay hay;
};

/* --- the ring --- */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Appends `text` with single spaces for white space and one at the end. */
static size_t squeeze(char *out, const char *text)
{
    size_t n = 0;

    for (; *text != 0; text++)
        if (!is_space(*text))
            out[n++] = *text;
        else if (n > 0 && out[n - 1] != ' ')
            out[n++] = ' ';
    if (n > 0 && out[n - 1] != ' ') out[n++] = ' ';
    return n;
}

static fb_status make_ring(fb_haystack *h)
{
    size_t most = 0;

    for (int i = 0; i < fb_library_count(); i++)
        if (fb_library_at(i)->is_haystack) most += strlen(fb_library_at(i)->text) + 1;
    h->ring = fb_alloc(FB_ACCOUNT_other, 2 * most + 1);
    if (h->ring == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a haystack");
    for (int i = 0; i < fb_library_count(); i++)
        if (fb_library_at(i)->is_haystack)
            h->n_ring += squeeze(h->ring + h->n_ring, fb_library_at(i)->text);
    memcpy(h->ring + h->n_ring, h->ring, h->n_ring);
    h->ring[2 * h->n_ring] = 0;
    return FB_OK;
}

/* --- sentences --- */

/* True if the stop at `stop` ends an abbreviation of a title or a single letter. */
static bool is_abbreviation(const char *text, size_t stop)
{
    static const char *const titles[] = {"Mr", "Mrs", "Dr", "St", "Messrs", "Capt"};
    size_t n = 0;

    while (n < stop && n < 8 && !is_space(text[stop - n - 1]))
        n++;
    if (n == 1) return true;
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strlen(titles[i]) == n && memcmp(text + stop - n, titles[i], n) == 0)
            return true;
    return false;
}

/* A sentence begins after a stop, closing marks and a space, with a capital letter, a
 * number or an opening mark. */
static bool begins_sentence(const char *text, size_t i)
{
    size_t k = i;

    if (i < 2 || text[i - 1] != ' ') return i == 0;
    if (!(text[i] >= 'A' && text[i] <= 'Z') && !(text[i] >= '0' && text[i] <= '9') &&
        strchr("\"'(_", text[i]) == NULL)
        return false;
    k--;
    while (k > 1 && strchr("\"')]_", text[k - 1]) != NULL)
        k--;
    if (strchr(".!?", text[k - 1]) == NULL) return false;
    return text[k - 1] != '.' || !is_abbreviation(text, k - 1);
}

/* The beginning of a sentence of `body` before `end` that is nearest to `target`. */
static size_t nearest_sentence(const char *body, size_t target, size_t end)
{
    size_t before = target < end ? target : end - 1, behind = before + 1;

    while (before > 0 && !begins_sentence(body, before))
        before--;
    while (behind < end && !begins_sentence(body, behind))
        behind++;
    if (behind < end && behind - target < target - before) return behind;
    return before;
}

/* --- the context --- */

static void add_intro(fb_haystack *h)
{
    if (h->options.keys == 0) return;
    fb_text_printf(&h->context,
                   "Some secret %ss are hidden in the text below. Remember them, you "
                   "will be asked about them later.\n\n",
                   h->needles[0].kind);
}

static void add_needle(fb_haystack *h, fb_needle *needle)
{
    needle->span.begin = h->context.n;
    fb_text_printf(&h->context, "The secret %s for %s is %s.", needle->kind,
                   needle->key, needle->value);
    needle->span.end = h->context.n;
}

/* Where needle `k` goes in a body of `end` bytes: behind it only at depth 1. */
static size_t place_of(const fb_haystack *h, const char *body, size_t end, int k)
{
    const double depth = h->needles[k].depth;

    if (depth >= 1) return end;
    return nearest_sentence(body, (size_t)(depth * (double)end), end);
}

static fb_status count_context(fb_haystack *h, int64_t *tokens)
{
    FB_TRY(fb_text_status(&h->context));
    FB_TRY(h->env->count(h->env->self, fb_text_string(&h->context), tokens));
    *tokens += h->env->template_tokens;
    return FB_OK;
}

/* Sorts the needles' numbers by where they go; equal places keep their order. */
static void order_needles(const fb_haystack *h, const char *body, size_t end,
                          size_t place[FB_MAX_NEEDLES], int order[FB_MAX_NEEDLES])
{
    for (int k = 0; k < (int)h->options.keys; k++) {
        int i = k;

        place[k] = place_of(h, body, end, k);
        for (; i > 0 && place[order[i - 1]] > place[k]; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
}

/* The context with `end` bytes of running text: its tokens, template included. */
static fb_status build(fb_haystack *h, const char *body, size_t end, int64_t *tokens)
{
    size_t place[FB_MAX_NEEDLES] = {0}, done = 0;
    int order[FB_MAX_NEEDLES] = {0};

    fb_text_clear(&h->context);
    add_intro(h);
    order_needles(h, body, end, place, order);
    for (int i = 0; i < (int)h->options.keys; i++) {
        const size_t at = place[order[i]];

        fb_text_add(&h->context, body + done, at - done);
        if (at == end) fb_text_puts(&h->context, " ");
        add_needle(h, &h->needles[order[i]]);
        if (at < end) fb_text_puts(&h->context, " ");
        done = at;
    }
    fb_text_add(&h->context, body + done, end - done);
    return count_context(h, tokens);
}

/* Tokens of template, introduction and needles. */
static fb_status count_frame(fb_haystack *h, int64_t *out)
{
    fb_text_clear(&h->context);
    add_intro(h);
    for (int k = 0; k < (int)h->options.keys; k++) {
        add_needle(h, &h->needles[k]);
        fb_text_puts(&h->context, " ");
    }
    return count_context(h, out);
}

/* --- fitting --- */

/* Running text to be cut, and whether a cut took all of it. */
struct body {
    const char *text;
    size_t n;
    bool is_used_up;
};

/* Back to white space if there is some near, else to the beginning of a character. */
static size_t back_to_word(const char *text, size_t end)
{
    size_t word = end, character = end;

    while (word > 0 && end - word < MOST_WORD && !is_space(text[word]))
        word--;
    if (word > 0 && is_space(text[word])) return word;
    while (character > 0 && ((unsigned char)text[character] & 0xC0) == 0x80)
        character--;
    return end < MOST_WORD ? 0 : character;
}

/* Bytes of whole words that `tokens` tokens have room for. */
static fb_status cut_words(fb_haystack *h, struct body *body, int64_t tokens,
                           size_t *end_out)
{
    size_t n = (size_t)tokens * 8 + 64, end = 0;

    for (;; n *= 2) {
        if (n > body->n) n = body->n;
        fb_text_clear(&h->scratch);
        fb_text_add(&h->scratch, body->text, n);
        FB_TRY(fb_text_status(&h->scratch));
        FB_TRY(h->env->cut(h->env->self, fb_text_string(&h->scratch), tokens, &end));
        FB_ASSERT(end <= n);
        if (end < n || n == body->n) break;
    }
    body->is_used_up = end == body->n;
    *end_out = body->is_used_up ? end : back_to_word(body->text, end);
    return FB_OK;
}

/* The end of the next word, or 0 if there is none near. */
static size_t next_word(const struct body *body, size_t end)
{
    size_t next = end + 1;

    while (next < body->n && next - end < MOST_WORD && !is_space(body->text[next]))
        next++;
    return next < body->n && is_space(body->text[next]) ? next : 0;
}

/* The longest text of whole words with which the context has at most `length` tokens:
 * a guess from the frame, corrected by what is counted, then word by word. */
static fb_status fit(fb_haystack *h, struct body *body, int64_t frame, size_t *end_out)
{
    const int64_t length = h->options.length;
    int64_t room = length - frame, tokens = length + 1;
    size_t end = 0, more;

    while (tokens > length) {
        if (room < 1)
            return fb_fail(FB_USAGE, "length=%lld is too short for any text",
                           (long long)length);
        FB_TRY(cut_words(h, body, room, &end));
        FB_TRY(build(h, body->text, end, &tokens));
        room -= tokens - length;
    }
    while (tokens <= length && (more = next_word(body, end)) != 0) {
        FB_TRY(build(h, body->text, more, &tokens));
        if (tokens <= length) end = more;
    }
    *end_out = end;
    return build(h, body->text, end, &tokens);
}

/* The words behind the context, more than options.after tokens; sets body->is_used_up
 * if there are not so many. */
static fb_status read_after(fb_haystack *h, struct body *body)
{
    int64_t tokens = 0, room = h->options.after + 1;
    size_t end = 0;

    fb_text_clear(&h->after);
    body->is_used_up = false;
    while (h->options.after > 0 && tokens <= h->options.after && !body->is_used_up) {
        room += 2;
        FB_TRY(cut_words(h, body, room, &end));
        fb_text_clear(&h->after);
        fb_text_add(&h->after, body->text, end);
        FB_TRY(fb_text_status(&h->after));
        FB_TRY(h->env->count(h->env->self, fb_text_string(&h->after), &tokens));
    }
    body->is_used_up = tokens < h->options.after + (h->options.after > 0);
    return FB_OK;
}

/* Context and what follows from the beginning of `body`; *out stays NULL if the text
 * does not suffice. */
static fb_status read_body(fb_haystack *h, struct body body, const fb_hay **out)
{
    int64_t frame = 0;
    size_t end = 0;

    *out = NULL;
    FB_TRY(count_frame(h, &frame));
    FB_TRY(fit(h, &body, frame, &end));
    if (body.is_used_up) return FB_OK;
    body.text += end;
    body.n -= end;
    FB_TRY(read_after(h, &body));
    if (body.is_used_up) return FB_OK;
    h->hay = (fb_hay){
        .context = fb_text_string(&h->context),
        .after = fb_text_string(&h->after),
        .n_used = end + h->after.n,
        .needles = h->needles,
        .n_needles = (int)h->options.keys,
    };
    *out = &h->hay;
    return FB_OK;
}

/* --- the front doors --- */

/* The smallest length at which every document has its needles and some text. */
static fb_status check_length(fb_haystack *h)
{
    int64_t smallest = 0, frame = 0;

    for (int64_t i = 0; i < h->options.documents; i++) {
        fb_secrets_draw(h->needles, &h->options, h->env->seed, i);
        FB_TRY(count_frame(h, &frame));
        if (frame + LEAST_TEXT > smallest) smallest = frame + LEAST_TEXT;
        if (h->options.keys == 0) break; /* all alike */
    }
    if (h->options.length >= smallest) return FB_OK;
    return fb_fail(FB_USAGE,
                   "length=%lld is too short for the template, %lld %s and %d "
                   "tokens of text; the smallest that fits is %lld",
                   (long long)h->options.length, (long long)h->options.keys,
                   fb_plural(h->options.keys, "needle", "needles"), LEAST_TEXT,
                   (long long)smallest);
}

fb_status fb_haystack_open(fb_haystack **out, const fb_task_env *env,
                           const fb_haystack_options *options)
{
    fb_haystack *h = fb_zalloc(FB_ACCOUNT_other, sizeof *h);
    fb_status status;

    *out = NULL;
    if (h == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a haystack");
    FB_ASSERT(options->keys <= FB_MAX_NEEDLES && options->documents > 0);
    h->env = env;
    h->options = *options;
    fb_text_init(&h->context, 0);
    fb_text_init(&h->after, 0);
    fb_text_init(&h->scratch, 0);
    status = check_length(h);
    if (status != FB_OK) {
        fb_haystack_close(h);
        return status;
    }
    *out = h;
    return FB_OK;
}

void fb_haystack_close(fb_haystack *haystack)
{
    if (haystack == NULL) return;
    fb_text_clear(&haystack->context);
    fb_text_clear(&haystack->after);
    fb_text_clear(&haystack->scratch);
    fb_free(haystack->ring);
    fb_free(haystack);
}

/* A random sentence of the ring. */
static const char *draw_start(fb_haystack *h, int64_t i)
{
    fb_random random;
    size_t at;

    fb_draw_seed(&random, h->env->seed, FB_DRAW_START, i);
    at = (size_t)fb_random_below(&random, h->n_ring);
    while (at < h->n_ring && !begins_sentence(h->ring, at))
        at++;
    return h->ring + at % h->n_ring;
}

fb_status fb_haystack_document(fb_haystack *haystack, int64_t i, const fb_hay **out)
{
    fb_haystack *h = haystack;

    *out = NULL;
    if (h->ring == NULL) FB_TRY(make_ring(h));
    fb_secrets_draw(h->needles, &h->options, h->env->seed, i);
    FB_TRY(read_body(h, (struct body){draw_start(h, i), h->n_ring, false}, out));
    if (*out != NULL) return FB_OK;
    return fb_fail(FB_USAGE,
                   "length=%lld is too long; the library has %zu bytes of "
                   "running text",
                   (long long)h->options.length, h->n_ring);
}

fb_status fb_haystack_read(fb_haystack *haystack, const char *text, size_t n,
                           const fb_hay **out)
{
    FB_ASSERT(haystack->options.keys == 0);
    return read_body(haystack, (struct body){text, n, false}, out);
}
