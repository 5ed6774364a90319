/* digest.c - writes the facts of a cell in their fixed form, straight into the hash.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_text(fb_hash *hash, const char *text)
{
    fb_hash_add(hash, text, strlen(text));
}

static void begin(fb_hash *hash, const char *what)
{
    fb_hash_init(hash);
    add_text(hash, "bits 1 ");
    add_text(hash, what);
    add_text(hash, "\n");
}

/* " <bytes>:<text>" */
static void add_counted(fb_hash *hash, const char *text)
{
    char length[32];

    if (text == NULL) text = "";
    snprintf(length, sizeof length, " %zu:", strlen(text));
    add_text(hash, length);
    add_text(hash, text);
}

static void add_string(fb_hash *hash, const char *name, const char *text)
{
    add_text(hash, name);
    add_counted(hash, text);
    add_text(hash, "\n");
}

static void add_int(fb_hash *hash, const char *name, int64_t value)
{
    char digits[32];

    snprintf(digits, sizeof digits, " %" PRId64 "\n", value);
    add_text(hash, name);
    add_text(hash, digits);
}

static void add_uint(fb_hash *hash, const char *name, uint64_t value)
{
    char digits[32];

    snprintf(digits, sizeof digits, " %" PRIu64 "\n", value);
    add_text(hash, name);
    add_text(hash, digits);
}

static void add_ids(fb_hash *hash, const char *name, const int32_t *ids, int64_t n)
{
    char digits[32];

    snprintf(digits, sizeof digits, " %" PRId64, n);
    add_text(hash, name);
    add_text(hash, digits);
    for (int64_t i = 0; i < n; i++) {
        snprintf(digits, sizeof digits, " %" PRId32, ids[i]);
        add_text(hash, digits);
    }
    add_text(hash, "\n");
}

/* `x` as Python's float.hex() writes it. */
static void print_hex(double x, char *out, size_t n)
{
    uint64_t bits, fraction;
    int exponent;
    const char *sign;

    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 63 ? "-" : "";
    exponent = (int)(bits >> 52 & 0x7ff);
    fraction = bits & UINT64_C(0xfffffffffffff);
    if (exponent == 0x7ff)
        snprintf(out, n, "%s%s", fraction ? "" : sign, fraction ? "nan" : "inf");
    else if (exponent == 0 && fraction == 0)
        snprintf(out, n, "%s0x0.0p+0", sign);
    else if (exponent == 0)
        snprintf(out, n, "%s0x0.%013" PRIx64 "p-1022", sign, fraction);
    else
        snprintf(out, n, "%s0x1.%013" PRIx64 "p%+d", sign, fraction, exponent - 1023);
}

static void add_score(fb_hash *hash, const fb_digest_score *score)
{
    char value[40];

    print_hex(score->value, value, sizeof value);
    add_text(hash, "score");
    add_counted(hash, score->metric);
    add_text(hash, " ");
    add_text(hash, value);
    add_text(hash, "\n");
}

void fb_cell_digest(const fb_digest_cell *cell, char out[FB_HASH_HEX])
{
    fb_hash hash;

    begin(&hash, "cell");
    add_string(&hash, "spec", cell->spec_sha256);
    add_string(&hash, "model", cell->model_sha256);
    add_string(&hash, "tokens", cell->sample_sha256);
    add_string(&hash, "task", cell->task);
    add_string(&hash, "sample", cell->sample);
    add_string(&hash, "rule", cell->rule);
    add_uint(&hash, "seed", cell->seed);
    add_string(&hash, "budget", cell->budget);
    add_int(&hash, "budget_entries", cell->budget_entries);
    add_int(&hash, "budget_bytes", cell->budget_bytes);
    add_string(&hash, "kept", cell->kept_sha256);
    add_ids(&hash, "ids", cell->ids, cell->n_ids);
    add_string(&hash, "stop", cell->stop);
    for (int i = 0; i < cell->n_scores; i++)
        add_score(&hash, &cell->scores[i]);
    add_int(&hash, "evicted", cell->evicted);
    add_int(&hash, "fallback", cell->fallback);
    add_string(&hash, "trace_context", cell->trace_context);
    add_string(&hash, "trace_answer", cell->trace_answer);
    add_string(&hash, "trace_decode", cell->trace_decode);
    fb_hash_hex(&hash, out);
}

void fb_kept_sha256(const fb_kept *kept, char out[FB_HASH_HEX])
{
    fb_hash hash;

    begin(&hash, "kept");
    if (kept == NULL) {
        add_text(&hash, "all\n");
    } else {
        add_int(&hash, "slots", kept->n_slots);
        for (int64_t s = 0; s < kept->n_slots; s++)
            add_ids(&hash, "positions", kept->position[s], kept->count[s]);
    }
    fb_hash_hex(&hash, out);
}

void fb_sample_sha256(const int32_t *context, int64_t n_context, const int32_t *prompt,
                      int64_t n_prompt, const int32_t *answer, int64_t n_answer,
                      char out[FB_HASH_HEX])
{
    fb_hash hash;

    begin(&hash, "sample");
    add_ids(&hash, "context", context, n_context);
    add_ids(&hash, "prompt", prompt, n_prompt);
    add_ids(&hash, "answer", answer, n_answer);
    fb_hash_hex(&hash, out);
}
