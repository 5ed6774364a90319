/* weights_inside.h - rows of stored tensors on their way to a weight.
 *
 * weights.c names them and says which weights a model has; weights_rows.c makes a weight
 * of them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_MODEL_WEIGHTS_INSIDE_H
#define FB_MODEL_WEIGHTS_INSIDE_H

#include "model/weights.h"

enum { FB_MOST_WEIGHT_PARTS = 3 };

/* One tensor among those that are laid under each other to make a weight. */
typedef struct fb_weight_part {
    fb_stored tensor; /* its data in the file, or a copy of them */
    int64_t paired;   /* heads of so many rows have rotary pairs side by side; 0: no */
    uint8_t *copy;    /* NULL: none */
} fb_weight_part;

/* The rows of a weight: those of its tensors, one under the other. */
typedef struct fb_weight_rows {
    fb_weight_part parts[FB_MOST_WEIGHT_PARTS];
    int n_parts;
    int64_t rows, columns;
    bool is_checked;         /* all are finite */
    _Atomic int64_t bad_row; /* 1 + a row with a number that is not finite; 0: none */
    struct fb_weight_rows *next; /* of those that stay */
} fb_weight_rows;

/* What one model is loaded with, and how far that is. */
typedef struct fb_weight_loader {
    const fb_stored_list *tensors; /* NULL: there are none, only what follows */
    const fb_weights *like;        /* NULL: numbers of so many bits each */
    int bits;
    fb_naming naming;
    const fb_model_facts *f;
    fb_ops *ops; /* NULL: only look whether all is there */
    fb_weight_form form;
    bool *is_used;           /* [tensors of the files] */
    size_t bytes;            /* of weights so far, loaded or not */
    fb_weight_rows *staying; /* the last of those that stay */
    fb_weights *out;         /* notes of weights so far */
} fb_weight_loader;

/* Notes and, where there are operators, makes a weight; what stays of `s` is copied. */
FB_MUST_USE fb_status fb_weight_make(fb_weight_loader *l, fb_weight_rows *s,
                                     fb_tensor *out);
/* A vector of the numbers of one-row tensors, one behind the other, each plus `add`. */
FB_MUST_USE fb_status fb_weight_make_vector(fb_weight_loader *l, fb_weight_rows *s,
                                            float add, fb_tensor *out);
/* Frees what stays: `s` and all behind it. */
void fb_weight_rows_free(fb_weight_rows *s);

#endif
