/* say.c - messages for people on stderr, results on stdout.
 *
 * A sentence may begin with the place that it is about ("file:31:1: ...") and may go on
 * with lines of its own: the line of the file with a caret, "help: ...".
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/file.h"
#include "base/terminal.h"
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PROGRAM "flexbudget"

static bool is_quiet, has_colour;
static char program[4096] = PROGRAM;

void fb_say_called(const char *word)
{
    fb_text quoted = {0};

    if (word == NULL || strchr(word, '/') == NULL) return;
    fb_text_init(&quoted, sizeof program - 1);
    fb_text_add_quoted(&quoted, word);
    if (fb_text_status(&quoted) == FB_OK)
        (void)snprintf(program, sizeof program, "%s", fb_text_string(&quoted));
    fb_text_clear(&quoted);
}

const char *fb_say_program(void)
{
    return program;
}

bool fb_say_has_colour(const fb_line *line, int descriptor)
{
    const char *when = fb_values_text(&line->common, FB_COMMON_colour);

    return strcmp(when, "always") == 0 ||
           (strcmp(when, "auto") == 0 && fb_terminal_has_colour(descriptor));
}

void fb_say_setup(const fb_line *line)
{
    is_quiet = fb_values_flag(&line->common, FB_COMMON_quiet);
    has_colour = fb_say_has_colour(line, 2);
}

bool fb_say_is_quiet(void)
{
    return is_quiet;
}

/* Bytes of "path:LINE:COLUMN: " at the beginning; 0 if it is not there. */
static size_t place_length(const char *sentence)
{
    const size_t end = strcspn(sentence, "\n");

    for (size_t i = 1; i < end; i++) {
        size_t j = i;
        int numbers = 0;

        while (sentence[j] == ':' && isdigit((unsigned char)sentence[j + 1])) {
            for (j++; isdigit((unsigned char)sentence[j]);)
                j++;
            numbers++;
        }
        if (numbers == 2 && sentence[j] == ':' && sentence[j + 1] == ' ') return j + 2;
    }
    return 0;
}

/* Names come from files and may hold what a terminal would obey. */
static void put_clean(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];

        (void)fputc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : c,
                    stderr);
    }
}

/* A line "help: flexbudget ..." is there to be copied. */
static void put_sentence(const char *sentence)
{
    static const char help[] = "help: ", hint[] = "help: " PROGRAM " ";

    while (*sentence != '\0') {
        const size_t line = strcspn(sentence, "\n"),
                     n = line + (sentence[line] != '\0');
        size_t skipped = 0;

        if (strncmp(sentence, hint, sizeof hint - 1) == 0) {
            (void)fprintf(stderr, "%s%s", help, program);
            skipped = sizeof hint - 2;
        }
        put_clean(sentence + skipped, n - skipped);
        sentence += n;
    }
}

static void say(const char *kind, const char *colour, const char *sentence)
{
    const size_t place = place_length(sentence);

    (void)fflush(stdout);
    if (place > 0)
        put_clean(sentence, place);
    else
        (void)fputs("flexbudget: ", stderr);
    (void)fprintf(stderr, "%s%s%s: ", has_colour ? colour : "", kind,
                  has_colour ? "\033[0m" : "");
    put_sentence(sentence + place);
    (void)fputc('\n', stderr);
}

void fb_say_error(const char *sentence)
{
    say("error", "\033[31m", sentence);
}

void fb_say_warning(const char *sentence)
{
    if (!is_quiet) say("warning", "\033[33m", sentence);
}

int fb_say_end(fb_status status)
{
    if (status != FB_OK) fb_say_error(fb_error_message());
    return fb_status_exit_code(status);
}

void fb_say_note(const char *format, ...)
{
    char note[4096];
    va_list args;

    if (is_quiet) return;
    va_start(args, format);
    (void)vsnprintf(note, sizeof note, format, args);
    va_end(args);
    put_clean(note, strlen(note));
    (void)fputc('\n', stderr);
}

static fb_status write_stdout(const fb_text *text)
{
    errno = 0;
    if (fwrite(fb_text_string(text), 1, text->n, stdout) == text->n &&
        fflush(stdout) == 0)
        return FB_OK;
    return fb_fail(FB_IO, "cannot write the result: %s", strerror(errno));
}

fb_status fb_write_result(fb_status status, fb_text *text, const char *path)
{
    if (status == FB_OK) status = fb_text_status(text);
    if (status == FB_OK && path[0] == '\0')
        status = write_stdout(text);
    else if (status == FB_OK)
        status = fb_context(fb_file_write(path, fb_text_string(text), text->n), "'%s'",
                            path);
    fb_text_clear(text);
    return status;
}
