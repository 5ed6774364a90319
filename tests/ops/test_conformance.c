/* test_conformance.c - every operator of the table against a slow reference in double: the
 * checks of conformance.h on the backend of device.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "tests/ops/conformance.h"
#include "tests/support/device.h"
#include "tests/support/hidden_backend.h"

static void every_operator_is_what_its_reference_is(void **state)
{
    static const char *const isas[] = {NULL, "plain"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const fb_ops_options options = {
            .device = test_device(), .isa = isas[i], .threads = 2};

        if (i > 0 && !test_is_native()) break;
        if (fb_ops_open(&ops, &options) != FB_OK && i > 0) break; /* aarch64 */
        assert_non_null(ops);
        check_all(long_or_short(1000, 200));
        fb_ops_close(ops);
    }
}

static void nobody_above_needs_to_see_data(void **state)
{
    fb_backend backend;

    (void)state;
    assert_ok(hidden_open(&ops, &backend,
                          &(fb_ops_options){.device = test_device(), .threads = 2}));
    check_all(5);
    fb_ops_close(ops);
}

static void every_operator_has_a_kernel(void **state)
{
    (void)state;
    for (int op = 0; op < FB_OP_COUNT; op++) {
        assert_non_null(fb_backend_native.kernels[op]);
        assert_non_null(fb_backend_torch.kernels[op]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_kernel),
        cmocka_unit_test(every_operator_is_what_its_reference_is),
        cmocka_unit_test(nobody_above_needs_to_see_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
