/* test_examples.c - a whole experiment comes out as it was measured with kvpress.
 *
 * The experiment is that of examples.h: the first 4 documents, all 16 with
 * FLEXBUDGET_TEST_LONG. What must agree:
 *
 *   lines      NLL and KL per token of the reference within 1e-2 nats (KL within 2 % of
 *              it where that is more), exact match and share of right tokens equal, in 99
 *              lines of 100: a near tie, of two tokens or at the edge of a kept set, may
 *              fall the other way. Per probe also: within 1e-3 nats in 9 lines of 10,
 *              within 0.02 in all, and one line at most with another share.
 *   random     There is no generator in common: means over documents (ours over several
 *              seeds) within three standard errors of their difference, taken from the
 *              documents' paired differences; for few documents, Student's three.
 *   verdicts   What the analysis says of the rules: pipeline.json of tests/golden/stats
 *              was computed from the stored lines with numpy, scipy and statsmodels:
 *              KL of six rules minus that of `random_protected` by document, exact sign
 *              flips, Holm over the six. Ours against the same stored baseline must be
 *              significant where theirs is, in the same direction, unless theirs is a
 *              near one: p in 0.02 to 0.10.
 *
 * SPDX-License-Identifier: MIT
 */
#include "stats/stats.h"
#include "tests/real/examples.h"

static examples the;

/* --- lines ------------------------------------------------------------------------- */

/* How far the lines of a probe were from the stored ones. */
typedef struct tally {
    int n, n_far; /* lines; with NLL or KL off by more than 1e-3 */
    double furthest;
    int n_right, n_disagree; /* with another share of right tokens; that disagree */
} tally;

static bool agrees(const score *ours, const score *stored)
{
    return fabs(ours->nll - stored->nll) <= 1e-2 &&
           fabs(ours->kl - stored->kl) <= fmax(1e-2, 0.02 * stored->kl) &&
           ours->em == stored->em &&
           fabs(ours->right - stored->right) <= 1e-6; /* six digits are stored */
}

static void show_line(int d, int p, int r, int k)
{
    const score *ours = &the.ours[d][p][r][k], *stored = &the.stored[d][p][r][k];
    const edge *near = &the.edge[d][p][r][k];

    print_message("    document %d, %s at %d %%: NLL %.4f for %.4f, KL %.4f for %.4f, "
                  "EM %g for %g, right %.3f for %.3f%s\n",
                  d, example_rules[r].name, r == 0 ? 100 : keeps[k], ours->nll,
                  stored->nll, ours->kl, stored->kl, ours->em, stored->em, ours->right,
                  stored->right, agrees(ours, stored) ? "" : ": disagrees");
    if (r != 0)
        print_message("        nearest tie: %.1e of the score, layer %d, kv head %d; "
                      "%d entries within 1e-4 of an edge\n",
                      near->distance, near->slot / KV_HEADS, near->slot % KV_HEADS,
                      near->n_near);
}

static void check_line(tally *sum, int d, int p, int r, int k)
{
    const score *ours = &the.ours[d][p][r][k], *stored = &the.stored[d][p][r][k];
    const double off = fmax(fabs(ours->nll - stored->nll), fabs(ours->kl - stored->kl));
    const bool agree = agrees(ours, stored);

    sum->n++;
    sum->n_far += off > 1e-3;
    sum->furthest = fmax(sum->furthest, off);
    sum->n_right += fabs(ours->right - stored->right) > 1e-6;
    sum->n_disagree += !agree;
    if (off > 1e-3 || !agree) show_line(d, p, r, k);
}

static void lines_are_those_measured_with_kvpress(void **state)
{
    int n = 0, n_disagree = 0;

    (void)state;
    for (int p = 0; p < N_PROBES; p++) {
        tally sum = {0};

        for (int d = 0; d < the.n_documents; d++)
            for (int r = 0; r < N_EQUAL; r++)
                for (int k = 0; k < example_keeps(r); k++)
                    check_line(&sum, d, p, r, k);
        print_message("%-16s %3d lines: %d off by more than 1e-3 nats, at most %.4f; "
                      "%d with another share of tokens right; %d disagree\n",
                      probe_names[p], sum.n, sum.n_far, sum.furthest, sum.n_right,
                      sum.n_disagree);
        assert_true(sum.n_far * 10 <= sum.n);
        assert_true(sum.furthest <= 0.02);
        assert_true(sum.n_right <= 1);
        n += sum.n;
        n_disagree += sum.n_disagree;
    }
    assert_true(n_disagree * 100 <= n);
}

/* --- random ------------------------------------------------------------------------ */

/* Three standard errors have a chance of 0.27 % under the normal distribution; few
 * documents take more of them for the same chance. */
static double most_errors(int n)
{
    return fb_t_quantile(1 - 0.0027 / 2, n - 1);
}

/* Of one number per document, ours and stored. */
static bool means_agree(const char *what, const double *ours, const double *stored)
{
    const int n = the.n_documents;
    double d[N_DOCUMENTS], error;

    for (int i = 0; i < n; i++)
        d[i] = ours[i] - stored[i];
    error = fb_sd_of(d, n) / sqrt(n);
    print_message("  %s %.4f for %.4f (%+.1f errors)", what, fb_mean_of(ours, n),
                  fb_mean_of(stored, n), fb_mean_of(d, n) / error);
    return fabs(fb_mean_of(d, n)) <= most_errors(n) * error;
}

static bool random_agrees(int p, int r, int k)
{
    double ours[2][N_DOCUMENTS], stored[2][N_DOCUMENTS];
    bool agree;

    for (int d = 0; d < the.n_documents; d++) {
        ours[0][d] = the.ours[d][p][r][k].nll;
        ours[1][d] = the.ours[d][p][r][k].kl;
        stored[0][d] = the.stored[d][p][r][k].nll;
        stored[1][d] = the.stored[d][p][r][k].kl;
    }
    print_message("%-16s %-16s %d %%:", probe_names[p], example_rules[r].name,
                  keeps[k]);
    agree = means_agree("NLL", ours[0], stored[0]);
    agree &= means_agree("KL", ours[1], stored[1]);
    print_message("%s\n", agree ? "" : "  too far");
    return agree;
}

static void random_means_are_those_of_the_stored_lines(void **state)
{
    int n_far = 0;

    (void)state;
    print_message("at most %.2f errors:\n", most_errors(the.n_documents));
    for (int p = 0; p < N_PROBES; p++)
        for (int r = N_EQUAL; r < N_RULES; r++)
            for (int k = 0; k < N_KEEPS; k++)
                n_far += !random_agrees(p, r, k);
    assert_int_equal(n_far, 0);
}

/* --- verdicts ---------------------------------------------------------------------- */

enum { MOST_COMPARED = N_EQUAL };

/* One rule against the baseline, ours or theirs. */
typedef struct verdict {
    double difference, p, p_holm;
} verdict;

static verdict our_verdict(int p, int r, int k)
{
    const int baseline = find_rule("random_protected");
    double d[N_DOCUMENTS];
    verdict out;

    for (int i = 0; i < N_DOCUMENTS; i++)
        d[i] = the.ours[i][p][r][k].kl - the.stored[i][p][baseline][k].kl;
    out.difference = fb_mean_of(d, N_DOCUMENTS);
    assert_ok(fb_sign_flip(&out.p, d, NULL, N_DOCUMENTS, N_DOCUMENTS, 0, 0));
    return out;
}

/* The same side of 0.05, or theirs is a near one. */
static bool same_side(double ours, double theirs)
{
    return (ours < 0.05) == (theirs < 0.05) || (theirs >= 0.02 && theirs <= 0.10);
}

static bool verdicts_agree(const verdict *ours, const verdict *theirs)
{
    const bool same_direction = (ours->difference < 0) == (theirs->difference < 0);

    return same_side(ours->p, theirs->p) && same_side(ours->p_holm, theirs->p_holm) &&
           (same_direction || theirs->p > 0.10);
}

/* Ours of the rules of one table, in its order. */
static int our_verdicts(verdict *out, json_t *table)
{
    const int p = find_probe(json_string_value(golden_at(table, "probe")));
    const int k = find_keep(golden_number(table, "kept"));
    json_t *rules = golden_at(table, "rules"), *rule;
    double raw[MOST_COMPARED], holm[MOST_COMPARED];
    size_t i;

    assert_in_range(json_array_size(rules), 1, MOST_COMPARED);
    json_array_foreach(rules, i, rule)
    {
        out[i] =
            our_verdict(p, find_rule(json_string_value(golden_at(rule, "rule"))), k);
        raw[i] = out[i].p;
    }
    fb_holm(raw, (int)json_array_size(rules), holm);
    for (i = 0; i < json_array_size(rules); i++)
        out[i].p_holm = holm[i];
    return (int)json_array_size(rules);
}

static int check_table(json_t *table, int *n_compared)
{
    verdict ours[MOST_COMPARED];
    const int n = our_verdicts(ours, table);
    int n_wrong = 0;

    for (int i = 0; i < n; i++) {
        json_t *rule = json_array_get(golden_at(table, "rules"), (size_t)i);
        const verdict theirs = {golden_number(rule, "kl_minus_random_protected"),
                                golden_number(rule, "p_sign_flip_exact"),
                                golden_number(rule, "p_holm")};
        const bool agree = verdicts_agree(&ours[i], &theirs);

        print_message("%-16s %-10s %2.0f %%: KL %+.4f for %+.4f, p %.5f for %.5f, "
                      "Holm %.5f for %.5f%s\n",
                      json_string_value(golden_at(table, "probe")),
                      json_string_value(golden_at(rule, "rule")),
                      100 * golden_number(table, "kept"), ours[i].difference,
                      theirs.difference, ours[i].p, theirs.p, ours[i].p_holm,
                      theirs.p_holm, agree ? "" : "  another verdict");
        n_wrong += !agree;
    }
    *n_compared += n;
    return n_wrong;
}

static void verdicts_are_those_of_the_stored_lines(void **state)
{
    json_t *pipeline, *table;
    int n_compared = 0, n_wrong = 0;
    size_t t;

    (void)state;
    if (the.n_documents < N_DOCUMENTS)
        skip_because("verdicts take all 16 documents: make test-real LONG=1");
    pipeline = golden_load("tests/golden/stats/pipeline.json");
    json_array_foreach(golden_at(pipeline, "tables"), t, table)
    {
        n_wrong += check_table(table, &n_compared);
    }
    json_decref(pipeline);
    assert_int_equal(n_compared, N_PROBES * N_KEEPS * 6);
    assert_int_equal(n_wrong, 0);
}

static int run_all(void **state)
{
    (void)state;
    examples_open(&the, (int)long_or_short(N_DOCUMENTS, 4),
                  (int)long_or_short(MOST_SEEDS, 3));
    examples_run(&the);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    examples_close(&the);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_those_measured_with_kvpress),
        cmocka_unit_test(random_means_are_those_of_the_stored_lines),
        cmocka_unit_test(verdicts_are_those_of_the_stored_lines),
    };

    return cmocka_run_group_tests(tests, run_all, close_all);
}
