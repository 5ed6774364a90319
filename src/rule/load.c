/* load.c - rules from shared objects, by the system's loader.
 *
 * A file exports one table, `fb_rules` (flexbudget/rule.h). Whoever loads it lets it run:
 * nothing can be promised of what machine code does. What it says is checked: its structs
 * here and in check.c, once, in copies that it cannot change any more; what its functions
 * return where they are called.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "rule/bound.h"
#include "rule/check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RULES = 64 };

/* --- the loader --- */

/* A process that has libflexbudget.so for itself, such as a Python interpreter, does not
 * show its functions to what is loaded later; rules need them. Of the program, which does,
 * there is nothing to load. */
static void show_own_functions(void)
{
    static const char here;
    Dl_info self;
    void *handle;

    if (dladdr(&here, &self) == 0) return;
    handle = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    if (handle != NULL) (void)dlclose(handle);
}

/* The loader's sentence, which begins with the path. */
static fb_status refuse_load(const char *path)
{
    const char *reason = dlerror();
    const size_t n = strlen(path);

    if (reason == NULL) reason = "the loader does not say why";
    if (strncmp(reason, path, n) == 0 && strncmp(reason + n, ": ", 2) == 0)
        reason += n + 2;
    return fb_fail(FB_FORMAT, "cannot be loaded as a shared object: %.*s",
                   (int)strcspn(reason, "\n"), reason);
}

static fb_status check_hash(const fb_rule_file *file, const char *sha256)
{
    if (sha256 == NULL || strcmp(file->sha256, sha256) == 0) return FB_OK;
    return fb_fail(FB_USAGE, "has the sha256 %.12s..., and %.12s... was asked for",
                   file->sha256, sha256);
}

/* What was hashed is what was loaded. */
static fb_status load(fb_rule_file *file, const char *sha256)
{
    file->state = fb_file_state_of(file->path);
    FB_TRY(fb_hash_file(file->path, file->sha256));
    FB_TRY(check_hash(file, sha256));
    if (fb_file_is_cut_library(file->path))
        return fb_fail(FB_FORMAT, "is cut short; make it again");
    show_own_functions();
    file->handle = dlopen(file->path, RTLD_NOW | RTLD_LOCAL);
    if (file->handle == NULL) return refuse_load(file->path);
    if (fb_file_state_equal(file->state, fb_file_state_of(file->path))) return FB_OK;
    return fb_fail(FB_IO, "has changed while it was loaded; try again");
}

/* --- its rules --- */

static fb_status check_name(const fb_rule_files *files, const fb_rule_file *own,
                            const char *name)
{
    const fb_rule_file *other = NULL;

    if (fb_rule_find(name) != NULL || fb_preset_find(name) != NULL)
        return fb_fail(FB_USAGE, "the name '%s' of its rule is that of a built-in one",
                       name);
    if (fb_rule_files_find(files, name, &other) != NULL)
        return fb_fail(FB_USAGE, "the name '%s' of its rule is taken by '%.*s'", name,
                       FB_MOST_SHOWN, other->path);
    for (int r = 0; r < own->n; r++)
        if (strcmp(own->rules[r].name, name) == 0)
            return fb_fail(FB_USAGE, "two of its rules have the name '%s'", name);
    return FB_OK;
}

/* Whether it can be bound, with its defaults; what goes around others without them. */
static fb_status try_to_bind(const fb_rule *rule)
{
    fb_bound_rule *bound = NULL;
    fb_status status = rule->n_inner == 0 ? fb_rule_bind(&bound, rule)
                                          : fb_bound_rule_new(&bound, rule);

    if (status == FB_OK && rule->n_inner == 0 &&
        fb_bound_rule_choices(bound)->reference != FB_REFERENCE_NONE)
        status = fb_fail(FB_DEFECT,
                         "rule '%s' chooses a reference, which is the "
                         "program's own",
                         rule->name);
    fb_bound_rule_free(bound);
    return status;
}

static fb_status take_rules(const fb_rule_files *files, fb_rule_file *file)
{
    const fb_rule *const *table = dlsym(file->handle, "fb_rules");
    int n = 0;

    while (table != NULL && n <= MOST_RULES && table[n] != NULL)
        n++;
    if (n == 0)
        return fb_fail(FB_FORMAT, "exports no rules; at the end of its source stands "
                                  "FB_EXPORT_RULES(&mine)");
    if (n > MOST_RULES)
        return fb_fail(FB_FORMAT,
                       "exports more than %d rules, or a table without an end",
                       MOST_RULES);
    file->rules = fb_zalloc(FB_ACCOUNT_other, (size_t)n * sizeof *file->rules);
    if (file->rules == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    for (int r = 0; r < n; r++) {
        FB_TRY(fb_rule_check_abi(table[r])); /* before it is copied as one of ours */
        file->rules[r] = *table[r];
        FB_TRY(fb_rule_check(&file->rules[r]));
        FB_TRY(check_name(files, file, file->rules[r].name));
        FB_TRY(try_to_bind(&file->rules[r]));
        file->n++;
    }
    return FB_OK;
}

/* --- files --- */

static void close_file(fb_rule_file *file)
{
    if (file == NULL) return;
    if (file->handle != NULL) (void)dlclose(file->handle);
    fb_free(file->rules);
    fb_free(file->path);
    fb_free(file);
}

/* The loader looks for what has no slash among the system's libraries. */
static char *path_for_loader(const char *path)
{
    const size_t n = strlen(path) + sizeof "./";
    char *out = fb_alloc(FB_ACCOUNT_other, n);

    if (out != NULL)
        (void)snprintf(out, n, "%s%s", strchr(path, '/') == NULL ? "./" : "", path);
    return out;
}

static fb_status open_file(fb_rule_file **out, const fb_rule_files *files,
                           const char *path, const char *sha256)
{
    fb_rule_file *file = fb_zalloc(FB_ACCOUNT_other, sizeof *file);
    fb_status status = FB_OK;

    *out = file;
    if (file != NULL) file->path = path_for_loader(path);
    if (file == NULL || file->path == NULL)
        return fb_fail(FB_NO_MEMORY, "no memory for rules");
    status = load(file, sha256);
    if (status == FB_OK) status = take_rules(files, file);
    return status;
}

static const fb_rule_file *find_file(const fb_rule_files *files, const char *path)
{
    const fb_file_state state = fb_file_state_of(path);

    for (int f = 0; f < files->n; f++)
        if (fb_file_state_equal(files->file[f]->state, state)) return files->file[f];
    return NULL;
}

static fb_status add_file(fb_rule_files *files, const char *path, const char *sha256,
                          const fb_rule_file **out)
{
    fb_rule_file **grown = fb_realloc(FB_ACCOUNT_other, files->file,
                                      (size_t)(files->n + 1) * sizeof(fb_rule_file *));
    fb_rule_file *file = NULL;
    fb_status status;

    if (grown == NULL) return fb_fail(FB_NO_MEMORY, "no memory for rules");
    files->file = grown;
    status = open_file(&file, files, path, sha256);
    if (status != FB_OK) {
        close_file(file);
        return status;
    }
    *out = grown[files->n++] = file;
    return FB_OK;
}

fb_status fb_rule_files_add(fb_rule_files *files, const char *path, const char *sha256,
                            const fb_rule_file **out)
{
    const fb_rule_file *file = find_file(files, path);
    fb_status status =
        file == NULL ? add_file(files, path, sha256, &file) : check_hash(file, sha256);

    if (out != NULL) *out = file;
    return fb_context(status, "'%.*s'", FB_MOST_SHOWN, path);
}

bool fb_rule_is_file(const char *text)
{
    static const char ending[] = ".so";
    const size_t n = strlen(text), n_ending = sizeof ending - 1;

    return n > n_ending && strcmp(text + n - n_ending, ending) == 0;
}

void fb_rule_files_clear(fb_rule_files *files)
{
    for (int f = 0; f < files->n; f++)
        close_file(files->file[f]);
    fb_free(files->file);
    *files = (fb_rule_files){0};
}
