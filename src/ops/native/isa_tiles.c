/* isa_tiles.c - the matrix product: a few rows times a panel, all sums in registers.
 *
 * Every element of the result is one chain of fused multiply-adds in ascending k, so
 * its bits depend on its row and its column alone: not on the other rows, on threads or
 * on the width of a vector. `+ 0.0f` turns a chain that ended at -0 into +0: a term
 * with a zero factor then never shows.
 *
 * A tile is as many rows and columns as the registers hold. Rows are cut into tiles of
 * nearly equal height, because a low tile waits for the latency of the additions; the
 * lowest ones are as wide as a panel instead. A panel of whole numbers is turned into
 * floats on its way to the sums: what is multiplied is the same float as in the other.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "ops/native/isa_vector.h"

enum {
    PANEL = FB_TILE_PANEL,
    WIDEST = PANEL / FB_LANES,       /* vectors of a panel's width */
    VECTORS = FB_LANES == 4 ? 4 : 2, /* of a tile's width */
    WIDTH = VECTORS * FB_LANES,
    TALLEST = FB_LANES == 16 ? 12 : 6,
    TALLEST_WIDE = 3,
    TALLEST_WIDE_OF_EIGHTS = 2,
    TALLEST_WITH_SUMS = FB_LANES == 16 ? 8 : 4, /* these need registers too */
    ROWS_IN_CACHE = 192,                        /* of x, while all panels pass by */
    K_IN_CACHE = 512, /* of x and a panel, while some tiles pass by */
    LINE = 64,        /* bytes */
    RUN = FB_EIGHT_RUN,
    RUNS_AHEAD = 4,
};
_Static_assert(PANEL % WIDTH == 0, "a panel is a number of tiles");

/* The sums of a tile; a constant number of them where this is expanded: registers. */
typedef struct tile_sums {
    vec of[TALLEST][WIDEST];
    vec rows[TALLEST]; /* of x, the same in every lane: a factor is added as it is */
} tile_sums;

FB_INLINE void begin_sums(int height, int vectors, bool with_sums, const fb_product *p,
                          const float *out, const float *row_sums, tile_sums *sums)
{
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        sums->rows[r] = all(0);
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            sums->of[r][v] = all(0);
    }
    if (!p->goes_on) return;
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        if (with_sums) sums->rows[r] = all(row_sums[r]);
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            sums->of[r][v] = load(out + r * p->out_stride + v * LANES);
    }
}

FB_INLINE void end_sums(int height, int vectors, bool with_sums, const fb_product *p,
                        float *out, float *row_sums, const tile_sums *sums)
{
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        if (with_sums) row_sums[r] = sums->rows[r][0];
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            store(out + r * p->out_stride + v * LANES,
                  (sums->of[r][v] + all(0)) * all(p->scale));
    }
}

/* One k: `w` of the panel times a column of x. Registers hold `w`, or in a wide tile,
 * which has more of it than rows, the column. */
FB_INLINE void add_products(int height, int vectors, bool with_sums, const float *x,
                            int64_t stride, const vec *w, tile_sums *sums)
{
    FB_UNROLL
    for (int r = 0; r < height; r++) {
        const vec factor = all(x[r * stride]);

        if (with_sums) sums->rows[r] += factor;
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            sums->of[r][v] = fma_vec(factor, w[v], sums->of[r][v]);
    }
}

FB_INLINE void read_column(int height, const float *x, int64_t stride, vec *factor)
{
    FB_UNROLL
    for (int r = 0; r < height; r++)
        factor[r] = all(x[r * stride]);
}

FB_INLINE void add_to_columns(int height, int v, const vec *factor, vec w,
                              tile_sums *sums)
{
    FB_UNROLL
    for (int r = 0; r < height; r++)
        sums->of[r][v] = fma_vec(factor[r], w, sums->of[r][v]);
}

/* --- panels of floats */

FB_INLINE void add_row(int height, int vectors, bool with_sums, const float *x,
                       int64_t stride, const float *panel, tile_sums *sums)
{
    vec w[WIDEST], factor[TALLEST];

    if (vectors > height && !with_sums) {
        read_column(height, x, stride, factor);
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            add_to_columns(height, v, factor, load(panel + v * LANES), sums);
        return;
    }
    FB_UNROLL
    for (int v = 0; v < vectors; v++)
        w[v] = load(panel + v * LANES);
    add_products(height, vectors, with_sums, x, stride, w, sums);
}

/* A product at work, and how many lines of the next panel a tile asks for every so many
 * k. */
typedef struct job {
    fb_product p;
    int64_t lines, every;
} job;

FB_INLINE void tile(int height, int vectors, bool with_sums, const job *j,
                    const float *x, const float *panel, float *out, float *row_sums,
                    const char *ahead)
{
    const fb_product *p = &j->p;
    const int64_t stride = p->x_stride, step = j->every;
    tile_sums sums;

    begin_sums(height, vectors, with_sums, p, out, row_sums, &sums);
    for (int64_t k = 0, end; k < p->k; k = end) {
        end = p->k - k < step ? p->k : k + step;
        for (int64_t i = 0; i < j->lines; i++, ahead += LINE)
            __builtin_prefetch(ahead, 0, 2);
        /* Low tiles have little to do in one step. */
        FB_BY_FOUR
        for (int64_t i = k; i < end; i++)
            add_row(height, vectors, with_sums, x + i, stride, panel + i * PANEL,
                    &sums);
    }
    end_sums(height, vectors, with_sums, p, out, row_sums, &sums);
}

/* --- panels of whole numbers */

/* A run of 32 k: (byte - 128) scale is rounded once as byte scale - 128 scale, whose
 * parts are exact; byte i of a word comes times 2^(8 i), its scale with the inverse. */
typedef struct scales {
    vec of[4][WIDEST], less[WIDEST];
} scales;

FB_INLINE void read_scales(int vectors, const float *from, scales *own)
{
    FB_UNROLL
    for (int v = 0; v < vectors; v++) {
        const vec scale = load(from + v * LANES);

        own->of[0][v] = own->of[3][v] = scale;
        own->of[1][v] = scale * all(0x1p-8f);
        own->of[2][v] = scale * all(0x1p-16f);
        own->less[v] = scale * all(-128);
    }
}

FB_INLINE vec weight_of(const scales *own, uvec word, int i, int v)
{
    return fma_vec(floats_of_byte(word, i), own->of[i][v], own->less[v]);
}

/* Four k: the bytes of one word for each column. */
FB_INLINE void add_words(int height, int vectors, const float *x, int64_t stride,
                         const uint32_t *words, const scales *own, tile_sums *sums)
{
    uvec word[WIDEST];

    FB_UNROLL
    for (int v = 0; v < vectors; v++)
        word[v] = load_words(words + v * LANES);
    FB_UNROLL
    for (int i = 0; i < 4; i++) {
        vec w[WIDEST], factor[TALLEST];

        if (vectors > height) {
            read_column(height, x + i, stride, factor);
            FB_UNROLL
            for (int v = 0; v < vectors; v++)
                add_to_columns(height, v, factor, weight_of(own, word[v], i, v), sums);
            continue;
        }
        FB_UNROLL
        for (int v = 0; v < vectors; v++)
            w[v] = weight_of(own, word[v], i, v);
        add_products(height, vectors, false, x + i, stride, w, sums);
    }
}

FB_INLINE void tile_of_eights(int height, int vectors, const job *j, const float *x,
                              const fb_eight *eights, int64_t column, float *out)
{
    const fb_product *p = &j->p;
    tile_sums sums;
    scales own;

    begin_sums(height, vectors, false, p, out, NULL, &sums);
    for (const fb_eight *end = eights + p->k / RUN; eights < end; eights++) {
        read_scales(vectors, eights->scale + column, &own);
        if (column == 0) /* what comes later comes nearer */
            for (int l = 0; l < (int)sizeof *eights; l += LINE)
                __builtin_prefetch((const char *)(eights + RUNS_AHEAD) + l, 0, 2);
        for (int i = 0; i < RUN / 4; i++, x += 4)
            add_words(height, vectors, x, p->x_stride, eights->words[i] + column, &own,
                      &sums);
    }
    end_sums(height, vectors, false, p, out, NULL, &sums);
}

/* --- tiles by height */

typedef void tile_of_height(const job *j, const float *x, const float *panel,
                            float *out, float *sums, const char *ahead);
typedef void tile_of_eight_height(const job *j, const float *x, const fb_eight *eights,
                                  int64_t column, float *out);

#define FB_TILE(height)                                                                \
    static void tile_##height(const job *j, const float *x, const float *panel,        \
                              float *out, float *sums, const char *ahead)              \
    {                                                                                  \
        tile(height, VECTORS, false, j, x, panel, out, sums, ahead);                   \
    }
#define FB_WIDE_TILE(height)                                                           \
    static void wide_tile_##height(const job *j, const float *x, const float *panel,   \
                                   float *out, float *sums, const char *ahead)         \
    {                                                                                  \
        tile(height, WIDEST, false, j, x, panel, out, sums, ahead);                    \
    }
#define FB_SUMMING_TILE(height)                                                        \
    static void summing_tile_##height(const job *j, const float *x,                    \
                                      const float *panel, float *out, float *sums,     \
                                      const char *ahead)                               \
    {                                                                                  \
        tile(height, VECTORS, true, j, x, panel, out, sums, ahead);                    \
    }
#define FB_EIGHT_TILE(height)                                                          \
    static void eight_tile_##height(const job *j, const float *x,                      \
                                    const fb_eight *eights, int64_t column,            \
                                    float *out)                                        \
    {                                                                                  \
        tile_of_eights(height, VECTORS, j, x, eights, column, out);                    \
    }
#define FB_WIDE_EIGHT_TILE(height)                                                     \
    static void wide_eight_tile_##height(const job *j, const float *x,                 \
                                         const fb_eight *eights, int64_t column,       \
                                         float *out)                                   \
    {                                                                                  \
        tile_of_eights(height, WIDEST, j, x, eights, column, out);                     \
    }

#define FB_LOWEST_HEIGHTS(X) X(1) X(2)
#define FB_WIDE_HEIGHTS(X)   FB_LOWEST_HEIGHTS(X) X(3)
#define FB_LOW_HEIGHTS(X)    FB_WIDE_HEIGHTS(X) X(4)
#if FB_LANES == 16
#define FB_SUM_HEIGHTS(X) FB_LOW_HEIGHTS(X) X(5) X(6) X(7) X(8)
#define FB_HEIGHTS(X)     FB_SUM_HEIGHTS(X) X(9) X(10) X(11) X(12)
#else
#define FB_SUM_HEIGHTS(X) FB_LOW_HEIGHTS(X)
#define FB_HEIGHTS(X)     FB_SUM_HEIGHTS(X) X(5) X(6)
#endif

FB_HEIGHTS(FB_TILE)
FB_HEIGHTS(FB_EIGHT_TILE)
FB_WIDE_HEIGHTS(FB_WIDE_TILE)
FB_LOWEST_HEIGHTS(FB_WIDE_EIGHT_TILE)
FB_SUM_HEIGHTS(FB_SUMMING_TILE)

#define FB_TILE_ROW(height)         [height] = tile_##height,
#define FB_EIGHT_TILE_ROW(height)   [height] = eight_tile_##height,
#define FB_WIDE_TILE_ROW(height)    [height] = wide_tile_##height,
#define FB_WIDE_EIGHT_ROW(height)   [height] = wide_eight_tile_##height,
#define FB_SUMMING_TILE_ROW(height) [height] = summing_tile_##height,

static tile_of_height *const tiles[] = {FB_HEIGHTS(FB_TILE_ROW)};
static tile_of_height *const wide_tiles[] = {FB_WIDE_HEIGHTS(FB_WIDE_TILE_ROW)};
static tile_of_height *const summing_tiles[] = {FB_SUM_HEIGHTS(FB_SUMMING_TILE_ROW)};
static tile_of_eight_height *const eight_tiles[] = {FB_HEIGHTS(FB_EIGHT_TILE_ROW)};
static tile_of_eight_height *const wide_eight_tiles[] = {
    FB_LOWEST_HEIGHTS(FB_WIDE_EIGHT_ROW)};

/* --- panels */

/* How a number of rows is cut: `high` tiles of height + 1, then others of `height`. */
typedef struct cut {
    int n, high, height;
} cut;

static cut cut_rows(int64_t rows, int tallest)
{
    const int n = (int)((rows + tallest - 1) / tallest);

    return (cut){n, (int)rows % n, (int)rows / n};
}

/* A tile of which `out` has only the first `columns`: room that has them all instead. */
static void read_narrow(const fb_product *p, int height, int64_t columns,
                        const float *out, float room[][PANEL])
{
    for (int r = 0; r < height; r++)
        memcpy(room[r], out + r * p->out_stride, (size_t)columns * sizeof *out);
}

static void write_narrow(const fb_product *p, int height, int64_t columns, float *out,
                         float room[][PANEL])
{
    for (int r = 0; r < height; r++)
        memcpy(out + r * p->out_stride, room[r], (size_t)columns * sizeof *out);
}

static void narrow_tile(tile_of_height *run, int height, const job *w, const float *x,
                        const float *panel, float *out, float *sums, int64_t columns)
{
    float room[TALLEST][PANEL];
    job narrow = *w;

    read_narrow(&w->p, height, columns, out, room);
    narrow.p.out_stride = PANEL;
    narrow.lines = 0;
    narrow.every = w->p.k + 1;
    run(&narrow, x, panel, room[0], sums, NULL);
    write_narrow(&w->p, height, columns, out, room);
}

/* Bytes of the next panel that a tile asks for. */
static int64_t bytes_ahead(const job *w)
{
    return (w->p.k + w->every - 1) / w->every * w->lines * LINE;
}

/* A panel's tiles side by side for some rows. The first makes the sums. */
static void tiles_in_panel(int height, const job *w, const float *x, const float *panel,
                           float *out, float *sums, int64_t columns, const char *ahead)
{
    FB_ASSERT(height >= 1 && height <= (sums != NULL ? TALLEST_WITH_SUMS : TALLEST));
    if (height <= TALLEST_WIDE && columns >= PANEL && sums == NULL) {
        wide_tiles[height](w, x, panel, out, NULL, ahead);
        return;
    }
    for (int64_t c = 0; c < PANEL && c < columns; c += WIDTH) {
        tile_of_height *const run =
            sums != NULL ? summing_tiles[height] : tiles[height];

        if (columns - c >= WIDTH)
            run(w, x, panel + c, out + c, sums, ahead);
        else
            narrow_tile(run, height, w, x, panel + c, out + c, sums, columns - c);
        ahead += bytes_ahead(w);
        sums = NULL;
    }
}

/* While the tiles of some rows work on a panel, what lies behind it comes near: each asks
 * for its part. A wide tile that is alone has nothing else to do. */
static void look_ahead(job *w, int n_tiles, bool is_last)
{
    const int parts = n_tiles * (PANEL / WIDTH), per_k = PANEL * 4 / LINE;
    const bool has_next = (n_tiles > 1 || w->p.rows > TALLEST_WIDE) && !is_last;

    w->every = has_next ? parts <= 8 ? 8 : 32 : w->p.k + 1;
    w->lines = has_next ? (w->every * per_k + parts - 1) / parts : 0;
}

/* Some rows times w->p.k rows, from row k on, of the panel that begins at column c. */
static void block_times_rows(const job *w, int64_t first, cut rows, int64_t c,
                             int64_t k)
{
    const fb_product *p = &w->p;
    const float *x = p->x + first * p->x_stride + k;
    const float *panel = p->panels + c * p->panel_stride + k * PANEL;
    const char *ahead = (const char *)(panel + p->k * PANEL);
    float *out = p->out + first * p->out_stride + c;
    float *sums = c == 0 && p->sums != NULL ? p->sums + first : NULL;

    for (int i = 0; i < rows.n; i++) {
        const int height = rows.height + (i < rows.high);

        tiles_in_panel(height, w, x, panel, out, sums, p->columns - c, ahead);
        x += height * p->x_stride;
        out += height * p->out_stride;
        ahead += PANEL / WIDTH * bytes_ahead(w);
        if (sums != NULL) sums += height;
    }
}

/* Some rows times the panel that begins at column c. Where several tiles pass by, x and
 * the panel are cut, so that both stay near; the sums go on. */
static void panel_times_rows(const fb_product *p, int64_t first, cut rows, int64_t c)
{
    const bool is_last = c + PANEL >= p->columns && !p->more;
    job w = {.p = *p};

    for (int64_t k = 0;; k += K_IN_CACHE) {
        const int64_t left = p->k - k;
        const bool ends = rows.n == 1 || left <= K_IN_CACHE;

        w.p.k = ends ? left : K_IN_CACHE;
        w.p.scale = ends ? p->scale : 1;
        look_ahead(&w, rows.n, ends && is_last);
        block_times_rows(&w, first, rows, c, k);
        if (ends) return;
        w.p.goes_on = true;
    }
}

static void eights_in_panel(int height, const job *w, const float *x,
                            const fb_eight *eights, float *out, int64_t columns)
{
    float room[TALLEST][PANEL];
    job narrow = *w;

    FB_ASSERT(height >= 1 && height <= TALLEST);
    if (height <= TALLEST_WIDE_OF_EIGHTS && columns >= PANEL) {
        wide_eight_tiles[height](w, x, eights, 0, out);
        return;
    }
    narrow.p.out_stride = PANEL;
    for (int64_t c = 0; c < PANEL && c < columns; c += WIDTH) {
        const int64_t left = columns - c;

        if (left >= WIDTH) {
            eight_tiles[height](w, x, eights, c, out + c);
            continue;
        }
        read_narrow(&w->p, height, left, out + c, room);
        eight_tiles[height](&narrow, x, eights, c, room[0]);
        write_narrow(&w->p, height, left, out + c, room);
    }
}

static void eights_times_rows(const job *w, cut rows, int64_t c)
{
    const fb_product *p = &w->p;
    const fb_eight *eights = p->eights + c / PANEL * (p->panel_stride / RUN);
    const float *x = p->x;
    float *out = p->out + c;

    for (int i = 0; i < rows.n; i++) {
        const int height = rows.height + (i < rows.high);

        eights_in_panel(height, w, x, eights, out, p->columns - c);
        x += height * p->x_stride;
        out += height * p->out_stride;
    }
}

static void product_of_eights(const fb_product *p)
{
    const job w = {.p = *p};

    for (int64_t c = 0; c < p->columns; c += PANEL)
        eights_times_rows(&w, cut_rows(p->rows, TALLEST), c);
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

/* --- making panels */

typedef float four __attribute__((vector_size(16)));

/* Four rows of four numbers become four columns. */
FB_INLINE void turn_four(const float *rows, int64_t stride, float *panel)
{
    four a, b, c, d, low, high, low2, high2;

    memcpy(&a, rows, sizeof a);
    memcpy(&b, rows + stride, sizeof b);
    memcpy(&c, rows + 2 * stride, sizeof c);
    memcpy(&d, rows + 3 * stride, sizeof d);
    low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    low2 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    high2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
    b = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
    c = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
    d = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
    memcpy(panel, &a, sizeof a);
    memcpy(panel + PANEL, &b, sizeof b);
    memcpy(panel + 2 * PANEL, &c, sizeof c);
    memcpy(panel + 3 * PANEL, &d, sizeof d);
}

/* A cache line of each row at a time, four rows side by side. */
static void turn(const float *rows, int64_t stride, int64_t k, float *panel)
{
    enum { LINE_OF_FLOATS = LINE / 4, FOUR = 4 };
    int64_t i = 0;

    for (; i + LINE_OF_FLOATS <= k; i += LINE_OF_FLOATS)
        for (int64_t r = 0; r < PANEL; r += FOUR)
            for (int64_t j = i; j < i + LINE_OF_FLOATS; j += FOUR)
                turn_four(rows + r * stride + j, stride, panel + j * PANEL + r);
    for (; i < k; i++)
        for (int64_t r = 0; r < PANEL; r++)
            panel[i * PANEL + r] = rows[r * stride + i];
}

static void floats_of_eights(const fb_eight *from, int64_t k, float *panel)
{
    for (const fb_eight *end = from + k / RUN; from < end; from++, panel += RUN * PANEL)
        for (int c = 0; c < PANEL; c += LANES) {
            scales own;

            read_scales(1, from->scale + c, &own);
            for (int i = 0; i < RUN; i += 4) {
                const uvec words = load_words(from->words[i / 4] + c);

                FB_UNROLL
                for (int j = 0; j < 4; j++)
                    store(panel + (i + j) * PANEL + c, weight_of(&own, words, j, 0));
            }
        }
}

extern const fb_isa_tiles FB_TABLE(fb_isa_tiles);
const fb_isa_tiles FB_TABLE(fb_isa_tiles) = {
    .product = product,
    .product_of_eights = product_of_eights,
    .turn = turn,
    .floats_of_eights = floats_of_eights,
};
