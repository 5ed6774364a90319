/* certificate_parts.h - what the files of the certificate share.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_CERTIFICATE_PARTS_H
#define FB_EXPERIMENT_CERTIFICATE_PARTS_H

#include "experiment/certificate.h"

typedef struct fb_sample_trace {
    const char *context, *answer, *decode, *cache; /* NULL: no cell has one */
    bool same_trace, same_cache;
    int end; /* index of the first cell of the next sample */
} fb_sample_trace;

/* Of the sample whose first cell is `first`: cells are sorted by sample. */
fb_sample_trace fb_certificate_trace(const fb_results *results, int first);

/* The most of any cell under a budget: shares of what is allowed, and what they are of. */
typedef struct fb_most_used {
    double entries, bytes;
    int64_t kept_entries, kept_bytes, peak_bytes;
} fb_most_used;

fb_most_used fb_certificate_most(const fb_results *results, int budget);

#endif
