/* progress.c - see progress.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/progress.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "base/time.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { CELLS = 20 }; /* width of the bar */

static const int64_t every_bar_ns = 100000000, every_line_ns = 10000000000;

void fb_progress_open(fb_progress *progress, const char *word)
{
    *progress = (fb_progress){.last_ns = fb_time_ns()};
    if (strcmp(word, "none") == 0 || (fb_say_is_quiet() && strcmp(word, "json") != 0))
        progress->form = FB_PROGRESS_NONE;
    else if (strcmp(word, "json") == 0)
        progress->form = FB_PROGRESS_JSON;
    else if (strcmp(word, "bar") == 0 ||
             (strcmp(word, "auto") == 0 && fb_terminal_is(2)))
        progress->form = FB_PROGRESS_BAR;
    else
        progress->form = FB_PROGRESS_LINES;
}

static void print_counts(char *out, size_t n, const fb_run_progress *now)
{
    char cells[32], all[32], time[FB_TIME_SHORT], left[FB_TIME_SHORT + 8] = "";

    fb_print_count(now->cells, cells, sizeof cells);
    fb_print_count(now->n_cells, all, sizeof all);
    fb_time_print(now->ns, time);
    if (now->left_ns >= 0 && now->cells < now->n_cells) {
        char estimate[FB_TIME_SHORT];

        fb_time_print(now->left_ns, estimate);
        (void)snprintf(left, sizeof left, ", %s left", estimate);
    }
    (void)snprintf(out, n, "read %lld/%lld contexts  cells %s/%s",
                   (long long)now->documents, (long long)now->n_documents, cells, all);
    n -= strlen(out);
    out += strlen(out);
    (void)snprintf(out, n, "\t%s%s", time, left);
}

/* One line, cut to the width of the terminal: a longer one could not be taken back. */
static void print_bar(fb_progress *p, const fb_run_progress *now)
{
    const double share =
        now->n_cells > 0 ? (double)now->cells / (double)now->n_cells : 1;
    const int full = (int)(share * CELLS);
    char counts[256], bar[CELLS + 1], line[512];
    size_t front;

    memset(bar, ' ', sizeof bar);
    memset(bar, '=', (size_t)full);
    if (full < CELLS) bar[full] = '>';
    bar[CELLS] = '\0';
    print_counts(counts, sizeof counts, now);
    front = strcspn(counts, "\t");
    (void)snprintf(line, sizeof line, "%.*s  [%s] %3.0f %%  %s", (int)front, counts,
                   bar, share * 100, counts + front + 1);
    (void)fprintf(stderr, "\r\033[K%.*s", fb_terminal_width(2) - 1, line);
    (void)fflush(stderr);
    p->is_open = true;
}

static void print_line(const fb_run_progress *now)
{
    char counts[256];
    size_t front;

    print_counts(counts, sizeof counts, now);
    front = strcspn(counts, "\t");
    (void)fprintf(stderr, "%.*s  %s\n", (int)front, counts, counts + front + 1);
}

static void print_json(const fb_run_progress *now)
{
    fb_text text = {0};

    fb_text_init(&text, 0);
    fb_text_printf(&text, "{\"t\":%.1f,\"event\":\"%s\",\"done\":%lld,\"total\":%lld",
                   (double)now->ns / 1e9, now->event, (long long)now->cells,
                   (long long)now->n_cells);
    if (now->text != NULL) {
        fb_text_puts(&text, ",\"text\":");
        fb_json_add_string(&text, now->text);
    }
    fb_text_puts(&text, "}");
    (void)fprintf(stderr, "%s\n", fb_text_string(&text));
    fb_text_clear(&text);
}

static void close_bar(fb_progress *p)
{
    if (!p->is_open) return;
    (void)fprintf(stderr, "\n");
    p->is_open = false;
}

/* Whether this event is worth a line: the ends of a bar always, others from time to
 * time. */
static bool is_due(const fb_progress *p, const fb_run_progress *now)
{
    const bool is_bar = p->form == FB_PROGRESS_BAR;
    const bool is_end_of_bar =
        is_bar && (strcmp(now->event, "begin") == 0 || strcmp(now->event, "end") == 0);

    return is_end_of_bar ||
           fb_time_ns() - p->last_ns >= (is_bar ? every_bar_ns : every_line_ns);
}

void fb_progress_watch(void *self, const fb_run_progress *now)
{
    fb_progress *p = self;
    const bool is_end = strcmp(now->event, "end") == 0;

    if (p->form == FB_PROGRESS_JSON) {
        print_json(now);
        return;
    }
    if (now->text != NULL) {
        close_bar(p);
        fb_say_warning(now->text);
        return;
    }
    if (p->form == FB_PROGRESS_NONE || !is_due(p, now)) return;
    p->last_ns = fb_time_ns();
    if (p->form == FB_PROGRESS_BAR)
        print_bar(p, now);
    else if (!is_end)
        print_line(now);
    if (is_end) close_bar(p);
}
