/* folder.h - a model as Hugging Face lays it out: a folder with config.json and
 * safetensors, in one file or in shards named by an index.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_FOLDER_H
#define FB_MODEL_FOLDER_H

#include "base/hash.h"
#include "base/json.h"
#include "model/guard.h"
#include "model/stored.h"

typedef struct fb_folder fb_folder;

/* Notes in `guard`, before it reads one, all files that make the model or would. */
FB_MUST_USE fb_status fb_folder_open(fb_folder **out, const char *path,
                                     fb_guard *guard);
void fb_folder_close(fb_folder *folder); /* takes NULL */

bool fb_is_folder(const char *path);
/* Files by their names in a folder. A path, or bytes with a zero behind them: free with
 * fb_free. A file above `most` bytes is FB_FORMAT; sentences name the file. */
FB_MUST_USE fb_status fb_folder_path(char **out, const char *folder, const char *name);
bool fb_folder_has(const char *folder, const char *name);
FB_MUST_USE fb_status fb_folder_read(char **out, size_t *n_out, const char *folder,
                                     const char *name, size_t most);
FB_MUST_USE fb_status fb_folder_read_json(fb_json **out, const char *folder,
                                          const char *name, size_t most);

const fb_json *fb_folder_config(const fb_folder *folder);         /* lent */
const fb_stored_list *fb_folder_tensors(const fb_folder *folder); /* of all shards */
size_t fb_folder_bytes(const fb_folder *folder); /* of all files read */
/* Which model it is: SHA-256 over the names and hashes of config.json, the tokenizer's
 * files and all shards. */
FB_MUST_USE fb_status fb_folder_identity(const fb_folder *folder,
                                         char out[FB_HASH_HEX]);

#endif
