/* isa_tiles.c - the matrix product: a few rows times a panel, all sums in registers.
 *
 * Every element of the result is one chain of fused multiply-adds in ascending k, so
 * its bits depend on its row and its column alone: not on the other rows, on threads or
 * on the width of a vector. `+ 0.0f` turns a chain that ended at -0 into +0: a term
 * with a zero factor then never shows.
 *
 * A tile is as many rows and columns as the registers hold. Rows are cut into tiles of
 * nearly equal height, because a low tile waits for the latency of the additions.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/isa_vector.h"

enum {
    PANEL = 32,
    VECTORS = FB_LANES == 4 ? 4 : 2, /* of a tile's width */
    WIDTH = VECTORS * FB_LANES,
    TALLEST = FB_LANES == 16 ? 12 : 6,
    ROWS_IN_CACHE = 192, /* of x, while all panels pass by */
};
_Static_assert(PANEL % WIDTH == 0, "a panel is a number of tiles");

/* `height` is a constant where this is expanded, so the sums become registers. */
FB_INLINE void tile(int height, const fb_product *p, const float *x, const float *panel,
                    float *out)
{
    vec sums[TALLEST][VECTORS];

#pragma GCC unroll 12
    for (int r = 0; r < height; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] =
                p->goes_on ? load(out + r * p->out_stride + v * LANES) : all(0);
    for (int64_t k = 0; k < p->k; k++) {
        vec w[VECTORS];

#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            w[v] = load(panel + k * PANEL + v * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < height; r++) {
            const float factor = x[r * p->x_stride + k];

#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = fma_all(factor, w[v], sums[r][v]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < height; r++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            store(out + r * p->out_stride + v * LANES,
                  (sums[r][v] + all(0)) * all(p->scale));
}

#define FB_TILE(height)                                                                \
    static void tile_##height(const fb_product *p, const float *x, const float *panel, \
                              float *out)                                              \
    {                                                                                  \
        tile(height, p, x, panel, out);                                                \
    }

typedef void tile_of_height(const fb_product *p, const float *x, const float *panel,
                            float *out);

FB_TILE(1)
FB_TILE(2)
FB_TILE(3)
FB_TILE(4)
FB_TILE(5)
FB_TILE(6)
#if FB_LANES == 16
FB_TILE(7)
FB_TILE(8)
FB_TILE(9)
FB_TILE(10)
FB_TILE(11)
FB_TILE(12)
#endif

static tile_of_height *const tiles[TALLEST + 1] = {
    NULL,   tile_1, tile_2, tile_3,  tile_4,  tile_5,  tile_6,
#if FB_LANES == 16
    tile_7, tile_8, tile_9, tile_10, tile_11, tile_12,
#endif
};

/* Columns [first, first + WIDTH) of a panel for `height` rows; those that `out` does
 * not have are dropped. */
static void tile_in_panel(int height, const fb_product *p, const float *x,
                          const float *panel, float *out, int64_t columns)
{
    float whole[TALLEST][PANEL];
    fb_product narrow = *p;

    if (columns >= WIDTH) {
        tiles[height](p, x, panel, out);
        return;
    }
    for (int r = 0; r < height; r++)
        memcpy(whole[r], out + r * p->out_stride, (size_t)columns * sizeof *out);
    narrow.out_stride = PANEL;
    tiles[height](&narrow, x, panel, whole[0]);
    for (int r = 0; r < height; r++)
        memcpy(out + r * p->out_stride, whole[r], (size_t)columns * sizeof *out);
}

static void panel_times_rows(const fb_product *p, int64_t first, int64_t end,
                             int64_t column)
{
    const float *panel = p->panels + column / PANEL * p->panel_stride * PANEL;
    int64_t n_tiles = (end - first + TALLEST - 1) / TALLEST;

    for (int64_t r = first; r < end; n_tiles--) {
        const int height = (int)((end - r + n_tiles - 1) / n_tiles);

        for (int64_t c = column; c < column + PANEL && c < p->columns; c += WIDTH)
            tile_in_panel(height, p, p->x + r * p->x_stride, panel + c % PANEL,
                          p->out + r * p->out_stride + c, p->columns - c);
        r += height;
    }
}

static void product(const fb_product *p)
{
    for (int64_t r = 0; r < p->rows; r += ROWS_IN_CACHE) {
        const int64_t end = r + ROWS_IN_CACHE < p->rows ? r + ROWS_IN_CACHE : p->rows;

        for (int64_t c = 0; c < p->columns; c += PANEL)
            panel_times_rows(p, r, end, c);
    }
}

extern const fb_isa_tiles FB_TABLE(fb_isa_tiles);
const fb_isa_tiles FB_TABLE(fb_isa_tiles) = {.product = product};
