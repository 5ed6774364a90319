/* test_models.c - real models of several families compute what transformers computes on
 * the same dequantised weights.
 *
 * A running text of 2,000 tokens; logits at positions 0 to 1,999: the 24 largest and the
 * logsumexp, within 2e-4 of the row's largest |logit|, the same first one. The default
 * model must be there; the larger ones are looked for in FLEXBUDGET_TEST_MODELS
 * (build/models if it is not set) and skipped where they are not;
 * tests/golden/models/README.md says which they are.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "tests/support/reference.h"

#include <string.h>
#include <unistd.h>

enum { MOST_ROWS = 8 };

static double log_sum_exp(const float *x, int64_t n)
{
    double most = (double)x[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

/* The largest difference of a row, over its largest |logit|. */
static double row_differs(json_t *row, const float *logits, int64_t n)
{
    json_t *top = golden_at(row, "top_ids"), *values = golden_at(row, "top_logits");
    double worst = fabs(log_sum_exp(logits, n) - golden_number(row, "logsumexp"));
    const int64_t first = json_integer_value(json_array_get(top, 0));

    for (int64_t i = 0; i < n; i++)
        if (logits[i] > logits[first])
            fail_msg("position %d: %d is first, not %d",
                     (int)golden_number(row, "position"), (int)i, (int)first);
    for (size_t i = 0; i < json_array_size(top); i++) {
        const int64_t id = json_integer_value(json_array_get(top, i));

        worst = fmax(worst, fabs((double)logits[id] -
                                 json_number_value(json_array_get(values, i))));
    }
    return worst / golden_number(row, "largest");
}

static void check_logits(const char *name, const rig *the, json_t *golden)
{
    const int64_t n = fb_model_get_facts(the->model)->vocabulary;
    json_t *rows = golden_at(golden, "rows");
    const id_list ids = reference_ids(golden_at(golden, "ids"));
    const size_t n_rows = json_array_size(rows);
    int64_t position[MOST_ROWS];
    double worst = 0;
    float *logits;

    assert_true(n_rows > 0 && n_rows <= MOST_ROWS);
    logits = fb_alloc(FB_ACCOUNT_other, n_rows * (size_t)n * sizeof *logits);
    assert_non_null(logits);
    for (size_t r = 0; r < n_rows; r++)
        position[r] = (int64_t)golden_number(json_array_get(rows, r), "position");
    assert_ok(
        fb_logits(the->engine, ids.ids, ids.n, position, (int64_t)n_rows, logits));
    for (size_t r = 0; r < n_rows; r++)
        worst = fmax(worst,
                     row_differs(json_array_get(rows, r), logits + (int64_t)r * n, n));
    print_message("%-8s logits differ by %.1e of the largest\n", name, worst);
    assert_true(worst <= 2e-4);
    fb_free(logits);
    fb_free(ids.ids);
}

static void check_model(const char *name, bool is_needed)
{
    const char *folder = getenv("FLEXBUDGET_TEST_MODELS");
    fb_json *nothing;
    json_t *golden;
    char path[512];
    rig the;

    /* From the first use of base/json on jansson has the program's memory. */
    assert_ok(fb_json_parse(&nothing, "{}", 2));
    fb_json_free(nothing);
    snprintf(path, sizeof path, "tests/golden/models/%s.json", name);
    golden = golden_load(path);
    snprintf(path, sizeof path, "%s/%s", folder == NULL ? "build/models" : folder,
             json_string_value(golden_at(golden, "model")));
    if (!is_needed && access(path, R_OK) != 0) {
        json_decref(golden);
        print_message("skip: no %s\n", path);
        skip();
    }
    rig_open(&the, path, NULL, NULL);
    assert_string_equal(fb_model_get_facts(the.model)->sha256,
                        json_string_value(golden_at(golden, "sha256")));
    check_logits(name, &the, golden);
    rig_close(&the);
    json_decref(golden);
}

static void smol_is_that_of_transformers(void **state)
{
    (void)state;
    check_model("smol", getenv("FLEXBUDGET_TEST_MODELS") == NULL);
}

static void qwen2_is_that_of_transformers(void **state)
{
    (void)state;
    check_model("qwen05", false);
}

static void gemma3_is_that_of_transformers(void **state)
{
    (void)state;
    check_model("gemma", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smol_is_that_of_transformers),
        cmocka_unit_test(qwen2_is_that_of_transformers),
        cmocka_unit_test(gemma3_is_that_of_transformers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
