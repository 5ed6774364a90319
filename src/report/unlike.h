/* unlike.h - what keeps the numbers of two experiments apart, and what one was made with.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_UNLIKE_H
#define FB_REPORT_UNLIKE_H

#include "report/analysis_parts.h"

/* "kernel (native.f32.kv32 / native.f32.kvf16), metric of needle (kl / nll)": all that
 * must agree before numbers of both may be compared, and does not. False: nothing. */
bool fb_say_unlike(fb_text *out, const fb_results *a, const fb_results *b);
/* "made by flexbudget 0.1.0, build 1a2b; kernel native.f32.kv32, avx2, 2 threads; model
 * 3f2a9c...; chat template ...; data of jsonl ...". */
void fb_say_made(fb_text *out, const fb_results *results);

#endif
