/* cmd_version.c - which program this is, and what it is linked with.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/cli.h"
#include "experiment/host.h"
#include "experiment/version.h"
#include "store/store.h"

enum { JSON };

static const fb_option options[] = {
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    FB_OPTION_END,
};

static fb_status print(const fb_line *line, fb_text *out)
{
    fb_host host;

    fb_host_read(&host);
    if (fb_values_flag(&line->own, JSON)) {
        fb_text_printf(out,
                       "{\"format\": 1, \"version\": \"%s\", \"build\": \"%s\", "
                       "\"commit\": \"%s\", \"compiler\": \"%s\", "
                       "\"backends\": [\"native\", \"torch\"], \"schema\": %d, "
                       "\"rule_abi\": %d, \"task_abi\": %d, \"libraries\": ",
                       FB_VERSION, fb_build, fb_commit, host.compiler, FB_STORE_SCHEMA,
                       FB_RULE_ABI, FB_TASK_ABI);
        fb_host_libraries(out);
        fb_text_puts(out, "}\n");
    } else {
        fb_text_printf(out, "%s\n", fb_program);
    }
    return FB_OK;
}

const fb_command fb_command_version = {
    .name = "version",
    .arguments = "",
    .summary = "version of the program and its libraries",
    .about = "Prints version and build; with --json also commit, compiler, backends, "
             "schema and "
             "libraries.",
    .examples = "flexbudget version --json",
    .options = options,
    .print = print,
};
