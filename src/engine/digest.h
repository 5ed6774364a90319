/* digest.h - one hash that says whether two cells are the same result.
 *
 * A digest is the SHA-256 of a text of fixed form, a line per fact:
 *
 *     bits 1 cell               what is hashed, and the version of the bits behind it
 *     spec 64:3f2a...           a string: name, bytes, colon, the bytes themselves
 *     seed 7                    a whole number, in decimal
 *     ids 3 17 4 4              a list of ids: how many, then each
 *     score 3:nll 0x1.8000000000000p+1
 *
 * in the order of the fields below. The length in front of a string keeps its bytes
 * from passing for another fact. Floats are written as Python's float.hex() writes
 * them: thirteen digits always, "nan" for every NaN; no locale enters. A part that did
 * not run (a trace of no free decoding) is the empty string.
 *
 * What is *not* in it may differ between equal results: time, memory accounts, host,
 * instruction set, threads, row ids. "bits 1" stands for everything that fixes the
 * results' bits (panel width 32, chains in ascending k, the elementary functions):
 * whoever changes one of them makes it "bits 2".
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_DIGEST_H
#define FB_ENGINE_DIGEST_H

#include "base/hash.h"
#include "cache/cache.h"

typedef struct fb_digest_score {
    const char *metric;
    double value;
} fb_digest_score;

/* Facts of a cell; all lent, a NULL string is the empty one. */
typedef struct fb_digest_cell {
    const char *spec_sha256, *model_sha256;
    const char *sample_sha256; /* fb_sample_sha256 */
    const char *task, *sample; /* name; the sample's key */
    const char *rule;          /* canonical expression */
    uint64_t seed;
    const char *budget; /* as fb_budget_print writes it */
    int64_t budget_entries, budget_bytes;
    const char *kept_sha256; /* fb_kept_sha256 */
    const int32_t *ids;      /* of the free answer [n_ids] */
    int64_t n_ids;
    const char *stop;              /* why it ended: "end", "length", "string" */
    const fb_digest_score *scores; /* [n_scores], their order counts */
    int n_scores;
    int64_t evicted; /* entries */
    bool fallback;
    const char *trace_context, *trace_answer, *trace_decode;
} fb_digest_cell;

void fb_cell_digest(const fb_digest_cell *cell, char out[FB_HASH_HEX]);

/* Of the positions that stayed, slot by slot; NULL: all did. */
void fb_kept_sha256(const fb_kept *kept, char out[FB_HASH_HEX]);

/* Of the tokens of a sample: where one part ends and the next begins counts. */
void fb_sample_sha256(const int32_t *context, int64_t n_context, const int32_t *prompt,
                      int64_t n_prompt, const int32_t *answer, int64_t n_answer,
                      char out[FB_HASH_HEX]);

#endif
