/* html.h - text on its way into the page: escaped unless it is ours.
 *
 * What is not UTF-8, and control characters, become U+FFFD. A number that is not finite
 * becomes a dash.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_HTML_H
#define FB_REPORT_HTML_H

#include "base/text.h"

/* Like printf, with %s (escaped), %d and %% alone. The format is markup. */
void fb_html(fb_text *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fb_html_text(fb_text *out, const char *string); /* escaped; NULL: nothing */
void fb_html_bytes(fb_text *out, const char *bytes, size_t n); /* escaped */
/* The same with a permitted line break after every '_', '/', ',' and '('. */
void fb_html_breakable(fb_text *out, const char *string);

enum { FB_NUMBER_SIGNED = 1 }; /* a plus sign before what is above zero */
/* "−1.68", with a true minus sign and no negative zero. */
void fb_html_number(fb_text *out, double value, int digits, unsigned flags);
/* "−1.96 to −1.37". */
void fb_html_interval(fb_text *out, double low, double high, int digits,
                      unsigned flags);
/* "<0.001", then three decimals below 0.1, two above. */
void fb_html_p(fb_text *out, double p);
/* "4.4 MiB", to three digits. */
void fb_html_size(fb_text *out, double n_bytes);

/* A table cell that shows `value` rounded and carries it whole, for those who copy. */
void fb_html_cell(fb_text *out, double value, int digits, unsigned flags);
void fb_html_p_cell(fb_text *out, double p);
void fb_html_size_cell(fb_text *out, double n_bytes);
void fb_html_interval_cell(fb_text *out, double low, double high, int digits,
                           unsigned flags);

/* JSON as it may stand inside <script>: no '<' in it. */
void fb_html_json(fb_text *out, const char *json, size_t n);

/* The longest prefix of at most `most` bytes that does not cut a character. */
size_t fb_utf8_cut(const char *bytes, size_t n, size_t most);

#endif
