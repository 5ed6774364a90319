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

/* `x`, `panel`, `out`: where the tile begins. `height` and `with_sums` are constants
 * where this is expanded, so all sums become registers. */
FB_INLINE void tile(int height, bool with_sums, const fb_product *p, const float *x,
                    const float *panel, float *out, float *row_sums_out)
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
            if (with_sums) row_sums[r] = row_sums_out[r];
            FB_UNROLL
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = load(out + r * p->out_stride + v * LANES);
        }
    }
    /* Low tiles have little to do in one step. */
    FB_TWICE
    for (int64_t k = 0; k < p->k; k++) {
        vec w[VECTORS];

        FB_UNROLL
        for (int v = 0; v < VECTORS; v++)
            w[v] = load(panel + k * PANEL + v * LANES);
        FB_UNROLL
        for (int r = 0; r < height; r++) {
            const float factor = x[r * p->x_stride + k];

            if (with_sums) row_sums[r] += factor;
            FB_UNROLL
            for (int v = 0; v < VECTORS; v++)
                sums[r][v] = fma_all(factor, w[v], sums[r][v]);
        }
    }
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        if (with_sums) row_sums_out[r] = row_sums[r];
        FB_UNROLL
        for (int v = 0; v < VECTORS; v++)
            store(out + r * p->out_stride + v * LANES,
                  (sums[r][v] + all(0)) * all(p->scale));
    }
}

typedef void tile_of_height(const fb_product *p, const float *x, const float *panel,
                            float *out, float *sums);

#define FB_TILE(height)                                                                \
    static void tile_##height(const fb_product *p, const float *x, const float *panel, \
                              float *out, float *sums)                                 \
    {                                                                                  \
        tile(height, false, p, x, panel, out, sums);                                   \
    }

#define FB_TILE_WITH_SUMS(height)                                                      \
    static void summing_tile_##height(const fb_product *p, const float *x,             \
                                      const float *panel, float *out, float *sums)     \
    {                                                                                  \
        tile(height, true, p, x, panel, out, sums);                                    \
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
static void narrow_tile(tile_of_height *run, int height, const fb_product *p,
                        const float *x, const float *panel, float *out, float *sums,
                        int64_t columns)
{
    float whole[TALLEST][PANEL];
    fb_product narrow = *p;

    for (int r = 0; r < height; r++)
        memcpy(whole[r], out + r * p->out_stride, (size_t)columns * sizeof *out);
    narrow.out_stride = PANEL;
    run(&narrow, x, panel, whole[0], sums);
    for (int r = 0; r < height; r++)
        memcpy(out + r * p->out_stride, whole[r], (size_t)columns * sizeof *out);
}

/* A panel's tiles side by side for some rows. The first makes the sums. */
static void tiles_in_panel(int height, const fb_product *p, const float *x,
                           const float *panel, float *out, float *sums, int64_t columns)
{
    for (int64_t c = 0; c < PANEL && c < columns; c += WIDTH) {
        tile_of_height *const run =
            sums != NULL ? summing_tiles[height] : tiles[height];

        if (columns - c >= WIDTH)
            run(p, x, panel + c, out + c, sums);
        else
            narrow_tile(run, height, p, x, panel + c, out + c, sums, columns - c);
        sums = NULL;
    }
}

/* How a number of rows is cut: `high` tiles of height + 1, then others of `height`. */
typedef struct cut {
    int n, high, height;
} cut;

static cut cut_rows(int64_t rows, int tallest)
{
    const int n = (int)((rows + tallest - 1) / tallest);

    return (cut){n, (int)rows % n, (int)rows / n};
}

/* Some rows times the panel that begins at column c. */
static void panel_times_rows(const fb_product *p, int64_t first, cut rows, int64_t c)
{
    const float *x = p->x + first * p->x_stride;
    const float *panel = p->panels + c * p->panel_stride;
    float *out = p->out + first * p->out_stride + c;
    float *sums = c == 0 && p->sums != NULL ? p->sums + first : NULL;

    for (int i = 0; i < rows.n; i++) {
        const int height = rows.height + (i < rows.high);

        tiles_in_panel(height, p, x, panel, out, sums, p->columns - c);
        x += height * p->x_stride;
        out += height * p->out_stride;
        if (sums != NULL) sums += height;
    }
}

static void product(const fb_product *p)
{
    for (int64_t r = 0; r < p->rows; r += ROWS_IN_CACHE) {
        const int64_t rows = p->rows - r < ROWS_IN_CACHE ? p->rows - r : ROWS_IN_CACHE;
        const cut plain = cut_rows(rows, TALLEST);
        const cut first = p->sums != NULL ? cut_rows(rows, TALLEST_WITH_SUMS) : plain;

        panel_times_rows(p, r, first, 0);
        for (int64_t c = PANEL; c < p->columns; c += PANEL)
            panel_times_rows(p, r, plain, c);
    }
}

extern const fb_isa_tiles FB_TABLE(fb_isa_tiles);
const fb_isa_tiles FB_TABLE(fb_isa_tiles) = {.product = product};
