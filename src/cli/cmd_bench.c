/* cmd_bench.c - speed and memory of real decoding under a budget, on this machine.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/time.h"
#include "cli/bench_print.h"
#include "cli/cli.h"
#include "cli/opening.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT, ANSWER, TEXT, REPETITIONS, WARMUP, LIMIT, PROFILE, SAVE, JSON };

/* More than the longest text that a model takes. */
static const size_t MOST_TEXT_BYTES = (size_t)16 << 20;

static const fb_option options[] = {
    [CONTEXT] = {.name = "context",
                 .type = FB_TYPE_INTS,
                 .initial = "2048",
                 .low = 1,
                 .high = 1 << 24,
                 .argument = "LIST",
                 .group = "What is timed",
                 .help = "tokens that are read; several: one after the other"},
    [ANSWER] = {.name = "answer",
                .type = FB_TYPE_INT,
                .initial = "64",
                .low = 2,
                .high = 100000,
                .argument = "N",
                .group = "What is timed",
                .help = "tokens of an answer"},
    [TEXT] = {.name = "text",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "FILE",
              .group = "What is timed",
              .help =
                  "the context, repeated if it is short; else a book of the program's"},
    [REPETITIONS] = {.name = "repetitions",
                     .type = FB_TYPE_INT,
                     .initial = "10",
                     .low = 1,
                     .high = FB_BENCH_MOST_REPETITIONS,
                     .argument = "N",
                     .group = "How often",
                     .help = "of everything, in an order drawn anew each time"},
    [WARMUP] = {.name = "warmup",
                .type = FB_TYPE_INT,
                .initial = "1",
                .low = 0,
                .high = 100,
                .argument = "N",
                .group = "How often",
                .help = "repetitions before these, which are not counted"},
    [LIMIT] = {.name = "time-limit",
               .type = FB_TYPE_TIME,
               .initial = "5m",
               .low = 1,
               .high = 1e7,
               .argument = "TIME",
               .group = "How often",
               .help = "for the repetitions together, measuring the device aside: none "
                       "begins that would pass it; one is always made"},
    [PROFILE] = {.name = "profile",
                 .type = FB_TYPE_TEXT,
                 .initial = "",
                 .argument = "FILE",
                 .group = "Modelled seconds",
                 .help = "of the device of this profile instead of this machine"},
    [SAVE] = {.name = "save-profile",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "FILE",
              .group = "Modelled seconds",
              .help = "write this machine's profile; without --model that is all"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON, with every sample"},
    FB_OPTION_END,
};

static const fb_taken taken[] = {
    {FB_SET_model, NULL, NULL},
    {FB_SET_rules, "full,snapkv,h2o", NULL},
    {FB_SET_budgets, "10%,25%",
     "10% of the full cache, 256t per head, 64MiB; several: each"},
    {FB_SET_baseline, NULL,
     "the rule that others are compared with; auto: full, else the first"},
    {FB_SET_seeds, NULL, "the first is used, by rules that draw random numbers"},
    {FB_SET_protect, NULL, NULL},
    {FB_SET_positions, NULL, NULL},
    {FB_SET_cache, NULL, NULL},
    {FB_SET_device, NULL, NULL},
    {FB_SET_precision, NULL, NULL},
    FB_TAKEN_MACHINE,
    {FB_SET_COUNT, NULL, NULL},
};

/* What is open during a bench. */
typedef struct job {
    const fb_line *line;
    fb_spec *spec;
    fb_ops *ops;
    fb_model *model;
    char *text;
    size_t n_text;
    fb_profile profile; /* of --profile */
    int64_t begin_ns;
    int64_t spent_ns; /* of the limit, by the contexts before */
    fb_text out;
    int n_problems; /* said so far */
} job;

static const char *own_text(const job *j, int option)
{
    return fb_values_text(&j->line->own, option);
}

static bool is_given(const job *j, int option)
{
    return own_text(j, option)[0] != '\0';
}

static bool wants_json(const job *j)
{
    return fb_values_flag(&j->line->own, JSON);
}

static bool has_model(const job *j)
{
    return fb_values_text(&j->spec->values, FB_SET_model)[0] != '\0';
}

/* --- opening --- */

static fb_status read_files(job *j)
{
    if (is_given(j, PROFILE) && is_given(j, SAVE))
        return fb_fail(FB_USAGE, "--profile reads the profile of some device, "
                                 "--save-profile writes this one's: one of the two");
    if (is_given(j, PROFILE))
        FB_TRY(fb_profile_read(&j->profile, own_text(j, PROFILE)));
    if (!is_given(j, TEXT)) return FB_OK;
    FB_TRY(fb_context(
        fb_file_read(&j->text, &j->n_text, own_text(j, TEXT), MOST_TEXT_BYTES),
        "text '%s'", own_text(j, TEXT)));
    if (j->n_text > 0) return FB_OK;
    return fb_fail(FB_USAGE, "text '%s': it is empty", own_text(j, TEXT));
}

static fb_status prepare(job *j)
{
    FB_TRY(fb_open_environment(j->spec));
    FB_TRY(read_files(j));
    if (!has_model(j) && is_given(j, SAVE))
        return fb_open_ops(&j->ops, j->spec, FB_OPEN_FOR_SPEED);
    FB_TRY(fb_spec_check_question(j->spec,
                                  "the text that bench goes on from comes without\n"
                                  "help: flexbudget run has it",
                                  fb_open_problem, &j->n_problems));
    return fb_open_model(&j->model, &j->ops, j->spec, FB_OPEN_FOR_SPEED);
}

/* --- measuring --- */

static void follow(void *self, int repetition, int of)
{
    const job *j = self;
    const int warmup = (int)fb_values_int(&j->line->own, WARMUP);
    char spent[FB_TIME_SHORT];

    fb_time_print(fb_time_ns() - j->begin_ns, spent);
    if (repetition < warmup)
        fb_say_note("warming up, %d of %d, after %s", repetition + 1, warmup, spent);
    else
        fb_say_note("repetition %d of %d, after %s", repetition + 1 - warmup,
                    of - warmup, spent);
}

/* What is left of the limit, shared by the contexts that are left. */
static int64_t limit_of(const job *j, int contexts_left)
{
    const int64_t all = fb_values_int(&j->line->own, LIMIT) * 1000000000;
    const int64_t left = all - j->spent_ns;

    return left < contexts_left ? 1 : left / contexts_left;
}

static fb_bench_options options_of(job *j, int64_t context, int contexts_left)
{
    const fb_values *own = &j->line->own;
    const int64_t memory = fb_values_int(&j->spec->values, FB_SET_memory);
    const char *baseline = fb_values_text(&j->spec->values, FB_SET_baseline);

    return (fb_bench_options){
        .context = context,
        .answer = fb_values_int(own, ANSWER),
        .repetitions = (int)fb_values_int(own, REPETITIONS),
        .warmup = (int)fb_values_int(own, WARMUP),
        .limit_ns = limit_of(j, contexts_left),
        .text = j->text,
        .n_text = j->n_text,
        .memory = memory > 0 ? memory : 0,
        .baseline = strcmp(baseline, "auto") == 0 ? NULL : baseline,
        .measures_device = !is_given(j, PROFILE),
        .stop = &fb_stop_asked,
        .watch = follow,
        .self = j,
    };
}

/* --- showing --- */

static fb_status show(job *j, const fb_bench *bench, fb_status status, int context)
{
    const fb_bench_shown shown = {.bench = bench,
                                  .profile = is_given(j, PROFILE) ? &j->profile
                                                                  : &bench->profile,
                                  .ops = j->ops,
                                  .is_given = is_given(j, PROFILE)};
    const int threads = fb_threads_count(fb_ops_threads(j->ops));

    if (wants_json(j)) {
        if (context > 0) fb_text_puts(&j->out, ",\n");
        return fb_bench_add_json(&shown, status == FB_STOPPED, &j->out);
    }
    if (context > 0) fb_text_puts(&j->out, "\n");
    FB_TRY(fb_bench_add_text(&shown, &j->out));
    return fb_bench_warn(bench, threads, fb_open_warn, NULL);
}

static fb_status measure(job *j, int context, int n)
{
    const fb_item *item = &j->line->own.value[CONTEXT].items[context];
    const fb_bench_options how =
        options_of(j, strtoll(item->text, NULL, 10), n - context);
    fb_bench bench;
    fb_status status = fb_bench_init(&bench, j->spec, j->model, &how), shown = FB_OK;

    if (status == FB_OK) {
        status = fb_bench_run(&bench, j->ops);
        j->spent_ns += bench.repetitions_ns;
        if (status == FB_OK || status == FB_STOPPED)
            shown = show(j, &bench, status, context);
    }
    fb_bench_clear(&bench);
    return shown != FB_OK ? shown : status;
}

static void begin_json(job *j)
{
    const fb_host_use use = {
        .device = fb_values_text(&j->spec->values, FB_SET_device),
        .precision = fb_values_text(&j->spec->values, FB_SET_precision),
        .weights = fb_weight_form_name(fb_model_weight_form(j->model))};
    fb_host host;

    fb_host_read(&host);
    fb_text_puts(&j->out, "{\"format\": 1, \"host\": ");
    fb_host_describe(&host, j->ops, &use, &j->out);
    fb_text_puts(&j->out, ", \"model\": ");
    fb_json_add_string(&j->out, fb_model_get_facts(j->model)->name);
    fb_text_printf(&j->out, ", \"model_sha256\": \"%s\", \"results\": [",
                   fb_model_get_facts(j->model)->sha256);
}

static fb_status measure_all(job *j)
{
    const int n = j->line->own.value[CONTEXT].n;
    fb_status status = FB_OK;

    if (wants_json(j)) begin_json(j);
    for (int i = 0; status == FB_OK && i < n; i++)
        status = measure(j, i, n);
    if (wants_json(j)) fb_text_puts(&j->out, "]}\n");
    return status;
}

static fb_status save_profile(const job *j)
{
    fb_text text = {0};
    fb_profile profile;

    if (!is_given(j, SAVE)) return FB_OK;
    FB_TRY(fb_profile_measure(&profile, j->ops, j->model, fb_spec_cache(j->spec)));
    fb_profile_print(&profile, &text);
    FB_TRY(fb_write_result(FB_OK, &text, own_text(j, SAVE)));
    fb_say_note("profile of this machine: %s", own_text(j, SAVE));
    return FB_OK;
}

/* What is whole is shown, also where it is not all. */
static int run_job(job *j)
{
    fb_status status, written;

    j->begin_ns = fb_time_ns();
    status = prepare(j);
    fb_stop_catch();
    if (status == FB_OK) status = save_profile(j);
    if (status == FB_OK && j->model != NULL) status = measure_all(j);
    if (status != FB_OK && (status != FB_STOPPED || j->out.n == 0))
        return fb_open_end(status, j->n_problems);
    written = fb_write_result(FB_OK, &j->out, "");
    if (written != FB_OK) return fb_say_end(written);
    return fb_status_exit_code(status);
}

static int run(const fb_line *line)
{
    job j = {.line = line, .spec = line->spec};
    const int code = run_job(&j);

    fb_text_clear(&j.out);
    fb_model_close(j.model);
    fb_ops_close(j.ops);
    fb_free(j.text);
    return code;
}

static const char *const reading[] = {
    "Each rule reads the context by itself, evicts, and answers alone, from memory of "
    "just "
    "its budget; times are medians of the repetitions with the interval of a "
    "percentile "
    "bootstrap. 'evict' is scoring, selecting and moving.",
    "'modelled' is what the operators of the ledger take at the FLOPs and bytes a "
    "second of "
    "the device, measured between the repetitions or read from --profile "
    "(docs/BENCH.md); "
    "beside it, the measured seconds divided by these.",
    "A --profile written by hand has a name and two rates, for each second:",
    "{\"name\": \"H100 SXM\", \"flops_per_s\": 67e12, \"bytes_per_s\": 3.35e12}",
    "Times of a machine that does other work as well are warned of, not corrected.",
    NULL};

const fb_command fb_command_bench = {
    .name = "bench",
    .arguments = "",
    .summary = "speed and memory of decoding under a budget, on this machine",
    .about =
        "Times what rules and budgets do on the engine of an experiment: reading a "
        "context, evicting, each token of an answer; rules in an order drawn anew in "
        "each "
        "repetition. Prints medians with intervals, the ratio to a baseline, the bytes "
        "that keys and values take, and what the counted work should take.",
    .examples =
        "flexbudget bench --model SmolLM2-135M-Instruct.Q4_1.gguf --context 4096 "
        "--rules full,snapkv,h2o --budgets 10%\n"
        "flexbudget bench --model builtin --context 256 --answer 8 --repetitions 3\n"
        "flexbudget bench --save-profile machine.json",
    .reading = reading,
    .codes = "3 stopped on request, 130 second Ctrl-C",
    .options = options,
    .has_settings = true,
    .taken = taken,
    .run = run,
};
