/* replay.c - runs a fuzz target on its saved inputs, with any compiler.
 *
 * FB_CORPUS is the folder. Each file is handed over in a block of exactly its size, so
 * that a sanitizer sees a read past the end; the empty input comes first. A target that
 * finds a fault ends the program. The last line is "N passed, 0 failed".
 *
 * SPDX-License-Identifier: MIT
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *path)
{
    (void)fprintf(stderr, "replay: %s '%s'\n", what, path);
    exit(1);
}

static uint8_t *read_whole(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long n;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0) die("cannot open", path);
    n = ftell(file);
    if (n < 0 || fseek(file, 0, SEEK_SET) != 0) die("cannot read", path);
    bytes = malloc((size_t)n);
    if (bytes == NULL && n > 0) die("no memory for", path);
    if (fread(bytes, 1, (size_t)n, file) != (size_t)n) die("cannot read", path);
    if (fclose(file) != 0) die("cannot close", path);
    *n_out = (size_t)n;
    return bytes;
}

static void replay(const char *name)
{
    char path[4096];
    uint8_t *bytes;
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", FB_CORPUS, name);
    bytes = read_whole(path, &n);
    (void)printf("%s\n", path); /* so that a crash says which */
    (void)fflush(stdout);
    (void)LLVMFuzzerTestOneInput(bytes, n);
    free(bytes);
}

int main(void)
{
    DIR *folder = opendir(FB_CORPUS);
    const struct dirent *entry;
    int n = 0;

    if (folder == NULL) die("cannot open", FB_CORPUS);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        replay(entry->d_name);
        n++;
    }
    (void)closedir(folder);
    (void)printf("%d passed, %d failed\n", n, n == 0);
    return n == 0;
}
