/* continuation.c - the next words of the text, right after the context.
 *
 * No question, no answer to find: how far do the model's predictions move when entries
 * go? With `needle=on` (and the same length, samples, depths and seed) the contexts are
 * those of the task `needle`, byte for byte, so that both read them once: two probes,
 * one cache. Rules that lead on one often trail on the other.
 *
 * With `data` the text is a file of the user's: stretch after stretch of `length` and
 * `scored` tokens from its beginning on, without needles. `documents=blank_line` takes
 * blank lines as borders of documents and the beginning of each document. A stretch
 * that is too short is rejected and counted.
 *
 * Source   the usual measure of compression harnesses: perplexity after the context.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

enum { SPLIT_NONE, SPLIT_BLANK_LINE };

struct continuation {
    int64_t length, scored, samples, depths, needle, documents;
};

static const fb_param params[] = {
    FB_INT(struct continuation, length, 512, 32, 1 << 20, "FlexBudget",
           "tokens of the context, template included"),
    FB_INT(struct continuation, scored, 32, 1, 4096, "FlexBudget",
           "tokens of the text behind it that are scored"),
    FB_INT(struct continuation, samples, 12, 1, 100000, "FlexBudget", "documents"),
    FB_INT(struct continuation, depths, 0, 0, 101, "FlexBudget",
           "as in the task 'needle'"),
    FB_WORD(struct continuation, needle, 1, "off|on", "FlexBudget",
            "the contexts of the task 'needle'; without meaning for data"),
    FB_WORD(struct continuation, documents, SPLIT_NONE, "one|blank_line", "FlexBudget",
            "data is one text, or blank lines separate documents"),
    FB_PARAM_END,
};

static fb_status emit(const fb_task_env *env, const struct continuation *p, int64_t i,
                      const char *context, const char *after)
{
    char key[32];
    const fb_probe probe = {
        .key = key,
        .question = "",
        .answer_prefix = "",
        .references = &after,
        .n_references = 1,
        .continues = true,
        .max_tokens = p->scored,
        .depth = -1,
    };
    const fb_document document = {.key = key,
                                  .context = context,
                                  .length = p->length,
                                  .probes = &probe,
                                  .n_probes = 1};

    (void)snprintf(key, sizeof key, "%lld", (long long)i);
    return env->emit(env->self, &document);
}

/* --- the library --- */

static fb_status from_library(const fb_task_env *env, const struct continuation *p)
{
    const fb_haystack_options options = {.length = p->length,
                                         .documents = p->samples,
                                         .depths = p->depths,
                                         .keys = p->needle,
                                         .after = p->scored};
    fb_haystack *haystack = NULL;
    fb_status status = fb_haystack_open(&haystack, env, &options);
    const fb_hay *hay;

    for (int64_t i = 0; status == FB_OK && i < p->samples; i++) {
        status = fb_haystack_document(haystack, i, &hay);
        if (status == FB_OK) status = emit(env, p, i, hay->context, hay->after);
    }
    fb_haystack_close(haystack);
    return status;
}

/* --- a file of the user's --- */

/* The document that begins at `text`: its bytes, up to a blank line or the end. */
static size_t document_bytes(const char *text, bool by_blank_line)
{
    const char *border = by_blank_line ? strstr(text, "\n\n") : NULL;

    return border == NULL ? strlen(text) : (size_t)(border - text);
}

static void skip_short(const fb_task_env *env, const struct continuation *p,
                       const char *data, size_t place)
{
    char sentence[512];

    (void)snprintf(sentence, sizeof sentence,
                   "%.300s: the text at byte %zu is too short for %lld + %lld tokens",
                   data, place, (long long)p->length, (long long)p->scored);
    env->skip(env->self, sentence);
}

static fb_status read_file(const fb_task_env *env, const struct continuation *p,
                           fb_haystack *haystack, const char *data)
{
    const bool by_blank_line = p->documents == SPLIT_BLANK_LINE;
    const char *text, *at;
    const fb_hay *hay;
    int64_t n_made = 0;

    FB_TRY(env->text(env->self, data, &text));
    for (at = text + strspn(text, " \t\r\n"); *at != 0; at += strspn(at, " \t\r\n")) {
        const size_t n = document_bytes(at, by_blank_line);

        FB_TRY(fb_haystack_read(haystack, at, n, &hay));
        if (hay != NULL && n_made == p->samples) return FB_OK;
        if (hay != NULL) FB_TRY(emit(env, p, n_made++, hay->context, hay->after));
        /* what is left behind the last stretch of one text is no document */
        if (hay == NULL && (by_blank_line || n_made == 0))
            skip_short(env, p, data, (size_t)(at - text));
        at += by_blank_line || hay == NULL ? n : hay->n_used;
    }
    return FB_OK;
}

static fb_status from_file(const fb_task_env *env, const struct continuation *p,
                           const char *data)
{
    const fb_haystack_options options = {
        .length = p->length, .documents = p->samples, .after = p->scored};
    fb_haystack *haystack = NULL;
    fb_status status = fb_haystack_open(&haystack, env, &options);

    if (status == FB_OK) status = read_file(env, p, haystack, data);
    fb_haystack_close(haystack);
    return status;
}

static fb_status make(const fb_task_env *env, const void *values, const char *data)
{
    return data == NULL ? from_library(env, values) : from_file(env, values, data);
}

const fb_task fb_task_continuation = {
    FB_TASK_HEAD,
    .name = "continuation",
    .summary = "the next words of the text, on the contexts of 'needle' or a file",
    .source = "language-model fidelity: KL and NLL right after the context",
    .version = 1,
    .metric = "kl",
    .params = params,
    .params_bytes = sizeof(struct continuation),
    .data = FB_DATA_OPTIONAL,
    .make = make,
};
