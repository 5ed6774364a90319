/* expression.h - regular expressions of tokenizer files, put into PCRE2's notation.
 *
 * They were written for Oniguruma, as Hugging Face's `tokenizers` calls it. What both
 * understand alike passes; what means something else to PCRE2 is put in other words or
 * refused. An expression that repeats a group is refused too: it can take time without
 * end.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_EXPRESSION_H
#define FB_MODEL_EXPRESSION_H

#include "base/text.h"

/* Appends `pattern`, or a plain text that means itself, for PCRE2_UTF | PCRE2_UCP.
 * FB_UNSUPPORTED naming what is not understood. */
FB_MUST_USE fb_status fb_expression_add(fb_text *out, const char *pattern);
FB_MUST_USE fb_status fb_expression_add_literal(fb_text *out, const char *text);

#endif
