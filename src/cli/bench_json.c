/* bench_json.c - a bench as JSON, with every sample.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/json.h"
#include "cli/bench_print.h"

static void add_reals(const double *x, int64_t n, fb_text *out)
{
    fb_text_puts(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) fb_text_puts(out, ", ");
        fb_json_add_real(out, x[i]);
    }
    fb_text_puts(out, "]");
}

static void add_key_real(const char *key, double value, fb_text *out)
{
    fb_text_printf(out, ", \"%s\": ", key);
    fb_json_add_real(out, value);
}

static void add_figure(const char *key, const fb_bench_figure *figure, fb_text *out)
{
    fb_text_printf(out, ", \"%s\": {\"median\": ", key);
    fb_json_add_real(out, figure->median);
    add_key_real("low", figure->interval.low, out);
    add_key_real("high", figure->interval.high, out);
    fb_text_puts(out, "}");
}

/* --- an arm --- */

static fb_status add_seconds(const fb_bench_shown *shown, int i, fb_bench_what what,
                             fb_text *out)
{
    const fb_bench *b = shown->bench;
    fb_bench_figure figure;
    char key[32];

    fb_text_printf(out, ", \"%s_s\": ", fb_bench_names[what]);
    add_reals(b->arms[i].seconds[what], b->n, out);
    (void)snprintf(key, sizeof key, "%s_modelled_s", fb_bench_names[what]);
    add_key_real(key, fb_bench_modelled(b, shown->profile, i, what), out);
    if (b->n == 0) return FB_OK;
    (void)snprintf(key, sizeof key, "%s_figure_s", fb_bench_names[what]);
    FB_TRY(fb_bench_figure_of(&figure, b, i, what));
    add_figure(key, &figure, out);
    return FB_OK;
}

static void add_steps(const fb_bench *b, int i, fb_text *out)
{
    const int64_t n = b->options.answer - 1;

    fb_text_puts(out, ", \"steps_s\": [");
    for (int r = 0; r < b->n; r++) {
        if (r > 0) fb_text_puts(out, ", ");
        add_reals(b->arms[i].steps + r * n, n, out);
    }
    fb_text_puts(out, "]");
}

static void add_peaks(const fb_bench_arm *arm, fb_text *out)
{
    fb_text_puts(out, ", \"peak_bytes\": {");
    for (int p = 0; p < FB_BENCH_PHASES; p++) {
        fb_text_printf(out, "%s\"%s\": {", p > 0 ? ", " : "", fb_bench_phases[p]);
        for (int a = 0; a < FB_ACCOUNT_COUNT; a++)
            fb_text_printf(out, "%s\"%s\": %zu", a > 0 ? ", " : "",
                           fb_account_name((fb_account)a), arm->peak[p][a]);
        fb_text_puts(out, "}");
    }
    fb_text_puts(out, "}");
}

static void add_identity(const fb_bench *b, int i, fb_text *out)
{
    const fb_bench_arm *arm = &b->arms[i];
    char budget[64];

    fb_text_puts(out, "{\"rule\": ");
    fb_json_add_string(out, b->spec->rules[arm->rule].label);
    fb_text_puts(out, ", \"expression\": ");
    fb_json_add_string(out, fb_bound_rule_text(b->spec->rules[arm->rule].rule));
    fb_text_puts(out, ", \"budget\": ");
    if (arm->budget < 0) {
        fb_text_puts(out, "null");
    } else {
        fb_budget_print(&b->spec->budgets[arm->budget], budget, sizeof budget);
        fb_json_add_string(out, budget);
    }
    fb_text_printf(
        out,
        ", \"entries_per_head\": %lld, \"holds_all\": %s, \"kept_bytes\": %zu, "
        "\"tail_bytes\": %zu, \"held_bytes\": %zu",
        (long long)arm->k, arm->holds_all || arm->budget < 0 ? "true" : "false",
        arm->kept_bytes, arm->tail_bytes, arm->held_bytes);
}

static fb_status add_arm(const fb_bench_shown *shown, int i, fb_text *out)
{
    const fb_bench *b = shown->bench;
    fb_bench_figure ratio;

    add_identity(b, i, out);
    for (int w = 0; w < FB_BENCH_WHATS; w++)
        FB_TRY(add_seconds(shown, i, (fb_bench_what)w, out));
    add_key_real("read_flops",
                 fb_profile_phase_flops(&b->arms[i].ledger, FB_PHASE_context), out);
    add_key_real("evict_flops",
                 fb_profile_phase_flops(&b->arms[i].ledger, FB_PHASE_evict), out);
    add_key_real("token_flops", fb_bench_token_flops(b, i), out);
    add_key_real("token_bytes", fb_bench_token_bytes(b, i), out);
    if (b->n > 0 && b->arms[i].versus >= 0) {
        FB_TRY(fb_bench_ratio_of(&ratio, b, i, FB_BENCH_TOKEN));
        fb_text_printf(out, ", \"versus\": %d", b->arms[i].versus);
        add_figure("token_ratio", &ratio, out);
    }
    add_peaks(&b->arms[i], out);
    add_steps(b, i, out);
    fb_text_puts(out, "}");
    return FB_OK;
}

/* --- the whole --- */

static void add_orders(const fb_bench *b, fb_text *out)
{
    fb_text_puts(out, ", \"orders\": [");
    for (int r = 0; r < b->n; r++) {
        fb_text_puts(out, r > 0 ? ", [" : "[");
        for (int i = 0; i < b->n_arms; i++)
            fb_text_printf(out, "%s%d", i > 0 ? ", " : "", b->order[r * b->n_arms + i]);
        fb_text_puts(out, "]");
    }
    fb_text_puts(out, "]");
}

static void add_warning(void *self, const char *sentence)
{
    fb_text *out = self;

    if (out->n > 0 && out->bytes[out->n - 1] != '[') fb_text_puts(out, ", ");
    fb_json_add_string(out, sentence);
}

static fb_status add_warnings(const fb_bench_shown *shown, fb_text *out)
{
    const int threads = fb_threads_count(fb_ops_threads(shown->ops));

    fb_text_puts(out, ", \"warnings\": [");
    FB_TRY(fb_bench_warn(shown->bench, threads, add_warning, out));
    fb_text_puts(out, "]");
    return FB_OK;
}

static void add_machine(const fb_bench *b, fb_text *out)
{
    add_key_real("load_before", b->disturbance.load, out);
    add_key_real("other_cpus", b->disturbance.other_cpus, out);
    add_key_real("seconds", (double)b->ns * 1e-9, out);
}

fb_status fb_bench_add_json(const fb_bench_shown *shown, bool was_stopped, fb_text *out)
{
    const fb_bench *b = shown->bench;

    fb_text_printf(out,
                   "{\"context\": %lld, \"answer\": %lld, \"repetitions\": %d, "
                   "\"warmups\": %d, \"is_cut\": %s, \"was_stopped\": %s",
                   (long long)b->options.context, (long long)b->options.answer, b->n,
                   b->warmups, b->is_cut ? "true" : "false",
                   was_stopped ? "true" : "false");
    add_machine(b, out);
    fb_text_printf(out, ", \"profile_is_given\": %s, \"profile\": ",
                   shown->is_given ? "true" : "false");
    fb_profile_print(shown->profile, out);
    fb_text_puts(out, ", \"arms\": [");
    for (int i = 0; i < b->n_arms; i++) {
        if (i > 0) fb_text_puts(out, ",\n ");
        FB_TRY(add_arm(shown, i, out));
    }
    fb_text_puts(out, "]");
    add_orders(b, out);
    FB_TRY(add_warnings(shown, out));
    fb_text_puts(out, "}");
    return FB_OK;
}
