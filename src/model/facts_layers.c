/* facts_layers.c - which layers see a window only.
 *
 * Gemma 3 (arXiv:2503.19786): five layers with a window, then one without. Mistral 7B
 * (arXiv:2310.06825) and Phi-3: all layers with a window. Qwen: the upper layers, if
 * asked for.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/facts_read.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

static fb_status refuse_type(const fb_family *family, const char *type)
{
    if (family->mixes_layers)
        return fb_fail(FB_UNSUPPORTED,
                       "'layer_types' holds '%s'; 'full_attention' and "
                       "'sliding_attention' are understood",
                       type);
    return fb_fail(FB_UNSUPPORTED,
                   "'layer_types' holds '%s' beside a window; only "
                   "'sliding_attention' is understood with '%s'",
                   type, family->name);
}

/* `layer_types`: one name per layer. */
static fb_status read_list(const fb_model_facts *f, fb_layer_facts *layer,
                           const fb_json *list)
{
    if ((int64_t)fb_json_count(list) != f->layers)
        return fb_fail(FB_FORMAT,
                       "'layer_types' has %zu elements; %" PRId64
                       ", one per layer, would be right",
                       fb_json_count(list), f->layers);
    for (int64_t i = 0; i < f->layers; i++) {
        const char *type = fb_json_string(fb_json_at(list, (size_t)i));

        if (type != NULL && strcmp(type, "sliding_attention") == 0)
            layer[i].window = f->window;
        else if (type == NULL || strcmp(type, "full_attention") != 0 ||
                 !f->family->mixes_layers)
            return refuse_type(f->family, type == NULL ? "?" : type);
    }
    return FB_OK;
}

/* Every n-th layer is global, or those below `from`, or none. */
static fb_status read_pattern(const fb_model_facts *f, fb_layer_facts *layer,
                              const fb_settings *s)
{
    int64_t every = f->family->global_every, from = 0;

    if (s->config != NULL) {
        from = f->family->window_from;
        FB_TRY(fb_config_int_or(s->config, "_sliding_window_pattern", 1, INT32_MAX,
                                &every));
        FB_TRY(fb_config_int_or(s->config, "sliding_window_pattern", 1, INT32_MAX,
                                &every));
    }
    FB_TRY(fb_settings_int_or(s, FB_FIELD_window_from, 0, INT32_MAX, &from));
    for (int64_t i = 0; i < f->layers; i++)
        if (i >= from && (every == 0 || (i + 1) % every != 0))
            layer[i].window = f->window;
    return FB_OK;
}

static fb_status read_window(fb_model_facts *f, const fb_settings *s)
{
    bool is_used = !f->family->slides_only_if_said;

    if (!f->family->may_slide) {
        if (s->config == NULL)
            FB_TRY(fb_settings_int_or(s, FB_FIELD_window, 0, 0, &f->window));
        return FB_OK;
    }
    FB_TRY(fb_settings_bool_or(s, FB_FIELD_use_window, &is_used));
    if (!is_used) return FB_OK;
    if (s->config != NULL && fb_json_get(s->config, "sliding_window") == NULL)
        f->window = f->family->window;
    FB_TRY(fb_settings_int_or(s, FB_FIELD_window, 0, INT32_MAX, &f->window));
    if (f->window > 0 || f->family->global_every == 0) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is missing",
                   fb_settings_key(s, FB_FIELD_window).text);
}

/* Numbers the layers of either kind. A window that no layer has is none. */
static void number(fb_model_facts *f, fb_layer_facts *layer)
{
    int64_t with_window = 0;

    for (int64_t i = 0; i < f->layers; i++)
        with_window += layer[i].window > 0;
    if (with_window == 0) f->window = 0;
    for (int64_t i = 0; i < f->layers; i++) {
        layer[i].slides = layer[i].window > 0 && with_window < f->layers;
        layer[i].rope = layer[i].slides ? FB_ROPE_LOCAL : FB_ROPE_GLOBAL;
        layer[i].index = layer[i].slides ? f->sliding_layers++ : f->global_layers++;
    }
}

fb_status fb_facts_read_layers(fb_model_facts *f, fb_facts_room *room,
                               const fb_settings *s)
{
    const fb_json *list =
        s->config == NULL ? NULL : fb_json_get(s->config, "layer_types");

    room->layer = fb_zalloc(FB_ACCOUNT_other, (size_t)f->layers * sizeof *room->layer);
    if (room->layer == NULL) return fb_fail(FB_NO_MEMORY, "no memory for a model");
    f->layer = room->layer;
    FB_TRY(read_window(f, s));
    if (f->window > 0 && fb_json_is_array(list))
        FB_TRY(read_list(f, room->layer, list));
    else if (f->window > 0)
        FB_TRY(read_pattern(f, room->layer, s));
    number(f, room->layer);
    f->longest = f->context_length;
    if (f->window > 0 && f->sliding_layers == 0 && f->window < f->longest)
        f->longest = f->window;
    return FB_OK;
}
