/* folder.c - opens config.json and every shard, and joins the lists of tensors.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/folder.h"

#include "base/memory.h"
#include "base/text.h"
#include "model/identity.h"
#include "model/safetensors.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CONFIG = 16 << 20, MOST_INDEX = 64 << 20 };
/* All of them and a small file are mapped at one time. */
enum { MOST_SHARDS = FB_MOST_MAPS / 2 };

static const char single[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

/* What belongs to a model besides its shards. */
static const char *const small_files[] = {
    "config.json",     "generation_config.json", "tokenizer.json",
    "tokenizer.model", "tokenizer_config.json",  "chat_template.jinja"};

/* What decides which files are read, or whether. */
static const char *const deciding_files[] = {single, index_name, "added_tokens.json"};

struct fb_folder {
    char *path;
    fb_json *config, *index;
    const char **names; /* [n_shards] lent by the index, or `single` */
    fb_safetensors **shards;
    size_t n_shards;
    fb_stored_list list;
};

bool fb_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

fb_status fb_folder_path(char **out, const char *folder, const char *name)
{
    fb_text path;
    fb_status status;

    fb_text_init(&path, 1 << 16);
    fb_text_printf(&path, "%s/%s", folder, name);
    status = fb_text_status(&path);
    *out = status == FB_OK ? fb_strdup(fb_text_string(&path)) : NULL;
    if (status == FB_OK && *out == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for a path");
    fb_text_clear(&path);
    return status;
}

/* Without an allocation that could fail: a file must not seem to be missing. */
bool fb_folder_has(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct stat about;
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);

    return n > 0 && (size_t)n < sizeof path && stat(path, &about) == 0;
}

fb_status fb_folder_read(char **out, size_t *n_out, const char *folder,
                         const char *name, size_t most)
{
    char *path;
    fb_status status = fb_folder_path(&path, folder, name);

    *out = NULL;
    if (status == FB_OK) status = fb_file_read(out, n_out, path, most);
    fb_free(path);
    return fb_context(status, "%s", name);
}

fb_status fb_folder_read_json(fb_json **out, const char *folder, const char *name,
                              size_t most)
{
    char *text;
    size_t n;
    fb_status status;

    *out = NULL;
    FB_TRY(fb_folder_read(&text, &n, folder, name, most));
    status = fb_json_parse(out, text, n);
    if (status == FB_OK && !fb_json_is_object(*out))
        status = fb_fail(FB_FORMAT, "not a JSON object");
    fb_free(text);
    return fb_context(status, "%s", name);
}

/* --- guarding ------------------------------------------------------------------- */

static fb_status guard_files(fb_guard *guard, const char *folder,
                             const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *path;
        fb_status status = fb_folder_path(&path, folder, names[i]);

        if (status == FB_OK) status = fb_guard_add(guard, path);
        fb_free(path);
        FB_TRY(status);
    }
    return FB_OK;
}

/* --- shards --------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static fb_status check_name(const char *name)
{
    if (name != NULL && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL)
        return FB_OK;
    return fb_fail(FB_FORMAT, "%s: '%s' is not the name of a file beside it",
                   index_name, name == NULL ? "?" : name);
}

/* The different files that the index names, sorted. */
static fb_status name_shards(fb_folder *f)
{
    fb_json *map;
    size_t n = 0;

    FB_TRY(fb_folder_read_json(&f->index, f->path, index_name, MOST_INDEX));
    FB_TRY(fb_json_want_object(&map, f->index, "weight_map"));
    f->names = fb_alloc(FB_ACCOUNT_other, (fb_json_count(map) + 1) * sizeof *f->names);
    if (f->names == NULL) return fb_fail(FB_NO_MEMORY, "no memory for an index");
    for (void *m = fb_json_first(map); m != NULL; m = fb_json_next(map, m)) {
        f->names[n] = fb_json_string(fb_json_value(m));
        FB_TRY(check_name(f->names[n++]));
    }
    qsort((void *)f->names, n, sizeof *f->names, compare_names);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(f->names[i], f->names[f->n_shards - 1]) != 0)
            f->names[f->n_shards++] = f->names[i];
    if (f->n_shards >= 1 && f->n_shards <= MOST_SHARDS) return FB_OK;
    return fb_fail(FB_FORMAT, "%s names %zu files; 1 to %d would be right", index_name,
                   f->n_shards, MOST_SHARDS);
}

static fb_status choose_files(fb_folder *f)
{
    if (fb_folder_has(f->path, single)) {
        f->names = fb_alloc(FB_ACCOUNT_other, sizeof *f->names);
        if (f->names == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
        f->names[f->n_shards++] = single;
        return FB_OK;
    }
    if (fb_folder_has(f->path, index_name)) return name_shards(f);
    return fb_fail(FB_NOT_FOUND,
                   "neither '%s' nor '%s' is in the folder\n"
                   "help: other forms (pytorch_model.bin) can be saved anew with "
                   "transformers: model.save_pretrained(FOLDER)",
                   single, index_name);
}

static fb_status open_shards(fb_folder *f)
{
    size_t n = 0, at = 0;

    f->shards = fb_zalloc(FB_ACCOUNT_other, f->n_shards * sizeof *f->shards);
    if (f->shards == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    for (size_t i = 0; i < f->n_shards; i++) {
        char *path;
        fb_status status = fb_folder_path(&path, f->path, f->names[i]);

        if (status == FB_OK) status = fb_safetensors_open(&f->shards[i], path);
        fb_free(path);
        if (status != FB_OK) return fb_context(status, "%s", f->names[i]);
        n += fb_safetensors_list(f->shards[i])->n;
    }
    f->list.tensors = fb_alloc(FB_ACCOUNT_other, (n + 1) * sizeof *f->list.tensors);
    if (f->list.tensors == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    for (size_t i = 0; i < f->n_shards; i++) {
        const fb_stored_list *list = fb_safetensors_list(f->shards[i]);

        memcpy(f->list.tensors + at, list->tensors, list->n * sizeof *list->tensors);
        at += list->n;
    }
    f->list.n = n;
    return fb_stored_sort(&f->list);
}

/* Every tensor of the index is in one of its files. */
static fb_status check_index(const fb_folder *f)
{
    const fb_json *map = fb_json_get(f->index, "weight_map");

    for (void *m = fb_json_first(map); f->index != NULL && m != NULL;
         m = fb_json_next(map, m))
        if (fb_stored_find(&f->list, fb_json_key(m)) == NULL)
            return fb_fail(FB_FORMAT, "%s names the tensor '%s', which is in no file",
                           index_name, fb_span_show(fb_span_of(fb_json_key(m))).text);
    return FB_OK;
}

/* --- the whole ------------------------------------------------------------------ */

static fb_status read_all(fb_folder *f, const char *path, fb_guard *guard)
{
    f->path = fb_strdup(path);
    if (f->path == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a path");
    FB_TRY(guard_files(guard, path, small_files,
                       sizeof small_files / sizeof *small_files));
    FB_TRY(guard_files(guard, path, deciding_files,
                       sizeof deciding_files / sizeof *deciding_files));
    FB_TRY(fb_folder_read_json(&f->config, f->path, "config.json", MOST_CONFIG));
    FB_TRY(choose_files(f));
    FB_TRY(guard_files(guard, path, (const char *const *)f->names, f->n_shards));
    FB_TRY(open_shards(f));
    return check_index(f);
}

fb_status fb_folder_open(fb_folder **out, const char *path, fb_guard *guard)
{
    fb_folder *f = fb_zalloc(FB_ACCOUNT_other, sizeof *f);
    fb_status status;

    *out = NULL;
    if (f == NULL) return fb_fail(FB_NO_MEMORY, "no memory to open a model");
    status = read_all(f, path, guard);
    if (status == FB_OK)
        *out = f;
    else
        fb_folder_close(f);
    return status;
}

void fb_folder_close(fb_folder *f)
{
    if (f == NULL) return;
    for (size_t i = 0; f->shards != NULL && i < f->n_shards; i++)
        fb_safetensors_close(f->shards[i]);
    fb_free(f->shards);
    fb_free((void *)f->names);
    fb_free(f->list.tensors);
    fb_json_free(f->config);
    fb_json_free(f->index);
    fb_free(f->path);
    fb_free(f);
}

const fb_json *fb_folder_config(const fb_folder *f)
{
    return f->config;
}

const fb_stored_list *fb_folder_tensors(const fb_folder *f)
{
    return &f->list;
}

size_t fb_folder_bytes(const fb_folder *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_shards; i++)
        n += fb_safetensors_map(f->shards[i])->n;
    return n;
}

static void add_file(const char *name, const fb_map *map, fb_hash *hash)
{
    char hex[FB_HASH_HEX];

    fb_identity(map, hex);
    fb_hash_add(hash, name, strlen(name) + 1);
    fb_hash_add(hash, hex, sizeof hex);
}

static fb_status add_small_file(const fb_folder *f, const char *name, fb_hash *hash)
{
    fb_map map;
    char *path;
    fb_status status;

    if (!fb_folder_has(f->path, name)) return FB_OK;
    FB_TRY(fb_folder_path(&path, f->path, name));
    status = fb_map_open(&map, path);
    fb_free(path);
    if (status != FB_OK) return fb_context(status, "%s", name);
    add_file(name, &map, hash);
    fb_map_close(&map);
    return FB_OK;
}

fb_status fb_folder_identity(const fb_folder *f, char out[FB_HASH_HEX])
{
    fb_hash hash;

    fb_hash_init(&hash);
    for (size_t i = 0; i < sizeof small_files / sizeof *small_files; i++)
        FB_TRY(add_small_file(f, small_files[i], &hash));
    for (size_t i = 0; i < f->n_shards; i++)
        add_file(f->names[i], fb_safetensors_map(f->shards[i]), &hash);
    fb_hash_hex(&hash, out);
    return FB_OK;
}
