/* certificate.h - what was the same for all rules, proven from the stored cells.
 *
 * The body is JSON in a fixed form:
 *
 *     spec, model, tasks, host, kernel, program   what was run, by hash and by name
 *     bits        "equal": the same on every machine, and eviction was tested by equality;
 *                 "tolerance": the backend promises no bits, so every cell had an arena
 *                 and none was compared with a masked one
 *     trace       per sample the hashes of the operator calls outside the rules, and
 *                 whether they were equal for all of its cells
 *     cache       whether all cells of a sample began with the same keys and values
 *     budget      per budget the highest use of any cell: at most 1
 *     cells       how many, and the digest over all of them
 *     ledger      FLOPs by scope, over all cells
 *
 * Its SHA-256 is stored with it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_CERTIFICATE_H
#define FB_EXPERIMENT_CERTIFICATE_H

#include "base/text.h"
#include "store/store.h"

typedef struct fb_certificate {
    fb_text body;
    char sha256[FB_HASH_HEX];
    bool same_trace, same_cache; /* for all cells of every sample */
    double highest_use;          /* of a budget: at most 1 */
} fb_certificate;

FB_MUST_USE fb_status fb_certificate_make(fb_certificate *out, fb_store *store,
                                          const fb_results *results);
void fb_certificate_clear(fb_certificate *certificate);

#endif
