/* test_two_backends.c - one engine, two backends: the same logits, kept sets and answers.
 *
 * The built-in model, a random Llama and every tiny model of tests/golden/families, on the
 * native backend and on that of device.h. Logits agree to 1e-4 of the largest. Where a rule
 * keeps other entries, the native scores of what changed places are nearly equal: the
 * margin, relative to the largest score of the layer, is printed. Answers are compared on
 * the same kept sets, word by word; two words may differ that cost the same (the built-in
 * model has many such).
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/device.h"
#include "tests/support/every_rule.h"
#include "tests/support/exchanged.h"
#include "tests/support/random_llama.h"

#include <dirent.h>

#define FAMILIES "tests/golden/families"
#define LOGITS   1e-4 /* of the largest */
#define MARGIN   1e-4 /* of the largest score of a layer */
#define NATS     1e-3
#define TIE      1e-3 /* nats between two words of which each backend says another */

enum { MOST_TOKENS = 300, PROMPT = 3, ANSWER = 4, FREE = 6, MOST_VOCABULARY = 512 };

static every_rule rules;
static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 2, 2};
static int32_t ids[MOST_TOKENS + PROMPT + ANSWER]; /* context, prompt, answer */
static char folder[TEST_PATH];

/* Both backends with one model, read. */
struct pair {
    rig native, torch;
    fb_reading *read_native, *read_torch;
    int64_t n;
    double logits, nats, tie;
    exchanged sets;
    int64_t words, ties; /* of free answers; that are others, and cost the same */
};

/* --- logits */

static double largest(const float *x, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Largest difference over `size`. */
static double apart(const float *a, const float *b, int64_t n, double size)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most / size;
}

/* Relative to the largest of a row; one where all cancel, as the built-in model has, is
 * measured by the others of its text. */
static void compare_logits(struct pair *p)
{
    const int64_t n = p->n, width = fb_model_get_facts(p->native.model)->vocabulary;
    int64_t *row = calloc((size_t)n, sizeof *row);
    float *a = malloc((size_t)(n * width) * sizeof *a);
    float *b = malloc((size_t)(n * width) * sizeof *b);

    for (int64_t i = 0; i < n; i++)
        row[i] = i;
    assert_ok(fb_logits(p->native.engine, ids, n, row, n, a));
    assert_ok(fb_logits(p->torch.engine, ids, n, row, n, b));
    for (int64_t i = 0; i < n; i++) {
        const float *x = a + i * width;
        const double size = fmax(largest(x, width), 0.1 * largest(a, n * width));

        p->logits = fmax(p->logits, apart(x, b + i * width, width, size));
    }
    free(row);
    free(a);
    free(b);
}

/* --- kept sets */

/* Scores that are dealt out anew by place: where two of what they are made of are nearly
 * equal, entries get each other's, which may be far apart. */
static bool has_places(const fb_bound_rule *rule)
{
    return strcmp(fb_bound_rule_get(rule)->name, "defensive") == 0;
}

static void compare_kept(struct pair *p, int rule, const fb_kept *a, const fb_kept *b)
{
    const exchanged_side first = {&p->native, p->read_native, a},
                         second = {&p->torch, p->read_torch, b};

    const double margin = p->sets.margin;

    exchanged_add(&p->sets, &first, &second, rule);
    if (has_places(rules.rule[rule])) p->sets.margin = margin;
}

/* --- answers */

static void ask(fb_reading *reading, fb_variant *variant, const int32_t *answer,
                int64_t n, int64_t free, fb_answer *out)
{
    const fb_question question = {ids + MOST_TOKENS, answer, PROMPT, n};
    const fb_answer_options options = {.generate = free > 0, .max_tokens = free};

    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, out));
}

/* Nats that token x costs behind said[0 .. n) on the native backend. */
static double cost_of(struct pair *p, fb_variant *a, const int32_t *said, int64_t n,
                      int32_t x)
{
    int32_t all[ANSWER + FREE];
    fb_answer out;
    double nll;

    memcpy(all, said, (size_t)n * sizeof *all);
    all[n] = x;
    ask(p->read_native, a, all, n + 1, 0, &out);
    nll = out.nll[n];
    fb_answer_clear(&out);
    return nll;
}

/* Two words behind said[0 .. n) that differ cost the same. */
static void expect_word(struct pair *p, fb_variant *a, const int32_t *said, int64_t n,
                        int32_t x, int32_t y)
{
    if (x == y) return;
    p->ties++;
    p->tie = fmax(p->tie, fabs(cost_of(p, a, said, n, x) - cost_of(p, a, said, n, y)));
}

static void compare_words(struct pair *p, fb_variant *a, const fb_answer *native,
                          const fb_answer *torch)
{
    int64_t n = 0;

    for (int64_t i = 0; i < ANSWER; i++)
        expect_word(p, a, ids + MOST_TOKENS + PROMPT, i, native->top1[i],
                    torch->top1[i]);
    while (n < native->n_ids && n < torch->n_ids && native->ids[n] == torch->ids[n])
        n++;
    p->words += n;
    if (n < native->n_ids && n < torch->n_ids)
        expect_word(p, a, native->ids, n, native->ids[n], torch->ids[n]);
    else
        assert_int_equal(native->n_ids, torch->n_ids);
}

static void compare_answers(struct pair *p, fb_variant *a, fb_variant *b)
{
    const int32_t *answer = ids + MOST_TOKENS + PROMPT;
    fb_answer native, torch;

    ask(p->read_native, a, answer, ANSWER, FREE, &native);
    ask(p->read_torch, b, answer, ANSWER, FREE, &torch);
    for (int64_t i = 0; i < ANSWER; i++) {
        p->nats = fmax(p->nats, fabs(native.nll[i] - torch.nll[i]));
        p->nats = fmax(p->nats, fabs(native.kl[i] - torch.kl[i]));
    }
    compare_words(p, a, &native, &torch);
    assert_string_equal(native.trace_answer, torch.trace_answer);
    fb_answer_clear(&native);
    fb_answer_clear(&torch);
}

static void compare_rule(struct pair *p, int rule, int64_t k)
{
    fb_variant *native, *torch, *given;
    const fb_kept *kept;

    if (fb_bound_rule_choices(rules.rule[rule])->keeps_all) {
        assert_ok(fb_keep_all(&native, p->read_native));
        assert_ok(fb_keep_all(&torch, p->read_torch));
        compare_answers(p, native, torch);
    } else {
        assert_ok(fb_evict(&native, p->read_native, rule, &protect, 0, k));
        assert_ok(fb_evict(&torch, p->read_torch, rule, &protect, 0, k));
        kept = &fb_variant_selection(native)->kept;
        compare_kept(p, rule, kept, &fb_variant_selection(torch)->kept);
        assert_ok(fb_evict_given(&given, p->read_torch, kept, fb_kept_total(kept)));
        if (fb_bound_rule_edits(rules.rule[rule]))
            assert_ok(fb_variant_edit(given, rules.rule[rule]));
        compare_answers(p, native, given);
        fb_variant_free(given);
    }
    fb_variant_free(native);
    fb_variant_free(torch);
}

/* --- a model */

static void open_pair(struct pair *p, const char *path)
{
    const fb_ops_options options = {.device = test_device(), .threads = 2};
    const fb_model_facts *facts;

    rig_open(&p->native, path, &(fb_ops_options){.device = "cpu", .threads = 2}, NULL);
    rig_open(&p->torch, path, &options, NULL);
    assert_string_equal(fb_ops_backend(p->torch.ops), "torch");
    facts = fb_model_get_facts(p->native.model);
    p->n = strcmp(path, "builtin") == 0 ? MOST_TOKENS : 96;
    if (p->n > facts->longest - PROMPT - ANSWER - FREE)
        p->n = facts->longest - PROMPT - ANSWER - FREE;
    assert_true(p->n > 4);
    for (int64_t i = 0; i < MOST_TOKENS + PROMPT + ANSWER; i++)
        ids[i] = (int32_t)(fb_philox_f32(7, 0, 0, 0, (uint64_t)i, 0) *
                           (float)facts->vocabulary);
    if (strcmp(path, "builtin") == 0) rig_text(ids, MOST_TOKENS + PROMPT + ANSWER, 8);
}

static void read_both(struct pair *p)
{
    const fb_question question = {ids + MOST_TOKENS, ids + MOST_TOKENS + PROMPT, PROMPT,
                                  ANSWER};

    assert_ok(fb_read(&p->read_native, p->native.engine, ids, p->n, rules.seeded,
                      rules.n, 3));
    assert_ok(
        fb_read(&p->read_torch, p->torch.engine, ids, p->n, rules.seeded, rules.n, 3));
    assert_string_equal(fb_reading_trace(p->read_native),
                        fb_reading_trace(p->read_torch));
    assert_ok(fb_foresee_document(p->read_native, &question, 1));
    assert_ok(fb_foresee(p->read_native, &question));
    assert_ok(fb_foresee_document(p->read_torch, &question, 1));
    assert_ok(fb_foresee(p->read_torch, &question));
}

/* Some rules read the context again behind itself: not where each layer has a window alone. */
static bool has_room_behind(const struct pair *p)
{
    const fb_model_facts *facts = fb_model_get_facts(p->native.model);

    return facts->window == 0 || facts->sliding_layers > 0;
}

static void close_pair(struct pair *p)
{
    fb_reading_free(p->read_native);
    fb_reading_free(p->read_torch);
    rig_close(&p->native);
    rig_close(&p->torch);
}

static void compare_model(const char *path)
{
    struct pair p = {.sets.sink = protect.sink};

    open_pair(&p, path);
    compare_logits(&p);
    assert_true(p.logits <= LOGITS);
    if (!has_room_behind(&p)) {
        close_pair(&p);
        return;
    }
    read_both(&p);
    for (int rule = 0; rule < rules.n; rule++)
        for (int64_t part = long_or_short(2, 3); part <= 3; part++)
            compare_rule(&p, rule, p.n / part);
    print_message("%-40s %3d tokens: logits %.1e, answers %.1e nats; %d of %d entries "
                  "changed places, margin %.1e; %d words, %d ties, margin %.1e nats\n",
                  path, (int)p.n, p.logits, p.nats, (int)p.sets.moved, (int)p.sets.kept,
                  p.sets.margin, (int)p.words, (int)p.ties, p.tie);
    assert_true(p.sets.margin <= MARGIN);
    assert_true(p.nats <= NATS);
    assert_true(p.tie <= TIE);
    close_pair(&p);
}

static void the_builtin_model_is_the_same(void **state)
{
    (void)state;
    compare_model("builtin");
}

static void a_random_model_is_the_same(void **state)
{
    const char *path = test_path(folder, "random.gguf");

    (void)state;
    random_llama(path, RANDOM_NO_END);
    compare_model(path);
}

static void every_family_is_the_same(void **state)
{
    DIR *all = opendir(FAMILIES);
    const struct dirent *entry;
    char path[TEST_PATH];
    int n = 0;

    (void)state;
    assert_non_null(all);
    while ((entry = readdir(all)) != NULL) {
        (void)snprintf(path, sizeof path, FAMILIES "/%.200s/config.json",
                       entry->d_name);
        if (entry->d_name[0] == '.' || access(path, R_OK) != 0) continue;
        (void)snprintf(path, sizeof path, FAMILIES "/%.200s", entry->d_name);
        compare_model(path);
        n++;
    }
    assert_int_equal(closedir(all), 0);
    assert_true(n >= 14);
}

static int open_all(void **state)
{
    (void)state;
    test_folder(folder);
    every_rule_open(&rules);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    every_rule_close(&rules);
    test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_builtin_model_is_the_same),
        cmocka_unit_test(a_random_model_is_the_same),
        cmocka_unit_test(every_family_is_the_same),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
