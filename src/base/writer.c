/* writer.c - files written so that whoever looks sees the old one or the new one, whole.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void failed(fb_writer *w, const char *why)
{
    if (w->error == 0 && w->why == NULL) {
        w->error = errno;
        w->why = why;
    }
}

static bool is_well(const fb_writer *w)
{
    return w->file >= 0 && w->error == 0 && w->why == NULL;
}

/* A temporary file beside the target, with the mode that the target has or will have. */
static void open_beside(fb_writer *w, const char *target, mode_t mode)
{
    static atomic_uint serial;
    char beside[PATH_MAX];
    const int length = snprintf(beside, sizeof beside, "%s.%ld-%u.tmp", target,
                                (long)getpid(), atomic_fetch_add(&serial, 1));

    if (length < 0 || (size_t)length >= sizeof beside) {
        errno = ENAMETOOLONG;
        failed(w, NULL);
        return;
    }
    w->target = fb_strdup(target);
    w->beside = fb_strdup(beside);
    if (w->target == NULL || w->beside == NULL) {
        failed(w, "no memory for a path");
        return;
    }
    w->file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (w->file < 0) failed(w, NULL);
}

static void open_place(fb_writer *w, const char *path)
{
    struct stat info;
    char target[PATH_MAX];

    if (stat(path, &info) != 0) {
        open_beside(w, path, 0666);
    } else if (S_ISDIR(info.st_mode)) {
        failed(w, "a folder");
    } else if (!S_ISREG(info.st_mode)) { /* a device or a pipe cannot be replaced */
        w->file = open(path, O_WRONLY | O_CLOEXEC);
        if (w->file < 0) failed(w, NULL);
    } else if (realpath(path, target) == NULL) {
        failed(w, NULL);
    } else {
        open_beside(w, target, info.st_mode & 0777);
    }
}

void fb_writer_open(fb_writer *w, const char *path)
{
    *w = (fb_writer){.file = -1};
    if (path != NULL) {
        open_place(w, path);
        return;
    }
    w->file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (w->file < 0) failed(w, NULL);
}

void fb_writer_add(fb_writer *w, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0 && is_well(w)) {
        const ssize_t put = write(w->file, at, n);

        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            failed(w, NULL);
            return;
        }
        at += put;
        n -= (size_t)put;
    }
}

/* On a disk full of reserves it is fsync or close that says so. */
static void end(fb_writer *w)
{
    if (w->file < 0) return;
    if (is_well(w) && w->target != NULL && fsync(w->file) != 0) failed(w, NULL);
    if (close(w->file) != 0) failed(w, NULL);
}

fb_status fb_writer_close(fb_writer *w, fb_status status)
{
    const bool is_beside = w->file >= 0 && w->target != NULL;
    bool is_done;

    end(w);
    is_done = status == FB_OK && is_well(w);
    if (is_done && is_beside && rename(w->beside, w->target) != 0) {
        failed(w, NULL);
        is_done = false;
    }
    if (!is_done && is_beside) (void)unlink(w->beside);
    fb_free(w->beside);
    fb_free(w->target);
    if (is_done || status != FB_OK) return status;
    return fb_fail(FB_IO, "cannot write: %s",
                   w->why != NULL ? w->why : strerror(w->error));
}

fb_status fb_file_write(const char *path, const void *bytes, size_t n)
{
    fb_writer writer;

    fb_writer_open(&writer, path);
    fb_writer_add(&writer, bytes, n);
    return fb_writer_close(&writer, FB_OK);
}
