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
    TALLEST_WITH_SUMS = FB_LANES == 16 ? 8 : 4, /* these need registers too */
    ROWS_IN_CACHE = 192,                        /* of x, while all panels pass by */
};
_Static_assert(PANEL % WIDTH == 0, "a panel is a number of tiles");

/* Where a tile begins. */
typedef struct corner {
    const float *x, *panel;
    float *out, *sums;
} corner;

/* `height` and `with_sums` are constants where this is expanded, so all sums become
 * registers. */
FB_INLINE void tile(int height, bool with_sums, const fb_product *p, corner at)
{
    vec sums[TALLEST][VECTORS];
    float row_sums[TALLEST];

    FB_UNROLL
    for (int r = 0; r < height; r++) {
        row_sums[r] = 0;
        FB_UNROLL
        for (int v = 0; v < VECTORS; v++)
            sums[r][v] = all(0);
    }
    if (p->goes_on) {
        FB_UNROLL
        for (int r = 0; r < height; r++) {
            if (with_sums) row_sums[r] = at.sums[r];
            FB_UNROLL
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = load(at.out + r * p->out_stride + v * LANES);
        }
    }
    /* Low tiles have little to do in one step. */
    FB_TWICE
    for (int64_t k = 0; k < p->k; k++) {
        vec w[VECTORS];

        FB_UNROLL
        for (int v = 0; v < VECTORS; v++)
            w[v] = load(at.panel + k * PANEL + v * LANES);
        FB_UNROLL
        for (int r = 0; r < height; r++) {
            const float factor = at.x[r * p->x_stride + k];

            if (with_sums) row_sums[r] += factor;
            FB_UNROLL
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = fma_all(factor, w[v], sums[r][v]);
        }
    }
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        if (with_sums) at.sums[r] = row_sums[r];
        FB_UNROLL
        for (int v = 0; v < VECTORS; v++)
            store(at.out + r * p->out_stride + v * LANES,
                  (sums[r][v] + all(0)) * all(p->scale));
    }
}

typedef void tile_of_height(const fb_product *p, corner at);

#define FB_TILE(height)                                                                \
    static void tile_##height(const fb_product *p, corner at)                          \
    {                                                                                  \
        tile(height, false, p, at);                                                    \
    }

#define FB_TILE_WITH_SUMS(height)                                                      \
    static void summing_tile_##height(const fb_product *p, corner at)                  \
    {                                                                                  \
        tile(height, true, p, at);                                                     \
    }

#define FB_LOW_HEIGHTS(X) X(1) X(2) X(3) X(4)
#if FB_LANES == 16
#define FB_SUM_HEIGHTS(X) FB_LOW_HEIGHTS(X) X(5) X(6) X(7) X(8)
#define FB_HEIGHTS(X)     FB_SUM_HEIGHTS(X) X(9) X(10) X(11) X(12)
#else
#define FB_SUM_HEIGHTS(X) FB_LOW_HEIGHTS(X)
#define FB_HEIGHTS(X)     FB_SUM_HEIGHTS(X) X(5) X(6)
#endif

FB_HEIGHTS(FB_TILE)
FB_SUM_HEIGHTS(FB_TILE_WITH_SUMS)

#define FB_TILE_ROW(height)     [height] = tile_##height,
#define FB_SUM_TILE_ROW(height) [height] = summing_tile_##height,

static tile_of_height *const tiles[TALLEST + 1] = {FB_HEIGHTS(FB_TILE_ROW)};
static tile_of_height *const summing_tiles[TALLEST_WITH_SUMS + 1] = {
    FB_SUM_HEIGHTS(FB_SUM_TILE_ROW)};

/* A tile of which `out` has only the first `columns`. */
static void narrow_tile(tile_of_height *run, int height, const fb_product *p, corner at,
                        int64_t columns)
{
    float whole[TALLEST][PANEL];
    fb_product narrow = *p;
    float *out = at.out;

    for (int r = 0; r < height; r++)
        memcpy(whole[r], out + r * p->out_stride, (size_t)columns * sizeof *out);
    narrow.out_stride = PANEL;
    at.out = whole[0];
    run(&narrow, at);
    for (int r = 0; r < height; r++)
        memcpy(out + r * p->out_stride, whole[r], (size_t)columns * sizeof *out);
}

/* A panel's tiles side by side for some rows. The first makes the sums. */
static void tiles_in_panel(int height, const fb_product *p, corner at, int64_t columns)
{
    for (int64_t c = 0; c < PANEL && c < columns; c += WIDTH) {
        tile_of_height *const run =
            at.sums != NULL ? summing_tiles[height] : tiles[height];

        if (columns - c >= WIDTH)
            run(p, at);
        else
            narrow_tile(run, height, p, at, columns - c);
        at.panel += WIDTH;
        at.out += WIDTH;
        at.sums = NULL;
    }
}

/* Rows [first, end) times the panel that begins at column c. */
static void panel_times_rows(const fb_product *p, int64_t first, int64_t end, int64_t c)
{
    float *const sums = c == 0 ? p->sums : NULL;
    const int64_t tallest = sums != NULL ? TALLEST_WITH_SUMS : TALLEST;
    int64_t n_tiles = (end - first + tallest - 1) / tallest;

    for (int64_t r = first; r < end; n_tiles--) {
        const int height = (int)((end - r + n_tiles - 1) / n_tiles);

        tiles_in_panel(height, p,
                       (corner){p->x + r * p->x_stride, p->panels + c * p->panel_stride,
                                p->out + r * p->out_stride + c,
                                sums != NULL ? sums + r : NULL},
                       p->columns - c);
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
