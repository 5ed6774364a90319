/* isa.h - the float loops that are compiled once per kind of CPU.
 *
 * Each isa_*.c exports one table of functions, named after the target. The width of the
 * vectors differs between targets; the bits of a result never do.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_OPS_ISA_H
#define FB_OPS_ISA_H

#include <stdbool.h>
#include <stdint.h>

/* Panels have 32 columns. */
enum { FB_TILE_PANEL = 32, FB_EIGHT_RUN = 32 };

/* 32 k of a panel in whole numbers of 8 bits: byte j (from the lowest on) of word
 * [i][c] stands for (byte - 128) scale[c], rounded to f32, at k = 4 i + j. Scales are
 * numbers of half precision. */
typedef struct fb_eight {
    float scale[FB_TILE_PANEL];
    uint32_t words[FB_EIGHT_RUN / 4][FB_TILE_PANEL];
} fb_eight;

/* out[r][32 p + c] = sum over k of x[r][k] * panels[p][k][c], one chain of fused
 * multiply-adds per element in ascending k, then `+ 0.0f`, then `* scale`. */
typedef struct fb_product {
    int64_t rows, k;
    int64_t columns;     /* of `out` that exist; panels = columns / 32, rounded up */
    const float *x;      /* [rows][x_stride], k used */
    const float *panels; /* [columns / 32][panel_stride][32], k rows used */
    /* or instead of them [columns / 32][panel_stride / 32], k / 32 used; k and
     * panel_stride are multiples of 32 then, and there are no sums */
    const fb_eight *eights;
    float *out; /* [rows][out_stride] */
    int64_t x_stride, panel_stride, out_stride;
    float *sums; /* NULL, or [rows]: also x[r][0] + x[r][1] + ..., a chain */
    float scale;
    bool goes_on; /* chains start at what `out` and `sums` hold instead of at +0 */
    bool more;    /* another panel lies behind the last: soon it will be wanted too */
} fb_product;

typedef struct fb_isa_tiles {
    void (*product)(const fb_product *product);
    /* The same with `eights`; for few rows. */
    void (*product_of_eights)(const fb_product *product);
    /* rows [32][stride], k of each used, become a panel [k][32]. */
    void (*turn)(const float *rows, int64_t stride, int64_t k, float *panel);
    /* k / 32 runs of whole numbers become a panel [k][32]. */
    void (*floats_of_eights)(const fb_eight *from, int64_t k, float *panel);
} fb_isa_tiles;

/* Loops over one row, or a few rows side by side. */
typedef struct fb_isa_rows {
    void (*exp)(const float *x, float *out, int64_t n);
    /* The largest; -inf for n = 0. NaN elements are passed over. */
    float (*max)(const float *x, int64_t n);
    /* x = -inf where `hidden` is not 0. */
    void (*hide)(float *x, const uint8_t *hidden, int64_t n);
    /* x = exp(x - max). */
    void (*exp_minus)(float *x, int64_t n, float max);
    /* to[j] = fma(x[r][j], factor[r], to[j]) for r ascending. */
    void (*add_rows)(float *to, const float *x, int64_t stride, int64_t rows, int64_t n,
                     const float *factor);
    void (*divide)(const float *x, float divisor, float *out, int64_t n);
    /* The floats that finite numbers of 16 bits stand for. */
    void (*floats_of_f16)(const uint16_t *x, float *out, int64_t n);
    void (*floats_of_bf16)(const uint16_t *x, float *out, int64_t n);
    /* out = x / sqrt(mean(x^2) + eps) * weight; squares and their sum in double. */
    void (*rms_norm)(const float *x, const float *weight, double eps, float *out,
                     int64_t n);
    /* out = gate / (1 + exp(-gate)) * up. */
    void (*swiglu)(const float *gate, const float *up, float *out, int64_t n);
    /* out = gelu(gate) * up, tanh form. */
    void (*geglu)(const float *gate, const float *up, float *out, int64_t n);
    /* One head: pairs (low[i], high[i]) turned by their angles. */
    void (*rotary)(float *low, float *high, const float *cosine, const float *sine,
                   int64_t n);
} fb_isa_rows;

/* Loops in double, for measures. */
typedef struct fb_isa_doubles {
    /* The sum of exp(x - max): 16 lanes, a fixed tree. */
    double (*sum_exp)(const float *x, int64_t n, double max);
    /* Sum of exp(x - a) * ((x - a) - (y - b)); 0 where exp(x - a) is 0. */
    double (*kl)(const float *x, double a, const float *y, double b, int64_t n);
    /* The sum: 16 lanes, a fixed tree. */
    double (*sum)(const float *x, int64_t n);
} fb_isa_doubles;

typedef struct fb_isa {
    const char *name;
    const fb_isa_tiles *tiles;
    const fb_isa_rows *rows;
    const fb_isa_doubles *doubles;
} fb_isa;

#endif
