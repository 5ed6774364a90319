/* safetensors.h - the tensors of one safetensors file, checked.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_SAFETENSORS_H
#define FB_MODEL_SAFETENSORS_H

#include "base/file.h"
#include "model/stored.h"

typedef struct fb_safetensors fb_safetensors;

/* Promises: names, shapes and formats are sane, and every tensor has bytes of its own
 * inside the file. Formats that cannot be read are known by size. */
FB_MUST_USE fb_status fb_safetensors_open(fb_safetensors **out, const char *path);
void fb_safetensors_close(fb_safetensors *file); /* takes NULL */

const fb_stored_list *fb_safetensors_list(const fb_safetensors *file);
const fb_map *fb_safetensors_map(const fb_safetensors *file); /* lent: the whole file */

#endif
