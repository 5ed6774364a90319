/* task_env.h - an environment for tasks without a model: a small tokenizer, a list.
 *
 * Tokens: up to five letters with one space before them, a digit, anything else a byte.
 * Like a real vocabulary, it makes a word one or more tokens and a space none. In
 * `by_character` mode every byte is a token.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TESTS_TASK_ENV_H
#define FB_TESTS_TASK_ENV_H

#include "base/memory.h"
#include "task/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENV_MOST = 512, ENV_PROBES = 8 };

typedef struct env_probe {
    char *key, *question, *prefix, *answer, *metric;
    int n_references;
    bool continues;
    int64_t max_tokens;
    fb_byte_span evidence;
    int n_evidence;
    double depth;
} env_probe;

typedef struct env_document {
    char *key, *group, *context;
    env_probe probes[ENV_PROBES];
    int n_probes;
} env_document;

typedef struct env_list {
    env_document documents[ENV_MOST];
    int n;
    char last_reject[1024];
    char notes[2048]; /* a line each */
    int n_rejected, n_skipped;
    bool refuses, by_character;
} env_list;

static char *env_copy(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

static bool env_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t env_token(const env_list *list, const char *text)
{
    size_t n = text[0] == ' ' && env_is_letter(text[1]) ? 1 : 0;

    if (list->by_character) return 1;
    if (!env_is_letter(text[n])) return 1;
    for (int i = 0; i < 5 && env_is_letter(text[n]); i++)
        n++;
    return n;
}

static fb_status env_count(void *self, const char *text, int64_t *out)
{
    for (*out = 0; *text != 0; ++*out)
        text += env_token(self, text);
    return FB_OK;
}

static fb_status env_cut(void *self, const char *text, int64_t tokens, size_t *out)
{
    for (*out = 0; tokens > 0 && text[*out] != 0; tokens--)
        *out += env_token(self, text + *out);
    return FB_OK;
}

static fb_status env_emit(void *self, const fb_document *from)
{
    env_list *list = self;
    env_document *to = &list->documents[list->n++];

    if (list->n > ENV_MOST || from->n_probes > ENV_PROBES) abort();
    *to = (env_document){.key = env_copy(from->key),
                         .group = env_copy(from->group),
                         .context = env_copy(from->context),
                         .n_probes = from->n_probes};
    for (int i = 0; i < from->n_probes; i++) {
        const fb_probe *probe = &from->probes[i];

        to->probes[i] = (env_probe){
            .key = env_copy(probe->key),
            .question = env_copy(probe->question),
            .prefix = env_copy(probe->answer_prefix),
            .answer = env_copy(probe->references[0]),
            .metric = env_copy(probe->metric),
            .n_references = probe->n_references,
            .continues = probe->continues,
            .max_tokens = probe->max_tokens,
            .n_evidence = probe->n_evidence,
            .depth = probe->depth,
        };
        if (probe->n_evidence > 0) to->probes[i].evidence = probe->evidence[0];
    }
    return FB_OK;
}

static fb_status env_reject(void *self, const char *sentence)
{
    env_list *list = self;

    list->n_rejected++;
    (void)snprintf(list->last_reject, sizeof list->last_reject, "%s", sentence);
    return list->refuses ? fb_fail(FB_FORMAT, "%s", list->last_reject) : FB_OK;
}

static void env_skip(void *self, const char *sentence)
{
    env_list *list = self;

    list->n_skipped++;
    (void)snprintf(list->last_reject, sizeof list->last_reject, "%s", sentence);
}

static void env_note(void *self, const char *sentence)
{
    env_list *list = self;
    const size_t n = strlen(list->notes);

    (void)snprintf(list->notes + n, sizeof list->notes - n, "%s\n", sentence);
}

static fb_task_env env_of(env_list *list)
{
    return (fb_task_env){.self = list,
                         .seed = 1,
                         .template_tokens = 24,
                         .count = env_count,
                         .cut = env_cut,
                         .emit = env_emit,
                         .reject = env_reject,
                         .skip = env_skip,
                         .note = env_note};
}

static void env_clear(env_list *list)
{
    for (int i = 0; i < list->n; i++) {
        env_document *document = &list->documents[i];

        for (int k = 0; k < document->n_probes; k++) {
            free(document->probes[k].key);
            free(document->probes[k].question);
            free(document->probes[k].prefix);
            free(document->probes[k].answer);
            free(document->probes[k].metric);
        }
        free(document->key);
        free(document->group);
        free(document->context);
    }
    *list = (env_list){.refuses = list->refuses, .by_character = list->by_character};
}

/* Makes the documents of `expression` with `env`, which collects them in its list. */
static fb_status env_make(const fb_task_env *env, const char *expression)
{
    fb_bound_task *task = NULL;
    fb_status status = fb_task_parse(&task, expression);

    if (status == FB_OK) status = fb_task_make(task, env);
    fb_bound_task_free(task);
    return status;
}

#endif
