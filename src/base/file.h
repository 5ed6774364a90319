/* file.h - files read whole, mapped, or written so that a crash leaves the old one.
 *
 * What is read by name is a regular file: a folder, a pipe, a socket or a device is
 * FB_FORMAT.
 * Sentences do not name the path: the caller does, with fb_context.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_FILE_H
#define FB_BASE_FILE_H

#include <flexbudget/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* By what a file is taken for the same, with the same bytes; all 0 where there is none. A
 * change within one tick of the file system's clock does not show. */
typedef struct fb_file_state {
    uint64_t device, inode;
    int64_t size, modified, modified_ns, changed, changed_ns; /* bytes, s, ns, s, ns */
} fb_file_state;

fb_file_state fb_file_state_of(const char *path);
bool fb_file_state_equal(fb_file_state a, fb_file_state b);

typedef struct fb_map {
    const uint8_t *bytes;
    size_t n;
    fb_file_state state; /* when it was opened */
} fb_map;

enum { FB_MOST_MAPS = 2048 }; /* at one time */

/* Maps a file read-only. FB_NOT_FOUND, FB_FORMAT (empty, not regular), FB_IO. */
FB_MUST_USE fb_status fb_map_open(fb_map *out, const char *path);
void fb_map_close(fb_map *map);
/* True for an address inside a mapping that is open: a SIGBUS there is a file that became
 * shorter, or cannot be read. For handlers of signals: takes no lock. */
bool fb_map_holds(const void *address);

/* A shared object (ELF) that was not copied to its end: the system's loader would be stopped
 * by a signal where it has no more pages. */
bool fb_file_is_cut_library(const char *path);
/* Opens a file to be read in pieces; fclose it. */
FB_MUST_USE fb_status fb_file_open(FILE **out, const char *path);
/* A whole file of at most `most` bytes, with a zero byte behind it; free with
 * fb_free. FB_FORMAT if it is larger. */
FB_MUST_USE fb_status fb_file_read(char **out, size_t *n_out, const char *path,
                                   size_t most);
/* The same of standard input, whatever it is, up to its end. */
FB_MUST_USE fb_status fb_file_read_input(char **out, size_t *n_out, size_t most);
/* Writes `path` by way of a temporary file beside it and a rename; mode and links of an
 * existing file stay, a device or pipe is written to. */
FB_MUST_USE fb_status fb_file_write(const char *path, const void *bytes, size_t n);

/* The same piece by piece (writer.c). Sticky: after the first failure nothing more is
 * written, and fb_writer_close says so. */
typedef struct fb_writer {
    int file;        /* descriptor; -1: none */
    char *target;    /* the file itself, not a link to it; NULL: written in place */
    char *beside;    /* what will become it */
    int error;       /* errno of the first failure; 0 */
    const char *why; /* in place of an errno */
} fb_writer;

/* NULL: standard output. */
void fb_writer_open(fb_writer *writer, const char *path);
void fb_writer_add(fb_writer *writer, const void *bytes, size_t n);
/* The new file takes the old one's place if all is well and so is `status`, which is
 * passed on; else the old one stays. */
FB_MUST_USE fb_status fb_writer_close(fb_writer *writer, fb_status status);

#endif
