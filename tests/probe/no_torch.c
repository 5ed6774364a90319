/* no_torch.c - stands in for the second backend in a probe, which has the native one.
 *
 * SPDX-License-Identifier: MIT
 */
#include "ops/backend.h"

static fb_status none(void **self, const fb_ops_options *options)
{
    (void)options;
    *self = NULL;
    return fb_fail(FB_UNSUPPORTED, "this probe has no PyTorch");
}

const fb_backend fb_backend_torch = {.name = "torch", .open = none};
