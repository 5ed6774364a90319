/* claims.h - claims about rules on the built-in model, run over many sequences.
 *
 * A claim says of a rule, under a protection, with k of n entries in every head: right
 * always, never (and then this token is said), or with this probability. Always and
 * never are asserted of every sequence, a probability within four standard errors.
 *
 * Whatever the claim, each sequence is also asserted by its own kept set: with the value
 * token's entry in layer 2, kv head 0, and `^` in layer 2, kv head 1, the answer is
 * right; and if `^` is in kv head 0 as well (else the model guesses), only then.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_CLAIMS_H
#define TESTS_SUPPORT_CLAIMS_H

#include "tests/support/recall_rules.h"

#include <math.h>

#ifdef FB_CHECKED
enum {
    ONE_IN = 5
}; /* of a study's sequences: checked builds are twenty times slower */
#else
enum { ONE_IN = 1 };
#endif

enum { CLAIM_MOST_K = 8, MOST_TRIALS = 64, MOST_RULES = 24 };

enum expect {
    ALWAYS,      /* all the tokens of `upto` (1 if 0), and never one more */
    NEVER,       /* the first token is `says` */
    FREE,        /* (k - 1)/(n - 1) per token: `^` is protected, the rest free to go */
    SHARE,       /* k/n: every entry is free to go, losing `^` is harmless */
    BOTH,        /* (k/n)^2: the value's entry and `^` must stay */
    NEWEST_HALF, /* floor(k/2)/(n-1): the newest half of what stays */
    HOT,         /* 1 - (1 - FREE)^3: any of three copies will do */
    GIVEN,       /* `rate` */
    ABOVE_FREE,  /* more often than FREE, by no formula */
    BELOW_FREE,
    ANY, /* only what holds for every rule */
};

/* A rule under a protection, and what it does at each k. */
struct claim {
    const char *rule;
    enum expect expect;
    int64_t k[CLAIM_MOST_K]; /* entries per head; 0 ends the list */
    double rate;
    int says, upto;
    bool protects_bos; /* `protect: 1+0`; else nothing */
    bool is_published; /* `protect: published` */
};

#define CLAIM(of, what, ...)                                                           \
    {                                                                                  \
        .rule = of, .expect = what, __VA_ARGS__                                        \
    }

/* Sequences of one kind on one model, and what is claimed of them. */
struct study {
    const char *title, *model;
    recall_shape shape;
    int first_asked, n_asked; /* pairs that may be asked; 0: any */
    int n_sequences;
    const struct claim *claims;
    int n_claims;
};

#define CLAIMS(list) .claims = list, .n_claims = sizeof list / sizeof *list

/* --- running ----------------------------------------------------------------------- */

/* One k of one claim. */
struct trial {
    const struct claim *claim;
    int64_t k;
    int rule;
    int n_right[RECALL_MOST_VALUES]; /* sequences with so many tokens right */
};

/* A study at work. */
struct work {
    const struct study *study;
    rig rig;
    fb_bound_rule *rule[MOST_RULES];
    const char *text[MOST_RULES];
    int n_rules;
    struct trial trial[MOST_TRIALS];
    int n_trials;
};

static inline int find_rule(struct work *w, const char *text)
{
    for (int i = 0; i < w->n_rules; i++)
        if (strcmp(w->text[i], text) == 0) return i;
    assert_true(w->n_rules < MOST_RULES);
    w->text[w->n_rules] = text;
    w->rule[w->n_rules] = recall_rule(text);
    return w->n_rules++;
}

static inline void open_work(struct work *w, const struct study *study)
{
    *w = (struct work){.study = study};
    recall_open(&w->rig, study->model);
    for (int c = 0; c < study->n_claims; c++)
        for (int i = 0; i < CLAIM_MOST_K && study->claims[c].k[i] > 0; i++) {
            assert_true(w->n_trials < MOST_TRIALS);
            w->trial[w->n_trials++] =
                (struct trial){.claim = &study->claims[c],
                               .k = study->claims[c].k[i],
                               .rule = find_rule(w, study->claims[c].rule)};
        }
}

static inline void close_work(struct work *w)
{
    for (int i = 0; i < w->n_rules; i++)
        fb_bound_rule_free(w->rule[i]);
    rig_close(&w->rig);
}

/* The rules that may look ahead see the rows of `? key`, and of no answer. */
static inline fb_reading *read_sequence(const struct work *w, const recall *r,
                                        uint64_t index)
{
    const fb_question seen = {
        .prompt = r->prompt, .n_prompt = 1, .answer = r->prompt + 1, .n_answer = 1};
    fb_seeded_rule rules[MOST_RULES];
    fb_reading *out;

    for (int i = 0; i < w->n_rules; i++)
        rules[i] = (fb_seeded_rule){.rule = w->rule[i], .seed = 7};
    assert_ok(
        fb_read(&out, w->rig.engine, r->ids, r->shape.n, rules, w->n_rules, index));
    assert_ok(fb_foresee(out, &seen));
    return out;
}

static inline fb_variant *evict(const struct trial *trial, const fb_bound_rule *rule,
                                fb_reading *reading)
{
    const struct claim *claim = trial->claim;
    const fb_protect protect = {.kind = claim->is_published   ? FB_PROTECT_PUBLISHED
                                        : claim->protects_bos ? FB_PROTECT_EXPERIMENT
                                                              : FB_PROTECT_NONE,
                                .sink = 1};
    fb_variant *out;

    if (fb_bound_rule_choices(rule)->keeps_all)
        assert_ok(fb_keep_all(&out, reading));
    else
        assert_ok(fb_evict(&out, reading, trial->rule, &protect, 0, trial->k));
    return out;
}

/* What holds for every rule, read off the kept set. */
static inline void check_kept(const struct work *w, const recall *r,
                              const fb_kept *kept, const fb_answer *answer)
{
    const bool is_quiet = strcmp(w->study->model, "builtin:quiet") == 0;
    const bool has_sink = is_quiet || kept_has(kept, SLOT_SINK, BOS);
    const bool guesses = !kept_has(kept, SLOT_INDUCTION, BOS);
    const int right = recall_n_right(r, answer);

    for (int t = 1; t <= r->shape.values; t++) {
        const bool predicted = has_sink && recall_is_kept(r, kept, t);

        if (predicted) assert_true(right >= t);
        if (right >= t && !guesses) assert_true(predicted);
    }
}

/* Where layer 1 lost its newest entry, `?` may take another token for its predecessor,
 * the asked key among them, and then be recalled itself: wrong, but not as claimed. */
static inline void check_claim(const struct claim *claim, const recall *r,
                               const fb_kept *kept, const fb_answer *answer)
{
    const int upto = claim->upto == 0 ? 1 : claim->upto;
    const int right = recall_n_right(r, answer);
    const bool is_clear = r->at[recall_block(r)] > 8; /* of what pooling adds to `^` */

    if (claim->expect == ALWAYS) assert_true(right >= upto);
    if (claim->expect == ALWAYS && is_clear) assert_int_equal(right, upto);
    if (claim->expect != NEVER) return;
    assert_int_equal(right, 0);
    if (answer->top1[0] == ASK && !kept_has(kept, SLOT_PREVIOUS, r->shape.n - 1))
        return;
    assert_int_equal(answer->top1[0], claim->says);
}

static inline void add(struct work *w, struct trial *trial, const recall *r,
                       const fb_variant *variant, const fb_answer *answer)
{
    const fb_selection *selection = fb_variant_selection(variant);

    if (selection != NULL) {
        check_kept(w, r, &selection->kept, answer);
        check_claim(trial->claim, r, &selection->kept, answer);
    }
    for (int t = 0; t < recall_n_right(r, answer); t++)
        trial->n_right[t]++;
}

/* Adds one sequence's answers to the trials. */
static inline void run_sequence(struct work *w, const recall *r, uint64_t index)
{
    const fb_answer_options options = {.generate = false};
    const fb_question question = recall_question(r);
    fb_reading *reading = read_sequence(w, r, index);
    fb_variant *variant[MOST_TRIALS];
    fb_answer answer[MOST_TRIALS];

    for (int i = 0; i < w->n_trials; i++)
        variant[i] = evict(&w->trial[i], w->rule[w->trial[i].rule], reading);
    assert_ok(
        fb_answer_group(reading, variant, w->n_trials, &question, &options, answer));
    for (int i = 0; i < w->n_trials; i++) {
        add(w, &w->trial[i], r, variant[i], &answer[i]);
        fb_answer_clear(&answer[i]);
        fb_variant_free(variant[i]);
    }
    fb_reading_free(reading);
}

/* --- judging ----------------------------------------------------------------------- */

/* Probability that the first t tokens are right; -1: no claim. */
static inline double predicted(const struct trial *trial, int64_t n, int t)
{
    const struct claim *claim = trial->claim;
    const double kept = (double)trial->k / (double)n;
    const double free_kept = (double)(trial->k - 1) / (double)(n - 1);

    switch (claim->expect) {
    case ALWAYS:
        return t <= (claim->upto == 0 ? 1 : claim->upto) ? 1 : 0;
    case NEVER:
        return 0;
    case FREE:
        return pow(free_kept, t);
    case SHARE:
        return kept;
    case BOTH:
        return kept * kept;
    case NEWEST_HALF:
        return (double)(trial->k / 2) / (double)(n - 1);
    case HOT:
        return 1 - pow(1 - free_kept, 3);
    case GIVEN:
        return claim->rate;
    default:
        return -1;
    }
}

static inline void judge(const struct trial *trial, int64_t n, int n_sequences, int t)
{
    const struct claim *claim = trial->claim;
    const double p = predicted(trial, n, t);
    const double rate = (double)trial->n_right[t - 1] / n_sequences;
    const double floor = (double)(trial->k - 1) / (double)(n - 1);
    const double error = sqrt(p * (1 - p) / n_sequences);

    print_message("  %-30s %-10s k %3lld, %d token%s: ", claim->rule,
                  claim->is_published   ? "published"
                  : claim->protects_bos ? "first 1"
                                        : "",
                  (long long)trial->k, t, t == 1 ? " " : "s");
    if (p >= 0)
        print_message("predicted %5.1f, measured %5.1f\n", 100 * p, 100 * rate);
    else
        print_message("measured %5.1f, free %5.1f\n", 100 * rate, 100 * floor);
    if (p >= 0) assert_true(fabs(rate - p) <= 4 * error);
    if (claim->expect == ABOVE_FREE) assert_true(rate > floor);
    if (claim->expect == BELOW_FREE) assert_true(rate < floor);
}

static inline void run_study(const struct study *study)
{
    const int values = study->shape.values == 0 ? 1 : study->shape.values;
    const int n_sequences = study->n_sequences / ONE_IN;
    static struct work w;
    static recall r;

    print_message("%s, %d sequences\n", study->title, n_sequences);
    open_work(&w, study);
    for (int i = 0; i < n_sequences; i++) {
        recall_make(&r, &study->shape, (uint64_t)i);
        if (study->n_asked > 0) recall_ask(&r, study->first_asked + i % study->n_asked);
        run_sequence(&w, &r, (uint64_t)i);
    }
    for (int i = 0; i < w.n_trials; i++)
        for (int t = 1; t <= values; t++)
            judge(&w.trial[i], study->shape.n, n_sequences, t);
    close_work(&w);
}

#endif
