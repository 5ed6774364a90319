/* doctor_torch.c - see doctor_torch.h.
 *
 * The child writes a line for each thing it has found, as soon as it has: "D" directory,
 * "V" version, "d" device, "." the end, or "!" why not.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/doctor_torch.h"

#include "base/json.h"
#include "base/time.h"
#include "ops/torch/torch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* A graphics processor that sleeps takes a second or two to wake. */
static const int64_t limit_ns = 5 * (int64_t)1000000000;

/* --- the child --- */

static void tell(int pipe, char kind, const char *text)
{
    char line[4200];
    const int n = snprintf(line, sizeof line, "%c%.4096s\n", kind, text);
    ssize_t written = write(pipe, line, (size_t)n);

    (void)written; /* nobody listens any more: then nothing matters */
}

static void tell_device(int pipe, const fb_torch_lib *lib, const char *name, bool *ok)
{
    fb_torch_device device;

    *ok = fb_torch_find_device(lib, name, &device) == FB_OK;
    if (*ok) tell(pipe, 'd', name);
}

static void tell_numbered(int pipe, const fb_torch_lib *lib, const char *kind)
{
    char name[16];
    bool ok = true;

    for (int i = 0; ok && i < FB_MOST_DEVICES / 2 - 1; i++) {
        (void)snprintf(name, sizeof name, "%s:%d", kind, i);
        tell_device(pipe, lib, name, &ok);
    }
}

static void look(int pipe, const char *where)
{
    const fb_torch_lib *lib = NULL;
    bool ok;

    if (fb_torch_open(&lib, where[0] == '\0' ? NULL : where, 1) != FB_OK) {
        tell(pipe, '!', fb_error_message());
        return;
    }
    tell(pipe, 'D', lib->directory);
    tell(pipe, 'V', lib->version);
    tell_device(pipe, lib, "cpu", &ok);
    if (lib->has_devices) tell_numbered(pipe, lib, "cuda");
    if (lib->has_devices) tell_numbered(pipe, lib, "xpu");
#ifdef __APPLE__
    tell_device(pipe, lib, "mps", &ok);
#endif
    tell(pipe, '.', "");
}

/* What libraries print is no output of ours. */
static void be_quiet(void)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nowhere < 0) return;
    for (int i = 0; i < 3; i++)
        (void)dup2(nowhere, i);
}

static void be_child(int pipe, const char *where)
{
    (void)setpgid(0, 0); /* so that what it starts ends with it */
    be_quiet();
    look(pipe, where);
    _exit(0);
}

/* --- the parent --- */

static void copy(char *out, size_t size, const char *text)
{
    const size_t n = strlen(text) < size ? strlen(text) : size - 1;

    memcpy(out, text, n);
    out[n] = '\0';
}

static void take(fb_torch_found *out, const char *line, bool *is_over)
{
    const char *text = line + 1;

    switch (line[0]) {
    case 'D':
        copy(out->directory, sizeof out->directory, text);
        break;
    case 'V':
        copy(out->version, sizeof out->version, text);
        out->is_found = true;
        break;
    case 'd':
        if (out->n_devices < FB_MOST_DEVICES)
            copy(out->device[out->n_devices++], sizeof *out->device, text);
        break;
    case '!':
        copy(out->why, sizeof out->why, text);
        break;
    default:
        *is_over = true;
        break;
    }
}

static void take_all(fb_torch_found *out, const fb_text *heard, bool *is_over)
{
    char line[4200];

    for (const char *at = fb_text_string(heard); *at != '\0';) {
        const size_t n = strcspn(at, "\n");

        (void)snprintf(line, sizeof line, "%.*s", (int)n, at);
        if (at[n] == '\n') take(out, line, is_over);
        at += n + (at[n] == '\n');
    }
}

/* Until the child is silent for good, or the time is over. */
static void listen_to(int pipe, fb_text *heard)
{
    const int64_t end = fb_time_ns() + limit_ns;
    char bytes[1024];

    for (;;) {
        struct pollfd wait = {.fd = pipe, .events = POLLIN};
        const int64_t left = (end - fb_time_ns()) / 1000000;
        const int ready = left <= 0 ? 0 : poll(&wait, 1, (int)left);
        ssize_t n;

        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return;
        n = read(pipe, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0 || heard->n > ((size_t)1 << 16)) return;
        fb_text_add(heard, bytes, (size_t)n);
    }
}

static void end_child(pid_t child, int *how)
{
    (void)kill(-child, SIGKILL);
    (void)kill(child, SIGKILL); /* where it has no group yet */
    while (waitpid(child, how, 0) < 0 && errno == EINTR) {
    }
}

static void say_why(fb_torch_found *out, int how)
{
    if (out->why[0] != '\0') {
        out->why[strcspn(out->why, "\n")] = '\0';
        return;
    }
    if (WIFSIGNALED(how) && WTERMSIG(how) != SIGKILL)
        (void)snprintf(out->why, sizeof out->why,
                       "opening PyTorch ends the program (signal %d); name another one "
                       "with --torch",
                       WTERMSIG(how));
    else
        (void)snprintf(out->why, sizeof out->why,
                       "PyTorch did not answer within %d seconds; name its directory "
                       "with --torch",
                       (int)(limit_ns / 1000000000));
}

void fb_torch_look(fb_torch_found *out, const char *where)
{
    int ends[2], how = 0;
    bool is_over = false;
    fb_text heard = {0};
    pid_t child;

    *out = (fb_torch_found){.n_devices = 0};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        say_why(out, how);
        return;
    }
    child = fork();
    if (child == 0) be_child(ends[1], where);
    (void)close(ends[1]);
    fb_text_init(&heard, 0);
    if (child > 0) listen_to(ends[0], &heard);
    if (child > 0) end_child(child, &how);
    take_all(out, &heard, &is_over);
    out->is_cut = out->is_found && !is_over;
    if (!out->is_found) say_why(out, how);
    fb_text_clear(&heard);
    (void)close(ends[0]);
}

/* --- printing --- */

void fb_torch_print_text(const fb_torch_found *found, fb_text *out)
{
    fb_text_puts(out, "torch      ");
    if (!found->is_found) {
        fb_text_printf(out, "none: %s\n", found->why);
        return;
    }
    fb_text_printf(out, "%s in %s\n           devices", found->version,
                   found->directory);
    for (int i = 0; i < found->n_devices; i++)
        fb_text_printf(out, "%s %s", i > 0 ? "," : "", found->device[i]);
    if (found->is_cut)
        fb_text_printf(out, "%s (the others did not answer in time)",
                       found->n_devices == 0 ? " none" : "");
    fb_text_puts(out, "\n");
    for (int i = 0; i < found->n_devices; i++)
        fb_text_printf(out, "%s--device torch:%s",
                       i == 0 ? "           'run' and 'ask' take " : ", ",
                       found->device[i]);
    if (found->n_devices > 0) fb_text_puts(out, "\n");
}

void fb_torch_print_json(const fb_torch_found *found, fb_text *out)
{
    fb_text_printf(out, "{\"found\": %s", found->is_found ? "true" : "false");
    if (!found->is_found) {
        fb_text_puts(out, ", \"why\": ");
        fb_json_add_string(out, found->why);
        fb_text_puts(out, "}");
        return;
    }
    fb_text_puts(out, ", \"version\": ");
    fb_json_add_string(out, found->version);
    fb_text_puts(out, ", \"directory\": ");
    fb_json_add_string(out, found->directory);
    fb_text_puts(out, ", \"devices\": [");
    for (int i = 0; i < found->n_devices; i++)
        fb_text_printf(out, "%s\"torch:%s\"", i > 0 ? ", " : "", found->device[i]);
    fb_text_printf(out, "], \"complete\": %s}", found->is_cut ? "false" : "true");
}
