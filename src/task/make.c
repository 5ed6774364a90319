/* make.c - lets a task make its documents and checks each one.
 *
 * The task gets an environment of ours: texts come from the library or are its data,
 * which lives until the task returns, and a document passes the checks below before the
 * caller sees it. Front doors check, insides trust: nothing behind here asks again.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/file.h"
#include "base/index.h"
#include "base/memory.h"
#include "task/points.h"
#include "task/task.h"

#include <string.h>
#include <utf8proc.h>

static const size_t MOST_DATA_BYTES = (size_t)1 << 30;

struct making {
    const fb_task_env *outer;
    const fb_bound_task *task;
    char *data;                         /* NULL: not read yet */
    fb_index document_keys, probe_keys; /* hashes of those that were used */
    int64_t n_documents, n_rejected;
};

/* --- unique keys --- */

/* FNV-1a, 64 bits: among a million keys two agree by chance in 1 of 40 million runs. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = 0xCBF29CE484222325u;

    for (; *key != 0; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001B3u;
    return hash;
}

static fb_status use_key(fb_index *keys, const char *what, const char *key)
{
    if (fb_index_has(keys, hash_of(key)))
        return fb_fail(FB_FORMAT,
                       "the key '%.80s' of a %s was used before; keys are "
                       "unique",
                       key, what);
    return fb_index_add(keys, hash_of(key), 0);
}

/* --- checks --- */

static fb_status check_text(const char *what, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t left = text == NULL ? 0 : strlen(text);

    while (left > 0) {
        utf8proc_int32_t point;
        const utf8proc_ssize_t n = utf8proc_iterate(at, (utf8proc_ssize_t)left, &point);

        if (n <= 0)
            return fb_fail(FB_FORMAT, "the %s is not UTF-8 at byte %zu", what,
                           (size_t)(at - (const uint8_t *)text));
        at += n;
        left -= (size_t)n;
    }
    return FB_OK;
}

static fb_status check_key(const char *what, const char *key)
{
    if (key == NULL || key[0] == 0)
        return fb_fail(FB_FORMAT, "the key of a %s is empty", what);
    return check_text(what, key);
}

static fb_status check_strings(const char *what, const char *const *strings, int n)
{
    for (int i = 0; i < n; i++) {
        if (strings[i] == NULL || strings[i][0] == 0)
            return fb_fail(FB_FORMAT, "%s %d is empty", what, i + 1);
        FB_TRY(check_text(what, strings[i]));
    }
    return FB_OK;
}

/* White space around an answer does not count, so one of nothing else is in every
 * text. */
static fb_status check_answers(const char *const *answers, int n)
{
    FB_TRY(check_strings("answer", answers, n));
    for (int i = 0; i < n; i++) {
        fb_points points;
        bool is_blank;

        FB_TRY(fb_points_read(&points, answers[i]));
        is_blank = fb_points_strip(points).n == 0;
        fb_points_clear(&points);
        if (is_blank)
            return fb_fail(FB_FORMAT, "answer %d is nothing but white space", i + 1);
    }
    return FB_OK;
}

static fb_status check_evidence(const fb_probe *probe, size_t n_context)
{
    if (probe->n_evidence > FB_MAX_EVIDENCE)
        return fb_fail(FB_FORMAT, "%d spans of evidence; at most %d", probe->n_evidence,
                       FB_MAX_EVIDENCE);
    for (int i = 0; i < probe->n_evidence; i++) {
        const fb_byte_span *span = &probe->evidence[i];

        if (span->begin >= span->end || span->end > n_context)
            return fb_fail(FB_FORMAT,
                           "evidence %zu to %zu lies outside the context of "
                           "%zu bytes",
                           span->begin, span->end, n_context);
    }
    return FB_OK;
}

static fb_status check_metric(const fb_probe *probe, const fb_metric *of_task)
{
    const fb_metric *metric =
        probe->metric == NULL ? of_task : fb_metric_find(probe->metric);

    if (metric == NULL)
        return fb_fail(FB_FORMAT, "unknown metric '%.80s'", probe->metric);
    if (metric->kind == FB_METRIC_RECORD)
        return fb_fail(FB_FORMAT, "no metric is given");
    if (strcmp(metric->unit, of_task->unit) != 0)
        return fb_fail(FB_FORMAT,
                       "the metric '%s' is a %s, the task's metric '%s' a %s; one "
                       "table has one unit",
                       metric->name, metric->unit, of_task->name, of_task->unit);
    if (strcmp(metric->name, "class") == 0 && probe->n_classes == 0)
        return fb_fail(FB_FORMAT, "the metric 'class' needs the names of all classes");
    return FB_OK;
}

static fb_status check_probe(const fb_probe *probe, const fb_metric *of_task,
                             size_t n_context)
{
    FB_TRY(check_key("probe", probe->key));
    FB_TRY(check_text("question", probe->question));
    FB_TRY(check_text("answer prefix", probe->answer_prefix));
    if (probe->n_references < 1) return fb_fail(FB_FORMAT, "there is no answer");
    if (probe->max_tokens < 1) return fb_fail(FB_FORMAT, "an answer of 0 tokens");
    FB_TRY(check_answers(probe->references, probe->n_references));
    FB_TRY(check_strings("stop string", probe->stop, probe->n_stop));
    FB_TRY(check_strings("class name", probe->classes, probe->n_classes));
    FB_TRY(check_evidence(probe, n_context));
    if (!(probe->depth == -1 || (probe->depth >= 0 && probe->depth <= 1)))
        return fb_fail(FB_FORMAT, "a depth of %g; 0 to 1, or -1", probe->depth);
    return check_metric(probe, of_task);
}

static fb_status check(struct making *making, const fb_document *document)
{
    const fb_metric *metric = fb_bound_task_metric(making->task);
    const char *context = document->context;

    FB_TRY(check_key("document", document->key));
    FB_TRY(check_text("group", document->group));
    FB_TRY(check_text("context", context));
    if (context == NULL) return fb_fail(FB_FORMAT, "there is no context");
    if (context[0] == 0 && making->outer->template_tokens == 0)
        return fb_fail(FB_FORMAT, "the context is empty, and this model has neither a "
                                  "BOS nor a template to stand for it");
    if (document->n_probes < 1) return fb_fail(FB_FORMAT, "there is no question");
    for (int i = 0; i < document->n_probes; i++) {
        FB_TRY(check_probe(&document->probes[i], metric, strlen(context)));
        if (fb_index_has(&making->probe_keys, hash_of(document->probes[i].key)))
            return use_key(&making->probe_keys, "probe", document->probes[i].key);
    }
    FB_TRY(use_key(&making->document_keys, "document", document->key));
    for (int i = 0; i < document->n_probes; i++)
        FB_TRY(use_key(&making->probe_keys, "probe", document->probes[i].key));
    return FB_OK;
}

/* --- the environment of the task --- */

static fb_status count(void *self, const char *text, int64_t *out)
{
    const fb_task_env *outer = ((struct making *)self)->outer;

    return outer->count(outer->self, text, out);
}

static fb_status cut(void *self, const char *text, int64_t tokens, size_t *bytes_out)
{
    const fb_task_env *outer = ((struct making *)self)->outer;

    return outer->cut(outer->self, text, tokens, bytes_out);
}

/* The data, a file before a text of the library: the order in which it is hashed. */
static fb_status lend_data(struct making *making, const char *data, const char **out)
{
    const fb_library_text *known = fb_library_find(data);
    fb_status status;
    size_t n;

    if (making->data != NULL) {
        *out = making->data;
        return FB_OK;
    }
    status = fb_file_read(&making->data, &n, data, MOST_DATA_BYTES);
    if (status == FB_NOT_FOUND && known != NULL) {
        *out = known->text;
        return FB_OK;
    }
    FB_TRY(status);
    if (strlen(making->data) != n)
        return fb_fail(FB_FORMAT, "byte %zu is zero; this is not a text",
                       strlen(making->data));
    FB_TRY(check_text("file", making->data));
    *out = making->data;
    return FB_OK;
}

/* Nothing else is part of an experiment's identity, so nothing else is lent. */
static fb_status lend_text(void *self, const char *name, const char **out)
{
    struct making *making = self;
    const char *data = fb_bound_task_data(making->task);
    const fb_library_text *known = fb_library_find(name);

    *out = NULL;
    if (data != NULL && strcmp(name, data) == 0)
        return fb_context(lend_data(making, data, out), "'%.300s'", data);
    if (known == NULL)
        return fb_fail(FB_DEFECT, "a task reads '%.300s', which is not its data", name);
    *out = known->text;
    return FB_OK;
}

static fb_status emit(void *self, const fb_document *document)
{
    struct making *making = self;
    const fb_task_env *outer = making->outer;

    FB_TRY(check(making, document));
    FB_TRY(outer->emit(outer->self, document));
    making->n_documents++;
    if (outer->samples > 0 && making->n_documents == outer->samples)
        return fb_fail(FB_STOPPED, "enough documents");
    return FB_OK;
}

static fb_status reject(void *self, const char *sentence)
{
    struct making *making = self;

    making->n_rejected++;
    return making->outer->reject(making->outer->self, sentence);
}

static void skip(void *self, const char *sentence)
{
    struct making *making = self;

    making->n_rejected++;
    if (making->outer->skip != NULL) making->outer->skip(making->outer->self, sentence);
}

static void note(void *self, const char *sentence)
{
    const struct making *making = self;

    if (making->outer->note != NULL) making->outer->note(making->outer->self, sentence);
}

static fb_status judge(const struct making *making, fb_status status)
{
    const fb_task *task = fb_bound_task_get(making->task);
    const bool is_enough =
        making->outer->samples > 0 && making->n_documents >= making->outer->samples;

    if (status == FB_STOPPED && is_enough) return FB_OK;
    if (status == FB_OK && making->n_documents + making->n_rejected == 0 &&
        task->fields != NULL)
        return fb_fail(FB_FORMAT,
                       "task '%s': no record in '%.300s'\n"
                       "help: flexbudget tasks %s shows how one is written",
                       task->name, fb_bound_task_data(making->task), task->name);
    if (status == FB_OK && making->n_documents == 0)
        status = fb_fail(FB_FORMAT, "no document; %lld %s rejected or skipped",
                         (long long)making->n_rejected,
                         fb_plural(making->n_rejected, "record was", "records were"));
    if (status == FB_FORMAT && task->data == FB_DATA_NONE)
        return fb_context(FB_DEFECT, "task '%s' broke a promise", task->name);
    return fb_context(status, "task '%s'", task->name);
}

fb_status fb_task_make(const fb_bound_task *task, const fb_task_env *env)
{
    const fb_task *definition = fb_bound_task_get(task);
    struct making making = {.outer = env, .task = task};
    fb_task_env inner = *env;
    fb_status status = fb_bound_task_check(task);

    if (status != FB_OK) return status;
    FB_ASSERT(env->count != NULL && env->cut != NULL);
    FB_ASSERT(env->emit != NULL && env->reject != NULL);
    inner.self = &making;
    inner.count = count;
    inner.cut = cut;
    inner.text = lend_text;
    inner.emit = emit;
    inner.reject = reject;
    inner.skip = skip;
    inner.note = note;
    status =
        definition->make(&inner, fb_bound_task_values(task), fb_bound_task_data(task));
    status = judge(&making, status);
    fb_free(making.data);
    fb_index_clear(&making.document_keys);
    fb_index_clear(&making.probe_keys);
    return status;
}
