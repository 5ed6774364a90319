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

/* --- problems (spec_check.c) --- */

/* Tells problems one by one and remembers the first status. */
typedef struct fb_spec_checker {
    fb_spec *spec;
    fb_report *report;
    void *self;
    fb_status first;
} fb_spec_checker;

void fb_spec_found(fb_spec_checker *c, fb_status status);
/* The last sentence again, with the place of the i-th item of a setting. */
void fb_spec_found_at(fb_spec_checker *c, fb_status status, fb_setting setting,
                      int item);

/* --- rules (spec_rules.c) --- */

/* Settings become spec->rules; one of them spec->baseline, if no problem was found. */
void fb_spec_check_rules(fb_spec_checker *c);
void fb_spec_check_baseline(fb_spec_checker *c);
/* Of rules that are read: whether all can stream; whether a question may come without its
 * right answer. */
void fb_spec_check_streams(fb_spec_checker *c);
void fb_spec_check_deployable(fb_spec_checker *c, const char *without);

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
