/* block.c - entries are chosen as if the text came in, though all of it was read at once.
 *
 * From the first k tokens on: a block of the next `size`, the rule scores what is left and
 * the block, k entries stay, and so on. Scores that depend on other entries (distances to a
 * mean, say) see what a cache under the budget would have held; attention is that of the
 * whole text, unlike under the protocol `stream`. A block of all that is behind the first k
 * tokens is the rule itself.
 *
 * The engine does it (src/engine/block.c). What the rule reads must be there once the text
 * has been read: keys, values, positions, random numbers.
 *
 * Source   kvpress BlockPress, after KeyDiff (Park et al. 2025, arXiv:2504.15364).
 *
 * SPDX-License-Identifier: MIT
 */
#include <flexbudget/rule.h>

struct block {
    int64_t size;
};

static const fb_param block_params[] = {
    FB_INT(struct block, size, 128, 1, 1 << 20, "kvpress", "tokens of a block"),
    FB_PARAM_END,
};

static void choose(const void *params, fb_choices *choices)
{
    const struct block *block = params;

    choices->block = block->size;
}

const fb_rule fb_rule_block = {
    FB_RULE_HEAD,
    .kind = FB_KIND_WRAPPER,
    .name = "block",
    .summary =
        "the rule chooses block by block, among what is left and the next tokens",
    .family = "mixed",
    .source = "kvpress BlockPress, after arXiv:2504.15364",
    .runs = FB_RUNS_ONE_SHOT,
    .n_inner = 1,
    .params = block_params,
    .params_bytes = sizeof(struct block),
    .choose = choose,
};
