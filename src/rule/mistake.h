/* mistake.h - inside of src/rule: what is said of an expression that cannot be read.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_RULE_MISTAKE_H
#define FB_RULE_MISTAKE_H

#include "rule/bound.h"

/* All of these return `status`, which is that of the last failure, and add to its
 * sentence. */

/* A line "help: ..." behind it. */
fb_status fb_mistake_hint(fb_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The text with a caret under `at` [n], before lines of help:
 *         adakv(snapkv, safegard=0.3)
 *                       ^~~~~~~~
 * unless that is all of the text. */
fb_status fb_mistake_show(fb_status status, const char *text, const char *at, size_t n);
/* Whose parameter `key` could be, if not `bound`'s: of a rule in its brackets, of one
 * around it (`around` [n], the outermost first), of others. */
fb_status fb_mistake_key(fb_status status, const fb_bound_rule *bound,
                         const fb_bound_rule *const *around, int n, const char *key);

/* Failures. */
/* A name that is not that of a rule, nor of one in `files` (NULL: none). */
fb_status fb_mistake_name(const fb_rule_files *files, const char *name);
/* Brackets behind a rule that takes none: `text` from the bracket on. */
fb_status fb_mistake_brackets(const fb_rule *rule, const char *text);

#endif
