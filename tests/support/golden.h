/* golden.h - reading the JSON files of tests/golden in tests.
 *
 * Tests run from the top of the source tree. A missing key or file fails the test.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include "tests/support/near.h"

#include <jansson.h>

/* A whole file; give it back with json_decref. */
static inline json_t *golden_load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_DECODE_ANY, &error);

    if (root == NULL) fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

/* A member by its path: golden_at(root, "seeded/percentile"). */
static inline json_t *golden_at(json_t *node, const char *path)
{
    char key[64];

    while (*path != 0) {
        size_t n = 0;

        while (path[n] != 0 && path[n] != '/')
            n++;
        assert_true(n < sizeof key);
        for (size_t i = 0; i < n; i++)
            key[i] = path[i];
        key[n] = 0;
        node = json_object_get(node, key);
        if (node == NULL) fail_msg("no key '%s'", key);
        path += path[n] == '/' ? n + 1 : n;
    }
    return node;
}

static inline double golden_number(json_t *node, const char *path)
{
    json_t *number = golden_at(node, path);

    assert_true(json_is_number(number));
    return json_number_value(number);
}

/* Fills `out` with the list at `path`; returns how many. */
static inline int golden_list(json_t *node, const char *path, double *out, int most)
{
    json_t *list = golden_at(node, path);
    const size_t n = json_array_size(list);

    assert_true(json_is_array(list) && n <= (size_t)most);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(list, i));
    return (int)n;
}

#endif
