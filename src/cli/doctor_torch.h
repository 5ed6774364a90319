/* doctor_torch.h - whether there is a PyTorch, which one, and what it can compute on.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_CLI_DOCTOR_TORCH_H
#define FB_CLI_DOCTOR_TORCH_H

#include "base/text.h"

enum { FB_MOST_DEVICES = 20 };

typedef struct fb_torch_found {
    bool is_found;
    char directory[4096], version[32]; /* of the package */
    char device[FB_MOST_DEVICES][16];  /* "cpu", "cuda:0": memory can be had there */
    int n_devices;
    bool is_cut;   /* it did not answer to the end in time */
    char why[512]; /* not found: a sentence that says what to do */
} fb_torch_found;

/* Looks in another process, so that a library that hangs or crashes does not take this
 * one along, and for at most some seconds. `where`: as fb_torch_open; "": unknown. Call
 * it while the process has one thread. */
void fb_torch_look(fb_torch_found *out, const char *where);
void fb_torch_print_text(const fb_torch_found *found, fb_text *out);
void fb_torch_print_json(const fb_torch_found *found, fb_text *out);

#endif
