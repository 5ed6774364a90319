/* cmd_help.c - help on a command.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/cli.h"

static fb_status print(const fb_line *line)
{
    const fb_command *command =
        line->n_arguments == 0 ? NULL : fb_command_find(line->arguments[0]);
    fb_text text = {0};
    fb_status status;

    if (line->n_arguments > 0 && command == NULL)
        return fb_fail(FB_USAGE, "there is no command '%s'\nhelp: flexbudget help",
                       line->arguments[0]);
    fb_text_init(&text, 0);
    if (command == NULL)
        fb_help_overview(&text);
    else
        fb_help_command(command, &text);
    status = fb_text_status(&text);
    if (status == FB_OK) status = fb_say_result(text.bytes, text.n);
    fb_text_clear(&text);
    return status;
}

static int run(const fb_line *line)
{
    const fb_status status = print(line);

    return status == FB_OK ? 0 : fb_say_failure(status);
}

const fb_command fb_command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "options, defaults and examples of a command",
    .about = "Prints the options of a command by group, with their defaults, examples "
             "and exit codes. Without a command: the list of commands.",
    .examples = "flexbudget help run",
    .most = 1,
    .run = run,
};
