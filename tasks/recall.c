/* recall.c - associative recall: which value followed this key?
 *
 * The task of the built-in model: pairs of a key and its value among fillers, in random
 * order, then "?" and a key. What each rule must do to that model is known on paper, so
 * this task is an oracle for tests. One character is one token:
 *
 *     a ... l  live fillers     .  inert filler     A ... X  keys
 *     0 ... 9  m ... z          values; a pair has `answer` of them, all distinct
 *
 * Source   the program's own; the form is that of associative-recall studies.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/task.h>
#include <stdio.h>
#include <string.h>

enum { N_KEYS = 24, N_VALUES = 24, MOST_TOKENS = 16384, MOST_ANSWER = 4 };

struct recall {
    int64_t tokens, pairs, filler, answer, samples;
};

static const fb_param params[] = {
    FB_INT(struct recall, tokens, 257, 4, MOST_TOKENS, "FlexBudget",
           "tokens of the context, BOS included"),
    FB_INT(struct recall, pairs, 23, 1, N_KEYS, "FlexBudget",
           "pairs of a key and its values"),
    FB_WORD(struct recall, filler, 0, "live|inert", "FlexBudget",
            "letters a to l, or full stops"),
    FB_INT(struct recall, answer, 1, 1, MOST_ANSWER, "FlexBudget",
           "values behind each key: the length of the answer"),
    FB_INT(struct recall, samples, 100, 1, 100000, "FlexBudget", "documents"),
    FB_PARAM_END,
};

static const char values_alphabet[] = "0123456789mnopqrstuvwxyz";
_Static_assert(sizeof values_alphabet == N_VALUES + 1, "24 values");

/* A random order of the `n` characters of `text` (Fisher and Yates). */
static void shuffle(fb_random *random, char *text, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        const size_t j = (size_t)fb_random_below(random, i);
        const char c = text[i - 1];

        text[i - 1] = text[j];
        text[j] = c;
    }
}

static char draw_filler(fb_random *random, bool is_inert)
{
    return is_inert ? '.' : "abcdefghijkl"[fb_random_below(random, 12)];
}

struct sequence {
    char context[MOST_TOKENS + 1], question[3], answer[MOST_ANSWER + 1];
    fb_byte_span evidence; /* the values */
    double depth;
};

/* `units` pairs and fillers in random order: a mark per unit, then written out. */
static void draw(struct sequence *out, const struct recall *p, int64_t fillers,
                 fb_random *random)
{
    const size_t t = (size_t)p->answer, n = (size_t)(p->pairs + fillers);
    const size_t asked = (size_t)fb_random_below(random, (uint64_t)p->pairs);
    char keys[] = "ABCDEFGHIJKLMNOPQRSTUVWX", values[sizeof values_alphabet];
    char marks[MOST_TOKENS];
    size_t at = 0, pair = 0;

    out->evidence = (fb_byte_span){0, 0};
    memcpy(values, values_alphabet, sizeof values);
    shuffle(random, keys, N_KEYS);
    shuffle(random, values, N_VALUES);
    memset(marks, '.', n);
    memset(marks, 'P', (size_t)p->pairs);
    shuffle(random, marks, n);
    for (size_t i = 0; i < n; i++) {
        if (marks[i] == '.') {
            out->context[at++] = draw_filler(random, p->filler == 1);
            continue;
        }
        out->context[at++] = keys[pair];
        if (pair == asked) out->evidence = (fb_byte_span){at, at + t};
        memcpy(out->context + at, values + pair++ * t, t);
        at += t;
    }
    out->context[at] = 0;
    out->depth = (double)out->evidence.begin / (double)at;
    (void)snprintf(out->question, sizeof out->question, "?%c", keys[asked]);
    (void)snprintf(out->answer, sizeof out->answer, "%.*s", (int)t, values + asked * t);
}

/* Every character must be a token of its own. */
static fb_status check_tokens(const fb_task_env *env, const struct sequence *sequence)
{
    int64_t n = 0;

    FB_TRY(env->count(env->self, sequence->context, &n));
    if (n == (int64_t)strlen(sequence->context)) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "recall needs a model that has one token per "
                                   "character, as the built-in one");
}

static fb_status emit(const fb_task_env *env, const struct recall *p, int64_t i,
                      const struct sequence *sequence)
{
    const char *answer = sequence->answer;
    char key[32];
    const fb_probe probe = {
        .key = key,
        .question = sequence->question,
        .answer_prefix = "",
        .references = &answer,
        .n_references = 1,
        .max_tokens = p->answer,
        .evidence = &sequence->evidence,
        .n_evidence = 1,
        .depth = sequence->depth,
    };
    const fb_document document = {.key = key,
                                  .context = sequence->context,
                                  .length = p->tokens,
                                  .probes = &probe,
                                  .n_probes = 1};

    (void)snprintf(key, sizeof key, "%lld", (long long)i);
    return env->emit(env->self, &document);
}

static fb_status make(const fb_task_env *env, const void *values, const char *data)
{
    const struct recall *p = values;
    const int64_t n_values = p->pairs * p->answer;
    const int64_t smallest = env->template_tokens + p->pairs * (1 + p->answer);
    struct sequence sequence;

    (void)data;
    if (n_values > N_VALUES)
        return fb_fail(FB_USAGE,
                       "pairs=%lld with answer=%lld need %lld values; there "
                       "are %d",
                       (long long)p->pairs, (long long)p->answer, (long long)n_values,
                       N_VALUES);
    if (p->tokens < smallest)
        return fb_fail(FB_USAGE,
                       "tokens=%lld is too short for pairs=%lld; the smallest "
                       "that fits is %lld",
                       (long long)p->tokens, (long long)p->pairs, (long long)smallest);
    for (int64_t i = 0; i < p->samples; i++) {
        fb_random random;

        fb_random_seed(&random, env->seed, (uint64_t)i);
        draw(&sequence, p, p->tokens - smallest, &random);
        if (i == 0) FB_TRY(check_tokens(env, &sequence));
        FB_TRY(emit(env, p, i, &sequence));
    }
    return FB_OK;
}

const fb_task fb_task_recall = {
    FB_TASK_HEAD,
    .name = "recall",
    .summary = "associative recall for the built-in model",
    .source = "FlexBudget",
    .version = 1,
    .metric = "kl",
    .params = params,
    .params_bytes = sizeof(struct recall),
    .make = make,
};
