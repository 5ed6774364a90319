/* task.h - tasks by name, with their parameters; what they make is checked here.
 *
 * A bound task is a task with the values of its parameters and, where it reads one, the
 * path and the hash of its data. It is made from an expression `name:key=value,...` or from its name
 * and pairs; both are checked the same way. Its canonical text has every parameter in
 * declared order with defaults written out: it is stored and hashed.
 *
 * Promises: every document that leaves fb_task_make has unique keys, UTF-8, at least
 * one probe with an answer, spans inside its context, known metrics. Must never: know
 * models, rules, engines.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TASK_TASK_H
#define FB_TASK_TASK_H

#include "base/text.h"
#include "task/metrics.h"

#include <flexbudget/task.h>

int fb_task_count(void);
const fb_task *fb_task_at(int index);
const fb_task *fb_task_find(const char *name); /* NULL if there is none */

typedef struct fb_bound_task fb_bound_task;

/* "needle", "needle:length=1024,keys=4", "jsonl:data=own.jsonl,metric=f1". FB_USAGE:
 * unknown task or key (with the nearest), value out of range, a key given twice, data
 * missing or not taken. A path with a comma in it needs the steps below. */
FB_MUST_USE fb_status fb_task_parse(fb_bound_task **out, const char *expression);

/* The same in steps: bind, set each pair ("data" is one, "sha256" of it another),
 * check. */
FB_MUST_USE fb_status fb_task_bind(fb_bound_task **out, const char *name);
FB_MUST_USE fb_status fb_bound_task_set(fb_bound_task *task, const char *key,
                                        const char *value);
FB_MUST_USE fb_status fb_bound_task_check(const fb_bound_task *task);
/* Hashes the data, once; nothing to do without. FB_USAGE if another `sha256` was given;
 * FB_NOT_FOUND, FB_FORMAT, FB_IO if the data cannot be read. */
FB_MUST_USE fb_status fb_bound_task_bind_data(fb_bound_task *task);
/* FB_IO if the data is no longer what was bound: ask when the documents are made. */
FB_MUST_USE fb_status fb_bound_task_check_data(const fb_bound_task *task);
/* For tests: binds a task that is in no list. */
FB_MUST_USE fb_status fb_task_bind_unlisted(fb_bound_task **out, const fb_task *task);
void fb_bound_task_free(fb_bound_task *task); /* takes NULL */

const fb_task *fb_bound_task_get(const fb_bound_task *task);
const void *fb_bound_task_values(const fb_bound_task *task); /* its params struct */
const char *fb_bound_task_data(const fb_bound_task *task);   /* NULL if none */
/* Of the data: as it was given, then as found by fb_bound_task_bind_data; "" if none. */
const char *fb_bound_task_data_sha256(const fb_bound_task *task);
/* The metric that decides: the one named by the parameter `metric` if the task has it
 * and it names one, else the task's. */
const fb_metric *fb_bound_task_metric(const fb_bound_task *task);
/* True if the task has the parameter `key` and it was not set. So a general limit on
 * documents can become the `samples` of a task that was not given its own. */
bool fb_bound_task_is_default(const fb_bound_task *task, const char *key);
/* "needle:length=512,samples=12,..." and {"length": 512, ...}; both without the
 * data and its hash. */
void fb_bound_task_print(const fb_bound_task *task, fb_text *out);
void fb_bound_task_print_json(const fb_bound_task *task, fb_text *out);

/* Makes the documents. `env` lends all but `text`, which is provided here; `skip` may be
 * missing (then skips are counted in the failure alone), and so may `note`; at most
 * env->samples documents reach env->emit, and reaching that number is success. A
 * document that breaks a promise is FB_FORMAT to the task, which may reject its record;
 * a task that passes it on has a defect, unless it reads data. No document at all is
 * FB_FORMAT. */
FB_MUST_USE fb_status fb_task_make(const fb_bound_task *task, const fb_task_env *env);

#endif
