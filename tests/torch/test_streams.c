/* test_streams.c - texts that come in under a budget, on both backends: the same entries are
 * left in the end.
 *
 * Every rule that streams, on small models with random weights. What leaves early changes all
 * that is read later, so a difference would grow. Two scores that are nearer to each other than
 * the backends' rounding may change places: in few streams and of few entries, which are
 * printed.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/random.h"
#include "tests/support/device.h"
#include "tests/support/rig.h"
#include "tests/support/small_rules.h"

#define LLAMA "tests/golden/families/llama_tied"
#define QWEN  "tests/golden/families/qwen3_mixed"
#define SAME  0.98 /* of the entries, of every stream */
#define EQUAL 0.95 /* of the streams */

enum { N = 120, TEXTS = 3 };

static const fb_protect protect = {FB_PROTECT_EXPERIMENT, 2, 2};
static int32_t ids[N];

struct side {
    rig rig;
    fb_reading *reading;
};

static void open_side(struct side *side, const char *model, const char *device)
{
    rig_open(&side->rig, model, &(fb_ops_options){.device = device, .threads = 2},
             NULL);
}

static fb_variant *stream_in(struct side *side, const fb_bound_rule *rule, int64_t k,
                             int64_t chunk)
{
    const fb_seeded_rule seeded = {rule, 1};
    fb_variant *out;

    assert_ok(fb_stream_in(&out, side->reading, &seeded, ids, &protect,
                           &(fb_pace){.k = k, .chunk = chunk}));
    return out;
}

/* Entries that both hold. */
static int64_t common(const fb_kept *a, const fb_kept *b)
{
    int64_t n = 0;

    for (int64_t s = 0; s < a->n_slots; s++)
        for (int64_t i = 0, j = 0; i < a->count[s] && j < b->count[s];) {
            const int32_t x = a->position[s][i], y = b->position[s][j];

            n += x == y;
            i += x <= y;
            j += y <= x;
        }
    return n;
}

/* 1 if the streams end with the same entries. */
static int compare(struct side *native, struct side *torch, const fb_bound_rule *rule,
                   int64_t k, int64_t chunk)
{
    fb_variant *a = stream_in(native, rule, k, chunk);
    fb_variant *b = stream_in(torch, rule, k, chunk);
    const fb_kept *first = &fb_variant_selection(a)->kept;
    const fb_kept *second = &fb_variant_selection(b)->kept;
    const int64_t all = fb_kept_total(first), same = common(first, second);

    assert_int_equal(fb_kept_total(second), all);
    assert_string_equal(fb_variant_trace(a), fb_variant_trace(b));
    if (same < all)
        print_message("%s, budget %d in chunks of %d: %d of %d entries are the same\n",
                      fb_bound_rule_text(rule), (int)k, (int)chunk, (int)same,
                      (int)all);
    holds((double)same >= SAME * (double)all);
    fb_variant_free(a);
    fb_variant_free(b);
    return same == all;
}

static void read_text(struct side *side)
{
    assert_ok(fb_read(&side->reading, side->rig.engine, ids, N, NULL, 0, 1));
}

static void compare_model(const char *model)
{
    struct side native, torch;
    int equal = 0, all = 0;

    open_side(&native, model, "cpu");
    open_side(&torch, model, test_device());
    for (int64_t text = 0; text < long_or_short(10 * TEXTS, TEXTS); text++) {
        numbers r = {(uint64_t)text};

        for (int64_t i = 0; i < N; i++)
            ids[i] = (int32_t)number_int(
                &r, 0, fb_model_get_facts(native.rig.model)->vocabulary - 1);
        read_text(&native);
        read_text(&torch);
        for (int i = 0; i < fb_rule_count(); i++) {
            fb_bound_rule *rule = small_bind(fb_rule_at(i), &r);

            if (small_evicts(rule) && fb_bound_rule_streams(rule)) {
                const int64_t k = number_int(&r, 40, 90);

                equal += compare(&native, &torch, rule, k, number_int(&r, 1, 20));
                all++;
            }
            fb_bound_rule_free(rule);
        }
        fb_reading_free(native.reading);
        fb_reading_free(torch.reading);
    }
    print_message("%s: %d of %d streams end with the same entries\n", model, equal,
                  all);
    assert_true((double)equal >= EQUAL * (double)all);
    rig_close(&native.rig);
    rig_close(&torch.rig);
}

static void a_llama_streams_alike(void **state)
{
    (void)state;
    compare_model(LLAMA);
}

static void layers_with_windows_stream_alike(void **state)
{
    (void)state;
    compare_model(QWEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_streams_alike),
        cmocka_unit_test(layers_with_windows_stream_alike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
