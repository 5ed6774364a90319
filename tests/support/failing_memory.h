/* failing_memory.h - a tokenizer that is opened and used while memory fails, one allocation
 * later each time.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_FAILING_MEMORY_H
#define TESTS_SUPPORT_FAILING_MEMORY_H

#include "base/memory.h"
#include "tests/support/open_tokenizer.h"
#include "tests/support/test.h"

/* Each failure says that it is memory, and a failed encoding leaves no ids. The ids of the
 * last one, which does not fail, to `ids`. */
static inline fb_tokenizer *
encode_while_memory_fails(const fb_gguf *gguf, const fb_piece *piece, fb_ids *ids)
{
    fb_status status = FB_NO_MEMORY;
    fb_tokenizer *t = NULL;

    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = tokenizer_of_gguf(&t, gguf);
        fb_memory_fail_at(0);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
    }
    status = FB_NO_MEMORY;
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = fb_tokenizer_encode(t, piece, 1, ids);
        fb_memory_fail_at(0);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
        if (status != FB_OK) assert_int_equal(ids->n, 0);
    }
    return t;
}

#endif
