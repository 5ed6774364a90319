/* export_kept.h - the entries that stayed, for other engines: as lines of JSON, or as
 * tensors. docs/KEPT.md says what is in them.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_REPORT_EXPORT_KEPT_H
#define FB_REPORT_EXPORT_KEPT_H

#include "base/file.h"
#include "base/text.h"
#include "store/store.h"

typedef enum fb_kept_format { FB_KEPT_JSONL, FB_KEPT_SAFETENSORS } fb_kept_format;

/* Cells whose kept sets are stored, by index into results->cells, and what all of them
 * have: checked before anything is written. */
typedef struct fb_kept_cells {
    fb_store *store;
    const fb_results *results;
    int *cell; /* [n] */
    int n;
    int64_t layers, kv_heads;
} fb_kept_cells;

/* FB_NOT_FOUND if no cell has a kept set; FB_FORMAT if one is not what its cell says. */
FB_MUST_USE fb_status fb_kept_open(fb_kept_cells *out, fb_store *store,
                                   const fb_results *results);
void fb_kept_close(fb_kept_cells *cells);

/* Writes all of them; a failure to write is the writer's. */
FB_MUST_USE fb_status fb_kept_write(const fb_kept_cells *cells, fb_kept_format format,
                                    fb_writer *writer);

/* --- inside --- */

/* The sets of a cell, by layer, then kv head: layers * kv_heads of them; free with
 * fb_free. */
FB_MUST_USE fb_status fb_kept_read(const fb_kept_cells *cells, int cell,
                                   fb_store_kept **out);
/* "model": ..., "seed": 1, "n": 257: what a cell is, without brackets around it. */
void fb_kept_describe(const fb_kept_cells *cells, int cell, fb_text *out);
FB_MUST_USE fb_status fb_kept_write_tensors(const fb_kept_cells *cells,
                                            fb_writer *writer);

#endif
