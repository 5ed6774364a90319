/* cmd_doctor.c - this machine, what the program found on it, what would disturb.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/doctor_torch.h"
#include "experiment/host.h"
#include "experiment/version.h"
#include "model/model.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TORCH, JSON };

static const fb_option options[] = {
    [TORCH] = {.name = "torch",
               .type = FB_TYPE_TEXT,
               .initial = "",
               .argument = "PLACE",
               .group = "Choose what",
               .help = "directory of a PyTorch package, or a Python that has it "
                       "(default: FLEXBUDGET_TORCH, the virtual environment, python3)"},
    [JSON] = {.name = "json",
              .type = FB_TYPE_FLAG,
              .initial = "off",
              .group = "Output",
              .help = "JSON"},
    FB_OPTION_END,
};

/* --- models --- */

enum { MOST_MODELS = 64, NAME = 256 };

typedef struct models {
    char folder[512];
    char name[MOST_MODELS][NAME];
    int n;
} models;

static void find_folder(char *out, size_t n)
{
    const char *folder = getenv("FLEXBUDGET_MODELS");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");

    if (folder != NULL && folder[0] != '\0')
        (void)snprintf(out, n, "%s", folder);
    else if (cache != NULL && cache[0] != '\0')
        (void)snprintf(out, n, "%s/flexbudget/models", cache);
    else
        (void)snprintf(out, n, "%s/.cache/flexbudget/models", home == NULL ? "" : home);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void find_models(models *m)
{
    DIR *folder;

    find_folder(m->folder, sizeof m->folder);
    folder = opendir(m->folder);
    if (folder == NULL) return;
    for (struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        const size_t n = strlen(e->d_name);

        if (n < 6 || strcmp(e->d_name + n - 5, ".gguf") != 0) continue;
        if (m->n < MOST_MODELS) (void)snprintf(m->name[m->n++], NAME, "%s", e->d_name);
    }
    (void)closedir(folder);
    qsort(m->name, (size_t)m->n, NAME, by_name);
}

/* --- what would disturb --- */

/* One line per thing, with what to do; "" if nothing. */
static void find_disturbances(const fb_host *host, fb_text *out)
{
    if (host->load > 0.5 * host->cpus_available)
        fb_text_printf(out,
                       "the load is %.1f on %d %s: times will vary (quality is not "
                       "affected)\n",
                       host->load, host->cpus_available,
                       fb_plural(host->cpus_available, "CPU", "CPUs"));
    if (host->cpus_available < host->cpus)
        fb_text_printf(out, "only %d of %d CPUs may be used (affinity or container)\n",
                       host->cpus_available, host->cpus);
    if (host->available_bytes > 0 && host->available_bytes < (int64_t)1 << 30)
        fb_text_puts(out, "less than 1 GiB of memory is free: use --memory and shorter "
                          "contexts\n");
}

/* --- printing --- */

/* All that is found. */
typedef struct findings {
    fb_host host;
    models models;
    fb_torch_found torch;
} findings;

static void print_text(const findings *f, const fb_ops *ops, fb_text *out)
{
    const fb_host *host = &f->host;
    const models *m = &f->models;
    char memory[32], available[32];
    fb_text disturbed = {0};

    fb_text_init(&disturbed, 0);
    fb_print_size((double)host->memory_bytes, memory, sizeof memory);
    fb_print_size((double)host->available_bytes, available, sizeof available);
    fb_text_printf(out, "program    %s, %s\n", fb_program, host->compiler);
    fb_text_printf(out, "libraries  ");
    fb_host_libraries(out);
    fb_text_printf(out, "\ncpu        %s, %d %s, isa %s\n", host->cpu, host->cpus,
                   fb_plural(host->cpus, "CPU", "CPUs"), fb_ops_isa(ops));
    fb_text_printf(out, "threads    %d (what affinity and cgroup allow)\n",
                   host->cpus_available);
    fb_text_printf(out, "memory     %s, %s free\n", memory, available);
    fb_text_printf(out, "kernel     %s\n", host->kernel);
    fb_text_printf(out, "backends   %s%s\n", fb_ops_backend(ops),
                   f->torch.is_found ? ", torch" : "");
    fb_torch_print_text(&f->torch, out);
    fb_text_puts(out, "models     builtin");
    for (int i = 0; i < m->n; i++)
        fb_text_printf(out, ", %s", m->name[i]);
    fb_text_printf(out,
                   "\n           (in %s; FLEXBUDGET_MODELS names another folder)\n",
                   m->folder);
    find_disturbances(host, &disturbed);
    if (disturbed.n > 0)
        fb_text_printf(out, "\n%s", disturbed.bytes);
    else
        fb_text_puts(out, "\nnothing found that would disturb a measurement\n");
    fb_text_clear(&disturbed);
}

static void print_json(const findings *f, const fb_ops *ops, fb_text *out)
{
    const fb_host *host = &f->host;
    const models *m = &f->models;
    fb_text disturbed = {0};

    fb_text_init(&disturbed, 0);
    find_disturbances(host, &disturbed);
    fb_text_puts(out, "{\"format\": 1, \"host\": ");
    fb_host_describe(host, ops, NULL, out);
    fb_text_printf(out,
                   ", \"available_bytes\": %lld, \"cpus_available\": %d, "
                   "\"load\": ",
                   (long long)host->available_bytes, host->cpus_available);
    fb_json_add_real(out, host->load);
    fb_text_puts(out, ", \"torch\": ");
    fb_torch_print_json(&f->torch, out);
    fb_text_puts(out, ", \"models_folder\": ");
    fb_json_add_string(out, m->folder);
    fb_text_puts(out, ", \"models\": [\"builtin\"");
    for (int i = 0; i < m->n; i++) {
        fb_text_puts(out, ", ");
        fb_json_add_string(out, m->name[i]);
    }
    fb_text_puts(out, "], \"disturbances\": [");
    for (const char *line = fb_text_string(&disturbed); *line != '\0';) {
        const size_t n = strcspn(line, "\n");

        if (line != disturbed.bytes) fb_text_puts(out, ", ");
        fb_json_add_bytes(out, line, n);
        line += n + (line[n] == '\n');
    }
    fb_text_puts(out, "]}\n");
    fb_text_clear(&disturbed);
}

static fb_status print(const fb_line *line, fb_text *out)
{
    const fb_ops_options ops_options = {0};
    findings *f = fb_zalloc(FB_ACCOUNT_other, sizeof *f);
    fb_ops *ops = NULL;
    fb_status status = FB_OK;

    if (f == NULL) return fb_fail(FB_NO_MEMORY, "no memory");
    fb_torch_look(&f->torch, fb_values_text(&line->own, TORCH)); /* before threads */
    status = fb_ops_open(&ops, &ops_options);
    if (status == FB_OK) {
        find_models(&f->models);
        fb_host_read(&f->host);
        (fb_values_flag(&line->own, JSON) ? print_json : print_text)(f, ops, out);
    }
    fb_ops_close(ops);
    fb_free(f);
    return status;
}

const fb_command fb_command_doctor = {
    .name = "doctor",
    .arguments = "",
    .summary = "this machine, libraries, models found, what would disturb timings",
    .about =
        "Prints CPU, instruction set, threads, memory, libraries, PyTorch with its "
        "devices and the models found, and a line per thing that would disturb a "
        "measurement.",
    .examples = "flexbudget doctor --json",
    .options = options,
    .print = print,
};
