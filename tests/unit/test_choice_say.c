/* test_choice_say.c - a choice in words and as JSON.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "tests/support/planted_choice.h"

/* --- words --- */

static char *print(const struct fixture *f, const fb_limits *limits,
                   const fb_choice_words *words, bool is_json)
{
    fb_choice *choice;
    char *text;

    assert_ok(fb_choose(&choice, f->analysis, limits));
    assert_ok(fb_choice_print(choice, words, is_json, &text));
    fb_choice_free(choice);
    return text;
}

static void assert_says(const char *text, const char *words)
{
    if (strstr(text, words) == NULL) fail_msg("no '%s' in:\n%s", words, text);
}

static void the_sentence_says_what_to_use_and_what_it_takes(void **state)
{
    static const fb_choice_words words = {.peer = "APress()",
                                          .peer_notes =
                                              "other entries stay\nanother note\n",
                                          .next = "go on",
                                          .n_rules = 70,
                                          .n_untested = 64};
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    char *text;

    plant(f, 1);
    limits.extra = 0.05;
    text = print(f, &limits, &words, false);
    assert_int_equal(
        strncmp(text, "Use cheap at 50 %: 95 % of the full cache's f1 (", 48), 0);
    assert_says(text,
                "; 125 KiB stay, 375 KiB while\nthey are chosen, +1.0 % FLOPs in a "
                "fused kernel. It is as good as even at 50 % and takes less.\n");
    assert_says(text, "\nas good, within the margin: even at 50 % (125 KiB)\n");
    assert_says(text, "\nnot told apart from it: unsteady at 50 % (125 KiB)");
    assert_says(text, "\nover 125 KiB: full (250 KiB)\n");
    assert_says(text, "\nover +5.0 % FLOPs: strong at 50 % (+30.0 %), strong at 20 % "
                      "(+30.0 %)\n");
    assert_says(text, "since they have seen what comes after the text: oracle\n");
    assert_says(text, "\nnot tested here: 64 of the 70 rules that there are\n");
    assert_says(text, "\nin kvpress: APress()\nother entries stay\nanother note\n");
    assert_says(text, "\nnext: go on\n");
    assert_says(text, f->analysis->signature);
    fb_free(text);
}

static double much(int rule, int document)
{
    (void)document;
    return rule == 3 ? 200 : 2; /* strong: a tenth of the pass */
}

static void a_rule_above_the_quota_of_the_experiment_is_called_so(void **state)
{
    struct fixture *f = *state;
    struct results_trial trial = points;
    fb_limits limits = resident(AT_50);
    char *text;

    trial.signals = much;
    put(f, trial);
    analyse(f);
    text = print(f, &limits, NULL, false);
    assert_says(text, "Use strong at 50 %: ");
    assert_says(text, "quota of 5 % lets it.");
    fb_free(text);
    limits.extra = 0.05;
    text = print(f, &limits, NULL, false);
    assert_says(text, "Use cheap at 50 %: ");
    assert_null(strstr(text, "quota"));
    fb_free(text);
}

static void nothing_fits_is_said_with_what_is_missing(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_20 / 2.0);
    char *text;

    plant(f, 2);
    limits.keep = 0.5;
    text = print(f, &limits, NULL, false);
    assert_says(text, "Nothing fits. Nearest is ");
    assert_says(text, "with 50.0 KiB of at most 25.0 KiB: 25.0 KiB too much.");
    assert_says(text, "\nbelow the least quality, 50 % kept: random at 50 % (");
    assert_says(text, "on needle)");
    fb_free(text);
}

static void which_task_decides_is_said(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    char *text;

    plant(f, 2);
    limits.passes = NULL;
    text = print(f, &limits, NULL, false);
    assert_says(text, " on needle (which decides)");
    assert_says(text, " on continuation");
    fb_free(text);
}

static void an_unfinished_experiment_is_called_so(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    fb_results *results;
    char *text;

    plant(f, 1);
    results = (fb_results *)(uintptr_t)f->results;
    results->planned = results->n_cells + 10;
    text = print(f, &limits, NULL, false);
    assert_says(text, "planned cells; the others are missing\n\nSo far: use strong");
    fb_free(text);
    results->planned = 0;
}

/* --- JSON --- */

static const fb_json *member(const fb_json *list, const char *rule, const char *budget)
{
    for (size_t i = 0; i < fb_json_count(list); i++) {
        const fb_json *c = fb_json_at(list, i);
        const char *own = fb_json_string(fb_json_get(c, "budget"));

        if (strcmp(fb_json_string(fb_json_get(c, "rule")), rule) == 0 && own != NULL &&
            strcmp(own, budget) == 0)
            return c;
    }
    fail_msg("no %s at %s", rule, budget);
    return NULL;
}

static void json_has_every_candidate_and_its_fate(void **state)
{
    struct fixture *f = *state;
    fb_limits limits = resident(AT_50);
    const fb_json *list;
    fb_json *root;
    double real;
    int64_t at;
    char *text;

    plant(f, 1);
    limits.extra = 0.05;
    text = print(f, &limits, NULL, true);
    assert_ok(fb_json_parse(&root, text, strlen(text)));
    list = fb_json_get(root, "candidates");
    assert_int_equal(fb_json_count(list), 1 + 6 * 2);
    assert_true(fb_json_int(fb_json_get(root, "chosen"), &at));
    assert_ptr_equal(fb_json_at(list, (size_t)at), member(list, "cheap", "50%"));
    assert_string_equal(
        fb_json_string(fb_json_get(member(list, "strong", "50%"), "fate")),
        "over a limit");
    assert_string_equal(fb_json_string(fb_json_at(
                            fb_json_get(member(list, "strong", "50%"), "over"), 0)),
                        "extra_compute");
    assert_string_equal(
        fb_json_string(fb_json_get(member(list, "oracle", "20%"), "fate")),
        "looks ahead");
    assert_true(
        fb_json_real(fb_json_get(member(list, "even", "20%"), "held_bytes"), &real));
    assert_near(real, AT_20, 0);
    assert_true(fb_json_is_null(fb_json_get(root, "nearest")));
    fb_json_free(root);
    fb_free(text);
}

/* --- memory --- */

static void every_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    fb_status status = FB_NO_MEMORY;
    const fb_limits limits = resident(AT_50);
    size_t before;
    int64_t n;

    plant(f, 1);
    before = fb_memory_now(FB_ACCOUNT_other);
    for (n = 1; status != FB_OK; n += 1 + n / 20) {
        fb_choice *choice = NULL;
        char *text = NULL;

        fb_memory_fail_at(n);
        status = fb_choose(&choice, f->analysis, &limits);
        if (status == FB_OK) status = fb_choice_print(choice, NULL, n % 2, &text);
        fb_memory_fail_at(0);
        fb_free(text);
        fb_choice_free(choice);
        assert_true(status == FB_OK || status == FB_NO_MEMORY);
        assert_int_equal(fb_memory_now(FB_ACCOUNT_other), before);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        test(the_sentence_says_what_to_use_and_what_it_takes),
        test(a_rule_above_the_quota_of_the_experiment_is_called_so),
        test(nothing_fits_is_said_with_what_is_missing),
        test(which_task_decides_is_said),
        test(an_unfinished_experiment_is_called_so),
        test(json_has_every_candidate_and_its_fate),
        test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
