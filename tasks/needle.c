/* needle.c - a secret hidden in running text, asked for later.
 *
 * "The secret number for emerald-lamp is 4812093." stands somewhere in a piece of a
 * novel; the question comes after eviction. The prefix that repeats the key is what lets
 * a small model answer at all. With several keys each has a needle of its own and the
 * others distract.
 *
 * The wording is ours, written for small chat models; the form of the task is RULER's.
 *
 * Source   Kamradt 2023, "Needle in a haystack"; Hsieh et al. 2024, "RULER: What's the
 *          Real Context Size of Your Long-Context Language Models?", arXiv:2404.06654.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/task.h>
#include <stdio.h>

struct needle {
    int64_t length, samples, depths, keys, asked, kind;
};

static const fb_param params[] = {
    FB_INT(struct needle, length, 512, 32, 1 << 20, "FlexBudget",
           "tokens of the context, template included"),
    FB_INT(struct needle, samples, 12, 1, 100000, "FlexBudget", "documents"),
    FB_INT(struct needle, depths, 0, 0, 101, "FlexBudget",
           "0: all depths evenly, each once; d: the d depths 0 ... 1 in turn"),
    FB_INT(struct needle, keys, 1, 1, FB_MAX_NEEDLES, "RULER niah_single, multikey",
           "secrets in each document"),
    FB_INT(struct needle, asked, FB_MAX_NEEDLES, 1, FB_MAX_NEEDLES, "FlexBudget",
           "at most so many of them are asked, each by a probe of its own"),
    FB_WORD(struct needle, kind, FB_SECRET_NUMBER, FB_SECRET_WORDS, "RULER",
            "what the secrets are: seven digits, two words, or a version-4 UUID"),
    FB_PARAM_END,
};

/* Texts of one probe; what the probe points to. */
struct question {
    char key[96], question[160], prefix[160], answer[80];
    const char *reference;
    fb_byte_span evidence;
};

static const char *const newline[] = {"\n"};

static fb_probe ask(struct question *q, int64_t document, const fb_needle *needle)
{
    (void)snprintf(q->key, sizeof q->key, "%lld/%s", (long long)document, needle->key);
    (void)snprintf(q->question, sizeof q->question, "\n\nWhat is the secret %s for %s?",
                   needle->kind, needle->key);
    (void)snprintf(q->prefix, sizeof q->prefix, "The secret %s for %s is", needle->kind,
                   needle->key);
    (void)snprintf(q->answer, sizeof q->answer, " %s", needle->value);
    q->reference = q->answer;
    q->evidence = needle->span;
    return (fb_probe){
        .key = q->key,
        .question = q->question,
        .answer_prefix = q->prefix,
        .references = &q->reference,
        .n_references = 1,
        .max_tokens = 48,
        .stop = newline,
        .n_stop = 1,
        .evidence = &q->evidence,
        .n_evidence = 1,
        .depth = needle->depth,
    };
}

static fb_status emit(const fb_task_env *env, const struct needle *p, int64_t i,
                      const fb_hay *hay)
{
    struct question questions[FB_MAX_NEEDLES];
    fb_probe probes[FB_MAX_NEEDLES];
    char key[32];
    fb_document document = {
        .key = key, .context = hay->context, .length = p->length, .probes = probes};

    (void)snprintf(key, sizeof key, "%lld", (long long)i);
    for (int k = 0; k < hay->n_needles && k < p->asked; k++)
        probes[document.n_probes++] = ask(&questions[k], i, &hay->needles[k]);
    return env->emit(env->self, &document);
}

static fb_status make(const fb_task_env *env, const void *values, const char *data)
{
    const struct needle *p = values;
    const fb_haystack_options options = {.length = p->length,
                                         .documents = p->samples,
                                         .depths = p->depths,
                                         .keys = p->keys,
                                         .secret = (fb_secret)p->kind};
    fb_haystack *haystack = NULL;
    fb_status status = fb_haystack_open(&haystack, env, &options);
    const fb_hay *hay;

    (void)data;
    for (int64_t i = 0; status == FB_OK && i < p->samples; i++) {
        status = fb_haystack_document(haystack, i, &hay);
        if (status == FB_OK) status = emit(env, p, i, hay);
    }
    fb_haystack_close(haystack);
    return status;
}

const fb_task fb_task_needle = {
    FB_TASK_HEAD,
    .name = "needle",
    .summary = "a secret hidden in running text, asked for after eviction",
    .source = "Kamradt 2023; Hsieh et al. 2024 (RULER), arXiv:2404.06654",
    .version = 1,
    .metric = "kl",
    .params = params,
    .params_bytes = sizeof(struct needle),
    .make = make,
};
