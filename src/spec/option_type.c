/* option_type.c - a text becomes the canonical text of its type, or a refusal that says
 * what would be right.
 *
 * SPDX-License-Identifier: MIT
 */
#include "spec/option_type.h"
#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* True if `word` is one of the words of "a|b|c". */
bool fb_word_in(const char *words, const char *word)
{
    const size_t n = strlen(word);

    while (words != NULL && *words != '\0') {
        const size_t length = strcspn(words, "|");

        if (length == n && memcmp(words, word, n) == 0) return true;
        words += length + (words[length] == '|');
    }
    return false;
}

/* "a|b|c" as "a, b or c". */
static void print_words(const char *words, fb_text *out)
{
    while (*words != '\0') {
        const size_t length = strcspn(words, "|");
        const char *rest = words + length + (words[length] == '|');
        const bool is_last = *rest != '\0' && strchr(rest, '|') == NULL;

        fb_text_add(out, words, length);
        if (*rest != '\0') fb_text_puts(out, is_last ? " or " : ", ");
        words = rest;
    }
}

static void print_number_range(const fb_option *row, fb_text *out)
{
    const char *unit = row->type == FB_TYPE_PERCENT ? " %" : "";

    fb_text_printf(out, "%.15g to %.15g%s", row->low, row->high, unit);
    if (row->words != NULL) {
        fb_text_puts(out, ", or ");
        print_words(row->words, out);
    }
}

void fb_option_print_range(const fb_option *row, fb_text *out)
{
    switch (row->type) {
    case FB_TYPE_FLAG:
        fb_text_puts(out, "on or off");
        break;
    case FB_TYPE_INT:
    case FB_TYPE_REAL:
    case FB_TYPE_PERCENT:
    case FB_TYPE_INTS:
        print_number_range(row, out);
        break;
    case FB_TYPE_WORD:
        print_words(row->words, out);
        break;
    case FB_TYPE_SIZE:
        fb_text_puts(out, "a size as 1.5GiB, 512MiB, 64MB or 1000B");
        if (row->words != NULL) fb_text_puts(out, ", or ");
        if (row->words != NULL) print_words(row->words, out);
        break;
    case FB_TYPE_TIME:
        fb_text_puts(out, "a time as 90s, 15m or 2h");
        break;
    case FB_TYPE_PROTECT:
        fb_text_puts(out, "SINK+RECENT as 4+16, none or published");
        break;
    case FB_TYPE_DEVICE:
        fb_text_puts(out, "cpu, torch:cpu, torch:cuda:0, torch:mps or torch:xpu:0; "
                          "several as torch:cuda:0,cuda:1");
        break;
    default:
        break;
    }
}

/* A refusal: what was given, then what would be right. */
static fb_status refuse(const fb_option *row, const char *text, const char *problem)
{
    fb_text range = {0};
    fb_status status;

    fb_text_init(&range, 0);
    fb_option_print_range(row, &range);
    status = fb_fail(FB_USAGE, "'%s' %s; %s", text, problem, fb_text_string(&range));
    fb_text_clear(&range);
    return status;
}

static fb_status check_flag(const fb_option *row, const char *text, fb_text *out)
{
    if (fb_word_in("on|yes|true", text))
        fb_text_puts(out, "on");
    else if (fb_word_in("off|no|false", text))
        fb_text_puts(out, "off");
    else
        return refuse(row, text, "is neither on nor off");
    return FB_OK;
}

static fb_status check_int(const fb_option *row, const char *text, fb_text *out)
{
    int64_t value;

    if (!fb_parse_int(text, &value)) return refuse(row, text, "is not a whole number");
    if ((double)value < row->low || (double)value > row->high)
        return refuse(row, text, "is out of range");
    fb_text_printf(out, "%lld", (long long)value);
    return FB_OK;
}

/* A real number or a percentage: "0.02", "5%", "5 %". */
static fb_status check_real(const fb_option *row, const char *text, fb_text *out)
{
    const bool percent = row->type == FB_TYPE_PERCENT;
    size_t n = strlen(text);
    char number[64];
    double value;

    if (percent && n > 0 && text[n - 1] == '%') n--;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n >= sizeof number) return refuse(row, text, "is not a number");
    memcpy(number, text, n);
    number[n] = '\0';
    if (!fb_parse_real(number, &value))
        return refuse(row, text, percent ? "is not a percentage" : "is not a number");
    if (value < row->low || value > row->high)
        return refuse(row, text, "is out of range");
    fb_text_printf(out, "%.15g%s", value, percent ? "%" : "");
    return FB_OK;
}

static fb_status check_word(const fb_option *row, const char *text, fb_text *out)
{
    fb_text range = {0};
    fb_status status;

    if (fb_word_in(row->words, text)) {
        fb_text_puts(out, text);
        return FB_OK;
    }
    fb_text_init(&range, 0);
    fb_option_print_range(row, &range);
    status =
        fb_fail(FB_USAGE, "'%s' is not known here; %s", text, fb_text_string(&range));
    fb_text_clear(&range);
    return status;
}

static fb_status check_size(const fb_option *row, const char *text, fb_text *out)
{
    char least[32];
    int64_t bytes;

    if (fb_parse_size(text, &bytes) != FB_OK) return refuse(row, text, "is not a size");
    fb_print_size(row->low, least, sizeof least);
    if ((double)bytes < row->low)
        return fb_fail(FB_USAGE, "'%s' is too small; at least %s", text, least);
    fb_text_printf(out, "%lldB", (long long)bytes);
    return FB_OK;
}

static fb_status check_time(const fb_option *row, const char *text, fb_text *out)
{
    int64_t seconds;

    if (fb_parse_time(text, &seconds) != FB_OK || seconds == 0)
        return refuse(row, text, "is not a time");
    fb_text_printf(out, "%llds", (long long)seconds);
    return FB_OK;
}

static fb_status check_protect(const fb_option *row, const char *text, fb_text *out)
{
    int64_t sink, recent;

    if (fb_word_in("none|published", text)) {
        fb_text_puts(out, text);
        return FB_OK;
    }
    if (fb_parse_protect(text, &sink, &recent) != FB_OK)
        return refuse(row, text, "is not a protection");
    fb_text_printf(out, "%lld+%lld", (long long)sink, (long long)recent);
    return FB_OK;
}

/* One device of PyTorch, "cuda" or "cuda:1", by the names of those that can compute here.
 * The number is always written where there may be several, so that one device has one
 * name. */
static bool add_torch_device(const char *text, size_t n, fb_text *out)
{
    static const struct {
        const char *name;
        bool is_numbered;
    } kinds[] = {{"cpu", false}, {"cuda", true}, {"mps", false}, {"xpu", true}};
    const size_t n_name = strcspn(text, ":,");
    size_t k = 0;

    while (
        k < sizeof kinds / sizeof *kinds &&
        (strlen(kinds[k].name) != n_name || memcmp(kinds[k].name, text, n_name) != 0))
        k++;
    if (k == sizeof kinds / sizeof *kinds) return false;
    fb_text_puts(out, kinds[k].name);
    if (n_name == n) {
        if (kinds[k].is_numbered) fb_text_puts(out, ":0");
        return true;
    }
    /* ":0" to ":99", without a second way to write a number */
    if (!kinds[k].is_numbered || n < n_name + 2 || n > n_name + 3 ||
        strspn(text + n_name + 1, "0123456789") != n - n_name - 1 ||
        (text[n_name + 1] == '0' && n > n_name + 2))
        return false;
    fb_text_add(out, text + n_name, n - n_name);
    return true;
}

static fb_status check_device(const fb_option *row, const char *text, fb_text *out)
{
    const char *const prefix = "torch:";
    const char *at = text + strlen(prefix);

    if (strcmp(text, "cpu") == 0) {
        fb_text_puts(out, text);
        return FB_OK;
    }
    if (strncmp(text, prefix, strlen(prefix)) != 0)
        return refuse(row, text, "is no device");
    fb_text_puts(out, prefix);
    for (;; at++) {
        const size_t n = strcspn(at, ",");

        if (!add_torch_device(at, n, out)) return refuse(row, text, "is no device");
        at += n;
        if (*at == '\0') return FB_OK;
        fb_text_puts(out, ",");
    }
}

fb_status fb_option_check(const fb_option *row, const char *text, fb_text *out)
{
    if (fb_word_in(row->later, text))
        return fb_fail(FB_UNSUPPORTED, "'%s' is known but not built yet; %s%s", text,
                       row->words != NULL ? "there is: " : "leave it out",
                       row->words != NULL ? row->words : "");
    if (row->type != FB_TYPE_WORD && fb_word_in(row->words, text)) {
        fb_text_puts(out, text);
        return FB_OK;
    }
    switch (row->type) {
    case FB_TYPE_FLAG:
        return check_flag(row, text, out);
    case FB_TYPE_INT:
    case FB_TYPE_INTS:
        return check_int(row, text, out);
    case FB_TYPE_REAL:
    case FB_TYPE_PERCENT:
        return check_real(row, text, out);
    case FB_TYPE_SIZE:
        return check_size(row, text, out);
    case FB_TYPE_TIME:
        return check_time(row, text, out);
    case FB_TYPE_WORD:
        return check_word(row, text, out);
    case FB_TYPE_PROTECT:
        return check_protect(row, text, out);
    case FB_TYPE_DEVICE:
        return check_device(row, text, out);
    case FB_TYPE_LATER:
        return fb_fail(FB_UNSUPPORTED, "known but not built yet: %s", row->help);
    default:
        fb_text_puts(out, text); /* lists of expressions are typed by who uses them */
        return FB_OK;
    }
}

/* --- numbers with units --- */

typedef struct unit {
    const char *name;
    int64_t factor;
} unit;

/* "12.5MiB" with `units` ended by a NULL name; a bare number takes the first unit. */
static bool parse_units(const char *text, const unit *units, int64_t *out)
{
    char number[32];
    const size_t n = strspn(text, "0123456789.");
    const char *name = text + n;
    double value;
    int64_t factor = units->factor;

    if (n == 0 || n >= sizeof number) return false;
    memcpy(number, text, n);
    number[n] = '\0';
    while (*name == ' ')
        name++;
    if (*name != '\0') {
        while (units->name != NULL && strcmp(units->name, name) != 0)
            units++;
        if (units->name == NULL) return false;
        factor = units->factor;
    }
    if (!fb_parse_real(number, &value) || value * (double)factor > 9e15) return false;
    *out = (int64_t)(value * (double)factor);
    return true;
}

fb_status fb_parse_size(const char *text, int64_t *out)
{
    static const unit units[] = {
        {"B", 1},           {"kB", 1000},     {"KB", 1000},
        {"KiB", 1 << 10},   {"MB", 1000000},  {"MiB", 1 << 20},
        {"GB", 1000000000}, {"GiB", 1 << 30}, {"TB", 1000000000000},
        {"TiB", 1LL << 40}, {NULL, 0},
    };

    if (parse_units(text, units, out)) return FB_OK;
    return fb_fail(FB_USAGE, "'%s' is not a size; write 1.5GiB, 512MiB, 64MB or 1000B",
                   text);
}

static const int64_t MOST_SECONDS = INT64_MAX / 1000000000; /* clocks are in ns */

fb_status fb_parse_time(const char *text, int64_t *out)
{
    static const unit units[] = {
        {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};

    if (parse_units(text, units, out) && *out <= MOST_SECONDS) return FB_OK;
    return fb_fail(FB_USAGE, "'%s' is not a time; write 90s, 15m or 2h", text);
}

fb_status fb_parse_protect(const char *text, int64_t *sink_out, int64_t *recent_out)
{
    const char *plus = strchr(text, '+');
    char sink[24];

    if (plus != NULL && (size_t)(plus - text) < sizeof sink) {
        memcpy(sink, text, (size_t)(plus - text));
        sink[plus - text] = '\0';
        if (fb_parse_int(sink, sink_out) && fb_parse_int(plus + 1, recent_out) &&
            *sink_out >= 0 && *recent_out >= 0 && *sink_out <= 1000000 &&
            *recent_out <= 1000000)
            return FB_OK;
    }
    return fb_fail(FB_USAGE, "'%s' is not a protection; write SINK+RECENT as 4+16",
                   text);
}

void fb_print_size(double bytes, char *out, size_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit_index = 0;

    while (bytes >= 1024 && unit_index < 4) {
        bytes /= 1024;
        unit_index++;
    }
    (void)snprintf(out, n, "%.*f %s", unit_index == 0 ? 0 : 1, bytes,
                   units[unit_index]);
}
