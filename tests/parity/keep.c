/* keep.c - what our rules keep of a text, for parity.py.
 *
 *     keep FOLDER [ENTRIES]
 *
 * FOLDER is a model with ids.txt and sketch.npy beside it (models.py). Standard input is a
 * line per case, all of one length together and within them all of one rule:
 *
 *     LENGTH WHAT ROUNDING BUDGET RULE          1000 set kvpress 10% adakv(snapkv)
 *
 * WHAT is `set`, or what else goes to the file ENTRIES: `entries` their keys and values,
 * slot by slot, keys of all slots first, `compact` the same renumbered. Protection is as
 * published. Output, a line per case: entries per head that the budget is; 'f' if the rule
 * fell back, 's' if it may keep less than is protected, or '-'; per slot the kept positions
 * as bits, lowest first, in hexadecimal.
 *
 * The random matrix of `leverage` is the one that kvpress drew: fb_normal below takes the
 * place of the library's.
 *
 * SPDX-License-Identifier: MIT
 */
#include "engine/variant.h"
#include "tests/support/npy.h"
#include "tests/support/reference.h"

#include <inttypes.h>
#include <math.h>

enum {
    MOST_IDS = 1 << 16,
    MOST_CASES = 1 << 13,
    MOST_RULES = 256,
    MOST_LINE = 512,
    MOST_PATH = 4096
};

typedef struct wish {
    int64_t n;
    bool is_compact, with_entries;
    fb_rounding rounding;
    fb_budget budget;
    char rule[MOST_LINE];
    int index; /* of its rule in the reading */
} wish;

static const char *folder;
static FILE *entries; /* NULL: none are wanted */

_Noreturn static void die(const char *sentence)
{
    (void)fprintf(stderr, "keep: %s\n", sentence);
    exit(2);
}

static void must(fb_status status)
{
    if (status != FB_OK) die(fb_error_message());
}

static const char *path_in_folder(const char *name)
{
    static char path[MOST_PATH];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* In layer l the l-th matrix that kvpress drew, of variance 1 / columns there. */
fb_tensor fb_normal(fb_ops *ops, const fb_signals *see, uint64_t seed, int64_t rows,
                    int64_t columns)
{
    const int64_t size = see->kv_heads * rows * columns;
    fb_tensor out;
    npy drawn;

    (void)seed;
    npy_open(&drawn, path_in_folder("sketch.npy"), "<f4");
    if (drawn.n_dims != 4 || drawn.shape[0] != see->n_layers ||
        drawn.shape[1] != see->kv_heads || drawn.shape[2] != rows ||
        drawn.shape[3] != columns)
        die("sketch.npy is of another shape");
    out = fb_from_host(ops, FB_F32, 3, drawn.shape + 1,
                       (const float *)drawn.data + see->layer * size);
    npy_close(&drawn);
    return fb_scale(ops, out, sqrt((double)columns));
}

static int64_t read_ids(int32_t *ids)
{
    FILE *file = fopen(path_in_folder("ids.txt"), "r");
    int64_t n = 0;

    if (file == NULL) die("the folder has no ids.txt");
    while (n < MOST_IDS && fscanf(file, "%" SCNd32, &ids[n]) == 1)
        n++;
    (void)fclose(file);
    return n;
}

static void read_wish(wish *w, const char *line)
{
    char what[16], rounding[16], budget[32];

    if (sscanf(line, "%" SCNd64 " %15s %15s %31s %511s", &w->n, what, rounding, budget,
               w->rule) != 5)
        die("a line is LENGTH WHAT ROUNDING BUDGET RULE");
    w->is_compact = strcmp(what, "compact") == 0;
    w->with_entries = w->is_compact || strcmp(what, "entries") == 0;
    w->rounding = strcmp(rounding, "kvpress") == 0 ? FB_ROUND_KVPRESS : FB_ROUND_EXACT;
    must(fb_budget_parse(&w->budget, budget));
    if (w->with_entries && entries == NULL) die("no file for entries is named");
}

static int read_wishes(wish *wishes)
{
    char line[MOST_LINE];
    int n = 0;

    for (; fgets(line, sizeof line, stdin) != NULL; n++) {
        if (n == MOST_CASES) die("too many cases");
        read_wish(&wishes[n], line);
    }
    return n;
}

/* How many of the next wishes one reading answers; numbers their rules. */
static int group_of(wish *wishes, int n)
{
    int i = 1;

    wishes[0].index = 0;
    for (; i < n && wishes[i].n == wishes[0].n &&
           wishes[i].is_compact == wishes[0].is_compact;
         i++)
        wishes[i].index =
            wishes[i - 1].index + (strcmp(wishes[i].rule, wishes[i - 1].rule) != 0);
    return i;
}

/* The rules of a group, each once. */
typedef struct rule_set {
    int n;
    fb_bound_rule *bound[MOST_RULES];
    fb_seeded_rule seeded[MOST_RULES];
} rule_set;

static void parse_rules(rule_set *rules, const wish *wishes, int n)
{
    for (int i = 0; i < n; i++) {
        const int r = wishes[i].index;

        if (r >= MOST_RULES) die("too many rules");
        if (r < rules->n) continue;
        must(fb_rule_parse(&rules->bound[r], wishes[i].rule));
        rules->seeded[r] = (fb_seeded_rule){.rule = rules->bound[r]};
        rules->n = r + 1;
    }
}

static void print_slot(const int32_t *position, int64_t count, int64_t n)
{
    int64_t at = 0;

    (void)putchar(' ');
    for (int64_t first = 0; first < n; first += 8) {
        unsigned bits = 0;

        for (; at < count && position[at] < first + 8; at++)
            bits |= 1u << (position[at] - first);
        (void)printf("%02x", bits);
    }
}

static void write_tensor(fb_ops *ops, fb_tensor a)
{
    size_t n = 1;
    float *numbers;

    for (int i = 0; i < fb_n_dims(ops, a); i++)
        n *= (size_t)fb_size(ops, a, i);
    numbers = fb_alloc(FB_ACCOUNT_other, n * sizeof *numbers);
    if (numbers == NULL) die("no memory");
    must(fb_to_host(ops, a, numbers, n * sizeof *numbers));
    if (fwrite(numbers, sizeof *numbers, n, entries) != n) die("cannot write entries");
    fb_free(numbers);
}

/* Of heads that keep equally many. */
static void write_entries(fb_ops *ops, const fb_variant *variant)
{
    for (int64_t l = 0; l < variant->reading->engine->shape.layers; l++) {
        fb_scope_open(ops);
        write_tensor(ops, fb_cache_keys(variant->arena, ops, l));
        write_tensor(ops, fb_cache_values(variant->arena, ops, l));
        fb_scope_close(ops);
    }
}

static void answer(const rig *r, fb_reading *reading, const wish *w)
{
    const fb_protect protect = {.kind = FB_PROTECT_PUBLISHED};
    const int64_t k =
        fb_budget_entries(&w->budget, &r->engine->shape, w->n, w->rounding);
    const fb_selection *kept;
    fb_variant *variant;

    must(fb_evict(&variant, reading, w->index, &protect, 0, k));
    kept = fb_variant_selection(variant);
    (void)printf("%" PRId64 " %s%s%s", k, kept->fallback ? "f" : "",
                 kept->shrunk ? "s" : "", kept->fallback || kept->shrunk ? "" : "-");
    for (int64_t s = 0; s < kept->kept.n_slots; s++)
        print_slot(kept->kept.position[s], kept->kept.count[s], w->n);
    (void)putchar('\n');
    if (w->with_entries) write_entries(r->ops, variant);
    fb_variant_free(variant);
}

static void answer_group(const int32_t *ids, const wish *wishes, int n)
{
    const fb_engine_options options = {.compact = wishes->is_compact};
    rule_set rules = {0};
    fb_reading *reading;
    rig r;

    parse_rules(&rules, wishes, n);
    rig_open(&r, folder, NULL, &options);
    must(fb_read(&reading, r.engine, ids, wishes->n, rules.seeded, rules.n, 0));
    for (int i = 0; i < n; i++)
        answer(&r, reading, &wishes[i]);
    fb_reading_free(reading);
    rig_close(&r);
    for (int i = 0; i < rules.n; i++)
        fb_bound_rule_free(rules.bound[i]);
}

int main(int argc, char **argv)
{
    static int32_t ids[MOST_IDS];
    static wish wishes[MOST_CASES];
    int64_t n_ids;
    int n;

    if (argc < 2 || argc > 3) die("usage: keep FOLDER [ENTRIES]");
    folder = argv[1];
    if (argc == 3 && (entries = fopen(argv[2], "wb")) == NULL)
        die("cannot write there");
    n_ids = read_ids(ids);
    n = read_wishes(wishes);
    for (int i = 0, n_group; i < n; i += n_group) {
        n_group = group_of(wishes + i, n - i);
        if (wishes[i].n > n_ids) die("ids.txt is shorter than that");
        answer_group(ids, wishes + i, n_group);
    }
    return entries != NULL && fclose(entries) != 0 ? 2 : 0;
}
