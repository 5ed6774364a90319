/* error.h - how a function that can fail says so.
 *
 * A function that touches files, memory, devices or a user's words returns an
 * fb_status. Only fb_fail() makes one that is not FB_OK, and it always takes a sentence
 * for a person: lower case, no full stop, what is wrong, then what would be right,
 * numbers with units, names in single quotes. The sentence belongs to the calling
 * thread until its next failure.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FLEXBUDGET_ERROR_H
#define FLEXBUDGET_ERROR_H

/* name, exit code of the program, meaning */
#define FB_STATUS_LIST(X)                                                              \
    X(OK, 0, "done")                                                                   \
    X(USAGE, 2, "the request makes no sense")                                          \
    X(NOT_FOUND, 2, "something named by the user is not there")                        \
    X(FORMAT, 2, "a file or a text breaks its own format")                             \
    X(UNSUPPORTED, 2, "understood, but not something this program can do")             \
    X(BUDGET, 2, "a budget that cannot be met, or an attempt to exceed one")           \
    X(NO_MEMORY, 1, "out of memory")                                                   \
    X(IO, 1, "reading or writing failed")                                              \
    X(DEFECT, 1, "a rule or the program itself broke a promise")                       \
    X(STOPPED, 3, "stopped on request")

typedef enum fb_status {
#define FB_STATUS_ENUM(name, code, meaning) FB_##name,
    FB_STATUS_LIST(FB_STATUS_ENUM)
#undef FB_STATUS_ENUM
} fb_status;

#define FB_MUST_USE __attribute__((warn_unused_result))

/* Rules in a file of their own (rule.h) find these functions in the program. */
#pragma GCC visibility push(default)

/* Records the sentence for this thread and returns `status`, which must not be
 * FB_OK. */
fb_status fb_fail(fb_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "while doing what: " in front of the recorded sentence; FB_OK passes
 * unchanged. */
fb_status fb_context(fb_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The sentence of this thread's last failure; lent until the next one. Never NULL. */
const char *fb_error_message(void);

/* The exit code that the program uses for `status`, and its general meaning. */
int fb_status_exit_code(fb_status status);
const char *fb_status_meaning(fb_status status);

#pragma GCC visibility pop

/* For functions that own nothing: passes a failure on. */
#define FB_TRY(call)                                                                   \
    do {                                                                               \
        fb_status fb_try_status_ = (call);                                             \
        if (fb_try_status_ != FB_OK) return fb_try_status_;                            \
    } while (0)

#endif
