/* test_experiment_memory.c - what is stored of memory: phase by phase, each cell's own.
 *
 * SPDX-License-Identifier: MIT
 */
#include "store/store.h"
#include "tests/support/small_folder.h"

enum { MOST_CELLS = 64, ENTRY = 2 * 32 * 4, SLOTS = 2 * 2 };

#define SWEEP                                                                          \
    "name: small\nmodel: builtin\n"                                                    \
    "tasks: [{recall: {tokens: 64, pairs: 8, samples: 2}}]\n"                          \
    "rules: [full, random, h2o, knorm, 'adakv(snapkv:window=8)']\n"                    \
    "budgets: [50%, 25%]\n"
/* Each reads the context again in a way of its own. */
#define AGAIN                                                                          \
    "name: small\nmodel: builtin\n"                                                    \
    "tasks: [{recall: {tokens: 64, pairs: 8, samples: 1}}]\n"                          \
    "rules: [full, random, 'kvzip:piece=20', kvzip, kvcompose, lookahead]\n"           \
    "budgets: [50%]\n"
#define STREAM                                                                         \
    "name: small\nmodel: builtin\n"                                                    \
    "tasks: [{recall: {tokens: 64, pairs: 8, samples: 1}}]\n"                          \
    "rules: [full, random, h2o, 'snapkv:window=4']\nbudgets: [75%]\n"

static fb_run_result result;

/* Of a cell, and what it held of keys, values and state in each phase; -1: no such phase. */
typedef struct measured {
    char key[128], digest[FB_HASH_HEX];
    fb_result_cell cell;
    int64_t kv[4], state[4];
} measured;

static measured all[MOST_CELLS];
static int n_all;

static void add_peak(measured *m, const fb_store_peak *peak)
{
    static const char *const phases[] = {"context", "evict", "answer", "decode"};

    for (int p = 0; p < 4; p++) {
        if (strcmp(peak->phase, phases[p]) != 0) continue;
        if (strcmp(peak->account, "kv") == 0) m->kv[p] = peak->peak_bytes;
        if (strcmp(peak->account, "rule_state") == 0) m->state[p] = peak->peak_bytes;
        if (strcmp(peak->account, "weights") == 0) assert_true(peak->peak_bytes > 0);
    }
}

static void read_cell(fb_store *store, const fb_results *r, int i)
{
    measured *m = &all[n_all++];
    fb_store_peak *peaks;
    int n;

    *m = (measured){
        .cell = r->cells[i], .kv = {-1, -1, -1, -1}, .state = {-1, -1, -1, -1}};
    (void)snprintf(m->key, sizeof m->key, "%s %s %s", r->samples[m->cell.sample].key,
                   r->rules[m->cell.rule].label,
                   m->cell.budget < 0 ? "" : r->budgets[m->cell.budget].asked);
    (void)snprintf(m->digest, sizeof m->digest, "%s", m->cell.digest);
    assert_ok(fb_store_read_peaks(store, m->cell.id, &peaks, &n));
    assert_int_equal(n % FB_ACCOUNT_COUNT, 0);
    for (int p = 0; p < n; p++)
        add_peak(m, &peaks[p]);
    fb_free(peaks);
}

/* Runs the cells that pass and reads what was stored, to `all`. */
static void measure(const char *name, const char *text, const char *only)
{
    fb_run_options options = {.path = test_path(folder, name)};
    const fb_results *r = NULL;
    fb_filter *filter = NULL;
    fb_store *store = NULL;

    small_open(&s, text);
    if (only != NULL) assert_ok(fb_filter_parse(&filter, only));
    options.only = filter;
    assert_ok(fb_run(s.plan, s.ops, &options, &result));
    assert_int_equal(result.failed, 0);
    assert_ok(fb_store_open_read(&store, options.path));
    assert_ok(fb_store_read(store, NULL, &r));
    n_all = 0;
    for (int i = 0; i < r->n_cells; i++)
        read_cell(store, r, i);
    fb_results_free(r);
    fb_store_close(store);
    fb_filter_free(filter);
    small_close(&s);
}

static const measured *find(const measured *in, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strcmp(in[i].key, key) == 0) return &in[i];
    fail_msg("no cell '%s'", key);
    return NULL;
}

static void a_cell_holds_what_it_keeps_and_the_tail(void **state)
{
    (void)state;
    measure("a.db", SWEEP, NULL);
    assert_int_equal(n_all, 2 * (1 + 4 * 2));
    for (int i = 0; i < n_all; i++) {
        const measured *m = &all[i];
        const int64_t full = m->cell.full_entries * ENTRY;
        const bool evicts = m->cell.evicted > 0;

        assert_int_equal(m->kv[0], full);
        assert_int_equal(m->kv[1], evicts ? full + m->cell.kept_bytes : -1);
        assert_int_equal(m->kv[2], m->cell.kept_bytes + m->cell.tail_bytes);
        assert_int_equal(m->state[2], 0);
        assert_int_equal(m->cell.state_bytes, 0);
        assert_int_equal(m->cell.peak_bytes, evicts ? full + m->cell.kept_bytes : full);
    }
}

/* Masks in the sweep or arenas, many in a batch or one. */
static void compare_alone(const char *text, const char *const *only, int n_only)
{
    static measured sweep[MOST_CELLS];
    int n;

    measure("sweep.db", text, NULL);
    memcpy(sweep, all, sizeof all);
    n = n_all;
    for (int i = 0; i < n_only; i++) {
        measure((const char *[]){"0.db", "1.db", "2.db", "3.db"}[i], text, only[i]);
        assert_true(n_all > 0);
        for (int c = 0; c < n_all; c++) {
            const measured *in = find(sweep, n, all[c].key);

            assert_memory_equal(all[c].kv, in->kv, sizeof in->kv);
            assert_memory_equal(all[c].state, in->state, sizeof in->state);
            assert_string_equal(all[c].digest, in->digest);
        }
    }
}

static void a_cell_holds_as_much_alone_as_in_a_sweep(void **state)
{
    static const char *const only[] = {"rule=h2o",
                                       "rule=adakv(snapkv:window=8),budget=25%",
                                       "rule=full", "rule=knorm,budget=50%"};

    (void)state;
    compare_alone(SWEEP, only, 4);
}

static void a_rule_that_reads_again_holds_what_it_reads_itself(void **state)
{
    static const char *const only[] = {"rule=kvzip:piece=20", "rule=kvzip",
                                       "rule=kvcompose", "rule=lookahead"};

    (void)state;
    compare_alone(AGAIN, only, 4);
    measure("all.db", AGAIN, NULL);
    assert_true(find(all, n_all, "0 kvzip:piece=20 50%")->kv[0] >
                find(all, n_all, "0 random 50%")->kv[0]);
    assert_true(find(all, n_all, "0 kvzip 50%")->kv[0] >
                find(all, n_all, "0 kvcompose 50%")->kv[0]); /* says something first */
    assert_true(find(all, n_all, "0 kvcompose 50%")->kv[0] >
                find(all, n_all, "0 lookahead 50%")->kv[0]);
}

static void check_stream(const measured *m, bool pays)
{
    const int64_t budget = m->cell.budget_bytes;
    const int64_t paid = pays ? m->cell.state_bytes : 0;

    for (int p = 0; p < 3; p++) {
        if (m->kv[p] < 0) continue;
        assert_true(m->kv[p] + (pays ? m->state[p] : 0) <=
                    budget + (p == 2 ? m->cell.tail_bytes : 0));
        assert_true(m->state[p] <= m->cell.state_bytes);
    }
    assert_true(m->cell.kept_bytes <= budget);
    assert_true(m->cell.peak_bytes <= budget);
    if (m->cell.evicted == 0) return;
    assert_true(m->kv[1] > 0);
    assert_int_equal((m->cell.peak_bytes - paid) % (SLOTS * ENTRY), 0);
    assert_true(m->cell.peak_bytes - paid >= m->cell.kept_entries * ENTRY);
}

static void a_stream_holds_its_budget_with_its_state(void **state)
{
    static const char *const protocols[] = {
        "protocol: {kind: stream, chunk: 8, interval: 4, protect: {sink: 1, recent: "
        "2}}\n",
        "protocol: {kind: stream, chunk: 8, interval: 0, protect: {sink: 1, recent: "
        "2}}\n"};
    char text[1024];

    (void)state;
    for (int t = 0; t < 4; t++) {
        const bool pays = t % 2 == 0;
        int with_state = 0;

        (void)snprintf(text, sizeof text, "%s%s%s", STREAM, protocols[t / 2],
                       pays ? "" : "memory: {metadata: free}\n");
        measure((const char *[]){"0.db", "1.db", "2.db", "3.db"}[t], text, NULL);
        assert_int_equal(n_all, 4);
        for (int i = 0; i < n_all; i++) {
            check_stream(&all[i], pays);
            with_state += all[i].cell.state_bytes > 0 && all[i].state[0] > 0;
        }
        assert_int_equal(with_state, 2); /* h2o and snapkv, whoever pays */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_cell_holds_what_it_keeps_and_the_tail,
                                        open_folder, close_all),
        cmocka_unit_test_setup_teardown(a_cell_holds_as_much_alone_as_in_a_sweep,
                                        open_folder, close_all),
        cmocka_unit_test_setup_teardown(
            a_rule_that_reads_again_holds_what_it_reads_itself, open_folder, close_all),
        cmocka_unit_test_setup_teardown(a_stream_holds_its_budget_with_its_state,
                                        open_folder, close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
