/* near.h - comparing doubles in tests: cmocka 1.1.5 knows floats only.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_NEAR_H
#define TESTS_SUPPORT_NEAR_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Fails unless `got` is within `tolerance` of `want`, absolutely or relatively. */
#define assert_near(got, want, tolerance)                                              \
    assert_near_at((got), (want), (tolerance), #got, __FILE__, __LINE__)

static inline void assert_near_at(double got, double want, double tolerance,
                                  const char *what, const char *file, int line)
{
    if (fabs(got - want) <= tolerance * fmax(1, fabs(want))) return;
    print_error("%s is %.17g, not %.17g\n", what, got, want);
    _fail(file, line);
}

#endif
