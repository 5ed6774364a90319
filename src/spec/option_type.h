/* option_type.h - inside of options: the check of one value by its row.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_SPEC_OPTION_TYPE_H
#define FB_SPEC_OPTION_TYPE_H

#include "spec/option.h"

/* Appends the canonical form of `text` to `out`, or says what would be right. */
FB_MUST_USE fb_status fb_option_check(const fb_option *row, const char *text,
                                      fb_text *out);
/* True if `word` is one of the words of "a|b|c"; `words` may be NULL. */
bool fb_word_in(const char *words, const char *word);

#endif
