/* template.c - a task that works, to be copied.
 *
 * Copy it to tasks/<name>.c, rename, add FB_TASK(<name>) to tasks/list.h: command line,
 * help, reports and tests then know it. What this one asks: some coloured things are
 * named, and one is asked for.
 *
 *     The lamp is amber. The boat is azure. The kettle is bronze.
 *     What colour is the boat?    The boat is  azure
 *
 * A heading like this one says what the task measures, what it does not, and its source.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

enum { MOST_THINGS = 64, SENTENCE = 96 };

/* One field per parameter, in the order of the table. */
struct colours {
    int64_t things, samples;
};

static const fb_param params[] = {
    FB_INT(struct colours, things, 8, 1, MOST_THINGS, "here", "things that are named"),
    FB_INT(struct colours, samples, 10, 1, 100000, "here", "documents"),
    FB_PARAM_END,
};

static fb_status make_one(const fb_task_env *env, const struct colours *p, int64_t i)
{
    const char *const nouns = fb_library_find("nouns")->text;
    const char *const adjectives = fb_library_find("adjectives")->text;
    char context[MOST_THINGS * SENTENCE] = "", question[SENTENCE], prefix[SENTENCE];
    char thing[32], colour[32], answer[40] = "", key[32];
    const char *reference = answer;
    fb_byte_span evidence = {0, 0};
    fb_random random;
    size_t n = 0;

    /* A stream of its own per document: one more never changes another. */
    fb_random_seed(&random, env->seed, (uint64_t)i);
    for (int64_t k = 0, asked = i % p->things; k < p->things; k++) {
        const size_t begin = n;

        fb_library_word(nouns, &random, thing, sizeof thing);
        fb_library_word(adjectives, &random, colour, sizeof colour);
        n += (size_t)snprintf(context + n, SENTENCE, "The %s %lld is %s. ", thing,
                              (long long)k + 1, colour);
        if (k != asked) continue;
        evidence = (fb_byte_span){begin, n - 1};
        (void)snprintf(question, sizeof question, "\n\nWhat is the %s %lld?", thing,
                       (long long)k + 1);
        (void)snprintf(prefix, sizeof prefix, "The %s %lld is", thing,
                       (long long)k + 1);
        (void)snprintf(answer, sizeof answer, " %s", colour);
    }
    (void)snprintf(key, sizeof key, "%lld", (long long)i);
    return env->emit(env->self, &(fb_document){
                                    .key = key,
                                    .context = context,
                                    .probes =
                                        &(fb_probe){
                                            .key = key,
                                            .question = question,
                                            .answer_prefix = prefix,
                                            .references = &reference,
                                            .n_references = 1,
                                            .max_tokens = 8,
                                            .evidence = &evidence,
                                            .n_evidence = 1,
                                            .depth = (double)evidence.begin / (double)n,
                                        },
                                    .n_probes = 1,
                                });
}

/* Called once per run. Whatever `emit` returns but FB_OK goes back as it is. */
static fb_status make(const fb_task_env *env, const void *values, const char *data)
{
    const struct colours *p = values;

    (void)data; /* this task reads no file */
    for (int64_t i = 0; i < p->samples; i++)
        FB_TRY(make_one(env, p, i));
    return FB_OK;
}

const fb_task fb_task_template = {
    FB_TASK_HEAD,
    .name = "template",
    .summary = "things and what they are like: a task to copy",
    .source = "FlexBudget",
    .version = 1,
    .metric = "kl",
    .params = params,
    .params_bytes = sizeof(struct colours),
    .make = make,
};
