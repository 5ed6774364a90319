/* ask_live.c - see ask_live.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/ask_live.h"

#include "base/shown.h"
#include "base/terminal.h"
#include "base/time.h"

#include <string.h>

static const int64_t every_ns = 50000000;

/* Of an answer only so much is looked at for a frame. */
enum { MOST_BYTES = 16384 };

void fb_ask_live_open(fb_ask_live *live, const fb_ask_look *look, bool answers_go_there,
                      bool quiet)
{
    *live = (fb_ask_live){.look = *look};
    if (answers_go_there && fb_terminal_moves(1)) {
        live->stream = stdout;
        live->descriptor = 1;
        live->has_blocks = true;
    } else if (!quiet && fb_terminal_moves(2)) {
        live->stream = stderr;
        live->descriptor = 2;
    }
}

/* --- a frame --- */

/* Lines of `text` from the first-th on, at most `most`; how many. */
static int add_lines(fb_ask_live *live, const fb_text *text, int first, int most)
{
    const char *at = fb_text_string(text);
    int n = 0;

    for (int line = 0; *at != '\0' && n < most; line++) {
        const size_t length = strcspn(at, "\n");

        if (line >= first) {
            fb_text_add(&live->frame, at, length);
            fb_text_puts(&live->frame, "\033[K\n");
            n++;
        }
        at += length + (at[length] == '\n');
    }
    return n;
}

/* The end of an answer, from the beginning of a character. */
static const char *last_bytes(const fb_text *text, size_t *n_out)
{
    const char *bytes = fb_text_string(text);
    size_t begin = text->n > MOST_BYTES ? text->n - MOST_BYTES : 0;

    while (begin < text->n && ((unsigned char)bytes[begin] & 0xC0) == 0x80)
        begin++;
    *n_out = text->n - begin;
    return bytes + begin;
}

static int count_lines(const fb_text *text)
{
    int n = 0;

    for (size_t i = 0; i < text->n; i++)
        n += text->bytes[i] == '\n';
    return n;
}

/* At most `most` lines, three or more: the rule, the last lines it said, the facts. */
static int add_block(fb_ask_live *live, const fb_ask *ask, int i, int most)
{
    const fb_asked *answer = &ask->answers[i];
    size_t n_bytes;
    const char *bytes = last_bytes(&answer->text, &n_bytes);
    fb_text head = {0}, said = {0}, facts = {0};
    int n, n_said, n_facts, room;

    fb_ask_add_heading(ask, i, &live->look, &head);
    fb_ask_add_facts(ask, i, &live->look, &facts);
    n_said = fb_show_wrapped(bytes, n_bytes, !answer->is_over, FB_ASK_INDENT,
                             live->look.width, &said);
    n_facts = count_lines(&facts) < most - 2 ? count_lines(&facts) : most - 2;
    room = most - 1 - n_facts;
    n = add_lines(live, &head, 0, 1);
    n += add_lines(live, &said, n_said > room ? n_said - room : 0, room);
    n += add_lines(live, &facts, 0, n_facts);
    fb_text_clear(&head);
    fb_text_clear(&said);
    fb_text_clear(&facts);
    return n;
}

static void print_state(const fb_ask *ask, char *out, size_t n)
{
    const fb_plan *plan = ask->plan;
    int64_t longest = 0;
    int talking = 0;
    char tokens[32];

    fb_print_count(plan->documents[0].context.n, tokens, sizeof tokens);
    if (ask->full_bytes == 0) {
        (void)snprintf(out, n, "reading %s tokens  %3.0f %%", tokens,
                       100 * (double)ask->read / (double)ask->read_total);
        return;
    }
    for (int i = 0; i < ask->n; i++) {
        if (ask->answers[i].n_ids > longest) longest = ask->answers[i].n_ids;
        talking += !ask->answers[i].is_over;
    }
    (void)snprintf(out, n, "answering  %lld of at most %lld tokens, %d of %d to go",
                   (long long)longest, (long long)plan->samples[0].max_tokens, talking,
                   ask->n);
}

static void add_frame(fb_ask_live *live, const fb_ask *ask)
{
    const int each = (fb_terminal_height(live->descriptor) - 2) / ask->n;
    char state[128];
    int n = 0;

    if (live->n_lines > 0) fb_text_printf(&live->frame, "\033[%dA", live->n_lines);
    fb_text_puts(&live->frame, "\r");
    for (int i = 0; live->has_blocks && ask->full_bytes > 0 && each >= 3 && i < ask->n;
         i++)
        n += add_block(live, ask, i, each);
    print_state(ask, state, sizeof state);
    fb_text_printf(&live->frame, "%.*s\033[K\n\033[J",
                   fb_terminal_width(live->descriptor) - 1, state);
    live->n_lines = n + 1;
}

static void put_frame(fb_ask_live *live)
{
    (void)fwrite(fb_text_string(&live->frame), 1, live->frame.n, live->stream);
    (void)fflush(live->stream);
    fb_text_clear(&live->frame);
}

void fb_ask_live_watch(void *self, const fb_ask *ask)
{
    fb_ask_live *live = self;
    const int64_t now = fb_time_ns();

    if (live->stream == NULL || now - live->last_ns < every_ns) return;
    live->last_ns = now;
    live->look.width = fb_terminal_width(live->descriptor);
    add_frame(live, ask);
    put_frame(live);
}

void fb_ask_live_close(fb_ask_live *live)
{
    if (live->stream != NULL && live->n_lines > 0) {
        fb_text_printf(&live->frame, "\033[%dA\r\033[J", live->n_lines);
        put_frame(live);
    }
    fb_text_clear(&live->frame);
    live->stream = NULL;
}
