/* scorers.h - one function per text metric: a prediction against one reference.
 *
 * Inside src/task only; metrics.c takes the best over references. Each returns a share
 * from 0 to 1. Formulas and their sources stand at the functions.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_TASK_SCORERS_H
#define FB_TASK_SCORERS_H

#include "task/points.h"

typedef struct fb_answer_pair {
    fb_points prediction, reference;
    const char *const *classes;
    int n_classes;
} fb_answer_pair;

typedef fb_status fb_scorer(const fb_answer_pair *pair, double *out);

fb_scorer fb_score_contains, fb_score_exact; /* score_labels.c */
fb_scorer fb_score_class, fb_score_count, fb_score_retrieval, fb_score_number_first;
fb_scorer fb_score_choice, fb_score_choice_v2; /* score_choice.c */
fb_scorer fb_score_f1, fb_score_f1_zh;         /* score_f1.c */
fb_scorer fb_score_rouge_l;                    /* score_rouge.c */
fb_scorer fb_score_code_sim;                   /* score_code.c */

#endif
