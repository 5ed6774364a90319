/* test_embed.c - rules on somebody else's tensors, here on those of the test.
 *
 * SPDX-License-Identifier: MIT
 */
#include "embed/event.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 4, KV_HEADS = 2, D = 8, N = 300 };

static fb_guest *guest;
static float keys[LAYERS][KV_HEADS][N][D], queries[LAYERS][HEADS][N][D];

static int open_guest(void **state)
{
    uint32_t x = 1;

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof(float); i++)
        ((float *)keys)[i] = (float)((x = x * 1664525 + 1013904223) >> 8) / 8e6f - 1;
    for (size_t i = 0; i < sizeof queries / sizeof(float); i++)
        ((float *)queries)[i] = (float)((x = x * 1664525 + 1013904223) >> 8) / 8e6f - 1;
    return fb_guest_open(&guest, NULL, "cpu") == FB_OK ? 0 : -1;
}

static int close_guest(void **state)
{
    (void)state;
    fb_guest_close(guest);
    return 0;
}

static fb_event_about about(const char *rule, const char *budget)
{
    return (fb_event_about){.rule = rule,
                            .budget = budget,
                            .sink = 4,
                            .recent = 8,
                            .layers = LAYERS,
                            .heads = HEADS,
                            .kv_heads = KV_HEADS,
                            .head_dim = D,
                            .tokens = N,
                            .value_dim = D};
}

/* [heads][N][D] as it lies. */
static fb_outside plain(const float *x, int64_t heads)
{
    return (fb_outside){x, FB_F32, 0, {heads, N, D}, {(int64_t)N * D, D, 1}};
}

static fb_status give_layers(fb_event *event)
{
    for (int l = 0; l < LAYERS; l++) {
        const fb_outside q = plain(&queries[l][0][0][0], HEADS);
        const fb_outside k = plain(&keys[l][0][0][0], KV_HEADS);

        FB_TRY(fb_event_layer(event, l, &q, &k, NULL, 0.3));
    }
    return FB_OK;
}

/* The sets of `rule` on the test's tensors; `work` may be NULL. */
static fb_status keep(fb_event **out, const char *rule, const char *budget)
{
    const fb_event_about a = about(rule, budget);
    fb_event_facts facts;
    fb_status status = fb_event_open(out, guest, &a);

    if (status == FB_OK) status = give_layers(*out);
    if (status == FB_OK) status = fb_event_select(*out, &facts);
    return status;
}

static void assert_same_sets(const fb_event *a, const int32_t *b, int64_t n)
{
    int64_t at = 0;

    for (int s = 0; s < LAYERS * KV_HEADS; s++) {
        int64_t count;
        const int32_t *p = fb_event_kept(a, s / KV_HEADS, s % KV_HEADS, &count);

        assert_true(at + count <= n);
        assert_memory_equal(p, b + at, (size_t)count * sizeof *p);
        at += count;
    }
    assert_int_equal(at, n);
}

/* All sets one behind the other. */
static int64_t sets_of(const fb_event *event, int32_t *out)
{
    int64_t n = 0;

    for (int s = 0; s < LAYERS * KV_HEADS; s++) {
        int64_t count;
        const int32_t *p = fb_event_kept(event, s / KV_HEADS, s % KV_HEADS, &count);

        memcpy(out + n, p, (size_t)count * sizeof *p);
        n += count;
    }
    return n;
}

static void how_a_tensor_lies_does_not_matter(void **state)
{
    const fb_event_about a = about("keydiff", "25%");
    static float turned[N][KV_HEADS][D + 3];
    static int32_t sets[LAYERS * KV_HEADS * N];
    fb_event_facts facts;
    fb_event *event;
    int64_t n;

    (void)state;
    assert_ok(keep(&event, "keydiff", "25%"));
    n = sets_of(event, sets);
    assert_int_equal(n, LAYERS * KV_HEADS * 75);
    fb_event_close(event);
    assert_ok(fb_event_open(&event, guest, &a));
    for (int l = 0; l < LAYERS; l++) {
        const fb_outside k = {
            turned, FB_F32, 0, {KV_HEADS, N, D}, {D + 3, KV_HEADS * (D + 3), 1}};

        for (int g = 0; g < KV_HEADS; g++)
            for (int j = 0; j < N; j++)
                memcpy(turned[j][g], keys[l][g][j], sizeof keys[l][g][j]);
        assert_ok(fb_event_layer(event, l, NULL, &k, NULL, 1));
    }
    assert_ok(fb_event_select(event, &facts));
    assert_int_equal(facts.entries, 75);
    assert_int_equal(facts.n_protected, 12);
    assert_same_sets(event, sets, n);
    fb_event_close(event);
}

/* Attention by hand, in double: the mean of the last two rows, then of a head's group. */
static double looked_at(int layer, int g, int j)
{
    double sum = 0;

    for (int h = 2 * g; h < 2 * g + 2; h++)
        for (int i = N - 2; i < N; i++) {
            double all = 0, own = 0;

            for (int m = 0; m <= i; m++) {
                double dot = 0, e;

                for (int d = 0; d < D; d++)
                    dot +=
                        (double)queries[layer][h][i][d] * (double)keys[layer][g][m][d];
                e = exp(0.3 * dot);
                all += e;
                if (m == j) own = e;
            }
            sum += own / all;
        }
    return sum / 4;
}

static void attention_is_of_queries_and_keys(void **state)
{
    fb_event *event;
    int64_t n;
    const int32_t *kept;
    double lowest = 1, highest = 0;

    (void)state;
    assert_ok(keep(&event, "snapkv:window=2,kernel=1", "30t"));
    assert_int_equal(fb_event_needs_of(event).queries, 2);
    kept = fb_event_kept(event, 1, 1, &n);
    assert_int_equal(n, 30);
    for (int j = 4, i = 4; j < N - 8; j++) {
        const double score = looked_at(1, 1, j);
        const bool stays = kept[i] == j;

        i += stays;
        if (stays && score < lowest) lowest = score;
        if (!stays && score > highest) highest = score;
    }
    assert_true(lowest >= highest * (1 - 1e-5));
    fb_event_close(event);
}

static void the_last_queries_are_enough_for_a_window(void **state)
{
    const fb_event_about a = about("snapkv:window=16", "20%");
    static int32_t sets[LAYERS * KV_HEADS * N];
    fb_event_facts facts;
    fb_event *event;
    int64_t n;

    (void)state;
    assert_ok(keep(&event, "snapkv:window=16", "20%"));
    n = sets_of(event, sets);
    fb_event_close(event);
    assert_ok(fb_event_open(&event, guest, &a));
    for (int l = 0; l < LAYERS; l++) {
        const fb_outside k = plain(&keys[l][0][0][0], KV_HEADS);
        fb_outside q = plain(&queries[l][0][N - 20][0], HEADS);

        q.shape[1] = 20;
        assert_ok(fb_event_layer(event, l, &q, &k, NULL, 0.3));
    }
    assert_ok(fb_event_select(event, &facts));
    assert_same_sets(event, sets, n);
    fb_event_close(event);
}

/* A sum that forgets nothing is the sum, made block by block; and a window that is put together
 * from blocks is the window. */
static void rules_that_follow_blocks_see_all_of_them(void **state)
{
    static const char *const pairs[][2] = {
        {"h2o:recent=0", "a2sf:decay=1"},
        {"snapkv:window=16", "blend(snapkv:window=16,a2sf,weights=1/0)"}};
    static int32_t sets[LAYERS * KV_HEADS * N];
    fb_event *event;
    int64_t n;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ok(keep(&event, pairs[i][0], "20%"));
        n = sets_of(event, sets);
        fb_event_close(event);
        assert_ok(keep(&event, pairs[i][1], "20%"));
        assert_same_sets(event, sets, n);
        fb_event_close(event);
    }
}

static void given_scores_are_selected_from_alike(void **state)
{
    fb_event_about a = about(NULL, "25%");
    static int32_t sets[LAYERS * KV_HEADS * N];
    static float scores[KV_HEADS][N];
    const fb_outside given = {scores, FB_F32, 0, {1, KV_HEADS, N}, {0, N, 1}};
    fb_event_facts facts;
    fb_event *event;
    int64_t n;

    (void)state;
    assert_ok(keep(&event, "knorm", "25%"));
    n = sets_of(event, sets);
    fb_event_close(event);
    a.given = "mine";
    assert_ok(fb_event_open(&event, guest, &a));
    assert_string_equal(fb_event_rule(event), "mine");
    for (int l = 0; l < LAYERS; l++) {
        for (int s = 0; s < KV_HEADS * N; s++) {
            double square = 0;

            for (int d = 0; d < D; d++)
                square += pow((double)keys[l][s / N][s % N][d], 2);
            scores[s / N][s % N] = -(float)square;
        }
        assert_ok(fb_event_scores(event, l, &given));
    }
    assert_ok(fb_event_select(event, &facts));
    assert_same_sets(event, sets, n);
    fb_event_close(event);
}

static void refuses(const fb_event_about *a, fb_status status, const char *words)
{
    fb_event *event;

    assert_int_equal(fb_event_open(&event, guest, a), status);
    assert_null(event);
    assert_non_null(strstr(fb_guest_error(), words));
}

static void what_cannot_be_is_refused_at_the_door(void **state)
{
    fb_event_about a = about("knorm", "25%");

    (void)state;
    a.heads = 5;
    refuses(&a, FB_USAGE, "5 query heads do not share 2");
    a.heads = HEADS, a.kv_heads = 1 << 20;
    refuses(&a, FB_USAGE, "not possible");
    a.kv_heads = KV_HEADS, a.tokens = 0;
    refuses(&a, FB_USAGE, "0 tokens");
    a.tokens = N, a.protect = 9;
    refuses(&a, FB_USAGE, "protection");
    a.protect = 0, a.dtype = FB_I64;
    refuses(&a, FB_UNSUPPORTED, "f32, f16 or bf16");
    a.dtype = FB_F32, a.budget = "1B";
    refuses(&a, FB_BUDGET, "256 bytes are the least");
    a.budget = "half";
    refuses(&a, FB_USAGE, "budget 'half'");
    a.budget = "25%", a.rule = "oracle";
    refuses(&a, FB_UNSUPPORTED, "still to come");
    a.rule = "nothing";
    refuses(&a, FB_USAGE, "unknown rule");
}

static void tensors_that_cannot_be_are_refused(void **state)
{
    const fb_event_about a = about("knorm", "25%");
    fb_outside k = plain(&keys[0][0][0][0], KV_HEADS);
    fb_event_facts facts;
    fb_event *event;

    (void)state;
    assert_ok(fb_event_open(&event, guest, &a));
    assert_int_equal(fb_event_layer(event, LAYERS, NULL, &k, NULL, 1), FB_USAGE);
    assert_int_equal(fb_event_layer(event, 0, NULL, NULL, NULL, 1), FB_USAGE);
    k.shape[1] = N - 1;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_USAGE);
    assert_non_null(strstr(fb_guest_error(), "[2, 299, 8]; [2, 300, 8] was expected"));
    k.shape[1] = N, k.stride[1] = -8;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_DEFECT);
    k.stride[1] = INT64_MAX / 2;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_DEFECT);
    k.stride[1] = D, k.dtype = FB_F64;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_DEFECT);
    k.dtype = FB_F32, k.device = 1;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_USAGE);
    k.device = 0, k.data = NULL;
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_DEFECT);
    assert_int_equal(fb_event_select(event, &facts), FB_USAGE);
    assert_non_null(strstr(fb_guest_error(), "layer 0 of 2 has no scores yet"));
    k.data = keys;
    assert_ok(fb_event_layer(event, 0, NULL, &k, NULL, 1));
    assert_int_equal(fb_event_layer(event, 0, NULL, &k, NULL, 1), FB_USAGE);
    assert_int_equal(fb_event_scores(event, 1, &k), FB_USAGE);
    assert_ok(fb_event_layer(event, 1, NULL, &k, NULL, 1));
    assert_ok(fb_event_select(event, &facts));
    assert_int_equal(fb_event_select(event, &facts), FB_USAGE);
    fb_event_close(event);
}

static void a_failing_allocation_is_said_and_nothing_is_lost(void **state)
{
    fb_status status = FB_NO_MEMORY;
    fb_event *event;

    (void)state;
    for (int64_t n = 1; status != FB_OK; n++) {
        assert_true(n < 1000);
        fb_memory_fail_at(n);
        status = keep(&event, "adakv(snapkv:window=16)", "25%");
        fb_memory_fail_at(0);
        if (status != FB_OK) assert_int_equal(status, FB_NO_MEMORY);
        fb_event_close(event);
    }
}

static void events_on_one_guest_do_not_meet(void **state)
{
    static int32_t sets[LAYERS * KV_HEADS * N];
    const fb_event_about a = about("knorm", "25%");
    fb_event *outer, *inner;
    fb_event_facts facts;
    int64_t n;

    (void)state;
    assert_ok(keep(&inner, "knorm", "25%"));
    n = sets_of(inner, sets);
    fb_event_close(inner);
    assert_ok(fb_event_open(&outer, guest, &a));
    for (int l = 0; l < LAYERS; l++) {
        const fb_outside k = plain(&keys[l][0][0][0], KV_HEADS);

        assert_ok(fb_event_layer(outer, l, NULL, &k, NULL, 1));
        assert_ok(keep(&inner, "snapkv:window=16", "10%"));
        fb_event_close(inner);
        assert_int_equal(keep(&inner, "full", "10%"), FB_BUDGET);
        fb_event_close(inner);
    }
    assert_ok(fb_event_select(outer, &facts));
    assert_same_sets(outer, sets, n);
    fb_event_close(outer);
}

static void work_is_counted_by_operator(void **state)
{
    double flops, bytes, attention = 0;
    fb_event *event;
    const char *name;
    int64_t calls;

    (void)state;
    assert_ok(keep(&event, "snapkv:window=16", "25%"));
    for (int i = 0; fb_event_work(event, i, &name, &calls, &flops, &bytes); i++)
        if (strcmp(name, "attention") == 0) attention = flops;
    assert_true(attention > LAYERS * HEADS * 16.0 * (N - 16) * 4 * D);
    fb_event_close(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_a_tensor_lies_does_not_matter),
        cmocka_unit_test(attention_is_of_queries_and_keys),
        cmocka_unit_test(the_last_queries_are_enough_for_a_window),
        cmocka_unit_test(rules_that_follow_blocks_see_all_of_them),
        cmocka_unit_test(given_scores_are_selected_from_alike),
        cmocka_unit_test(what_cannot_be_is_refused_at_the_door),
        cmocka_unit_test(tensors_that_cannot_be_are_refused),
        cmocka_unit_test(a_failing_allocation_is_said_and_nothing_is_lost),
        cmocka_unit_test(events_on_one_guest_do_not_meet),
        cmocka_unit_test(work_is_counted_by_operator),
    };

    return cmocka_run_group_tests(tests, open_guest, close_guest);
}
