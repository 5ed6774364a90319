/* verify_files.c - where the files of a stored specification are now.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/verify_words.h"

#include <string.h>

/* Names of files in the specification have no folder: here it comes in front. */
static void add_line(fb_text *out, const char *line, size_t n, const char *folder,
                     const char *mark)
{
    const char *found = memmem(line, n, mark, strlen(mark));
    size_t before = found == NULL ? n : (size_t)(found - line) + strlen(mark);

    if (found != NULL && before < n && line[before] == '"') before++;
    fb_text_add(out, line, before);
    if (found == NULL) return;
    fb_text_printf(out, "%s/", folder);
    fb_text_add(out, line + before, n - before);
}

fb_status fb_verify_place_files(const char *spec, const char *folder, fb_text *out)
{
    const char *mark = NULL;

    for (const char *line = spec, *next; *line != '\0'; line = next) {
        const size_t n = strcspn(line, "\n");

        next = line + n + (line[n] == '\n');
        if (*line != ' ') mark = NULL;
        if (strncmp(line, "tasks:", 6) == 0) mark = "data=";
        if (strncmp(line, "rule_files:", 11) == 0) mark = "  - ";
        if (mark == NULL || *line != ' ')
            fb_text_add(out, line, n);
        else
            add_line(out, line, n, folder, mark);
        fb_text_puts(out, "\n");
    }
    return fb_text_status(out);
}
