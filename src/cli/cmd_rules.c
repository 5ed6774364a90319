/* cmd_rules.c - the rules there are, or one explained.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/number.h"
#include "base/params.h"
#include "cli/cli.h"
#include "cli/rules_names.h"

#include <string.h>

enum { JSON };

static const fb_option options[] = {
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    FB_OPTION_END,
};

/* What was asked for: everything there is, or what a file has; or one rule of it. */
typedef struct asked {
    fb_rule_files files;
    const fb_rule_file *file; /* NULL: the built-in ones */
    const char *name;         /* or expression; NULL: all of them */
    const fb_rule *rule;      /* that it means */
    fb_bound_rule *bound;     /* NULL for a wrapper by its name */
} asked;

static int rule_count(const asked *a)
{
    return a->file == NULL ? fb_rule_count() : a->file->n;
}

static const fb_rule *rule_at(const asked *a, int i)
{
    return a->file == NULL ? fb_rule_at(i) : &a->file->rules[i];
}

static const char *kind_name(fb_rule_kind kind)
{
    static const char *const names[] = {"rule", "wrapper", "allocation", "control",
                                        "edit"};

    return names[kind];
}

/* What the rule asks the kernel for, in words. */
static void print_reads(uint32_t reads, int64_t window, fb_text *out)
{
    static const struct {
        fb_signal bit;
        const char *words;
    } signals[] = {
        {FB_READS_KEYS, "keys"},
        {FB_READS_VALUES, "values"},
        {FB_READS_ATTENTION_SUM, "attention summed over all queries"},
        {FB_READS_ATTENTION_BLOCK, "attention of all queries, block by block"},
        {FB_READS_POSITION, "positions"},
        {FB_READS_RANDOM, "random numbers"},
        {FB_READS_FUTURE, "the future (not deployable)"},
        {FB_READS_DOCUMENT_FUTURE, "the future of all questions (not deployable)"},
        {FB_READS_QUERIES, "queries"},
        {FB_READS_OUTPUT_WEIGHT, "the output projection"},
        {FB_READS_ROTATION, "rotations"},
        {FB_READS_RESIDUAL, "the residual stream"},
        {FB_READS_REPLAY, "attention of a second reading"},
    };
    const size_t begin = out->n;

    if (reads & FB_READS_WINDOW_ATTENTION && window == 1)
        fb_text_puts(out, "attention of the last query");
    else if (reads & FB_READS_WINDOW_ATTENTION)
        fb_text_printf(out, "attention of the last %lld queries", (long long)window);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (reads & signals[i].bit)
            fb_text_printf(out, "%s%s", out->n > begin ? ", " : "", signals[i].words);
    if (out->n == begin) fb_text_puts(out, "nothing");
}

/* --- the list --- */

static void list_presets(fb_text *out)
{
    fb_text rows = {0};

    if (fb_preset_count() == 0) return;
    fb_text_puts(out, "\npresets: names that stand for an expression\n");
    fb_text_init(&rows, 0);
    for (int i = 0; i < fb_preset_count(); i++) {
        const fb_preset *preset = fb_preset_at(i);

        fb_text_printf(&rows, "%s\t%s\t%s\n", preset->name, preset->expression,
                       preset->summary);
    }
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}

static void list_text(const asked *a, fb_text *out)
{
    fb_text rows = {0};

    fb_text_init(&rows, 0);
    for (int i = 0; i < rule_count(a); i++) {
        const fb_rule *rule = rule_at(a, i);

        fb_text_printf(&rows, "%s%s\t%s\t%s\t%s\n", rule->name,
                       rule->n_inner > 0 ? "(...)" : "", kind_name(rule->kind),
                       rule->family == NULL ? "" : rule->family, rule->summary);
    }
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
    if (a->file == NULL) list_presets(out);
    if (a->file == NULL) fb_rules_names_list(out);
    fb_text_printf(out, "\none explained: %s rules ", fb_say_program());
    if (a->file != NULL) fb_text_add_quoted(out, a->file->path);
    fb_text_puts(out, a->file != NULL ? " NAME\n" : "NAME\n");
}

static void add_json_param(const fb_param *row, const void *values, fb_text *out)
{
    fb_text text = {0};

    fb_text_init(&text, 0);
    fb_text_printf(out, "{\"name\": \"%s\", \"default\": ", row->name);
    fb_param_print_value(row, values, &text);
    fb_json_add_string(out, fb_text_string(&text));
    fb_text_clear(&text);
    fb_param_print_range(row, &text);
    fb_text_puts(out, ", \"range\": ");
    fb_json_add_string(out, fb_text_string(&text));
    fb_text_puts(out, ", \"origin\": ");
    fb_json_add_string(out, row->origin == NULL ? "" : row->origin);
    fb_text_puts(out, ", \"meaning\": ");
    fb_json_add_string(out, row->help);
    fb_text_puts(out, "}");
    fb_text_clear(&text);
}

static void add_json_rule(const fb_rule *rule, fb_text *out)
{
    char values[1024] = {0};

    fb_text_printf(out, "{\"name\": \"%s\", \"kind\": \"%s\", \"family\": ", rule->name,
                   kind_name(rule->kind));
    fb_json_add_string(out, rule->family == NULL ? "" : rule->family);
    fb_text_puts(out, ", \"summary\": ");
    fb_json_add_string(out, rule->summary);
    fb_text_puts(out, ", \"source\": ");
    fb_json_add_string(out, rule->source == NULL ? "" : rule->source);
    fb_text_printf(out, ", \"inner\": %d, \"params\": [", rule->n_inner);
    if (rule->params != NULL && rule->params_bytes <= sizeof values) {
        fb_params_init(rule->params, values);
        for (const fb_param *row = rule->params; row->name != NULL; row++) {
            if (row != rule->params) fb_text_puts(out, ", ");
            add_json_param(row, values, out);
        }
    }
    fb_text_puts(out, "]}");
}

static void add_json_presets(fb_text *out)
{
    fb_text_puts(out, ", \"presets\": [");
    for (int i = 0; i < fb_preset_count(); i++) {
        const fb_preset *preset = fb_preset_at(i);

        fb_text_printf(out, "%s{\"name\": \"%s\", \"expression\": ",
                       i == 0 ? "\n  " : ",\n  ", preset->name);
        fb_json_add_string(out, preset->expression);
        fb_text_puts(out, ", \"summary\": ");
        fb_json_add_string(out, preset->summary);
        fb_text_puts(out, "}");
    }
    fb_text_puts(out, "\n]");
}

static void list_json(const asked *a, fb_text *out)
{
    const int n = a->rule != NULL ? 1 : rule_count(a);

    fb_text_puts(out, "{\"format\": 1");
    if (a->file != NULL) {
        fb_text_puts(out, ", \"file\": ");
        fb_json_add_string(out, a->file->path);
        fb_text_printf(out, ", \"sha256\": \"%s\"", a->file->sha256);
    }
    fb_text_puts(out, ", \"rules\": [");
    for (int i = 0; i < n; i++) {
        fb_text_puts(out, i == 0 ? "\n  " : ",\n  ");
        add_json_rule(a->rule != NULL ? a->rule : rule_at(a, i), out);
    }
    fb_text_puts(out, "\n]");
    if (a->rule == NULL && a->file == NULL) {
        add_json_presets(out);
        fb_rules_names_json(out);
    }
    fb_text_puts(out, "}\n");
}

/* --- one rule --- */

static void add_params(const fb_rule *rule, fb_text *out)
{
    fb_text rows = {0};
    char values[1024] = {0};

    if (rule->params == NULL || rule->params_bytes > sizeof values) return;
    fb_text_init(&rows, 0);
    fb_params_init(rule->params, values);
    fb_text_puts(&rows, "parameter\tdefault\trange\torigin of the default\tmeaning\n");
    for (const fb_param *row = rule->params; row->name != NULL; row++) {
        fb_text_printf(&rows, "%s\t", row->name);
        fb_param_print_value(row, values, &rows);
        fb_text_puts(&rows, "\t");
        fb_param_print_range(row, &rows);
        fb_text_printf(&rows, "\t%s\t%s\n", row->origin == NULL ? "" : row->origin,
                       row->help);
    }
    fb_text_puts(out, "\n");
    fb_align(fb_text_string(&rows), out);
    fb_text_clear(&rows);
}

/* Whether adakv(...) and the like may go around it. */
static const char *compared(fb_compares compares)
{
    return compares == FB_COMPARES_LAYERS  ? "between heads and layers"
           : compares == FB_COMPARES_HEADS ? "between heads"
                                           : "within a head alone";
}

/* What it holds of a layer beside the entries, while a text comes in. */
static void add_held(const fb_bound_rule *bound, fb_text *out)
{
    static const char how[] =
        "numbers per query head (under --protocol stream, from the budget)\n";
    const fb_choices *c = fb_bound_rule_choices(bound);
    const int64_t queries = fb_larger(c->window, c->queries);

    if (!fb_bound_rule_streams(bound)) return;
    if (queries > 0)
        fb_text_printf(out, "holds      the last %lld queries: %lld x head_dim %s",
                       (long long)queries, (long long)queries, how);
    if (c->layer_squares > 0)
        fb_text_printf(out, "learns     (%lld + %lld x head_dim) x head_dim %s",
                       (long long)c->layer_rows, (long long)c->layer_squares, how);
    else if (c->layer_rows > 0)
        fb_text_printf(out, "learns     %lld x head_dim %s", (long long)c->layer_rows,
                       how);
}

static void add_choices(const fb_bound_rule *bound, fb_text *out)
{
    const fb_choices *c = fb_bound_rule_choices(bound);

    fb_text_puts(out, "reads      ");
    if (c->reference == FB_REFERENCE_NONE)
        print_reads(c->reads, c->window, out);
    else
        fb_text_puts(out, "nothing: it is a row of an experiment");
    fb_text_puts(out, "\n");
    if (c->pool_average > 1)
        fb_text_printf(out, "smoothing  average over %lld\n",
                       (long long)c->pool_average);
    if (c->pool_max > 1)
        fb_text_printf(out, "smoothing  maximum over %lld\n", (long long)c->pool_max);
    if (c->unscored_last == 1)
        fb_text_puts(out, "keeps      the newest entry: it has no score\n");
    else if (c->unscored_last > 0)
        fb_text_printf(out, "keeps      the newest %lld: they have no score\n",
                       (long long)c->unscored_last);
    if (c->recent_quota > 0)
        fb_text_printf(out, "keeps      the newest %.15g %% of the budget\n",
                       c->recent_quota * 100);
    if (c->sink > 0 || c->recent > 0)
        fb_text_printf(out,
                       "protects   %lld first and %lld last as published "
                       "(--protect published)\n",
                       (long long)c->sink, (long long)c->recent);
    if (!c->keeps_all) fb_text_printf(out, "compares   %s\n", compared(c->compares));
    fb_text_printf(out, "state      %lld bytes per entry%s\n",
                   (long long)c->state_rows * (long long)sizeof(float),
                   c->state_rows > 0 ? " (under --protocol stream)" : "");
    add_held(bound, out);
}

static void add_runs(const fb_rule *rule, fb_text *out)
{
    fb_text_printf(out, "works in   %s%s%s\n",
                   rule->runs & FB_RUNS_ONE_SHOT ? "prefill" : "",
                   rule->runs == (FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING) ? ", " : "",
                   rule->runs & FB_RUNS_STREAMING ? "stream" : "");
}

static void one_text(const asked *a, fb_text *out)
{
    const char *name = a->name;
    const fb_rule *rule = a->rule;
    const fb_bound_rule *bound = a->bound;
    const fb_preset *preset = fb_preset_find(name);

    if (preset != NULL)
        fb_text_printf(out, "%s - %s\nstands for %s\n\n", name, preset->summary,
                       preset->expression);
    if (bound != NULL) fb_rules_names_stand_for(name, bound, out);
    fb_text_printf(out, "%s - %s\n", rule->name, rule->summary);
    if (rule->source != NULL) fb_text_printf(out, "source     %s\n", rule->source);
    fb_text_printf(out, "kind       %s%s%s\n", kind_name(rule->kind),
                   rule->family != NULL ? ", family: " : "",
                   rule->family != NULL ? rule->family : "");
    if (bound != NULL) {
        fb_text_printf(out, "written    %s\n", fb_bound_rule_text(bound));
        add_choices(bound, out);
    } else {
        fb_text_printf(out, "written    %s(rule%s)\n", rule->name,
                       rule->n_inner > 1 ? ", rule" : "");
    }
    if (rule->needs != FB_COMPARES_NOTHING)
        fb_text_printf(out, "needs      scores that compare %s\n",
                       compared(rule->needs));
    if (rule->effort != NULL)
        fb_text_printf(out, "effort     %s: what --compute matched lowers\n",
                       rule->effort);
    add_runs(rule, out);
    add_params(rule, out);
}

/* A wrapper's name alone is no expression. */
static fb_status find(asked *a)
{
    const fb_rule_file *from = NULL;

    if (a->name == NULL) return FB_OK;
    a->rule = fb_rule_find(a->name);
    if (a->rule == NULL) a->rule = fb_rule_files_find(&a->files, a->name, &from);
    if (a->rule != NULL && a->rule->n_inner > 0) return FB_OK;
    FB_TRY(fb_rule_parse_with(&a->bound, a->name, &a->files));
    a->rule = fb_bound_rule_get(a->bound);
    return FB_OK;
}

/* [FILE] [NAME] */
static fb_status read_arguments(asked *a, const fb_line *line)
{
    const int n = line->n_arguments;
    const bool has_file = n > 0 && fb_rule_is_file(line->arguments[0]);

    if (n == 2 && !has_file)
        return fb_fail(FB_USAGE,
                       "'%s' is no file of rules, and one rule is explained at a time\n"
                       "help: flexbudget rules ./mine.so NAME",
                       line->arguments[0]);
    if (has_file)
        FB_TRY(fb_rule_files_add(&a->files, line->arguments[0], NULL, &a->file));
    if (n > has_file) a->name = line->arguments[n - 1];
    return find(a);
}

static fb_status print(const fb_line *line, fb_text *out)
{
    asked a = {0};
    const bool is_json = fb_values_flag(&line->own, JSON);
    fb_status status;

    if (line->n_arguments == 1 &&
        fb_rules_names_explain(line->arguments[0], is_json, out))
        return FB_OK;
    status = read_arguments(&a, line);
    if (status == FB_OK && is_json)
        list_json(&a, out);
    else if (status == FB_OK && a.rule != NULL)
        one_text(&a, out);
    else if (status == FB_OK)
        list_text(&a, out);
    fb_bound_rule_free(a.bound);
    fb_rule_files_clear(&a.files);
    return status;
}

const fb_command fb_command_rules = {
    .name = "rules",
    .arguments = "[FILE.so] [NAME|EXPRESSION]",
    .summary = "the eviction rules; with a name: formula's source, parameters",
    .about =
        "Lists the rules, wrappers and allocations that rule expressions are made "
        "of and the presets that stand for some, or explains one: what it reads, "
        "keeps and protects, its parameters "
        "with the origin of each default. Names of other projects and names that "
        "are not offered are explained too; with a shared object of rules the same "
        "of those in it.",
    .examples = "flexbudget rules snapkv\n"
                "flexbudget rules 'adakv(snapkv:window=16)'\n"
                "flexbudget rules 'kvpress:AdaKVPress(SnapKVPress(window_size=16))'\n"
                "flexbudget rules --json",
    .options = options,
    .most = 2,
    .print = print,
};
