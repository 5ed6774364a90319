/* host.c - see host.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/host.h"
#include "base/json.h"
#include "experiment/version.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <dirent.h>
#include <jansson.h>
#include <pcre2.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <utf8proc.h>
#include <yaml.h>

/* The value behind `key` in a file of "key : value" lines. */
static bool find_line(const char *path, const char *key, char *out, size_t n)
{
    FILE *file = fopen(path, "re");
    char line[512];
    bool found = false;

    if (file == NULL) return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || value == NULL) continue;
        value += 1 + strspn(value + 1, " \t");
        (void)snprintf(out, n, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    (void)fclose(file);
    return found;
}

/* A file that holds one number; -1 if there is none ("max" in a cgroup). */
static int64_t read_number(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[64] = "";
    int64_t value = -1;

    if (file == NULL) return -1;
    if (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (!fb_parse_int(line, &value)) value = -1;
    }
    (void)fclose(file);
    return value;
}

static int64_t meminfo(const char *key)
{
    char text[64];

    if (!find_line("/proc/meminfo", key, text, sizeof text)) return 0;
    return (int64_t)strtoll(text, NULL, 10) * 1024;
}

static void read_memory(fb_host *host)
{
    const int64_t limit = read_number("/sys/fs/cgroup/memory.max");
    const int64_t used = read_number("/sys/fs/cgroup/memory.current");

    host->memory_bytes = meminfo("MemTotal");
    host->available_bytes = meminfo("MemAvailable");
    if (limit <= 0 || used < 0 || limit >= host->memory_bytes) return;
    host->memory_bytes = limit;
    if (limit - used < host->available_bytes) host->available_bytes = limit - used;
}

void fb_host_read(fb_host *host)
{
    struct utsname name;
    double load[1];

    *host = (fb_host){.load = -1};
    if (!find_line("/proc/cpuinfo", "model name", host->cpu, sizeof host->cpu))
        (void)snprintf(host->cpu, sizeof host->cpu, "unknown");
    if (uname(&name) == 0)
        (void)snprintf(host->kernel, sizeof host->kernel, "%.30s %.60s %.30s",
                       name.sysname, name.release, name.machine);
#ifdef __clang__
    (void)snprintf(host->compiler, sizeof host->compiler, "clang %s",
                   __clang_version__);
#else
    (void)snprintf(host->compiler, sizeof host->compiler, "gcc %s", __VERSION__);
#endif
    host->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    host->cpus_available = fb_threads_available();
    read_memory(host);
    if (getloadavg(load, 1) == 1) host->load = load[0];
}

void fb_host_libraries(fb_text *out)
{
    int major, minor, patch;
    char pcre[64] = "", unicode[64] = "";

    yaml_get_version(&major, &minor, &patch);
    (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    (void)pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    fb_text_printf(
        out,
        "{\"sqlite\": \"%s\", \"jansson\": \"%s\", \"yaml\": \"%d.%d.%d\", "
        "\"pcre2\": \"%.*s\", \"pcre2_unicode\": \"%s\", \"utf8proc\": \"%s\"}",
        sqlite3_libversion(), jansson_version_str(), major, minor, patch,
        (int)strcspn(pcre, " "), pcre, unicode, utf8proc_version());
}

void fb_host_torch(const fb_ops *ops, char *out, size_t n)
{
    const char *isa = fb_ops_isa(ops); /* "2.13.0 on cpu" */

    *out = '\0';
    if (strcmp(fb_ops_backend(ops), "torch") == 0)
        (void)snprintf(out, n, "%.*s", (int)strcspn(isa, " "), isa);
}

/* Two kinds of them may give other last bits; the C ABI of PyTorch does not name them. */
static void add_gpus(fb_text *out)
{
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    int n = 0;

    if (folder == NULL) return;
    for (struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        char path[512], name[128];

        (void)snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.255s/information",
                       e->d_name);
        if (!find_line(path, "Model", name, sizeof name)) continue;
        fb_text_puts(out, n++ == 0 ? ", \"gpus\": [" : ", ");
        fb_json_add_string(out, name);
    }
    if (n > 0) fb_text_puts(out, "]");
    (void)closedir(folder);
}

static void add_use(const fb_ops *ops, const fb_host_use *use, fb_text *out)
{
    char version[32];

    fb_host_torch(ops, version, sizeof version);
    if (version[0] == '\0') {
        fb_text_printf(out, ", \"weights\": \"%s\"", use->weights);
        return;
    }
    fb_text_puts(out, ", \"device\": ");
    fb_json_add_string(out, use->device);
    fb_text_printf(out, ", \"precision\": \"%s\", \"torch\": \"%s\"", use->precision,
                   version);
    if (strstr(use->device, "cuda") != NULL) add_gpus(out);
}

void fb_host_describe(const fb_host *host, const fb_ops *ops, const fb_host_use *use,
                      fb_text *out)
{
    fb_text_printf(out,
                   "{\"program\": \"%s\", \"commit\": \"%s\", \"cpu\": ", fb_program,
                   fb_commit);
    fb_json_add_string(out, host->cpu);
    fb_text_printf(out,
                   ", \"cpus\": %d, \"memory_bytes\": %lld, \"kernel\": ", host->cpus,
                   (long long)host->memory_bytes);
    fb_json_add_string(out, host->kernel);
    fb_text_puts(out, ", \"compiler\": ");
    fb_json_add_string(out, host->compiler);
    fb_text_printf(out, ", \"backend\": \"%s\", \"isa\": \"%s\", \"threads\": %d",
                   fb_ops_backend(ops), fb_ops_isa(ops),
                   fb_threads_count(fb_ops_threads(ops)));
    if (use != NULL) add_use(ops, use, out);
    fb_text_puts(out, ", \"libraries\": ");
    fb_host_libraries(out);
    fb_text_puts(out, "}");
}
