/* find.c - which experiment of a file is meant.
 *
 * SPDX-License-Identifier: MIT
 */
#include "base/text.h"
#include "store/query.h"

#include <stdio.h>
#include <string.h>

enum { MOST_KNOWN = 8, SHORT_HASH = 12 };

/* What was seen on a walk over the experiments, newest first. */
struct walk {
    const char *asked;
    int n, n_named, n_hashed;
    char newest[FB_HASH_HEX], named[FB_HASH_HEX], hashed[FB_HASH_HEX];
    fb_text known; /* "'a' (0123456789ab), 'b' (...)" */
};

static void add_known(struct walk *walk, const char *name, const char *sha256)
{
    if (walk->n < MOST_KNOWN)
        fb_text_printf(&walk->known, "%s'%.80s' (%.*s)", walk->n > 0 ? ", " : "", name,
                       SHORT_HASH, sha256);
    else if (walk->n == MOST_KNOWN)
        fb_text_puts(&walk->known, ", ...");
}

static void see(struct walk *walk, const char *name, const char *sha256)
{
    const char *asked = walk->asked == NULL ? "" : walk->asked;

    add_known(walk, name, sha256);
    if (walk->n++ == 0) (void)snprintf(walk->newest, FB_HASH_HEX, "%s", sha256);
    if (strcmp(name, asked) == 0 && walk->n_named++ == 0)
        (void)snprintf(walk->named, FB_HASH_HEX, "%s", sha256);
    if (strncmp(sha256, asked, strlen(asked)) == 0 && walk->n_hashed++ == 0)
        (void)snprintf(walk->hashed, FB_HASH_HEX, "%s", sha256);
}

static fb_status walk_all(struct walk *walk, fb_store *store)
{
    fb_query query;

    fb_query_open(&query, store,
                  "SELECT coalesce(name, ''), coalesce(spec_sha256, '') "
                  "FROM experiment ORDER BY id DESC",
                  NULL, 0);
    while (fb_query_next(&query))
        see(walk, fb_query_text(&query, 0), fb_query_text(&query, 1));
    FB_TRY(fb_query_close(&query));
    return fb_text_status(&walk->known);
}

/* A name comes before the beginning of a hash. */
static fb_status choose(const struct walk *walk, const fb_store *store,
                        const char **sha256_out)
{
    const int n = walk->n_named > 0 ? walk->n_named : walk->n_hashed;

    if (walk->n == 0)
        return fb_fail(FB_NOT_FOUND, "results '%s': no experiment in it", store->path);
    *sha256_out = walk->newest;
    if (walk->asked == NULL) return FB_OK;
    *sha256_out = walk->n_named > 0 ? walk->named : walk->hashed;
    if (n == 1) return FB_OK;
    return fb_fail(
        n == 0 ? FB_NOT_FOUND : FB_USAGE,
        "results '%s': %s '%.80s'\nhelp: by name or the beginning of the hash: "
        "%s",
        store->path, n == 0 ? "no experiment" : "several experiments are", walk->asked,
        fb_text_string(&walk->known));
}

fb_status fb_store_find(fb_store *store, const char *asked,
                        char sha256_out[FB_HASH_HEX], int *n_out)
{
    struct walk walk = {.asked = asked};
    const char *chosen = "";
    fb_status status = walk_all(&walk, store);

    if (status == FB_OK) status = choose(&walk, store, &chosen);
    (void)snprintf(sha256_out, FB_HASH_HEX, "%s", chosen);
    *n_out = walk.n;
    fb_text_clear(&walk.known);
    return status;
}
