/* builtin.h - the models inside the program.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_BUILTIN_H
#define FB_MODEL_BUILTIN_H

#include "model/gguf.h"

/* The name is that of a model inside the program, or of none: it begins so. */
bool fb_is_builtin(const char *name);
/* The file's bytes; FB_NOT_FOUND with the names there are. */
FB_MUST_USE fb_status fb_builtin_find(fb_span *out, const char *name);

#endif
