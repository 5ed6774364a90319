/* across_page.c - the part "Across backends" of the page.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/across_parts.h"
#include "report/page.h"

#include <string.h>

/* What text says, escaped. */
static void cell(fb_text *out, const fb_across *a, const fb_across_row *row, int column)
{
    const char *tag = row == NULL ? "th" : "td";
    fb_text words;

    fb_text_init(&words, 0);
    fb_across_say_column(&words, a, row, column);
    fb_say_clean(&words, 0);
    fb_html(out, "<%s>%s</%s>", tag, fb_text_string(&words), tag);
    out->failed |= words.failed;
    fb_text_clear(&words);
}

static void line(fb_text *out, const fb_across *a, const fb_across_row *row)
{
    fb_text_puts(out, "<tr>");
    for (int c = 0; c < FB_ACROSS_COLUMNS; c++)
        cell(out, a, row, c);
    fb_text_puts(out, "</tr>\n");
}

static void caption(fb_text *out, const fb_across *a, const fb_across_row *row)
{
    fb_text words;

    fb_text_init(&words, 0);
    fb_across_say_place(&words, a, row);
    fb_say_clean(&words, 0);
    fb_html(out, "<h3>%s</h3>\n", fb_text_string(&words));
    out->failed |= words.failed;
    fb_text_clear(&words);
}

void fb_page_across(fb_text *out, const fb_across *a)
{
    fb_text_puts(out,
                 "<section class=\"wrap\" id=\"across\"><h2>Across backends</h2>\n<p>");
    fb_html_prose(out, a->headline, strlen(a->headline));
    fb_text_puts(out, "</p>\n");
    for (int i = 0; i < a->n_rows; i++) {
        const fb_across_row *row = &a->rows[i];
        const fb_across_row *before = i > 0 ? row - 1 : NULL;
        const fb_across_row *next = i + 1 < a->n_rows ? row + 1 : NULL;

        if (before == NULL || before->task != row->task ||
            before->budget != row->budget) {
            caption(out, a, row);
            fb_text_puts(out,
                         "<div class=\"scroll\"><table class=\"t-across\"><thead>\n");
            line(out, a, NULL);
            fb_text_puts(out, "</thead><tbody>\n");
        }
        line(out, a, row);
        if (next == NULL || next->task != row->task || next->budget != row->budget)
            fb_text_puts(out, "</tbody></table></div>\n");
    }
    if (a->n_only_first + a->n_only_second > 0)
        fb_html(
            out,
            "<p class=\"cap\">Left out: %d cells of the first and %d of the second, "
            "without a finished counterpart.</p>\n",
            a->n_only_first, a->n_only_second);
    fb_text_puts(out, "<p class=\"cap\">");
    fb_html_prose(out, FB_ACROSS_WORDS, strlen(FB_ACROSS_WORDS));
    fb_text_puts(out, "</p>\n</section>\n");
}
