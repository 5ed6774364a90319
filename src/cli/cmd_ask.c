/* cmd_ask.c - one text, one question, several rules side by side.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "cli/ask_live.h"
#include "cli/cli.h"
#include "cli/opening.h"
#include "cli/peer_notes.h"

#include <ctype.h>
#include <string.h>

/* More than the longest text that a model takes. */
static const size_t MOST_TEXT_BYTES = (size_t)16 << 20;

enum { TEXT, STOP, JSON };

static const fb_option options[] = {
    [TEXT] = {.name = "text",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "WORDS",
              .group = "Text and answer",
              .help = "the text itself, in place of TEXT"},
    [STOP] = {.name = "stop",
              .type = FB_TYPE_TEXT,
              .initial = "",
              .argument = "WORDS",
              .group = "Text and answer",
              .help = "what ends an answer, besides the model's own end"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Text and answer",
              .help = "the answers as JSON, with their ids"},
    FB_OPTION_END,
};

static const fb_taken taken[] = {
    {FB_SET_model, NULL, NULL},
    {FB_SET_rules, "full,snapkv:window=16,h2o,keydiff", NULL},
    {FB_SET_budgets, "20%",
     "10% of the full cache, 256t per head, 64MiB; several: each"},
    {FB_SET_seeds, NULL, NULL},
    {FB_SET_template, NULL, NULL},
    {FB_SET_bos, NULL, NULL},
    {FB_SET_query, NULL, NULL},
    {FB_SET_protect_question, NULL, NULL},
    {FB_SET_protect, NULL, NULL},
    {FB_SET_positions, NULL, NULL},
    {FB_SET_cache, NULL, NULL},
    {FB_SET_max_tokens, "128", "limit of an answer"},
    {FB_SET_device, NULL, NULL},
    {FB_SET_precision, NULL, NULL},
    FB_TAKEN_MACHINE,
    {FB_SET_COUNT, NULL, NULL},
};

/* What is open during a question. */
typedef struct job {
    const fb_line *line;
    fb_spec *spec;
    char *text; /* from a file; NULL: from the command line */
    fb_own_question own;
    fb_ops *ops;
    fb_model *model;
    fb_plan *plan;
    fb_ask ask;
    int n_problems; /* said so far */
} job;

static bool is_given(const job *j, int option)
{
    return j->line->own.value[option].origin == FB_FROM_COMMAND;
}

/* --- text and question --- */

static bool is_blank(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return *text == '\0';
}

static fb_status check_zero(const job *j, size_t n)
{
    const char *zero = memchr(j->text, 0, n);

    if (zero == NULL) return FB_OK;
    return fb_fail(FB_FORMAT,
                   "byte %zu is zero, so it is no text that can be read here\n"
                   "help: convert it to UTF-8 first",
                   (size_t)(zero - j->text) + 1);
}

static fb_status read_file(job *j, const char *path)
{
    const bool is_input = strcmp(path, "-") == 0;
    size_t n = 0;
    fb_status status = is_input ? fb_file_read_input(&j->text, &n, MOST_TEXT_BYTES)
                                : fb_file_read(&j->text, &n, path, MOST_TEXT_BYTES);

    j->own.text = j->text;
    if (status == FB_OK) status = check_zero(j, n);
    return is_input ? fb_context(status, "standard input")
                    : fb_context(status, "text '%s'", path);
}

/* FB_USAGE unless there is one argument, or two where no text is given. */
static fb_status check_arguments(const job *j)
{
    const int n = j->line->n_arguments;

    if (is_given(j, TEXT) && n == 2)
        return fb_fail(FB_USAGE,
                       "'%.80s' is one argument too many: the text is that of --text\n"
                       "help: flexbudget ask [options] --text WORDS QUESTION",
                       j->line->arguments[0]);
    if (!is_given(j, TEXT) && n == 1)
        return fb_fail(FB_USAGE, "QUESTION is missing\n"
                                 "help: flexbudget ask [options] TEXT QUESTION");
    return FB_OK;
}

static void warn_unless_utf8(const char *what, const char *text)
{
    const char *at = text;
    char sentence[160];

    for (size_t left = strlen(text), n; left > 0; at += n, left -= n)
        if ((n = fb_utf8_length(at, left)) == 0) {
            (void)snprintf(sentence, sizeof sentence,
                           "the %s is not UTF-8 at byte %zu; bytes that are no "
                           "characters are taken one by one",
                           what, (size_t)(at - text) + 1);
            fb_say_warning(sentence);
            return;
        }
}

static fb_status read_texts(job *j)
{
    const fb_line *line = j->line;

    j->own.question = line->arguments[line->n_arguments - 1];
    if (is_blank(j->own.question)) return fb_fail(FB_USAGE, "the question is empty");
    if (is_given(j, STOP)) j->own.stop = fb_values_text(&line->own, STOP);
    if (is_given(j, STOP) && j->own.stop[0] == '\0')
        return fb_fail(FB_USAGE, "--stop '' would end every answer before it begins");
    if (is_given(j, TEXT))
        j->own.text = fb_values_text(&line->own, TEXT);
    else
        FB_TRY(read_file(j, line->arguments[0]));
    if (is_blank(j->own.text)) return fb_fail(FB_USAGE, "the text is empty");
    warn_unless_utf8("text", j->own.text);
    warn_unless_utf8("question", j->own.question);
    return FB_OK;
}

/* --- asking --- */

static fb_status prepare(job *j)
{
    FB_TRY(check_arguments(j));
    FB_TRY(fb_open_environment(j->spec));
    FB_TRY(fb_spec_check_question(j->spec,
                                  "a question of your own comes without\n"
                                  "help: flexbudget tasks jsonl shows how questions "
                                  "with answers are written, for flexbudget run",
                                  fb_open_problem, &j->n_problems));
    FB_TRY(read_texts(j));
    FB_TRY(fb_open_model(&j->model, &j->ops, j->spec, FB_OPEN_FOR_SPEED));
    FB_TRY(fb_plan_ask(&j->plan, j->spec, j->model, &j->own, fb_open_problem,
                       &j->n_problems));
    fb_plan_warn(j->plan, NULL, fb_open_warn, NULL);
    fb_plan_notes(j->plan, 0, fb_open_warn, NULL);
    fb_say_peers(j->line);
    return fb_ask_init(&j->ask, j->plan);
}

static void say_begin(const job *j)
{
    const int64_t tokens = j->plan->documents[0].context.n;
    char count[32];
    fb_text model;

    fb_text_init(&model, 0);
    fb_open_say_model(&model, j->spec, fb_model_get_facts(j->model));
    fb_print_count(tokens, count, sizeof count);
    fb_say_note("%s  text of %s %s, read once for %d %s", fb_text_string(&model), count,
                fb_plural(tokens, "token", "tokens"), j->ask.n,
                fb_plural(j->ask.n, "answer", "answers"));
    fb_text_clear(&model);
}

static fb_status ask(job *j, const fb_ask_look *look, bool json)
{
    const int64_t memory = fb_values_int(&j->spec->values, FB_SET_memory);
    fb_ask_live live;
    const fb_ask_options how = {.memory = memory > 0 ? memory : 0,
                                .stop = &fb_stop_asked,
                                .watch = fb_ask_live_watch,
                                .self = &live};
    fb_status status;

    say_begin(j);
    fb_stop_catch();
    fb_ask_live_open(&live, look, !json, fb_say_is_quiet());
    status = fb_ask_run(&j->ask, j->ops, &how);
    fb_ask_live_close(&live);
    return status;
}

/* What is there is shown, also where it is not all. */
static int run_job(job *j)
{
    const bool json = fb_values_flag(&j->line->own, JSON);
    const fb_ask_look look = {.has_colour = fb_say_has_colour(j->line, 1),
                              .width = fb_terminal_is(1) ? fb_terminal_width(1) : 0};
    fb_text text = {0};
    fb_status status = prepare(j), written;

    if (status == FB_OK) status = ask(j, &look, json);
    if (status != FB_OK && (status != FB_STOPPED || j->ask.n == 0))
        return fb_open_end(status, j->n_problems);
    if (json)
        fb_ask_add_json(&j->ask, j->own.question, status == FB_STOPPED, &text);
    else
        fb_ask_add_all(&j->ask, &look, status == FB_STOPPED, &text);
    written = fb_write_result(FB_OK, &text, "");
    if (written != FB_OK) return fb_say_end(written);
    for (int i = 0; i < j->ask.n && j->ask.full_bytes > 0; i++)
        fb_ask_warn(&j->ask, i, fb_open_warn, NULL);
    if (status == FB_STOPPED && j->ask.full_bytes == 0)
        fb_say_note("stopped while the text was being read: there are no answers yet");
    return fb_status_exit_code(status);
}

static int run(const fb_line *line)
{
    job j = {.line = line, .spec = line->spec};
    const int code = run_job(&j);

    fb_ask_clear(&j.ask);
    fb_plan_free(j.plan);
    fb_model_close(j.model);
    fb_ops_close(j.ops);
    fb_free(j.text);
    return code;
}

static const char *const reading[] = {
    "Every rule reads the same text once, keeps its share of the cache before the "
    "question is seen (--query aware: after), and answers it by greedy decoding, all "
    "in "
    "one batch.",
    "In brackets: the bytes that were kept of the full cache; the first token, from 1, "
    "that differs from the answer of the full cache; how long the answer is, and when "
    "it was there.",
    "One question on one text says nothing about a rule: 'flexbudget run' with 'tasks "
    "jsonl' compares them on many.",
    NULL};

const fb_command fb_command_ask = {
    .name = "ask",
    .arguments = "[TEXT] QUESTION",
    .summary = "one text, one question, several rules side by side",
    .about =
        "Reads a text, a file or '-' for standard input, asks one question on it, and "
        "prints what the model answers when each rule has evicted most of its cache. "
        "On a terminal the answers grow in place. Nothing is stored.",
    .examples =
        "flexbudget ask README.md \"What is this?\" --model "
        "SmolLM2-135M-Instruct.Q4_1.gguf\n"
        "flexbudget ask - \"Who signed?\" --model SmolLM2-135M-Instruct.Q4_1.gguf "
        "--rules full,snapkv,h2o --budget 10% < letter.txt\n"
        "flexbudget ask --model builtin --text \"^.A7.B3.C9.D1.E5\" \"?C\" --rules "
        "full,knorm --budget 50% --protect 1+1 --max-tokens 1",
    .reading = reading,
    .codes = "3 stopped on request, 130 second Ctrl-C",
    .options = options,
    .has_settings = true,
    .taken = taken,
    .least = 1,
    .most = 2,
    .run = run,
};
