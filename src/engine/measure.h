/* measure.h - inside of src/engine: NLL, KL and arg max of teacher-forced answers.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_ENGINE_MEASURE_H
#define FB_ENGINE_MEASURE_H

#include "engine/reading.h"

/* Fills nll, kl, top1, full_top1 of out [n] from hidden [n, rows, width], places `first`
 * and on of the answer, against the full cache's answer in `reading`, charged to ledgers
 * [n]. Never holds more than a few rows of logits. */
FB_MUST_USE fb_status fb_measure(const fb_reading *reading, const fb_question *question,
                                 fb_tensor hidden, int64_t first,
                                 fb_ledger *const *ledgers, fb_answer *out);

#endif
