/* task.h - what a benchmark task is: for those who write one.
 *
 * A task makes *documents*: a context that is read once, and *probes* on it, each a
 * question with the answers that count as right. Nothing after the task knows which
 * benchmark a document came from. Two tasks that make the same context share its one
 * reading.
 *
 * The text of a prompt is   template-before | context | question | template-after |
 * answer_prefix   and then the answer. The part up to the end of the context is read
 * and evicted; question, template-after and answer_prefix are tokenised on their own. A
 * probe with `continues` has no question: its reference follows the context directly,
 * the first token of it is input only.
 *
 * A task sees a tokenizer and seeded random numbers through `fb_task_env`, nothing
 * else. It owns nothing: what it hands to `emit` is copied.
 *
 * One file in tasks/, one line in tasks/list.h; tasks/template.c is one to copy.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_TASK_H
#define FLEXBUDGET_TASK_H

#include <flexbudget/error.h>
#include <flexbudget/rule.h> /* parameter tables */

enum { FB_TASK_ABI = 1, FB_MAX_NEEDLES = 16 };

/* A range of bytes of the context that holds an answer. */
typedef struct fb_byte_span {
    size_t begin, end;
} fb_byte_span;

typedef struct fb_probe {
    const char *key;      /* unique in the task, stable: "17" or "17/emerald-lamp" */
    const char *question; /* "" if none */
    const char *answer_prefix;     /* start of the model's own turn; "" if none */
    const char *const *references; /* accepted answers; the first is teacher-forced */
    int n_references;
    bool continues;     /* references[0] is the text right after the context */
    int64_t max_tokens; /* limit of a free answer; of a continuation: scored tokens */
    const char *metric; /* NULL: the task's; a name of the metric table */
    const char *const *stop; /* extra strings that end a free answer */
    int n_stop;
} fb_probe;

typedef struct fb_document {
    const char *key; /* unique in the task, stable over --samples */
    const char
        *group; /* documents that share text and are resampled together; NULL: own */
    const char *context; /* UTF-8, not empty unless the model has a BOS */
    fb_byte_span needles[FB_MAX_NEEDLES];
    int n_needles;
    double depth;   /* place of the needle, 0 to 1; -1: does not apply */
    int64_t length; /* tokens aimed at; 0: does not apply */
    const fb_probe *probes;
    int n_probes;
} fb_document;

/* What the program lends to a task while it makes documents. */
typedef struct fb_task_env {
    void *self;
    int64_t
        samples; /* at most so many documents; the first N of a fixed order. 0: all */
    uint64_t seed;
    /* Tokens of `text` as the model counts them, no special tokens added. */
    fb_status (*count)(void *self, const char *text, int64_t *out);
    /* The longest prefix of `text` of at most `tokens` tokens: its bytes. */
    fb_status (*cut)(void *self, const char *text, int64_t tokens, size_t *bytes_out);
    /* Tokens that the template puts before the context and after the question. */
    int64_t template_tokens;
    /* A text of the library of public-domain texts (`name` as in data/texts) or of a
     * file; lent until the run ends. NULL name: the i-th haystack text. */
    fb_status (*text)(void *self, const char *name, int index, const char **out);
    /* Hands a finished document on; everything is copied. FB_STOPPED: enough, return
     * it. */
    fb_status (*emit)(void *self, const fb_document *document);
    /* A record that cannot be used: counted and reported. Fails if bad records are
     * refused.
     */
    fb_status (*reject)(void *self, const char *sentence);
} fb_task_env;

typedef struct fb_task {
    int abi;     /* FB_TASK_ABI */
    size_t size; /* sizeof(fb_task) */
    const char *name;
    const char *summary;
    const char *source;
    int version;        /* changes when documents or scores change */
    const char *metric; /* the primary one; see src/task/metrics.h */
    const fb_param *params;
    size_t params_bytes;
    bool needs_data; /* reads `data`: a path given by the user */
    fb_status (*make)(const fb_task_env *env, const void *params, const char *data);
} fb_task;

#define FB_TASK_HEAD .abi = FB_TASK_ABI, .size = sizeof(fb_task)

/* Seeded numbers for tasks: xoshiro256**, seeded by splitmix64 of (seed, stream). */
typedef struct fb_random {
    uint64_t state[4];
} fb_random;

void fb_random_seed(fb_random *random, uint64_t seed, uint64_t stream);
uint64_t fb_random_below(fb_random *random, uint64_t n); /* uniform in [0, n), n > 0 */
double fb_random_real(fb_random *random);                /* uniform in [0, 1) */

#endif
