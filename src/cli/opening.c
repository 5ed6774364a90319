/* opening.c - see opening.h.
 *
 * SPDX-License-Identifier: MIT
 */
#include "cli/opening.h"

#include "base/memory.h"
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

/* --- stopping --- */

volatile sig_atomic_t fb_stop_asked;

static void on_signal(int number)
{
    if (fb_stop_asked != 0 && number == SIGINT) _exit(130);
    fb_stop_asked = 1;
}

void fb_stop_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    (void)sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGUSR1, &action, NULL);
}

/* --- opening --- */

void fb_open_warn(void *self, const char *sentence)
{
    (void)self;
    fb_say_warning(sentence);
}

void fb_open_problem(void *self, const char *sentence)
{
    int *n = self;

    ++*n;
    fb_say_error(sentence);
}

int fb_open_end(fb_status status, int n_said)
{
    return n_said == 0 ? fb_say_end(status) : fb_status_exit_code(status);
}

fb_status fb_open_environment(fb_spec *spec)
{
    fb_spec_unknown_environment(fb_open_warn, NULL);
    return fb_spec_environment(spec);
}

fb_status fb_open_ops(fb_ops **out, const fb_spec *spec, fb_open_for purpose)
{
    const int64_t threads = fb_values_int(&spec->values, FB_SET_threads);
    const char *isa = fb_values_text(&spec->values, FB_SET_isa);
    const char *torch = fb_values_text(&spec->values, FB_SET_torch);
    const fb_ops_options options = {
        .device = fb_values_text(&spec->values, FB_SET_device),
        .isa = strcmp(isa, "auto") == 0 ? NULL : isa,
        .threads = threads > 0 ? (int)threads : 0,
        .torch = strcmp(torch, "auto") == 0 ? NULL : torch,
        .precision = fb_spec_precision(spec),
        .any_shape = purpose == FB_OPEN_FOR_SPEED,
    };

    return fb_ops_open(out, &options);
}

fb_status fb_open_model(fb_model **out, fb_ops **ops_out, fb_spec *spec,
                        fb_open_for purpose)
{
    const char *name = fb_values_text(&spec->values, FB_SET_model);
    const fb_model_options form = {fb_spec_weights(spec)};
    char *path = NULL;
    fb_status status = fb_model_find(&path, name);

    *out = NULL;
    if (status == FB_OK && ops_out != NULL)
        status = fb_open_ops(ops_out, spec, purpose);
    if (status == FB_OK)
        status = fb_model_open(out, ops_out != NULL ? *ops_out : NULL, path, &form);
    fb_free(path);
    if (status != FB_OK) return status;
    return fb_spec_bind_model(spec, fb_model_get_facts(*out));
}

void fb_open_say_model(fb_text *out, const fb_spec *spec, const fb_model_facts *facts)
{
    fb_text_printf(out, "%s (%s, kv %s", facts->name, facts->weight_types,
                   fb_cache_type_name(fb_spec_cache(spec)));
    if (fb_spec_is_torch(spec))
        fb_text_printf(out, ", %s in %s", fb_values_text(&spec->values, FB_SET_device),
                       fb_values_text(&spec->values, FB_SET_precision));
    fb_text_puts(out, ")");
}
