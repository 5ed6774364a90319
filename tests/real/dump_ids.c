/* dump_ids.c - what run_tokenizers.py asks of the program.
 *
 *     dump_ids MODEL               ids that the file's tokenizer gives to texts
 *     dump_ids FOLDER ROWS         the same of a folder without weights
 *     dump_ids --template MODEL    the text around a user's turn, which is a zero byte
 *
 * Input: records of a length (4 bytes, little-endian) and that many bytes. Output, per
 * record, two lines: ids with special tokens recognised, and without. Before the first
 * stands 'u' if the text holds a code point that PCRE2's Unicode does not know.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/gguf.h"
#include "model/model.h"
#include "tests/support/open_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MOST_BYTES = 1 << 20 };

_Noreturn static void die(const char *sentence)
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

static void print(const fb_tokenizer *t, fb_piece piece)
{
    fb_ids ids = {0};

    if (fb_tokenizer_encode(t, &piece, 1, &ids) != FB_OK) die(fb_error_message());
    for (int64_t i = 0; i < ids.n; i++)
        (void)printf("%s%d", i == 0 ? "" : " ", ids.ids[i]);
    (void)putchar('\n');
    fb_ids_clear(&ids);
}

static fb_tokenizer *open_tokenizer(const char *model, const char *rows)
{
    fb_gguf *gguf = NULL;
    fb_tokenizer *t = NULL;

    if (rows != NULL) {
        if (tokenizer_of_folder(&t, model, atoi(rows)) != FB_OK)
            die(fb_error_message());
        return t;
    }
    if (fb_gguf_open(&gguf, model) != FB_OK) die(fb_error_message());
    if (tokenizer_of_gguf(&t, gguf) != FB_OK) die(fb_error_message());
    fb_gguf_close(gguf);
    return t;
}

/* From stdin to stdout until the input ends. */
static int dump_ids(fb_tokenizer *t)
{
    static char bytes[MOST_BYTES];
    unsigned char length[4];

    while (fread(length, 1, 4, stdin) == 4) {
        const size_t n = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16;

        if (n > MOST_BYTES || fread(bytes, 1, n, stdin) != n) die("a broken record");
        (void)printf("%s", has_unassigned(bytes, n) ? "u " : "");
        print(t, (fb_piece){bytes, n, true});
        print(t, (fb_piece){bytes, n, false});
    }
    fb_tokenizer_free(t);
    return 0;
}

static int dump_template(const char *path)
{
    fb_model *model = NULL;
    const fb_template *chat;

    if (fb_model_open(&model, NULL, path, NULL) != FB_OK) die(fb_error_message());
    chat = fb_model_template(model);
    (void)printf("%s%c%s", chat->before, 0, chat->after);
    fb_model_close(model);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2) return dump_ids(open_tokenizer(argv[1], NULL));
    if (argc == 3 && strcmp(argv[1], "--template") == 0) return dump_template(argv[2]);
    if (argc == 3) return dump_ids(open_tokenizer(argv[1], argv[2]));
    die("usage: dump_ids [--template] MODEL or dump_ids FOLDER ROWS");
}
