/* registry.c - tasks by name, and a task with the values of its parameters.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/params.h"
#include "task/task.h"

#include <string.h>

#define FB_TASK(name) extern const fb_task fb_task_##name;
#include "tasks/list.h"
#undef FB_TASK

static const fb_task *const tasks[] = {
#define FB_TASK(name) &fb_task_##name,
#include "tasks/list.h"
#undef FB_TASK
};

enum { N_TASKS = sizeof tasks / sizeof *tasks, MOST_PARAMS = 64 };

struct fb_bound_task {
    const fb_task *task;
    void *values;
    char *data;
    char sha256[FB_HASH_HEX];  /* of the data; "": not known yet */
    bool was_set[MOST_PARAMS]; /* by place in the table */
};

int fb_task_count(void)
{
    return N_TASKS;
}

const fb_task *fb_task_at(int index)
{
    FB_ASSERT(index >= 0 && index < N_TASKS);
    return tasks[index];
}

const fb_task *fb_task_find(const char *name)
{
    for (int i = 0; i < N_TASKS; i++)
        if (strcmp(tasks[i]->name, name) == 0) return tasks[i];
    return NULL;
}

/* --- binding --- */

fb_status fb_task_bind_unlisted(fb_bound_task **out, const fb_task *task)
{
    fb_bound_task *bound;

    *out = NULL;
    FB_ASSERT(task->abi == FB_TASK_ABI && task->size == sizeof *task);
    bound = fb_zalloc(FB_ACCOUNT_other, sizeof *bound);
    if (bound != NULL) bound->values = fb_zalloc(FB_ACCOUNT_other, task->params_bytes);
    if (bound == NULL || bound->values == NULL) {
        fb_bound_task_free(bound);
        return fb_fail(FB_NO_MEMORY, "no memory for task '%s'", task->name);
    }
    bound->task = task;
    fb_params_init(task->params, bound->values);
    *out = bound;
    return FB_OK;
}

fb_status fb_task_bind(fb_bound_task **out, const char *name)
{
    const fb_task *task = fb_task_find(name);
    const char *names[N_TASKS], *nearest;

    *out = NULL;
    if (task != NULL) return fb_task_bind_unlisted(out, task);
    for (int i = 0; i < N_TASKS; i++)
        names[i] = tasks[i]->name;
    nearest = fb_nearest_word(name, names, N_TASKS);
    if (nearest != NULL)
        return fb_fail(FB_USAGE, "unknown task '%.80s'; did you mean '%s'?", name,
                       nearest);
    return fb_fail(FB_USAGE, "unknown task '%.80s'\nhelp: flexbudget tasks lists them",
                   name);
}

static fb_status set_data(fb_bound_task *task, const char *path)
{
    if (task->task->data == FB_DATA_NONE)
        return fb_fail(FB_USAGE, "it reads no data; 'data' has no meaning");
    if (task->data != NULL) return fb_fail(FB_USAGE, "'data' is given twice");
    if (path[0] == 0) return fb_fail(FB_USAGE, "data= needs a path");
    task->data = fb_strdup(path);
    return task->data == NULL ? fb_fail(FB_NO_MEMORY, "no memory for a path") : FB_OK;
}

static fb_status set_sha256(fb_bound_task *task, const char *sha256)
{
    const size_t n = FB_HASH_HEX - 1;

    if (task->task->data == FB_DATA_NONE)
        return fb_fail(FB_USAGE, "it reads no data; 'sha256' has no meaning");
    if (task->sha256[0] != 0) return fb_fail(FB_USAGE, "'sha256' is given twice");
    if (strlen(sha256) != n || strspn(sha256, "0123456789abcdef") != n)
        return fb_fail(FB_USAGE, "sha256=%.80s: 64 digits of 0 to 9 and a to f",
                       sha256);
    memcpy(task->sha256, sha256, FB_HASH_HEX);
    return FB_OK;
}

/* The place of a parameter in the table, or -1. */
static int place_of(const fb_task *task, const char *key)
{
    for (int i = 0; task->params != NULL && task->params[i].name != NULL; i++)
        if (strcmp(task->params[i].name, key) == 0) return i;
    return -1;
}

static fb_status set(fb_bound_task *task, const char *key, const char *value)
{
    const int place = place_of(task->task, key);

    if (strcmp(key, "data") == 0) return set_data(task, value);
    if (strcmp(key, "sha256") == 0) return set_sha256(task, value);
    FB_ASSERT(place < MOST_PARAMS);
    if (place >= 0 && task->was_set[place])
        return fb_fail(FB_USAGE, "'%s' is given twice", key);
    FB_TRY(fb_params_set(task->task->params, task->values, key, value));
    task->was_set[place] = true;
    return FB_OK;
}

fb_status fb_bound_task_set(fb_bound_task *task, const char *key, const char *value)
{
    return fb_context(set(task, key, value), "task '%s'", task->task->name);
}

fb_status fb_bound_task_check(const fb_bound_task *task)
{
    if (task->task->data == FB_DATA_NEEDED && task->data == NULL)
        return fb_fail(FB_USAGE, "task '%s': data is missing; data=PATH names the file",
                       task->task->name);
    if (task->sha256[0] != 0 && task->data == NULL)
        return fb_fail(FB_USAGE, "task '%s': sha256 is that of data, which is missing",
                       task->task->name);
    return FB_OK;
}

/* A file by its path, else a text of the library by its name: as tasks are lent it. */
static fb_status hash_data(const char *data, char out[FB_HASH_HEX])
{
    const fb_library_text *known = fb_library_find(data);
    const fb_status status = fb_hash_file(data, out);

    if (status != FB_NOT_FOUND || known == NULL) return status;
    fb_hash_bytes(known->text, strlen(known->text), out);
    return FB_OK;
}

fb_status fb_bound_task_bind_data(fb_bound_task *task)
{
    const char *name = task->task->name;
    char found[FB_HASH_HEX];

    if (task->data == NULL) return FB_OK;
    FB_TRY(fb_context(hash_data(task->data, found), "task '%s': '%.300s'", name,
                      task->data));
    if (task->sha256[0] != 0 && strcmp(task->sha256, found) != 0)
        return fb_fail(FB_USAGE,
                       "task '%s': sha256 is %.12s..., but the data '%.300s' has "
                       "%.12s...",
                       name, task->sha256, task->data, found);
    memcpy(task->sha256, found, sizeof found);
    return FB_OK;
}

fb_status fb_bound_task_check_data(const fb_bound_task *task)
{
    const char *name = task->task->name;
    char found[FB_HASH_HEX];

    if (task->data == NULL || task->sha256[0] == 0) return FB_OK;
    FB_TRY(fb_context(hash_data(task->data, found), "task '%s': '%.300s'", name,
                      task->data));
    if (strcmp(task->sha256, found) == 0) return FB_OK;
    return fb_fail(FB_IO,
                   "task '%s': the data '%.300s' changed while it was read; run again "
                   "when nobody writes to it",
                   name, task->data);
}

/* --- expressions --- */

/* Sets the pairs of "key=value,key=value", which is cut up. */
static fb_status set_pairs(fb_bound_task *task, char *pairs)
{
    for (char *next = pairs; next != NULL;) {
        char *pair = next, *comma = strchr(pair, ','), *equals;

        next = comma == NULL ? NULL : comma + 1;
        if (comma != NULL) *comma = 0;
        equals = strchr(pair, '=');
        if (equals == NULL)
            return fb_fail(FB_USAGE, "task '%s': '%.80s' is not key=value",
                           task->task->name, pair);
        *equals = 0;
        FB_TRY(fb_bound_task_set(task, pair, equals + 1));
    }
    return FB_OK;
}

fb_status fb_task_parse(fb_bound_task **out, const char *expression)
{
    char *copy = fb_strdup(expression), *colon;
    fb_bound_task *task = NULL;
    fb_status status;

    *out = NULL;
    if (copy == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a task");
    colon = strchr(copy, ':');
    if (colon != NULL) *colon = 0;
    status = fb_task_bind(&task, copy);
    if (status == FB_OK && colon != NULL) status = set_pairs(task, colon + 1);
    if (status == FB_OK) status = fb_bound_task_check(task);
    if (status != FB_OK) {
        fb_bound_task_free(task);
        task = NULL;
    }
    fb_free(copy);
    *out = task;
    return status;
}

void fb_bound_task_free(fb_bound_task *task)
{
    if (task == NULL) return;
    fb_free(task->values);
    fb_free(task->data);
    fb_free(task);
}

/* --- what it is --- */

const fb_task *fb_bound_task_get(const fb_bound_task *task)
{
    return task->task;
}

const void *fb_bound_task_values(const fb_bound_task *task)
{
    return task->values;
}

const char *fb_bound_task_data(const fb_bound_task *task)
{
    return task->data;
}

const char *fb_bound_task_data_sha256(const fb_bound_task *task)
{
    return task->sha256;
}

bool fb_bound_task_is_default(const fb_bound_task *task, const char *key)
{
    const int place = place_of(task->task, key);

    return place >= 0 && !task->was_set[place];
}

const fb_metric *fb_bound_task_metric(const fb_bound_task *task)
{
    const int place = place_of(task->task, "metric");
    const fb_metric *metric = NULL;
    fb_text name;

    fb_text_init(&name, 0);
    if (place >= 0)
        fb_param_print_value(&task->task->params[place], task->values, &name);
    metric = fb_metric_find(fb_text_string(&name));
    fb_text_clear(&name);
    if (metric == NULL) metric = fb_metric_find(task->task->metric);
    FB_ASSERT(metric != NULL);
    return metric;
}

void fb_bound_task_print(const fb_bound_task *task, fb_text *out)
{
    const fb_param *rows = task->task->params;

    fb_text_puts(out, task->task->name);
    if (rows != NULL && rows->name != NULL) fb_text_puts(out, ":");
    fb_params_print(rows, task->values, out);
}

void fb_bound_task_print_json(const fb_bound_task *task, fb_text *out)
{
    fb_params_print_json(task->task->params, task->values, out);
}
