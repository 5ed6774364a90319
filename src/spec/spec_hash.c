/* spec_hash.c - by what an experiment is known: its effective text without the names of
 * files whose hashes stand beside them. A copy of a file is the same file.
 *
 * SPDX-License-Identifier: MIT
 */
#include "spec/spec_inside.h"

#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* "data=NAME," of a task where its hash follows, with its length; else NULL. */
static const char *find_name(const char *task, size_t *n_out)
{
    const char *at = task;

    while ((at = strstr(at, "data=")) != NULL) {
        const size_t n = strcspn(at, ",\n");

        *n_out = n + 1;
        if (at > task && strchr(":,", at[-1]) != NULL && begins(at + n, ",sha256="))
            return at;
        at += n;
    }
    return NULL;
}

bool fb_spec_is_same_task(const char *a, const char *b)
{
    size_t n_a = 0, n_b = 0;
    const char *name_a = find_name(a, &n_a), *name_b = find_name(b, &n_b);

    if (name_a == NULL || name_b == NULL) return strcmp(a, b) == 0;
    return name_a - a == name_b - b && memcmp(a, b, (size_t)(name_a - a)) == 0 &&
           strcmp(name_a + n_a, name_b + n_b) == 0;
}

/* A line of `n` bytes that lists a task. */
static void add_task(fb_text *out, const char *line, size_t n)
{
    size_t n_name = 0;
    const char *name = find_name(line, &n_name);

    if (name != NULL && name < line + n) {
        fb_text_add(out, line, (size_t)(name - line));
        n -= (size_t)(name - line) + n_name;
        line = name + n_name;
    }
    fb_text_add(out, line, n);
}

/* A line of `n` bytes that lists a file of rules: its hash alone. */
static void add_file(fb_text *out, const char *line, size_t n)
{
    const char *hash = memmem(line, n, ",sha256=", 8), *next = hash;

    while (next != NULL) { /* the last one: a name may have anything in it */
        hash = next;
        next = memmem(hash + 1, n - (size_t)(hash + 1 - line), ",sha256=", 8);
    }
    if (hash == NULL) hash = line;
    fb_text_add(out, hash, n - (size_t)(hash - line));
}

/* Only the model's section has a `file`, and its hash on the next line. */
static bool is_name_of_model(const char *line, const char *next)
{
    return begins(line, "  file: ") && begins(next, "  sha256: ") &&
           !begins(next, "  sha256: auto\n");
}

fb_status fb_spec_hash_text(const char *text, char out[FB_HASH_HEX])
{
    bool is_in_tasks = false, is_in_files = false;
    fb_text nameless = {0};
    fb_status status;

    for (const char *line = text, *next; *line != '\0'; line = next) {
        const char *end = strchr(line, '\n');

        next = end == NULL ? line + strlen(line) : end + 1;
        if (*line != ' ') {
            is_in_tasks = begins(line, "tasks:");
            is_in_files = begins(line, "rule_files:");
        }
        if (is_in_tasks)
            add_task(&nameless, line, (size_t)(next - line));
        else if (is_in_files)
            add_file(&nameless, line, (size_t)(next - line));
        else if (!is_name_of_model(line, next))
            fb_text_add(&nameless, line, (size_t)(next - line));
    }
    status = fb_text_status(&nameless);
    if (status == FB_OK) fb_hash_bytes(fb_text_string(&nameless), nameless.n, out);
    fb_text_clear(&nameless);
    return status;
}

fb_status fb_spec_hash(const fb_spec *spec, char out[FB_HASH_HEX])
{
    fb_text text = {0};
    fb_status status = fb_spec_print(spec, false, &text);

    if (status == FB_OK) status = fb_spec_hash_text(fb_text_string(&text), out);
    fb_text_clear(&text);
    return status;
}
