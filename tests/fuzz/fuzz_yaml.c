/* fuzz_yaml.c - any bytes as YAML: refused with a sentence, or a tree whose every place
 * can be pointed at.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/check.h"
#include "base/yaml.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const fb_yaml *yaml, const fb_yaml_node *node, int level)
{
    int n = 0;

    FB_ASSERT(level <= 32);
    FB_ASSERT((node->kind == FB_YAML_SCALAR) == (node->text != NULL));
    (void)fb_yaml_is_null(node);
    (void)fb_yaml_fail(FB_USAGE, yaml, &node->place, "a value");
    if (node->key != NULL)
        (void)fb_yaml_fail(FB_USAGE, yaml, &node->key_place, "key '%s'", node->key);
    for (const fb_yaml_node *child = node->first; child != NULL; child = child->next) {
        FB_ASSERT((node->kind == FB_YAML_MAP) == (child->key != NULL));
        FB_ASSERT(child->key == NULL || fb_yaml_get(node, child->key) == child);
        walk(yaml, child, level + 1);
        n++;
    }
    FB_ASSERT(n == node->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fb_yaml *yaml;

    if (fb_yaml_parse(&yaml, "x", (const char *)data, size) == FB_OK)
        walk(yaml, fb_yaml_root(yaml), 1);
    else
        FB_ASSERT(yaml == NULL && fb_error_message()[0] != 0);
    fb_yaml_free(yaml);
    return 0;
}
