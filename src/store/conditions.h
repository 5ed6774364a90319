/* conditions.h - the conditions of the closed class by the names under which certificates
 * hold them, once: experiment/rulebook.c decides, the page shows, docs/RULEBOOK.md explains.
 *
 *     X(name, sentence)
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef FB_STORE_CONDITIONS_H
#define FB_STORE_CONDITIONS_H

/* clang-format off */
#define FB_CONDITION_LIST(X)                                                                    \
    X(kernel, "In every sample all rules made the same calls of model and attention.")          \
    X(start, "All rules of a sample began with the same keys and values.")                      \
    X(bits, "The backend promises equal bits, so anybody can run a cell again and compare.")    \
    X(protection, "The same first and last entries are protected for all rules.")               \
    X(state, "The state of rules is charged to the budget.")                                    \
    X(budget, "No cell holds more bytes than its budget.")                                      \
    X(counted, "Every operation of every rule is in the ledger.")                               \
    X(quota, "Extra work is limited by a quota of at most 5 %; a rule above it stands apart.")   \
    X(signals, "A rule that sees the question's answer is a reference, out of rankings.")       \
    X(frame, "The full cache and random choice are among the rules.")                           \
    X(whole, "Every planned cell is there; failed ones are counted in public.")
/* clang-format on */

#endif
