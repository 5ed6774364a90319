/* time.c - clocks, and durations as people read them.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/time.h"

#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t fb_time_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t fb_time_cpu_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void fb_time_utc(char out[FB_TIME_UTC])
{
    const time_t now = time(NULL);
    struct tm parts;

    out[0] = 0;
    if (gmtime_r(&now, &parts) != NULL)
        (void)strftime(out, FB_TIME_UTC, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

/* Three digits of value / unit, value below 1000 units: "6.91 s", "48.2 ms". */
static void print_digits(char out[FB_TIME_SHORT], const char *sign, uint64_t ns,
                         uint64_t unit, const char *name)
{
    /* At 9.995 the second decimal would round to a fourth digit. */
    const double value = (double)ns / (double)unit;
    const int decimals = unit == 1 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

    (void)snprintf(out, FB_TIME_SHORT, "%s%.*f %s", sign, decimals, value, name);
}

static void print_pair(char out[FB_TIME_SHORT], const char *sign, uint64_t large,
                       char large_name, uint64_t small, char small_name)
{
    (void)snprintf(out, FB_TIME_SHORT, "%s%llu%c%02llu%c", sign,
                   (unsigned long long)large, large_name, (unsigned long long)small,
                   small_name);
}

void fb_time_print(int64_t ns, char out[FB_TIME_SHORT])
{
    const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    const char *sign = ns < 0 ? "-" : "";
    const uint64_t s = (size + 500000000) / 1000000000;

    if (size < 1000)
        print_digits(out, sign, size, 1, "ns");
    else if (size < 999500)
        print_digits(out, sign, size, 1000, "us");
    else if (size < 999500000)
        print_digits(out, sign, size, 1000000, "ms");
    else if (s < 60)
        print_digits(out, sign, size, 1000000000, "s");
    else if (s < 3600)
        print_pair(out, sign, s / 60, 'm', s % 60, 's');
    else if (s < 86400)
        print_pair(out, sign, s / 3600, 'h', s % 3600 / 60, 'm');
    else
        print_pair(out, sign, s / 86400, 'd', s % 86400 / 3600, 'h');
}
