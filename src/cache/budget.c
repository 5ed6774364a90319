/* budget.c - a budget as asked becomes entries per head, in integers.
 *
 * A ratio is an exact fraction: floor(n * 0.1) in doubles keeps 99 of 1000 where 100
 * are meant.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"
#include "cache/cache.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DIGITS = 18, MOST_DECIMALS = 6 };

/* Fewer digits than are read, so what is printed can be read back, and sums are far from
 * the end of int64. */
static const int64_t MOST_BYTES = 1000000000000000;

static int64_t clamp(int64_t low, int64_t x, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

size_t fb_entry_bytes(const fb_cache_shape *shape)
{
    const size_t number = shape->type == FB_F32 ? sizeof(float) : sizeof(uint16_t);

    return 2 * (size_t)shape->head_dim * number;
}

const char *fb_cache_type_name(fb_dtype type)
{
    return type == FB_F16 ? "f16" : type == FB_BF16 ? "bf16" : "f32";
}

/* What kvpress 0.5.5 computes from its compression ratio, truncation and all. */
static int64_t kvpress_entries(const fb_budget *budget, int64_t tokens)
{
    const double dropped =
        (double)(budget->denominator - budget->numerator) / (double)budget->denominator;

    return (int64_t)((double)tokens * (1 - dropped));
}

int64_t fb_budget_entries(const fb_budget *budget, const fb_cache_shape *shape,
                          int64_t tokens, fb_rounding rounding)
{
    const size_t row =
        (size_t)(shape->layers * shape->kv_heads) * fb_entry_bytes(shape);
    int64_t k = tokens;

    switch (budget->kind) {
    case FB_BUDGET_RATIO:
        k = rounding == FB_ROUND_KVPRESS
                ? kvpress_entries(budget, tokens)
                : tokens * budget->numerator / budget->denominator;
        k = clamp(1, k, tokens);
        break;
    case FB_BUDGET_TOKENS:
        k = budget->value;
        break;
    case FB_BUDGET_BYTES:
        k = (int64_t)((size_t)budget->value / row);
        break;
    }
    return k < tokens ? k : tokens;
}

/* Decimal digits with an optional fraction: numerator / denominator, in lowest
 * decimals. */
static bool read_decimal(const char **at, int64_t *numerator, int64_t *denominator)
{
    int digits = 0, decimals = 0;
    bool fraction = false;

    *numerator = 0;
    *denominator = 1;
    for (; isdigit((unsigned char)**at) || (**at == '.' && !fraction); (*at)++) {
        if (**at == '.') {
            fraction = true;
            continue;
        }
        if (++digits > MOST_DIGITS || (fraction && ++decimals > MOST_DECIMALS))
            return false;
        *numerator = *numerator * 10 + (**at - '0');
        if (fraction) *denominator *= 10;
    }
    while (*denominator > 1 && *numerator % 10 == 0) {
        *numerator /= 10;
        *denominator /= 10;
    }
    return digits > 0;
}

static const struct {
    const char *name;
    int64_t bytes;
} units[] = {
    {"KiB", 1LL << 10},    {"MiB", 1LL << 20}, {"GiB", 1LL << 30}, {"TiB", 1LL << 40},
    {"kB", 1000},          {"KB", 1000},       {"MB", 1000000},    {"GB", 1000000000},
    {"TB", 1000000000000}, {"B", 1},
};

/* The fraction by itself, so that only what is too large anyway is too large here. */
static int64_t bytes_of(int64_t unit, int64_t numerator, int64_t denominator)
{
    const int64_t rest = numerator % denominator * unit / denominator;
    int64_t whole;

    if (__builtin_mul_overflow(numerator / denominator, unit, &whole) ||
        whole > INT64_MAX - rest)
        return INT64_MAX;
    return whole + rest;
}

static bool read_unit(fb_budget *out, const char *unit, int64_t numerator,
                      int64_t denominator)
{
    const bool is_whole = denominator == 1;

    if (strcmp(unit, "%") == 0) {
        *out = (fb_budget){FB_BUDGET_RATIO, numerator, denominator * 100, 0};
        return numerator > 0 && numerator <= out->denominator;
    }
    if (strcmp(unit, "t") == 0 || strcmp(unit, "tokens") == 0 ||
        strcmp(unit, "token") == 0) {
        *out = (fb_budget){FB_BUDGET_TOKENS, 0, 0, numerator};
        return is_whole && numerator > 0 && numerator <= INT32_MAX;
    }
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        if (strcmp(unit, units[u].name) == 0) {
            *out = (fb_budget){FB_BUDGET_BYTES, 0, 0,
                               bytes_of(units[u].bytes, numerator, denominator)};
            return out->value > 0 && out->value <= MOST_BYTES;
        }
    return false;
}

static size_t count_decimals(const char *text)
{
    const char *point = text + strspn(text, "0123456789");

    return *point == '.' ? strspn(point + 1, "0123456789") : 0;
}

fb_status fb_budget_parse(fb_budget *out, const char *text)
{
    const char *at = text;
    int64_t numerator, denominator;
    fb_budget budget = {0};

    if (read_decimal(&at, &numerator, &denominator)) {
        while (*at == ' ')
            at++;
        if (read_unit(&budget, at, numerator, denominator)) {
            *out = budget;
            return FB_OK;
        }
    }
    if (budget.kind == FB_BUDGET_BYTES && budget.value > MOST_BYTES)
        return fb_fail(FB_USAGE, "budget '%s' is too large; write 1000000GB or less",
                       text);
    if (count_decimals(text) > MOST_DECIMALS)
        return fb_fail(FB_USAGE, "budget '%s' has more than %d decimals", text,
                       MOST_DECIMALS);
    return fb_fail(
        FB_USAGE,
        "budget '%s' is not understood; write a share from above 0%% to 100%% "
        "(20%%), tokens per head (256t) or bytes (64MiB)",
        text);
}

void fb_budget_print(const fb_budget *budget, char *out, size_t n)
{
    int64_t whole, rest, unit;
    int used;

    if (budget->kind != FB_BUDGET_RATIO) {
        (void)snprintf(out, n, "%lld%s", (long long)budget->value,
                       budget->kind == FB_BUDGET_TOKENS ? "t" : "B");
        return;
    }
    unit = budget->denominator / 100;
    whole = budget->numerator / unit;
    rest = budget->numerator % unit;
    used = snprintf(out, n, "%lld", (long long)whole);
    if (rest != 0 && used > 0 && (size_t)used < n) {
        out[used++] = '.';
        while (rest != 0 && (size_t)used + 1 < n) {
            unit /= 10;
            out[used++] = (char)('0' + rest / unit);
            rest %= unit;
        }
        out[used] = 0;
    }
    if ((size_t)used + 1 < n) (void)snprintf(out + used, n - (size_t)used, "%%");
}
