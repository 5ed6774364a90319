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

static fb_status print(const fb_line *line)
{
    fb_text text = {0};
    fb_host host;
    fb_status status;

    fb_text_init(&text, 0);
    fb_host_read(&host);
    if (fb_values_flag(&line->own, JSON)) {
        fb_text_printf(&text,
                       "{\"format\": 1, \"version\": \"%s\", \"compiler\": \"%s\", "
                       "\"backends\": [\"native\"], \"schema\": %d, "
                       "\"rule_abi\": %d, \"task_abi\": %d, \"libraries\": ",
                       FB_VERSION, host.compiler, FB_STORE_SCHEMA, FB_RULE_ABI,
                       FB_TASK_ABI);
        fb_host_libraries(&text);
        fb_text_puts(&text, "}\n");
    } else {
        fb_text_printf(&text, "flexbudget %s\n", FB_VERSION);
    }
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

const fb_command fb_command_version = {
    .name = "version",
    .arguments = "",
    .summary = "version of the program and its libraries",
    .about = "Prints the version; with --json also compiler, backends, schema and "
             "libraries.",
    .examples = "flexbudget version --json",
    .options = options,
    .run = run,
};
