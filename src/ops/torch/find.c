/* find.c - where an installed PyTorch lies.
 *
 * A Python that is asked is a program like any other: it may say nothing, say something else,
 * or never end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/torch/lib.h"

#include "base/file.h"
#include "base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* For a Python that starts from a slow disk. */
static const int64_t limit_ns = 30 * (int64_t)1000000000;

bool fb_torch_has(const char *directory, const char *name)
{
    char path[4200];
    struct stat info;

    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path &&
           stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, R_OK) == 0;
}

static bool has_library(const char *directory)
{
    return fb_torch_has(directory, "lib/libtorch_cpu.so");
}

/* --- asking a Python --- */

/* Finding does not import, which takes seconds. */
static pid_t start(const char *python, int to)
{
    static char run[] = "-c", finding[] = "import importlib.util as u; "
                                          "print(u.find_spec('torch')"
                                          ".submodule_search_locations[0])";
    char name[4200], *words[] = {name, run, finding, NULL};
    posix_spawn_file_actions_t files;
    pid_t child = -1;

    if (snprintf(name, sizeof name, "%s", python) >= (int)sizeof name ||
        posix_spawn_file_actions_init(&files) != 0)
        return -1;
    if (posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_adddup2(&files, to, 1) != 0 ||
        posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawnp(&child, python, &files, NULL, words, environ) != 0)
        child = -1;
    (void)posix_spawn_file_actions_destroy(&files);
    return child;
}

/* The first line that comes from it, if it is whole, fits, and comes in time. */
static bool read_line(int from, char *out, size_t n)
{
    const int64_t end = fb_time_ns() + limit_ns;
    size_t used = 0;

    while (used < n) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        const int64_t left = (end - fb_time_ns()) / 1000000;
        const int ready = left <= 0 ? 0 : poll(&wait, 1, (int)left);
        ssize_t more;
        char *last;

        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return false;
        more = read(from, out + used, n - used);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return false;
        last = memchr(out + used, '\n', (size_t)more);
        used += (size_t)more;
        if (last != NULL) {
            *last = '\0';
            return true;
        }
    }
    return false;
}

/* What `python` (looked for on PATH where it has no '/') names, if a PyTorch is there. */
static bool ask_python(const char *python, char *out, size_t n)
{
    int ends[2];
    pid_t child;
    bool ok;

    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    child = start(python, ends[1]);
    (void)close(ends[1]);
    ok = child > 0 && read_line(ends[0], out, n) && has_library(out);
    (void)close(ends[0]);
    if (child > 0) (void)kill(child, SIGKILL); /* it has nothing more to say */
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return ok;
}

/* --- where it is --- */

static fb_status find_given(const char *where, char *out, size_t n)
{
    char python[4200];
    struct stat info;

    if (stat(where, &info) != 0)
        return fb_fail(FB_NOT_FOUND, "there is no '%s', where PyTorch was to be",
                       where);
    if (has_library(where) && snprintf(out, n, "%s", where) < (int)n) return FB_OK;
    if (S_ISDIR(info.st_mode))
        return fb_fail(FB_USAGE,
                       "'%s' is not the directory of a PyTorch package: no "
                       "lib/libtorch_cpu.so in it",
                       where);
    if (snprintf(python, sizeof python, "%s%s", strchr(where, '/') == NULL ? "./" : "",
                 where) < (int)sizeof python &&
        access(where, X_OK) == 0 && ask_python(python, out, n))
        return FB_OK;
    return fb_fail(FB_USAGE,
                   "'%s' is neither the directory of a PyTorch package nor a Python "
                   "interpreter that has one",
                   where);
}

fb_status fb_torch_find(const char *where, char *out, size_t n)
{
    const char *environment = getenv("VIRTUAL_ENV");
    char python[4200];

    if (where == NULL || where[0] == '\0') where = getenv("FLEXBUDGET_TORCH");
    if (where != NULL && where[0] != '\0') return find_given(where, out, n);
    if (environment != NULL && environment[0] != '\0' &&
        snprintf(python, sizeof python, "%s/bin/python3", environment) <
            (int)sizeof python &&
        ask_python(python, out, n))
        return FB_OK;
    if (ask_python("python3", out, n)) return FB_OK;
    return fb_fail(FB_NOT_FOUND,
                   "PyTorch was not found: python3 has no package 'torch'; install "
                   "torch >= %d.%d, or name its directory with --torch DIR",
                   FB_TORCH_MAJOR, FB_TORCH_MINOR);
}
