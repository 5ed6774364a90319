/* task_names.c - tasks of one kind are told apart by the parameters that differ.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "store/reader.h"

#include <string.h>

static bool are_equal(const fb_json *a, const fb_json *b)
{
    int64_t x, y;
    double v, w;

    if (a == NULL || b == NULL) return a == b;
    if (fb_json_string(a) != NULL || fb_json_string(b) != NULL)
        return fb_json_string(a) != NULL && fb_json_string(b) != NULL &&
               strcmp(fb_json_string(a), fb_json_string(b)) == 0;
    if (fb_json_int(a, &x) && fb_json_int(b, &y)) return x == y;
    if (fb_json_real(a, &v) && fb_json_real(b, &w)) return !(v < w) && !(v > w);
    return strcmp(fb_json_type(a), fb_json_type(b)) == 0;
}

static void add_value(fb_text *out, const fb_json *value)
{
    int64_t whole;
    double real;

    if (fb_json_string(value) != NULL)
        fb_text_puts(out, fb_json_string(value));
    else if (fb_json_int(value, &whole))
        fb_text_printf(out, "%lld", (long long)whole);
    else if (fb_json_real(value, &real))
        fb_text_add_real(out, real);
    else
        fb_text_puts(out, fb_json_type(value));
}

static bool is_twin(const fb_result_task *tasks, int a, int b)
{
    return a != b && strcmp(tasks[a].kind, tasks[b].kind) == 0;
}

/* Parameters that are not what they are in every other task of the kind, then the data
 * if that is all there is. `params` [n]: as JSON, NULL where there are none. */
static void add_name(fb_text *out, const fb_result_task *tasks, int n, int at,
                     fb_json *const *params)
{
    const char *separator = ":";
    bool has_twin = false;

    fb_text_puts(out, tasks[at].kind);
    for (void *m = fb_json_first(params[at]); m != NULL;
         m = fb_json_next(params[at], m)) {
        bool differs = false;

        for (int i = 0; i < n; i++)
            differs = differs || (is_twin(tasks, at, i) &&
                                  !are_equal(fb_json_value(m),
                                             fb_json_get(params[i], fb_json_key(m))));
        if (!differs) continue;
        fb_text_printf(out, "%s%s=", separator, fb_json_key(m));
        add_value(out, fb_json_value(m));
        separator = ",";
    }
    for (int i = 0; i < n; i++)
        has_twin = has_twin || is_twin(tasks, at, i);
    if (has_twin && *separator == ':' && tasks[at].data_sha256 != NULL)
        fb_text_printf(out, ":sha256=%.8s", tasks[at].data_sha256);
}

fb_status fb_name_tasks(fb_pool *pool, fb_result_task *tasks, int n)
{
    fb_json **params = fb_pool_take(pool, (size_t)n, sizeof *params);
    fb_text name = {0};
    fb_status status = fb_pool_status(pool);

    fb_text_init(&name, 0);
    for (int i = 0; i < n && status == FB_OK; i++)
        if (tasks[i].params != NULL)
            status =
                fb_json_parse(&params[i], tasks[i].params, strlen(tasks[i].params));
    for (int i = 0; i < n && status == FB_OK; i++) {
        fb_text_clear(&name);
        add_name(&name, tasks, n, i, params);
        tasks[i].name = fb_pool_text(pool, fb_text_string(&name));
        status = fb_text_status(&name);
        if (status == FB_OK) status = fb_pool_status(pool);
    }
    for (int i = 0; params != NULL && i < n; i++)
        fb_json_free(params[i]);
    fb_text_clear(&name);
    return status;
}
