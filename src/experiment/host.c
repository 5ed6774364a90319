/* host.c - see host.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/host.h"
#include "base/json.h"
#include "experiment/version.h"

#define PCRE2_CODE_UNIT_WIDTH 8
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

void fb_host_describe(const fb_host *host, const fb_ops *ops, const char *weights,
                      fb_text *out)
{
    fb_text_printf(out, "{\"program\": \"%s\", \"cpu\": ", fb_program);
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
    if (weights != NULL) fb_text_printf(out, ", \"weights\": \"%s\"", weights);
    fb_text_puts(out, ", \"libraries\": ");
    fb_host_libraries(out);
    fb_text_puts(out, "}");
}
