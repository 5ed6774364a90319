/* cli.h - the command line: commands, their options, and how they speak.
 *
 * One file per command, one line in list.h. A command is a struct: its words, its table
 * of options, its function. Parsing, help and suggestions come from the tables. Results
 * go to stdout and nothing else does; progress, warnings and errors go to stderr.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_CLI_H
#define FB_CLI_CLI_H

#include "spec/spec.h"

typedef struct fb_line fb_line;

/* A setting of an experiment that a command takes. */
typedef struct fb_taken {
    fb_setting setting;
    const char *initial; /* the command's own default; NULL: that of an experiment */
    const char *help;    /* likewise */
} fb_taken;

/* The machine that computes, as all commands that do take it. */
/* clang-format off */
#define FB_TAKEN_MACHINE                                                               \
    {FB_SET_torch, NULL, NULL}, {FB_SET_threads, NULL, NULL}, {FB_SET_isa, NULL, NULL}, \
    {FB_SET_weights, NULL, NULL}, {FB_SET_memory, NULL, NULL}
/* clang-format on */

typedef struct fb_command {
    const char *name;
    const char *arguments; /* "[FILE]" */
    const char *summary;   /* one line of the list */
    const char *about;     /* a paragraph, without line breaks */
    const char *examples;  /* a line each */
    /* How to read what it prints: paragraphs, NULL behind the last; NULL: nothing */
    const char *const *reading;
    const char *codes; /* exit codes beyond 0, 1 and 2; NULL */
    const fb_option *options;
    bool has_settings;     /* takes the settings of an experiment too: */
    const fb_taken *taken; /* these, up to FB_SET_COUNT; NULL: all */
    int least, most;       /* arguments; most -1: any number */
    /* One of the two: `print` makes what stdout is to show, written once it is whole;
     * `run` does all there is to do and gives the exit code. */
    fb_status (*print)(const fb_line *line, fb_text *out);
    int (*run)(const fb_line *line);
} fb_command;

/* A parsed command line. */
struct fb_line {
    const fb_command *command;
    fb_values own;    /* by the command's table */
    fb_values common; /* by fb_common_options */
    fb_spec *spec;    /* of a command with settings; else NULL */
    char **arguments; /* lent by main */
    int n_arguments;
};

typedef enum fb_common { FB_COMMON_help, FB_COMMON_quiet, FB_COMMON_colour } fb_common;
extern const fb_option fb_common_options[];

#define FB_COMMAND(name) extern const fb_command fb_command_##name;
#include "cli/list.h"
#undef FB_COMMAND
const fb_command *fb_command_find(const char *name); /* NULL if there is none */
/* The settings of a command with settings as it takes them, rows[FB_SET_COUNT + 1]: the
 * others have no name. */
void fb_command_settings(const fb_command *command, fb_option *rows);

/* Parses argv behind the command's name. `line` is cleared with fb_line_clear in any
 * case. */
FB_MUST_USE fb_status fb_line_parse(fb_line *line, const fb_command *command, int argc,
                                    char **argv);
void fb_line_clear(fb_line *line);

/* --- speaking (say.c) --- */

/* How the program was called, argv[0]: with a slash in it, hints repeat it. Lines of
 * failures that begin with "help: flexbudget " are printed so. */
void fb_say_called(const char *word);
const char *fb_say_program(void);       /* as a shell reads it */
void fb_say_setup(const fb_line *line); /* colours and quiet, from the options */
bool fb_say_is_quiet(void);
/* Whether what goes to a file descriptor is to have colours. */
bool fb_say_has_colour(const fb_line *line, int descriptor);
/* To stderr: "flexbudget: error: ..." with place and help lines as the sentence has
 * them. */
void fb_say_error(const char *sentence);
void fb_say_warning(const char *sentence);
/* The exit code of what ended so; a failure is said. */
int fb_say_end(fb_status status);
/* To stderr, unless quiet. */
void fb_say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The end of making a result: the text goes to the file at `path` ("" is stdout) if
 * `status` and text are well, and is cleared. */
FB_MUST_USE fb_status fb_write_result(fb_status status, fb_text *text,
                                      const char *path);

/* --- help (help.c) --- */

void fb_help_overview(fb_text *out);
void fb_help_command(const fb_command *command, fb_text *out);
/* Rows of columns with two spaces between them; cells of a row are separated by \t. */
void fb_align(const char *rows, fb_text *out);
/* Words of a paragraph, broken before column 79. `at`: where the first line has got to;
 * later lines begin at `indent`. */
void fb_wrap(fb_text *out, const char *text, int at, int indent);

#endif
