/* time.h - clocks, and durations as people read them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_TIME_H
#define FB_BASE_TIME_H

#include <stddef.h>
#include <stdint.h>

int64_t fb_time_ns(void);     /* a clock that never goes back; its zero means nothing */
int64_t fb_time_cpu_ns(void); /* CPU time of this process, all threads */

enum { FB_TIME_UTC = 21, FB_TIME_SHORT = 24 };
/* Now as "2026-11-29T16:39:00Z". */
void fb_time_utc(char out[FB_TIME_UTC]);
/* Three digits or two units: "850 ns", "48.2 ms", "6.91 s", "18m12s", "2h05m",
 * "3d04h". Negative durations keep their sign.
 */
void fb_time_print(int64_t ns, char out[FB_TIME_SHORT]);

#endif
