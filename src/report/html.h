/* html.h - text on its way into the page: escaped unless it is ours.
 *
 * What is not UTF-8, and control characters, become U+FFFD.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_HTML_H
#define FB_REPORT_HTML_H

#include "base/text.h"
#include "stats/stats.h"

/* Like printf, with %s (escaped), %d and %% alone. The format is markup. */
void fb_html(fb_text *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fb_html_text(fb_text *out, const char *string); /* escaped; NULL: nothing */
void fb_html_bytes(fb_text *out, const char *bytes, size_t n); /* escaped */
/* The same with a permitted line break after every '_', '/', ',' and '('. */
void fb_html_breakable(fb_text *out, const char *string);

/* The same as sentences: no line breaks between a number and what belongs to it. */
void fb_html_prose(fb_text *out, const char *bytes, size_t n);

/* Numbers as the analysis writes them, an en dash for what is not finite. */
void fb_html_number(fb_text *out, double value, int digits);
void fb_html_signed(fb_text *out, double value, int digits); /* "+1.2" */

/* "2026-11-29T17:14:04Z" is "29 November 2026"; what is no such date stays. */
void fb_html_date(fb_text *out, const char *time);

/* Table cells that show a value rounded and carry it whole, for those who copy. */
void fb_html_cell(fb_text *out, double value, int digits);
void fb_html_signed_cell(fb_text *out, double value, int digits);
void fb_html_interval_cell(fb_text *out, fb_interval interval, int digits,
                           bool is_signed);
void fb_html_p_cell(fb_text *out, double p);
void fb_html_bytes_cell(fb_text *out, double n_bytes);
void fb_html_share_cell(fb_text *out, double share); /* "9.7 %" of 0.097 */

/* JSON as it may stand inside <script>: no '<' in it. */
void fb_html_json(fb_text *out, const char *json, size_t n);

/* The longest prefix of at most `most` bytes that does not cut a character. */
size_t fb_utf8_cut(const char *bytes, size_t n, size_t most);

#endif
