/* unlike.c - what keeps the numbers of two experiments apart, and what one was made with.
 *
 * Two experiments are never in one table. What they differ in is said all the same: a
 * reader puts numbers side by side where a program does not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "report/unlike.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 12 }; /* of a hash */

static const char *or_none(const char *word)
{
    return word == NULL || word[0] == '\0' ? "not said" : word;
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(or_none(a), or_none(b)) == 0;
}

static void begin_item(fb_text *out, size_t before)
{
    if (out->n > before) fb_text_puts(out, ", ");
}

/* --- words of the results --- */

static void add_words(fb_text *out, size_t before, const char *what, const char *a,
                      const char *b)
{
    if (is_same(a, b)) return;
    begin_item(out, before);
    fb_text_printf(out, "%s (%.80s / %.80s)", what, or_none(a), or_none(b));
}

static void add_hashes(fb_text *out, size_t before, const char *what, const char *a,
                       const char *b)
{
    if (is_same(a, b)) return;
    begin_item(out, before);
    fb_text_printf(out, "%s (%.*s / %.*s)", what, DIGITS, or_none(a), DIGITS,
                   or_none(b));
}

/* --- settings that the signature has no letter for --- */

/* The value behind "  key: " in a specification. */
static void find_setting(const char *spec, const char *key, char *out, size_t n)
{
    char line[64];
    const char *at;

    out[0] = '\0';
    (void)snprintf(line, sizeof line, "\n  %s: ", key);
    at = strstr(spec, line);
    if (at == NULL) return;
    at += strlen(line);
    (void)snprintf(out, n, "%.*s", (int)strcspn(at, "\n"), at);
}

static void add_settings(fb_text *out, size_t before, const fb_results *a,
                         const fb_results *b)
{
    static const char *const keys[] = {"template",  "bos",      "protect_question",
                                       "rounding",  "metadata", "decoding",
                                       "max_tokens"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char x[64], y[64];

        find_setting(a->spec, keys[i], x, sizeof x);
        find_setting(b->spec, keys[i], y, sizeof y);
        if (x[0] != '\0' && y[0] != '\0') add_words(out, before, keys[i], x, y);
    }
}

/* --- tasks of one name --- */

static void add_task(fb_text *out, size_t before, const fb_result_task *a,
                     const fb_result_task *b)
{
    if (a->version != b->version) {
        begin_item(out, before);
        fb_text_printf(out, "version of %s (%" PRId64 " / %" PRId64 ")", a->name,
                       a->version, b->version);
    }
    if (!is_same(a->metric, b->metric)) {
        begin_item(out, before);
        fb_text_printf(out, "metric of %s (%.40s / %.40s)", a->name, or_none(a->metric),
                       or_none(b->metric));
    }
    if (!is_same(a->params, b->params)) {
        begin_item(out, before);
        fb_text_printf(out, "parameters of %s", a->name);
    }
    if (!is_same(a->data_sha256, b->data_sha256)) {
        begin_item(out, before);
        fb_text_printf(out, "data of %s (%.*s / %.*s)", a->name, DIGITS,
                       or_none(a->data_sha256), DIGITS, or_none(b->data_sha256));
    }
}

static void add_tasks(fb_text *out, size_t before, const fb_results *a,
                      const fb_results *b)
{
    for (int i = 0; i < a->n_tasks; i++)
        for (int j = 0; j < b->n_tasks; j++)
            if (strcmp(a->tasks[i].name, b->tasks[j].name) == 0)
                add_task(out, before, &a->tasks[i], &b->tasks[j]);
}

/* --- the whole --- */

bool fb_say_unlike(fb_text *out, const fb_results *a, const fb_results *b)
{
    const size_t before = out->n;

    add_hashes(out, before, "model", a->model.sha256, b->model.sha256);
    add_hashes(out, before, "chat template", a->model.template_sha256,
               b->model.template_sha256);
    add_hashes(out, before, "tokenizer", a->model.tokenizer_sha256,
               b->model.tokenizer_sha256);
    add_words(out, before, "kernel", a->kernel, b->kernel);
    add_words(out, before, "protocol", a->protocol, b->protocol);
    add_words(out, before, "protection", a->protection, b->protection);
    add_words(out, before, "compute", a->compute, b->compute);
    add_words(out, before, "class", a->class_name, b->class_name);
    add_settings(out, before, a, b);
    add_tasks(out, before, a, b);
    add_words(out, before, "program", a->program, b->program);
    fb_say_clean(out, before);
    return out->n > before;
}

static void add_host(fb_text *out, const fb_results *r)
{
    fb_json *host = NULL;
    const char *isa;
    int64_t threads;

    if (r->host == NULL || fb_json_parse(&host, r->host, strlen(r->host)) != FB_OK)
        return;
    isa = fb_json_string(fb_json_get(host, "isa"));
    if (isa != NULL) fb_text_printf(out, ", %s", isa);
    if (fb_json_int(fb_json_get(host, "threads"), &threads))
        fb_text_printf(out, ", %" PRId64 " %s", threads,
                       fb_plural(threads, "thread", "threads"));
    fb_json_free(host);
}

static void add_hash(fb_text *out, const char *what, const char *hash)
{
    if (hash != NULL && hash[0] != '\0')
        fb_text_printf(out, "; %s %.*s", what, DIGITS, hash);
}

void fb_say_made(fb_text *out, const fb_results *r)
{
    const size_t from = out->n;

    fb_text_printf(out, "made by %s; kernel %s", r->program, or_none(r->kernel));
    add_host(out, r);
    add_hash(out, "model", r->model.sha256);
    add_hash(out, "chat template", r->model.template_sha256);
    for (int i = 0; i < r->n_tasks; i++)
        if (r->tasks[i].data_sha256 != NULL) {
            fb_text_printf(out, "; data of %s", r->tasks[i].name);
            fb_text_printf(out, " %.*s", DIGITS, r->tasks[i].data_sha256);
        }
    fb_say_clean(out, from);
}
