/* builtin.c - the constructed model and its variants, as GGUF files in the program.
 *
 * tools/make_builtin_model.c makes them during the build and says what they are; the
 * assembler looks for them where the Makefile tells it to.
 *
 * SPDX-License-Identifier: MIT
 */
#include "model/builtin.h"

#include "base/embed.h"

#include <string.h>

FB_EMBED(builtin_gguf, "builtin.gguf");
FB_EMBED(builtin_good_gguf, "builtin_good.gguf");
FB_EMBED(builtin_bad_gguf, "builtin_bad.gguf");
FB_EMBED(builtin_quiet_gguf, "builtin_quiet.gguf");

static const struct {
    const char *name;
    const unsigned char *begin, *end;
} models[] = {
    {"builtin", builtin_gguf, builtin_gguf_end},
    {"builtin:good", builtin_good_gguf, builtin_good_gguf_end},
    {"builtin:bad", builtin_bad_gguf, builtin_bad_gguf_end},
    {"builtin:quiet", builtin_quiet_gguf, builtin_quiet_gguf_end},
};

bool fb_is_builtin(const char *name)
{
    return strcmp(name, "builtin") == 0 || strncmp(name, "builtin:", 8) == 0;
}

fb_status fb_builtin_find(fb_span *out, const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0) {
            *out = (fb_span){(const char *)models[i].begin,
                             (size_t)(models[i].end - models[i].begin)};
            return FB_OK;
        }
    return fb_fail(FB_NOT_FOUND,
                   "there is no '%s'; there are 'builtin', 'builtin:good', "
                   "'builtin:bad' and 'builtin:quiet'",
                   name);
}
