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
/* Two tasks as the effective text has them, whatever their data is called. */
bool fb_spec_is_same_task(const char *a, const char *b);

#endif
