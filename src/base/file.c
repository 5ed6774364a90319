/* file.c - whole files: mapped, read.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"

#include "base/memory.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Only a regular file has an end, and the same bytes when it is read again. */
static fb_status check_kind(const struct stat *info)
{
    if (S_ISREG(info->st_mode)) return FB_OK;
    return fb_fail(FB_FORMAT, S_ISDIR(info->st_mode) ? "a folder, not a file"
                                                     : "not a regular file");
}

/* Opens for reading; the caller closes. Its kind is asked for first: opening a pipe
 * waits for the one who writes, and a socket cannot be opened. */
static fb_status open_file(int *out, struct stat *info, const char *path)
{
    *out = -1;
    if (stat(path, info) != 0)
        return fb_fail(FB_NOT_FOUND, "cannot open: %s", strerror(errno));
    FB_TRY(check_kind(info));
    *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out < 0) return fb_fail(FB_NOT_FOUND, "cannot open: %s", strerror(errno));
    if (fstat(*out, info) != 0)
        return fb_fail(FB_IO, "cannot read: %s", strerror(errno));
    return FB_OK;
}

static void close_file(int file)
{
    if (file >= 0) (void)close(file);
}

/* --- states --- */

static fb_file_state state_of(const struct stat *info)
{
    return (fb_file_state){.device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .size = (int64_t)info->st_size,
                           .modified = (int64_t)info->st_mtim.tv_sec,
                           .modified_ns = (int64_t)info->st_mtim.tv_nsec,
                           .changed = (int64_t)info->st_ctim.tv_sec,
                           .changed_ns = (int64_t)info->st_ctim.tv_nsec};
}

fb_file_state fb_file_state_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? state_of(&info) : (fb_file_state){0};
}

bool fb_file_state_equal(fb_file_state a, fb_file_state b)
{
    return a.device == b.device && a.inode == b.inode && a.size == b.size &&
           a.modified == b.modified && a.modified_ns == b.modified_ns &&
           a.changed == b.changed && a.changed_ns == b.changed_ns;
}

/* --- mappings --- */

static struct {
    _Atomic uintptr_t begin; /* 0: free */
    atomic_size_t n;
} maps[FB_MOST_MAPS];

/* False: there are as many as can be known to handlers. */
static bool remember_map(const fb_map *map)
{
    for (int i = 0; i < FB_MOST_MAPS; i++) {
        uintptr_t none = 0;

        if (!atomic_compare_exchange_strong(&maps[i].begin, &none,
                                            (uintptr_t)map->bytes))
            continue;
        atomic_store(&maps[i].n, map->n);
        return true;
    }
    return false;
}

static void forget_map(const fb_map *map)
{
    for (int i = 0; i < FB_MOST_MAPS; i++)
        if (atomic_load(&maps[i].begin) == (uintptr_t)map->bytes) {
            atomic_store(&maps[i].n, 0);
            atomic_store(&maps[i].begin, 0);
            return;
        }
}

bool fb_map_holds(const void *address)
{
    for (int i = 0; i < FB_MOST_MAPS; i++) {
        const uintptr_t begin = atomic_load(&maps[i].begin);

        if (begin != 0 && (uintptr_t)address >= begin &&
            (uintptr_t)address - begin < atomic_load(&maps[i].n))
            return true;
    }
    return false;
}

fb_status fb_map_open(fb_map *out, const char *path)
{
    struct stat info;
    void *bytes;
    int file;
    fb_status status = open_file(&file, &info, path);

    *out = (fb_map){0};
    if (status != FB_OK) goto done;
    if (info.st_size == 0) {
        status = fb_fail(FB_FORMAT, "the file is empty");
        goto done;
    }
    bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) {
        status = fb_fail(FB_IO, "cannot map: %s", strerror(errno));
        goto done;
    }
    *out = (fb_map){bytes, (size_t)info.st_size, state_of(&info)};
    if (!remember_map(out)) {
        (void)munmap(bytes, out->n);
        *out = (fb_map){0};
        status =
            fb_fail(FB_IO, "cannot map: %d files are mapped already", FB_MOST_MAPS);
    }
done:
    close_file(file); /* a mapping outlives its descriptor */
    return status;
}

void fb_map_close(fb_map *map)
{
    union { /* munmap wants the address without its const */
        const uint8_t *bytes;
        void *address;
    } mapped = {.bytes = map->bytes};

    if (map->bytes != NULL) {
        forget_map(map);
        (void)munmap(mapped.address, map->n);
    }
    *map = (fb_map){0};
}

/* --- reading --- */

/* Reads until the end or until `bytes` [most] is full; *n_out may be less. */
static fb_status read_all(int file, char *bytes, size_t most, size_t *n_out)
{
    size_t n = 0;

    while (n < most) {
        const ssize_t got = read(file, bytes + n, most - n);

        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fb_fail(FB_IO, "cannot read: %s", strerror(errno));
        if (got == 0) break;
        n += (size_t)got;
    }
    *n_out = n;
    return FB_OK;
}

static fb_status too_large(size_t most)
{
    return fb_fail(FB_FORMAT, "the file is larger than %zu bytes", most);
}

/* The size may be that of a moment ago, and is 0 in /proc: the block grows until the end
 * is seen. */
static fb_status read_growing(int file, size_t first, size_t most, char **out,
                              size_t *n_out)
{
    size_t capacity = first, n = 0;

    for (;;) {
        char *bytes = fb_realloc(FB_ACCOUNT_other, *out, capacity + 1);
        size_t got = 0;

        if (bytes == NULL)
            return fb_fail(FB_NO_MEMORY, "no memory for a file of %zu bytes", capacity);
        *out = bytes;
        FB_TRY(read_all(file, bytes + n, capacity + 1 - n, &got));
        n += got;
        if (n > most) return too_large(most);
        if (n <= capacity) break;
        capacity = capacity > most / 2 ? most : 2 * capacity;
    }
    (*out)[n] = 0;
    *n_out = n;
    return FB_OK;
}

/* Of an open file that is perhaps `size` bytes long. */
static fb_status read_whole(int file, off_t size, size_t most, char **out,
                            size_t *n_out)
{
    const size_t guess = size > 0 ? (size_t)size : 4096;
    char *bytes = NULL;
    fb_status status =
        read_growing(file, guess < most ? guess : most, most, &bytes, n_out);

    if (status == FB_OK)
        *out = bytes;
    else
        fb_free(bytes);
    return status;
}

fb_status fb_file_read(char **out, size_t *n_out, const char *path, size_t most)
{
    struct stat info;
    int file;
    fb_status status = open_file(&file, &info, path);

    *out = NULL;
    *n_out = 0;
    if (status == FB_OK && (uintmax_t)info.st_size > most) status = too_large(most);
    if (status == FB_OK) status = read_whole(file, info.st_size, most, out, n_out);
    close_file(file);
    return status;
}

fb_status fb_file_read_input(char **out, size_t *n_out, size_t most)
{
    *out = NULL;
    *n_out = 0;
    return read_whole(STDIN_FILENO, 0, most, out, n_out);
}

fb_status fb_file_open(FILE **out, const char *path)
{
    struct stat info;
    int file;
    fb_status status = open_file(&file, &info, path);

    *out = NULL;
    if (status == FB_OK) {
        *out = fdopen(file, "rb");
        if (*out == NULL)
            status = fb_fail(FB_NO_MEMORY, "cannot open: %s", strerror(errno));
    }
    if (*out == NULL) close_file(file);
    return status;
}

/* The table of sections is the last thing in such a file. */
bool fb_file_is_cut_library(const char *path)
{
    Elf64_Ehdr head = {.e_shoff = 0};
    struct stat info;
    FILE *file = NULL;
    bool is_cut;

    if (fb_file_open(&file, path) != FB_OK) return false;
    is_cut = fread(&head, sizeof head, 1, file) == 1 &&
             fstat(fileno(file), &info) == 0 &&
             memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
             (uint64_t)info.st_size <
                 head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize;
    (void)fclose(file);
    return is_cut;
}
