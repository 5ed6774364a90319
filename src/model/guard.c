/* guard.c - see guard.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/guard.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/span.h"

#include <string.h>

struct fb_guarded {
    char *path;
    fb_file_state state;
};

static fb_status reserve(fb_guard *w)
{
    const size_t capacity = w->capacity == 0 ? 16 : 2 * w->capacity;
    struct fb_guarded *files;

    if (w->n < w->capacity) return FB_OK;
    files = fb_realloc(FB_ACCOUNT_other, w->files, capacity * sizeof *files);
    if (files == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a list of files");
    w->files = files;
    w->capacity = capacity;
    return FB_OK;
}

fb_status fb_guard_add(fb_guard *w, const char *path)
{
    struct fb_guarded file = {.state = fb_file_state_of(path)};

    FB_TRY(reserve(w));
    file.path = fb_strdup(path);
    if (file.path == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a path");
    w->files[w->n++] = file;
    return FB_OK;
}

fb_status fb_guard_check(const fb_guard *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct fb_guarded *file = &w->files[i];
        const char *slash = strrchr(file->path, '/');
        const char *name = slash == NULL ? file->path : slash + 1;

        if (!fb_file_state_equal(fb_file_state_of(file->path), file->state))
            return fb_fail(FB_IO,
                           "'%s' changed while it was read; run again when nobody "
                           "writes to it",
                           fb_span_show(fb_span_of(name)).text);
    }
    return FB_OK;
}

void fb_guard_clear(fb_guard *w)
{
    for (size_t i = 0; i < w->n; i++)
        fb_free(w->files[i].path);
    fb_free(w->files);
    *w = (fb_guard){0};
}
