/* cmd_choose.c - the rule and the budget to use, under limits.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/choose_words.h"
#include "cli/results.h"
#include "experiment/plan.h"
#include "experiment/profile.h"

#include <math.h>
#include <string.h>

enum {
    KV_MEMORY,
    RESIDENT,
    EXTRA_COMPUTE,
    ANSWER_TIME,
    PROFILE,
    KEEP,
    LOSE,
    BY,
    CONTEXT,
    EXPERIMENT,
    ONLY,
    OUT,
    JSON
};

static const fb_option options[] = {
    [KV_MEMORY] = {.name = "kv-memory",
                   .type = FB_TYPE_SIZE,
                   .initial = "",
                   .low = 1,
                   .argument = "SIZE",
                   .group = "Limits",
                   .help = "most bytes of keys and values at the peak, which includes "
                           "the full cache where a text is read at once"},
    [RESIDENT] = {.name = "resident",
                  .type = FB_TYPE_FLAG,
                  .initial = "off",
                  .group = "Limits",
                  .help = "--kv-memory is what stays after eviction, not the peak"},
    [EXTRA_COMPUTE] = {.name = "extra-compute",
                       .type = FB_TYPE_PERCENT,
                       .initial = "",
                       .high = 1e6,
                       .argument = "PCT",
                       .group = "Limits",
                       .help = "most FLOPs of the rule in a fused kernel, of the plain "
                               "pass over the context"},
    [ANSWER_TIME] = {.name = "answer-time",
                     .type = FB_TYPE_REAL,
                     .initial = "",
                     .low = 1e-6,
                     .high = 1e9,
                     .argument = "MS",
                     .group = "Limits",
                     .help =
                         "most milliseconds for a token of the answer: modelled, not "
                         "measured, from the FLOPs and bytes of a token and "
                         "--profile"},
    [PROFILE] = {.name = "profile",
                 .type = FB_TYPE_TEXT,
                 .initial = "",
                 .argument = "FILE",
                 .group = "Limits",
                 .help = "how fast a device is: measured by bench --save-profile, or "
                         "given by hand (help bench)"},
    [KEEP] = {.name = "keep",
              .type = FB_TYPE_PERCENT,
              .initial = "",
              .high = 100,
              .argument = "PCT",
              .group = "Limits",
              .help = "least share of the full cache's score, in every task"},
    [LOSE] = {.name = "lose",
              .type = FB_TYPE_REAL,
              .initial = "",
              .high = 1e6,
              .argument = "X",
              .group = "Limits",
              .help = "the same where lower is better, as of KL: most that may be lost "
                      "against the full cache, in the task's unit"},
    [BY] = {.name = "by",
            .type = FB_TYPE_WORD,
            .initial = "low",
            .words = "low|mean",
            .argument = "END",
            .group = "Limits",
            .help = "quality is the end of its interval that is against the rule, or "
                    "the mean"},
    [CONTEXT] = {.name = "context",
                 .type = FB_TYPE_INT,
                 .initial = "",
                 .low = 1,
                 .high = 1e9,
                 .argument = "N",
                 .group = "Limits",
                 .help = "bytes for contexts of so many tokens (default: as measured); "
                         "all else stays as measured"},
    [EXPERIMENT] = FB_EXPERIMENT_OPTION,
    [ONLY] = {.name = "only",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "FILTER",
              .group = "Choose what",
              .help = "among these: 'rule=snapkv*,task=needle,budget=20%'"},
    [OUT] = FB_OUT_OPTION,
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON, with every candidate"},
    FB_OPTION_END,
};

/* What is open during a choice. */
typedef struct job {
    const fb_line *line;
    fb_open_results *open;
    fb_filter *filter;
    fb_profile profile;
    fb_limits limits;
    bool has_chosen;
} job;

/* --- limits --- */

static bool is_given(const job *j, int option)
{
    return j->line->own.value[option].origin == FB_FROM_COMMAND;
}

/* The number of an option in `unit`; NAN: it is not given. */
static double limit_of(const job *j, int option, double unit)
{
    return is_given(j, option) ? fb_values_real(&j->line->own, option) / unit
                               : (double)NAN;
}

static double seconds_on(const void *device, double flops, double bytes)
{
    return fb_profile_seconds(device, flops, bytes);
}

static bool passes(const void *filter, const char *key, const char *value)
{
    return fb_filter_passes(filter, key, value);
}

static fb_status read_profile(job *j)
{
    if (!is_given(j, PROFILE) && !is_given(j, ANSWER_TIME)) return FB_OK;
    if (!is_given(j, PROFILE))
        return fb_fail(
            FB_USAGE,
            "--answer-time needs a device: stored times are those of cells "
            "that were computed together\n"
            "help: flexbudget bench --save-profile machine.json measures this "
            "one, for --profile machine.json");
    FB_TRY(fb_profile_read(&j->profile, fb_values_text(&j->line->own, PROFILE)));
    j->limits.time = seconds_on;
    j->limits.device = &j->profile;
    return FB_OK;
}

static fb_status read_filter(job *j)
{
    const char *only = fb_values_text(&j->line->own, ONLY);

    if (!is_given(j, ONLY)) return FB_OK;
    FB_TRY(fb_filter_parse(&j->filter, only));
    if (!fb_filter_passes(j->filter, "sample", "") ||
        !fb_filter_passes(j->filter, "seed", ""))
        return fb_fail(FB_USAGE,
                       "--only '%s': a choice is made among rules, tasks and "
                       "budgets; samples and seeds are taken together",
                       only);
    j->limits.passes = passes;
    j->limits.filter = j->filter;
    return FB_OK;
}

static fb_status read_limits(job *j)
{
    const fb_values *v = &j->line->own;

    j->limits = (fb_limits){
        .kv_bytes =
            is_given(j, KV_MEMORY) ? (double)fb_values_int(v, KV_MEMORY) : (double)NAN,
        .is_resident = fb_values_flag(v, RESIDENT),
        .extra = limit_of(j, EXTRA_COMPUTE, 100),
        .seconds = limit_of(j, ANSWER_TIME, 1000),
        .keep = limit_of(j, KEEP, 100),
        .lose = limit_of(j, LOSE, 1),
        .by_mean = fb_values_is(v, BY, "mean"),
        .context = is_given(j, CONTEXT) ? fb_values_int(v, CONTEXT) : 0,
    };
    if (j->limits.is_resident && !is_given(j, KV_MEMORY))
        return fb_fail(FB_USAGE, "--resident says what --kv-memory limits, and that is "
                                 "not given");
    if (j->limits.context > 0 && is_given(j, ANSWER_TIME))
        return fb_fail(FB_USAGE, "--answer-time holds for contexts as measured; leave "
                                 "out --context");
    FB_TRY(read_profile(j));
    return read_filter(j);
}

/* --- the choice --- */

static fb_status add_choice(job *j, const fb_choice *choice, fb_text *out)
{
    const bool is_json = fb_values_flag(&j->line->own, JSON);
    fb_choose_words words;
    char *text = NULL;
    fb_status status = fb_choose_words_make(&words, choice, j->line->arguments[0]);

    if (j->limits.time != NULL) {
        words.words.device = j->profile.name;
        words.words.is_measured = fb_profile_is_measured(&j->profile);
    }
    if (status == FB_OK) status = fb_choice_print(choice, &words.words, is_json, &text);
    if (status == FB_OK) fb_text_puts(out, text);
    fb_free(text);
    fb_choose_words_clear(&words);
    return status;
}

static fb_status choose_among(job *j, fb_text *out)
{
    fb_choice *choice = NULL;
    fb_status status = fb_choose(&choice, j->open[0].analysis, &j->limits);

    if (status == FB_OK) status = add_choice(j, choice, out);
    j->has_chosen = status == FB_OK && choice->chosen >= 0;
    fb_choice_free(choice);
    return status;
}

static fb_status choose(job *j)
{
    const fb_values *v = &j->line->own;
    const char *out = fb_values_text(v, OUT);
    fb_text text = {0};

    FB_TRY(read_limits(j));
    FB_TRY(
        fb_results_open(&j->open, j->line, fb_values_text(v, EXPERIMENT), out, NULL));
    return fb_write_result(choose_among(j, &text), &text, out);
}

/* That nothing fits is an answer, and no error. */
static int run(const fb_line *line)
{
    job j = {.line = line};
    const fb_status status = choose(&j);
    const int code = fb_say_end(status);

    fb_results_close(j.open, line->n_arguments);
    fb_filter_free(j.filter);
    return status == FB_OK && !j.has_chosen ? fb_status_exit_code(FB_STOPPED) : code;
}

const fb_command fb_command_choose = {
    .name = "choose",
    .arguments = "RESULTS",
    .summary = "the rule and the budget to use, under limits",
    .about =
        "Of the rules that could be deployed, the full cache among them, "
        "the "
        "one to use within limits of memory, compute, time and quality; what is as "
        "good, "
        "what cannot be told from it, what is over which limit and by how much. A "
        "limit "
        "holds in every task. With a least quality (--keep, --lose) the fewest bytes "
        "that keep it are chosen, else the most quality within the limits; of what is "
        "as "
        "good, to the task's margin, what takes fewer bytes, then fewer FLOPs. The "
        "numbers are those of compare --json.",
    .examples = "flexbudget choose results.db --lose 0.5\n"
                "flexbudget choose results.db --kv-memory 100KiB --resident "
                "--extra-compute 5\n"
                "flexbudget choose results.db --kv-memory 500KiB --json",
    .codes = "3 nothing fits the limits",
    .options = options,
    .least = 1,
    .most = 1,
    .run = run,
};
