/* run_peaks.c - what a cell took of memory, phase by phase, as the allocator counted it.
 *
 * Cells of a sweep share a process. Keys, values and rule state are each cell's own: what
 * came on top while its cache was made and while it was asked, of a batch its part. The full
 * cache that is kept for other cells is no part of them once a cell has been evicted: a
 * deployment gives it back then, and so does the run where no other cell is to come. Nor is
 * what a rule reads after the context in the same reading part of a cell whose rule does not
 * look at it. All else (weights, signals, temporary tensors) is what was there for all of them together.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/number.h"
#include "experiment/run_inside.h"

static bool is_own(int account)
{
    return account == FB_ACCOUNT_kv || account == FB_ACCOUNT_rule_state;
}

void fb_gauge_begin(fb_gauge *gauge, fb_runner *run)
{
    fb_run_reset_peaks(run);
    for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
        gauge->at[a] = fb_memory_now((fb_account)a);
}

void fb_gauge_read_own(const fb_gauge *gauge, fb_peaks *out)
{
    for (int p = 0; p < FB_PHASE_COUNT; p++)
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++) {
            const size_t peak = fb_memory_peak_in(p, (fb_account)a);

            out->bytes[p][a] = !is_own(a)            ? peak
                               : peak > gauge->at[a] ? peak - gauge->at[a]
                                                     : 0;
        }
}

size_t fb_gauge_kept(const fb_gauge *gauge, fb_account account)
{
    return fb_memory_now(account) - gauge->at[account];
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What the answers of the cell are read from. A mask stands for an arena of its entries. */
static size_t held(const fb_runner *run, const fb_outcome *outcome, fb_account account)
{
    const fb_variant *variant = outcome->variant;

    if (account != FB_ACCOUNT_kv) return outcome->keeps[account];
    if (fb_variant_streamed(variant)) return outcome->keeps[account];
    if (fb_variant_is_alone(variant))
        return run->window_bytes + outcome->keeps[account];
    return run->window_bytes + fb_variant_bytes(variant);
}

/* Entries move from the full cache to the cell's own, unless they never were in one. */
static size_t evicting(const fb_runner *run, const fb_outcome *outcome, fb_account a)
{
    const size_t made = outcome->made->bytes[FB_PHASE_evict][a];
    const size_t asked = outcome->asked->bytes[FB_PHASE_evict][a];
    const size_t full = run->full_bytes + run->window_bytes;

    if (fb_variant_streamed(outcome->variant))
        return larger(made, asked > 0 ? outcome->keeps[a] + asked : 0);
    if (a != FB_ACCOUNT_kv) return made;
    return full + (fb_variant_is_alone(outcome->variant)
                       ? made
                       : fb_variant_bytes(outcome->variant));
}

/* The context is read for all rules of a sweep. Behind it some read on, into keys and values
 * that are no other rule's: counted by the caches they open, since the allocator has only
 * the most of all of them. */
static size_t reading(const fb_runner *run, const fb_outcome *outcome, fb_account a)
{
    const fb_entrant *entrant = fb_run_entrant(run, outcome->cell);
    const size_t pass =
        fb_reading_pass_bytes(run->reading) - run->before_read.at[FB_ACCOUNT_kv];

    if (a != FB_ACCOUNT_kv) return run->read.bytes[FB_PHASE_context][a];
    return larger(pass, run->full_bytes + run->window_bytes +
                            fb_reading_again_bytes(run->reading, entrant->index));
}

static size_t own(const fb_runner *run, const fb_outcome *outcome, int phase,
                  fb_account a)
{
    switch (phase) {
    case FB_PHASE_context:
        return fb_variant_streamed(outcome->variant) ? outcome->made->bytes[phase][a]
                                                     : reading(run, outcome, a);
    case FB_PHASE_evict:
        return evicting(run, outcome, a);
    default:
        return held(run, outcome, a) +
               outcome->asked->bytes[phase][a] / (size_t)outcome->n_asked;
    }
}

static size_t common(const fb_runner *run, const fb_outcome *outcome, int phase, int a)
{
    size_t bytes =
        larger(outcome->made->bytes[phase][a], outcome->asked->bytes[phase][a]);

    if (!fb_variant_streamed(outcome->variant) && phase <= FB_PHASE_evict)
        bytes = larger(bytes, run->read.bytes[phase][a]);
    return bytes;
}

static bool has_phase(const fb_outcome *outcome, int phase)
{
    const fb_answer *answer = outcome->answer;

    if (phase == FB_PHASE_evict && fb_variant_streamed(outcome->variant))
        return outcome->made->bytes[phase][FB_ACCOUNT_other] > 0 ||
               answer->events > 0 || answer->free_events > 0;
    if (phase == FB_PHASE_evict) return fb_variant_selection(outcome->variant) != NULL;
    return phase != FB_PHASE_decode || answer->trace_decode[0] != '\0';
}

fb_peaks fb_run_peaks(const fb_runner *run, const fb_outcome *outcome)
{
    fb_peaks out = {0};

    for (int p = 0; p < FB_PHASE_COUNT; p++) {
        out.has[p] = has_phase(outcome, p);
        for (int a = 0; a < FB_ACCOUNT_COUNT && out.has[p]; a++)
            out.bytes[p][a] = is_own(a) ? own(run, outcome, p, (fb_account)a)
                                        : common(run, outcome, p, a);
    }
    return out;
}
