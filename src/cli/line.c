/* line.c - the words of a command line become values of option tables.
 *
 * An option is looked up in the command's own table, then in the common one, then among
 * the settings of an experiment that the command takes. Forms: --name VALUE,
 * --name=VALUE, -x VALUE, -xVALUE; flags: --name, --no-name; a list may be called by one
 * of its items: --budget 20%. `--` ends the options.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/memory.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMES = 128, NAME = 64 };

const fb_option fb_common_options[] = {
    [FB_COMMON_help] = {.name = "help",
                        .letter = 'h',
                        .type = FB_TYPE_FLAG,
                        .initial = "off",
                        .group = "Always",
                        .help = "this text"},
    [FB_COMMON_quiet] = {.name = "quiet",
                         .letter = 'q',
                         .type = FB_TYPE_FLAG,
                         .initial = "off",
                         .group = "Always",
                         .help = "errors only on stderr"},
    [FB_COMMON_colour] = {.name = "color",
                          .type = FB_TYPE_WORD,
                          .initial = "auto",
                          .words = "auto|always|never",
                          .argument = "WHEN",
                          .group = "Always",
                          .help = "colours in messages; NO_COLOR is honoured"},
    FB_OPTION_END,
};

static const fb_option no_options[] = {FB_OPTION_END};

/* Where an option was found. */
typedef struct place {
    fb_values *values;
    int row;
    bool is_setting, is_negated;
} place;

static const fb_taken *find_taken(const fb_command *command, int setting)
{
    const fb_taken *taken = command->taken;

    while (taken->setting != FB_SET_COUNT && (int)taken->setting != setting)
        taken++;
    return taken->setting == FB_SET_COUNT ? NULL : taken;
}

void fb_command_settings(const fb_command *command, fb_option *rows)
{
    memcpy(rows, fb_settings(), (FB_SET_COUNT + 1) * sizeof *rows);
    for (int i = 0; i < FB_SET_COUNT && command->taken != NULL; i++) {
        const fb_taken *taken = find_taken(command, i);

        if (taken != NULL) rows[i].key = rows[i].name; /* of no file */
        if (taken == NULL) rows[i].name = NULL;
        if (taken != NULL && taken->initial != NULL) rows[i].initial = taken->initial;
        if (taken != NULL && taken->help != NULL) rows[i].help = taken->help;
    }
}

static int find(const fb_option *rows, const char *name, char letter)
{
    char list[NAME + 1];
    int row = -1;

    for (int i = 0; letter != 0 && !fb_option_is_end(&rows[i]); i++)
        if (rows[i].letter == letter) return i;
    if (letter != 0) return -1;
    row = fb_option_find_name(rows, name);
    if (row >= 0) return row;
    (void)snprintf(list, sizeof list, "%ss", name);
    row = fb_option_find_name(rows, list);
    return row >= 0 && fb_option_is_list(&rows[row]) ? row : -1;
}

static bool find_in_tables(fb_line *line, const char *name, char letter, place *out)
{
    fb_values *const tables[] = {&line->own, &line->common,
                                 line->spec != NULL ? &line->spec->values : NULL};

    for (int t = 0; t < 3 && tables[t] != NULL; t++) {
        const int row = find(tables[t]->rows, name, letter);

        if (row < 0) continue;
        if (t == 2 && line->command->taken != NULL &&
            find_taken(line->command, row) == NULL)
            return false;
        *out = (place){.values = tables[t], .row = row, .is_setting = t == 2};
        return true;
    }
    return false;
}

static bool find_option(fb_line *line, const char *name, char letter, place *out)
{
    if (find_in_tables(line, name, letter, out)) return true;
    if (letter != 0 || strncmp(name, "no-", 3) != 0) return false;
    if (!find_in_tables(line, name + 3, 0, out)) return false;
    out->is_negated = true;
    return out->values->rows[out->row].type == FB_TYPE_FLAG;
}

static int add_names(const fb_option *rows, const char **names, int n)
{
    for (int i = 0; !fb_option_is_end(&rows[i]) && n < MOST_NAMES; i++)
        if (rows[i].name != NULL) names[n++] = rows[i].name;
    return n;
}

static fb_status unknown_option(const fb_line *line, const char *word, const char *name)
{
    const char *names[MOST_NAMES];
    const char *nearest;
    fb_option settings[FB_SET_COUNT + 1];
    int n = add_names(line->own.rows, names, 0);

    n = add_names(fb_common_options, names, n);
    if (line->spec != NULL) {
        fb_command_settings(line->command, settings);
        n = add_names(settings, names, n);
    }
    nearest = fb_nearest_word(name, names, n);
    if (nearest != NULL)
        return fb_fail(FB_USAGE, "unknown option '%s'; did you mean '--%s'?", word,
                       nearest);
    return fb_fail(FB_USAGE, "unknown option '%s'\nhelp: flexbudget help %s", word,
                   line->command->name);
}

/* --- one option --- */

typedef struct cursor {
    fb_line *line;
    int argc, at;
    char **argv;
} cursor;

static fb_status set(cursor *c, const place *p, const char *word, const char *text)
{
    const bool is_set = p->values->value[p->row].origin == FB_FROM_COMMAND;
    fb_status status;

    if (is_set && p->values->rows[p->row].type != FB_TYPE_FLAG)
        return fb_fail(FB_USAGE, "option '%s' is given twice", word);
    if (p->is_setting)
        status =
            fb_spec_assign(c->line->spec, (fb_setting)p->row, FB_FROM_COMMAND, text);
    else
        status = fb_values_set(p->values, p->row, FB_FROM_COMMAND, text);
    return fb_context(status, "option %s", word);
}

/* `--set` is given any number of times: each sets one key. */
static bool is_set_option(const place *p)
{
    const char *name = p->values->rows[p->row].name;

    return !p->is_setting && strcmp(name, "set") == 0;
}

/* `text`: the value behind '=' or a letter; NULL: the next word, if one is taken. */
static fb_status take(cursor *c, const place *p, const char *word, const char *text)
{
    const bool is_flag = p->values->rows[p->row].type == FB_TYPE_FLAG;

    if (p->is_negated && text != NULL)
        return fb_fail(FB_USAGE, "option '%s' takes no value", word);
    if (p->is_negated) return set(c, p, word, "off");
    if (is_flag && text == NULL) return set(c, p, word, "on");
    if (text == NULL) {
        if (c->at >= c->argc)
            return fb_fail(FB_USAGE, "option '%s' needs a value: %s", word,
                           p->values->rows[p->row].argument);
        text = c->argv[c->at++];
    }
    if (is_set_option(p)) return fb_spec_set(c->line->spec, text);
    return set(c, p, word, text);
}

static fb_status take_long(cursor *c, const char *word)
{
    const char *equals = strchr(word, '=');
    char name[NAME], shown[NAME + 2];
    const size_t n = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
    place p;

    (void)snprintf(name, sizeof name, "%.*s", (int)(n < NAME ? n : NAME - 1), word + 2);
    (void)snprintf(shown, sizeof shown, "--%s", name);
    if (n >= NAME || !find_option(c->line, name, 0, &p))
        return unknown_option(c->line, shown, name);
    return take(c, &p, shown, equals != NULL ? equals + 1 : NULL);
}

/* -qn5: letters of flags may stand together, the last one may take a value. */
static fb_status take_short(cursor *c, const char *word)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        const char shown[] = {'-', *letter, '\0'};
        place p;

        if (!find_option(c->line, shown + 1, *letter, &p))
            return unknown_option(c->line, shown, shown + 1);
        if (p.values->rows[p.row].type != FB_TYPE_FLAG)
            return take(c, &p, shown, letter[1] != '\0' ? letter + 1 : NULL);
        FB_TRY(take(c, &p, shown, NULL));
    }
    return FB_OK;
}

static fb_status take_words(cursor *c)
{
    bool only_arguments = false;

    while (c->at < c->argc) {
        char *word = c->argv[c->at++];

        if (only_arguments || word[0] != '-' || word[1] == '\0')
            c->line->arguments[c->line->n_arguments++] = word;
        else if (strcmp(word, "--") == 0)
            only_arguments = true;
        else if (word[1] == '-')
            FB_TRY(take_long(c, word));
        else
            FB_TRY(take_short(c, word));
    }
    return FB_OK;
}

/* --- the line --- */

static fb_status check_arguments(const fb_line *line)
{
    const fb_command *command = line->command;

    if (fb_values_flag(&line->common, FB_COMMON_help)) return FB_OK;
    if (line->n_arguments < command->least)
        return fb_fail(FB_USAGE, "%s is missing\nhelp: flexbudget %s [options] %s",
                       command->arguments, command->name, command->arguments);
    if (command->most >= 0 && line->n_arguments > command->most)
        return fb_fail(
            FB_USAGE, "'%s' is one argument too many\nhelp: flexbudget %s [options] %s",
            line->arguments[command->most], command->name, command->arguments);
    return FB_OK;
}

static fb_status open_tables(fb_line *line)
{
    const fb_command *command = line->command;

    FB_TRY(fb_values_init(&line->own,
                          command->options != NULL ? command->options : no_options));
    FB_TRY(fb_values_init(&line->common, fb_common_options));
    if (!command->has_settings) return FB_OK;
    line->spec = fb_zalloc(FB_ACCOUNT_other, sizeof *line->spec);
    if (line->spec == NULL) return fb_fail(FB_NO_MEMORY, "no memory for options");
    FB_TRY(fb_spec_init(line->spec));
    for (const fb_taken *t = command->taken; t != NULL && t->setting != FB_SET_COUNT;
         t++)
        if (t->initial != NULL)
            FB_TRY(fb_spec_assign(line->spec, t->setting, FB_FROM_DEFAULT, t->initial));
    return FB_OK;
}

fb_status fb_line_parse(fb_line *line, const fb_command *command, int argc, char **argv)
{
    cursor c = {.line = line, .argc = argc, .argv = argv};

    *line = (fb_line){.command = command};
    FB_TRY(open_tables(line));
    line->arguments =
        fb_zalloc(FB_ACCOUNT_other, fb_size_mul((size_t)argc + 1, sizeof(char *)));
    if (line->arguments == NULL) return fb_fail(FB_NO_MEMORY, "no memory for options");
    FB_TRY(take_words(&c));
    fb_say_setup(line);
    return check_arguments(line);
}

void fb_line_clear(fb_line *line)
{
    fb_values_clear(&line->own);
    fb_values_clear(&line->common);
    if (line->spec != NULL) fb_spec_clear(line->spec);
    fb_free(line->spec);
    fb_free(line->arguments);
    *line = (fb_line){0};
}
