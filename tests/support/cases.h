/* cases.h - a sentence about numbers is tried on many random cases, each of its own seed.
 *
 * What fails says of which rule and which case; FLEXBUDGET_TEST_CASE=number runs that one
 * alone.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "tests/support/numbers.h"
#include "tests/support/test.h"

enum { CASES = 1000 }; /* of every sentence, in `make test-long` */

static uint64_t case_seed;
static char case_of[512] = "it"; /* the rule at work */

#define holds(condition)                                                               \
    do {                                                                               \
        if (!(condition))                                                              \
            fail_msg("%s: not so of %s; FLEXBUDGET_TEST_CASE=%llu", #condition,        \
                     case_of, (unsigned long long)case_seed);                          \
    } while (0)

static inline void of_rule(const char *text)
{
    (void)snprintf(case_of, sizeof case_of, "%s", text);
}

/* As many cases as a test has: `few` in `make test`. */
static inline void try_many_cases(int64_t many, int64_t few, void (*check)(numbers *r))
{
    const char *one = getenv("FLEXBUDGET_TEST_CASE");
    const int64_t n = one == NULL ? long_or_short(many, few) : 1;

    for (int64_t i = 0; i < n; i++) {
        numbers r;

        case_seed = one == NULL ? (uint64_t)i : strtoull(one, NULL, 10);
        r = (numbers){case_seed * 1000003};
        check(&r);
    }
}

static inline void try_cases(int64_t few, void (*check)(numbers *r))
{
    try_many_cases(CASES, few, check);
}

#endif
