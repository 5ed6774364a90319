/* error.c - the sentence of the last failure, one per thread.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"

#include <flexbudget/error.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE_BYTES = 1024 };

static _Thread_local char sentence[SENTENCE_BYTES];

fb_status fb_fail(fb_status status, const char *format, ...)
{
    va_list args;

    FB_ASSERT(status != FB_OK);
    va_start(args, format);
    (void)vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return status;
}

fb_status fb_context(fb_status status, const char *format, ...)
{
    char before[SENTENCE_BYTES], old[SENTENCE_BYTES];
    va_list args;

    if (status == FB_OK) return FB_OK;
    memcpy(old, sentence, sizeof old);
    va_start(args, format);
    (void)vsnprintf(before, sizeof before, format, args);
    va_end(args);
    if (snprintf(sentence, sizeof sentence, "%s: %s", before, old) < 0) sentence[0] = 0;
    return status;
}

const char *fb_error_message(void)
{
    return sentence;
}

static const struct {
    int code;
    const char *meaning;
} statuses[] = {
#define FB_STATUS_ROW(name, code, meaning) [FB_##name] = {code, meaning},
    FB_STATUS_LIST(FB_STATUS_ROW)
#undef FB_STATUS_ROW
};

int fb_status_exit_code(fb_status status)
{
    return statuses[status].code;
}

const char *fb_status_meaning(fb_status status)
{
    return statuses[status].meaning;
}

void fb_assert_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "flexbudget: defect: %s:%d: '%s' does not hold\n", file, line,
                  condition);
    abort();
}
