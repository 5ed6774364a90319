/* main.c - finds the command, parses its line, runs it.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "cli/cli.h"
#include "cli/commit.h"
#include "experiment/version.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const fb_command *const commands[] = {
#define FB_COMMAND(name) &fb_command_##name,
#include "cli/list.h"
#undef FB_COMMAND
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

const fb_command *fb_command_find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int run_overview(void)
{
    fb_text text = {0};

    fb_help_overview(&text);
    return fb_say_end(fb_write_result(FB_OK, &text, ""));
}

static int unknown_command(const char *word)
{
    const char *names[N_COMMANDS];
    const char *nearest;
    char sentence[256];

    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    nearest = fb_nearest_word(word, names, N_COMMANDS);
    if (nearest != NULL)
        (void)snprintf(sentence, sizeof sentence,
                       "unknown command '%.80s'; did you mean '%s'?", word, nearest);
    else
        (void)snprintf(sentence, sizeof sentence,
                       "unknown command '%.80s'\nhelp: flexbudget help", word);
    fb_say_error(sentence);
    return fb_status_exit_code(FB_USAGE);
}

static int run_help_of(const fb_command *command)
{
    fb_text text = {0};

    fb_help_command(command, &text);
    return fb_say_end(fb_write_result(FB_OK, &text, ""));
}

static int run_print(const fb_line *line)
{
    fb_text text = {0};
    const fb_status status = line->command->print(line, &text);

    return fb_say_end(fb_write_result(status, &text, ""));
}

static int run_command(const fb_command *command, int argc, char **argv)
{
    fb_line line = {0};
    fb_status status = fb_line_parse(&line, command, argc, argv);
    int code;

    if (status != FB_OK)
        code = fb_say_end(status);
    else if (fb_values_flag(&line.common, FB_COMMON_help))
        code = run_help_of(command);
    else
        code = command->print != NULL ? run_print(&line) : command->run(&line);
    fb_line_clear(&line);
    return code;
}

/* A mapped file that became shorter is a failure like others, not a crash. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static const char sentence[] =
        "flexbudget: error: a model file became shorter, or unreadable, while it was "
        "in "
        "use; once it is whole again, the same command goes on\n";

    (void)context;
    if (fb_map_holds(info->si_addr)) {
        (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
        _exit(fb_status_exit_code(FB_IO));
    }
    (void)signal(number, SIG_DFL); /* our own defect: it comes again, and ends us */
}

static void catch_bus_errors(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGBUS, &action, NULL);
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;
    const fb_command *command;

    fb_commit = FB_COMMIT;
    fb_say_called(argc > 0 ? argv[0] : NULL);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file at its limit is a failure like others */
    catch_bus_errors();
    if (word == NULL || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return run_overview();
    if (strcmp(word, "--version") == 0) word = "version";
    command = fb_command_find(word);
    if (command == NULL) return unknown_command(word);
    return run_command(command, argc - 2, argv + 2);
}
