/* large.h - inside of src/base: large blocks that were freed, kept to be used again.
 *
 * A page of fresh memory costs the kernel as much as a page of keys costs the engine: the
 * arenas of a sweep are made and dropped for every document, and clearing their pages was
 * a fifth of its time. What is kept was in use before, and is given back before more is
 * asked for: the process never holds more than it once needed, but for rounding.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_BASE_LARGE_H
#define FB_BASE_LARGE_H

#include <stdbool.h>
#include <stddef.h>

/* A kept block of at least `size` bytes and at most a quarter more; NULL: there is none,
 * and kept blocks of as many bytes have been given back. `*capacity`: its bytes. */
void *fb_large_take(size_t size, size_t *capacity);
/* Keeps a block from malloc's family; false: it is to be freed. */
bool fb_large_keep(void *block, size_t capacity);

#endif
