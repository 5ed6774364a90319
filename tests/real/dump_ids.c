/* dump_ids.c - prints the ids that a file's tokenizer gives to texts, for
 * run_tokenizers.py.
 *
 * usage: dump_ids MODEL < texts > ids
 *
 * Input: records of a length (4 bytes, little-endian) and that many bytes. Output, per
 * record, two lines: ids with special tokens recognised, and without. Before the first
 * stands 'u' if the text holds a code point that PCRE2's Unicode does not know.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/gguf.h"
#include "model/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MOST_BYTES = 1 << 20 };

static void die(const char *sentence)
{
    (void)fprintf(stderr, "dump_ids: %s\n", sentence);
    exit(1);
}

static bool has_unassigned(const char *bytes, size_t n)
{
    static pcre2_code *code;
    static pcre2_match_data *found;
    int error;
    size_t at;

    if (code == NULL) {
        code = pcre2_compile((PCRE2_SPTR) "\\p{Cn}", PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
        if (code == NULL) die("the expression does not compile");
        found = pcre2_match_data_create_from_pattern(code, NULL);
    }
    return pcre2_match(code, (PCRE2_SPTR)bytes, n, 0, 0, found, NULL) > 0;
}

static void print_ids(const fb_tokenizer *t, const char *bytes, size_t n, bool special)
{
    const fb_piece piece = {bytes, n, special};
    fb_ids ids = {0};

    if (fb_tokenizer_encode(t, &piece, 1, &ids) != FB_OK) die(fb_error_message());
    for (int64_t i = 0; i < ids.n; i++)
        (void)printf("%s%d", i == 0 ? "" : " ", ids.ids[i]);
    (void)putchar('\n');
    fb_ids_clear(&ids);
}

int main(int argc, char **argv)
{
    static char bytes[MOST_BYTES];
    unsigned char length[4];
    fb_gguf *gguf = NULL;
    fb_tokenizer *t = NULL;

    if (argc != 2) die("usage: dump_ids MODEL < texts > ids");
    if (fb_gguf_open(&gguf, argv[1]) != FB_OK) die(fb_error_message());
    if (fb_tokenizer_new(&t, gguf) != FB_OK) die(fb_error_message());
    fb_gguf_close(gguf);
    while (fread(length, 1, 4, stdin) == 4) {
        const size_t n = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16;

        if (n > MOST_BYTES || fread(bytes, 1, n, stdin) != n) die("a broken record");
        (void)printf("%s", has_unassigned(bytes, n) ? "u " : "");
        print_ids(t, bytes, n, true);
        print_ids(t, bytes, n, false);
    }
    fb_tokenizer_free(t);
    return 0;
}
