/* rulebook.h - whether an experiment is of the closed class: docs/RULEBOOK.md, decided.
 *
 * A condition is a row of store/conditions.h with a function here, which looks at what is
 * stored and says why it does not hold. An experiment is closed if all of them hold, else open; that is
 * nothing bad, but it is never silent. Only what the program can check is here: what its
 * author promises beside is in the document.
 *
 * Whether cells were run again (`verify`) is stated beside the class and is no part of it:
 * the class follows from the run alone.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_RULEBOOK_H
#define FB_EXPERIMENT_RULEBOOK_H

#include "base/text.h"
#include "spec/option.h"
#include "store/conditions.h"
#include "store/store.h"

/* What conditions look at; all lent. */
typedef struct fb_evidence {
    const fb_results *results;
    const fb_values *settings;   /* of the stored specification */
    bool same_trace, same_cache; /* for all cells of every sample */
    double highest_use;          /* of a budget */
} fb_evidence;

typedef struct fb_condition {
    const char *name, *sentence;
    /* False with the reason in `why`, a few words without full stop. */
    bool (*holds)(const fb_evidence *evidence, fb_text *why);
} fb_condition;

#define FB_COUNT(name, sentence) +1
enum { FB_CONDITIONS = 0 FB_CONDITION_LIST(FB_COUNT) };
#undef FB_COUNT
extern const fb_condition fb_rulebook[FB_CONDITIONS];

/* Whether the kernel that results name promises equal bits, as of the backends the native one
 * does: see fb_ops_is_exact. NULL: unknown, so it does not. */
bool fb_kernel_promises_bits(const char *kernel);

/* True: closed. `reasons`: of what does not hold, "a; b"; `holds` [FB_CONDITIONS]. */
bool fb_rulebook_judge(const fb_evidence *evidence, fb_text *reasons,
                       bool holds[FB_CONDITIONS]);

#endif
