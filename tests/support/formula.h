/* formula.h - formulas as documents have them: numbers, names, + - * / and brackets.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_FORMULA_H
#define TESTS_SUPPORT_FORMULA_H

#include "tests/support/test.h"

#include <ctype.h>

typedef struct formula {
    const char *at;
    double (*value)(const void *self, const char *name); /* fails where there is none */
    const void *self;
} formula;

static inline double formula_sum(formula *f);

static inline char formula_next(formula *f)
{
    while (*f->at == ' ')
        f->at++;
    return *f->at;
}

static inline double formula_name(formula *f)
{
    char name[64];
    size_t n = 0;

    while (n + 1 < sizeof name && (isalnum((unsigned char)*f->at) || *f->at == '_'))
        name[n++] = *f->at++;
    name[n] = '\0';
    if (n == 0) fail_msg("no formula at '%s'", f->at);
    return f->value(f->self, name);
}

static inline double formula_factor(formula *f)
{
    const char c = formula_next(f);
    double out;
    char *end;

    if (c == '(') {
        f->at++;
        out = formula_sum(f);
        if (formula_next(f) != ')') fail_msg("no ')' at '%s'", f->at);
        f->at++;
        return out;
    }
    if (!isdigit((unsigned char)c)) return formula_name(f);
    out = strtod(f->at, &end);
    f->at = end;
    return out;
}

static inline double formula_product(formula *f)
{
    double out = formula_factor(f);

    for (char c = formula_next(f); c == '*' || c == '/'; c = formula_next(f)) {
        f->at++;
        out = c == '*' ? out * formula_factor(f) : out / formula_factor(f);
    }
    return out;
}

static inline double formula_sum(formula *f)
{
    double out = formula_product(f);

    for (char c = formula_next(f); c == '+' || c == '-'; c = formula_next(f)) {
        f->at++;
        out += c == '+' ? formula_product(f) : -formula_product(f);
    }
    return out;
}

static inline double formula_of(const char *text,
                                double (*value)(const void *self, const char *name),
                                const void *self)
{
    formula f = {text, value, self};
    const double out = formula_sum(&f);

    if (formula_next(&f) != '\0') fail_msg("'%s' is left of '%s'", f.at, text);
    return out;
}

#endif
