/* metrics.c - the table of metrics, and the best score over the references.
 *
 * SPDX-License-Identifier: MIT
 */
#include "task/metrics.h"

#include "base/check.h"
#include "base/text.h"
#include "task/scorers.h"

#include <math.h>
#include <string.h>

struct row {
    fb_metric metric;
    fb_scorer *score;
    bool all; /* the mean over references instead of the best */
};

#define NATS(metric_name, meaning_text, metric_kind)                                   \
    {                                                                                  \
        {.name = metric_name,                                                          \
         .kind = metric_kind,                                                          \
         .meaning = meaning_text,                                                      \
         .unit = "nat",                                                                \
         .lower_is_better = true,                                                      \
         .low = 0,                                                                     \
         .high = (double)INFINITY,                                                     \
         .worst = (double)NAN,                                                         \
         .margin = 0.02,                                                               \
         .version = 1},                                                                \
            NULL, false                                                                \
    }
#define SHARE(metric_name, meaning_text, metric_kind, scorer, of_all)                  \
    {                                                                                  \
        {.name = metric_name,                                                          \
         .kind = metric_kind,                                                          \
         .meaning = meaning_text,                                                      \
         .unit = "share",                                                              \
         .lower_is_better = false,                                                     \
         .low = 0,                                                                     \
         .high = 1,                                                                    \
         .worst = 0,                                                                   \
         .margin = 0.01,                                                               \
         .version = 1},                                                                \
            scorer, of_all                                                             \
    }
#define TEXT(name, meaning, scorer) SHARE(name, meaning, FB_METRIC_TEXT, scorer, false)

static const struct row rows[] = {
    NATS("kl", "KL divergence from the full cache's next-token distribution, mean",
         FB_METRIC_PASS),
    NATS("nll", "negative log-likelihood per token of the reference answer",
         FB_METRIC_PASS),
    SHARE("em_tf", "every token of the reference is the model's first choice",
          FB_METRIC_PASS, NULL, false),
    SHARE("top1", "share of places where the first choice is the full cache's",
          FB_METRIC_PASS, NULL, false),
    SHARE("contains_all", "share of the references that the answer contains",
          FB_METRIC_TEXT, fb_score_contains, true),
    TEXT("contains_any", "the answer contains a reference", fb_score_contains),
    TEXT("exact", "the answer is a reference, but for white space around it",
         fb_score_exact),
    TEXT("f1", "F1 of words, without case, articles, punctuation", fb_score_f1),
    TEXT("f1_zh", "F1 of characters, without punctuation (not LongBench's number)",
         fb_score_f1_zh),
    TEXT("rouge_l", "ROUGE-L on sets of words, as LongBench computes it",
         fb_score_rouge_l),
    TEXT("class", "the right class name, shared with wrong ones named", fb_score_class),
    TEXT("choice", "the right letter of A to D, by InfiniteBench's steps",
         fb_score_choice),
    TEXT("choice_v2", "\"The correct answer is (B)\", as LongBench v2 wants it",
         fb_score_choice_v2),
    SHARE("choice_nll", "the right option has the lowest NLL per token",
          FB_METRIC_OPTIONS, NULL, false),
    TEXT("number_first", "the first number is the right one", fb_score_number_first),
    TEXT("count", "share of the numbers said that are right", fb_score_count),
    TEXT("retrieval", "share of the numbers said that name the right paragraph",
         fb_score_retrieval),
    TEXT("code_sim", "similarity of the first line of code", fb_score_code_sim),
    SHARE("score", "what each record's own text metric gives", FB_METRIC_RECORD, NULL,
          false),
};

enum { N_METRICS = sizeof rows / sizeof *rows };

int fb_metric_count(void)
{
    return N_METRICS;
}

const fb_metric *fb_metric_at(int index)
{
    FB_ASSERT(index >= 0 && index < N_METRICS);
    return &rows[index].metric;
}

static const struct row *find_row(const char *name)
{
    for (int i = 0; i < N_METRICS; i++)
        if (strcmp(rows[i].metric.name, name) == 0) return &rows[i];
    return NULL;
}

const fb_metric *fb_metric_find(const char *name)
{
    const struct row *row = find_row(name);

    return row == NULL ? NULL : &row->metric;
}

static fb_status find_scorer(const struct row **out, const char *name)
{
    const char *names[N_METRICS], *nearest;

    *out = find_row(name);
    if (*out != NULL && (*out)->score != NULL) return FB_OK;
    if (*out != NULL)
        return fb_fail(FB_USAGE, "the metric '%s' does not score a text", name);
    for (int i = 0; i < N_METRICS; i++)
        names[i] = rows[i].metric.name;
    nearest = fb_nearest_word(name, names, N_METRICS);
    if (nearest == NULL) return fb_fail(FB_USAGE, "unknown metric '%.80s'", name);
    return fb_fail(FB_USAGE, "unknown metric '%.80s'; did you mean '%s'?", name,
                   nearest);
}

/* Best or mean of the scores against each reference. */
static fb_status score_all(const struct row *row, fb_answer_pair *pair,
                           const char *const *references, int n, double *out)
{
    double best = 0, sum = 0, one = 0;

    for (int i = 0; i < n; i++) {
        fb_status status = fb_points_read(&pair->reference, references[i]);

        if (status == FB_OK) status = row->score(pair, &one);
        fb_points_clear(&pair->reference);
        FB_TRY(status);
        sum += one;
        if (one > best) best = one;
    }
    *out = row->all ? sum / n : best;
    return FB_OK;
}

fb_status fb_metric_text(const char *name, const char *prediction,
                         const char *const *references, int n,
                         const char *const *classes, int n_classes, double *out)
{
    fb_answer_pair pair = {.classes = classes, .n_classes = n_classes};
    const struct row *row;
    fb_status status;

    *out = 0;
    FB_TRY(find_scorer(&row, name));
    if (n < 1) return fb_fail(FB_USAGE, "there is no reference to score against");
    FB_TRY(fb_points_read(&pair.prediction, prediction));
    status = score_all(row, &pair, references, n, out);
    fb_points_clear(&pair.prediction);
    return status;
}
