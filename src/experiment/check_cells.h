/* check_cells.h - whether the cells of a file still say what was stored.
 *
 * Each cell's digest is computed again from its rows. What the digest holds is stored but
 * for the ids of a free answer where prompts are not (store.prompts: off): such a cell is
 * believed. The text of an answer is not part of the digest, its ids are.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_EXPERIMENT_CHECK_CELLS_H
#define FB_EXPERIMENT_CHECK_CELLS_H

#include "store/store.h"

/* A score that every cell of its task has is not there: the cell is to be made again. */
bool fb_cell_is_incomplete(const fb_results *results, const fb_result_cell *cell);

/* FB_IO with their number and the first of them if finished cells, or the text of the
 * experiment, are not those that were stored. Incomplete cells count where `strict`. */
FB_MUST_USE fb_status fb_cells_check(const fb_results *results, const char *path,
                                     bool strict);

#endif
