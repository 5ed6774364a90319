/* spec_inside.h - what the files of the specification share among themselves.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_SPEC_SPEC_INSIDE_H
#define FB_SPEC_SPEC_INSIDE_H

#include "spec/spec.h"

/* Frees what fb_spec_check made. */
void fb_spec_forget(fb_spec *spec);
/* FB_USAGE with the nearest key. */
fb_status fb_spec_unknown_key(const char *key);

/* --- files of rules (spec_files.c) --- */

/* "label: text" or a text that is its own label: the text. */
const char *fb_spec_rule_text(const char *item);
/* Loads "PATH" or "PATH,sha256=HASH"; one that is there already is only found. */
FB_MUST_USE fb_status fb_spec_load_file(fb_spec *spec, const char *text,
                                        const fb_rule_file **out);
/* The failure of an expression, with what to write where a file stands in it. */
fb_status fb_spec_explain_file(const char *expression, fb_status status);
/* The same "PATH,sha256=HASH", whatever the path is. */
bool fb_spec_is_same_file(const char *a, const char *b);
/* What an item of `rules` that is this file stands for, as further items: its rules that
 * need no others in brackets. */
FB_MUST_USE fb_status fb_spec_expand_file(const fb_rule_file *file, const char *item,
                                          fb_item **out, int *n_out);

/* Two tasks as the effective text has them, whatever their data is called. */
bool fb_spec_is_same_task(const char *a, const char *b);

#endif
