/* secrets.c - keys and values that no text contains, and the depths they are hidden at.
 *
 * Depths are stratified: n documents have the depths (s + 1/2) / n, each once. Document
 * i takes s = i * step mod n, step being near the golden section of n, so that the first
 * few documents are spread over the depths too. With several keys the further ones are
 * spread evenly from the first one on, round the end.
 *
 * SPDX-License-Identifier: MIT
 */
#include "task/secrets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void fb_draw_seed(fb_random *random, uint64_t seed, fb_draw purpose, int64_t document)
{
    fb_random_seed(random, seed, (uint64_t)purpose << 48 | (uint64_t)document);
}

static void draw_pair(fb_random *random, char *out, size_t n)
{
    char adjective[32], noun[32];

    fb_library_word(fb_library_find("adjectives")->text, random, adjective,
                    sizeof adjective);
    fb_library_word(fb_library_find("nouns")->text, random, noun, sizeof noun);
    (void)snprintf(out, n, "%s-%s", adjective, noun);
}

/* A UUID of version 4: 122 random bits. */
static void draw_uuid(fb_random *random, char *out, size_t n)
{
    typedef unsigned long long u64;
    const uint64_t all = UINT64_C(1) << 48;
    const uint64_t a = fb_random_below(random, all), b = fb_random_below(random, all);
    const uint64_t c = fb_random_below(random, all);

    (void)snprintf(out, n, "%08llx-%04llx-4%03llx-%04llx-%012llx", (u64)(a >> 16),
                   (u64)(a & 0xFFFF), (u64)(b & 0xFFF),
                   (u64)(0x8000 | (b >> 12 & 0x3FFF)), (u64)c);
}

static void draw_value(fb_random *random, fb_secret secret, fb_needle *needle)
{
    static const char *const kinds[] = {"number", "word", "code"};
    const size_t n = sizeof needle->value;

    (void)snprintf(needle->kind, sizeof needle->kind, "%s", kinds[secret]);
    if (secret == FB_SECRET_WORD)
        draw_pair(random, needle->value, n);
    else if (secret == FB_SECRET_UUID)
        draw_uuid(random, needle->value, n);
    else
        (void)snprintf(needle->value, n, "%llu",
                       1000000 + (unsigned long long)fb_random_below(random, 9000000));
}

static bool is_taken(const fb_needle *needles, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strcmp(needles[i].key, key) == 0 || strcmp(needles[i].value, key) == 0)
            return true;
    return false;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* The depth of the first needle of document `i`. */
static double depth_of(const fb_haystack_options *options, int64_t i)
{
    const int64_t n = options->documents;
    int64_t step = n * 618 / 1000;

    if (options->depths == 1) return 0.5;
    if (options->depths > 1)
        return (double)(i % options->depths) / (double)(options->depths - 1);
    while (step < 1 || common_divisor(step, n) != 1)
        step++;
    return ((double)(i % n * step % n) + 0.5) / (double)n;
}

void fb_secrets_draw(fb_needle *needles, const fb_haystack_options *options,
                     uint64_t seed, int64_t i)
{
    const int n = (int)options->keys;
    fb_random random;

    fb_draw_seed(&random, seed, FB_DRAW_SECRETS, i);
    for (int k = 0; k < n; k++) {
        fb_needle *needle = &needles[k];
        const double first = depth_of(options, i);

        do
            draw_pair(&random, needle->key, sizeof needle->key);
        while (is_taken(needles, k, needle->key));
        draw_value(&random, options->secret, needle);
        needle->depth = k == 0 ? first : fmod(first + (double)k / n, 1);
    }
}
