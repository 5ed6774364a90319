/* help.c - help is made from the tables of commands and options.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/cli.h"
#include "experiment/version.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 79, COLUMN = 30, MOST_COLUMNS = 16 };

/* --- columns --- */

/* Characters, not bytes: continuation bytes of UTF-8 do not count. */
static int width_of(const char *text, size_t n)
{
    int width = 0;

    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static void measure(const char *rows, int widths[MOST_COLUMNS])
{
    int column = 0;

    for (const char *c = rows; *c != '\0';) {
        const size_t n = strcspn(c, "\t\n");
        const int width = width_of(c, n);

        if (column < MOST_COLUMNS && c[n] == '\t' && width > widths[column])
            widths[column] = width;
        column = c[n] == '\t' ? column + 1 : 0;
        c += n + (c[n] != '\0');
    }
}

void fb_align(const char *rows, fb_text *out)
{
    int widths[MOST_COLUMNS] = {0};
    int column = 0;

    measure(rows, widths);
    for (const char *c = rows; *c != '\0';) {
        const size_t n = strcspn(c, "\t\n");

        fb_text_add(out, c, n);
        if (c[n] == '\t' && column < MOST_COLUMNS)
            fb_text_printf(out, "%*s", widths[column] + 2 - width_of(c, n), "");
        column = c[n] == '\t' ? column + 1 : 0;
        if (c[n] == '\n') fb_text_puts(out, "\n");
        c += n + (c[n] != '\0');
    }
}

void fb_wrap(fb_text *out, const char *text, int at, int indent)
{
    bool is_first = true;

    while (*text != '\0') {
        const size_t n = strcspn(text, " ");
        const int width = width_of(text, n);

        if (!is_first && at + 1 + width > WIDTH) {
            fb_text_printf(out, "\n%*s", indent, "");
            at = indent;
        } else if (!is_first) {
            fb_text_puts(out, " ");
            at++;
        }
        fb_text_add(out, text, n);
        at += width;
        text += n + (text[n] == ' ');
        is_first = false;
    }
    fb_text_puts(out, "\n");
}

/* --- the overview --- */

static void add_command(fb_text *out, const char *heading, const char *name)
{
    fb_text_printf(out, "%-11s %-9s %s\n", heading, name,
                   fb_command_find(name)->summary);
}

void fb_help_overview(fb_text *out)
{
    fb_text_puts(out, "flexbudget " FB_VERSION " - compare KV-cache eviction rules: "
                      "same kernel, same memory, same inputs\n\n");
    add_command(out, "Compare", "run");
    add_command(out, "", "ask");
    add_command(out, "Understand", "compare");
    add_command(out, "", "choose");
    add_command(out, "", "report");
    add_command(out, "Trust", "verify");
    add_command(out, "Look up", "rules");
    add_command(out, "", "tasks");
    fb_text_puts(out, "\nalso        bench  export  model  doctor  help  version\n\n");
    fb_text_printf(
        out,
        "Try it:     %s run --model builtin --tasks recall:filler=inert --rules "
        "full,random,snapkv:window=16 --budgets 25%%\n"
        "More:       %s help run    %s rules\n",
        fb_say_program(), fb_say_program(), fb_say_program());
}

/* --- one command --- */

/* The meaning, (the default), and [the key of the file] where its name is another. */
static void add_meaning(fb_text *out, const fb_option *row)
{
    fb_text help = {0};

    fb_text_init(&help, 0);
    fb_text_puts(&help, row->help);
    if (row->initial[0] != '\0' && row->type != FB_TYPE_FLAG)
        fb_text_printf(&help, " (%s)", row->initial);
    if (row->key != NULL && strcmp(row->key, row->name) != 0)
        fb_text_printf(&help, " [%s]", row->key);
    fb_wrap(out, fb_text_string(&help), COLUMN, COLUMN);
    fb_text_clear(&help);
}

static void add_option(fb_text *out, const fb_option *row)
{
    char word[96];
    int n;

    n = snprintf(word, sizeof word, "  %c%c %s--%s%s%s", row->letter != 0 ? '-' : ' ',
                 row->letter != 0 ? row->letter : ' ', "", row->name,
                 row->type == FB_TYPE_FLAG ? "" : " ",
                 row->type == FB_TYPE_FLAG || row->argument == NULL ? ""
                                                                    : row->argument);
    fb_text_printf(out, "%-*s", COLUMN, word);
    if (n >= COLUMN) fb_text_printf(out, "\n%*s", COLUMN, "");
    add_meaning(out, row);
}

static bool is_shown(const fb_option *row)
{
    return row->name != NULL && row->type != FB_TYPE_LATER;
}

static bool is_first_of_group(const fb_option *rows, int i)
{
    for (int j = 0; j < i; j++)
        if (is_shown(&rows[j]) && strcmp(rows[j].group, rows[i].group) == 0)
            return false;
    return true;
}

/* Groups in the order of their first options. */
static void add_options(fb_text *out, const fb_option *rows)
{
    if (rows == NULL) return;
    for (int i = 0; !fb_option_is_end(&rows[i]); i++) {
        if (!is_shown(&rows[i]) || !is_first_of_group(rows, i)) continue;
        fb_text_printf(out, "\n%s\n", rows[i].group);
        for (int j = i; !fb_option_is_end(&rows[j]); j++)
            if (is_shown(&rows[j]) && strcmp(rows[j].group, rows[i].group) == 0)
                add_option(out, &rows[j]);
    }
}

static void add_examples(fb_text *out, const char *examples)
{
    fb_text_puts(out, "\nExamples\n");
    while (*examples != '\0') {
        const size_t n = strcspn(examples, "\n");
        const size_t word = strcspn(examples, " "); /* "flexbudget" */

        fb_text_printf(out, "  %s%.*s\n", fb_say_program(), (int)(n - word),
                       examples + word);
        examples += n + (examples[n] == '\n');
    }
}

static void add_reading(fb_text *out, const char *const *paragraph)
{
    if (paragraph == NULL) return;
    fb_text_puts(out, "\nHow to read it\n");
    for (; *paragraph != NULL; paragraph++) {
        fb_text_puts(out, "  ");
        fb_wrap(out, *paragraph, 2, 2);
    }
}

void fb_help_command(const fb_command *command, fb_text *out)
{
    fb_option settings[FB_SET_COUNT + 1];

    fb_text_printf(out, "usage: flexbudget %s [options]%s%s\n\n", command->name,
                   command->arguments[0] != '\0' ? " " : "", command->arguments);
    fb_wrap(out, command->about, 0, 0);
    if (command->has_settings) {
        fb_command_settings(command, settings);
        add_options(out, settings);
    }
    add_options(out, command->options);
    add_options(out, fb_common_options);
    if (command->taken != NULL)
        fb_text_puts(out, "\nFLEXBUDGET_<OPTION> in the environment sets what `run` "
                          "takes too: command line,\nenvironment, default.\n");
    else if (command->has_settings)
        fb_text_puts(
            out, "\nWhat to compare, conditions, judging, storing and machine are "
                 "keys of the experiment\nfile too: by the option's name, or by the "
                 "one in [brackets]. FLEXBUDGET_<OPTION> in\nthe environment sets "
                 "what has a key: command line, environment, file, default.\n");
    add_reading(out, command->reading);
    add_examples(out, command->examples);
    fb_text_printf(out,
                   "\nexit codes: 0 done, 1 failed, 2 the request makes no sense%s%s\n",
                   command->codes != NULL ? ", " : "",
                   command->codes != NULL ? command->codes : "");
}
