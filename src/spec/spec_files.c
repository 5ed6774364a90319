/* spec_files.c - shared objects with rules, as an experiment names them: in `rules`, where
 * each of their rules is meant, or in `rule_files`, which makes their names known alone.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "spec/spec_inside.h"

#include <stdio.h>
#include <string.h>

static const char HASH[] = ",sha256=";

const char *fb_spec_rule_text(const char *item)
{
    const char *colon = strstr(item, ": ");

    return colon == NULL ? item : colon + 2;
}

/* The hash behind a path, or NULL. */
static const char *find_hash(const char *text)
{
    const size_t n = strlen(text), n_hash = sizeof HASH - 1 + FB_HASH_HEX - 1;

    if (n < n_hash || strncmp(text + n - n_hash, HASH, sizeof HASH - 1) != 0)
        return NULL;
    return text + n - (FB_HASH_HEX - 1);
}

bool fb_spec_is_same_file(const char *a, const char *b)
{
    const char *x = find_hash(a), *y = find_hash(b);

    return x != NULL && y != NULL && strcmp(x, y) == 0;
}

fb_status fb_spec_explain_file(const char *expression, fb_status status)
{
    char sentence[1024];

    if (status != FB_USAGE || strstr(expression, ".so") == NULL) return status;
    (void)snprintf(sentence, sizeof sentence, "%s", fb_error_message());
    return fb_fail(status,
                   "%s\nhelp: a file of rules is an item of its own, then they have "
                   "names: ./mine.so,adakv(mine:key=value)",
                   sentence);
}

fb_status fb_spec_load_file(fb_spec *spec, const char *text, const fb_rule_file **out)
{
    const char *sha256 = find_hash(text);
    char *path = fb_strdup(text);
    fb_status status;

    if (path == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    if (sha256 != NULL) path[sha256 - text - (ptrdiff_t)(sizeof HASH - 1)] = '\0';
    status = fb_rule_files_add(&spec->files, path, sha256, out);
    fb_free(path);
    return status;
}

/* "label: name", or the name alone. */
static fb_status add_name(const char *item, size_t n_label, const char *name,
                          fb_item *out)
{
    fb_text text = {0};
    fb_status status;

    fb_text_add(&text, item, n_label);
    fb_text_puts(&text, name);
    status = fb_text_status(&text);
    if (status == FB_OK) out->text = fb_strdup(fb_text_string(&text));
    if (status == FB_OK && out->text == NULL)
        status = fb_fail(FB_NO_MEMORY, "no memory for rules");
    fb_text_clear(&text);
    return status;
}

/* One label cannot be that of several rules. */
static fb_status check_label(const char *item, size_t n_label, int n)
{
    if (n_label == 0 || n == 1) return FB_OK;
    return fb_fail(
        FB_USAGE,
        "'%s': the file has %d rules that stand alone, and a label is that of "
        "one; name the file in rule_files and the rule here",
        item, n);
}

fb_status fb_spec_expand_file(const fb_rule_file *file, const char *item, fb_item **out,
                              int *n_out)
{
    const size_t n_label = (size_t)(fb_spec_rule_text(item) - item);
    int n = 0;
    fb_status status = FB_OK;

    *out = NULL;
    *n_out = 0;
    for (int r = 0; r < file->n; r++)
        n += file->rules[r].n_inner == 0;
    FB_TRY(check_label(item, n_label, n));
    *out = fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)n + 1, sizeof **out));
    if (*out == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    for (int r = 0; status == FB_OK && r < file->n; r++) {
        if (file->rules[r].n_inner > 0) continue;
        status = add_name(item, n_label, file->rules[r].name, &(*out)[*n_out]);
        *n_out += status == FB_OK;
    }
    return status;
}
