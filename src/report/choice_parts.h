/* choice_parts.h - what the files of the choice share.
 *
 * gather (candidates, what they cost; limits: which they miss)  ->  rank (how good, order)
 *   ->  pick (the best, what ties with it)  ->  say (sentence, lists, words), export
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_CHOICE_PARTS_H
#define FB_REPORT_CHOICE_PARTS_H

#include "report/analysis_parts.h"
#include "report/choice.h"

/* Fills tasks, floors, scale and candidates; refuses what has no meaning here. */
FB_MUST_USE fb_status fb_choice_gather(fb_choice *choice);
/* Marks what a measured candidate is over; nothing of one that is left out. */
void fb_choice_hold(const fb_choice *choice, fb_candidate *candidate);
/* Sets scale and n_fit, rates the candidates and puts them in order. */
void fb_choice_rank(fb_choice *choice);
/* Bytes, then extra work, then the name: below 0 if `a` takes less. */
int fb_choice_by_cost(const fb_choice *choice, const fb_candidate *a,
                      const fb_candidate *b);
/* Ranks the candidates and sets best, chosen, nearest and ties. */
FB_MUST_USE fb_status fb_choice_pick(fb_choice *choice);

const fb_result_task *fb_choice_task(const fb_choice *choice, int task);
bool fb_choice_has_least_quality(const fb_limits *limits);
/* The number that a limit is held against, and the limit; NAN: none. `task`: of quality. */
double fb_choice_number(const fb_choice *choice, const fb_candidate *candidate,
                        fb_limit limit, int task);
double fb_choice_limit(const fb_choice *choice, fb_limit limit, int task);

void fb_choice_print_json(fb_text *text, const fb_choice *choice,
                          const fb_choice_words *words);

#endif
