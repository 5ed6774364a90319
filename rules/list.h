/* list.h - every rule, one line each, in the order of `flexbudget rules`.
 *
 * SPDX-License-Identifier: MIT
 */
FB_RULE(full)
FB_RULE(random)
FB_RULE(oracle)
FB_RULE(recency)
FB_RULE(streaming_llm)
FB_RULE(knorm)
FB_RULE(keydiff)
FB_RULE(tova)
FB_RULE(snapkv)
FB_RULE(h2o)
FB_RULE(observed_attention)
FB_RULE(adakv)
FB_RULE(blend)
