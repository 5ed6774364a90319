/* cmd_help.c - help on a command.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/cli.h"

static fb_status print(const fb_line *line, fb_text *out)
{
    const fb_command *command =
        line->n_arguments == 0 ? NULL : fb_command_find(line->arguments[0]);

    if (line->n_arguments > 0 && command == NULL)
        return fb_fail(FB_USAGE, "there is no command '%s'\nhelp: flexbudget help",
                       line->arguments[0]);
    if (command == NULL)
        fb_help_overview(out);
    else
        fb_help_command(command, out);
    return FB_OK;
}

const fb_command fb_command_help = {
    .name = "help",
    .arguments = "[COMMAND]",
    .summary = "options, defaults and examples of a command",
    .about = "Prints the options of a command by group, with their defaults, examples "
             "and exit codes. Without a command: the list of commands.",
    .examples = "flexbudget help run",
    .most = 1,
    .print = print,
};
