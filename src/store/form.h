/* form.h - whether a file has the tables and views of this program, and hangs together.
 *
 * Values are covered by cover.h. This is what stands around them: a view that says other
 * numbers than its tables, a trigger that changes what is written, an index that leaves
 * out rows.
 *
 * Tables, views and indexes that somebody has added for himself are not ours to judge.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_FORM_H
#define FB_STORE_FORM_H

#include "base/text.h"
#include "store/store.h"

/* Adds a line for everything that is not as this program makes it, "view point: not that
 * of this program"; none: all is. */
FB_MUST_USE fb_status fb_store_check_form(fb_store *store, fb_text *problems);

#endif
