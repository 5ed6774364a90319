/* plan_inside.h - what the files of the plan share among themselves.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_PLAN_INSIDE_H
#define FB_EXPERIMENT_PLAN_INSIDE_H

#include "base/memory.h"
#include "experiment/plan.h"

/* Room for one more element of `size` bytes behind the `n` of a list: the list doubles
 * whenever n is a power of two. */
FB_MUST_USE fb_status fb_list_grow(void **list, int n, size_t size);

/* --- tokens (plan_tokens.c) --- */

FB_MUST_USE fb_status fb_plan_encode(const fb_plan *plan, const char *text,
                                     fb_ids *out);
/* Context ids of a text: BOS, template, text; `n_before_out` of them before the
 * text. */
FB_MUST_USE fb_status fb_plan_context(const fb_plan *plan, const char *text,
                                      fb_ids *out, int64_t *n_before_out);
/* question | template after | prefix. */
FB_MUST_USE fb_status fb_plan_prompt(const fb_plan *plan, const char *question,
                                     const char *prefix, fb_ids *out);
/* Takes ids out of the middle so that `most` are left. */
int64_t fb_plan_cut_middle(fb_ids *ids, int64_t most);
/* Where the bytes of each id of the context end in its text of `n_text` bytes, from
 * `n_before` on: [n]. */
FB_MUST_USE fb_status fb_plan_token_ends(const fb_plan *plan, const fb_ids *ids,
                                         int64_t n_before, size_t n_text, size_t **out);

/* --- samples (plan_samples.c) --- */

/* One task at work. */
typedef struct fb_plan_maker {
    fb_plan *plan;
    int task;
    const fb_bound_task *bound; /* NULL: a question of the user's, of no task */
} fb_plan_maker;

/* All of a sample but its document. `out` is to be cleared even after a failure. */
FB_MUST_USE fb_status fb_plan_make_sample(const fb_plan_maker *m,
                                          const fb_document *document,
                                          const fb_probe *probe, fb_plan_sample *out);
void fb_plan_sample_clear(fb_plan_sample *sample);

/* --- documents (plan_documents.c) --- */

/* Runs a task and adds its documents and samples. */
FB_MUST_USE fb_status fb_plan_make(fb_plan *plan, int task);
/* Adds the one document and sample of a question of the user's. */
FB_MUST_USE fb_status fb_plan_make_question(fb_plan *plan, const fb_own_question *own);

#endif
