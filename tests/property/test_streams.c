/* test_streams.c - texts that come in under a budget: invariants 8, 16 and 29.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/support/rig.h"
#include "tests/support/small_rules.h"

enum { MOST = 96, LAYERS = 2, HEADS = 2, SLOTS = LAYERS * HEADS, ENTRY = 2 * 32 * 4 };

static rig the;
static int32_t ids[MOST];
static fb_reading *reading; /* of the case at work, without rules */
static uint64_t document;   /* its name to random numbers */

/* What one stream may hold, and what there was before it: entries and state together. */
static struct {
    size_t before, most;
    int64_t steps;
    bool is_on;
} bound;
static int64_t n_cells, n_steps; /* streamed and checked */

static size_t bytes_now(void)
{
    return fb_memory_now(FB_ACCOUNT_kv) + fb_memory_now(FB_ACCOUNT_rule_state);
}

/* fb_watch: after every operation on a layer of every piece of text. */
static void check_step(void *self, fb_ops *ops, const char *what, int64_t layer,
                       int64_t first_row, fb_tensor a)
{
    (void)self;
    (void)ops;
    (void)what;
    (void)layer;
    (void)first_row;
    (void)a;
    if (!bound.is_on) return;
    holds(bytes_now() - bound.before <= bound.most);
    bound.steps++;
}

static void begin_steps(size_t most)
{
    fb_memory_reset_peaks();
    bound.before = bytes_now();
    bound.most = most;
    bound.steps = 0;
    bound.is_on = true;
}

static void end_steps(void)
{
    bound.is_on = false;
    holds(bound.steps > 0);
    holds(fb_memory_peak(FB_ACCOUNT_kv) + fb_memory_peak(FB_ACCOUNT_rule_state) -
              bound.before <=
          bound.most);
    n_steps += bound.steps;
    n_cells++;
}

static int open_all(void **state)
{
    (void)state;
    rig_open(&the, "builtin", &(fb_ops_options){.threads = 1},
             &(fb_engine_options){.watch = check_step});
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    rig_close(&the);
    return 0;
}

static void read_text(numbers *r, int64_t n)
{
    rig_text(ids, n, number_bits(r));
    document = number_bits(r);
    assert_ok(fb_read(&reading, the.engine, ids, n, NULL, 0, document));
}

/* --- 29 --- */

/* From token to token nothing is held of what a rule was shown. */
static fb_status look(void *self, const fb_growth *growth)
{
    const size_t *signals = self;

    (void)growth;
    holds(fb_memory_now(FB_ACCOUNT_signals) == *signals);
    return FB_OK;
}

/* Question and answer go on under the budget. */
static void check_answer(fb_variant *variant, int64_t entries)
{
    static const int32_t prompt[] = {2, 9, 5, 7}, words[] = {7, 11, 6, 9, 12};
    const fb_question question = {prompt, words, 4, 5};
    const size_t before = bytes_now();
    size_t signals = fb_memory_now(FB_ACCOUNT_signals);
    const fb_answer_options options = {
        .generate = true, .max_tokens = 9, .watch = look, .self = &signals};
    fb_answer answer;

    assert_ok(fb_meet(reading, &question));
    assert_ok(fb_answer_group(reading, &variant, 1, &question, &options, &answer));
    holds(answer.highest <= entries);
    holds(fb_kept_total(&answer.held.kept) <= SLOTS * entries);
    holds(bytes_now() == before); /* both passes work in copies, beside the budget */
    fb_answer_clear(&answer);
}

static void check_peak(const fb_bound_rule *rule, numbers *r, int64_t n, int64_t k,
                       int64_t chunk)
{
    const fb_seeded_rule seeded = {rule, number_bits(r)};
    const fb_protect protect = small_protect(r, k);
    const fb_model_facts *facts = fb_model_get_facts(the.model);
    const bool keeps = !fb_bound_rule_chooses(rule) && number_int(r, 0, 1) == 1;
    const int64_t entries = fb_stream_entries(facts, FB_F32, rule, k, keeps);
    const int64_t interval = number_int(r, 0, 1) * chunk;
    const size_t before = bytes_now(), budget = SLOTS * ENTRY;
    fb_variant *variant;
    const fb_kept *kept;

    if (entries <= chunk) return; /* refused */
    begin_steps(budget * (size_t)k);
    assert_ok(fb_stream_in(&variant, reading, &seeded, ids, &protect,
                           &(fb_pace){.k = entries,
                                      .chunk = chunk,
                                      .interval = interval,
                                      .pays_state = true,
                                      .keeps_scores = keeps}));
    end_steps();
    holds(fb_variant_bytes(variant) <= budget * (size_t)k);
    holds(fb_variant_bytes(variant) ==
          budget * (size_t)entries + fb_variant_state_bytes(variant));
    holds(fb_variant_highest(variant) <= entries);
    if (interval > 0) check_answer(variant, entries);
    kept = &fb_variant_selection(variant)->kept;
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        holds(kept->count[slot] >= 1 && kept->count[slot] <= entries);
        holds(kept->position[slot][kept->count[slot] - 1] == n - 1);
        for (int64_t i = 1; i < kept->count[slot]; i++)
            holds(kept->position[slot][i] > kept->position[slot][i - 1]);
    }
    fb_variant_free(variant);
    holds(bytes_now() == before);
}

static void check_all_peaks(numbers *r)
{
    const int64_t n = number_int(r, 24, MOST), k = number_int(r, 16, n - 1);
    const int64_t chunk = number_int(r, 1, k / 2);

    read_text(r, n);
    for (int i = 0; i < fb_rule_count(); i++) {
        fb_bound_rule *rule = small_bind(fb_rule_at(i), r);

        if (small_evicts(rule) && fb_bound_rule_streams(rule))
            check_peak(rule, r, n, k, chunk);
        fb_bound_rule_free(rule);
    }
    fb_reading_free(reading);
}

static void no_stream_ever_holds_more_than_its_bytes(void **state)
{
    (void)state;
    try_cases(30, check_all_peaks);
    print_message("%lld streamed cells, within their bytes at each of %lld steps\n",
                  (long long)n_cells, (long long)n_steps);
}

/* --- 8: every entry carries its own place, and how many blocks have seen it --- */

enum { BLOCKS, PLACE, ROWS };

static int64_t n_events;

static void choose_state(const void *params, fb_choices *choices)
{
    (void)params;
    choices->reads = FB_READS_POSITION | FB_READS_RANDOM;
    choices->state_rows = ROWS;
}

/* What the entries carry, 0 where they are new: the place is that of the entry. */
static void check_state(fb_ops *ops, const fb_signals *see)
{
    static float carried[HEADS * ROWS * MOST], place[HEADS * MOST];

    holds(fb_size(ops, see->state, 0) == HEADS && fb_size(ops, see->state, 1) == ROWS);
    holds(fb_size(ops, see->state, 2) == see->m);
    assert_ok(fb_to_host(ops, see->state, carried,
                         (size_t)(HEADS * ROWS * see->m) * sizeof *carried));
    assert_ok(fb_to_host(ops, see->position, place,
                         (size_t)(HEADS * see->m) * sizeof *place));
    for (int64_t i = 0; i < HEADS * see->m; i++) {
        const float *own = carried + i / see->m * ROWS * see->m + i % see->m;

        holds((own[PLACE * see->m] > 0) == (own[BLOCKS * see->m] > 0));
        if (own[PLACE * see->m] > 0) holds(own[PLACE * see->m] == place[i] + 1);
    }
}

static fb_tensor carry(fb_ops *ops, const fb_signals *see, const void *params)
{
    const int64_t row[] = {HEADS, 1, see->m};
    const fb_tensor one = fb_full(ops, 1, (int64_t[]){1}, 1);
    const fb_tensor blocks = fb_narrow(ops, see->state, 1, BLOCKS, 1);
    const fb_tensor old = fb_narrow(ops, see->state, 1, PLACE, 1);
    const fb_tensor here = fb_add(ops, fb_reshape(ops, see->position, 3, row), one, 1);

    (void)params;
    check_state(ops, see);
    return fb_cat(ops, fb_add(ops, blocks, one, 1), fb_where(ops, old, old, here), 1);
}

static fb_tensor lot(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    check_state(ops, see);
    n_events++;
    return fb_scale(ops, see->random, 1);
}

static const fb_rule carrying = {FB_RULE_HEAD,
                                 .name = "carrying",
                                 .summary = "carries its place and draws lots",
                                 .family = "random",
                                 .source = "test",
                                 .runs = FB_RUNS_ONE_SHOT | FB_RUNS_STREAMING,
                                 .choose = choose_state,
                                 .update = carry,
                                 .score = lot};

static void check_carried(numbers *r)
{
    const int64_t n = number_int(r, 10, MOST), k = number_int(r, 4, n - 1);
    const fb_protect protect = small_protect(r, k);
    fb_seeded_rule seeded = {.seed = number_bits(r)};
    fb_bound_rule *rule;
    fb_variant *variant;

    read_text(r, n);
    assert_ok(fb_rule_bind(&rule, &carrying));
    seeded.rule = rule;
    of_rule("carrying");
    n_events = 0;
    assert_ok(fb_stream_in(&variant, reading, &seeded, ids, &protect,
                           &(fb_pace){.k = k, .chunk = number_int(r, 1, k - 1)}));
    holds(n_events >= LAYERS);
    fb_variant_free(variant);
    fb_bound_rule_free(rule);
    fb_reading_free(reading);
}

static void what_an_entry_carries_stays_with_it_and_unchanged(void **state)
{
    (void)state;
    try_cases(60, check_carried);
}

/* --- 16 --- */

enum { MOST_ROWS = 2 };

typedef float states[LAYERS][HEADS * MOST_ROWS * MOST];
static states seen;

/* Shows the state; a score of as many planes as it has rows, or of the first row. */
static fb_tensor remember(fb_ops *ops, const fb_signals *see, bool all)
{
    const int64_t rows = fb_size(ops, see->state, 1), n = HEADS * rows * see->m;
    const fb_tensor score = all ? see->state : fb_narrow(ops, see->state, 1, 0, 1);

    assert_ok(
        fb_to_host(ops, see->state, seen[see->layer], (size_t)n * sizeof seen[0][0]));
    return fb_reshape(ops, score, 2, (int64_t[]){all ? HEADS * rows : HEADS, see->m});
}

static fb_tensor remember_row(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return remember(ops, see, false);
}

static fb_tensor remember_planes(fb_ops *ops, const fb_signals *see, const void *params)
{
    (void)params;
    return remember(ops, see, true);
}

/* The only eviction of the stream comes before its last chunk, when all that was read
 * is there. */
static void check_sums(numbers *r, const char *name)
{
    const int64_t chunk = number_int(r, 1, 20), blocks = number_int(r, 2, 3);
    const int64_t m = chunk * blocks, n = m + number_int(r, 1, chunk);
    static states carried;
    fb_rule copy = *fb_rule_find(name);
    int64_t rows;
    fb_seeded_rule seeded = {.seed = 1};
    fb_bound_rule *rule;
    fb_reading *once;
    fb_variant *variant;

    copy.score = copy.select != NULL ? remember_planes : remember_row;
    assert_ok(fb_rule_bind(&rule, &copy));
    rows = fb_bound_rule_choices(rule)->state_rows;
    assert_in_range(rows, 1, MOST_ROWS);
    seeded.rule = rule;
    of_rule(name);
    read_text(r, n);
    assert_ok(fb_stream_in(&variant, reading, &seeded, ids, &(fb_protect){0},
                           &(fb_pace){.k = n - 1, .chunk = chunk}));
    memcpy(carried, seen, sizeof seen);
    assert_ok(fb_read(&once, the.engine, ids, m, &seeded, 1, document));
    for (int64_t l = 0; l < LAYERS; l++)
        for (int64_t i = 0; i < HEADS * rows * m; i++)
            holds(is_close((double)carried[l][i], (double)seen[l][i], 1e-5));
    fb_reading_free(once);
    fb_variant_free(variant);
    fb_bound_rule_free(rule);
    fb_reading_free(reading);
}

static void check_all_sums(numbers *r)
{
    static const char *const names[] = {"h2o",  "observed_attention", "a2sf",
                                        "roco", "scissorhands",       "keyformer",
                                        "raas", "lazyeviction"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_sums(r, names[i]);
}

static void what_many_blocks_leave_is_what_one_pass_leaves(void **state)
{
    (void)state;
    try_cases(20, check_all_sums);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stream_ever_holds_more_than_its_bytes),
        cmocka_unit_test(what_an_entry_carries_stays_with_it_and_unchanged),
        cmocka_unit_test(what_many_blocks_leave_is_what_one_pass_leaves),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
