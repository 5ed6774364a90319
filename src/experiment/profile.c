/* profile.c - profiles read and written, and what they say of a ledger.
 *
 * SPDX-License-Identifier: MIT
 */
#include "experiment/profile.h"

#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 64 << 10, MOST_THREADS = 1 << 20 };

/* --- reading --- */

static const char *const keys[] = {
    "format",
    "name",
    "backend",
    "cpu",
    "date",
    "threads",
    "flops_per_s",
    "bytes_per_s",
    "seconds_per_call",
    "row_weights",
    "row_flops_per_s",
    "attention_flops_per_s",
    "attention_bytes_per_s",
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static fb_status check_keys(const fb_json *root)
{
    for (void *m = fb_json_first(root); m != NULL; m = fb_json_next(root, m)) {
        const char *key = fb_json_key(m), *nearest;
        bool is_known = false;

        for (int i = 0; i < N_KEYS; i++)
            is_known = is_known || strcmp(keys[i], key) == 0;
        if (is_known) continue;
        nearest = fb_nearest_word(key, keys, N_KEYS);
        return fb_fail(FB_FORMAT, "unknown key '%.40s'%s%s%s", key,
                       nearest != NULL ? "; did you mean '" : "",
                       nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    return FB_OK;
}

static fb_status read_word(const fb_json *root, const char *key, bool is_needed,
                           char *out, size_t n)
{
    const char *word;

    if (!is_needed && fb_json_get(root, key) == NULL) return FB_OK;
    FB_TRY(fb_json_want_string(&word, root, key));
    if (strlen(word) >= n || (is_needed && *word == '\0'))
        return fb_fail(FB_FORMAT, "'%s' has %zu bytes; %d to %zu are possible", key,
                       strlen(word), is_needed ? 1 : 0, n - 1);
    for (const char *c = word; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return fb_fail(FB_FORMAT, "'%s' has a control character", key);
    (void)snprintf(out, n, "%s", word);
    return FB_OK;
}

/* A rate that no device is below or above. */
static fb_status read_rate(const fb_json *root, const char *key, double *out)
{
    FB_TRY(fb_json_want_real(out, root, key));
    if (*out >= 1e3 && *out <= 1e21) return FB_OK;
    return fb_fail(FB_FORMAT, "'%s' is %g; 1e3 to 1e21 a second are possible", key,
                   *out);
}

static fb_status read_own_rate(const fb_json *root, const char *key, double *out)
{
    return fb_json_get(root, key) == NULL ? FB_OK : read_rate(root, key, out);
}

static fb_status read_call(const fb_json *root, double *out)
{
    if (fb_json_get(root, "seconds_per_call") == NULL) return FB_OK;
    FB_TRY(fb_json_want_real(out, root, "seconds_per_call"));
    if (*out >= 0 && *out <= 1) return FB_OK;
    return fb_fail(FB_FORMAT, "'seconds_per_call' is %g; 0 to 1 are possible", *out);
}

static fb_status read_threads(const fb_json *root, int64_t *out)
{
    if (fb_json_get(root, "threads") == NULL) return FB_OK;
    FB_TRY(fb_json_want_int(out, root, "threads"));
    if (*out >= 1 && *out <= MOST_THREADS) return FB_OK;
    return fb_fail(FB_FORMAT, "'threads' is %lld; 1 to %d are possible",
                   (long long)*out, MOST_THREADS);
}

static fb_status read_format(const fb_json *root)
{
    int64_t format;

    if (fb_json_get(root, "format") == NULL) return FB_OK;
    FB_TRY(fb_json_want_int(&format, root, "format"));
    if (format == 1) return FB_OK;
    return fb_fail(FB_UNSUPPORTED, "'format' is %lld; 1 is understood",
                   (long long)format);
}

static fb_status read_all(fb_profile *out, const fb_json *root)
{
    if (!fb_json_is_object(root))
        return fb_fail(FB_FORMAT, "a list, where a profile is an object");
    FB_TRY(check_keys(root));
    FB_TRY(read_format(root));
    FB_TRY(read_word(root, "name", true, out->name, sizeof out->name));
    FB_TRY(read_word(root, "backend", false, out->backend, sizeof out->backend));
    FB_TRY(read_word(root, "cpu", false, out->cpu, sizeof out->cpu));
    FB_TRY(read_word(root, "date", false, out->date, sizeof out->date));
    FB_TRY(read_threads(root, &out->threads));
    FB_TRY(read_rate(root, "flops_per_s", &out->flops_per_s));
    FB_TRY(read_rate(root, "bytes_per_s", &out->bytes_per_s));
    FB_TRY(read_word(root, "row_weights", false, out->row_weights,
                     sizeof out->row_weights));
    FB_TRY(read_own_rate(root, "row_flops_per_s", &out->row_flops_per_s));
    FB_TRY(read_own_rate(root, "attention_flops_per_s", &out->attention_flops_per_s));
    FB_TRY(read_own_rate(root, "attention_bytes_per_s", &out->attention_bytes_per_s));
    return read_call(root, &out->seconds_per_call);
}

fb_status fb_profile_parse(fb_profile *out, const char *text, size_t n)
{
    fb_json *root = NULL;
    fb_status status;

    *out = (fb_profile){0};
    status = fb_json_parse(&root, text, n);
    if (status == FB_OK) status = read_all(out, root);
    fb_json_free(root);
    return status;
}

fb_status fb_profile_read(fb_profile *out, const char *path)
{
    fb_json *root = NULL;
    fb_status status;

    *out = (fb_profile){0};
    status = fb_json_read(&root, path, MOST_BYTES);
    if (status == FB_OK) status = read_all(out, root);
    fb_json_free(root);
    return fb_context(status, "profile '%s'", path);
}

/* --- writing --- */

static void add_word(fb_text *out, const char *key, const char *word)
{
    if (*word == '\0') return;
    fb_text_printf(out, ",\n \"%s\": ", key);
    fb_json_add_string(out, word);
}

static void add_real(fb_text *out, const char *key, double value)
{
    fb_text_printf(out, ",\n \"%s\": ", key);
    fb_json_add_real(out, value);
}

static void add_own_rate(fb_text *out, const char *key, double value)
{
    if (value > 0) add_real(out, key, value);
}

void fb_profile_print(const fb_profile *profile, fb_text *out)
{
    fb_text_puts(out, "{\"format\": 1");
    add_word(out, "name", profile->name);
    add_word(out, "backend", profile->backend);
    add_word(out, "cpu", profile->cpu);
    add_word(out, "date", profile->date);
    if (profile->threads > 0)
        fb_text_printf(out, ",\n \"threads\": %lld", (long long)profile->threads);
    add_real(out, "flops_per_s", profile->flops_per_s);
    add_real(out, "bytes_per_s", profile->bytes_per_s);
    add_real(out, "seconds_per_call", profile->seconds_per_call);
    add_word(out, "row_weights", profile->row_weights);
    add_own_rate(out, "row_flops_per_s", profile->row_flops_per_s);
    add_own_rate(out, "attention_flops_per_s", profile->attention_flops_per_s);
    add_own_rate(out, "attention_bytes_per_s", profile->attention_bytes_per_s);
    fb_text_puts(out, "}\n");
}

bool fb_profile_is_measured(const fb_profile *profile)
{
    return profile->backend[0] != '\0';
}

/* --- seconds --- */

double fb_profile_seconds(const fb_profile *profile, double flops, double bytes)
{
    const double computing = flops / profile->flops_per_s;
    const double reading = bytes / profile->bytes_per_s;

    return computing > reading ? computing : reading;
}

/* Nearly all that a product moves is its weight. */
static double bytes_of(const fb_ledger *ledger, fb_phase phase, int scope, int op,
                       double weight_share)
{
    const double bytes = ledger->count[phase][scope][op].bytes;

    return op == FB_OP_linear ? bytes * weight_share : bytes;
}

/* Units of work at a rate of its own; a rate of 0 is not known. */
static double at_rate(double units, double rate)
{
    return rate > 0 ? units / rate : 0;
}

static double seconds_of(const fb_profile *p, fb_phase phase, int op, double flops,
                         double bytes)
{
    const bool has_one_row = phase == FB_PHASE_answer || phase == FB_PHASE_decode;
    const double seconds = fb_profile_seconds(p, flops, bytes);
    double own = 0;

    if (op == FB_OP_linear && has_one_row) own = at_rate(flops, p->row_flops_per_s);
    if (op == FB_OP_attention)
        own = has_one_row ? at_rate(bytes, p->attention_bytes_per_s)
                          : at_rate(flops, p->attention_flops_per_s);
    return own > seconds ? own : seconds;
}

double fb_profile_phase_seconds(const fb_profile *profile, const fb_ledger *ledger,
                                fb_phase phase, double weight_share)
{
    double seconds = 0;

    for (int s = 0; s < FB_SCOPE_COUNT; s++)
        for (int op = 0; op < FB_OP_COUNT; op++) {
            const fb_count *count = &ledger->count[phase][s][op];

            seconds += seconds_of(profile, phase, op, count->flops,
                                  bytes_of(ledger, phase, s, op, weight_share));
            seconds += (double)count->calls * profile->seconds_per_call;
        }
    return seconds;
}

double fb_profile_phase_bytes(const fb_ledger *ledger, fb_phase phase,
                              double weight_share)
{
    double bytes = 0;

    for (int s = 0; s < FB_SCOPE_COUNT; s++)
        for (int op = 0; op < FB_OP_COUNT; op++)
            bytes += bytes_of(ledger, phase, s, op, weight_share);
    return bytes;
}

double fb_profile_phase_flops(const fb_ledger *ledger, fb_phase phase)
{
    double flops = 0;

    for (int s = 0; s < FB_SCOPE_COUNT; s++)
        flops += fb_ledger_total(ledger, phase, (fb_scope)s).flops;
    return flops;
}
