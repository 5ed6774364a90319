/* task.h - what a benchmark task is: for those who write one.
 *
 * A task makes *documents*: a context that is read once, and *probes* on it, each a
 * question with the answers that count as right. Nothing after the task knows which
 * benchmark a document came from. Two documents with the same context share its one
 * reading, also when they come from two tasks.
 *
 * The text of a prompt is
 *
 *     template-before | context | question | template-after | answer_prefix | answer
 *
 * The part up to the end of the context is read and evicted; question, template-after
 * and answer_prefix are tokenised on their own. A probe with `continues` has no
 * question and no template-after: its reference is the text right after the context,
 * the first token of it is input only.
 *
 * A task sees what fb_task_env lends and the helpers at the end of this file, nothing
 * else. It owns nothing that outlives `make`: what it hands to `emit` is copied. The
 * same environment always gives the same documents.
 *
 * One file in tasks/, one line in tasks/list.h; tasks/template.c is one to copy.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_TASK_H
#define FLEXBUDGET_TASK_H

#include <flexbudget/error.h>
#include <flexbudget/rule.h> /* parameter tables */

enum { FB_TASK_ABI = 2, FB_MAX_EVIDENCE = 16, FB_MAX_STRINGS = 256 };

/* A range of bytes of the context. */
typedef struct fb_byte_span {
    size_t begin, end;
} fb_byte_span;

/* A question on a context. Texts are UTF-8; what is zero is "none". */
typedef struct fb_probe {
    const char *key;      /* unique in the task, stable: "17" or "17/emerald-lamp" */
    const char *question; /* with the separator from the context in front */
    const char *answer_prefix;     /* start of the model's own turn */
    const char *const *references; /* accepted answers, none of them only white space;
                                      the first is teacher-forced */
    int n_references;              /* at least 1 */
    bool continues;     /* references[0] is the text right after the context */
    int64_t max_tokens; /* limit of a free answer; of a continuation: scored tokens */
    const char *metric; /* NULL: the task's; a name of the metric table */
    const char *const *stop; /* extra strings that end a free answer */
    int n_stop;
    const char *const *classes; /* class names, for the metrics that need them */
    int n_classes;
    const fb_byte_span *evidence; /* where the context holds the answer */
    int n_evidence;
    double depth; /* place of the evidence, 0 to 1; -1: does not apply */
} fb_probe;

typedef struct fb_document {
    const char *key;     /* unique in the task, stable */
    const char *group;   /* documents resampled together; NULL: on its own */
    const char *context; /* UTF-8; empty only where the template writes something */
    int64_t length;      /* tokens aimed at, as fb_reading counts; 0: does not apply */
    const fb_probe *probes;
    int n_probes; /* at least 1 */
} fb_document;

/* What the program lends to a task while it makes documents. */
typedef struct fb_task_env {
    void *self;
    int64_t samples; /* stop after so many documents: the first of the order; 0: all */
    uint64_t seed;
    /* Tokens before the context: BOS and template. They count towards a length. */
    int64_t template_tokens;
    /* Tokens of `text` as the model counts them, no special tokens added. */
    fb_status (*count)(void *self, const char *text, int64_t *out);
    /* Bytes of the longest beginning of `text` that is at most `tokens` tokens. It may
     * end inside a word or a character. */
    fb_status (*cut)(void *self, const char *text, int64_t tokens, size_t *bytes_out);
    /* The data, or a text of the library by its name; lent until `make` returns. There
     * is no other: an experiment is told from another one by the hash of the data. */
    fb_status (*text)(void *self, const char *name, const char **out);
    /* Hands a finished document on; everything is copied. FB_STOPPED: enough, return
     * it. FB_FORMAT: this document breaks a promise; data of a user goes to `reject`.
     */
    fb_status (*emit)(void *self, const fb_document *document);
    /* A record that cannot be used, with the reason: counted and reported. Fails where
     * bad records are refused: return what it returns. */
    fb_status (*reject)(void *self, const char *sentence);
    /* A document that is well-formed but of no use here, say too short: counted and
     * reported, never a failure. */
    void (*skip)(void *self, const char *sentence);
    /* Something about the data that its owner should know, though it is used. */
    void (*note)(void *self, const char *sentence);
} fb_task_env;

typedef enum fb_data_use { FB_DATA_NONE, FB_DATA_OPTIONAL, FB_DATA_NEEDED } fb_data_use;

/* A field of the records that a task reads: what it is called, and what for. */
typedef struct fb_field {
    const char *names;  /* synonyms, "key|id"; NULL: the end of the table */
    const char *type;   /* "text", "text or list of texts" */
    const char *needed; /* "yes", "no", or when */
    const char *help;   /* one line */
} fb_field;

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
    fb_data_use data; /* whether it reads `data`, a path given by the user */
    fb_status (*make)(const fb_task_env *env, const void *params, const char *data);
    const fb_field *fields; /* of its records; NULL: it reads none */
    const char *example;    /* a record, one line of JSON; NULL: none */
} fb_task;

#define FB_TASK_HEAD .abi = FB_TASK_ABI, .size = sizeof(fb_task)

/* --- seeded numbers ---
 * xoshiro256**, seeded by splitmix64 of (seed, stream). A task takes one stream per
 * document and purpose, so that one document more never shifts another. */

typedef struct fb_random {
    uint64_t state[4];
} fb_random;

void fb_random_seed(fb_random *random, uint64_t seed, uint64_t stream);
uint64_t fb_random_below(fb_random *random, uint64_t n); /* uniform in [0, n), n > 0 */
double fb_random_real(fb_random *random);                /* uniform in [0, 1) */

/* --- the library of texts ---
 * Public-domain texts and word lists inside the program: data/texts/README.md. */

typedef struct fb_library_text {
    const char *name;  /* "austen_emma" */
    const char *title; /* "Jane Austen, Emma" */
    const char *text;  /* UTF-8, ends in a zero byte */
    bool is_haystack;  /* running text that hides needles well */
} fb_library_text;

int fb_library_count(void);
const fb_library_text *fb_library_at(int index);
const fb_library_text *fb_library_find(const char *name); /* NULL if there is none */
/* A word of a list with one word per line, drawn from `random`, into `out` [n]. */
void fb_library_word(const char *list, fb_random *random, char *out, size_t n);

/* --- a haystack with needles ---
 * Running text of the library, from a random sentence on, with sentences that tell a
 * secret put in at given depths, cut at the last word with which the whole context has
 * at most `length` tokens. Tasks that use it share their contexts. */

typedef enum fb_secret { FB_SECRET_NUMBER, FB_SECRET_WORD, FB_SECRET_UUID } fb_secret;
#define FB_SECRET_WORDS "number|word|uuid"
enum { FB_MAX_NEEDLES = 4 };

typedef struct fb_haystack_options {
    int64_t length;    /* tokens of the context, with env->template_tokens */
    int64_t documents; /* document i of n has its needle at depth (stratum + 1/2) / n */
    int64_t depths;    /* 0: as above; d: one of the d depths 0 ... 1 in turn */
    int64_t keys;      /* needles per document; 0: plain text without an introduction */
    fb_secret secret;
    int64_t after; /* tokens of running text wanted right behind the context */
} fb_haystack_options;

typedef struct fb_needle {
    char kind[8];      /* "number", "word", "code": as the sentences call it */
    char key[64];      /* "emerald-lamp" */
    char value[64];    /* "4812093" */
    fb_byte_span span; /* of the needle's sentence in the context */
    double depth;      /* aimed at, 0 to 1 */
} fb_needle;

/* Lent until the next document or the end of the haystack. */
typedef struct fb_hay {
    const char *context;
    const char *after; /* whole words, more than options.after tokens; "" if 0 */
    size_t n_used;     /* bytes of running text in both */
    const fb_needle *needles;
    int n_needles;
} fb_hay;

typedef struct fb_haystack fb_haystack;

/* FB_USAGE if `length` is too short for the needles and some text: names the smallest
 * length at which all documents fit. `env` is lent until the close. */
FB_MUST_USE fb_status fb_haystack_open(fb_haystack **out, const fb_task_env *env,
                                       const fb_haystack_options *options);
void fb_haystack_close(fb_haystack *haystack); /* takes NULL */
FB_MUST_USE fb_status fb_haystack_document(fb_haystack *haystack, int64_t i,
                                           const fb_hay **out);
/* The same from the beginning of `text` [n], a text of the user's, without needles
 * (keys = 0). NULL if it is too short. */
FB_MUST_USE fb_status fb_haystack_read(fb_haystack *haystack, const char *text,
                                       size_t n, const fb_hay **out);

/* --- records of a JSON Lines file ---
 * One object per line, read line by line. Blank lines, CRLF, a byte-order mark and a
 * missing last newline are fine. A line of more than 64 MiB is refused. */

typedef struct fb_records fb_records;
typedef struct fb_record fb_record; /* an object; lent until the next line */

FB_MUST_USE fb_status fb_records_open(fb_records **out, const char *path);
void fb_records_close(fb_records *records); /* takes NULL */
/* The next object; NULL at the end of the file. FB_FORMAT names file and physical line;
 * the next call then goes on behind that line. */
FB_MUST_USE fb_status fb_records_next(fb_records *records, const fb_record **out);
int64_t fb_records_line(const fb_records *records); /* of the last object; from 1 */

/* Memory that lives until the next line. */
FB_MUST_USE fb_status fb_records_room(fb_records *records, size_t size, void **out);

/* Fields of a record. `names` lists synonyms, "key|id": the first that is there counts;
 * null counts as not there. FB_FORMAT for a value of another kind. */

/* NULL if absent. */
FB_MUST_USE fb_status fb_record_string(const fb_record *record, const char *names,
                                       const char **out);
/* A string or a list of strings, at most FB_MAX_STRINGS; none if absent. */
FB_MUST_USE fb_status fb_record_strings(const fb_record *record, const char *names,
                                        const char *out[FB_MAX_STRINGS], int *n_out);
FB_MUST_USE fb_status fb_record_integer(const fb_record *record, const char *names,
                                        int64_t fallback, int64_t low, int64_t high,
                                        int64_t *out);
/* A string, or a whole number as its text, into `out` [n]; "" if absent. */
FB_MUST_USE fb_status fb_record_name(const fb_record *record, const char *names,
                                     char *out, size_t n);
/* Element `index` of a list of objects; NULL behind the last, or if there is no
 * list. */
FB_MUST_USE fb_status fb_record_element(const fb_record *record, const char *name,
                                        int index, const fb_record **out);

/* Tells `env` of the names in the last record that are none of `fields`: each once per
 * file, with the nearest; at most FB_MOST_UNKNOWN of them. */
enum { FB_MOST_UNKNOWN = 8 };
FB_MUST_USE fb_status fb_records_note_unknown(fb_records *records,
                                              const fb_field *fields,
                                              const fb_task_env *env);

/* --- texts of a user --- */

/* What belongs between `before` [n] and `after`: `separator` where neither end of the
 * seam has white space, else nothing. A question of one's own has "\n\n" in front. */
const char *fb_seam(const char *before, size_t n, const char *separator,
                    const char *after);

/* SHA-256 of a text in hex, for keys. */
enum { FB_TEXT_KEY = 65 };
void fb_text_key(const char *text, char out[FB_TEXT_KEY]);

#endif
