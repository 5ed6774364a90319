/* certificate.h - what was the same for all rules, proven from the stored cells.
 *
 * The body is JSON in a fixed form, described in docs/CERTIFICATE.md. Everything in it
 * follows from the other tables of the file, so it can be made again and compared; all but
 * the member `made`, which says when and where, is the same for every run of the experiment
 * by one program. Its SHA-256 is stored with it.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_CERTIFICATE_H
#define FB_EXPERIMENT_CERTIFICATE_H

#include "experiment/rulebook.h"

enum { FB_CERTIFICATE_FORMAT = 3 };

typedef struct fb_certificate {
    bool same_trace, same_cache; /* for all cells of every sample */
    double highest_use;          /* of a budget: at most 1 */
    bool is_closed;
    bool holds[FB_CONDITIONS];
    fb_text reasons; /* why it is open */
    fb_text body;
    char sha256[FB_HASH_HEX];
} fb_certificate;

/* What the cells show, and the class that follows. Clear it in any case. */
FB_MUST_USE fb_status fb_certificate_judge(fb_certificate *out,
                                           const fb_results *results);
/* Its body, from what `store` says now, and the hash: after the class has been stored. */
FB_MUST_USE fb_status fb_certificate_write(fb_certificate *certificate, fb_store *store,
                                           const fb_results *results);
const char *fb_certificate_class(const fb_certificate *certificate);
void fb_certificate_clear(fb_certificate *certificate);

#endif
