/* cmd_tasks.c - the tasks there are, or one explained, shown or written out.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "base/params.h"
#include "cli/cli.h"
#include "experiment/plan.h"

#include <string.h>

enum { JSON, SHOW, MAKE, MODEL };

static const fb_option options[] = {
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    [SHOW] = {.name = "show",
              .type = FB_TYPE_INT,
              .initial = "",
              .low = 1,
              .high = 1000000,
              .argument = "N",
              .group = "Samples",
              .help = "print the first N documents as the model sees them"},
    [MAKE] = {.name = "make",
              .type = FB_TYPE_INT,
              .initial = "",
              .low = 1,
              .high = 1000000,
              .argument = "N",
              .group = "Samples",
              .help = "write the samples of N documents as JSON lines"},
    [MODEL] = {.name = "model",
               .letter = 'm',
               .type = FB_TYPE_TEXT,
               .initial = "builtin",
               .argument = "FILE",
               .group = "Samples",
               .help = "whose tokens are counted"},
    FB_OPTION_END,
};

/* --- the list --- */

static void list_text(fb_text *out)
{
    fb_text rows = {0};

    fb_text_init(&rows, 0);
    for (int i = 0; i < fb_task_count(); i++)
        fb_text_printf(&rows, "%s\t%s\t%s\n", fb_task_at(i)->name,
                       fb_task_at(i)->metric, fb_task_at(i)->summary);
    fb_align(fb_text_string(&rows), out);
    fb_text_printf(out,
                   "\none explained: %s tasks NAME    its prompts: %s tasks NAME "
                   "--show 1\n",
                   fb_say_program(), fb_say_program());
    fb_text_clear(&rows);
}

static void add_json_task(const fb_task *task, fb_text *out)
{
    fb_bound_task *bound = NULL;

    fb_text_printf(out,
                   "{\"name\": \"%s\", \"version\": %d, \"metric\": \"%s\", "
                   "\"data\": %s, \"summary\": ",
                   task->name, task->version, task->metric,
                   task->data == FB_DATA_NONE ? "false" : "true");
    fb_json_add_string(out, task->summary);
    fb_text_puts(out, ", \"defaults\": ");
    if (fb_task_bind(&bound, task->name) == FB_OK)
        fb_bound_task_print_json(bound, out);
    else
        fb_text_puts(out, "null");
    fb_bound_task_free(bound);
    fb_text_puts(out, "}");
}

static void list_json(const char *only, fb_text *out)
{
    bool is_first = true;

    fb_text_puts(out, "{\"format\": 1, \"tasks\": [");
    for (int i = 0; i < fb_task_count(); i++) {
        if (only != NULL && strcmp(only, fb_task_at(i)->name) != 0) continue;
        fb_text_puts(out, is_first ? "\n  " : ",\n  ");
        add_json_task(fb_task_at(i), out);
        is_first = false;
    }
    fb_text_puts(out, "\n]}\n");
}

/* --- one task --- */

enum { WIDEST_RANGE = 40 };

/* A range too wide for its column is told below the table. */
static void add_range(const fb_param *row, fb_text *rows, fb_text *below)
{
    fb_text range = {0};

    fb_text_init(&range, 0);
    fb_param_print_range(row, &range);
    if (range.n <= WIDEST_RANGE) {
        fb_text_puts(rows, fb_text_string(&range));
    } else {
        const int indent = (int)strlen(row->name) + 2;

        fb_text_puts(rows, "see below");
        fb_text_printf(below, "\n%s: ", row->name);
        fb_wrap(below, fb_text_string(&range), indent, indent);
    }
    fb_text_clear(&range);
}

static void add_params(const fb_task *task, fb_text *out)
{
    fb_bound_task *bound = NULL;
    fb_text rows = {0}, below = {0};

    if (task->params == NULL || fb_task_bind(&bound, task->name) != FB_OK) return;
    fb_text_init(&rows, 0);
    fb_text_init(&below, 0);
    fb_text_puts(&rows, "parameter\tdefault\trange\tmeaning\n");
    for (const fb_param *row = task->params; row->name != NULL; row++) {
        fb_text_printf(&rows, "%s\t", row->name);
        fb_param_print_value(row, fb_bound_task_values(bound), &rows);
        fb_text_puts(&rows, "\t");
        add_range(row, &rows, &below);
        fb_text_printf(&rows, "\t%s\n", row->help);
    }
    fb_text_puts(out, "\n");
    fb_align(fb_text_string(&rows), out);
    fb_text_puts(out, fb_text_string(&below));
    fb_text_clear(&rows);
    fb_text_clear(&below);
    fb_bound_task_free(bound);
}

/* "answers, answer, outputs" of "answers|answer|outputs". */
static void add_names(const char *names, fb_text *out)
{
    for (; *names != '\0'; names++)
        if (*names == '|')
            fb_text_puts(out, ", ");
        else
            fb_text_add(out, names, 1);
}

static void add_fields(const fb_task *task, fb_text *out)
{
    fb_text rows = {0};

    if (task->fields == NULL) return;
    fb_text_init(&rows, 0);
    fb_text_puts(&rows, "field\ttype\tneeded\tmeaning\n");
    for (const fb_field *field = task->fields; field->names != NULL; field++) {
        add_names(field->names, &rows);
        fb_text_printf(&rows, "\t%s\t%s\t%s\n", field->type, field->needed,
                       field->help);
    }
    fb_text_puts(out, "\none JSON object per line:\n");
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    if (task->example == NULL) return;
    fb_text_printf(out,
                   "\nexample of a line:\n%s\n"
                   "\nas the model sees it: %s tasks %s:data=FILE --show 1 -m MODEL\n",
                   task->example, fb_say_program(), task->name);
}

static void one_text(const fb_task *task, fb_text *out)
{
    const fb_metric *metric = fb_metric_find(task->metric);

    fb_text_printf(out, "%s - %s\n", task->name, task->summary);
    if (task->source != NULL) fb_text_printf(out, "source     %s\n", task->source);
    fb_text_printf(out, "metric     %s: %s", task->metric,
                   metric == NULL ? "" : metric->meaning);
    if (metric != NULL)
        fb_text_printf(out, " (%s, %s is better)", metric->unit,
                       metric->lower_is_better ? "lower" : "higher");
    fb_text_printf(out, "\nversion    %d\n", task->version);
    if (task->data != FB_DATA_NONE)
        fb_text_printf(out,
                       "data       %s:data=FILE%s\n"
                       "           sha256=HASH behind it: refused if it has changed\n",
                       task->name,
                       task->data == FB_DATA_OPTIONAL ? " (may be left out)" : "");
    add_params(task, out);
    add_fields(task, out);
}

static fb_status find(const char *expression, const fb_task **out)
{
    fb_bound_task *bound = NULL;
    const char *names[256];
    const char *nearest;
    int n = 0;

    *out = fb_task_find(expression);
    if (*out != NULL) return FB_OK;
    if (strchr(expression, ':') != NULL) { /* with parameters: for --show, --make */
        FB_TRY(fb_task_parse(&bound, expression));
        *out = fb_bound_task_get(bound);
        fb_bound_task_free(bound);
        return FB_OK;
    }
    for (; n < fb_task_count() && n < 256; n++)
        names[n] = fb_task_at(n)->name;
    nearest = fb_nearest_word(expression, names, n);
    if (nearest != NULL)
        return fb_fail(FB_USAGE, "unknown task '%s'; did you mean '%s'?", expression,
                       nearest);
    return fb_fail(FB_USAGE, "unknown task '%s'\nhelp: flexbudget tasks", expression);
}

/* --- samples --- */

/* A plan of this one task. */
typedef struct bench {
    fb_spec spec;
    fb_model *model;
    fb_plan *plan;
} bench;

static fb_status open_bench(bench *b, const char *model, const char *expression,
                            int option, const fb_line *line)
{
    char *path = NULL;
    fb_status status = fb_spec_init(&b->spec);

    if (status == FB_OK)
        status = fb_spec_assign(&b->spec, FB_SET_tasks, FB_FROM_COMMAND, expression);
    if (status == FB_OK)
        status = fb_spec_assign(&b->spec, FB_SET_model, FB_FROM_COMMAND, model);
    if (status == FB_OK)
        status = fb_spec_assign(&b->spec, FB_SET_rules, FB_FROM_COMMAND, "full");
    if (status == FB_OK)
        status = fb_spec_assign(&b->spec, FB_SET_samples, FB_FROM_COMMAND,
                                fb_values_text(&line->own, option));
    if (status == FB_OK) status = fb_spec_check(&b->spec, NULL, NULL);
    if (status == FB_OK) status = fb_model_find(&path, model);
    if (status == FB_OK) status = fb_model_open(&b->model, NULL, path, NULL);
    fb_free(path);
    if (status == FB_OK) status = fb_plan_new(&b->plan, &b->spec, b->model, NULL, NULL);
    return status;
}

static void close_bench(bench *b)
{
    fb_plan_free(b->plan);
    fb_model_close(b->model);
    fb_spec_clear(&b->spec);
}

static fb_status add_ids(const bench *b, const char *heading, const fb_ids *ids,
                         fb_text *out)
{
    char *text = NULL;
    size_t n = 0;

    FB_TRY(fb_tokenizer_decode(fb_model_tokenizer(b->model), ids->ids, ids->n, false,
                               &text, &n));
    fb_text_printf(out, "--- %s, %lld %s\n", heading, (long long)ids->n,
                   fb_plural(ids->n, "token", "tokens"));
    fb_text_add(out, text, n);
    fb_text_puts(out, "\n");
    fb_free(text);
    return FB_OK;
}

/* A key is anybody's text: what a terminal would obey is shown as '?'. */
static void add_line(fb_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const char c = *text;

        fb_text_add(out, (unsigned char)c < 0x20 || c == 0x7f ? "?" : &c, 1);
    }
    fb_text_puts(out, "\n");
}

static fb_status show(const bench *b, fb_text *out)
{
    for (int i = 0; i < b->plan->n_samples; i++) {
        const fb_plan_sample *s = &b->plan->samples[i];
        const fb_plan_document *d = &b->plan->documents[s->document];

        if (i == d->first_sample)
            FB_TRY(add_ids(b, "context (read, then evicted)", &d->context, out));
        fb_text_puts(out, "=== sample ");
        add_line(out, s->key);
        FB_TRY(add_ids(b,
                       s->continues ? "first token of the continuation"
                                    : "question (read on what is left)",
                       &s->prompt, out));
        FB_TRY(add_ids(b, "answer expected", &s->answer, out));
    }
    return FB_OK;
}

/* Rows that the task `jsonl` reads. */
static void make(const bench *b, fb_text *out)
{
    for (int i = 0; i < b->plan->n_samples; i++) {
        const fb_plan_sample *s = &b->plan->samples[i];

        fb_text_puts(out, "{\"key\": ");
        fb_json_add_string(out, s->key);
        fb_text_puts(out, ", \"group\": ");
        fb_json_add_string(out, s->group);
        fb_text_puts(out, ", \"context\": ");
        fb_json_add_string(out, b->plan->documents[s->document].text);
        fb_text_puts(out, ", \"question\": ");
        fb_json_add_string(out, s->question);
        fb_text_puts(out, ", \"answer_prefix\": ");
        fb_json_add_string(out, s->prefix);
        fb_text_puts(out, ", \"answers\": [");
        for (int r = 0; r < s->references.n; r++) {
            if (r > 0) fb_text_puts(out, ", ");
            fb_json_add_string(out, s->references.text[r]);
        }
        fb_text_printf(out, "], \"max_tokens\": %lld}\n", (long long)s->max_tokens);
    }
}

static void say_notes(const char *lines)
{
    while (*lines != '\0') {
        const size_t n = strcspn(lines, "\n");

        fb_say_note("note: %.*s", (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static fb_status print_samples(const fb_line *line, const char *expression,
                               fb_text *out)
{
    const bool shows = fb_values_int(&line->own, SHOW) > 0;
    bench b = {0};
    fb_status status = open_bench(&b, fb_values_text(&line->own, MODEL), expression,
                                  shows ? SHOW : MAKE, line);

    if (status == FB_OK) say_notes(fb_text_string(&b.plan->tasks[0].notes));
    if (status == FB_OK && shows)
        status = show(&b, out);
    else if (status == FB_OK)
        make(&b, out);
    close_bench(&b);
    return status;
}

static fb_status print(const fb_line *line, fb_text *out)
{
    const bool samples =
        fb_values_int(&line->own, SHOW) > 0 || fb_values_int(&line->own, MAKE) > 0;
    const char *name = line->n_arguments > 0 ? line->arguments[0] : NULL;
    const fb_task *task = NULL;

    if (name != NULL) FB_TRY(find(name, &task));
    if (samples && name == NULL)
        return fb_fail(FB_USAGE, "--show and --make need the name of a task");
    if (samples) return print_samples(line, name, out);
    if (fb_values_flag(&line->own, JSON))
        list_json(task == NULL ? NULL : task->name, out);
    else if (task != NULL)
        one_text(task, out);
    else
        list_text(out);
    return FB_OK;
}

const fb_command fb_command_tasks = {
    .name = "tasks",
    .arguments = "[NAME[:PARAMETERS]]",
    .summary = "the tasks; with a name: its metric, parameters, samples",
    .about = "Lists the tasks, explains one, prints samples as the model sees them, or "
             "writes them as JSON lines.",
    .examples = "flexbudget tasks needle\n"
                "flexbudget tasks recall:tokens=64 --show 1\n"
                "flexbudget tasks needle --make 3 -m SmolLM2-135M-Instruct.Q4_1.gguf",
    .options = options,
    .most = 1,
    .print = print,
};
