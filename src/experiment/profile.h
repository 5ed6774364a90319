/* profile.h - how fast a device computes and reads: what turns counted work into seconds.
 *
 * An operator takes the longer of two times: its FLOPs at the device's peak, its bytes at
 * the device's bandwidth; and a little for being called at all. Operators run one after
 * another, so the seconds of a phase are the sum over the operators of its ledger. The
 * numbers are measured with the operators themselves, or are those of a device that is
 * not at hand, written by a person (docs/BENCH.md).
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_PROFILE_H
#define FB_EXPERIMENT_PROFILE_H

#include "base/text.h"
#include "model/model.h"
#include "ops/ops.h"

typedef struct fb_profile {
    char name[128];          /* "AMD EPYC 9B14", "H100 SXM (data sheet)" */
    char backend[64];        /* "native avx2", "torch 2.13.0 on cpu"; "": not said */
    char cpu[128];           /* "": not said */
    char date[32];           /* of the measurement; "": not said */
    int64_t threads;         /* 0: not said */
    double flops_per_s;      /* of products of many rows */
    double bytes_per_s;      /* of products of one row, which read a weight once */
    double seconds_per_call; /* what an operator takes that has next to nothing to do */
    /* What depends on a model, and which it was; 0, "": not said, and the rates above
     * stand for these. Products of one row with its weights as they are held, unpacking
     * included; attention of many rows, and of one. */
    char row_weights[160];
    double row_flops_per_s;
    double attention_flops_per_s, attention_bytes_per_s;
} fb_profile;

/* This machine's, now, in a second; leaves nothing in `ops`. `model`: whose weights and
 * heads are measured, over keys and values of type `cache`; NULL: none. */
FB_MUST_USE fb_status fb_profile_measure(fb_profile *out, fb_ops *ops,
                                         const fb_model *model, fb_dtype cache);
/* Bytes that this takes for a while. */
double fb_profile_measure_bytes(const fb_model *model, fb_dtype cache);
/* A file of fb_profile_print or of a person's; nothing in it is trusted. FB_NOT_FOUND,
 * FB_FORMAT with the key that is wrong. */
FB_MUST_USE fb_status fb_profile_read(fb_profile *out, const char *path);
FB_MUST_USE fb_status fb_profile_parse(fb_profile *out, const char *text, size_t n);
/* A JSON object with a line for each key, and a line's end. */
void fb_profile_print(const fb_profile *profile, fb_text *out);

/* Whether it says what it was measured with, as all do that fb_profile_measure made. */
bool fb_profile_is_measured(const fb_profile *profile);

/* The larger of FLOPs / peak and bytes / bandwidth. */
double fb_profile_seconds(const fb_profile *profile, double flops, double bytes);
/* All operators of a phase; in `answer` and `decode` products and attention have one row. `weight_share`: bytes of a weight as it lies in memory for each
 * byte that the ledger counts, which takes four for a number. */
double fb_profile_phase_seconds(const fb_profile *profile, const fb_ledger *ledger,
                                fb_phase phase, double weight_share);
/* Bytes of a phase, weights by the same share. */
double fb_profile_phase_bytes(const fb_ledger *ledger, fb_phase phase,
                              double weight_share);
double fb_profile_phase_flops(const fb_ledger *ledger, fb_phase phase);

#endif
