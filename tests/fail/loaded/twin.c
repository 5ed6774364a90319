/* twin.c - the formula of rules/knorm.c under another name, in a file of its own.
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

enum { CHANNELS = 2 };

static void choose(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_KEYS;
}

static fb_tensor score(fb_ops *ops, const fb_signals *see, const void *params)
{
    const fb_tensor square = fb_mul(ops, see->keys, see->keys);

    (void)params;
    return fb_scale(ops, fb_sqrt(ops, fb_sum(ops, square, CHANNELS)), -1);
}

static const fb_rule twin = {FB_RULE_HEAD,
                             .name = "twin",
                             .summary = "knorm by another name",
                             .family = "key",
                             .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
                             .choose = choose,
                             .score = score};

FB_EXPORT_RULES(&twin);
