/* rotation.c - turning keys and queries, for rules that look at them without or at other
 * positions.
 *
 * SPDX-License-Identifier: MIT
 */
#include "rule/rule.h"

enum { COLUMNS = 2 };

void fb_rotation(fb_ops *ops, const fb_signals *see, int64_t first, int64_t step,
                 int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    int64_t *position;
    fb_status status;

    *cosine = *sine = FB_NONE;
    if (n < 0) {
        fb_ops_refuse(ops,
                      fb_fail(FB_DEFECT, "fb_rotation: %lld positions", (long long)n));
        return;
    }
    position = fb_alloc(FB_ACCOUNT_scratch, fb_size_mul((size_t)n, sizeof *position));
    if (position == NULL) {
        fb_ops_refuse(ops, fb_fail(FB_NO_MEMORY, "no memory for positions"));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        position[i] = first + i * step;
    status =
        see->rotary == NULL
            ? fb_fail(FB_DEFECT, "a rule turns vectors, but does not read "
                                 "FB_READS_ROTATION")
            : see->rotary->tables(see->rotary->self, ops, position, n, cosine, sine);
    fb_free(position);
    if (status != FB_OK) fb_ops_refuse(ops, status);
}

/* The mean over the first dimension of x [n, c], as one row. */
static fb_tensor mean_row(fb_ops *ops, fb_tensor x)
{
    return fb_reshape(ops, fb_mean(ops, x, 0), 2, (int64_t[]){1, fb_size(ops, x, 1)});
}

void fb_mean_rotation(fb_ops *ops, const fb_signals *see, int64_t first, int64_t step,
                      int64_t n, fb_tensor *cosine, fb_tensor *sine)
{
    fb_rotation(ops, see, first, step, n, cosine, sine);
    *cosine = mean_row(ops, *cosine);
    *sine = mean_row(ops, *sine);
}

fb_tensor fb_rotate(fb_ops *ops, fb_tensor x, fb_tensor cosine, fb_tensor sine,
                    bool back)
{
    const int64_t half = fb_size(ops, cosine, -1), d = fb_size(ops, x, COLUMNS);
    const double way = back ? -1 : 1;
    const fb_tensor low = fb_narrow(ops, x, COLUMNS, 0, half);
    const fb_tensor high = fb_narrow(ops, x, COLUMNS, half, half);
    const fb_tensor first =
        fb_add(ops, fb_mul(ops, low, cosine), fb_mul(ops, high, sine), -way);
    const fb_tensor second =
        fb_add(ops, fb_mul(ops, high, cosine), fb_mul(ops, low, sine), way);
    const fb_tensor turned = fb_cat(ops, first, second, COLUMNS);

    if (2 * half == d) return turned;
    return fb_cat(ops, turned, fb_narrow(ops, x, COLUMNS, 2 * half, d - 2 * half),
                  COLUMNS);
}
