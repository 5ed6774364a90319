/* test_builtin_paper.c - what every rule does to the built-in model, worked out on
 * paper.
 *
 * A row of a table is a claim (tests/support/claims.h). Contexts have n = 257 tokens and
 * P = 23 pairs but where stated. Why the claims hold:
 *
 *   random, recency     an entry stays with probability k/n, or (k - s)/(n - s) of those
 *                       free to go; `^` is one of them unless it is protected
 *   h2o                 attention piles up on `^` and on entries whose predecessor comes
 *                       again: filler, not pairs, which are asked about only afterwards
 *   knorm               norms are planted: unrelated, smallest on values, largest on them
 *   vnorm               `^` has the smallest value, so it goes first
 *   keydiff             keys of inert filler are alike; the entries after a pair's tokens
 *                       are the others
 *   oracle, seen        the question itself looks at `^` and at the value, at no other
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/claims.h"

enum { N = 257, P = 23 };

/* --- claims: one value token, live filler -------------------------------------------- */

static void position_and_chance_follow_their_formulas(void **state)
{
    static const struct claim claims[] = {
        CLAIM("recency", NEVER, .k = {26, 64, 128, 192}, .says = JUNK),
        CLAIM("streaming_llm:sink=1", FREE, .k = {26, 64, 128, 192},
              .is_published = true),
        CLAIM("recency", FREE, .k = {64}, .protects_bos = true),
        CLAIM("random", BOTH, .k = {26, 64, 128, 192}),
        CLAIM("random", FREE, .k = {26, 64, 128, 192}, .protects_bos = true),
        CLAIM("full", ALWAYS, .k = {26}),
    };
    const struct study study = {.title = "position and chance",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 150,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void attention_rules_miss_a_question_they_have_not_seen(void **state)
{
    /* h2o with its recents: the newest half of k, and heavy filler. */
    static const struct claim claims[] = {
        CLAIM("h2o:recent=0", NEVER, .k = {26, 64, 128, 192}, .says = BOS),
        CLAIM("h2o", NEWEST_HALF, .k = {26, 64, 128, 192}),
        CLAIM("snapkv:window=16", BELOW_FREE, .k = {64, 128, 192}),
        CLAIM("snapkv", ANY, .k = {128}),
        CLAIM("tova", ANY, .k = {64, 128}),
        CLAIM("observed_attention", ANY, .k = {64, 128}),
        CLAIM("adakv(snapkv:window=16)", ANY, .k = {64, 128}),
        CLAIM("blend(snapkv:window=16,recency)", ANY, .k = {128}),
    };
    const struct study study = {.title = "attention, the question unseen",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 100,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void attention_of_the_question_finds_the_value(void **state)
{
    static const struct claim claims[] = {
        CLAIM("oracle", NEVER, .k = {1}, .says = BOS),
        CLAIM("oracle", ALWAYS, .k = {2, 26}),
        CLAIM("@seen:1", ALWAYS, .k = {2, 26}),
        CLAIM("@seen:5", ALWAYS, .k = {8, 26}),
        CLAIM("@seen:7", ALWAYS, .k = {11, 26}),
    };
    const struct study study = {.title = "attention, the question seen",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 100,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void key_rules_without_a_hint_are_chance(void **state)
{
    static const struct claim claims[] = {
        CLAIM("knorm", FREE, .k = {26, 64, 128, 192}),
        CLAIM("keydiff", ABOVE_FREE, .k = {26, 64, 128, 192}),
        CLAIM("@vnorm", NEVER, .k = {26, 192}, .says = JUNK),
        CLAIM("@vnorm", FREE, .k = {64, 128}, .protects_bos = true),
    };
    const struct study study = {.title = "norms unrelated to the tokens",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 100,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void norms_planted_for_a_rule_make_it_perfect(void **state)
{
    static const struct claim claims[] = {
        CLAIM("knorm", GIVEN, .k = {16}, .rate = 15.0 / P),
        CLAIM("knorm", GIVEN, .k = {23}, .rate = 22.0 / P),
        CLAIM("knorm", ALWAYS, .k = {1 + P, 26, 64, 192}),
        CLAIM("@vnorm", ALWAYS, .k = {26, 192}, .protects_bos = true),
    };
    const struct study study = {.title = "norms planted for knorm",
                                .model = "builtin:good",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 100,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void norms_planted_against_a_rule_make_it_useless(void **state)
{
    static const struct claim claims[] = {
        CLAIM("knorm", NEVER, .k = {26, 128, 192, N - P}, .says = BOS),
        CLAIM("knorm", GIVEN, .k = {N - P + 1}, .rate = 1.0 / P),
        CLAIM("knorm", GIVEN, .k = {N - P + 12}, .rate = 12.0 / P),
        CLAIM("@vnorm", NEVER, .k = {26, 192}, .says = BOS, .protects_bos = true),
    };
    const struct study study = {.title = "norms planted against knorm",
                                .model = "builtin:bad",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 100,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static void without_the_sink_head_losing_bos_is_harmless(void **state)
{
    static const struct claim claims[] = {
        CLAIM("recency", SHARE, .k = {26, 64, 128}),
        CLAIM("random", SHARE, .k = {26, 64, 128}),
    };
    const struct study study = {.title = "sink head off",
                                .model = "builtin:quiet",
                                .shape = {.n = N, .pairs = P},
                                .n_sequences = 150,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

/* --- claims: inert filler ------------------------------------------------------------ */

/* Of the 24 values 14 have a key smaller than the inert filler's: 1 + 9 u^2 < 6.75. */
static void inert_filler_is_what_keydiff_drops_first(void **state)
{
    static const struct claim claims[] = {
        CLAIM("keydiff", ALWAYS, .k = {1 + 2 * P, 64, 128, 192}),
        CLAIM("knorm", GIVEN, .k = {128}, .rate = 14 / 24.0),
        CLAIM("knorm", GIVEN, .k = {192}, .rate = 14 / 24.0),
    };
    const struct study study = {.title = "inert filler",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = P, .is_inert = true},
                                .n_sequences = 150,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

static const struct claim hot_claims[] = {
    CLAIM("h2o:recent=0", ALWAYS, .k = {9, 17}),
    CLAIM("random", HOT, .k = {17, 32, 64}, .protects_bos = true),
};
static const struct claim cold_claims[] = {
    CLAIM("h2o:recent=0", NEVER, .k = {9, 17}, .says = BOS),
    CLAIM("random", FREE, .k = {17, 32, 64}, .protects_bos = true),
};

static void accumulated_attention_keeps_what_was_looked_at_before(void **state)
{
    const recall_shape shape = {.n = N, .pairs = 15, .hot = 4, .is_inert = true};
    const struct study hot = {.title =
                                  "4 pairs stand three times; one of them is asked",
                              .model = "builtin",
                              .shape = shape,
                              .first_asked = 0,
                              .n_asked = 4,
                              .n_sequences = 150,
                              CLAIMS(hot_claims)};
    const struct study cold = {.title = "4 pairs stand three times; another is asked",
                               .model = "builtin",
                               .shape = shape,
                               .first_asked = 4,
                               .n_asked = 11,
                               .n_sequences = 150,
                               CLAIMS(cold_claims)};

    (void)state;
    run_study(&hot);
    run_study(&cold);
}

/* --- claims: values of four tokens ---------------------------------------------------- */

/* Chance must keep each token; a window that saw the question gets (kernel + 1)/2 of
 * them by pooling. */
static void longer_answers_are_harder(void **state)
{
    static const struct claim claims[] = {
        CLAIM("random", FREE, .k = {129, 193}, .protects_bos = true),
        CLAIM("@seen:1", ALWAYS, .k = {2}, .upto = 1),
        CLAIM("@seen:5", ALWAYS, .k = {3 + 5}, .upto = 3),
        CLAIM("@seen:7", ALWAYS, .k = {4 + 7}, .upto = 4),
    };
    const struct study study = {.title = "values of four tokens",
                                .model = "builtin",
                                .shape = {.n = N, .pairs = 6, .values = 4},
                                .n_sequences = 150,
                                CLAIMS(claims)};

    (void)state;
    run_study(&study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(position_and_chance_follow_their_formulas),
        cmocka_unit_test(attention_rules_miss_a_question_they_have_not_seen),
        cmocka_unit_test(attention_of_the_question_finds_the_value),
        cmocka_unit_test(key_rules_without_a_hint_are_chance),
        cmocka_unit_test(norms_planted_for_a_rule_make_it_perfect),
        cmocka_unit_test(norms_planted_against_a_rule_make_it_useless),
        cmocka_unit_test(without_the_sink_head_losing_bos_is_harmless),
        cmocka_unit_test(inert_filler_is_what_keydiff_drops_first),
        cmocka_unit_test(accumulated_attention_keeps_what_was_looked_at_before),
        cmocka_unit_test(longer_answers_are_harder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
