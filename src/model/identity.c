/* identity.c - the hash of a file is computed once, not at every start.
 *
 * A file is taken for the same as long as its device, inode, size and both times (to
 * the nanosecond) are. Nothing is remembered of a file that changed within the last
 * second: another change might leave the times as they are.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/identity.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { SMALL = 1 << 18 }; /* bytes that are hashed faster than looked up */

void fb_cache_folder(fb_text *path, const char *leaf)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (cache != NULL && cache[0] == '/')
        fb_text_printf(path, "%s/flexbudget/%s", cache, leaf);
    else
        fb_text_printf(path, "%s/.cache/flexbudget/%s", home == NULL ? "" : home, leaf);
}

/* Makes every folder on the way to the file `path`; what fails shows later. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0777);
        *slash = '/';
    }
}

/* The name of the file in which the hash of this file is remembered. */
static void add_name(fb_text *path, const fb_file_state *state)
{
    char name[FB_HASH_HEX];
    fb_text key;

    fb_text_init(&key, 1 << 10);
    fb_text_printf(&key,
                   "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%09" PRId64
                   " %" PRId64 ".%09" PRId64,
                   state->device, state->inode, state->size, state->modified,
                   state->modified_ns, state->changed, state->changed_ns);
    if (key.failed) path->failed = true;
    fb_hash_bytes(fb_text_string(&key), key.n, name);
    fb_text_printf(path, "/%s", name);
    fb_text_clear(&key);
}

static bool recall(const char *path, char out[FB_HASH_HEX])
{
    char *text = NULL;
    size_t n = 0;
    bool is_hash;

    if (fb_file_read(&text, &n, path, FB_HASH_HEX) != FB_OK) return false;
    is_hash = n == FB_HASH_HEX - 1 && strspn(text, "0123456789abcdef") == n;
    if (is_hash) memcpy(out, text, FB_HASH_HEX);
    fb_free(text);
    return is_hash;
}

static bool is_settled(const fb_file_state *state)
{
    const int64_t last =
        state->modified > state->changed ? state->modified : state->changed;

    return (int64_t)time(NULL) > last + 1;
}

void fb_identity(const fb_map *map, char out[FB_HASH_HEX])
{
    fb_text place;

    if (map->n < SMALL || (uint64_t)map->state.size != map->n) {
        fb_hash_bytes(map->bytes, map->n, out);
        return;
    }
    fb_text_init(&place, 1 << 16);
    fb_cache_folder(&place, "hashes");
    add_name(&place, &map->state);
    if (place.failed || !recall(place.bytes, out)) {
        fb_hash_bytes(map->bytes, map->n, out);
        if (!place.failed && is_settled(&map->state)) {
            make_folders(place.bytes);
            (void)!fb_file_write(place.bytes, out, FB_HASH_HEX - 1);
        }
    }
    fb_text_clear(&place);
}
